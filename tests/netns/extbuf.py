# SPDX-License-Identifier: BSD-2-Clause
"""Ports with "zero_copy": payload is sent without a copy."""

import time

from harness.env import Case
from harness.proc import SLOW, Failure, Skip
from netns.ports import Joined, Memif, Tap, Veth, address


def facts(env, host):
    """Facts of the drivers of the host's lanes."""
    return [lane['port_driver'] for p in env.show(host)['processes']
            for lane in p.get('report', {}).get('lanes', ())
            if 'port_driver' in lane]


def need_sharing():
    """Only memory that was made shareable is an external buffer."""
    if SLOW > 1:
        raise Skip("a sanitizer's malloc() is not made shareable")


def await_packets(env, host, key, c):
    """Wait until enough packets were sent in that way; the facts then."""
    end = time.monotonic() + 20 * SLOW
    told = []
    while time.monotonic() < end and c.running():
        told = facts(env, host) or told
        if told and told[0][key] > 500:
            return told[0]
        time.sleep(0.05)
    raise Failure(f'{key}: {told} {c.describe()}')


def bandwidth(key, said, program='ib_write_bw', link=Memif, mtu=9000,
              zero_copy=True, env_args=()):
    """Large packets are sent in that way, and the program succeeds."""
    def run(env):
        def look(c):
            told = await_packets(env, env.b, key, c)
            if told['zero_copy'] != said:
                raise Failure(f'{told}')
            if key == 'copied' and told['external']:
                raise Failure(f'{told}')

        if key == 'external':
            need_sharing()
        with Joined(env, 'dpdk', 'dpdk', link=link, mtu=mtu,
                    zero_copy=zero_copy) as j:
            tcp = env.port()
            j.pair(['env', *env_args, program, '-d', 'dp0', '-x', 0, '-p', tcp,
                    '-s', 65536, '-D', 3, '-F'], [address(1)], tcp,
                   meanwhile=look)
    return run


def vanish(mode, n=40, lose=0, kinds=('dpdk', 'dpdk'), see=True, **link):
    """Memory is unmapped while, or after, it is sent: the server compares. The
    client has sent some packets as external buffers."""
    def run(env):
        if see:
            need_sharing()
        with Joined(env, *kinds, zero_copy=True, **link) as j:
            def look(c):
                if see:
                    await_packets(env, env.b, 'external', c)

            tcp = env.port()
            j.pair([env.prog('vanish'), '-M', mode, '-g', 0, '-p', tcp, '-n',
                    n], [address(1)], tcp, lose=lose, meanwhile=look)
    return run


def killed(env):
    """A process is killed during traffic, at either side."""
    need_sharing()
    with Joined(env, 'dpdk', 'dpdk', mtu=9000, zero_copy=True) as j:
        for victim in (0, 1):
            tcp = env.port()
            argv = ['ib_write_bw', '-d', 'dp0', '-x', 0, '-p', tcp, '-s',
                    1 << 20, '-D', 20, '-F']
            s = j.proc(0, *argv)
            c = None
            try:
                s.wait_listen(tcp)
                c = j.proc(1, *argv, address(1))
                await_packets(env, env.b, 'external', c)
                (s, c)[victim].p.kill()
                (s, c)[victim].wait(10)
            finally:
                s.end()
                if c:
                    c.end()
        tcp = env.port()
        j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-c', '-s',
                100000, '-m', 4096, '-n', 100], [address(1)], tcp)


CASES = [
    Case('extbuf-memif', bandwidth('external', 'on')),
    Case('extbuf-veth', bandwidth('external', 'on', link=Veth)),
    Case('extbuf-send', bandwidth('external', 'on', 'ib_send_bw')),
    Case('extbuf-not-asked', bandwidth('copied', 'off', zero_copy=False)),
    Case('extbuf-not-shared', bandwidth('copied', 'on',
                                        env_args=('URNIC_SHARE=0',))),
    Case('extbuf-small-mtu', bandwidth('copied', 'on', mtu=1500), full=True),
    Case('extbuf-not-tap', bandwidth('copied', 'off: not with this driver',
                                     link=Tap, mtu=1500), full=True),
    Case('extbuf-dereg', vanish('extbuf', mtu=9000)),
    Case('extbuf-dereg-memif', vanish('extbuf', mtu=9000, link=Memif)),
    Case('extbuf-dereg-loss', vanish('extbuf', 20, 1, ('sockets', 'dpdk'),
                                     mtu=9000)),
    Case('extbuf-gone', vanish('gone', mtu=9000)),
    Case('extbuf-gone-memif', vanish('gone', mtu=9000, link=Memif)),
    Case('extbuf-unmapped', vanish('unmap', 100, see=False, mtu=9000)),
    Case('extbuf-unmapped-memif', vanish('unmap', 100, see=False, mtu=9000,
                                         link=Memif)),
    Case('extbuf-killed', killed),
]
