# SPDX-License-Identifier: BSD-2-Clause
"""Our own verbs programs (tests/progs) on urnic."""

import re
import shutil

from harness.env import Case, Failure, words
from harness.proc import SLOW, Skip

QUICK_LIMITS = ('qp_caps', 'recv_wr', 'send_wr', 'sge', 'inline', 'cqe',
                'cq_overrun', 'srq_wr', 'rd_atomic', 'message', 'tables',
                'pds', 'mws')
SLOW_LIMITS = ('cqs', 'srqs', 'mrs', 'ahs', 'qps', 'groups')
MEMORY = ('null', 'dm', 'dmabuf', 'odp', 'import', 'domains', 'many-domains')
IMPORT = ('malloc', 'file', 'odp', 'null', 'dm', 'dereg', 'dereg-file',
          'halt', 'rereg', 'end', 'death', 'user', 'netns')
WINDOWS = ('type1', 'type2', 'refused', 'faults', 'unaligned', 'destroyed',
           'extended')
UMR = ('data', 'invalid', 'dead', 'dead-own', 'split', 'send', 'ext',
       'ext-split')
LEAVE = {'return': 0, 'exit': 0, '_exit': 0, 'thread': 0, 'close': 0,
         'abort': -6}


def pair(prog, args, gid='v4', timeout=120, wire=False, lanes=1):
    def run(env):
        port = env.port()
        base = ['env', 'URNIC_SHM=0'] if wire else []
        base += ['env', f'URNIC_LANES={lanes}'] if lanes > 1 else []
        base += [env.prog(prog), '-p', port] + words(args)
        env.pair(base + ['-g', env.gid(env.a, gid)],
                 base + ['-g', env.gid(env.b, gid), env.a.ip4],
                 port=port, timeout=timeout)
    return run


def skipped(p):
    """Skip what a program says that it cannot check here (vt_skip())."""
    m = re.search('^skipped: (.*)', p.text(), re.M)
    if p.wait(0) == 77 and m:
        raise Skip(m[1])


def migrate(mode):
    """From IPv4 to IPv6 and back."""
    def run(env):
        port = env.port()
        base = [env.prog('migrate'), '-p', port, '-M', mode]
        args = [base + ['-g', env.gid(h, 'v4'), '-a', env.gid(h, 'v6')]
                for h in (env.a, env.b)]
        env.pair(args[0], args[1] + [env.a.ip4], port=port)
    return run


def alone(prog, args, code=0, timeout=60, wire=False):
    def run(env):
        base = ['env', 'URNIC_SHM=0'] if wire else []
        p = env.run(env.a, *base, env.prog(prog), *words(args))
        got = p.wait(timeout)
        skipped(p)
        if got != code:
            raise Failure(f'exit {got} instead of {code}: {p.describe()}')
    return run


def lanes(prog, args):
    """With queue pairs on several lanes."""
    def run(env):
        env.call(env.a, 'env', 'URNIC_LANES=4', env.prog(prog), *words(args),
                 timeout=60)
    return run


def memcheck(args, code):
    """Under valgrind, whose exit code tells whether it reported errors."""
    def run(env):
        if SLOW > 1:
            raise Skip('sanitizers and valgrind exclude each other')
        if not shutil.which('valgrind'):
            raise Skip('valgrind is not installed')
        p = env.run(env.a, 'valgrind', '-q', '--error-exitcode=9',
                    env.prog('memcheck'), *words(args))
        got = p.wait(120)
        if got != code:
            raise Failure(f'exit {got} instead of {code}: {p.describe()}')
    return run


def memory_by_cm(device, what):
    """The same as `memory` on a device that rdma_cm connects."""
    def run(env):
        env.call(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                 env.prog('memory'), env.a.ip4, '-M', what)
    return run


def exp_verbs(device):
    def run(env):
        env.call(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                 env.prog('exp_verbs'), env.a.ip4)
    return run


def exp_atomics(device, args, settings=()):
    def run(env):
        port = env.port()
        base = ['env', f'URNIC_RDMACM_DEVICE={device}', *settings]
        base += [env.prog('exp_atomics'), '-p', port] + words(args)
        env.pair(base, base + [env.a.ip4], port=port)
    return run


def windows(device, what):
    def run(env):
        env.call(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                 env.prog('windows'), env.a.ip4, what)
    return run


def umr(device, mode, wire=False):
    """Two processes, with a key over a list of regions on either side."""
    def run(env):
        port = env.port()
        base = ['env', f'URNIC_RDMACM_DEVICE={device}',
                f'URNIC_SHM={0 if wire else 1}', env.prog('umr'),
                '-p', port, '-M', mode]
        env.pair(base, base + [env.a.ip4],
                 port=port, timeout=120)
    return run


