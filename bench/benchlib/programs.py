# SPDX-License-Identifier: BSD-2-Clause
"""How each program is run and what is taken from its output.

Every function here returns a function of the world (world.py) that runs the
program once and gives {cell: value}.
"""

import json
import re

from apps.perftest import table
from benchlib.samples import cell
from harness.proc import Failure

MIB = 2 ** 20
US = 1e-6
# What one-sided latency tests time: a round trip, of which they tell half
# where both sides take part.
BOTH_WAYS = ('send', 'write')


class Urnic:
    """The subject of a measurement: a device, and its settings.

    mapped: perftest takes its buffers from a file that others can map too,
    instead of private memory.
    """

    def __init__(self, who='urnic0', device='urnic0', mapped=False):
        self.who, self.device, self.mapped = who, device, mapped
        self.args, self.env = [], {}
        if device == 'urniw0':
            self.env.update(URNIC_DEVICES=device, URNIC_RDMACM_DEVICE=device)
            self.args.append('-R')


def perftest_pair(world, scene, urnic, name, args):
    """Run it; the result row, and all of its output."""
    world.need('ib_send_lat', 'perftest')
    place = world.place(scene.place)
    argv = [world.urnic, 'run', '--', f'ib_{name}', '-d', urnic.device, '-F',
            '-p', 'PORT'] + urnic.args + [str(a) for a in args]
    buffers = [[f'--mmap={path}'] for path in world.buffers()] \
        if urnic.mapped else [[], []]
    text = world.pair(f'{scene.name}/{urnic.who} {name} {args[1]}', place,
                      argv + buffers[0],
                      argv + buffers[1] + [place.a.ip4],
                      env={**scene.env, **urnic.env})
    rows = table(text)
    if not rows:
        raise Failure(f'{name}: no result in\n{text}')
    return rows[-1], text


def guess(world, scene, size, fixed_us, gbytes):
    """How many messages of which each costs so much may fill a sample.

    The first sample tells how many do, and is taken again only when this was
    far too few: a good guess spares the first round half of its runs.
    gbytes: GB/s through memory; the network has a fifth, and ten times the
    fixed cost.
    """
    far = 10 if scene.mtu else 1
    # Half of a sample, since slow machines take longer and a quarter will do.
    us = fixed_us * far + size / (gbytes * 1e3) * min(far, 5)
    return max(1, int(world.seconds * 5e5 / us))


def perf_lat(scene, urnic, op, size, extra=()):
    key = (scene.name, urnic.who, op, size)
    least = 100 if size < MIB else 20
    trips = 2 if op in BOTH_WAYS else 1

    def take(world):
        while True:
            first = guess(world, scene, size, 0.4, 8) // trips
            n = world.count(key, min(max(first, least), 400000))
            args = ['-s', size, '-n', n] + list(extra)
            if op == 'atomic':
                del args[:2]
                args = ['-n', n, '-A', 'FETCH_AND_ADD']
            row, _ = perftest_pair(world, scene, urnic, f'{op}_lat', args)
            if world.learn(key, n, row[4] * trips * n * US, least, 400000):
                return {cell(scene.name, urnic.who, f'{op} lat', size): row[4]}
    return take


def perf_tail(scene, urnic, op, size, n=5000):
    """The median of a latency and what one of a thousand exceeds."""
    def take(world):
        row, _ = perftest_pair(world, scene, urnic, f'{op}_lat',
                               ['-s', size, '-n', n])
        return {cell(scene.name, urnic.who, f'{op} lat', size): row[4],
                cell(scene.name, urnic.who, f'{op} p99.9 lat', size): row[8]}
    return take


def whole(n, qps, batch=100):
    """What perftest can count to: batches of 100, or of a shorter queue.

    It adds one for each completion, the last of a QP too; when the QPs that
    are done have added enough it stops polling, and the others never end.
    """
    return n if qps == 1 else max(1, round(n / batch)) * batch


