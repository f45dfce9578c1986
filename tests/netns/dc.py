# SPDX-License-Identifier: BSD-2-Clause
"""The DC transport on ports of DPDK, on a device with two ports, with packets
as long as the interface carries."""

from harness.env import Case, Failure, finish
from netns.full import fragments
from netns.ports import Joined, Memif
from netns.two_ports import LINKS, Ports, address_of_one_net


def port_of_dpdk(kinds, mode, *args, gid=0, lose=0, **link):
    def run(env):
        with Joined(env, *kinds, **link) as j:
            tcp = env.port()
            # They meet by another link: a port is there once it is opened.
            j.pair([env.prog('dc'), '-M', mode, '-g', gid, '-p', tcp, *args],
                   [env.a.ip4], tcp, lose=lose)
    return run


def long_packets(mtu, gid):
    """No packet is longer than the interface allows, so none is cut."""
    def run(env):
        env.place.real_packets()
        before = sum(fragments(h) for h in env.place.hosts)
        for h in env.place.hosts:
            h.sh('ip', 'link', 'set', h.dev, 'mtu', mtu)
        try:
            port = env.port()
            base = [env.prog('dc'), '-F', '-p', port, '-n', 3]
            env.pair(base + ['-g', env.gid(env.a, gid)],
                     base + ['-g', env.gid(env.b, gid), env.a.ip4], port=port)
        finally:
            for h in env.place.hosts:
                h.sh('ip', 'link', 'set', h.dev, 'mtu', env.place.mtu)
        n = sum(fragments(h) for h in env.place.hosts) - before
        if n:
            raise Failure(f'{n} packets were cut')
    return run


def second_port(**keys):
    """Target, initiator and address handles are on the second port: all packets
    go by its link."""
    def run(env):
        with Ports(env, **keys) as p:
            port = env.port()
            argv = [env.prog('dc'), '-i', 2, '-g', 0, '-n', 5, '-p',
                    port]
            before = p.sent(0), p.sent(1)
            p.pair(port, argv, argv + [env.a.ip4])
            moved = p.sent(0) - before[0], p.sent(1) - before[1]
            # 5 rounds with 16 targets, each of several sessions
            if moved[1] < 2 * 5 * 16 or moved[0] > 20:
                raise Failure(f'packets by link: {moved}')
    return run


def cut(letter, **keys):
    """The link of each port in turn fails and comes back."""
    def run(env):
        with Ports(env, **keys) as p:
            port = env.port()
            argv = [env.prog('dc_ports'), '-p', port]
            host = env.a if letter == 'a' else env.b
            s, c = p.file.proc(env, env.a, *argv), None
            try:
                s.wait_listen(port)
                c = p.file.proc(env, env.b, *argv, env.a.ip4)
                for n, link in enumerate(LINKS, 1):
                    c.wait_text(f'both {n}', 30)
                    host.sh('ip', 'link', 'set', link, 'down')
                    c.wait_text(f'one {n}', 30)
                    host.sh('ip', 'link', 'set', link, 'up')
                finish(s, c, 60)
            finally:
                s.end()
                if c:
                    c.end()
    return run


DPDK, URNICD = ('dpdk', 'dpdk'), ('urnicd', 'urnicd')
CASES = [Case(f'{kind}-{mode}', port_of_dpdk(kinds, mode, *args),
              full=kind == 'dpdk' and mode != 'data')
         for kind, kinds in (('dpdk', DPDK), ('urnicd', URNICD))
         for mode, args in (('data', ('-n', 5)), ('keys', ()), ('destroy', ()),
                            ('killed', ()))]
CASES += [
    Case('dpdk-ipv6', port_of_dpdk(DPDK, 'data', '-n', 3, gid=1)),
    Case('dpdk-1%', port_of_dpdk(DPDK, 'data', lose=1)),
    Case('dpdk-sockets', port_of_dpdk(('dpdk', 'sockets'), 'data', '-n', 5)),
    Case('sockets-urnicd', port_of_dpdk(('sockets', 'urnicd'), 'data', '-n',
                                        5)),
    Case('memif', port_of_dpdk(DPDK, 'data', '-n', 5, link=Memif)),
    Case('dpdk-1000-targets', port_of_dpdk(DPDK, 'turns', '-q', 1000, '-n', 1)),
]
CASES += [Case(f'mtu-{mtu}-{gid}', long_packets(mtu, gid), mtu != 4200, 'veth')
          for mtu in (1500, 4200, 2148) for gid in ('v4', 'v6')]
CASES += [
    Case('port-2', second_port(), where='veth'),
    Case('port-2-in-one-net', second_port(address=address_of_one_net),
         where='veth'),
    Case('link-of-the-target-down', cut('a'), where='veth'),
    Case('link-of-the-initiator-down', cut('b'), where='veth'),
    Case('link-down-in-one-net', cut('a', address=address_of_one_net),
         where='veth'),
]
