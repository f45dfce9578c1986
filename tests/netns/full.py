# SPDX-License-Identifier: BSD-2-Clause
"""Packets of an RC connection between two urnics fill the link's MTU.

The interface's own counters tell how many bytes the link carried for the
payload: no less of it per byte than TCP's segments have.
"""

import threading
import time

from harness.env import Case, Failure, words
from apps.perftest import check_table
from apps.pingpong import check

# Ethernet, IP and TCP with timestamps around a segment.
TCP_HEADERS = 14 + 20 + 32

SIZE = 1 << 20
ROUNDS = 400
# Send queue of the programs, at most.
DEPTH = 128
# On a busy machine a receive buffer may be full: this share is sent again.  With
# packets of 4,096 bytes the difference would be 0.003 at MTU 9000.
REPEATED = 0.002
# program, and which side sends the payload
TRAFFIC = (('write_bw', 'b'), ('send_bw', 'b'), ('read_bw', 'a'))


def counter(host, name):
    return int(host.sh('cat', f'/sys/class/net/{host.dev}/statistics/{name}'))


def run_bw(env, prog, args):
    port = env.port()
    base = [f'ib_{prog}', '-F', '-p', port] + words(args)
    s, c = env.pair(base, base + [env.a.ip4], port=port, timeout=60)
    check_table(c.text(), prog, args)
    return s


def efficiency(prog, sender):
    def run(env):
        env.place.real_packets()
        host = getattr(env, sender)
        before = counter(host, 'tx_bytes'), counter(host, 'tx_packets')
        run_bw(env, prog, f'-s {SIZE} -n {ROUNDS}')
        sent = counter(host, 'tx_bytes') - before[0]
        packets = counter(host, 'tx_packets') - before[1]
        mtu = env.place.mtu
        tcp = (mtu + 14 - TCP_HEADERS) / (mtu + 14)
        part = SIZE * ROUNDS / sent
        if part < tcp - REPEATED:
            raise Failure(f'{part:.4f} of {sent} bytes in {packets} packets '
                          f'was payload, {tcp:.4f} with TCP')
    return run


def limited(env):
    """A program that sets a smaller path MTU knows of a smaller MTU on the
    way: no packet exceeds it."""
    env.place.real_packets()
    before = counter(env.b, 'tx_bytes'), counter(env.b, 'tx_packets')
    run_bw(env, 'write_bw', f'-m 512 -s {SIZE} -n 20')
    mean = ((counter(env.b, 'tx_bytes') - before[0]) /
            (counter(env.b, 'tx_packets') - before[1]))
    if mean > 512 + 80:
        raise Failure(f'frames of {mean:.0f} bytes with a path MTU of 512')


def fragments(host):
    """IP packets that this host had to send as fragments."""
    rows = [line.split() for line in host.sh('cat', '/proc/net/snmp').split('\n')
            if line.startswith('Ip:')]
    v6 = dict(line.split() for line in
              host.sh('cat', '/proc/net/snmp6').strip().split('\n'))
    return int(dict(zip(*rows))['FragOKs']) + int(v6['Ip6FragOKs'])


def shrink(env, real, argv, verify):
    """The interfaces' MTU becomes smaller while messages are in flight that
    were cut for the larger one: they arrive, in fragments."""
    if real:
        env.place.real_packets()

    def sent():
        return sum(counter(h, 'tx_bytes') for h in env.place.hosts)

    def later():
        end = time.monotonic() + 20
        while sent() < start + 50 * SIZE and time.monotonic() < end:
            time.sleep(0.01)
        for h in env.place.hosts:
            h.sh('ip', 'link', 'set', h.dev, 'mtu', 1300)

    start = sent()
    before = sum(fragments(h) for h in env.place.hosts)
    t = threading.Thread(target=later)
    t.start()
    try:
        port = env.port()
        base = words(argv) + ['-p', port]
        s, c = env.pair(base, base + [env.a.ip4], port=port, timeout=60)
        verify(c.text())
    finally:
        t.join()
        for h in env.place.hosts:
            h.sh('ip', 'link', 'set', h.dev, 'mtu', env.place.mtu)
    sent_so = sum(fragments(h) for h in env.place.hosts) - before
    if not sent_so:
        raise Failure('nothing was in flight when the MTU became smaller')
    if sent_so > DEPTH * SIZE // 1400:
        raise Failure(f'{sent_so} packets were fragmented: messages are '
                      f'still begun for the larger MTU')


def shrink_bw(prog, real):
    args = f'-F -s {SIZE} -D 3'

    def run(env):
        shrink(env, real, f'ib_{prog} {args}',
               lambda text: check_table(text, prog, args))
    return run


def shrink_data(gid):
    args = f'-c -s {SIZE} -n 500'

    def run(env):
        # Both hosts have their addresses at the same indices.
        shrink(env, True,
               f'ibv_rc_pingpong {args} -g {env.gid(env.a, gid)}',
               lambda text: check(text, 'rc', args))
    return run


CASES = [Case(f'{prog}-payload', efficiency(prog, sender), where='veth')
         for prog, sender in TRAFFIC]
CASES.append(Case('smaller-path-mtu', limited, where='veth'))
CASES += [Case(f'{prog}-shrinks{"" if real else "-bursts"}',
               shrink_bw(prog, real), where='veth1500')
          for prog, real in (('write_bw', True), ('write_bw', False),
                             ('read_bw', True))]
CASES += [Case(f'data-shrinks-{gid}', shrink_data(gid), where='veth1500')
          for gid in ('v4', 'v6')]
