# SPDX-License-Identifier: BSD-2-Clause
"""Where the programs run: loopback, or two namespaces joined by veth.

Even loopback gets a namespace of its own where this user may make one, so that
a test neither sees the machine's urnicd nor leaves one behind.  Otherwise it is
the machine's, as it is, for one run at a time.
"""

import fcntl
import os
import re
import signal
import time

from harness import rights
from harness.proc import Failure, Skip, sh


class Host:
    """One side: a namespace (None: ours) and its addresses."""

    def __init__(self, ns, ip4, ip6, dev):
        self.ns, self.ip4, self._ip6, self.dev = ns, ip4, ip6, dev

    def has_ip6(self):
        return self._ip6 is not None

    @property
    def ip6(self):
        if not self._ip6:
            raise Skip(f'{self.dev} has no IPv6 address on this machine')
        return self._ip6

    def needs_own(self, what):
        """Skip where the namespace is the machine's."""
        if not self.ns:
            raise Skip(f'{what}: {rights.why_no_namespaces()}')

    def wrap(self, argv):
        argv = list(argv)
        return ['ip', 'netns', 'exec', self.ns] + argv if self.ns else argv

    def sh(self, *argv, **kw):
        return sh(*self.wrap(argv), **kw)

    def pids(self):
        """Every process of the namespace; only ours live there."""
        if not self.ns:
            return []
        return [int(p) for p in sh('ip', 'netns', 'pids', self.ns).split()]


class Place:
    """A context: .a is the server's host, .b the client's."""

    made = 0        # namespaces of this process
    turn = None     # a file, open while this run has the machine's loopback

    def __init__(self, kind):
        self.kind = kind
        self.hosts = []
        self.mtu = 65536 if kind == 'lo' else int(kind[4:])

    def __enter__(self):
        try:
            if self.kind == 'lo':
                self._loopback()
            else:
                self._veth()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *exc):
        self._remove()

    def _ns(self, letter):
        Place.made += 1
        name = f'urt{os.getpid()}{letter}{Place.made}'
        sh('ip', 'netns', 'add', name)
        return name

    def _loopback(self):
        ns = None
        if rights.can_make_namespaces():
            ns = self._ns('l')
        else:
            self.turn = open(__file__, 'rb')
            fcntl.flock(self.turn, fcntl.LOCK_EX)
        ip6 = '::1' if ns or has_ip6_loopback() else None
        self.a = self.b = Host(ns, '127.0.0.1', ip6, 'lo')
        self.hosts = [self.a]
        if ns:
            sh('ip', '-n', ns, 'link', 'set', 'lo', 'multicast', 'on', 'up')

    def _veth(self):
        if not rights.can_make_namespaces():
            raise Skip(rights.why_no_namespaces())
        for i, letter in enumerate('ab', 1):
            self.hosts.append(Host(self._ns(letter), f'10.9.0.{i}',
                                   f'fd09::{i}', f've{letter}'))
        self.a, self.b = self.hosts
        sh('ip', '-n', self.a.ns, 'link', 'add', 'vea', 'type', 'veth',
           'peer', 'name', 'veb', 'netns', self.b.ns)
        for h in self.hosts:
            def ip(*args, ns=h.ns):
                sh('ip', '-n', ns, *args)
            ip('link', 'set', 'lo', 'up')
            # Where that is refused, _settle() waits.
            h.sh('sh', '-c', 'echo 0 >/proc/sys/net/ipv6/conf/'
                 f'{h.dev}/accept_dad', check=False)
            ip('link', 'set', h.dev, 'mtu', self.mtu, 'up')
            ip('addr', 'add', h.ip4 + '/24', 'dev', h.dev)
            ip('addr', 'add', h.ip6 + '/64', 'dev', h.dev, 'nodad')
        self._settle()

    def _settle(self):
        """Link-local addresses are tentative for a second or two, unless
        nothing looks for duplicates."""
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if not any('tentative' in sh('ip', '-n', h.ns, '-6', 'addr')
                       for h in self.hosts):
                return
            time.sleep(0.05)
        raise Failure('IPv6 addresses stay tentative')

    def real_packets(self):
        """Let the link carry packets as a wire would: no bursts on it."""
        for h in self.hosts:
            h.sh('ethtool', '-K', h.dev, 'gso', 'off', 'tso', 'off',
                 'tx-udp-segmentation', 'off', 'gro', 'off')

    def lose(self, percent, every=False):
        """Drop packets at random where they arrive, on both sides: those of
        RoCEv2, or every one of IP."""
        for h in self.hosts:
            lose_at(h, h.dev, percent, every)

    def _remove(self):
        for h in self.hosts:
            if h.ns:
                self._clear(h)
        self.hosts = []
        if self.turn:
            self.turn.close()

    @staticmethod
    def _clear(h):
        for pid in h.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for _ in range(100):
            if not h.pids():
                break
            time.sleep(0.02)
        sh('ip', 'netns', 'del', h.ns, check=False)


def has_ip6_loopback():
    """Containers often have none."""
    try:
        with open('/proc/net/if_inet6', encoding='ascii') as f:
            return any(int(line.split()[0], 16) == 1 for line in f)
    except OSError:
        return False


def lose_at(host, dev, percent, every=False):
    """Drop packets at random where they arrive at an interface.  Packet sockets
    there still see them."""
    host.sh('tc', 'qdisc', 'del', 'dev', dev, 'clsact', check=False)
    host.sh('tc', 'qdisc', 'add', 'dev', dev, 'clsact')
    host.sh('tc', 'filter', 'add', 'dev', dev, 'ingress', 'bpf', 'da',
            'bytecode', loss_filter(percent, every))


def lost_at(host, dev):
    """How many packets that was."""
    told = host.sh('tc', '-s', 'qdisc', 'show', 'dev', dev, 'clsact')
    return int(re.search(r'dropped (\d+)', told)[1])


def loss_filter(percent, every=False):
    """Classic BPF for tc: drop `percent` of the UDP packets to port 4791, or of
    all of IP."""
    ldh, ldb, ldw, ja = 0x28, 0x30, 0x20, 0x05
    jeq, jge, ret = 0x15, 0x35, 0x06
    tc_shot, tc_pipe = 2, 0xffffffff
    skf_ad_random = 0xfffff000 + 56
    threshold = min(int(2 ** 32 * (1 - percent / 100)), 2 ** 32 - 1)
    ip4, ip6 = (9, 4) if every else (0, 0)  # to 11
    prog = [
        (ldh, 0, 0, 12),              # 0 EtherType
        (jeq, ip4, 4, 0x0800),        # 1 IPv4, else 6
        (ldb, 0, 0, 23),              # 2 protocol
        (jeq, 0, 9, 17),              # 3 UDP, else 13
        (ldh, 0, 0, 36),              # 4 port
        (ja, 0, 0, 4),                # 5 to 10
        (jeq, ip6, 6, 0x86dd),        # 6 IPv6, else 13
        (ldb, 0, 0, 20),              # 7 next header
        (jeq, 0, 4, 17),              # 8 UDP, else 13
        (ldh, 0, 0, 56),              # 9 port
        (jeq, 0, 2, 4791),            # 10 RoCEv2, else 13
        (ldw, 0, 0, skf_ad_random),   # 11
        (jge, 1, 0, threshold),       # 12 drop
        (ret, 0, 0, tc_pipe),         # 13
        (ret, 0, 0, tc_shot),         # 14
    ]
    return ','.join([str(len(prog))] + [' '.join(map(str, i)) for i in prog])
