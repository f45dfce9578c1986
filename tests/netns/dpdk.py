# SPDX-License-Identifier: BSD-2-Clause
"""Ports that urnic runs itself, on DPDK's virtual devices."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from harness.env import Case, built, finish, words
from harness.proc import SLOW, Failure, Proc, Skip
from life.pcap import Capture, check_frames, fields
from life.watch import tool as on_client
from netns import hostile, queues, sched
from netns.config import File, device
from netns.ports import PORT, Joined, Memif, Ring, Tap, Veth, Xdp, address

DONE = 'return status 0'
TAKEN = 'another host has an address of ours'
# What mpirun calls to start something on another host.
RSH = """#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host && $*"
"""
START = """#!/bin/sh
config={a}
[ "$(hostname)" = {host} ] && config={b}
URNIC_CONFIG=$config exec {urnic} run -- {ring}
"""


def pingpong(kind, kinds=('dpdk', 'dpdk'), gid=0, args=(), **link):
    def run(env):
        with Joined(env, *kinds, **link) as j:
            tcp = env.port()
            j.pair([f'ibv_{kind}_pingpong', '-d', 'dp0', '-g', gid, '-p', tcp,
                    *args], [address(1)], tcp)
    return run


def write_bw(kind, **link):
    def run(env):
        with Joined(env, kind, kind, **link) as j:
            tcp = env.port()
            j.pair(['ib_write_bw', '-d', 'dp0', '-x', 0, '-p', tcp, '-s', 8192,
                    '-n', 500, '-F'], [address(1)], tcp)
    return run


def connect(server, client, kinds=('urnicd', 'urnicd'), expect='', **link):
    """Connections: CM messages pass the host's interface, data the port. The
    client tries again until the server listens."""
    def run(env):
        with Joined(env, *kinds, **link) as j:
            s = j.proc(0, *words(server))
            c = None
            try:
                for _ in range(50):
                    c = j.proc(1, *words(client))
                    if c.wait(30) == 0 and re.search(expect, c.text()):
                        break
                    if not s.running():
                        raise Failure(f'{s.describe()} {c.describe()}')
                    time.sleep(0.1)
                else:
                    raise Failure(c.describe())
                if s.wait(30) or not re.search(expect, s.text()):
                    raise Failure(s.describe())
            finally:
                s.end()
                if c:
                    c.end()
    return run


def rping(*kinds, **link):
    return connect('rping -s -C 20 -a 0.0.0.0',
                   f'rping -c -V -C 20 -a {address(1)}', kinds, **link)


def multicast(group, v6, *kinds):
    """The sender repeats until the receiver has got enough."""
    def run(env):
        with Joined(env, *kinds) as j:
            argv = ['mckey', '-m', group, '-b']
            s = j.proc(0, *argv, address(1, v6))
            end = time.monotonic() + 30 * SLOW
            try:
                while s.running() and time.monotonic() < end:
                    c = j.proc(1, *argv, address(2, v6), '-s')
                    if c.wait(30) or DONE not in c.text():
                        raise Failure(c.describe())
                    c.end()
                    time.sleep(0.1)
                if s.wait(1) or DONE not in s.text():
                    raise Failure(s.describe())
            finally:
                s.end()
    return run


UCX = ('--mca', 'pml', 'ucx', '-x', 'UCX_TLS=rc_v,ud_v,self', '-x',
       'UCX_NET_DEVICES=dp0:1')


def mpi(how, *kinds, **link):
    """Open MPI, two ranks on either host, which it takes for two machines:
    each has a name of its own, and "rsh" is a change of the namespace.  By UCX:
    Debian's openib was built without rdma_cm, and so refuses Ethernet."""
    def run(env):
        program = shutil.which('mpirun.openmpi')
        ring = os.path.join(env.progs, 'mpi_ring')
        if not program or not os.path.exists(ring):
            raise Skip('needs openmpi-bin and libopenmpi-dev')
        with Joined(env, *kinds, **link) as j, \
                tempfile.TemporaryDirectory() as tmp:
            rsh, start = os.path.join(tmp, 'rsh'), os.path.join(tmp, 'start')
            write(rsh, RSH)
            write(start, START.format(
                urnic=env.urnic, ring=ring, a=j.files[0].name,
                b=j.files[1].name, host=env.b.ns))
            p = Proc(env.a.wrap([
                'unshare', '-u', 'sh', '-c',
                f'hostname {env.a.ns} && exec "$@"', 'sh', program,
                '--allow-run-as-root', '--oversubscribe', '--host',
                f'{env.a.ns}:2,{env.b.ns}:2', '--mca', 'plm_rsh_agent', rsh,
                '--mca', 'oob_tcp_if_include', '10.9.0.0/24', *how, start]))
            try:
                if p.wait(60) or 'of 4 ranks are right' not in p.text():
                    raise Failure(p.describe(30))
                if kinds[0] == 'urnicd' and \
                        hostile.received(env, 'urnicd') < 1000:
                    raise Failure('it went another way')
            finally:
                p.end()
    return run


