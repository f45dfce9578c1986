#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What bench/ concludes from samples, and how it tells it: no program runs."""

import json
import os
import re
import sys
import tempfile
import unittest
import xml.dom.minidom

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, 'bench'), os.path.join(TOP, 'tests')]

from benchlib import chart, report, sleepers             # noqa: E402
from benchlib.goals import Goal, goals, judge            # noqa: E402
from benchlib.plan import MIB, SLEEPING, probes          # noqa: E402
from benchlib.programs import spread                     # noqa: E402
from benchlib.samples import (MIXED, Samples, cell,      # noqa: E402
                              less_is_better, parts, unit)
from benchlib.world import Missing, World                # noqa: E402

OURS = cell('loopback', 'urnic0', 'send lat', 8)
UDP = cell('loopback', 'UDP', 'lat', 8)
TCP = cell('loopback', 'TCP', 'lat', 8)

# Probes that are not called as the figures that they give.
BY_UNIT = {'cost': 'costs', 'memory': 'costs', 'setup': 'connections',
           'connections': 'connections', 'messages': 'pairs', 'cpu': 'pairs'}


def samples(*rows):
    s = Samples()
    for name, value, turn, place in rows:
        s.add(name, value, turn, place)
    return s


class Cells(unittest.TestCase):
    def test_name_and_back(self):
        name = cell('veth1500', 'urnic0', 'send rate', 64, 16)
        self.assertEqual(parts(name),
                         ('veth1500', 'urnic0', 'send rate', 64, 16))
        self.assertEqual(parts(OURS)[4], 1)

    def test_units(self):
        self.assertEqual(unit(OURS), 'µs')
        self.assertTrue(less_is_better(OURS))
        self.assertFalse(less_is_better(cell('a', 'b', 'bw', 8)))


class Ratios(unittest.TestCase):
    def test_median_of_the_rounds(self):
        s = samples((OURS, 2, 0, 'far'), (UDP, 1, 0, 'far'),
                    (OURS, 9, 1, 'far'), (UDP, 3, 1, 'far'),
                    (OURS, 8, 2, 'far'), (UDP, 2, 2, 'far'))
        self.assertEqual(s.ratio(OURS, UDP), 3)

    def test_places_are_not_mixed(self):
        s = samples((OURS, 4, 0, 'far'), (UDP, 1, 0, 'siblings'),
                    (OURS, 1, 1, 'siblings'), (UDP, 1, 1, 'siblings'))
        self.assertEqual(s.ratio(OURS, UDP), 1)

    def test_disturbed_only_for_want_of_better(self):
        s = samples((OURS, 8, 0, MIXED), (UDP, 1, 0, MIXED),
                    (OURS, 8, 1, MIXED), (UDP, 1, 1, MIXED),
                    (OURS, 2, 2, 'far'), (UDP, 1, 2, 'far'))
        self.assertEqual(s.ratio(OURS, UDP), 2)

    def test_same_place_in_different_rounds(self):
        s = samples((OURS, 6, 0, 'far'), (UDP, 1, 0, 'siblings'),
                    (UDP, 2, 1, 'far'))
        self.assertEqual(s.ratio(OURS, UDP), 3)

    def test_nothing_to_compare(self):
        self.assertIsNone(samples((OURS, 6, 0, 'far')).ratio(OURS, UDP))

    def test_median_is_of_the_usual_place(self):
        s = samples((OURS, 1, 0, 'far'), (OURS, 3, 1, 'far'),
                    (OURS, 50, 2, 'siblings'))
        self.assertEqual(s.median(OURS), 2)


