# SPDX-License-Identifier: BSD-2-Clause
"""The five complete examples of the RDMA Aware Networks Programming User
Manual (tests/progs/manual_*.c), on each device and path."""

import re

from harness.env import Case, Failure, finish, words
from harness.net import lose_at
from netns.migrate import NET, add_link, restore

# Names of ways to run them, and what is set for each.
WAYS = {
    'urnic0': {'URNIC_RDMACM_DEVICE': 'urnic0'},
    'urnic0-sockets': {'URNIC_RDMACM_DEVICE': 'urnic0', 'URNIC_SHM': '0'},
    'urniw0': {'URNIC_RDMACM_DEVICE': 'urniw0'},
}
ROCE = ('urnic0', 'urnic0-sockets')


def line(env, way, name, args):
    return ['env'] + [f'{k}={v}' for k, v in WAYS[way].items()] + [
        env.prog(f'manual_{name}')] + words(args)


def expect(proc, pattern):
    if not re.search(pattern, proc.text()):
        raise Failure(f'no "{pattern}": {proc.describe()}')


def refused(env, argv, pattern, timeout=20):
    """It ends with exit code 1 and says why."""
    p = env.run(env.a, *argv)
    try:
        if p.wait(timeout) != 1:
            raise Failure(p.describe())
        expect(p, pattern)
    finally:
        p.end()


def both(env, server, client, ready, timeout=60, between=None):
    """(server, client): the client starts once the server has written `ready`;
    between(s, c) while they run."""
    s = env.run(env.a, *server)
    c = None
    try:
        s.wait_text(ready, 30)
        c = env.run(env.b, *client)
        if between:
            between(s, c)
        finish(s, c, timeout)
        return s, c
    finally:
        for p in (s, c):
            if p:
                p.end()


def rc(way, kind):
    def run(env):
        port = env.port()
        sides = [line(env, way, 'rc', f'--port {port} --ib-dev urnic0 -i 1 '
                      f'--gid-idx {env.gid(h, kind)}')
                 for h in (env.a, env.b)]
        s, c = env.pair(sides[0], sides[1] + [env.a.ip4], port=port)
        expect(c, r'SEND operation (.|\n)*RDMA read operation')
        expect(s, 'RDMA write operation')
    return run


def rc_default(env):
    """Without options: the first device, and LIDs instead of GIDs."""
    p = line(env, 'urnic0', 'rc', '')
    s, c = env.pair(p, p + [env.a.ip4], port=19875)
    expect(c, 'RDMA read operation')
    expect(s, 'RDMA write operation')


def rc_on_iwarp(env):
    """Connections of iWARP are made by rdma_cm: as siw, EINVAL in RTS."""
    pair_refused(env, '-d urniw0 -g 0', 'to RTS.*Invalid argument')


def rc_no_such(args, pattern):
    """A port or a GID that the device has not."""
    def run(env):
        pair_refused(env, f'-d urnic0 {args}', pattern)
    return run


def pair_refused(env, args, pattern):
    port = env.port()
    argv = line(env, 'urnic0', 'rc', f'-p {port} {args}')
    s = env.run(env.a, *argv)
    c = None
    try:
        s.wait_listen(port)
        c = env.run(env.b, *argv, env.a.ip4)
        for p in (s, c):
            if p.wait(20) != 1:
                raise Failure(p.describe())
            expect(p, pattern)
    finally:
        for p in (s, c):
            if p:
                p.end()


def multicast(name, way, args, result, bound=True):
    def run(env):
        def side(host, more):
            at = f'-b {host.ip4}' if bound else ''
            return line(env, way, name, f'{args} {at} {more}')
        ready = 'all joined' if name == 'mckey' else 'joined '
        s, c = both(env, side(env.a, ''), side(env.b, '-s'), ready)
        expect(s, result.replace('SENT', 'received'))
        expect(c, result.replace('SENT', 'sent'))
    return run


def mc_not_bound(way):
    """The route says which interface joins."""
    def run(env):
        for h in env.place.hosts:
            h.sh('ip', 'route', 'add', '239.77.0.0/16', 'dev', h.dev)
        try:
            multicast('mc', way, '-m 239.77.2.6', 'SENT message 4\n',
                      bound=False)(env)
        finally:
            for h in env.place.hosts:
                h.sh('ip', 'route', 'del', '239.77.0.0/16', 'dev', h.dev)
    return run


def mckey_too_large(env):
    refused(env, line(env, 'urnic0', 'mckey', '-m 239.77.2.8 -S 5000 '
                      f'-b {env.a.ip4}'), '5000 bytes are more than the MTU')


