# SPDX-License-Identifier: BSD-2-Clause
"""What is to be reached, as ratios within one run.

A goal is met when ours, divided by each of what it is compared with, is at
least (or at most) the factor; without anything to compare, the figure itself.
"""

import itertools

from benchlib.plan import (AT_ONCE, KIB, LOOPBACK, LOSSES, LOSSY, MANY,
                           MEMORY, MIB, NETWORK, PORTS, SLEEPING, THREADS)
from benchlib import sleepers
from benchlib.samples import cell, less_is_better


class Goal:
    """against: cells; factor: of each of them, or an absolute figure."""

    def __init__(self, title, ours, factor, against=(), strict=False):
        self.title, self.ours, self.factor = title, ours, factor
        self.against, self.strict = tuple(against), strict
        self.less = less_is_better(ours)

    @property
    def sense(self):
        return ('<' if self.less else '>') if self.strict else \
            ('≤' if self.less else '≥')

    def met(self, got):
        if got == self.factor:
            return not self.strict
        return (got < self.factor) == self.less


def m(who, op, size, qps=1):
    return cell(MEMORY.name, who, op, size, qps)


MEMORY_PEERS = (('UCX posix', 'tag bw'), ('UCX sysv', 'tag bw'),
                ('libfabric shm', 'bw'), ('libfabric shm', 'write bw'),
                ('Open MPI vader', 'bw'))
TCP_PEERS = (('UCX tcp', 'tag'), ('libfabric tcp', ''),
             ('libfabric tcp', 'write'), ('Open MPI tcp', ''))


def name_of(size):
    if size >= MIB:
        return f'{size // MIB} MiB'
    return f'{size // KIB} KiB' if size >= KIB else f'{size} B'


def threads(scene):
    """Threads of a side have its half of the cores, on a machine of two that
    is one: more of them are not to lose what one has."""
    for op in ('write', 'send'):
        for what in ('threads', 'thread domains'):
            one, *more = [cell(scene.name, 'urnic0', f'{op} {what} rate', 64,
                               n) for n in THREADS]
            for n, ours in zip(THREADS[1:], more):
                yield Goal(f'{op.upper()} 64 B rate, {n} {what} a side, one',
                           ours, 0.8, [one])


def memory():
    yield from threads(MEMORY)
    for who in ('urnic0 mapped', 'urnic0'):
        ours = m(who, 'write lat', 8)
        yield Goal('WRITE 8 B latency, a store', ours, 1.5,
                   [m('store', 'lat', 8)])
        yield Goal('WRITE 8 B latency, UCX put', ours, 2,
                   [m('UCX posix', 'put lat', 8)])
    yield Goal('SEND 8 B latency', m('urnic0', 'send lat', 8), 1.4,
               [m('UCX posix', 'am lat', 8)])
    for op in ('read', 'atomic'):
        yield Goal(f'{op.upper()} 8 B latency', m('urnic0', f'{op} lat', 8),
                   0.25, strict=True)
    yield Goal('SEND 8 B rate', m('urnic0', 'send rate', 8), 1,
               [m('UCX posix', 'tag rate', 8)], strict=True)
    yield Goal('WRITE 8 B rate', m('urnic0', 'write rate', 8), 40,
               strict=True)
    for size in (64 * KIB, MIB):
        for who, op in itertools.product(('urnic0 mapped', 'urnic0'),
                                         ('write', 'read')):
            yield Goal(f'{op.upper()} {name_of(size)}, memcpy',
                       m(who, f'{op} bw', size), 0.9,
                       [m('memcpy', f'{op} bw', size)])
        yield Goal(f'SEND {name_of(size)}, memcpy',
                   m('urnic0', 'send bw', size), 0.7,
                   [m('memcpy', 'write bw', size)])
        every = [m(who, op, size) for who, op in MEMORY_PEERS]
        yield Goal(f'SEND {name_of(size)}, every peer',
                   m('urnic0', 'send bw', size), 2, every, strict=True)


