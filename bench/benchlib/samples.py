# SPDX-License-Identifier: BSD-2-Clause
"""Samples and what may be concluded from them.

A cell is one figure: scene/stack/op/size, or scene/stack/op/size/qN for N queue
pairs, clients or pairs of processes.  The last word of the op says the unit.  Each sample knows its round and
where the machine's cores were (see world.py): a virtual machine's cores move,
and results differ several times between places, so only samples of one place
are compared with each other.
"""

import statistics

UNITS = {'lat': 'µs', 'bw': 'GB/s', 'rate': 'M/s', 'connections': '1/s',
         'setup': 'µs', 'cost': 'µs', 'memory': 'KiB', 'requests': 'k/s',
         'messages': 'k/s', 'cpu': 'µs'}
# Less of these is better.
LESS = ('lat', 'setup', 'cost', 'memory', 'cpu')
MIXED = 'mixed'


def cell(scene, who, op, size, qps=1):
    name = f'{scene}/{who}/{op}/{size}'
    return name if qps == 1 else f'{name}/q{qps}'


def parts(name):
    """(scene, stack, op, size, queue pairs) of a cell."""
    scene, who, op, size, *rest = name.split('/')
    return scene, who, op, int(size), int(rest[0][1:]) if rest else 1


def unit(name):
    return UNITS[parts(name)[2].split()[-1]]


def less_is_better(name):
    return parts(name)[2].split()[-1] in LESS


class Samples:
    def __init__(self, rows=()):
        self.rows = list(rows)
        self._by_cell = {}
        for row in self.rows:
            self._by_cell.setdefault(row['cell'], []).append(row)

    def add(self, name, value, turn, place):
        row = {'cell': name, 'value': value, 'round': turn, 'place': place}
        self.rows.append(row)
        self._by_cell.setdefault(name, []).append(row)

    def cells(self):
        return list(self._by_cell)

    def __contains__(self, name):
        return name in self._by_cell

    def values(self, name, place=None):
        return [r['value'] for r in self._by_cell.get(name, ())
                if place in (None, r['place'])]

    def places(self):
        """How many samples were taken in each place, the usual one first."""
        count = {}
        for row in self.rows:
            count[row['place']] = count.get(row['place'], 0) + 1
        return dict(sorted(count.items(),
                           key=lambda kv: (kv[0] == MIXED, -kv[1])))

    def usual(self):
        return next(iter(self.places()), MIXED)

    def typical(self, name):
        """The values in the usual place, or all if it was never there."""
        return self.values(name, self.usual()) or self.values(name)

    def median(self, name):
        values = self.typical(name)
        return statistics.median(values) if values else None

    def _pairs(self, a, b):
        """{place: [a/b of each round that saw both there]}"""
        base = {}
        for row in self._by_cell.get(b, ()):
            base.setdefault((row['round'], row['place']), row['value'])
        found = {}
        for row in self._by_cell.get(a, ()):
            other = base.get((row['round'], row['place']))
            if other:
                found.setdefault(row['place'], []).append(
                    row['value'] / other)
        return found

    def ratio(self, a, b):
        """Median over the rounds of a/b, or None.

        Within a round if both were measured in one place; else of the medians
        in the place where both were; else of all.
        """
        pairs = self._pairs(a, b)
        known = {p: v for p, v in pairs.items() if p != MIXED} or pairs
        if known:
            return statistics.median(max(known.values(), key=len))
        for place in list(self.places()) + [None]:
            x, y = self.values(a, place), self.values(b, place)
            if x and y and statistics.median(y):
                return statistics.median(x) / statistics.median(y)
        return None
