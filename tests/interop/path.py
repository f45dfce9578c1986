# SPDX-License-Identifier: BSD-2-Clause
"""What carries packets between the two is what the run is about."""

import time

from cm import MODES, listens
from harness.env import Case, Failure
from harness.proc import SLOW

# How lanes name what carries their packets.
ROCE = {'sockets': 'udp', 'dpdk': 'dpdk', 'urnicd': 'ring'}
IWARP = {'sockets': 'tcp', 'dpdk': 'lwip', 'urnicd': 'lwip'}


def links(env):
    return [lane.get('link') for p in env.show(env.a)['processes']
            for lane in p.get('report', {}).get('lanes', ())]


def rping(env, mode):
    """(server, client) of one that does not end by itself."""
    env.set_link(MODES[mode].link)
    server, client = env.sides()
    told = {env.a: ['env'] + MODES[mode].env, env.b: []}
    args = ['-p', env.port(), '-a', server.ip4]
    s = env.run(server, *told[server], 'rping', '-s', *args)
    try:
        listens(env, server, s)
        return s, env.run(client, *told[client], 'rping', '-c', *args)
    except Failure:
        s.end()
        raise


def carried(mode, names):
    def run(env):
        s, c = rping(env, mode)
        wanted, seen = names[env.joint.way], None
        try:
            end = time.monotonic() + 20 * SLOW
            while wanted not in (seen := links(env)):
                if time.monotonic() > end or not c.running():
                    raise Failure(f'lanes are {seen}, not {wanted}:\n      '
                                  f'{s.describe()}\n      {c.describe()}')
                time.sleep(0.2)
        finally:
            c.end()
            s.end()
            env.b.sweep()
    return run


def host(env):
    """What is not RDMA's reaches the kernels while an application runs."""
    s, c = rping(env, 'rxe')
    try:
        time.sleep(1)
        for one, other in ((env.a, env.b), (env.b, env.a)):
            for addr in (other.ip4, other.ip6):
                one.sh('ping', '-c', '3', '-i', '0.2', '-W', '5', addr)
        if not s.running() or not c.running():
            raise Failure(f'{s.describe()}\n      {c.describe()}')
    finally:
        c.end()
        s.end()
        env.b.sweep()


CASES = [
    Case('rxe', carried('rxe', ROCE)),
    Case('siw', carried('siw', IWARP)),
    Case('host', host),
]
