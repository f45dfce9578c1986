# SPDX-License-Identifier: BSD-2-Clause
"""How urnic's side is joined to the wire.

`sockets`: by the interface on which the guest hangs; `dpdk`: by a port that
the process runs; `urnicd`: by one that urnicd runs for all of them.  On ports
iWARP's TCP is lwIP's.
The port is DPDK's driver for packet sockets on a veth, which a bridge joins to
the guest's interface.
"""

import json
import os
import re

from harness.env import built
from harness.proc import Failure
from netns.config import File, device
from netns.ports import EAL, PORT, Veth, end_daemons, start_ports

WAYS = ('sockets', 'dpdk', 'urnicd')
BRIDGE = 'br0'
FAR = 'dpw'     # the end of the veth that is in the bridge
LINK_LOCAL = 'fe80::81:1'  # a port has no address but those of its file

# What a way cannot do by design: pattern of "group/case role", and why.
LEFT_OUT = {
    'sockets': (),
    # decisions/0015 and 0016: a port ends with the process that runs it.
    'dpdk': (
        (r'ends/\w+-killed(|-busy|-asked) urnic-serves',
         'the port ends with the process, so its connections do silently'),
        (r'ends/\w+-killed(|-busy)-client kernel-serves|'
         r'ends/\w+-killed-asking kernel-serves',
         'the port ends with the process, so its connections do silently'),
        (r'ends/\w+-nobody(-datagram)? urnic-serves',
         'without a process there is no port, so nothing refuses'),
        (r'demos/\w+-store-consistent kernel-serves',
         'of several clients the first runs the port, until it is done'),
    ),
    'urnicd': (),
}


SMOKE_PORT = re.compile(r'verbs/(rc-v4|write-bw)@.*'
                        r'|cm/(rxe|siw)-rping@.*|path/(rxe|siw)@.*')
SMOKE = {
    'sockets': re.compile(
        r'verbs/(rc-v4|ud-v6|icrc-v4|write-bw|loss-rc) '
        r'|cm/(rxe-(rping|udaddy|mckey|sizes)|'
        r'siw-(rping|send_bw-R|sizes)|siw-crc-rping) '
        r'|ends/(rxe|siw)-killed '),
    'dpdk': SMOKE_PORT,
    'urnicd': SMOKE_PORT,
}


def named(name, way):
    """What a case is called in this way."""
    return name if way == WAYS[0] else f'{name}@{way}'


def left_out(way, name, role):
    """Why a case is not for this way, or None."""
    for pattern, why in LEFT_OUT[way]:
        if re.fullmatch(pattern, f'{name.split("@")[0]} {role}'):
            return why
    return None


def config(host, mtu, veth):
    """A RoCE and an iWARP device on one port with the host's addresses."""
    port = {'name': PORT, 'mtu': mtu,
            'addresses': [host.ip4 + '/24', host.ip6 + '/64',
                          LINK_LOCAL + '/64'],
            'eal_args': f'{EAL} {veth.port(host, 1)},qdisc_bypass=0'}
    return File(text=json.dumps({'ports': port, 'devices': [
        device('urnic0', port=PORT), device('urniw0', 'iwarp', port=PORT)]}))


class Joint:
    """urnic's host on the wire, in one way at a time."""

    def __init__(self, host, urnic, mtu):
        self.host, self.urnic, self.mtu = host, urnic, mtu
        self.way, self.file, self.daemon = WAYS[0], None, None

    def use(self, way):
        """Change to this way, unless it is the one already."""
        if way != WAYS[0]:
            for plugin in ('dpdk', 'lwip'):
                built(self.urnic, f'liburnic-{plugin}.so')
        if way != self.way:
            self._end()
            if way != WAYS[0]:
                self._bridge()
            self.way = way
            self._begin()

    def set_mtu(self, mtu):
        """The wire's; a port is opened again."""
        self.mtu = mtu
        if self.way != WAYS[0]:
            self._end()
        self._ip('link', 'set', self.host.dev, 'mtu', mtu)
        if self.way != WAYS[0]:
            self._bridge()
            self._begin()

    def argv(self, argv):
        """A command line that finds its devices."""
        return ['env', f'URNIC_CONFIG={self.file.name}'] + argv \
            if self.file else argv

    def healthy(self):
        """urnicd has not ended."""
        if self.daemon and not self.daemon.running():
            said = self.daemon.describe(40)
            self._end()
            self._begin()
            raise Failure('urnicd has ended: ' + said)

    def end(self):
        if self.daemon:
            self.daemon.end()
            self.daemon = None
        if self.file:
            self.file.__exit__()
            self.file = None

    def _ip(self, *args, check=True):
        self.host.sh('ip', *args, check=check)

    def _bridge(self):
        """From the guest's interface to the veth's far end.  The kernel has
        the port's addresses on the TAP, and must not answer for them here."""
        dev = self.host.dev
        self._ip('addr', 'flush', 'dev', dev)
        self._ip('link', 'set', dev, 'addrgenmode', 'none')
        self._ip('link', 'add', BRIDGE, 'type', 'bridge', 'mcast_snooping',
                 '0')
        self._ip('link', 'add', FAR, 'type', 'veth', 'peer', 'name', Veth.dev)
        for end in (FAR, Veth.dev):
            self.host.sh('ethtool', '-K', end, 'gso', 'off', 'tso', 'off',
                         'gro', 'off', 'tx', 'off', check=False)
        for each in (BRIDGE, FAR):
            self._ip('link', 'set', each, 'addrgenmode', 'none', 'arp', 'off',
                     'mtu', self.mtu)
        for each in (dev, FAR):
            self._ip('link', 'set', each, 'master', BRIDGE, 'up')
        self._ip('link', 'set', BRIDGE, 'up')

    def _begin(self):
        if self.way == WAYS[0]:
            dev = self.host.dev
            self._ip('link', 'set', dev, 'addrgenmode', 'eui64')
            self._ip('addr', 'add', self.host.ip4 + '/24', 'dev', dev)
            self._ip('-6', 'addr', 'add', self.host.ip6 + '/64', 'dev', dev,
                     'nodad')
            return
        self.file = config(self.host, self.mtu, Veth((self.host,) * 2,
                                                     self.mtu)).__enter__()
        if self.way == 'urnicd':
            self.daemon = start_ports(self, self.host, self.file.name)
            self.daemon.keep()

    def _end(self):
        """Nothing on the wire."""
        self.end()
        end_daemons(self.host)
        self._ip('link', 'del', FAR, check=False)
        self._ip('link', 'del', BRIDGE, check=False)
