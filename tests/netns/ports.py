# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts joined by a link that urnic runs a port on, at one end or both.

Kinds of ends: `dpdk`, a port that the first process runs; `urnicd`, one that
urnicd runs for all; `sockets`, a device on the kernel's interface.  Links are
made of DPDK's virtual devices, none of which needs hardware.
"""

import os
import shutil
import signal
import socket
import tempfile
import time

from harness.env import built, finish
from harness.net import lose_at, lost_at
from harness.proc import SLOW, Failure, Proc, Skip
from netns.config import File, device

PORT = 'dpp'  # the interface that is the host's side
EAL = '--no-huge --no-pci'
AF_XDP = 44  # Python has no name for it
MEMORY = 96  # MiB for each queue


def address(i, v6=False):
    return f'fd77::{i}' if v6 else f'10.77.0.{i}'


class Veth:
    """The packet socket's driver on either end of a veth.  The ends carry
    packets as a wire would: no bursts, and all checksums computed."""

    dev = 'dpv'
    queues = 1

    def __init__(self, hosts, mtu):
        self.hosts, self.mtu = hosts, mtu

    def make(self):
        a, b = self.hosts
        a.sh('ip', 'link', 'add', self.dev, 'type', 'veth', 'peer', 'name',
             self.dev, 'netns', b.ns)
        for h in self.hosts:
            h.sh('ethtool', '-K', self.dev, 'gso', 'off', 'tso', 'off', 'gro',
                 'off', 'tx', 'off', check=False)

    def end(self):
        self.hosts[0].sh('ip', 'link', 'del', self.dev, check=False)

    def port(self, host, i):
        """What DPDK needs for end i (1, 2)."""
        host.sh('ip', 'link', 'set', self.dev, 'mtu', self.mtu, 'arp', 'off',
                'addrgenmode', 'none', 'up')
        frames = ',framesz=9216,blocksz=36864,framecnt=256' \
            if self.mtu > 1900 else ''
        pairs = f',qpairs={self.queues}' if self.queues > 1 else ''
        return f'--vdev=net_af_packet0,iface={self.dev}{frames}{pairs}'

    def kernel(self, host, i):
        """The name of the interface that is end i."""
        host.sh('ip', 'link', 'set', self.dev, 'mtu', self.mtu, 'addrgenmode',
                'none', 'up')
        return self.dev

    def running(self, host, i):
        """A port on end i is up."""


class Xdp(Veth):
    """The driver for AF_XDP sockets on either end: what a port takes of a NIC
    that stays the kernel's."""

    def make(self):
        try:
            socket.socket(AF_XDP, socket.SOCK_RAW).close()
        except OSError as err:
            raise Skip(f'no sockets of AF_XDP: {err.strerror}') from err
        super().make()

    def port(self, host, i):
        super().port(host, i)
        return f'--vdev=net_af_xdp0,iface={self.dev}'


class Memif:
    """Shared memory between two processes, which meet at a socket's file."""

    def __init__(self, hosts, mtu):
        self.mtu = mtu

    def make(self):
        self.dir = tempfile.mkdtemp(prefix='urnic-memif')

    def end(self):
        shutil.rmtree(self.dir)

    def port(self, host, i):
        role = 'server' if i == 1 else 'client'
        size = ',bsize=16384' if self.mtu > 1900 else ''
        return (f'--vdev=net_memif0,role={role},socket-abstract=no,'
                f'socket={self.dir}/link{size}')

    def kernel(self, host, i):
        raise Failure('a memif is nothing for the kernel')

    def running(self, host, i):
        """It finds its peer without help."""


class Tap:
    """DPDK's driver for TAPs, whose other ends are interfaces.  The second
    host has both, in a bridge, or uses the first one's itself."""

    def __init__(self, hosts, mtu):
        self.hosts, self.mtu = hosts, mtu
        self.bridge = False

    def make(self):
        """They come with the ports."""

    def end(self):
        self.hosts[1].sh('ip', 'link', 'del', 'dpbr', check=False)

    def port(self, host, i):
        return f'--vdev=net_tap0,iface=dpt{i}'

    def kernel(self, host, i):
        return 'dpt1'

    def running(self, host, i):
        b = self.hosts[1]
        if host is not b:
            host.sh('ip', 'link', 'set', f'dpt{i}', 'netns', b.ns)
        if i == 2:
            b.sh('ip', 'link', 'add', 'dpbr', 'type', 'bridge')
            b.sh('ip', 'link', 'set', 'dpbr', 'addrgenmode', 'none', 'up')
            for n in (1, 2):
                b.sh('ip', 'link', 'set', f'dpt{n}', 'master', 'dpbr')
        b.sh('ip', 'link', 'set', f'dpt{i}', 'mtu', self.mtu, 'addrgenmode',
             'none', 'up')