def perf_bw(scene, urnic, op, size, qps=1, depth=None):
    """Bandwidth and message rate; without a clock for every message."""
    key = (scene.name, urnic.who, op, 'bw', size, qps)
    least, most = (64, 20000) if size >= MIB else (max(2000 // qps, 128),
                                                   8000000 // qps)

    def take(world):
        while True:
            first = guess(world, scene, size, 0.15, 10) // qps
            n = whole(world.count(key, min(max(first, least), most)), qps,
                      min(depth or 100, 100))
            args = ['-s', size, '-n', n, '-N']
            if depth:
                args += ['-t', depth]
            if qps > 1:
                args += ['-q', qps]
            if scene.mtu and urnic.device == 'urnic0':
                args += ['-m', scene.mtu]
            row, _ = perftest_pair(world, scene, urnic, f'{op}_bw', args)
            # Few large messages a second are printed as none, or nearly.
            rate = row[4] if row[4] > 0.1 else row[3] * MIB / size / 1e6
            if world.learn(key, n, n * qps / rate * US, least, most):
                return {
                    cell(scene.name, urnic.who, f'{op} bw', size, qps):
                        rate * size / 1e3,
                    cell(scene.name, urnic.who, f'{op} rate', size, qps):
                        rate,
                }
    return take


def perf_spread(scene, urnic, op, size):
    """No figure, but the distribution of a latency."""
    def take(world):
        n = int(world.seconds * 80000)
        _, text = perftest_pair(world, scene, urnic, f'{op}_lat',
                                ['-s', size, '-n', n, '-H'])
        found = sorted(float(m[1]) for m in
                       re.finditer(r'^\d+, ([\d.]+)\s*$', text, re.M))
        if len(found) < n / 2:
            raise Failure(f'no histogram in\n{text[:2000]}')
        world.distribution(f'{scene.name}/{urnic.who} {op}', spread(found))
        return {}
    return take


SHARES = (1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 100)


def spread(ordered):
    last = len(ordered) - 1
    return [[p, ordered[int(last * p / 100)]] for p in SHARES]


def latency(world, scene, who, op, size, found):
    """A cell of what our own programs print of a latency."""
    world.distribution(f'{scene.name}/{who}', found['percentiles'])
    return {cell(scene.name, who, op, size): found['median_us']}


def own(world, scene, name, *args, package=None):
    """JSON of one of our programs that fork their other side."""
    argv = [world.own(name), '-t', world.seconds] + list(args)
    place = world.place(scene.place)
    if place.a is not place.b:
        argv += ['-a', place.a.ip4, '-n', place.a.ns]
    label = ' '.join([f'{scene.name}/{name}'] + [str(a) for a in args])
    return world.json(label, place.b, argv, scene.env)


def store(scene):
    return lambda w: latency(w, scene, 'store', 'lat', 8,
                             own(w, scene, 'mem_store'))


def ring(scene):
    return lambda w: {cell(scene.name, 'ring', 'rate', 64):
                      own(w, scene, 'mem_ring')['mps']}


def copies(scene, program, who, op, sizes, *args):
    """{size: GB/s} of a program that does all sizes in one run."""
    def take(world):
        part = world.seconds / len(sizes)
        found = own(world, scene, program, '-s', ','.join(map(str, sizes)),
                    '-t', part, *args)
        return {cell(scene.name, who, op, size): found[str(size)]
                for size in sizes}
    return take


def sockets_lat(scene, program, who, size):
    return lambda w: latency(w, scene, who, 'lat', size,
                             own(w, scene, program, '-s', size))


def udp_gso_burst(scene, datagram, size, *args):
    """Bandwidth and rate of bare GSO bursts; size: a datagram's payload."""
    def take(world):
        found = own(world, scene, 'udp_gso', '-s', datagram, *args)
        return {cell(scene.name, 'UDP GSO', 'bw', size):
                found['gbits'] / 8,
                cell(scene.name, 'UDP GSO', 'rate', size): found['mpps']}
    return take


def udp_batches(scene, datagram, size):
    return lambda w: {cell(scene.name, 'sendmmsg', 'rate', size):
                      own(w, scene, 'udp_mmsg', '-s', datagram)['mpps']}


def tcp_stream(scene, size):
    return lambda w: {cell(scene.name, 'TCP', 'bw', size):
                      own(w, scene, 'tcp_stream', '-s', size)['gbits'] / 8}


def iperf3(scene):
    def take(world):
        world.need('iperf3', 'iperf3')
        place = world.place(scene.place)
        text = world.pair(f'{scene.name}/iperf3', place,
                          ['iperf3', '-s', '-1', '-p', 'PORT'],
                          ['iperf3', '-c', place.a.ip4, '-p', 'PORT', '-J',
                           '-t', max(1, round(world.seconds))])
        bits = json.loads(text)['end']['sum_received']['bits_per_second']
        return {cell(scene.name, 'iperf3', 'bw', 131072): bits / 8e9}
    return take


def sockperf(scene, tcp):
    kind = 'tcp' if tcp else 'udp'
    flag = ['--tcp'] if tcp else []

    def take(world):
        world.need('sockperf', 'sockperf')
        place = world.place(scene.place)
        # A UDP server has no listening socket to wait for.
        text = world.pair(f'{scene.name}/sockperf {kind}', place,
                          ['sockperf', 'sr', '-i', place.a.ip4, '-p', 'PORT',
                           '--nonblocked'] + flag,
                          ['sockperf', 'pp', '-i', place.a.ip4, '-p', 'PORT',
                           '--nonblocked', '-m', '64', '-t', '1'] + flag,
                          ends=False)
        m = re.search(r'percentile 50\.000 =\s+([\d.]+)', text)
        if not m:
            raise Failure(f'sockperf: no median in\n{text}')
        return {cell(scene.name, f'sockperf {kind}', 'lat', 64): float(m[1])}
    return take


def qperf(scene):
    def take(world):
        world.need('qperf', 'qperf')
        place = world.place(scene.place)
        text = world.pair(f'{scene.name}/qperf', place,
                          ['qperf', '-lp', 'PORT'],
                          ['qperf', '-lp', 'PORT', '-t', '1', '-u',
                           place.a.ip4, 'tcp_lat', 'tcp_bw'], ends=False)
        lat = re.search(r'latency\s+=\s+([\d.]+)\s+(\w+)', text)
        bw = re.search(r'bw\s+=\s+([\d.]+)\s+(\w+)', text)
        if not lat or not bw:
            raise Failure(f'qperf: no result in\n{text}')
        ns = float(lat[1]) * {'ns': 1, 'us': 1e3, 'ms': 1e6}[lat[2]]
        bits = {'bytes': 1, 'KB': 1e3, 'MB': 1e6, 'GB': 1e9}
        return {cell(scene.name, 'qperf tcp', 'lat', 1): ns / 1e3,
                cell(scene.name, 'qperf tcp', 'bw', 65536):
                float(bw[1]) * bits[bw[2]] / 1e9}
    return take


# Columns of ucx_perftest -f -v.
UCX_MEDIAN, UCX_RATE = 1, 7


def ucx_run(world, scene, who, tls, test, size, n, share=50):
    """The result row; share: the percentile of its latency."""
    world.need('ucx_perftest', 'ucx-utils')
    place = world.place(scene.place)
    env = {'UCX_TLS': tls, 'UCX_LOG_LEVEL': 'error',
           'UCX_WARN_UNUSED_ENV_VARS': 'n'}
    text = world.pair(f'{scene.name}/{who} {test} {size}', place,
                      ['ucx_perftest', '-p', 'PORT'],
                      ['ucx_perftest', place.a.ip4, '-p', 'PORT', '-f', '-v',
                       '-t', test, '-s', size, '-n', n, '-w',
                       max(n // 10, 10), '-R', share], env=env)
    line = [ln for ln in text.splitlines() if ln.count(',') >= 7]
    if not line:
        raise Failure(f'{who} {test}: no result in\n{text}')
    return [float(x) for x in line[-1].split(',')[:8]]


def ucx(scene, who, tls, test, op, size):
    key = (scene.name, who, test, size)
    most = 10000000 if size < MIB else 4000
    latency_test = op.endswith('lat')

    def take(world):
        while True:
            first = guess(world, scene, size, 0.4, 8)
            n = world.count(key, min(max(first, 50), most))
            row = ucx_run(world, scene, who, tls, test, size, n)
            took = n * row[UCX_MEDIAN] * 2 * US if latency_test else \
                n / row[UCX_RATE]
            if not world.learn(key, n, took, 50, most):
                continue
            if latency_test:
                return {cell(scene.name, who, op, size): row[UCX_MEDIAN]}
            rate = row[UCX_RATE] / 1e6
            return {cell(scene.name, who, op + ' bw', size): rate * size / 1e3,
                    cell(scene.name, who, op + ' rate', size): rate}
    return take


def ucx_spread(scene, who, tls):
    """It tells one percentile a run."""
    def take(world):
        n = int(world.seconds * 80000)
        world.distribution(f'{scene.name}/{who}', [
            [share, ucx_run(world, scene, who, tls, 'tag_lat', 8, n,
                            share)[UCX_MEDIAN]]
            for share in (10, 50, 90, 99, 99.9)])
        return {}
    return take


def message_cells(world, scene, who, op, found):
    """Cells of what pair.c prints: of latencies, or of rates."""
    values = {}
    for size, figures in ((int(s), f) for s, f in found.items()):
        if 'mps' in figures:
            rate = figures['mps']
            values[cell(scene.name, who, f'{op} bw'.strip(), size)] = \
                rate * size / 1e3
            values[cell(scene.name, who, f'{op} rate'.strip(), size)] = rate
        else:
            values[cell(scene.name, who, 'lat', size)] = figures['median_us']
            if size == 8:
                world.distribution(f'{scene.name}/{who}',
                                   figures['percentiles'])
    return values


def fabric(scene, who, provider, kind, sizes):
    """libfabric; kind is lat, bw or write."""
    def take(world):
        place = world.place(scene.place)
        env = {'FI_PROVIDER': provider}
        if provider != 'shm':
            env.update(FI_NEAR=place.b.ip4, FI_FAR=place.a.ip4)
        if place.a is not place.b:
            env['FI_FAR_NETNS'] = place.a.ns
        found = world.json(f'{scene.name}/{who} {kind}', place.b,
                           [world.own('fi_pair', 'libfabric-dev'), kind,
                            world.seconds / 3, ','.join(map(str, sizes))],
                           env)
        return message_cells(world, scene, who,
                             'write' if kind == 'write' else '', found)
    return take


def mpi(scene, who, layer, kind, sizes):
    """Open MPI; layer is the name of its byte transfer layer.  It binds memory
    where it binds a core, and complains where a container forbids that."""
    def take(world):
        world.need('mpirun.openmpi', 'openmpi-bin')
        place = world.place(scene.place)
        argv = ['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe',
                '--bind-to', 'none', '--mca', 'pml', 'ob1', '--mca', 'btl',
                f'self,{layer}']
        if layer == 'tcp':
            argv += ['--mca', 'btl_tcp_if_include', 'lo']
        rank = [world.own('mpi_pair', 'libopenmpi-dev'), kind,
                world.seconds / 3, ','.join(map(str, sizes))]
        for core in world.cores:
            argv += ['-np', '1']
            if world.pin:
                argv += ['taskset', '-c', core]
            argv += [*rank, ':']
        argv.pop()
        found = world.json(f'{scene.name}/{who} {kind}', place.a, argv)
        return message_cells(world, scene, who, '', found)
    return take


def connections(scene, who, kind, at_once, device=None):
    """Rate and set-up time with so many connections at once."""
    def run(world, n):
        place = world.place(scene.place)
        argv = [world.own('conn_rate'), kind,
                max(200, 4 * n, int(world.seconds * 8000)), n]
        env = {}
        if device:
            argv = [world.urnic, 'run', '--'] + argv
            env['URNIC_RDMACM_DEVICE'] = device
        return world.json(f'{scene.name}/connections {who} {n}',
                          place.a, argv, env)

    def take(world):
        found = {}
        for n in at_once:
            got = run(world, n)
            found[cell(scene.name, who, 'connections', n)] = got['per_s']
            found[cell(scene.name, who, 'setup', n)] = got['median_us']
            found[cell(scene.name, who, 'p99 setup', n)] = got['p99_us']
        return found
    return take


def costs(scene, device):
    """The calls beside the data path, with a running daemon: a process that
    makes no QP starts none, so that the program runs twice."""
    def take(world):
        argv = [world.urnic, 'run', '--', world.own('verbs_costs'), device]
        place = world.place(scene.place)
        world.call(place.a, argv)
        found = world.json(f'{scene.name}/{device} costs', place.a, argv,
                           scene.env)
        return {cell(scene.name, device, 'first message cost', 1):
                found['first_message_us'],
                cell(scene.name, device, 'ibv_reg_mr cost', 2 ** 30):
                found['reg_mr_us'],
                cell(scene.name, device, 'idle queue pair memory', 1):
                found['qp_kib'],
                cell(scene.name, device, 'idle second cost', 1):
                found['idle_us']}
    return take


def threads(scene, device, op, mode, counts):
    """{threads: rate} of as many in each of two processes, every one with its
    own queue pair, which is what a cell of so many queue pairs says."""
    def take(world):
        place = world.place(scene.place)
        found = world.json(f'{scene.name}/{device} {op}', place.a, [
            world.urnic, 'run', '--', world.own('verbs_threads'), '-a', device,
            '-t', world.seconds / 2, '-m', mode,
            '-s', ','.join(map(str, counts))], scene.env)
        return {cell(scene.name, device, f'{op} rate', 64, n):
                found[str(n)]['mps'] for n in counts}
    return take


def fi_pingpong(scene, who, provider, size):
    """libfabric's own program; its mean."""
    def take(world):
        world.need('fi_pingpong', 'libfabric-bin')
        place = world.place(scene.place)
        argv = ['fi_pingpong', '-e', 'rdm', '-p', provider, '-S', size, '-I',
                max(100, int(world.seconds * 50000))]
        text = world.pair(f'{scene.name}/{who} {size}', place,
                          argv + ['-B', 'PORT'],
                          argv + ['-P', 'PORT', place.a.ip4])
        # bytes, sent, acknowledged, total, time, MB/s, us a message, M/s
        last = text.strip().splitlines()[-1].split()
        if len(last) != 8 or last[0] != str(size):
            raise Failure(f'{who}: no result in\n{text}')
        return {cell(scene.name, who, 'lat', size): float(last[6])}
    return take
