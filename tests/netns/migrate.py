# SPDX-License-Identifier: BSD-2-Clause
"""A connection outlives the link that it was made on: automatic path
migration between two namespaces that two pairs of veth join."""

from harness.env import Case, Failure, finish, parse_gids

NET = '10.9.1'


def add_link(env):
    """Another pair of interfaces, of the size of the first."""
    a, b = env.a, env.b
    a.sh('ip', 'link', 'add', 'vea2', 'type', 'veth', 'peer', 'name', 'veb2',
         'netns', b.ns)
    for i, (h, dev) in enumerate(((a, 'vea2'), (b, 'veb2')), 1):
        h.sh('ip', 'link', 'set', dev, 'mtu', env.place.mtu, 'up')
        h.sh('ip', 'addr', 'add', f'{NET}.{i}/24', 'dev', dev)


def restore(env):
    env.a.sh('ip', 'link', 'del', 'vea2', check=False)
    for h in env.place.hosts:
        h.sh('tc', 'qdisc', 'del', 'dev', h.dev, 'clsact', check=False)
        h.sh('ip', 'link', 'set', h.dev, 'up')
        h.sh('ip', 'addr', 'replace', h.ip6 + '/64', 'dev', h.dev, 'nodad')


def index_of(env, host, addr):
    gids = parse_gids(env.call(host, 'ibv_devinfo', '-v'))
    for index, gid in gids:
        if gid.lower() == f'::ffff:{addr}':
            return index
    raise Failure(f'{addr} is no GID: {gids}')


def side(env, host, port, number):
    return [env.prog('migrate'), '-M', 'cut', '-p', port,
            '-g', index_of(env, host, host.ip4),
            '-a', index_of(env, host, f'{NET}.{number}')]


def down(letter):
    def cut(env):
        h = env.a if letter == 'a' else env.b
        h.sh('ip', 'link', 'set', h.dev, 'down')
    return cut


def silence(env):
    """The link is up, and drops everything."""
    env.place.lose(100)


def migrate(cut):
    def run(env):
        port = env.port()
        add_link(env)
        s = c = None
        try:
            s = env.run(env.a, *side(env, env.a, port, 1))
            s.wait_listen(port)
            # What the sides say to each other must outlive the link too.
            c = env.run(env.b, *side(env, env.b, port, 2), f'{NET}.1')
            c.wait_text('armed', 20)
            s.wait_text('armed', 20)
            cut(env)
            finish(s, c, 60)
            c.wait_text('messages each way', 1)
        finally:
            for p in (s, c):
                if p:
                    p.end()
            restore(env)
    return run


CASES = [
    Case('first-link-of-the-server-down', migrate(down('a')), where='veth'),
    Case('first-link-of-the-client-down', migrate(down('b')), where='veth'),
    Case('first-link-silent', migrate(silence), where='veth'),
]