class Ring:
    """One end, looped back to itself."""

    def __init__(self, hosts, mtu):
        """It needs nothing."""

    def make(self):
        """It comes with the port."""

    end = make

    def port(self, host, i):
        return '--vdev=net_ring0'


class Joined:
    """The link, and what each end has on it."""

    def __init__(self, env, *kinds, link=Veth, mtu=1500, vlan=None,
                 name='dp0', queues=1, priorities=(1, 1)):
        self.env, self.kinds = env, kinds
        self.mtu, self.vlan, self.name = mtu, vlan, name
        self.hosts = (env.a, env.b)
        self.link = link(self.hosts, mtu)
        self.link.queues = self.queues = queues
        self.priorities = priorities
        self.files = []
        self.daemons = [None, None]

    def __enter__(self):
        built(self.env.urnic, 'liburnic-dpdk.so')
        self.link.make()
        try:
            for i, (host, kind) in enumerate(zip(self.hosts, self.kinds), 1):
                self.files.append(self.side(host, kind, i).__enter__())
                if kind == 'urnicd':
                    self.serve(i)
        except BaseException:
            self.__exit__()
            raise
        return self

    def serve(self, i):
        host = self.hosts[i - 1]
        self.daemons[i - 1] = start_ports(self.env, host,
                                          self.files[i - 1].name)
        self.link.running(host, i)

    def __exit__(self, *exc):
        for d in self.daemons:
            if d:
                d.end()
        for f in self.files:
            f.__exit__()
        self.link.end()

    def side(self, host, kind, i):
        addrs = [address(i) + '/24', address(i, True) + '/64']
        if kind in ('dpdk', 'urnicd'):
            port = {'name': PORT, 'addresses': addrs, 'mtu': self.mtu,
                    'eal_args': f'{EAL} -m {MEMORY * self.queues} '
                                f'{self.link.port(host, i)}',
                    'priority': self.priorities[i - 1]}
            if self.vlan:
                port['vlan'] = self.vlan
            if self.queues > 1:
                port['queues'] = self.queues
            return File(device(self.name, port=port))
        dev = self.link.kernel(host, i)
        if self.vlan:
            told = host.sh('ip', 'link', 'add', 'link', dev, 'name', 'dpvlan',
                           'type', 'vlan', 'id', self.vlan, check=False)
            if 'Unknown device type' in told:
                raise Skip('this kernel has no VLAN interfaces')
            dev = 'dpvlan'
            host.sh('ip', 'link', 'set', dev, 'addrgenmode', 'none', 'up')
        for addr in addrs:
            host.sh('ip', 'addr', 'add', addr, 'dev', dev, 'nodad')
        return File(device(self.name, interface=dev))

    def proc(self, i, *argv):
        return self.files[i].proc(self.env, self.hosts[i], *argv)

    def pair(self, argv, client=(), tcp=None, timeout=60, lose=0,
             meanwhile=None):
        """The server on side 0, which may lose some packets of a hundred, the
        client on side 1 with its address; meanwhile(client) may look at it."""
        s = self.proc(0, *argv)
        c = None
        try:
            s.wait_listen(tcp)
            if lose:
                lose_at(self.hosts[0], Veth.dev, lose)
            c = self.proc(1, *argv, *client)
            if meanwhile:
                meanwhile(c)
            finish(s, c, timeout)
            if lose and not lost_at(self.hosts[0], Veth.dev):
                raise Failure('nothing was lost')
        finally:
            s.end()
            if c:
                c.end()


def start_ports(env, host, config):
    """urnicd runs the port, in the place of one that was started on demand.
    $URNICD may be another build's, such as one with a sanitizer."""
    end_daemons(host)
    binary = os.environ.get('URNICD') or built(env.urnic, 'urnicd')
    d = Proc(host.wrap(['env', f'URNIC_CONFIG={config}', binary,
                        '--foreground', '--dpdk']))
    end = time.monotonic() + 20 * SLOW
    while PORT not in host.sh('ip', '-br', 'link', 'show', 'up'):
        if not d.running() or time.monotonic() > end:
            raise Failure(d.describe())
        time.sleep(0.05)
    return d


def end_daemons(host):
    for pid in host.pids():
        with open(f'/proc/{pid}/comm') as f:
            if f.read().strip() == 'urnicd':
                os.kill(pid, signal.SIGKILL)