def pyverbs(kinds, gid, **link):
    """A process in Python at either end: what no program of others tries in one
    go, SRQ, immediate data and atomics among it.  pyverbs is the
    distribution's, so its own interpreter runs it."""
    def run(env):
        python = '/usr/bin/python3'
        if subprocess.run([python, '-c', 'import pyverbs'],
                          stderr=subprocess.DEVNULL, check=False).returncode:
            raise Skip('needs python3-pyverbs')
        script = os.path.join(os.path.dirname(os.path.realpath(__file__)),
                              'pyverbs_pair.py')
        with Joined(env, *kinds, **link) as j:
            tcp = env.port()
            s = j.proc(0, python, script, 'serve', 'dp0', gid, tcp)
            try:
                s.wait_listen(tcp)
                c = j.proc(1, python, script, 'call', 'dp0', gid, tcp,
                           address(1))
                try:
                    finish(s, c, 60)
                    for p in (s, c):
                        if 'all is right' not in p.text():
                            raise Failure(p.describe())
                finally:
                    c.end()
            finally:
                s.end()
    return run


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)
    os.chmod(path, 0o755)


def shown(env, host):
    return [lane.get('link') for p in env.show(host)['processes']
            for lane in p.get('report', {}).get('lanes', ())]


def server(j, tcp):
    s = j.proc(0, 'ibv_rc_pingpong', '-e', '-d', 'dp0', '-g', 0, '-p', tcp)
    s.wait_listen(tcp)
    return s


def host_traffic(env):
    """What is not RoCE's is the host's: ping and TCP in both families."""
    with Joined(env, 'dpdk', 'sockets') as j:
        tcp = env.port()
        s = server(j, tcp)
        try:
            if 'dpdk' not in shown(env, env.a):
                raise Failure(f'lanes are {shown(env, env.a)}')
            for addr in (address(1), address(1, True)):
                env.b.sh('ping', '-c', '3', '-i', '0.1', '-W', '5', addr)
            for addr in (address(2), address(2, True)):
                env.a.sh('ping', '-c', '3', '-i', '0.1', '-W', '5', addr)
            env.b.sh('python3', '-c',
                     'import socket; '
                     f'socket.create_connection(("{address(1)}", {tcp}), 5)')
        finally:
            s.end()


def listed(env):
    """A device whose port runs in the process that opens it has no interface
    before that: programs that search /sys and /dev find it all the same."""
    with Joined(env, 'dpdk', 'sockets') as j:
        p = j.proc(0, 'ls', '/sys/class/infiniband', '/dev/infiniband/uverbs0')
        if p.wait(10) or 'dp0' not in p.text().split():
            raise Failure(p.describe())
        p.end()


def killed(env):
    """The port of a process that was killed is free, and nothing is left."""
    with Joined(env, 'dpdk', 'dpdk') as j:
        for _ in range(2):
            s = server(j, env.port())
            s.p.kill()
            s.wait(10)
            if PORT in env.a.sh('ip', '-br', 'link'):
                raise Failure('its interface is left')
        tcp = env.port()
        j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n', 100],
               [address(1)], tcp)


def second(env):
    """A second process uses the host's side, and is served there."""
    with Joined(env, 'dpdk', 'sockets') as j:
        s = server(j, env.port())
        try:
            tcp = env.port()
            j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n',
                    100], [address(1)], tcp)
        finally:
            s.end()


