# SPDX-License-Identifier: BSD-2-Clause
"""Ports that urnic runs itself: DPDK's driver for packet sockets on a veth.

Each case joins the two namespaces by one more veth, whose ends are given to
DPDK, or on one side to the kernel.  The ends carry packets as a wire would:
no trains, and all checksums computed.
"""

import os
import re
import signal
import time

from harness.env import Case, finish
from harness.proc import Failure, Proc, Skip
from netns.config import File, device

DEV = 'dpv'
PORT = 'dpp'  # the interface that is the host's side
EAL = f'--no-huge -m 64 --no-pci --vdev=net_af_packet0,iface={DEV}'


def address(i, v6=False):
    return f'fd77::{i}' if v6 else f'10.77.0.{i}'


class Joined:
    """The veth, and what each side has on it."""

    def __init__(self, env, *kinds):
        self.env, self.kinds = env, kinds
        self.hosts = (env.a, env.b)
        self.files = []
        self.daemons = []

    def __enter__(self):
        libs = os.path.join(os.path.dirname(os.path.realpath(self.env.urnic)),
                            '../src/link/dpdk/liburnic-dpdk.so')
        if not os.path.exists(libs):
            raise Skip('built without DPDK')
        a, b = self.hosts
        a.sh('ip', 'link', 'add', DEV, 'type', 'veth', 'peer', 'name', DEV,
             'netns', b.ns)
        try:
            for i, (host, kind) in enumerate(zip(self.hosts, self.kinds), 1):
                self.files.append(self.side(host, kind, i).__enter__())
                if kind == 'urnicd':
                    self.serve(host, self.files[-1])
        except BaseException:
            self.__exit__()
            raise
        return self

    def serve(self, host, config):
        """urnicd runs the port; one that began by itself makes way."""
        end_daemons(host)
        binary = os.path.join(os.path.dirname(os.path.realpath(
            self.env.urnic)), '../src/daemon/urnicd')
        d = Proc(host.wrap(['env', f'URNIC_CONFIG={config.name}', binary,
                            '--foreground', '--dpdk']))
        self.daemons.append(d)
        end = time.monotonic() + 20
        while PORT not in host.sh('ip', '-br', 'link', 'show', 'up'):
            if not d.running() or time.monotonic() > end:
                raise Failure(d.describe())
            time.sleep(0.05)

    def __exit__(self, *exc):
        for d in self.daemons:
            d.end()
        for f in self.files:
            f.__exit__()
        self.hosts[0].sh('ip', 'link', 'del', DEV, check=False)

    @staticmethod
    def side(host, kind, i):
        addrs = [address(i) + '/24', address(i, True) + '/64']
        host.sh('ethtool', '-K', DEV, 'gso', 'off', 'tso', 'off', 'gro', 'off',
                'tx', 'off', check=False)
        if kind in ('dpdk', 'urnicd'):
            host.sh('ip', 'link', 'set', DEV, 'arp', 'off', 'addrgenmode',
                    'none', 'up')
            port = {'name': PORT, 'addresses': addrs, 'eal_args': EAL}
            return File(device('dp0', port=port))
        host.sh('ip', 'link', 'set', DEV, 'addrgenmode', 'none', 'up')
        for addr in addrs:
            host.sh('ip', 'addr', 'add', addr, 'dev', DEV, 'nodad')
        return File(device('dp0', interface=DEV))

    def proc(self, i, *argv):
        return self.files[i].proc(self.env, self.hosts[i], *argv)

    def pair(self, argv, client=(), tcp=None, timeout=60):
        """The server on side 0, the client on side 1 with its address."""
        s = self.proc(0, *argv)
        try:
            s.wait_listen(tcp)
            c = self.proc(1, *argv, *client)
            try:
                finish(s, c, timeout)
            finally:
                c.end()
        finally:
            s.end()


def end_daemons(host):
    for pid in host.pids():
        with open(f'/proc/{pid}/comm') as f:
            if f.read().strip() == 'urnicd':
                os.kill(pid, signal.SIGKILL)


def pingpong(kind, kinds=('dpdk', 'dpdk'), gid=0, args=()):
    def run(env):
        with Joined(env, *kinds) as j:
            tcp = env.port()
            j.pair([f'ibv_{kind}_pingpong', '-d', 'dp0', '-g', gid, '-p', tcp,
                    *args], [address(1)], tcp)
    return run


def write_bw(kind):
    def run(env):
        with Joined(env, kind, kind) as j:
            tcp = env.port()
            j.pair(['ib_write_bw', '-d', 'dp0', '-x', 0, '-p', tcp, '-s', 8192,
                    '-n', 500, '-F'], [address(1)], tcp)
    return run


def rping(*kinds):
    """Connections: CM messages go by the host's side, data by the port."""
    def run(env):
        with Joined(env, *kinds) as j:
            s = j.proc(0, 'rping', '-s', '-C', 20, '-a', '0.0.0.0')
            c = None
            try:
                for _ in range(50):
                    c = j.proc(1, 'rping', '-c', '-V', '-C', 20, '-a',
                               address(1))
                    if c.wait(20) == 0:
                        break
                    if not s.running():
                        raise Failure(f'{s.describe()} {c.describe()}')
                    time.sleep(0.1)
                else:
                    raise Failure(c.describe())
                if s.wait(20):
                    raise Failure(s.describe())
            finally:
                s.end()
                if c:
                    c.end()
    return run


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
    """Who comes second goes by the host's side, and is served there."""
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
            time.sleep(1)
            before = ticks(env.a)
            time.sleep(2)
            used = ticks(env.a) - before
            # A busy thread would have used 200 of 10 ms.
            if used > 100:
                raise Failure(f'{used * 10} ms of 2000 used')
        finally:
            s.end()


def ticks(host):
    total = 0
    for pid in host.pids():
        with open(f'/proc/{pid}/stat') as f:
            fields = re.sub(r'.*\) ', '', f.read()).split()
        total += int(fields[11]) + int(fields[12])
    return total


def crowd(env):
    """Several processes share a port, and one that is killed harms nobody."""
    with Joined(env, 'urnicd', 'urnicd') as j:
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


def refused(env):
    """What DPDK does not have is told, and the device cannot be opened."""
    with Joined(env, 'sockets', 'sockets'):
        port = {'addresses': ['10.78.0.1/24'], 'device': 'net_none0',
                'eal_args': '--no-huge -m 32 --no-pci'}
        with File(device('dp9', port=port)) as f:
            p = f.proc(env, env.a, 'ibv_devinfo', '-d', 'dp9')
            if p.wait(20) == 0 or 'DPDK has no port net_none0' not in p.text():
                raise Failure(p.describe())
            p.end()


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
    Case('killed', killed),
    Case('second', second),
    Case('idle', idle),
    Case('shared-rc', pingpong('rc', ('urnicd', 'urnicd'), 0, ('-n', 300))),
    Case('shared-uc', pingpong('uc', ('urnicd', 'urnicd'), 0,
                               ('-n', 100, '-s', 1024))),
    Case('shared-ud', pingpong('ud', ('urnicd', 'urnicd'), 0,
                               ('-n', 100, '-s', 1024))),
    Case('shared-large', pingpong('rc', ('urnicd', 'urnicd'), 0,
                                  ('-n', 10, '-s', 1000000))),
    Case('shared-to-sockets', pingpong('rc', ('sockets', 'urnicd'), 0,
                                       ('-n', 300))),
    Case('shared-write_bw', write_bw('urnicd')),
    Case('shared-rping', rping('urnicd', 'urnicd')),
    Case('shared-crowd', crowd),
    Case('refused', refused),
]
