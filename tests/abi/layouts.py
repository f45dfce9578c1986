#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The installed headers' layouts against the recorded ones.

What we lay out by it must be what programs built elsewhere expect.  A
structure may have the size of release 44 or of the newest, or of one between.

usage: layouts.py RECORDED COMPILER...
"""

import os
import subprocess
import sys
import tempfile

HEAD = '''#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdio.h>
int main(void)
{
'''


def parse(path):
    """[(what, C expression, lowest value, highest value)]"""
    rows = []
    with open(path, encoding='ascii') as f:
        for line in f:
            kind, _, rest = line.strip().partition(' ')
            if kind in ('#', ''):
                continue
            what, *values = [w.strip() for w in rest.split(',')]
            if kind == 'size':
                expr = 'sizeof(%s)' % what
            elif kind == 'at':
                struct, _, member = what.rpartition(' ')
                expr = 'offsetof(%s, %s)' % (struct, member)
            elif kind == 'before':
                expr = ('offsetof(struct verbs_context, context) - '
                        'offsetof(struct verbs_context, %s)' % what)
            else:
                raise SystemExit('what is %r?' % line)
            rows.append((line.strip(), expr, int(values[0]), int(values[-1])))
    return rows


def measure(compiler, rows):
    """The values that the compiler gives the expressions."""
    with tempfile.TemporaryDirectory() as tmp:
        source, program = os.path.join(tmp, 'l.c'), os.path.join(tmp, 'l')
        with open(source, 'w', encoding='ascii') as f:
            f.write(HEAD)
            for _, expr, _, _ in rows:
                f.write('\tprintf("%%zu\\n", (size_t)(%s));\n' % expr)
            f.write('}\n')
        subprocess.run([*compiler, '-o', program, source], check=True)
        out = subprocess.run([program], check=True, capture_output=True,
                             text=True).stdout
    return [int(word) for word in out.split()]


def main():
    rows = parse(sys.argv[1])
    values = measure(sys.argv[2:], rows)
    bad = 0
    for (what, _, low, high), value in zip(rows, values, strict=True):
        if not low <= value <= high:
            print('%s: the header has %d' % (what, value))
            bad += 1
    print('%d layouts, %d wrong' % (len(rows), bad))
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
