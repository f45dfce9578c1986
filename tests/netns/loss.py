# SPDX-License-Identifier: BSD-2-Clause
"""Random loss of packets on the link: RC repairs it, data stays right.

The drops are made by a classic BPF program at the receiving interfaces; the
kernel's netem is not everywhere.
"""

from harness.env import Case, Failure, words
from apps.demos import collectives
from apps.perftest import check_table
from apps.pingpong import check
from apps.rsocket import stream

PINGPONG = (
    ('rc', 'v4', '-c -n 2000'),
    ('rc', 'v6', '-c -n 500'),
    ('rc', 'v4', '-c -e -n 1000'),
    ('rc', 'v4', '-c -s 1048576 -n 20'),
    ('srq', 'v4', '-c -n 1000'),
)
RSOCKET = (
    'rstream -T v -S 65536 -C 40 -I 5',
    'rstream -T v -S 100 -C 500 -I 5',
    'rstream -T v -T a -S 3000 -C 200 -I 5',
    'riostream -T v -S 65536 -C 5 -I 5',
)
PERFTEST = (
    ('send_bw', '-s 65536 -n 500'),
    ('write_bw', '-s 65536 -n 500'),
    ('read_bw', '-s 65536 -n 500'),
    ('atomic_bw', '-n 500'),
    ('send_lat', '-s 64 -n 1000'),
    ('write_bw', '-q 16 -s 4096 -n 200'),
)


def lossy(env, percent):
    env.place.real_packets()
    env.place.lose(percent)


def pair(env, kind, gid, args):
    port = env.port()
    base = [f'ibv_{kind}_pingpong', '-p', port] + words(args)
    return env.pair(base + ['-g', env.gid(env.a, gid)],
                    base + ['-g', env.gid(env.b, gid), env.a.ip4],
                    port=port, timeout=120)


def pingpong(kind, gid, args, percent):
    def run(env):
        lossy(env, percent)
        s, c = pair(env, kind, gid, args)
        check(s.text(), kind, args)
        check(c.text(), kind, args)
        check_dropped(env)
    return run


def perftest(prog, args, percent):
    def run(env):
        lossy(env, percent)
        port = env.port()
        base = [f'ib_{prog}', '-F', '-p', port] + words(args)
        s, c = env.pair(base, base + [env.a.ip4], port=port, timeout=120)
        check_table(c.text(), prog, args)
        check_dropped(env)
    return run


def rsocket(prog, percent):
    def run(env):
        lossy(env, percent)
        stream('urnic0', prog, False)(env)
        check_dropped(env)
    return run


def compare(percent, name, *args):
    """One of our programs, which compares what arrives."""
    def run(env):
        lossy(env, percent)
        port = env.port()
        base = [env.prog(name), '-p', port, *args]
        env.pair(base + ['-g', env.gid(env.a, 'v4')],
                 base + ['-g', env.gid(env.b, 'v4'), env.a.ip4], port=port,
                 timeout=120)
        check_dropped(env)
    return run


def exp_atomics(device, percent):
    def run(env):
        lossy(env, percent)
        port = env.port()
        base = ['env', f'URNIC_RDMACM_DEVICE={device}',
                env.prog('exp_atomics'), '-p', port]
        env.pair(base, base + [env.a.ip4], port=port, timeout=120)
        check_dropped(env)
    return run


def umr(percent):
    """Keys over lists of regions: responses and WRITEs are sent again."""
    def run(env):
        lossy(env, percent)
        port = env.port()
        base = ['env', 'URNIC_RDMACM_DEVICE=urnic0', env.prog('umr'), '-p',
                port, '-n', '100']
        env.pair(base, base + [env.a.ip4], port=port, timeout=120)
        check_dropped(env)
    return run


def adapter_alone(percent):
    """Cross-channel requests: all-reduces; their results are compared."""
    def run(env):
        lossy(env, percent)
        collectives('urnic0-sockets', '-i 40')(env)
        check_dropped(env)
    return run


def check_dropped(env):
    """The filter is in place: a test of loss without loss proves nothing."""
    for h in env.place.hosts:
        if 'bytecode' not in h.sh('tc', 'filter', 'show', 'dev', h.dev,
                                  'ingress'):
            raise Failure('the loss filter is gone')


CASES = []
for percent in (1, 5):
    full = percent != 1
    CASES += [Case(f'{kind}-pingpong-{i}-{percent}%',
                   pingpong(kind, gid, args, percent), full, 'veth')
              for i, (kind, gid, args) in enumerate(PINGPONG)]
    CASES += [Case(f'{prog}-{i}-{percent}%', perftest(prog, args, percent),
                   full, 'veth') for i, (prog, args) in enumerate(PERFTEST)]
    CASES += [Case(f'rsocket-{i}-{percent}%', rsocket(prog, percent), full,
                   'veth') for i, prog in enumerate(RSOCKET)]
    CASES += [Case(f'exp-atomics-{device}-{percent}%',
                   exp_atomics(device, percent), full, 'veth')
              for device in ('urnic0', 'urniw0')]
    CASES.append(Case(f'umr-{percent}%', umr(percent), full, 'veth'))
    CASES.append(Case(f'verify-{percent}%', compare(
        percent, 'verify', '-n', '200', '-s', '262144'), full, 'veth'))
    CASES.append(Case(f'collectives-{percent}%', adapter_alone(percent), full,
                      'veth'))
    CASES += [Case(f'dc-{mode}-{percent}%', compare(
        percent, 'dc', '-M', mode), full, 'veth') for mode in ('data', 'keys')]
    CASES.append(Case(f'dc-1000-targets-{percent}%', compare(
        percent, 'dc', '-M', 'turns', '-q', '1000', '-n', '1'), full, 'veth'))
    CASES.append(Case(f'xrc-{percent}%', compare(
        percent, 'xrc_procs', '-M', 'data', '-n', '400'), full, 'veth'))
