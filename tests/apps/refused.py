# SPDX-License-Identifier: BSD-2-Clause
"""Programs where a sandbox refuses what the kernel has: each call alone, and
all at once, by filters that an ordinary user may install.  All that a program
starts, so its urnicd too, has the same filter.  They talk by shared memory and
by sockets; `urnic show` and `urnic doctor` name what is refused, alike."""

import json
import os
import signal
import subprocess
import time

from apps.rdmacm import meet
from harness.env import Case, Failure, finish
from harness.proc import SLOW

REFUSE = os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), 'netns', 'refuse.py')
UDP, GSO, GRO = 17, 103, 104
ENOSYS, ENOPROTOOPT = 38, 92

# The beginning of what `urnic show` calls it, and the rules of refuse.py.
CALLS = {
    'UDP_SEGMENT': [f'setsockopt:1={UDP}:2={GSO}!{ENOPROTOOPT}'],
    'UDP_GRO': [f'setsockopt:1={UDP}:2={GRO}!{ENOPROTOOPT}'],
    'membarrier': ['membarrier'],
    'io_setup': [f'io_setup!{ENOSYS}', 'io_submit'],
    'process_vm_readv': [f'process_vm_readv!{ENOSYS}',
                         f'process_vm_writev!{ENOSYS}'],
    'memfd_create': [f'memfd_create!{ENOSYS}'],
}

# By what a single one is used: sockets, shared memory, else both.  Without
# memfd_create, shared memory is wanted and is not to be had.
TRANSPORTS = {'UDP_SEGMENT': (0,), 'UDP_GRO': (0,), 'process_vm_readv': (1,),
              'memfd_create': (1,)}

PAIRS = [
    ('ibv_rc_pingpong -g {gid} -p {port} -c -s 100000 -n 200',) * 2,
    ('ibv_rc_pingpong -g {gid} -p {port} -c -e -n 300',) * 2,
    ('ibv_ud_pingpong -g {gid} -p {port} -c -n 300',) * 2,
    ('ib_write_bw -d urnic0 -x {gid} -p {port} -s 100000 -n 300',) * 2,
    ('ib_read_lat -d urnic0 -x {gid} -p {port} -s 5000 -n 300',) * 2,
    ('rping -s -a {a} -p {port} -C 20 -v', 'rping -c -p {port} -C 20 -v -a'),
]
FEW = [PAIRS[1], PAIRS[3]]    # for a single call


def forget(env):
    """The urnicd of the last programs had other rights."""
    for pid in env.a.pids():
        os.kill(pid, signal.SIGKILL)
    while env.a.pids():
        time.sleep(0.01)


def talk(env, gid, shm, rules, server, client):
    port = env.port()
    around = ['env', f'URNIC_SHM={shm}', REFUSE, *rules, '--']
    s, c = (around + argv.format(gid=gid, port=port, a=env.a.ip4).split()
            for argv in (server, client))
    if 'rping' not in server:
        env.pair(s, c + [env.a.ip4], port=port, timeout=60)
        return
    # It listens on the adapter only, and says nothing then.
    s, c = meet(env, s, c + [env.a.ip4])
    try:
        finish(s, c, 60)
    finally:
        s.end()
        c.end()


def refused_rows(env):
    """What `urnic show` lists of each process."""
    rows = [p['report']['refused'] for p in env.show(env.a)['processes']
            if p.get('report')]
    return [{row['call']: row for row in of} for of in rows]


def shown(env, gid, rules, expected):
    """While a pair runs that uses all of it."""
    port = env.port()
    argv = [REFUSE, *rules, '--', env.prog('event_pingpong'), '-g', gid, '-p',
            port, '-n', 10000000, '-M', 'epoll']
    s = env.run(env.a, *argv)
    try:
        s.wait_listen(port)
        c = env.run(env.b, *argv, env.a.ip4)
        end = time.monotonic() + 10 * SLOW
        while True:
            rows = refused_rows(env)
            if len(rows) == 2 and all(names(r) == expected for r in rows):
                return rows[0]
            if time.monotonic() > end or not c.running():
                raise Failure(f'show has {rows} instead of {expected}; '
                              f'{c.describe()}')
            time.sleep(0.05)
    finally:
        s.end()
        forget(env)


def names(rows):
    return {call.split()[0] for call in rows}


def doctor_agrees(env, rules, rows):
    r = subprocess.run(env.a.wrap([REFUSE, *rules, '--', env.urnic, 'doctor',
                                   '--json']), text=True, capture_output=True,
                       timeout=60 * SLOW)
    texts = [f['text'] for f in json.loads(r.stdout)['findings']
             if f['state'] == 'slow']
    for row in rows.values():
        want = f'{row["call"]}: {row["error"]}; {row["effect"]}'
        if want not in texts:
            raise Failure(f'urnic doctor has no "{want}" in {texts}')


def without(*calls):
    def run(env):
        env.a.needs_own('a urnicd of its own')
        gid = env.gid(env.a, 'v4')
        rules = [rule for call in calls for rule in CALLS[call]]
        expected = set(calls)
        if len(calls) > 1:    # without shared memory it is not tried
            expected.remove('process_vm_readv')
            transports, pairs = (1,), PAIRS
        else:
            transports, pairs = TRANSPORTS.get(calls[0], (0, 1)), FEW
        for shm in transports:
            forget(env)
            for server, client in pairs:
                talk(env, gid, shm, rules, server, client)
        rows = shown(env, gid, rules, expected)
        doctor_agrees(env, rules, rows)
    return run


def nothing_refused(env):
    """The list is empty where nothing is refused."""
    env.a.needs_own('a urnicd of its own')
    forget(env)
    shown(env, env.gid(env.a, 'v4'), [], set())


CASES = [Case(f'without {call}', without(call)) for call in CALLS]
CASES += [Case('without all of them', without(*CALLS)),
          Case('nothing refused', nothing_refused)]