def idle(env):
    """A port without traffic costs next to nothing."""
    with Joined(env, 'dpdk', 'sockets') as j:
        s = server(j, env.port())
        try:
            check_idle(env.a)
        finally:
            s.end()


def ticks(host):
    total = 0
    for pid in host.pids():
        with open(f'/proc/{pid}/stat') as f:
            fields = re.sub(r'.*\) ', '', f.read()).split()
        total += int(fields[11]) + int(fields[12])
    return total


def check_idle(host):
    time.sleep(1)
    before = ticks(host)
    time.sleep(2)
    used = ticks(host) - before
    # A busy thread would have used 200 of 10 ms.
    if used > 100:
        raise Failure(f'{used * 10} ms of 2000 used')


def crowd(env, **link):
    """Several processes share a port; killing one does not harm the others."""
    with Joined(env, 'urnicd', 'urnicd', **link) as j:
        running = []
        try:
            tcps = [env.port() for _ in range(3)]
            for tcp in tcps:
                argv = ['ibv_rc_pingpong', '-e', '-d', 'dp0', '-g', 0, '-p',
                        tcp, '-n', 2000000 if tcp == tcps[0] else 300]
                s = j.proc(0, *argv)
                running.append(s)
                s.wait_listen(tcp)
                running.append(j.proc(1, *argv, address(1)))
            wait_ring(env)
            for victim in running[:2]:
                os.kill(victim.p.pid, signal.SIGKILL)
            for p in running[2:]:
                if p.wait(30):
                    raise Failure(p.describe())
        finally:
            for p in running:
                p.end()
        tcp = env.port()
        j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n', 100],
               [address(1)], tcp)
        for d in j.daemons:
            if not d.running():
                raise Failure(d.describe())


def wait_ring(env):
    """Until a lane has rings."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        links = shown(env, env.a)
        if 'ring' in links:
            return
        time.sleep(0.05)
    raise Failure(f'lanes are {links}')


def peer_killed(env, **link):
    """The other end of a memif ends during traffic, and starts again."""
    with Joined(env, 'urnicd', 'dpdk', link=Memif, **link) as j:
        for _ in range(3):
            tcp = env.port()
            argv = ['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n',
                    2000000]
            s = j.proc(0, *argv)
            s.wait_listen(tcp)
            c = j.proc(1, *argv, address(1))
            wait_ring(env)
            time.sleep(0.3)
            c.signal(signal.SIGKILL)
            c.wait(10)
            s.end()
            if not j.daemons[0].running():
                raise Failure(j.daemons[0].describe())
        tcp = env.port()
        j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n', 100],
               [address(1)], tcp)


def memif_served_again(env):
    """The server of a memif is killed, and leaves its socket: the next one is
    the server all the same."""
    with Joined(env, 'urnicd', 'dpdk', link=Memif) as j:
        j.daemons[0].end()
        if not os.path.exists(j.link.dir + '/link'):
            raise Failure('it has left nothing')
        j.serve(1)
        tcp = env.port()
        j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n', 100],
               [address(1)], tcp)


def duplicate(env):
    """An address that the neighbour has too is logged, and still works."""
    with Joined(env, 'sockets', 'dpdk') as j:
        env.a.sh('ip', 'addr', 'add', address(2) + '/24', 'dev', Veth.dev)
        s = j.proc(1, 'ibv_rc_pingpong', '-e', '-d', 'dp0', '-g', 0)
        try:
            s.wait_text(TAKEN + r'.*0a4d0002', 20)
            lane = env.show(env.b)['processes'][0]['report']['lanes'][0]
            if not lane['port']['addr_conflict']:
                raise Failure(f'not counted: {lane["port"]}')
        finally:
            s.end()


def looped(env):
    """Our own requests that are looped back do not pass for another host's."""
    with Joined(env, 'dpdk', link=Ring) as j:
        s = server(j, env.port())
        try:
            time.sleep(0.5)
            if not s.running() or re.search(TAKEN, s.text()):
                raise Failure(s.describe())
        finally:
            s.end()


