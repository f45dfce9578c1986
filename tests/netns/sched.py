# SPDX-License-Identifier: BSD-2-Clause
"""Scheduling of urnicd's port threads while programs want all cores."""

import os
import time

from harness.env import Case
from harness.proc import SLOW, Failure, Proc, Skip
from netns.ports import Joined, address


def few_cores(env):
    """While programs want all cores, threads of ports have real-time priority,
    and afterwards SCHED_OTHER again; not with priority 0."""
    def look(_):
        policy_is(env.a, os.SCHED_FIFO, 7)
        policy_is(env.b, os.SCHED_OTHER, 0)

    with Joined(env, 'urnicd', 'urnicd', priorities=(7, 0)) as j:
        burners = [Proc(['sh', '-c', 'while :; do :; done'])
                   for _ in range(os.cpu_count() + 1)]
        try:
            tcp = env.port()
            j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n',
                    2000], [address(1)], tcp, meanwhile=look)
            policy_is(env.b, os.SCHED_OTHER, 0)
        finally:
            for p in burners:
                p.end()
        policy_is(env.a, os.SCHED_OTHER, 0, j)


def policy_is(host, policy, priority, j=None):
    """Of the thread of its port, within seconds; it looks when it is woken,
    for which others may have to send something.  Then seconds do not count in
    which, or shortly before which, others want the cores."""
    left = 10 * SLOW
    end = time.monotonic() + 3 * left
    busy = 0
    while True:
        tid = port_thread(host)
        got = (os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK,
               os.sched_getparam(tid).sched_priority)
        if got == (policy, priority):
            return
        now = time.monotonic()
        if left < 0:
            raise Failure(f'policy and priority are {got}')
        if now > end:
            raise Skip('others want the cores all the time')
        if j:
            j.hosts[1].sh('ping', '-c', 1, '-W', 1, address(1), check=False)
        time.sleep(0.01)
        if j and crowded():
            busy = now
        if now - busy > 0.3:
            left -= time.monotonic() - now


def crowded():
    with open('/proc/loadavg') as f:
        return int(f.read().split()[3].split('/')[0]) > os.cpu_count()


def port_thread(host):
    for pid in host.pids():
        for tid in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{tid}/comm') as f:
                if f.read().strip() == 'urnicd-port':
                    return int(tid)
    raise Failure('no thread runs a port')


CASES = [
    Case('sched-few-cores', few_cores),
]
