# SPDX-License-Identifier: BSD-2-Clause
"""The tables and charts of a run, made from what results.json holds."""

import math
import os
import statistics

from benchlib import chart
from benchlib.goals import goals, judge
from benchlib import sleepers
from benchlib.plan import KIB, LOSSY, MEMORY, MIB, PORTS, SCENES, SLEEPING
from benchlib.samples import Samples, cell, parts, unit

BEGIN, END = '<!-- bench: begin -->', '<!-- bench: end -->'
OURS = ('urnic', 'urniw')
# Units of what is not messages.
BESIDE = ('connections', 'setup', 'cost', 'memory')
# Columns of the overviews: title, unit's word, size.
COLUMNS = (('8 B latency µs', 'lat', 8), ('8 B M/s', 'rate', 8),
           ('64 B M/s', 'rate', 64), ('64 KiB GB/s', 'bw', 64 * KIB),
           ('1 MiB GB/s', 'bw', MIB))


def number(value):
    """Three digits that mean something."""
    if value is None:
        return '–'
    if value == 0:
        return '0'
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f'{value:.{digits}f}'


def nines(percent):
    """90 % has one, 99 % two."""
    return -math.log10(1 - percent / 100)


def row(*cells):
    return '| ' + ' | '.join(cells) + ' |'


def head(*titles):
    return [row(*titles), '|' + '---|' * len(titles)]


def counted(op):
    """Of what a cell has so many."""
    if op.startswith('fio'):
        return 'outstanding'
    return {'requests': 'clients', 'messages': 'pairs',
            'cpu': 'pairs'}.get(op.split()[-1], 'queue pairs')


def name_of(name):
    """A cell in words, without its scene."""
    _, who, op, size, qps = parts(name)
    said = f'{who} {op}'
    if op.split()[-1] in ('connections', 'setup'):
        said += f', {size} at once'
    elif op.split()[-1] not in BESIDE or size >= MIB:
        said += f' {chart.bytes_text(size)}'
    if 'thread' in op:
        return f'{said}, {qps}'
    return said + (f', {qps} {counted(op)}' if qps > 1 else '')


