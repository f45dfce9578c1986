#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Configuring for a machine that is 32-bit or big-endian ends with a sentence.

    machines.py SOURCE
"""

import os
import platform
import subprocess
import sys
import tempfile

# The compiler of this machine; only its option changes what it builds.
CROSS = '''[binaries]
c = ['gcc'{option}]
ar = 'ar'
strip = 'strip'
[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{family}'
endian = '{endian}'
'''
MACHINES = [('s390x', 'big', '', 's390x big-endian with 64 bits')]
if platform.machine() == 'x86_64':
    MACHINES += [('x86', 'little', '-m32', 'x86 little-endian with 32 bits'),
                 ('x86_64', 'little', '-mx32',
                  'x86_64 little-endian with 32 bits')]


def said(source, family, endian, option):
    with tempfile.TemporaryDirectory() as work:
        cross = os.path.join(work, 'cross.ini')
        with open(cross, 'w', encoding='ascii') as f:
            f.write(CROSS.format(family=family, endian=endian,
                                 option=option and f", '{option}'"))
        r = subprocess.run(['meson', 'setup', '--cross-file', cross,
                            os.path.join(work, 'build'), source], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not r.returncode:
            sys.exit(f'configured for {family} {endian} {option}')
        return r.stdout


for family, endian, option, text in MACHINES:
    output = said(sys.argv[1], family, endian, option)
    if f'urnic is for 64-bit x86 and 64-bit little-endian Arm; this is {text}' \
            not in output:
        sys.exit(f'no "{text}" in:\n{output}')
