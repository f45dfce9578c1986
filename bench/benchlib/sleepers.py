# SPDX-License-Identifier: BSD-2-Clause
"""Programs that wait in the kernel instead of polling: over urnic and TCP.

Like those of programs.py, every function gives a function of the world that
runs the program once and gives {cell: value}.
"""

import json
import os
import re
import subprocess

from benchlib import programs as p
from benchlib.samples import cell
from benchlib.world import Missing
from harness.proc import Failure

KIB, US = 2 ** 10, 1e-6
GET = 3  # bytes of redis-benchmark's values
PIPELINE = 16  # requests that each client has outstanding
PAIRS = 32
PIECE = 131072  # bytes of each of iperf3's calls
# A client of fio's engine waits half a second before its first request.
FIO_RAMP_MS = 700  # not measured
# redis-benchmark connects its clients while it measures: samples are longer.
REDIS_TIMES = 2


class Stack(p.Urnic):
    """What moves the bytes: the kernel's TCP, or urnic by one of its ways."""

    def __init__(self, who, shm=None):
        super().__init__(who)
        self.rdma = shm is not None
        if self.rdma:
            self.env['URNIC_SHM'] = shm

    def program(self, world, *argv):
        """Command line of a program that calls verbs, or plain sockets."""
        return [world.urnic, 'run', '--', *argv] if self.rdma else [*argv]

    def sockets(self, world, *argv):
        """Command line of a program that calls sockets."""
        if not self.rdma:
            return [*argv]
        lib = os.path.join(world.build, 'lib', 'rsocket', 'librspreload.so')
        if not os.path.exists(lib):
            raise Missing('librspreload.so is not built: ninja')
        return self.program(world, 'sh', '-c',
                            'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"', lib,
                            *argv)


TCP = Stack('TCP')
SOCKETS = Stack('urnic0 sockets', '0')
MEMORY = Stack('urnic0 memory', '1')
OURS = (SOCKETS, MEMORY)
STACKS = (TCP,) + OURS


class Row:
    """A comparison with TCP.

    ours, theirs: the ops of both; many: clients, pairs, or requests
    outstanding; factors: what is to be reached by each of OURS.
    """

    def __init__(self, title, ours, size, factors, many=1, theirs=None):
        self.title, self.ours, self.size = title, ours, size
        self.factors, self.many, self.theirs = factors, many, theirs or ours

    def cell(self, scene, stack):
        return cell(scene.name, stack.who,
                    self.ours if stack.rdma else self.theirs, self.size,
                    self.many)


def latency_rows():
    """READ: the whole round trip, of TCP as well."""
    for size, said in ((8, '8 B'), (4 * KIB, '4 KiB')):
        for op, theirs in (('send', ''), ('read', 'trip ')):
            yield Row(f'{op.upper()} {said} latency', f'{op} lat', size,
                      (1.1, 0.5), theirs=f'{theirs}lat')
            yield Row(f'{op.upper()} {said} latency, p99', f'{op} p99 lat',
                      size, (1.5, 1), theirs=f'{theirs}p99 lat')


def redis_rows():
    for clients in (1, 16, 64):
        yield Row(f'redis GET, {clients} client' + 's' * (clients > 1),
                  'redis requests', GET, (1, 1.5), clients)
    yield Row('redis GET, 16 clients, pipelined', 'redis pipelined requests',
              GET, (1, 1.5), 16)


def fio_rows():
    for size, said in ((4 * KIB, '4 KiB'), (64 * KIB, '64 KiB')):
        for depth in (1, 16):
            yield Row(f'fio write {said}, depth {depth}', 'fio write bw',
                      size, (1.2, 2), depth)


ROWS = (*latency_rows(), *redis_rows(),
        Row('iperf3', 'iperf3 bw', PIECE, (1, 2)),
        *fio_rows(),
        Row(f'{PAIRS} pairs, messages', 'pair messages', 8, (1, 2), PAIRS),
        Row('CPU time per message', 'message cpu', 8, (1.2, 0.6)),
        Row(f'{PAIRS} pairs in epoll, messages', 'epoll pair messages', 8,
            (1, 2), PAIRS),
        Row('CPU time per message in epoll', 'epoll message cpu', 8,
            (1.2, 0.6)))


def tcp_pingpong(scene, size):
    def take(world):
        found = p.own(world, scene, 'tcp_pingpong', '-s', size, '-m', 'sleep')
        us, high = found['median_us'], dict(found['percentiles'])[99]
        if size == 8:
            world.distribution(f'{scene.name}/TCP', found['percentiles'])
        return {cell(scene.name, 'TCP', op, size): value for op, value in (
            ('lat', us), ('p99 lat', high),
            ('trip lat', 2 * us), ('trip p99 lat', 2 * high))}
    return take


def distribution(world, scene, stack, op, text, n):
    """Of perftest's output with -H."""
    found = sorted(float(m[1]) for m in
                   re.finditer(r'^\d+, ([\d.]+)\s*$', text, re.M))
    if len(found) < n / 2:
        raise Failure(f'no histogram in\n{text[:2000]}')
    world.distribution(f'{scene.name}/{stack.who} {op}', p.spread(found))


