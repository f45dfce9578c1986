#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Our exports against the recorded list and the distribution's library.

usage: symbols.py OURS LIST
"""

import os
import re
import subprocess
import sys

PRIVATE_NODES = ['IBVERBS_PRIVATE_%d' % n for n in (34, 57, 59, 64, 65)]
COLUMN_NAME = 7
COLUMN_TYPE = 3


def exports(path):
    """{(node, name): (kind, type)} of a shared library."""
    out = subprocess.run(['readelf', '-W', '--dyn-syms', path], check=True,
                         capture_output=True, text=True).stdout
    found = {}
    for line in out.splitlines():
        words = line.split()
        if len(words) <= COLUMN_NAME or words[6] in ('UND', 'ABS'):
            continue
        m = re.fullmatch(r'([^@]+)(@@?)(.+)', words[COLUMN_NAME])
        if m:
            kind = 'default' if m.group(2) == '@@' else 'old'
            found[m.group(3), m.group(1)] = kind, words[COLUMN_TYPE]
    return found


def unversioned(path):
    """Names that are exported without a version: none should be."""
    out = subprocess.run(['readelf', '-W', '--dyn-syms', path], check=True,
                         capture_output=True, text=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return [r[COLUMN_NAME] for r in rows
            if len(r) > COLUMN_NAME and r[0].endswith(':')
            and r[0] != 'Num:' and r[6] not in ('UND', 'ABS')
            and '@' not in r[COLUMN_NAME]]


def recorded(path):
    """{(node, name): kind}; kind 'any' for private symbols."""
    want = {}
    with open(path, encoding='ascii') as f:
        for line in f:
            if line.startswith('#') or not line.strip():
                continue
            node, kind, name = line.split()
            nodes = PRIVATE_NODES if node.endswith('*') else [node]
            want.update({(n, name): kind for n in nodes})
    return want


def distribution(ours):
    """Path of the installed library of that name, or None."""
    name = re.escape(re.match(r'[^.]+\.so\.\d+',
                              os.path.basename(ours)).group())
    out = subprocess.run(['/sbin/ldconfig', '-p'], capture_output=True,
                         text=True, check=False).stdout
    m = re.search(r'^\s*' + name + r' .*x86-64.* => (\S+)$', out, re.M)
    return m.group(1) if m else None


def compare(ours, want, whose):
    """Number of wanted symbols that are absent or different."""
    bad = 0
    for key, kind in sorted(want.items()):
        have = ours.get(key)
        if not have:
            print('missing: %s of %s (%s)' % (key[1], key[0], whose))
        elif kind not in ('any', have[0]):
            print('%s of %s is %s, not %s (%s)'
                  % (key[1], key[0], have[0], kind, whose))
        else:
            continue
        bad += 1
    return bad


def main():
    ours_path, list_path = sys.argv[1:]
    ours = exports(ours_path)
    want = recorded(list_path)
    bad = compare(ours, want, 'recorded')
    for node, name in sorted(set(ours) - set(want)):
        print('not recorded: %s of %s' % (name, node))
        bad += 1
    for name in unversioned(ours_path):
        print('no version: %s' % name)
        bad += 1
    path = distribution(ours_path)
    if path and os.path.realpath(path) != os.path.realpath(ours_path):
        theirs = exports(path)
        # Providers name the node: which is the default one does not matter.
        bad += compare(ours, {k: 'any' if k[0] in PRIVATE_NODES else v[0]
                              for k, v in theirs.items()}, path)
        for key, (_, kind) in theirs.items():
            if key in ours and ours[key][1] != kind:
                print('%s is %s, not %s' % (key[1], ours[key][1], kind))
                bad += 1
    else:
        print('no library of the distribution to compare with')
    print('%d symbols, %d wrong' % (len(ours), bad))
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