CASES = [
    Case('1000-qps', pair('many_qps', '-q 1000')),
    Case('4000-qps', pair('many_qps', '-q 4000 -n 2'), full=True),
    Case('event-pingpong', pair('event_pingpong', '-n 20000')),
    Case('event-pingpong-v6', pair('event_pingpong', '-n 2000', 'v6')),
    *[Case(f'event-{mode}{way}', pair('event_pingpong', f'-n 20000 -M {mode}',
                                      wire=bool(way)))
      for mode in ('poll', 'epoll', 'edge', 'channels')
      for way in ('', '-by-wire')],
    *[Case(f'event-{mode}-lanes{way}',
           pair('event_pingpong', f'-n 10000 -q 4 -M {mode}', wire=bool(way),
                lanes=2))
      for mode in ('edge', 'channels') for way in ('', '-by-wire')],
    Case('event-pingpong-1000000',
         pair('event_pingpong', '-n 1000000', timeout=600), full=True),
    Case('verify', pair('verify', '-n 300')),
    Case('verify-v6', pair('verify', '-n 100', 'v6')),
    Case('verify-8-MiB', pair('verify', '-n 500 -s 8388608', timeout=300),
         full=True),
    Case('datagrams', pair('datagrams', '-M ud')),
    Case('datagrams-v6', pair('datagrams', '-M ud', 'v6')),
    Case('datagrams-by-wire', pair('datagrams', '-M ud', wire=True)),
    Case('uc', pair('datagrams', '-M uc')),
    Case('uc-v6', pair('datagrams', '-M uc', 'v6')),
    Case('uc-by-wire', pair('datagrams', '-M uc', wire=True)),
    Case('datagrams-100000', pair('datagrams', '-M ud -n 100000'), full=True),
    Case('uc-100000', pair('datagrams', '-M uc -n 100000'), full=True),
    Case('multicast', pair('mcast', '')),
    # The kernel does not deliver IPv6 multicast on lo.
    Case('multicast-v6', pair('mcast', '-M v6', 'v6'), where='veth'),
    Case('migrate-modify', migrate('modify')),
    Case('migrate-wrong', migrate('wrong')),
    Case('caps', alone('caps', '')),
    Case('mlx5-asks', alone('mlx5_asks', ''), where='lo'),
    Case('exp-style', alone('exp_style', '')),
    Case('exp-types', alone('exp_types', '')),
    Case('exp-verbs', alone('exp_verbs', '')),
    Case('exp-verbs-by-wire', alone('exp_verbs', '', wire=True)),
    Case('cross-chain', alone('cross', '-M chain', wire=True)),
    Case('cross-events', alone('cross', '-M events -n 300', wire=True)),
    Case('cross-uc', alone('cross', '-M uc')),
    Case('cross-uc-by-wire', alone('cross', '-M uc', wire=True)),
    Case('cross-errors', alone('cross', '-M errors')),
    Case('cross-threads', alone('cross', '-M threads')),
    Case('cross-lanes', lanes('cross', '-M chain')),
    Case('cross-lanes-events', lanes('cross', '-M events -n 300')),
    Case('cross-lanes-errors', lanes('cross', '-M errors')),
    Case('cross-lanes-threads', lanes('cross', '-M threads')),
    Case('misuse', alone('misuse', '')),
    Case('old-abi', alone('old_abi', '')),
    Case('threads', alone('threads', '')),
    Case('crowd', alone('crowd', '')),
    Case('crowd-by-wire', alone('crowd', '', wire=True)),
    Case('crowd-turns', alone('crowd', '-M turns -n 5000')),
    Case('cancelled', alone('cancelled', '')),
    Case('cancelled-by-wire', alone('cancelled', '', wire=True)),
    Case('after-fork', alone('after_fork', '')),
    Case('dlopen', alone('reload', '50'), where='lo'),
]
CASES += [
    Case('memcheck', memcheck('', 0), where='lo'),
    Case('memcheck-sees-faults', memcheck('-M fault', 9), where='lo'),
]
CASES += [Case(f'endings-{mode}{way}',
               pair('endings', f'-M {mode}', wire=bool(way)))
          for mode in ('ud', 'uc', 'acked') for way in ('', '-by-wire')]
CASES += [Case(f'endings-{mode}-stopped',
               pair('endings', f'-M {mode}-stopped -n 6'))
          for mode in ('ud', 'uc')]