def crossed(env):
    """A program of DPDK's with two ports of rings, a device on either."""
    program = os.path.join(env.progs, 'ring_ports')
    if not os.path.exists(program):
        raise Skip('built without DPDK')
    devices = [device(f'dp{i}', port={
        'name': f'{PORT}{i}', 'device': f'net_ring_{end}',
        'addresses': f'{address(i + 1)}/24'}) for i, end in enumerate('ab')]
    with File(*devices) as f:
        p = f.proc(env, env.a, 'env', 'URNIC_SHM=0', program)
        try:
            if p.wait(60) or 'crossed rings carry' not in p.text():
                raise Failure(p.describe())
        finally:
            p.end()


def restarted(env, **link):
    """urnicd ends: the users of its port get an error, and none hangs.  The
    next urnicd serves new processes."""
    with Joined(env, 'urnicd', 'urnicd', **link) as j:
        argv = ['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-n', 2000000, '-p']
        running = []
        try:
            for extra in ([], ['-e']):
                tcp = env.port()
                s = j.proc(0, *argv, tcp, *extra)
                s.wait_listen(tcp)
                running += [s, j.proc(1, *argv, tcp, *extra, address(1))]
            watch = j.proc(0, 'ibv_asyncwatch', '-d', 'dp0')
            running.append(watch)
            watch.wait_text('async event', 10)
            wait_ring(env)
            time.sleep(0.3)
            j.daemons[0].end()
            watch.wait_text('IBV_EVENT_DEVICE_FATAL', 10)
            # The others may wait for messages that never come.
            for s in running[:3:2]:
                if s.wait(30) == 0 or 'with it the port' not in s.text():
                    raise Failure(s.describe())
        finally:
            for p in running:
                p.end()
        j.serve(1)
        tcp = env.port()
        j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n', 100],
               [address(1)], tcp)


def last_words(env):
    """The REJ of a process that ends at once is delivered, though the host's
    side, as new as the process, must first resolve the peer's address; the
    peer need not ask again."""
    with Joined(env, 'dpdk', 'sockets') as j:
        for _ in range(3):
            reject_once(env, j)


def reject_once(env, j):
    argv = [os.path.join(env.progs, 'cm_peer'), '-p', env.port(), '-M',
            'reject']
    s = j.proc(0, *argv)
    c = None
    try:
        for _ in range(50):
            if PORT in env.a.sh('ip', '-br', 'link', 'show', 'up'):
                break
            time.sleep(0.1)
        time.sleep(0.5 * SLOW)
        c = j.proc(1, *argv, address(1))
        c.wait_text('REJECTED status 28', 20)
    finally:
        s.end()
        if c:
            c.end()


def serve_again(env, j):
    """As a service manager does it: the clients have started a urnicd
    meanwhile, which has to hand over."""
    end = time.monotonic() + 10
    while not env.show(env.a)['daemon']:
        if time.monotonic() > end:
            raise Failure('no client has started another urnicd')
        time.sleep(0.05)
    binary = built(env.urnic, 'urnicd')
    j.daemons[0] = Proc(env.a.wrap(
        ['env', f'URNIC_CONFIG={j.files[0].name}', binary, '--foreground',
         '--dpdk']))
    j.daemons[0].wait_text('takes over from urnicd', 20)


def reclaimed(env):
    """urnicd ends and comes again: a process that opens the device again has
    the port again."""
    with Joined(env, 'urnicd', 'urnicd') as j:
        p = j.proc(0, env.prog('port_again'), address(2))
        try:
            p.wait_text('life 1', 20)
            hostile.wait_more(env, 'urnicd', 10, [p], env.b)
            j.daemons[0].end()
            p.wait_text('end 1', 20 * SLOW)
            got = hostile.counters(env, 'urnicd', env.b)['rx_roce']
            serve_again(env, j)
            p.wait_text('life 2', 30 * SLOW)
            if p.wait(30 * SLOW):
                raise Failure(p.describe())
            hostile.wait_more(env, 'urnicd', got + 50, [], env.b)
        finally:
            p.end()


def refused(env):
    """A driver that DPDK lacks is logged, and the device cannot be opened."""
    with Joined(env, 'sockets', 'sockets'):
        port = {'addresses': ['10.78.0.1/24'], 'device': 'net_none0',
                'eal_args': '--no-huge -m 32 --no-pci'}
        with File(device('dp9', port=port)) as f:
            p = f.proc(env, env.a, 'ibv_devinfo', '-d', 'dp9')
            if p.wait(20) == 0 or 'DPDK has no port net_none0' not in p.text():
                raise Failure(p.describe())
            p.end()