class Goals(unittest.TestCase):
    def test_at_most_and_at_least(self):
        low = Goal('', OURS, 1.15, [UDP])
        self.assertTrue(low.met(1.15))
        self.assertFalse(low.met(1.16))
        high = Goal('', cell('loopback', 'urnic0', 'send bw', 8), 0.9)
        self.assertTrue(high.met(0.9))
        self.assertFalse(high.met(0.89))

    def test_strict(self):
        self.assertFalse(Goal('', OURS, 1, [UDP], strict=True).met(1))

    def test_against_each(self):
        s = samples((OURS, 2, 0, 'far'), (UDP, 1, 0, 'far'),
                    (TCP, 4, 0, 'far'))
        self.assertEqual(judge(Goal('', OURS, 1, [UDP, TCP]), s),
                         [(UDP, 2, False), (TCP, 0.5, True)])

    def test_absolute(self):
        s = samples((OURS, 0.2, 0, 'far'))
        self.assertEqual(judge(Goal('', OURS, 0.25), s), [(None, 0.2, True)])

    def test_what_is_missing_is_not_judged(self):
        s = samples((OURS, 2, 0, 'far'))
        self.assertEqual(judge(Goal('', OURS, 1, [UDP]), s), [])
        self.assertEqual(judge(Goal('', UDP, 1, [OURS]), s), [])

    def test_somebody_measures_ours(self):
        """Each goal's own figure comes from a probe of its scene."""
        names = [p.name for p in probes()]
        for scene, scene_goals in goals():
            for goal in scene_goals:
                _, who, op, size, qps = parts(goal.ours)
                like = re.sub(r' p[\d.]+', '', op.replace(' rate', ' bw')) + \
                    f' {size}' + (f' q{qps}' if qps > 1 else '')
                like = f'{scene.name}/{who} ' + BY_UNIT.get(op.split()[-1],
                                                            like)
                if 'thread' in op:  # one probe of all numbers
                    like = f'{scene.name}/{who} ' + op.removesuffix(' rate')
                self.assertTrue(like in names, like)

    def test_probes_have_names_of_their_own(self):
        names = [p.name for p in probes()]
        self.assertEqual(len(names), len(set(names)))


class Counts(unittest.TestCase):
    def test_learns_until_it_is_long_enough(self):
        world = World('.', (0, 1), 1.0)
        self.assertEqual(world.count('a', 10), 10)
        self.assertFalse(world.learn('a', 10, 0.01, 5, 100000))
        self.assertEqual(world.count('a', 10), 1000)
        self.assertTrue(world.learn('a', 1000, 0.9, 5, 100000))

    def test_limits(self):
        world = World('.', (0, 1), 1.0)
        self.assertTrue(world.learn('a', 10, 0.001, 5, 12))
        self.assertEqual(world.count('a', 10), 12)
        world.learn('b', 10, 100, 5, 12)
        self.assertEqual(world.count('b', 10), 5)


class Distributions(unittest.TestCase):
    def test_median_of_the_rounds(self):
        world = World('.', (0, 1), 1.0)
        for us in (3, 90, 4):
            world.distribution('a', [[50, us], [99, 2 * us]])
        self.assertEqual(world.distributions(), {'a': [[50, 4], [99, 8]]})


class Charts(unittest.TestCase):
    def test_is_xml_with_every_curve(self):
        svg = chart.lines('a < b', 'x', 'y', [('one & two', [(8, 1), (64, 2)]),
                                              ('three', [(8, 100)])],
                          chart.bytes_text, 8)
        doc = xml.dom.minidom.parseString(svg)
        self.assertEqual(len(doc.getElementsByTagName('polyline')), 2)
        self.assertIn('one &amp; two', svg)

    def test_nothing_to_draw(self):
        self.assertIsNone(chart.lines('', '', '', [('a', [])]))

    def test_axis(self):
        axis = chart.Axis([2, 1000], 0, 100, True)
        self.assertEqual((axis.low, axis.high), (1, 1000))
        self.assertAlmostEqual(axis.at(1), 0)
        self.assertAlmostEqual(axis.at(1000), 100)
        self.assertEqual(len(axis.ticks()), 4)

    def test_marks(self):
        axis = chart.Axis([1, 3], 0, 100, False, marks=(0, 1, 2.5, 4))
        self.assertEqual(axis.ticks(), [1, 2.5])

    def test_figures_have_no_exponent(self):
        self.assertEqual([chart.plain(x) for x in (1e-5, 0.1, 1, 1e6)],
                         ['0.00001', '0.1', '1', '1000000'])

    def test_bytes(self):
        self.assertEqual(chart.bytes_text(2), '2 B')
        self.assertEqual(chart.bytes_text(8 * MIB), '8 MiB')

    def test_spread(self):
        found = dict(spread(list(range(1001))))
        self.assertEqual((found[50], found[99], found[100]),
                         (500, 990, 1000))


