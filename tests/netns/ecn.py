# SPDX-License-Identifier: BSD-2-Clause
"""A link with a short queue that marks packets (ECN): the receiver answers
marks by CNPs, and the sender sends so much less that nothing is dropped."""

import time

from harness.env import Case, Failure
from harness.mark import dropped, marking_queue

MBIT = 200
MARK = 32 << 10
# Holds the first window of a connection, but not the largest.
LIMIT = 400 << 10
SECONDS = 4
# Until the programs have started, on a busy machine.
PATIENCE = 30
# Of the rate.  On a busy machine the queue runs empty while programs wait for a
# processor.
SHARE = 0.05


def counters(env, host):
    """The sums over all lanes of urnic0 in the host's processes."""
    total = {}
    for p in env.show(host)['processes']:
        for lane in p.get('report', {}).get('lanes', []):
            for name, value in lane.get('counters', {}).items():
                total[name] = total.get(name, 0) + value
    return total


def seen(env, host, names, timeout):
    """Wait until the host's processes have counted all of these."""
    end = time.monotonic() + timeout
    while True:
        now = counters(env, host)
        if all(now.get(name) for name in names):
            return now
        if time.monotonic() > end:
            raise Failure(f'{names} expected, counted '
                          f'{({k: v for k, v in now.items() if v})}')
        time.sleep(0.1)


def rate(text):
    """MB/s, of the line of results of perftest."""
    rows = [line.split() for line in text.split('\n')
            if line.strip()[:1].isdigit()]
    return float(rows[-1][3])


def obeyed(prog, args, sender):
    """`sender`: the side that has the queue and sends the payload."""
    def run(env):
        here = getattr(env, sender)
        there = env.b if here is env.a else env.a
        env.place.real_packets()
        with marking_queue(here, MBIT, MARK, LIMIT):
            port = env.port()
            base = [f'ib_{prog}', '-F', '-p', port, '-D', SECONDS, '-f', 0,
                    *args.split()]
            s, c = env.pair(base, base + [env.a.ip4], port=port, wait=False)
            try:
                seen(env, there, ('np_ecn_marked_roce_packets', 'np_cnp_sent'),
                     PATIENCE)
                seen(env, here, ('rp_cnp_handled',), PATIENCE)
                for p in (c, s):
                    if p.wait(30):
                        raise Failure(f'{prog}: {p.describe()}')
                lost, got = dropped(here), rate(c.text())
            finally:
                s.end()
                c.end()
        if lost:
            raise Failure(f'{lost} packets were dropped')
        if got < SHARE * MBIT / 8:
            raise Failure(f'{got} MB/s at {MBIT} Mbit/s')
    return run


CASES = [
    Case('write', obeyed('write_bw', '-s 65536', 'b'), where='veth1500'),
    Case('send', obeyed('send_bw', '-s 4096', 'b'), where='veth1500'),
    Case('write-8-qps', obeyed('write_bw', '-s 65536 -q 8', 'b'),
         where='veth1500'),
]