def vanish(mode, kinds=('dpdk', 'dpdk'), lose=0, args=(), **link):
    """Memory is unmapped while, or just after, it is sent from a port."""
    def run(env):
        with Joined(env, *kinds, **link) as j:
            tcp = env.port()
            j.pair([env.prog('vanish'), '-M', mode, '-g', 0, '-p', tcp, *args],
                   [address(1)], tcp, lose=lose)
    return run


def faults(*kinds):
    """A capture of a port has right frames, and those that faults drop."""
    def run(env):
        with Joined(env, *kinds) as j, tempfile.TemporaryDirectory() as d:
            tcp, path = env.port(), os.path.join(d, 'capture')
            go = os.path.join(d, 'go')
            base = [env.prog('captured'), '-g', 0, '-p', tcp, '-M', go,
                    '-n', 3]
            s = j.proc(0, *base)
            s.wait_listen(tcp)
            c = j.proc(1, *base, address(1))
            try:
                c.wait_text('qpn', 20)
                s.wait_text('qpn', 20)
                pid = str(c.leaf())
                on_client(env, 'fault', pid, 'drop:9/out,drop:9/in')
                tool = Capture(env, path, pid)
                tool.begun(env, pid)
                with open(go, 'w', encoding='ascii'):
                    pass
                finish(s, c, 60)
                tool.finish()
            finally:
                s.end()
                c.end()
            check_frames(path)
            said = [x[0] for x in fields(path, 'frame.comment',
                                         only='frame.comment')]
            if sum(x.startswith('injected: dropped by fault')
                   for x in said) != 2 or 'retransmission' not in said:
                raise Failure(f'{said}')
    return run


def with_queues(run, n):
    return lambda env: run(env, queues=n)


