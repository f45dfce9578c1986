#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Shells and the distribution's scripts see the devices in the view.

    view.py URNIC
"""

import fcntl
import os
import shutil
import subprocess
import sys

BOTH = ['urnic0', 'urniw0']
# Each has to print the names of the devices and nothing else, in any order.
SCRIPTS = (
    'cd /sys/class/infiniband && ls',
    'cd /sys/class && ls infiniband',
    'cd /sys/class/infiniband && cd urnic0 && cd ../../infiniband && echo *',
    'for d in /sys/class/infiniband/*; do basename $d; done',
    'for d in urnic0 urniw0; do '
    '[ -e /sys/class/infiniband/$d/ports/1/state ] && echo $d; done',
    'cat /dev/null /sys/class/infiniband_verbs/uverbs*/ibdev',
    'cat $(find /sys/class/infiniband -name node_desc)',
    'find /sys/class/infiniband -mindepth 1 -maxdepth 1 -printf "%f\\n"',
    'cd /sys && for f in class/infiniband/*/ports/1/gid_attrs/ndevs/0; do '
    '[ -n "$(cat $f)" ] && echo $f | cut -d/ -f3; done',
    'ls -l /dev/infiniband | grep -c "^c" >/dev/null && '
    'cd /dev/infiniband && ls -l | sed -n "/^c/s/.*uverbs//p" | '
    'while read n; do cat /sys/class/infiniband_verbs/uverbs$n/ibdev; done',
    'find /dev/infiniband -type c | '
    'sed "s/.*uverbs0/urnic0/; s/.*uverbs1/urniw0/"',
)


def run(urnic, args, timeout=None, **env):
    got = subprocess.run([urnic, 'run', '--', *args], text=True,
                         env={**os.environ, **env}, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, timeout=timeout)
    return got.stdout


def shells(urnic):
    for shell in filter(shutil.which, ('bash', 'dash', 'busybox')):
        args = [shell, 'sh'] if shell == 'busybox' else [shell]
        for script in SCRIPTS:
            said = run(urnic, [*args, '-c', script])
            if sorted(said.split()) != BOTH:
                yield f'{shell}: {script}: {said}'


def selections(urnic):
    show = ['sh', '-c', 'cd /sys/class/infiniband && echo *; '
            'cat /sys/class/infiniband_verbs/*/ibdev; '
            'cd /sys/class/net/lo/device/infiniband && echo *; '
            'ls /dev/infiniband | sed "s/uverbs0/urnic0/; s/uverbs1/urniw0/"']
    for name in (*BOTH, *BOTH):
        said = run(urnic, show, URNIC_DEVICES=name)
        if said.split() != [name] * 4:
            yield f'URNIC_DEVICES={name}: {said}'
    said = run(urnic, show).split()
    if sorted(said) != sorted(BOTH * 4):
        yield f'without URNIC_DEVICES: {said}'


def diags(urnic):
    """infiniband-diags: a script, and a program on libibumad."""
    status, stat = shutil.which('ibstatus'), shutil.which('ibstat')
    if not status or not stat:
        print('ibstatus and ibstat are not installed')
        return
    said = run(urnic, [status])
    for name in BOTH:
        if f"Infiniband device '{name}' port 1 status" not in said:
            yield f'ibstatus: {said}'
    if 'unknown' in said or said.count('4: ACTIVE') != 2:
        yield f'ibstatus: {said}'
    said = run(urnic, [stat])
    if "CA 'urnic0'" not in said or 'State: Active' not in said:
        yield f'ibstat: {said}'


def locked(urnic):
    """Another process has the lock that makers of views take, and keeps it."""
    view = run(urnic, ['sh', '-c', 'echo $URNIC_SYSFS']).strip()
    base = os.open(os.path.dirname(os.path.dirname(view)), os.O_RDONLY)
    fcntl.flock(base, fcntl.LOCK_EX)
    try:
        said = run(urnic, ['ls', '/sys/class/infiniband'], timeout=15)
        if sorted(said.split()) != BOTH:
            yield f'with the lock taken: {said}'
    except subprocess.TimeoutExpired:
        yield 'waits for a lock that another process keeps'
    finally:
        os.close(base)


def main():
    urnic = sys.argv[1]
    os.environ.pop('URNIC_DEVICES', None)
    os.environ['PATH'] += ':/usr/sbin'
    wrong = [*shells(urnic), *selections(urnic), *diags(urnic),
             *locked(urnic)]
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


if __name__ == '__main__':
    main()