def srq(way, args, sent, answers, v6=False):
    def run(env):
        addr = env.a.ip6 if v6 else env.a.ip4
        argv = f'-a {addr} -p {env.port()} {args}'
        s, c = both(env, line(env, way, 'srq', f'-s {argv}'),
                    line(env, way, 'srq', argv), 'listening')
        expect(c, f'sent {sent}, received {answers}$')
        expect(s, f'sent {answers}, received {sent}$')
    return run


def apm_sides(env, way, args):
    port = env.port()
    return (line(env, way, 'apm', f'-s -p {port} {args}'),
            line(env, way, 'apm', f'-a {env.a.ip4} -p {port} {args}'))


def apm(way, args, count, migrated, timeout=60):
    def run(env):
        server, client = apm_sides(env, way, args)
        s, c = both(env, server, client, 'listening', timeout)
        for p in (s, c):
            expect(p, 'alternate path loaded, port 1')
            expect(p, f'sent {count}\n')
            if migrated != ('path migrated' in p.text()):
                raise Failure(f'migrated: {not migrated}: {p.describe()}')
    return run


def apm_on_iwarp(env):
    port = env.port()
    server, client = (line(env, 'urniw0', 'apm', args) for args in
                      (f'-s -p {port}', f'-a {env.a.ip4} -p {port}'))
    s = env.run(env.a, *server)
    try:
        s.wait_text('listening', 30)
        refused(env, client, 'does not migrate paths')
    finally:
        s.end()


def apm_broken(way):
    """The first addresses get no packet of RoCE any more: the messages go on
    between the second ones.  The connection manager has no other path than the
    first one, so the drops end before they disconnect."""
    def run(env):
        def cut(s, c):
            for p in (s, c):
                p.wait_text('received 5\n', 30)
            for h in env.place.hosts:
                lose_at(h, h.dev, 100)
            for p in (s, c):
                p.wait_text('path migrated', 60)
                p.wait_text('received 60\n', 60)
            for h in env.place.hosts:
                h.sh('tc', 'qdisc', 'del', 'dev', h.dev, 'clsact')
        server, client = apm_sides(env, way, '-c 60 -l 100000 -w 50')
        add_link(env)
        try:
            s, c = both(env, server, client, 'listening', 60, cut)
            expect(s, f'alternate path to ::ffff:{NET}.2')
            expect(c, f'alternate path to ::ffff:{NET}.1')
        finally:
            restore(env)
    return run


CASES = [Case(f'{way}-rc-{kind}', rc(way, kind))
         for way in ROCE for kind in ('v4', 'v6')]
CASES += [
    Case('rc-default', rc_default),
    Case('rc-on-iwarp', rc_on_iwarp),
    Case('rc-no-port', rc_no_such('-i 9', 'ibv_query_port')),
    Case('rc-no-gid', rc_no_such('-g 200', 'ibv_query_gid')),
    Case('mckey-too-large', mckey_too_large, where='veth'),
    Case('apm-on-iwarp', apm_on_iwarp),
    # Its defaults: 100 rounds, each of two delays of 500 ms.
    Case('apm-default', apm('urnic0', '-m 40', 100, True, 200), full=True),
    Case('apm-broken', apm_broken('urnic0'), where='veth'),
]
for way in ROCE:
    CASES += [
        Case(f'{way}-mckey', multicast(
            'mckey', way, '-m 239.77.2.1', '10 messages')),
        Case(f'{way}-mckey-options', multicast(
            'mckey', way, '-m 239.77.2.2 -c 3 -C 50 -S 1000 -p 0x2',
            '150 messages')),
        Case(f'{way}-mckey-join-only', multicast(
            'mckey', way, '-m 239.77.2.3 -C 0', '0 messages')),
        Case(f'{way}-mckey-unmapped', multicast(
            'mckey', way, '-M 239.77.2.7', '10 messages')),
        Case(f'{way}-mc', multicast(
            'mc', way, '-m 239.77.2.4', 'SENT message 4\n')),
        Case(f'{way}-mc-options', multicast(
            'mc', way, '-m 239.77.2.5 -p 7000 -c 50 -l 1000',
            'SENT message 50\n')),
        Case(f'{way}-mc-not-bound', mc_not_bound(way), where='veth'),
        Case(f'{way}-apm', apm(way, '-c 20 -w 1', 20, False)),
        Case(f'{way}-apm-migrate', apm(way, '-c 20 -w 1 -m 8', 20, True)),
        Case(f'{way}-apm-options', apm(
            way, '-c 20 -w 1 -l 5000 -d 1 -r 1 -m 8', 20, True)),
    ]
for way in WAYS:
    CASES += [
        Case(f'{way}-srq', srq(way, '', 100, 2)),
        Case(f'{way}-srq-v6', srq(way, '', 100, 2, v6=True)),
        Case(f'{way}-srq-options', srq(
            way, '-c 1000 -l 3000 -q 9 -w 17', 1000, 59)),
    ]