class Run:
    """What one run measured."""

    def __init__(self, data):
        self.data = data
        self.samples = Samples(data['samples'])

    def of_scene(self, scene):
        return [c for c in self.samples.cells() if parts(c)[0] == scene.name]

    def rows_of(self, scene):
        """(stack, op without its unit), in the order of measuring."""
        seen = {}
        for name in self.of_scene(scene):
            _, who, op, _, qps = parts(name)
            words = op.split()
            if qps == 1 and words[-1] in ('lat', 'bw', 'rate'):
                seen[who, ' '.join(words[:-1])] = True
        return list(seen)

    def stream(self, scene, who, kind):
        """Cells of what carries pieces of sizes that no column has."""
        points = self.curve(scene, who, f'{kind} bw'.strip())
        if any(size == column for size, _ in points
               for _, word, column in COLUMNS if word == 'bw'):
            return []
        return [cell(scene.name, who, f'{kind} bw'.strip(), size)
                for size, _ in points if size > 64]

    def elsewhere(self, scene, who, kind):
        return ', '.join(
            f'{chart.bytes_text(parts(c)[3])}: '
            f'{number(self.samples.median(c))} GB/s'
            for c in self.stream(scene, who, kind))

    def others(self, scene, word, size):
        """{stack and op: its cell} to compare a figure of ours with."""
        for who, kind in self.rows_of(scene):
            if who.startswith(OURS):
                continue
            name = cell(scene.name, who, f'{kind} {word}'.strip(), size)
            streams = self.stream(scene, who, kind) if word == 'bw' else []
            for found in [name] if name in self.samples else streams[-1:]:
                yield f'{who} {kind}'.strip(), found

    def ratio_table(self, scene):
        out = []
        for who, kind in self.rows_of(scene):
            for title, word, size in COLUMNS:
                ours = cell(scene.name, who, f'{kind} {word}'.strip(), size)
                if not who.startswith(OURS) or ours not in self.samples:
                    continue
                said = [f'{other} {number(self.samples.ratio(ours, name))}'
                        for other, name in self.others(scene, word, size)]
                if said:
                    out.append(row(f'{who} {kind}', title,
                                   number(self.samples.median(ours)),
                                   ', '.join(said)))
        if not out:
            return []
        return ['Divided by each of the others (of latencies, less than 1 is '
                'better):', ''] + head('', '', 'median', 'ratio to') + out + \
            ['']

    def overview(self, scene):
        out = []
        for who, kind in self.rows_of(scene):
            figures = [number(self.samples.median(
                cell(scene.name, who, f'{kind} {word}'.strip(), size)))
                for _, word, size in COLUMNS]
            figures.append(self.elsewhere(scene, who, kind))
            if any(f not in ('–', '') for f in figures):
                out.append(row(f'{who} {kind}'.strip(), *figures))
        if not out:
            return []
        return head('', *(title for title, _, _ in COLUMNS), 'pieces') + out

    def sleeping_table(self):
        """Every program over TCP and over urnic."""
        out = []
        for r in sleepers.ROWS:
            theirs, *ours = [r.cell(SLEEPING, s) for s in sleepers.STACKS]
            if not any(name in self.samples for name in [theirs] + ours):
                continue
            cells = [number(self.samples.median(theirs))]
            for name in ours:
                cells += [number(self.samples.median(name)),
                          number(self.samples.ratio(name, theirs))]
            out.append(row(f'{r.title}, {unit(theirs)}', *cells))
        if not out:
            return []
        titles = [t for s in sleepers.OURS for t in (s.who, 'ratio')]
        return head('', sleepers.TCP.who, *titles) + out + ['']

    def figures(self, scene):
        if scene is SLEEPING:
            return self.sleeping_table()
        overview = self.overview(scene)
        return overview + [''] + self.ratio_table(scene) if overview else []

    def judged(self, scene_goals):
        for goal in scene_goals:
            for other, got, met in judge(goal, self.samples):
                yield goal, other, got, met

    def goal_table(self, scene_goals):
        out = []
        for goal, other, got, met in self.judged(scene_goals):
            ours = self.samples.median(goal.ours)
            wanted = 'reported' if goal.factor is None else \
                f'{goal.sense} {goal.factor:g}'
            verdict = {True: 'met', False: '**missed**', None: ''}[met]
            theirs = '' if other is None else \
                f'{name_of(other)}: {number(self.samples.median(other))}'
            out.append(row(goal.title, f'{parts(goal.ours)[1]}: '
                           f'{number(ours)} {unit(goal.ours)}',
                           theirs, number(got), wanted, verdict))
        if not out:
            return []
        return head('goal', 'urnic', 'against', 'ratio or figure', 'wanted',
                    '') + out

    def tally(self):
        """(met, missed) over all goals."""
        met = [m for _, scene_goals in goals()
               for _, _, _, m in self.judged(scene_goals) if m is not None]
        return met.count(True), met.count(False)

    def curve(self, scene, who, op):
        points = {}
        for name in self.of_scene(scene):
            _, w, o, size, qps = parts(name)
            if (w, o, qps) == (who, op, 1):
                points[size] = self.samples.median(name)
        return sorted(points.items())

    def curves(self, scene, word):
        """All series that have several sizes."""
        for who, kind in self.rows_of(scene):
            points = self.curve(scene, who, f'{kind} {word}'.strip())
            if len(points) > 2:
                yield f'{who} {kind}'.strip(), points

    def qp_curves(self, scene):
        found = {}
        for name in self.of_scene(scene):
            _, who, op, size, qps = parts(name)
            if size == 64 and op.endswith('rate'):
                found.setdefault(f'{who} {op[:-4]}'.strip(), {})[qps] = \
                    self.samples.median(name)
        most = max((max(p) for p in found.values()), default=1)
        for who, points in found.items():
            if len(points) == 1 and most > 1 and 1 in points and \
                    not who.startswith(OURS):
                # Others have one connection: a level to compare with.
                points = {1: points[1], most: points[1]}
            yield who, sorted(points.items())

    def spreads(self, scene):
        for key, percentiles in self.data['distributions'].items():
            name, _, who = key.partition('/')
            if name == scene.name:
                yield who, [(nines(p), us) for p, us in percentiles
                            if p < 100]

    def charts(self):
        """{file name: SVG}"""
        made = {}
        for scene in SCENES:
            made[f'latency-{scene.name}.svg'] = chart.lines(
                f'{scene.title}: latency over size', 'message', 'µs one way',
                self.curves(scene, 'lat'), chart.bytes_text)
            made[f'bandwidth-{scene.name}.svg'] = chart.lines(
                f'{scene.title}: bandwidth over size', 'message', 'GB/s',
                self.curves(scene, 'bw'), chart.bytes_text)
            made[f'rate-{scene.name}.svg'] = chart.lines(
                f'{scene.title}: 64 B messages over queue pairs',
                'queue pairs', 'million a second', self.qp_curves(scene),
                chart.plain, 4)
            made[f'spread-{scene.name}.svg'] = chart.lines(
                f'{scene.title}: distribution of 8 B latency',
                'so many messages were no slower', 'µs one way',
                self.spreads(scene), chart.share_text, 0,
                [nines(p) for p in (50, 90, 99, 99.9, 99.99)])
        return {name: svg for name, svg in made.items() if svg}

    def machine(self):
        m = self.data['machine']
        versions = ', '.join(f'{k} {v}' for k, v in m['versions'].items())
        places = ', '.join(f'{n} × {p}'
                           for p, n in self.samples.places().items())
        return [
            f'- {m["cpu"]}, {m["cpus"]} CPUs'
            + (' of a virtual machine' if m['virtual'] else '')
            + f', {m["memory_gib"]} GiB; the two sides on CPUs '
            + ' and '.join(map(str, m['cores'])),
            f'- Linux {m["kernel"]}, Debian {m["system"]}',
            f'- urnic {m["urnic"]}; {versions}',
            f'- {self.data["begun"]}, {self.data["rounds"]} rounds, '
            f'{self.data["minutes"]:.0f} minutes; where the two CPUs were to '
            f'each other: {places}',
        ]

    def scene_text(self, scene, scene_goals, charts):
        figures = self.figures(scene)
        if not figures:
            return []
        out = [f'## {scene.title}', '']
        table = self.goal_table(scene_goals)
        if table:
            out += table + ['']
        out += figures
        for name in charts:
            if name.endswith(f'-{scene.name}.svg'):
                out += [f'![{name[:-4]}]({name})', '']
        return out

    def beside_table(self):
        out = []
        for name in self.samples.cells():
            if parts(name)[2].split()[-1] in BESIDE:
                out.append(row(name_of(name),
                               number(self.samples.median(name)), unit(name)))
        if not out:
            return []
        return ['## Beside the data path', '',
                'Connections by rdma_cm, and by TCP; setup: from the first '
                'call until the first byte came.', ''] + \
            head('', 'median', 'unit') + out + ['']

    def markdown(self):
        met, missed = self.tally()
        charts = sorted(self.charts())
        out = ['# urnic and its alternatives in one run', '',
               'Written by `make bench`. Every round runs each program once, '
               'in turn, its two',
               'sides pinned to a core each. Figures are medians; a ratio is '
               'the median of the',
               'ratios within a round. The raw samples are in `results.json`.',
               ''] + self.machine() + [
               f'- {met} comparisons as wanted, {missed} missed', '']
        for scene, scene_goals in goals():
            out += self.scene_text(scene, scene_goals, charts)
        out += self.beside_table() + self.all_cells()
        if self.data['left_out']:
            out += ['## Left out', ''] + [
                f'- {line}' for line in self.data['left_out']] + ['']
        out += ['## Command lines', '',
                'Of the client; the server has the same without the address, '
                'or forks.', '']
        out += [f'- {name}: `{command}`'
                for name, command in self.data['commands'].items()]
        return '\n'.join(out) + '\n'

    def all_cells(self):
        out = ['## Every figure', ''] + head(
            'scene', 'what', 'median', 'lowest', 'highest', 'n', 'unit')
        for name in self.samples.cells():
            values = self.samples.typical(name)
            out.append(row(parts(name)[0], name_of(name),
                           number(statistics.median(values)),
                           number(min(values)), number(max(values)),
                           str(len(values)), unit(name)))
        return out + ['']

    # For README's section.

    def spread(self, name, of_unit=''):
        """The median, and between what all samples lie, wherever taken."""
        values = self.samples.values(name)
        if not values:
            return '–'
        text = number(self.samples.median(name)) + of_unit
        if len(values) == 1:
            return text
        return f'{text} ({number(min(values))}–{number(max(values))})'

    def best_peer(self, scene, word, size):
        """(figure, stack, cell) of the best that is neither ours nor a limit."""
        found = []
        for who, kind in self.rows_of(scene):
            name = cell(scene.name, who, f'{kind} {word}'.strip(), size)
            value = self.samples.median(name)
            if who in PEERS and value is not None:
                found.append((value, who, name))
        return (min if word == 'lat' else max)(found, default=None)

    def limit(self, scene, word):
        """What the machine can do at most."""
        if scene in PORTS:
            name = {'lat': ('UDP', 'lat', 64),
                    'rate': ('testpmd', 'rate', 64)}[word]
            return self.spread(cell(scene.name, *name))
        if scene is MEMORY:
            name = {'lat': ('store', 'lat', 8), 'rate': ('ring', 'rate', 64),
                    'bw': ('memcpy', 'write bw', MIB)}[word]
        else:
            name = {'lat': ('UDP', 'lat', 8),
                    'rate': ('UDP GSO', 'rate', 64),
                    'bw': ('UDP GSO', 'bw', scene.mtu)}[word]
        return self.spread(cell(scene.name, *name))

    def short(self):
        """Lines: the table, an empty line, what run it is of."""
        out = []
        for scene in SCENES:
            for what, ours, best, limit in self.short_of(scene):
                if ours in self.samples:
                    out.append(row(
                        scene.title, what,
                        self.spread(ours, f' {unit(ours)}'),
                        f'{best[1]}: {self.spread(best[2])}' if best else '–',
                        limit))
        return head('', '', 'urnic', 'best of the others',
                    'bare machine') + out + ['', self.origin()]

    def short_of(self, scene):
        """(title, cell of ours, the best peer, limit) of README's rows."""
        if scene is SLEEPING:
            yield from self.short_of_sleepers()
            return
        if scene in LOSSY:
            tcp = cell(scene.name, 'iperf3', 'bw', 131072)
            best = (self.samples.median(tcp), 'iperf3', tcp) \
                if tcp in self.samples else None
            yield ('WRITE 1 MiB', cell(scene.name, 'urnic0', 'write bw', MIB),
                   best, '–')
            return
        for what, who, op, size in SHORT_OF_PORTS if scene in PORTS else SHORT:
            word = op.split()[-1]
            yield (what, cell(scene.name, who, op, size),
                   self.best_peer(scene, word, size), self.limit(scene, word))

    def short_of_sleepers(self):
        for r in sleepers.ROWS:
            if r.title not in SHORT_OF_SLEEPERS:
                continue
            tcp = r.cell(SLEEPING, sleepers.TCP)
            best = (self.samples.median(tcp), sleepers.TCP.who, tcp) \
                if tcp in self.samples else None
            for stack in sleepers.OURS:
                yield (f'{r.title}, {stack.who.split()[-1]}',
                       r.cell(SLEEPING, stack), best, '–')

    def origin(self):
        """A sentence about the run."""
        m, (met, missed) = self.data['machine'], self.tally()
        return (f'One run of {self.data["rounds"]} rounds, '
                f'{self.data["begun"]}, urnic {m["urnic"]}, on {m["cpu"]}, '
                f'{m["cpus"]} CPUs{" of a virtual machine" * m["virtual"]}: '
                f'{met} of {met + missed} comparisons met their goal, '
                f'{missed} missed it.')