CASES = [
    Case('rc', pingpong('rc', args=('-n', 300))),
    Case('rc-ipv6', pingpong('rc', gid=1, args=('-n', 100))),
    Case('rc-large', pingpong('rc', args=('-n', 10, '-s', 1000000))),
    Case('rc-event', pingpong('rc', args=('-n', 100, '-e'))),
    Case('uc', pingpong('uc', args=('-n', 100, '-s', 1024))),
    Case('ud', pingpong('ud', args=('-n', 100, '-s', 1024))),
    Case('rc-to-sockets', pingpong('rc', ('sockets', 'dpdk'), 0,
                                   ('-n', 300))),
    Case('rc-from-sockets', pingpong('rc', ('dpdk', 'sockets'), 0,
                                     ('-n', 10, '-s', 300000))),
    Case('write_bw', write_bw('dpdk')),
    Case('rping', rping('dpdk', 'dpdk')),
    Case('rping-sockets', rping('dpdk', 'sockets')),
    Case('host', host_traffic),
    Case('listed', listed),
    Case('killed', killed),
    Case('second', second),
    Case('idle', idle),
    Case('shared-rc', pingpong('rc', ('urnicd', 'urnicd'), 0, ('-n', 300))),
    Case('shared-uc', pingpong('uc', ('urnicd', 'urnicd'), 0,
                               ('-n', 100, '-s', 1024)), full=True),
    Case('shared-ud', pingpong('ud', ('urnicd', 'urnicd'), 0,
                               ('-n', 100, '-s', 1024))),
    Case('shared-large', pingpong('rc', ('urnicd', 'urnicd'), 0,
                                  ('-n', 10, '-s', 1000000))),
    Case('shared-to-sockets', pingpong('rc', ('sockets', 'urnicd'), 0,
                                       ('-n', 300))),
    Case('shared-write_bw', write_bw('urnicd')),
    Case('shared-rping', rping('urnicd', 'urnicd')),
    Case('shared-crowd', crowd),
    Case('xdp', pingpong('rc', args=('-n', 300), link=Xdp)),
    Case('xdp-shared', pingpong('rc', ('urnicd', 'urnicd'), 0,
                                ('-n', 10, '-s', 1000000), link=Xdp)),
    Case('xdp-sockets', pingpong('rc', ('sockets', 'urnicd'), 1,
                                 ('-n', 100, '-s', 10000), link=Xdp)),
    Case('memif', pingpong('rc', args=('-n', 300), link=Memif)),
    Case('memif-shared', pingpong('rc', ('urnicd', 'urnicd'), 1,
                                  ('-n', 10, '-s', 1000000), link=Memif)),
    Case('memif-rping', rping('urnicd', 'urnicd', link=Memif), full=True),
    Case('memif-killed', peer_killed),
    Case('memif-served-again', memif_served_again),
    Case('tap', pingpong('rc', ('urnicd', 'urnicd'), 0,
                         ('-n', 10, '-s', 300000), link=Tap)),
    Case('tap-sockets', pingpong('rc', ('urnicd', 'sockets'), 0,
                                 ('-n', 100), link=Tap)),
    Case('mtu-9000', pingpong('rc', args=('-n', 10, '-s', 1000000, '-m', 4096),
                              mtu=9000)),
    Case('mtu-9000-sockets', pingpong('rc', ('urnicd', 'sockets'), 0,
                                      ('-n', 10, '-s', 1000000, '-m', 4096),
                                      mtu=9000)),
    Case('mtu-9000-memif', pingpong('rc', ('urnicd', 'urnicd'), 0,
                                    ('-n', 10, '-s', 1000000, '-m', 4096),
                                    mtu=9000, link=Memif), full=True),
    Case('faults', faults('dpdk', 'dpdk')),
    Case('faults-shared', faults('urnicd', 'urnicd')),
    Case('vlan', pingpong('rc', args=('-n', 10, '-s', 300000), vlan=77)),
    Case('vlan-sockets', pingpong('rc', ('sockets', 'urnicd'), 1,
                                  ('-n', 100, '-s', 10000), vlan=77),
         full=True),
    Case('vlan-rping', rping('urnicd', 'sockets', vlan=77)),
    Case('ucmatose', connect('ucmatose -c 5 -C 10 -S 1000',
                             f'ucmatose -c 5 -C 10 -S 1000 -s {address(1)}',
                             expect=DONE), full=True),
    Case('multicast', multicast('239.77.1.1', False, 'dpdk', 'dpdk'),
         full=True),
    Case('multicast-v6', multicast('ff0e::77:1', True, 'urnicd', 'sockets')),
    Case('multicast-sockets', multicast('239.77.1.2', False, 'sockets',
                                        'urnicd'), full=True),
    Case('mpi', mpi(UCX, 'urnicd', 'urnicd')),
    Case('mpi-plain', mpi(('--mca', 'pml', 'ucx'), 'urnicd', 'urnicd'),
         full=True),
    Case('mpi-own', mpi(UCX, 'dpdk', 'dpdk')),
    Case('mpi-memif', mpi(UCX, 'urnicd', 'urnicd', link=Memif), full=True),
    Case('mpi-sockets', mpi(UCX, 'urnicd', 'sockets'), full=True),
    Case('pyverbs', pyverbs(('urnicd', 'urnicd'), 0)),
    Case('pyverbs-v6', pyverbs(('urnicd', 'urnicd'), 1)),
    Case('pyverbs-memif', pyverbs(('urnicd', 'urnicd'), 0, link=Memif),
         full=True),
    Case('pyverbs-sockets', pyverbs(('sockets', 'urnicd'), 0), full=True),
    Case('duplicate', duplicate),
    Case('ring-looped', looped),
    Case('ring-crossed', crossed),
    Case('shared-restarted', restarted),
    Case('last-words', last_words),
    Case('shared-reclaimed', reclaimed),
    Case('refused', refused),
    Case('unmapped', vanish('unmap')),
    Case('unmapped-jumbo', vanish('unmap', mtu=9000)),
    Case('unmapped-memif', vanish('unmap', mtu=9000, link=Memif)),
    Case('deregistered', vanish('dereg', ('sockets', 'dpdk'), 1,
                                ('-n', 40))),
    Case('deregistered-jumbo', vanish('dereg', ('sockets', 'dpdk'), 1,
                                      ('-n', 40), mtu=9000)),
    Case('shared-queues-rping', rping('urnicd', 'urnicd', queues=2)),
    Case('shared-queues-crowd', with_queues(crowd, 2)),
    Case('shared-queues-peer', with_queues(peer_killed, 2)),
    Case('shared-queues-restarted', with_queues(restarted, 2)),
] + queues.CASES + sched.CASES + hostile.CASES