def network(scene):
    def c(who, op, size, qps=1):
        return cell(scene.name, who, op, size, qps)

    def every(kind, size):
        return [c(who, f'{op} {kind}'.strip(), size) for who, op in TCP_PEERS]

    yield Goal('WRITE 1 MiB, bare UDP GSO', c('urnic0', 'write bw', MIB), 0.62,
               [c('UDP GSO', 'bw', scene.mtu)])
    yield Goal('WRITE 1 MiB, every TCP peer', c('urnic0', 'write bw', MIB), 1,
               every('bw', MIB) + [c('iperf3', 'bw', 131072)], strict=True)
    for op in ('read', 'send'):
        yield Goal(f'{op.upper()} 1 MiB, WRITE', c('urnic0', f'{op} bw', MIB),
                   0.9, [c('urnic0', 'write bw', MIB)])
    yield Goal('SEND 8 B latency, bare UDP', c('urnic0', 'send lat', 8), 1.15,
               [c('UDP', 'lat', 8)])
    yield Goal('SEND 8 B latency, every TCP peer',
               c('urnic0', 'send lat', 8), 1,
               [c(who, 'lat', 8) for who, op in TCP_PEERS if op != 'write']
               + [c('TCP', 'lat', 8)], strict=True)
    for op in ('write', 'send'):
        for qps in (1, 16):
            ours = c('urnic0', f'{op} rate', 64, qps)
            title = f'{op.upper()} 64 B rate, {qps} queue pair' + \
                ('s' if qps > 1 else '')
            yield Goal(title, ours, 4)
            yield Goal(title + ', every TCP peer', ours, 20,
                       every('rate', 64))
    for qps in (16, 256) + ((MANY,) if scene is LOOPBACK else ()):
        yield Goal(f'WRITE 64 B rate, {qps} queue pairs, one',
                   c('urnic0', 'write rate', 64, qps), 0.8,
                   [c('urnic0', 'write rate', 64)])
    if scene is LOOPBACK:
        yield from threads(scene)
    yield Goal('iWARP WRITE 1 MiB, bare TCP', c('urniw0', 'write bw', MIB),
               0.95, [c('TCP', 'bw', 256 * KIB)])
    yield Goal('iWARP SEND 8 B latency, bare TCP',
               c('urniw0', 'send lat', 8), 1.15, [c('TCP', 'lat', 8)])
    if scene is LOOPBACK:
        for what, limit in (('first message cost', 5000),
                            ('idle queue pair memory', 4),
                            ('idle second cost', 100)):
            yield Goal(f'{what}', c('urnic0', what, 1), limit)
        yield Goal('ibv_reg_mr of 1 GiB', c('urnic0', 'ibv_reg_mr cost',
                                            2 ** 30), 20, strict=True)
        for who, n in itertools.product(('urnic0', 'urniw0'), AT_ONCE):
            for op, factor in (('connections', 0.5), ('setup', 2.5)):
                yield Goal(f'{who} {op}, {n} at once, TCP', c(who, op, n),
                           factor, [c('TCP', op, n)])


# What of the bandwidth without loss is to be left.
LEFT = {0.1: 0.95, 1: 0.9, 5: 0.6}


def lossy(scene, percent):
    ours = [(op, cell(scene.name, 'urnic0', f'{op} bw', size))
            for op, size in (('write', MIB), ('read', MIB),
                             ('send', 64 * KIB))]
    for op, name in ours:
        title = f'{op.upper()} bandwidth'
        yield Goal(f'{title}, TCP', name, 1,
                   [cell(scene.name, 'iperf3', 'bw', 131072)])
        if percent:
            yield Goal(f'{title}, without loss', name, LEFT[percent],
                       [name.replace(scene.name, LOSSY[0].name)])
    if percent == 1:
        tail = cell(scene.name, 'urnic0', 'send p99.9 lat', 64)
        yield Goal('SEND 64 B latency, p99.9', tail, 1000)


def sleeping():
    for row in sleepers.ROWS:
        theirs = [row.cell(SLEEPING, sleepers.TCP)]
        for stack, factor in zip(sleepers.OURS, row.factors):
            yield Goal(row.title, row.cell(SLEEPING, stack), factor, theirs)


def port(scene):
    """Of the process that has the port: urnicd needs cores of its own."""
    def c(who, op, size):
        return cell(scene.name, who, op, size)

    ours = 'urnic0 DPDK'
    yield Goal('DPDK SEND 64 B rate, testpmd', c(ours, 'send rate', 64), 0.8,
               [c('testpmd', 'rate', 64)])
    if scene.kernel:
        yield Goal('DPDK SEND 64 B latency, bare UDP',
                   c(ours, 'send lat', 64), 1.15, [c('UDP', 'lat', 64)])
        yield Goal('DPDK SEND 64 B latency, sockets',
                   c(ours, 'send lat', 64), 1,
                   [c('urnic0 sockets', 'send lat', 64)])


def goals():
    """[(scene, [its goals])]"""
    yield MEMORY, list(memory())
    for scene in NETWORK:
        yield scene, list(network(scene))
    for scene, percent in zip(LOSSY, LOSSES):
        yield scene, list(lossy(scene, percent))
    yield SLEEPING, list(sleeping())
    for scene in PORTS:
        yield scene, list(port(scene))


def judge(goal, samples):
    """[(compared with or None, figure, met or None)] of what was measured."""
    if goal.ours not in samples:
        return []
    if not goal.against:
        got = samples.median(goal.ours)
        return [(None, got, goal.met(got))]
    rows = []
    for other in goal.against:
        got = samples.ratio(goal.ours, other)
        if got is not None:
            met = None if goal.factor is None else goal.met(got)
            rows.append((other, got, met))
    return rows
