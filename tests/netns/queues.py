# SPDX-License-Identifier: BSD-2-Clause
"""Ports with several queues, of one process or of urnicd."""

import os
import signal
import time

from harness.env import Case, finish
from harness.proc import SLOW, Failure
from netns.ports import PORT, Joined, Memif, Tap, Veth, address


def lanes_of(env, host):
    return [lane for p in env.show(host)['processes']
            for lane in p.get('report', {}).get('lanes', ())]


def start_many(env, j, lanes, rounds, qps=64):
    """A program that compares what its queue pairs carry, on so many lanes."""
    tcp = env.port()
    argv = ['env', f'URNIC_LANES={lanes}', env.prog('many_qps'), '-g', 0, '-q',
            qps, '-n', rounds, '-p', tcp]
    s = j.proc(0, *argv)
    try:
        s.wait_listen(tcp)
        return s, j.proc(1, *argv, address(1))
    except BaseException:
        s.end()
        raise


def queues(n, lanes=None, rounds=3, kinds=('dpdk', 'dpdk'), **link):
    """Lanes with queues of their own; lanes without a queue use the host's
    interface."""
    def run(env):
        with Joined(env, *kinds, queues=n, **link) as j:
            s, c = start_many(env, j, lanes or n, rounds)
            try:
                finish(s, c, 60)
            finally:
                s.end()
                c.end()
    return run


def wait_interface(host, name):
    end = time.monotonic() + 20 * SLOW
    while name not in host.sh('ip', '-br', 'link'):
        if time.monotonic() > end:
            raise Failure(f'no {name}')
        time.sleep(0.05)


def queues_tap(env):
    """The kernel shares flows out to the queues of a TAP."""
    with Joined(env, 'dpdk', 'dpdk', link=Tap, queues=2) as j:
        s, c = start_many(env, j, 2, 3)
        try:
            for i, host in enumerate((env.a, env.b), 1):
                wait_interface(host, f'dpt{i}')
                j.link.running(host, i)
            finish(s, c, 60)
        finally:
            s.end()
            c.end()


def queues_shown(env):
    """Each lane has its queue, and reports it."""
    with Joined(env, 'dpdk', 'dpdk', link=Memif, queues=3) as j:
        s, c = start_many(env, j, 4, 100000)
        try:
            end = time.monotonic() + 20 * SLOW
            while len(lanes_of(env, env.a)) < 4:
                if time.monotonic() > end or not s.running():
                    raise Failure(s.describe())
                time.sleep(0.05)
            told = lanes_of(env, env.a)
            have = sorted(lane['port_driver']['queue'] for lane in told
                          if lane['link'] == 'dpdk')
            if have != [0, 1, 2] or told[0]['port_driver']['queues'] != 3:
                raise Failure(f'{told}')
        finally:
            c.end()
            s.end()


def queues_killed(env):
    """As `killed`, with several queues and traffic on all of them."""
    with Joined(env, 'dpdk', 'dpdk', queues=2) as j:
        for _ in range(2):
            s, c = start_many(env, j, 2, 100000)
            try:
                time.sleep(0.5)
                if not s.running():
                    raise Failure(s.describe())
                s.p.kill()
                s.wait(10)
            finally:
                s.end()
                c.end()
            if PORT in env.a.sh('ip', '-br', 'link'):
                raise Failure('its interface is left')
        s, c = start_many(env, j, 2, 3)
        try:
            finish(s, c, 60)
        finally:
            s.end()
            c.end()


def port_of(env, host):
    return env.show(host)['daemon']['ports'][0]


def wait_all(running):
    for p in running:
        if p.wait(60 * SLOW):
            raise Failure(p.describe())


def end_all(running):
    for p in running:
        p.end()


def start_bw(j, tcps, rounds):
    """A pair of processes for each, all at once."""
    running = []
    try:
        for tcp in tcps:
            argv = ['ib_send_bw', '-d', 'dp0', '-x', 0, '-p', tcp, '-s', 4096,
                    '-n', rounds, '-F']
            s = j.proc(0, *argv)
            running.append(s)
            s.wait_listen(tcp)
            running.append(j.proc(1, *argv, address(1)))
        return running
    except BaseException:
        end_all(running)
        raise


