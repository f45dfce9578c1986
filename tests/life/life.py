# SPDX-License-Identifier: BSD-2-Clause
"""Programs that are killed, stopped, or asleep, and what urnicd makes of it.

An RC requester gives up after retry_cnt + 1 timeouts; IBTA lets each last up
to four times its nominal value (9.7.6.1.3).
"""

import os
import re
import signal
import time

from harness.env import Case, Failure, words
from harness.proc import Skip, cpu_ticks


def timeout_s(code):
    return 4.096e-6 * 2 ** code


def start(env, prog, args, gid='v4', wire=False):
    """A running pair of one of our programs: (server, client)."""
    port = env.port()
    base = ['env', 'URNIC_SHM=0'] if wire else []
    base += [env.prog(prog), '-p', port] + words(args)
    return env.pair(base + ['-g', env.gid(env.a, gid)],
                    base + ['-g', env.gid(env.b, gid), env.a.ip4],
                    port=port, wait=False)


def json_values(obj, key):
    """Every value under that key, at any depth."""
    if isinstance(obj, dict):
        for k, v in obj.items():
            if k == key:
                yield v
            yield from json_values(v, key)
    elif isinstance(obj, list):
        for v in obj:
            yield from json_values(v, key)


def known(env, host):
    """The pids that urnicd of a host knows."""
    return set(json_values(env.show(host), 'pid'))


def expect_known(env, host, pid, yes, within=3):
    end = time.monotonic() + within
    while (pid in known(env, host)) != yes:
        if time.monotonic() > end:
            raise Failure(f'urnic show: pid {pid} is '
                          + ('missing' if yes else 'still there')
                          + f': {env.show(host)}')
        time.sleep(0.05)


def new_pair_works(env):
    port = env.port()
    env.pair(['ibv_rc_pingpong', '-p', port, '-g', env.gid(env.a, 'v4')],
             ['ibv_rc_pingpong', '-p', port, '-g', env.gid(env.b, 'v4'),
              env.a.ip4], port=port, timeout=20)


def expect_retry_exc(client, code, retries, grace):
    """The client ends by itself, with the right status, in time."""
    low = timeout_s(code) * retries
    high = timeout_s(code) * (retries + 1) * 4 + grace
    exit_code = client.wait(high + 10)
    m = re.search(r'error (\d+) after (\d+) ms', client.text())
    if exit_code != 3 or not m:
        raise Failure(f'exit {exit_code}: {client.describe()}')
    if int(m[1]) != 12:
        raise Failure('wrong status: ' + client.describe())
    took = int(m[2]) / 1000
    if not low * 0.9 <= took <= high:
        raise Failure(f'RETRY_EXC after {took} s, not in {low:.2f}..'
                      f'{high:.2f} s')


def kill_server(code, retries):
    def run(env):
        s, c = start(env, 'stream', f'-u {code} -y {retries}')
        c.wait_text('running', 10)
        pid = s.leaf()
        expect_known(env, env.a, pid, True)
        s.signal(signal.SIGKILL)
        expect_retry_exc(c, code, retries, 1)
        expect_known(env, env.a, pid, False)
        new_pair_works(env)
    return run


def kill_pingpong(env):
    """Kill a server in mid-game; the client, or None if it goes on waiting.

    Now and then the server dies between its acknowledgement and its answer:
    then the client has nothing outstanding that could fail, on any adapter.
    """
    port = env.port()
    base = ['ibv_rc_pingpong', '-p', port, '-n', '100000000']
    s, c = env.pair(base + ['-g', env.gid(env.a, 'v4')],
                    base + ['-g', env.gid(env.b, 'v4'), env.a.ip4],
                    port=port, wait=False)
    time.sleep(0.5)
    s.signal(signal.SIGKILL)
    try:
        c.wait(5)
        return c
    except Failure:
        c.end()
        return None


def kill_pingpong_server(env):
    """The distribution's program prints the cause."""
    # Up to half of the clients wait on a busy machine, where the server's thread
    # may not run between its acknowledgement and its answer.
    for _ in range(8):
        c = kill_pingpong(env)
        if c:
            break
    else:
        raise Failure('eight clients did not notice that the server died')
    if 'transport retry counter exceeded' not in c.text():
        raise Failure(c.describe())
    new_pair_works(env)


def kill_client(env):
    """A killed client does not disturb the server; its slot is released."""
    s, c = start(env, 'stream', '')
    c.wait_text('running', 10)
    pid = c.leaf()
    expect_known(env, env.b, pid, True)
    c.signal(signal.SIGKILL)
    if s.wait(10) != 0:
        raise Failure('server: ' + s.describe())
    expect_known(env, env.b, pid, False)
    new_pair_works(env)


def kill_many(env):
    """Slots are not used up by processes that die."""
    rounds = 1100 if env.full else 30
    for _ in range(rounds):
        p = env.run(env.a, env.prog('leave'), '-M', 'exit')
        p.wait_text('leaving', 10)
        p.end()
    new_pair_works(env)


def stop_and_go_on(side):
    def run(env):
        # Through shared memory it would go on without the peer.
        s, c = start(env, 'stream', '-u 18 -n 20000' if env.full
                     else '-u 18 -n 3000', wire=True)
        c.wait_text('running', 10)
        p = s if side == 'server' else c
        p.signal(signal.SIGSTOP)
        time.sleep(2)
        if not c.running():
            raise Failure('the client ended during the stop: '
                          + c.describe())
        p.signal(signal.SIGCONT)
        if c.wait(120) != 0 or s.wait(10) != 0:
            raise Failure(f'client: {c.describe()}\n'
                          f'      server: {s.describe()}')
    return run