def result():
    """A small run, as results.json holds it."""
    bw = cell('loopback', 'urnic0', 'write bw', MIB)
    peer = cell('loopback', 'UCX tcp', 'tag bw', MIB)
    s = samples((OURS, 3, 0, 'far'), (UDP, 2.9, 0, 'far'), (bw, 8, 0, 'far'),
                (peer, 4, 0, 'far'))
    for qps in (16, 256):
        s.add(cell('loopback', 'urnic0', 'write rate', 64, qps), 5, 0, 'far')
    s.add(cell('loopback', 'urnic0', 'write rate', 64), 5, 0, 'far')
    return {'machine': {'cpu': 'x', 'cpus': 2, 'virtual': True,
                        'memory_gib': 1, 'cores': [0, 1], 'kernel': '6',
                        'system': '12', 'urnic': 'abc',
                        'versions': {'perftest': '1'}},
            'begun': 'today', 'rounds': 1, 'seconds': 1, 'minutes': 1,
            'left_out': ['no such: apt-get install it'],
            'commands': {'loopback/it': 'it -x'},
            'distributions': {'loopback/urnic0 send': [[50, 3], [99, 5],
                                                       [100, 9]]},
            'samples': s.rows}


def sleeping_samples():
    s = Samples()
    for who, op, size, many, value in (
            ('TCP', 'redis requests', 3, 16, 50),
            ('urnic0 sockets', 'redis requests', 3, 16, 40),
            ('urnic0 memory', 'redis requests', 3, 16, 100),
            ('TCP', 'trip lat', 8, 1, 40),
            ('urnic0 memory', 'read lat', 8, 1, 10)):
        s.add(cell('sleeping', who, op, size, many), value, 0, 'far')
    return s


class Sleepers(unittest.TestCase):
    def test_every_program_runs_on_every_stack(self):
        """But perftest, which TCP has not."""
        names = {p.name for p in probes()}
        for name in names:
            if name.startswith('sleeping/urnic0 sockets') and \
                    ' lat ' not in name:
                self.assertIn(name.replace('urnic0 sockets', 'TCP'), names)
                self.assertIn(name.replace('sockets', 'memory'), names)

    def test_less_cpu_is_better(self):
        self.assertTrue(less_is_better(cell('a', 'b', 'message cpu', 8)))
        self.assertFalse(less_is_better(cell('a', 'b', 'redis requests', 3)))

    def test_commands(self):
        world = World('/b', (0, 1), 1.0)
        self.assertEqual(sleepers.TCP.sockets(world, 'redis'), ['redis'])
        self.assertEqual(sleepers.MEMORY.program(world, 'fio'),
                         ['/b/urnic', 'run', '--', 'fio'])
        with self.assertRaises(Missing):
            sleepers.SOCKETS.sockets(world, 'redis')


