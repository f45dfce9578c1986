#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""One tiny round of bench/run: everything of ours can be measured and told.

    smoke.py BUILDDIR

What it measures is not looked at but for being there; peers that are not
installed are left out, as they are in earnest.
"""

import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PROBES = ('memory/store', 'memory/ring', 'memory/memcpy write',
          'memory/process_vm read', 'memory/bounce', 'memory/urnic0 atomic',
          'memory/urnic0 mapped write', 'memory/urnic0 send spread',
          'memory/UCX posix tag_lat 2', 'memory/Open MPI vader lat',
          'memory/libfabric shm lat', 'loopback/UDP', 'loopback/TCP lat',
          'loopback/TCP bw', 'loopback/sendmmsg',
          'loopback/urnic0 send bw 64 q16', 'loopback/urniw0 send lat 64',
          'loopback/urnic0 write threads', 'memory/urnic0 send thread dom',
          'sleeping/TCP lat 8', 'sleeping/urnic0 memory send lat 8',
          'sleeping/urnic0 sockets pairs', 'sleeping/TCP pairs',
          'loss1/urnic0 send lat 64', 'loss1/urnic0 write bw')
CELLS = ('memory/store/lat/8', 'memory/memcpy/write bw/1048576',
         'memory/process_vm/read bw/65536', 'memory/bounce/bw/65536',
         'memory/urnic0/atomic lat/8', 'memory/urnic0 mapped/write lat/8',
         'memory/urnic0 mapped/write bw/1048576', 'loopback/UDP/lat/8',
         'loopback/UDP GSO/rate/64', 'loopback/TCP/bw/262144',
         'loopback/sendmmsg/rate/64', 'loopback/urnic0/send rate/64/q16',
         'loopback/urniw0/send lat/64',
         'loopback/urnic0/write threads rate/64/q8',
         'memory/urnic0/send thread domains rate/64',
         'sleeping/TCP/lat/8', 'sleeping/TCP/trip p99 lat/8',
         'sleeping/urnic0 memory/send lat/8',
         'sleeping/urnic0 memory/send p99 lat/8',
         'sleeping/urnic0 sockets/message cpu/8',
         'sleeping/urnic0 sockets/pair messages/8/q32',
         'sleeping/TCP/pair messages/8/q32',
         'loss1/urnic0/send p99.9 lat/64', 'loss1/urnic0/write bw/1048576')
CHARTS = ('bandwidth-memory.svg', 'spread-sleeping.svg')
OTHERS = ('no ', 'fi_pair is not built', 'mpi_pair is not built')


def main():
    sys.path.insert(0, os.path.join(TOP, 'tests'))
    from harness import rights
    rights.take()
    with tempfile.TemporaryDirectory() as out:
        run = [os.path.join(TOP, 'bench', 'run'), sys.argv[1], '--rough',
               '-r', '1', '-t', '0.02', '-o', out]
        for name in PROBES:
            run += ['-k', name]
        if len(os.sched_getaffinity(0)) < 2:
            run += ['--no-pin']
        r = subprocess.run(run, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
        print(r.stdout)
        if r.returncode:
            return 1
        with open(os.path.join(out, 'results.json'), encoding='utf-8') as f:
            data = json.load(f)
        found = {row['cell']: row['value'] for row in data['samples']}
        bad = [f'no {name}' for name in CELLS if not found.get(name, 0) > 0]
        bad += [why for why in data['left_out'] if not why.startswith(OTHERS)]
        with open(os.path.join(out, 'README.md'), encoding='utf-8') as f:
            text = f.read()
        bad += [f'not told: {name}' for name in data['commands']
                if f'- {name}: `' not in text]
        for name in os.listdir(out):
            if name.endswith('.svg'):
                xml.dom.minidom.parse(os.path.join(out, name))
        bad += [f'no chart {name}' for name in CHARTS
                if not os.path.exists(os.path.join(out, name))]
    print('\n'.join(bad))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