def pingpong(scene, stack, op, size):
    """perftest with events: the median, the 99th percentile and, of SENDs of
    8 bytes, the distribution."""
    key = (scene.name, stack.who, op, size)
    trips = 2 if op in p.BOTH_WAYS else 1
    whole = op == 'send' and size == 8

    def take(world):
        while True:
            n = world.count(key, int(world.seconds * 2e4))
            row, text = p.perftest_pair(
                world, scene, stack, f'{op}_lat',
                ['-s', size, '-n', n, '-e'] + ['-H'] * whole)
            if not world.learn(key, n, row[5] * trips * n * US, 200, 400000):
                continue
            if whole:
                distribution(world, scene, stack, op, text, n)
            return {cell(scene.name, stack.who, f'{op} lat', size): row[4],
                    cell(scene.name, stack.who, f'{op} p99 lat', size):
                    row[7]}
    return take


def service(world, scene, stack, name, server, client, ready):
    """Output of a client of a server that says by those words that it
    listens: a listening rsocket is not in the kernel's table."""
    return world.pair(f'{scene.name}/{stack.who} {name}',
                      world.place(scene.place), server, client,
                      env={**scene.env, **stack.env}, ends=False, ready=ready)


def redis(scene, stack, clients, pipelined=False):
    op = 'redis pipelined requests' if pipelined else 'redis requests'
    key = (scene.name, stack.who, op, clients)
    guess = (8000 if clients == 1 else 40000) * REDIS_TIMES  # a second

    def once(world, n):
        ip = world.place(scene.place).a.ip4
        server = stack.sockets(world, 'redis-server', '--port', 'PORT',
                               '--bind', ip, '--save', '')
        client = stack.sockets(
            world, 'redis-benchmark', '-h', ip, '-p', 'PORT', '-t', 'get',
            '-c', clients, '-P', PIPELINE if pipelined else 1, '-n', n,
            '--csv')
        text = service(world, scene, stack, f'{op} {clients}', server, client,
                       'Ready to accept connections')
        found = re.search(r'^"GET","([\d.]+)"', text, re.M)
        if not found:
            raise Failure(f'redis-benchmark: no result in\n{text}')
        return float(found[1])

    def take(world):
        world.need('redis-server', 'redis-server')
        world.need('redis-benchmark', 'redis-tools')
        while True:
            n = world.count(key, int(world.seconds * guess))
            rate = once(world, n)
            if world.learn(key, n, n / rate / REDIS_TIMES, 10 * clients,
                           4000000):
                return {cell(scene.name, stack.who, op, GET, clients):
                        rate / 1e3}
    return take


def iperf3(scene, stack):
    def take(world):
        world.need('iperf3', 'iperf3')
        ip = world.place(scene.place).a.ip4
        text = service(
            world, scene, stack, 'iperf3',
            stack.sockets(world, 'iperf3', '-s', '-1', '-p', 'PORT',
                          '--forceflush'),
            stack.sockets(world, 'iperf3', '-c', ip, '-p', 'PORT', '-J', '-t',
                          max(1, round(world.seconds))),
            'Server listening')
        end = printed_json('iperf3', text)['end']
        return {cell(scene.name, stack.who, 'iperf3 bw', PIECE):
                end['sum_received']['bits_per_second'] / 8e9}
    return take


def printed_json(name, text):
    """The object that a program prints, perhaps behind warnings."""
    try:
        return json.loads(text[text.index('{\n'):])
    except ValueError:
        raise Failure(f'{name}: no JSON in\n{text[:2000]}') from None


def need_fio(world):
    world.need('fio', 'fio')
    said = subprocess.run(['fio', '--enghelp=rdma'], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if 'verb' not in said.stdout:
        raise Missing('no fio with ioengine=rdma: apt-get install fio')


def fio(scene, stack, size, depth):
    """WRITEs of the rdma engine; of the net engine a stream, which has no
    depth."""
    engine = 'rdma' if stack.rdma else 'net'

    def take(world):
        need_fio(world)
        ip = world.place(scene.place).a.ip4
        both = ['fio', '--name=bench', '--thread', f'--ioengine={engine}',
                '--port', 'PORT', f'--bs={size}', f'--iodepth={depth}', '--size=1000g']
        client = both + [
            '--rw=write', f'--hostname={ip}', '--time_based',
            f'--ramp_time={FIO_RAMP_MS}ms',
            f'--runtime={int(world.seconds * 1000)}ms',
            '--output-format=json']
        if stack.rdma:
            client += ['--verb=write', '--iodepth_batch_complete_min=1']
        server = both + ['--rw=read'] + ['--listen'] * (not stack.rdma)
        text = service(world, scene, stack, f'fio {size} {depth}',
                       stack.program(world, *server),
                       stack.program(world, *client),
                       'waiting for connection' if stack.rdma else None)
        job = printed_json('fio', text)['jobs'][0]
        return {cell(scene.name, stack.who, 'fio write bw', size, depth):
                job['write']['bw_bytes'] / 1e9}
    return take


def pairs(scene, stack, epoll=False):
    """Messages of all pairs, and the CPU time of both sides per message;
    asleep in a blocking call, or in epoll."""
    op = 'epoll ' * epoll

    def take(world):
        mode = (stack.device if stack.rdma else 'tcp') + ',epoll' * epoll
        argv = stack.program(world, world.own('sleep_pairs'), '-t',
                             world.seconds, '-m', mode, '-s', f'1,{PAIRS}')
        found = world.json(f'{scene.name}/{stack.who} {op}pairs',
                           world.place(scene.place).a, argv,
                           {**scene.env, **stack.env})
        one, many = found['1'], found[str(PAIRS)]
        return {cell(scene.name, stack.who, op + name, 8, n): value
                for name, n, value in (
                    ('message cpu', 1, one['cpu_us']),
                    ('pair messages', PAIRS, many['per_s'] / 1e3),
                    ('message cpu', PAIRS, many['cpu_us']))}
    return take
