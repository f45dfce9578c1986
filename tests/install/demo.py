#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The demo says by which way data moved: with shared memory, and without.

    demo.py SOURCE BUILD
"""

import os
import re
import shutil
import subprocess
import sys

PROGRAMS = ('ibv_rc_pingpong', 'ib_write_bw', 'ib_send_lat')
# Where nothing else sends datagrams.
NAMESPACE = ['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"',
             'sh']


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


def main():
    source, build = sys.argv[1:]
    for name in (*PROGRAMS, 'rping', 'unshare', 'ip'):
        if not shutil.which(name):
            skip(f'{name} is not installed')
    if subprocess.run([*NAMESPACE, 'true'],
                      stderr=subprocess.DEVNULL).returncode:
        skip('no network namespace of its own, where nothing else is sent')
    got = subprocess.run([*NAMESPACE, os.path.join(source, 'scripts', 'demo'),
                          build], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    result = got.stdout.partition('Result:')[2]
    if got.returncode:
        sys.exit(f'demo: status {got.returncode}\n{got.stdout}')
    for name in PROGRAMS:
        rows = re.findall(rf'^  {name} .*$', result, re.M)
        if len(rows) != 2 or not rows[0].endswith(' shared memory') or \
                not re.search(r' RoCEv2, \d{4,} UDP datagrams$', rows[1]):
            sys.exit(f'demo: {name}: {rows}\n{got.stdout}')


if __name__ == '__main__':
    main()
