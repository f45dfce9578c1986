#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The example of each page of section 3 compiles as it stands, and runs on
urnic.

    examples.py SOURCE BUILD CC...

The header also compiles as C++.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

# What groff would print as another character, if it is not written so.
ESCAPES = {r'\-': '-', r'\e': '\\', r'\(aq': "'", r'\(ha': '^', r'\(ti': '~',
           r'\&': ''}
FLAGS = ['-D_GNU_SOURCE', '-Wall', '-Wextra', '-Wpedantic', '-Werror']


def fail(what):
    sys.exit(f'examples: {what}')


def example(page):
    """The program in a page, as a reader of the page copies it."""
    with open(page, encoding='utf-8') as f:
        text = f.read().partition('.SH EXAMPLES')[2]
    found = re.search(r'^\.EX\n(.*?)^\.EE$', text, re.S | re.M)
    if not found:
        fail(f'{page} has no example')

    def plain(match):
        if match.group() not in ESCAPES:
            fail(f'{page}: {match.group()} is printed as something else')
        return ESCAPES[match.group()]

    return re.sub(r'\\\(..|\\.|(?m:^[.\'])|[-\'^~]', plain, found.group(1))


def run(args, **env):
    return subprocess.run(args, env={**os.environ, **env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)


def compile_with(cc, source, name, *more):
    got = run([*cc, *FLAGS, '-I', os.path.join(source, 'include'), name,
               *more])
    if got.returncode:
        fail(f'{name} does not compile:\n{got.stderr}')


def check(name, text, source, build, cc, work):
    program = os.path.join(work, name)
    with open(program + '.c', 'w', encoding='utf-8') as f:
        f.write(text)
    compile_with(cc, source, program + '.c', '-o', program, '-libverbs',
                 '-ldl')
    got = run([os.path.join(build, 'urnic'), 'run', '--', program],
              URNIC_DEVICES='urnic0')
    if got.returncode or got.stderr or len(got.stdout.splitlines()) != 1:
        fail(f'{name} on urnic: {got}')
    print(f'{name}: {got.stdout.strip()}')


def main():
    source, build, *cc = sys.argv[1:]
    pages = sorted(glob.glob(os.path.join(source, 'docs', 'man', '*.3')))
    if not pages:
        fail('no pages')
    with tempfile.TemporaryDirectory(prefix='urnic-examples-') as work:
        for page in pages:
            check(os.path.basename(page)[:-2], example(page), source, build,
                  cc, work)
        if shutil.which('g++'):
            name = os.path.join(work, 'header.cc')
            with open(name, 'w', encoding='utf-8') as f:
                f.write('#include <urnic.h>\n')
            compile_with(['g++', '-fsyntax-only'], source, name)


if __name__ == '__main__':
    main()