# Stacks that move messages or streams between programs as ours do.
PEERS = ('UCX posix', 'UCX sysv', 'UCX tcp', 'libfabric shm', 'libfabric tcp',
         'Open MPI vader', 'Open MPI tcp', 'iperf3', 'qperf tcp',
         'sockperf tcp')
SHORT = (('SEND 8 B', 'urnic0', 'send lat', 8),
         ('SEND 64 B', 'urnic0', 'send rate', 64),
         ('SEND 1 MiB', 'urnic0', 'send bw', MIB),
         ('WRITE 1 MiB', 'urnic0', 'write bw', MIB))
SHORT_OF_SLEEPERS = ('SEND 8 B latency', 'redis GET, 16 clients', 'iperf3')
SHORT_OF_PORTS = tuple(
    (f'SEND 64 B, {runs_it}', who, op, 64) for runs_it, who in
    (('port of the process', 'urnic0 DPDK'), ('port of urnicd', 'urnic0 urnicd'))
    for op in ('send lat', 'send rate'))


def write(run, where):
    """Every file of a report into a directory but results.json."""
    os.makedirs(where, exist_ok=True)
    for name in os.listdir(where):
        if name.endswith('.svg'):
            os.remove(os.path.join(where, name))
    for name, svg in run.charts().items():
        with open(os.path.join(where, name), 'w', encoding='utf-8') as f:
            f.write(svg)
    with open(os.path.join(where, 'README.md'), 'w', encoding='utf-8') as f:
        f.write(run.markdown())


def into_readme(path, lines):
    """Replace what stands between the markers."""
    with open(path, encoding='utf-8') as f:
        whole = f.read()
    before, found, rest = whole.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f'{path} has no place for the table')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(before + BEGIN + '\n' + '\n'.join(lines) + '\n' + END + after)


__all__ = ['Run', 'into_readme', 'write']
