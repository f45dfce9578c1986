#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""scripts/features names every optional dependency of every meson.build.

    features.py SOURCE
"""

import glob
import os
import re
import subprocess
import sys

CALL = re.compile(r'\b(?:dependency|has_header|find_library)\(')
NAME = re.compile(r"\s*'([^']+)'")
OPTIONAL = re.compile(r'required:\s*(?:false|get_option)')


def arguments(text):
    """What stands before the bracket that closes the one before `text`."""
    depth = 1
    for i, char in enumerate(text):
        depth += (char == '(') - (char == ')')
        if not depth:
            return text[:i]
    return text


def optional(source):
    """Names in dependency('x', ..., required: false) and the like."""
    for path in glob.glob(os.path.join(source, '**', 'meson.build'),
                          recursive=True):
        if os.path.relpath(path, source).startswith('build'):
            continue
        with open(path, encoding='utf-8') as f:
            text = f.read()
        for call in CALL.finditer(text):
            given = arguments(text[call.end():])
            name = NAME.match(given)
            if name and OPTIONAL.search(given):
                yield name.group(1)


def main():
    source = sys.argv[1]
    known = {line.split()[0] for line in subprocess.check_output(
        [os.path.join(source, 'scripts', 'features')],
        text=True).splitlines()}
    found = set(optional(source))
    if 'libdpdk' not in found or 'valgrind/valgrind.h' not in found:
        sys.exit(f'features: the search is broken, it has found {found}')
    missing = found - known
    if missing:
        sys.exit('features: scripts/features does not look for '
                 + ', '.join(sorted(missing)))


if __name__ == '__main__':
    main()