CASES += [Case(f'memory-{name}', alone('memory', f'-M {name}'))
          for name in MEMORY]
CASES += [Case(f'memory-{name}-urniw0', memory_by_cm('urniw0', name))
          for name in MEMORY[:4]]
CASES += [
    Case('crossing', alone('crossing', '')),
    Case('crossing-64-KiB', alone('crossing', '-s 65536'), where='lo'),
    Case('crossing-by-wire', alone('crossing', '', wire=True)),
    Case('blocked', pair('blocked', '')),
    Case('blocked-64-KiB', pair('blocked', '-s 65536'), where='lo'),
    Case('blocked-by-wire', pair('blocked', '', wire=True)),
    Case('memory-gone', alone('memory', '-M gone')),
    Case('memory-gone-by-wire', alone('memory', '-M gone', wire=True)),
    Case('memory-gone-urniw0', memory_by_cm('urniw0', 'gone')),
]
CASES += [Case(f'windows-{what}-{device}', windows(device, what))
          for what in WINDOWS for device in ('urnic0', 'urniw0')]
CASES += [Case(f'exp-verbs-{device}', exp_verbs(device))
          for device in ('urnic0', 'urniw0')]
CASES += [Case(f'exp-atomics{mode}-{device}', exp_atomics(device, args))
          for device in ('urnic0', 'urniw0')
          for mode, args in (('', ''), ('-key', '-M key'),
                             ('-align', '-M align'))]
CASES += [Case(f'exp-atomics{mode}-by-wire', exp_atomics('urnic0', args, ('URNIC_SHM=0',)))
          for mode, args in (('', ''), ('-key', '-M key'),
                             ('-align', '-M align'))]
# READ and WRITE of operands of 16 bytes, each about a second: by direct access (of
# a client that has such atomics itself, and of one that has none), the ring, packets,
# iWARP.
CASES += [Case(f'exp-atomics-{name}', exp_atomics(device, args, env))
          for name, device, args, env in (
              ('whole', 'urnic0', '-M whole -n 4000', ()),
              ('others', 'urnic0', '-M others -n 4000', ()),
              ('others-private', 'urnic0', '-M others -F -n 1000', ()),
              ('whole-by-wire', 'urnic0', '-M whole -n 1000', ('URNIC_SHM=0',)),
              ('whole-urniw0', 'urniw0', '-M whole -n 1000', ()))]
CASES += [Case(f'umr-{mode}{way}', umr('urnic0', mode, bool(way)))
          for mode in UMR for way in ('', '-by-wire')]
CASES.append(Case('umr-large', umr('urnic0', 'large')))
CASES += [Case(f'umr-{mode}-urniw0', umr('urniw0', mode)) for mode in UMR]
CASES += [Case('dc-refused', alone('dc', '-M refused'))]
CASES += [Case(f'dc-{mode}', pair('dc', f'-M {mode} {args}'.rstrip()))
          for mode, args in (('data', ''), ('keys', '-n 50'),
                             ('destroy', ''), ('killed', ''))]
CASES += [Case('dc-2000-targets', pair('dc', '-M turns -q 2000 -n 1'))]
CASES += [Case('flush-and-atomic-write', windows('urnic0', 'placed'))]
CASES += [Case(f'shared-{mode}', alone('shared', f'-M {mode}'))
          for mode in ('xrc', 'tags', 'limits')]
CASES += [Case(f'import-{mode}', alone('import_procs', f'-M {mode}'))
          for mode in IMPORT]
CASES += [Case(f'xrc-{mode}', pair('xrc_procs', f'-M {mode} -n 1'))
          for mode in ('handles', 'kill-second', 'kill-maker')]
CASES += [Case(f'xrc-{mode}-{seed}',
               pair('xrc_procs', f'-M {mode} -n {seed}'), full=True)
          for mode in ('kill-second', 'kill-maker') for seed in range(2, 12)]
CASES += [Case('xrc-data', pair('xrc_procs', '-M data -n 100')),
          Case('xrc-data-long', pair('xrc_procs', '-M data -n 600'), full=True)]
CASES += [Case(f'leave-by-{mode}', alone('leave', f'-M {mode}', code))
          for mode, code in LEAVE.items()]
CASES += [Case(f'limit-{name}', alone('limits', f'-M {name}'), where='lo')
          for name in QUICK_LIMITS]
CASES += [Case(f'limit-{name}', alone('limits', f'-M {name}', timeout=600),
               where='lo', full=True) for name in SLOW_LIMITS]