class Report(unittest.TestCase):
    def test_tables(self):
        said = report.Run(result()).markdown()
        self.assertIn('| SEND 8 B latency, bare UDP | urnic0: 3.00 µs | '
                      'UDP lat 8 B: 2.90 | 1.03 | ≤ 1.15 | met |', said)
        self.assertIn('apt-get install it', said)
        self.assertIn('`it -x`', said)

    def test_ratios(self):
        said = report.Run(result()).markdown()
        self.assertIn('| urnic0 send | 8 B latency µs | 3.00 | UDP 1.03 |',
                      said)
        self.assertIn('| urnic0 write | 1 MiB GB/s | 8.00 | UCX tcp tag 2.00 '
                      '|', said)

    def test_missed(self):
        data = result()
        data['samples'][0]['value'] = 9
        self.assertIn('**missed**', report.Run(data).markdown())

    def test_charts(self):
        made = report.Run(result()).charts()
        self.assertEqual(sorted(made), ['rate-loopback.svg',
                                        'spread-loopback.svg'])
        for svg in made.values():
            xml.dom.minidom.parseString(svg)

    def test_readme(self):
        run = report.Run(result())
        self.assertIn('| Loopback, through sockets | WRITE 1 MiB | 8.00 GB/s '
                      '| UCX tcp: 4.00 | – |', run.short())
        with tempfile.TemporaryDirectory() as where:
            path = os.path.join(where, 'README.md')
            with open(path, 'w', encoding='utf-8') as f:
                f.write(f'a\n{report.BEGIN}\nold\n{report.END}\nz\n')
            for _ in range(2):
                report.into_readme(path, ['new'])
            with open(path, encoding='utf-8') as f:
                self.assertEqual(f.read(), f'a\n{report.BEGIN}\nnew\n'
                                 f'{report.END}\nz\n')

    def test_the_spread_is_of_all_samples(self):
        """The median is that of the usual place."""
        data = result()
        data['samples'] = [
            {'cell': cell('loopback', 'urnic0', 'write bw', 1 << 20),
             'value': value, 'round': turn, 'place': place}
            for turn, (value, place) in enumerate((
                (8, 'far'), (6, 'far'), (7, 'far'), (29, 'one cache')))]
        self.assertIn('| Loopback, through sockets | WRITE 1 MiB | 7.00 GB/s '
                      '(6.00–29.0) | – | – |', report.Run(data).short())

    def test_ports_and_the_run(self):
        data = result()
        data['samples'] = [
            {'cell': cell('port-memif', who, op, 64), 'value': value,
             'round': 0, 'place': 'far'}
            for who, op, value in (('urnic0 DPDK', 'send rate', 4),
                                   ('urnic0 urnicd', 'send lat', 30),
                                   ('testpmd', 'rate', 8))]
        said = report.Run(data).short()
        self.assertEqual(said[2:], [
            '| DPDK on a memif | SEND 64 B, port of the process | 4.00 M/s '
            '| – | 8.00 |',
            '| DPDK on a memif | SEND 64 B, port of urnicd | 30.0 µs | – | – '
            '|', '',
            'One run of 1 rounds, today, urnic abc, on x, 2 CPUs of a virtual '
            'machine: 0 of 1 comparisons met their goal, 1 missed it.'])

    def test_sleepers(self):
        data = result()
        data['samples'] = sleeping_samples().rows
        data['distributions'] = {
            'sleeping/TCP': [[50, 20], [99, 60]],
            'sleeping/urnic0 memory send': [[50, 8], [99, 40]]}
        run = report.Run(data)
        said = run.markdown()
        self.assertIn('## Programs that sleep, on loopback', said)
        self.assertIn('|  | TCP | urnic0 sockets | ratio | urnic0 memory | '
                      'ratio |', said)
        self.assertIn('| redis GET, 16 clients, k/s | 50.0 | 40.0 | 0.800 | '
                      '100 | 2.00 |', said)
        self.assertIn('| READ 8 B latency, µs | 40.0 | – | – | 10.0 | 0.250 |',
                      said)
        self.assertIn('| redis GET, 16 clients | urnic0 sockets: 40.0 k/s | '
                      'TCP redis requests 3 B, 16 clients: 50.0 | 0.800 | ≥ 1 '
                      '| **missed** |', said)
        self.assertIn('![spread-sleeping](spread-sleeping.svg)', said)
        self.assertEqual([line for line in run.short()
                          if SLEEPING.title in line],
                         [f'| {SLEEPING.title} | redis GET, 16 clients, '
                          f'{who} | {got} k/s | TCP: 50.0 | – |'
                          for who, got in (('sockets', '40.0'),
                                           ('memory', '100'))])

    def test_the_readme_is_what_was_measured(self):
        with open(os.path.join(TOP, 'docs', 'bench', 'results.json'),
                  encoding='utf-8') as f:
            lines = report.Run(json.load(f)).short()
        with open(os.path.join(TOP, 'README.md'), encoding='utf-8') as f:
            text = f.read()
        self.assertEqual(text.partition(report.BEGIN)[2]
                         .partition(report.END)[0].strip().split('\n'), lines)
        # No figure of a run stands beside what was written by the run.
        speed = text.partition(report.END)[2].partition('\n## ')[0]
        self.assertNotRegex(speed, r'\d')

    def test_the_readme_has_a_place(self):
        with open(os.path.join(TOP, 'README.md'), encoding='utf-8') as f:
            text = f.read()
        self.assertLess(text.index(report.BEGIN), text.index(report.END))

    def test_numbers(self):
        self.assertEqual([report.number(x) for x in
                          (0.0701, 1.234, 45.67, 12345.6, 0, None)],
                         ['0.0701', '1.23', '45.7', '12346', '0', '–'])


if __name__ == '__main__':
    unittest.main()
