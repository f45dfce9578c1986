# SPDX-License-Identifier: BSD-2-Clause
"""The machine, the versions of what is measured, and which cores to take."""

import os
import platform
import subprocess

PACKAGES = ('perftest', 'rdma-core', 'iperf3', 'sockperf', 'qperf',
            'ucx-utils', 'libfabric-bin', 'libfabric1', 'openmpi-bin',
            'libisal2', 'gcc')


def _read(path, default=''):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return default


def _cpuinfo(key):
    for line in _read('/proc/cpuinfo').splitlines():
        name, _, value = line.partition(':')
        if name.strip() == key:
            return value.strip()
    return ''


def _said(*argv):
    try:
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL).stdout.strip()
    except OSError:
        return ''


def versions():
    text = _said('dpkg-query', '-W', '-f',
                 '${Package} ${Version} ${db:Status-Status}\n', *PACKAGES)
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == 'installed':
            found[words[0]] = words[1]
    return found


def commit(top):
    """What of ours is measured; a + says that files were changed since."""
    git = ('git', '-c', 'safe.directory=*', '-C', top)
    name = _said(*git, 'rev-parse', '--short', 'HEAD')
    changed = _said(*git, 'status', '--porcelain', '-uno', '--', 'src',
                    'bench')
    return name + ('+' if changed else '')


def describe(top, cores):
    memory = _read('/proc/meminfo').split()
    return {
        'cpu': _cpuinfo('model name'),
        'cpus': os.cpu_count(),
        'virtual': 'hypervisor' in _cpuinfo('flags').split(),
        'cores': list(cores),
        'memory_gib': round(int(memory[1]) / 2 ** 20) if memory else 0,
        'kernel': platform.release(),
        'system': _read('/etc/debian_version'),
        'versions': versions(),
        'urnic': commit(top),
    }


def _siblings(cpu, what):
    return _read(f'/sys/devices/system/cpu/cpu{cpu}/{what}', str(cpu))


def choose_cores():
    """Two cores of their own that share their last cache, if there are."""
    cpus = sorted(os.sched_getaffinity(0))
    threads = 'topology/thread_siblings_list'
    cache = 'cache/index3/shared_cpu_list'
    first = cpus[0]
    others = [c for c in cpus[1:]
              if _siblings(c, threads) != _siblings(first, threads)
              or _siblings(c, threads) == str(c)]
    near = [c for c in others if _siblings(c, cache) == _siblings(first, cache)]
    second = (near or others or cpus[1:] or [first])[0]
    return first, second