def threads_of(host):
    """Names of urnicd's threads that run ports."""
    names = []
    for pid in host.pids():
        for task in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{task}/comm') as f:
                names.append(f.read().strip())
    return sorted(n for n in names if n.startswith('urnicd-port'))


def shared_queues(n, **link):
    """urnicd has a thread for each queue and distributes lanes to them;
    traffic of several processes arrives as with one queue."""
    def run(env):
        with Joined(env, 'urnicd', 'urnicd', queues=n, **link) as j:
            told = threads_of(env.a)
            want = ['urnicd-port'] + [f'urnicd-port.{q}' for q in range(1, n)]
            if told != want:
                raise Failure(f'threads are {told}')
            # Enough that the first still runs when the last one has started.
            running = start_bw(j, [env.port() for _ in range(n)], 40000)
            try:
                spread = wait_spread(env, n, running)
                wait_all(running)
            finally:
                end_all(running)
            after = port_of(env, env.a)
            if after['lanes_lost'] or after['broken_lanes']:
                raise Failure(f'{after}')
            if spread['steered_lanes']:
                raise Failure(f'a driver that cannot steer has: {spread}')
    return run


def wait_spread(env, n, running):
    """Until each queue has a lane."""
    end = time.monotonic() + 20 * SLOW
    while True:
        told = port_of(env, env.a)
        if told['threads'] == n and min(told['lanes_of_queues']) > 0:
            return told
        if time.monotonic() > end or not all(p.running() for p in running):
            raise Failure(f'{told}')
        time.sleep(0.01)


def shared_queues_killed(env):
    """Clients of all threads are killed during traffic, repeatedly; urnicd
    keeps nothing of them, and serves the others."""
    with Joined(env, 'urnicd', 'urnicd', queues=2) as j:
        stay = start_bw(j, [env.port()], 100000)
        try:
            for _ in range(3):
                go = start_bw(j, [env.port() for _ in range(3)], 1000000)
                try:
                    wait_spread(env, 2, stay + go)
                    for p in go:
                        os.kill(p.p.pid, signal.SIGKILL)
                finally:
                    end_all(go)
            wait_all(stay)
        finally:
            end_all(stay)
        end = time.monotonic() + 10 * SLOW
        while port_of(env, env.a)['lanes']:
            if time.monotonic() > end:
                raise Failure(f'{port_of(env, env.a)}')
            time.sleep(0.05)


def link_lost(env):
    """The interface below goes down during traffic, and up again: connections
    that retry go on."""
    with Joined(env, 'urnicd', 'urnicd', queues=2) as j:
        running = start_bw(j, [env.port() for _ in range(2)], 20000)
        try:
            wait_spread(env, 2, running)
            for _ in range(3):
                env.a.sh('ip', 'link', 'set', Veth.dev, 'down')
                time.sleep(0.1)
                env.a.sh('ip', 'link', 'set', Veth.dev, 'up')
                time.sleep(0.3)
            wait_all(running)
        finally:
            end_all(running)


CASES = [
    Case('queues', queues(4)),
    Case('queues-memif', queues(2, link=Memif)),
    Case('queues-few', queues(2, 4, link=Memif)),
    Case('queues-none', queues(1, 2), full=True),
    Case('queues-shared', queues(3, kinds=('urnicd', 'dpdk'))),
    Case('queues-tap', queues_tap),
    Case('queues-shown', queues_shown),
    Case('queues-killed', queues_killed),
    Case('shared-queues', shared_queues(2)),
    Case('shared-queues-three', shared_queues(3), full=True),
    Case('shared-queues-memif', shared_queues(2, link=Memif)),
    Case('shared-queues-many', queues(2, 3, kinds=('urnicd', 'urnicd'))),
    Case('shared-queues-killed', shared_queues_killed),
    Case('shared-queues-link', link_lost),
]
