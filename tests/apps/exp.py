# SPDX-License-Identifier: BSD-2-Clause
"""Programs in the style of Mellanox OFED for the experimental verbs
(tests/progs/exp_umr_rc.c, exp_cc_pingpong.c, exp_dc_target.c and
exp_dc_initiator.c), and every call and flag (exp_flags.c, exp_xrc.c), on each path
and with loss; limits and wrong arguments (exp_edges.c)."""

from harness.env import Case
from netns.loss import check_dropped, lossy

WAYS = {
    'urnic0': {'URNIC_RDMACM_DEVICE': 'urnic0'},
    'urnic0-sockets': {'URNIC_RDMACM_DEVICE': 'urnic0', 'URNIC_SHM': '0'},
    'urnic0-lanes': {'URNIC_RDMACM_DEVICE': 'urnic0', 'URNIC_LANES': '4'},
    'urniw0': {'URNIC_RDMACM_DEVICE': 'urniw0'},
}
ROCE = ('urnic0', 'urnic0-sockets', 'urnic0-lanes')
UMR = ('data', 'srq', 'stale', 'srq-stale')
DC = ('send', 'imm', 'write', 'read', 'atomic', 'key')
CROSS = ('calc', 'plain', 'recv', 'one', 'over')
EDGES = ('atomics', 'lists', 'tasks', 'rights')


def pair(env, way, name, args, gid=None):
    port = env.port()
    base = ['env'] + [f'{k}={v}' for k, v in WAYS[way].items()] + [
        env.prog(name), '-p', port, *args]

    def side(host):
        return base + (['-g', env.gid(host, gid)] if gid else [])
    env.pair(side(env.a), side(env.b) + [env.a.ip4], port=port, timeout=120)


def umr_rc(way, mode):
    def run(env):
        pair(env, way, 'exp_umr_rc', ['-M', mode])
    return run


def cc_pingpong(way, mode):
    def run(env):
        pair(env, way, 'exp_cc_pingpong', ['-M', mode, '-n', 320], 'v4')
    return run


def by_number(way, name):
    """A program that connects queue pairs by their numbers."""
    def run(env):
        pair(env, way, name, [], 'v4')
    return run


def edges(way, mode):
    def run(env):
        env.call(env.a, 'env', *[f'{k}={v}' for k, v in WAYS[way].items()],
                 env.prog('exp_edges'), '-M', mode)
    return run


def with_loss(percent, case):
    def run(env):
        lossy(env, percent)
        case(env)
        check_dropped(env)
    return run


def dc(way, mode, *args):
    def run(env):
        port = env.port()
        ways = ['env'] + [f'{k}={v}' for k, v in WAYS[way].items()]

        def side(host, name):
            return ways + [env.prog(name), '-p', port, '-M', mode, '-g',
                           env.gid(host, 'v4')]
        env.pair(side(env.a, 'exp_dc_target') + [*args],
                 side(env.b, 'exp_dc_initiator') + [env.a.ip4], port=port,
                 timeout=120)
    return run


CASES = [Case(f'{way}-umr-rc-{mode}', umr_rc(way, mode))
         for way in WAYS if way != 'urnic0-lanes' for mode in UMR]
CASES += [Case(f'{way}-cc-pingpong-{mode}', cc_pingpong(way, mode))
          for way in ROCE for mode in CROSS]
CASES += [Case(f'{way}-dc-{mode}', dc(way, mode))
          for way in ('urnic0', 'urnic0-lanes') for mode in DC]
CASES.append(Case('urnic0-dc-events', dc('urnic0', 'send', '-F')))
CASES += [Case(f'{way}-{name}', by_number(way, f'exp_{name}'))
          for way in ROCE for name in ('flags', 'xrc')]
CASES.append(Case('urniw0-flags', lambda env: pair(env, 'urniw0', 'exp_flags',
                                                   ['-M', 'iwarp'])))
CASES += [Case(f'{way}-edges-{mode}', edges(way, mode))
          for way in ROCE for mode in EDGES]
# A receiver in the error state does not repeat its NAK, so no stale key here.
for percent in (1, 5):
    CASES += [Case(f'umr-rc-{mode}-{percent}%',
                   with_loss(percent, umr_rc('urnic0', mode)),
                   percent != 1, 'veth') for mode in ('data', 'srq')]
    CASES += [Case(f'cc-pingpong-{mode}-{percent}%',
                   with_loss(percent, cc_pingpong('urnic0', mode)),
                   percent != 1, 'veth') for mode in CROSS]
    CASES += [Case(f'dc-{mode}-{percent}%',
                   with_loss(percent, dc('urnic0', mode)),
                   percent != 1, 'veth') for mode in DC]
    CASES += [Case(f'{name}-{percent}%', with_loss(
        percent, by_number('urnic0', f'exp_{name}')), percent != 1, 'veth')
              for name in ('flags', 'xrc')]
