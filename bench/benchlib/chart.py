# SPDX-License-Identifier: BSD-2-Clause
"""Line charts as SVG, with nothing but the standard library."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 200, 44, 52
# Distinct also with most kinds of colour blindness; ours come first.
COLOURS = ('#d55e00', '#0072b2', '#009e73', '#cc79a7', '#e69f00', '#56b4e9',
           '#000000', '#7f7f7f', '#8c6bb1', '#66761b')
DASHES = ('', '6 3', '2 2', '8 3 2 3')
FIRST = ('urnic', 'urniw')
FONT = 'font-family="sans-serif" font-size="12"'


def bytes_text(value):
    for power, letter in ((30, ' GiB'), (20, ' MiB'), (10, ' KiB')):
        if value >= 2 ** power:
            return f'{value / 2 ** power:g}{letter}'
    return f'{value:g} B'


def plain(value):
    """Digits, never an exponent."""
    return f'{value:.12f}'.rstrip('0').rstrip('.')


def share_text(nines):
    return f'{100 - 100 * 10 ** -nines:.6g} %'


class Axis:
    """From values to pixels, by logarithm or not."""

    def __init__(self, values, first, last, log, text=plain, base=10,
                 marks=()):
        self.first, self.last, self.log, self.text = first, last, log, text
        self.marks = marks
        low, high = min(values), max(values)
        if log:
            low = base ** math.floor(math.log(low, base) + 1e-9)
            high = base ** math.ceil(math.log(high, base) - 1e-9)
            if low == high:
                high *= base
        elif low == high:
            high = low + 1
        self.low, self.high, self.base = low, high, base

    def at(self, value):
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log(x) for x in (value, low, high))
        return self.first + (value - low) / (high - low) * \
            (self.last - self.first)

    def ticks(self):
        if self.marks:
            return [m for m in self.marks if self.low <= m <= self.high]
        if self.log:
            count = round(math.log(self.high / self.low, self.base))
            step = max(1, math.ceil(count / 8))
            return [self.low * self.base ** i
                    for i in range(0, count + 1, step)]
        whole = range(math.ceil(self.low - 1e-6),
                      math.floor(self.high + 1e-6) + 1)
        return list(whole)


def text(x, y, said, anchor='start', extra=''):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {FONT}'
            f'{extra}>{escape(said)}</text>')


def line(x1, y1, x2, y2, colour='#dddddd', width=1):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}" stroke-width="{width}"/>')


def grid(x, y, x_title, y_title):
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in x.ticks():
        at = x.at(tick)
        yield line(at, TOP, at, bottom)
        yield text(at, bottom + 16, x.text(tick), 'middle')
    for tick in y.ticks():
        at = y.at(tick)
        yield line(LEFT, at, right, at)
        yield text(LEFT - 6, at + 4, y.text(tick), 'end')
    yield text((LEFT + right) / 2, HEIGHT - 10, x_title, 'middle')
    middle = (TOP + bottom) / 2
    yield text(16, middle, y_title, 'middle',
               f' transform="rotate(-90 16 {middle:.1f})"')


def series(index, name, points, x, y):
    colour = COLOURS[index % len(COLOURS)]
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    where = [(x.at(a), y.at(b)) for a, b in points]
    path = ' '.join(f'{a:.1f},{b:.1f}' for a, b in where)
    yield (f'<polyline points="{path}" fill="none" stroke="{colour}" '
           f'stroke-width="{2.5 if name.startswith(FIRST) else 1.5}" '
           f'stroke-dasharray="{dash}"/>')
    for a, b in where:
        yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}"/>'
    at = TOP + 8 + 18 * index
    left = WIDTH - RIGHT + 14
    yield line(left, at, left + 22, at, colour, 2.5)
    yield text(left + 28, at + 4, name)


def lines(title, x_title, y_title, curves, x_text=plain, x_log=2, marks=()):
    """A chart of [(name, [(x, y)])]; x_log is the base, 0 a plain scale.

    marks: where the x axis has its figures, if not at powers of the base.
    """
    curves = [(name, sorted((a, b) for a, b in points if b > 0))
              for name, points in curves]
    curves = sorted(((name, points) for name, points in curves if points),
                    key=lambda c: not c[0].startswith(FIRST))
    if not curves:
        return None
    xs = [a for _, points in curves for a, _ in points]
    ys = [b for _, points in curves for _, b in points]
    x = Axis(xs, LEFT, WIDTH - RIGHT, bool(x_log), x_text, x_log or 10,
             marks)
    y = Axis(ys, HEIGHT - BOTTOM, TOP, True)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
           f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
           f'<title>{escape(title)}</title>',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
           text(LEFT, 24, title, extra=' font-weight="bold"')]
    out += grid(x, y, x_title, y_title)
    for i, (name, points) in enumerate(curves):
        out += series(i, name, points, x, y)
    return '\n'.join(out + ['</svg>', ''])