def stop_perftest(env):
    """The distribution's program with a timeout above the stop."""
    port = env.port()
    base = ['ib_write_bw', '-F', '-p', port, '-u', '18', '-s', '65536',
            '-D', '5']
    s, c = env.pair(base, base + [env.a.ip4], port=port, wait=False)
    time.sleep(2.5)
    s.signal(signal.SIGSTOP)
    time.sleep(2)
    s.signal(signal.SIGCONT)
    if c.wait(30) != 0 or s.wait(10) != 0:
        raise Failure(f'client: {c.describe()}\n      server: {s.describe()}')


def idle(env):
    """Without traffic neither programs nor urnicd use CPU time."""
    s, c = start(env, 'stream', '-M idle')
    for p in (s, c):
        p.wait_text('idle', 10)
    time.sleep(0.5)
    watched = {p.leaf(): 'a side' for p in (s, c)}
    watched.update({pid: 'urnicd' for h in env.place.hosts
                    for pid in daemons(h)})
    before = {pid: cpu_ticks(pid) for pid in watched}
    time.sleep(3)
    for pid, what in watched.items():
        used = cpu_ticks(pid) - before[pid]
        if used >= 2:
            raise Failure(f'{what} (pid {pid}) used {used} ticks in 3 s')


def daemons(host):
    """Pids of urnicd in a namespace of ours."""
    found = []
    for pid in host.pids():
        try:
            with open(f'/proc/{pid}/comm') as f:
                if f.read().strip() == 'urnicd':
                    found.append(pid)
        except OSError:
            pass
    return found


def one_daemon(env):
    """Programs that start at once start one urnicd between them."""
    env.a.needs_own('looks for its own urnicd')
    ps = [env.run(env.a, env.prog('leave')) for _ in range(8)]
    for p in ps:
        if p.wait(20) != 0:
            raise Failure(p.describe())
    if len(daemons(env.a)) != 1:
        raise Failure(f'{len(daemons(env.a))} urnicd run')


def daemon_dies(env):
    """Traffic goes on without urnicd, and the next program works."""
    env.a.needs_own('looks for its own urnicd')
    s, c = start(env, 'stream', '-n 4000')
    c.wait_text('running', 10)
    for pid in daemons(env.a):
        os.kill(pid, signal.SIGKILL)
    new_pair_works(env)
    if c.wait(60) != 0 or s.wait(10) != 0:
        raise Failure(f'client: {c.describe()}\n      server: {s.describe()}')
    new_pair_works(env)


def daemon_returns(env):
    """After a restart urnicd knows the programs that were running."""
    env.a.needs_own('looks for its own urnicd')
    s, c = start(env, 'stream', '-M idle')
    s.wait_text('idle', 10)
    for pid in daemons(env.a):
        os.kill(pid, signal.SIGKILL)
    new_pair_works(env)
    expect_known(env, env.a, s.leaf(), True)
    s.end()
    c.end()


def daemon_leaves(env):
    """An urnicd without clients ends by itself."""
    if not env.full:
        raise Skip('waits for a minute; only in the full run')
    env.call(env.a, 'ibv_devices')
    end = time.monotonic() + 90
    while daemons(env.a):
        if time.monotonic() > end:
            raise Failure('urnicd is still there')
        time.sleep(0.5)
    new_pair_works(env)


def shm_requests(env):
    """Requests of host a's processes through shared memory."""
    return sum(sum(json_values(env.show(env.a), name))
               for name in ('shm_requests', 'shm_direct'))


def shared_memory(wire, prog='stream', args='-u 18 -n 0'):
    """Two processes of one host use it, others do not, nor if disabled."""
    def run(env):
        s, c = start(env, prog, args, wire=wire)
        c.wait_text('running', 10)
        time.sleep(0.5)
        many = shm_requests(env)
        want = env.a is env.b and not wire
        if (many > 0) != want or not c.running():
            raise Failure(f'{many} requests through shared memory: '
                          f'{c.describe()}')
        for p in (c, s):
            p.signal(signal.SIGKILL)
            p.wait(10)
    return run


CASES = [
    Case('shared-memory', shared_memory(False)),
    Case('shared-memory-off', shared_memory(True)),
    Case('shared-memory-ud',
         shared_memory(False, 'datagrams', '-M ud -n 100000000')),
    Case('shared-memory-uc',
         shared_memory(False, 'datagrams', '-M uc -n 100000000')),
    Case('kill-server', kill_server(14, 7)),
    Case('kill-server-short', kill_server(13, 5)),
    Case('kill-server-pingpong', kill_pingpong_server),
    Case('kill-client', kill_client),
    Case('slots-come-back', kill_many),
    Case('stop-server', stop_and_go_on('server')),
    Case('stop-client', stop_and_go_on('client')),
    Case('stop-perftest', stop_perftest),
    Case('idle', idle),
    Case('one-daemon', one_daemon),
    Case('daemon-dies', daemon_dies),
    Case('daemon-returns', daemon_returns),
    Case('daemon-leaves', daemon_leaves, full=True),
]
