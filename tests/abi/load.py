#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Everything on this machine that needs one of our libraries loads with ours.

usage: load.py DIRECTORY   with libibverbs.so.1, librdmacm.so.1, liburnic.so
"""

import ctypes
import glob
import os
import re
import subprocess
import sys

PROGRAMS = [
    '/usr/bin/ib_*', '/usr/bin/raw_ethernet_*', '/usr/bin/ibv_*',
    '/usr/bin/rping', '/usr/bin/ucmatose', '/usr/bin/udaddy',
    '/usr/bin/mckey', '/usr/bin/rdma_*', '/usr/bin/cmtime', '/usr/bin/qperf',
    '/usr/bin/ucx_info', '/usr/bin/fi_info', '/usr/bin/fio',
]
LIBRARIES = [
    'libmlx5.so.1', 'libmlx4.so.1', 'libefa.so.1', 'libmana.so.1',
    'libhns.so.1', 'librdmacm.so.1', 'libfabric.so.1', 'ucx/libuct_ib.so.0',
]
OURS = ['libibverbs.so.1', 'librdmacm.so.1']
LIBRARY_DIRS = ['/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/lib']

# What NCCL looks up by version, any missing one ending its use of RDMA.
NCCL = '''get_device_list free_device_list get_device_name open_device
close_device get_async_event ack_async_event query_device query_port query_gid
query_qp alloc_pd dealloc_pd reg_mr dereg_mr create_cq destroy_cq create_qp
modify_qp destroy_qp fork_init event_type_str'''.split()
NCCL_OPTIONAL = {
    'ibv_reg_mr_iova2': 'IBVERBS_1.8', 'ibv_query_ece': 'IBVERBS_1.10',
    'ibv_set_ece': 'IBVERBS_1.10', 'ibv_reg_dmabuf_mr': 'IBVERBS_1.12',
    'ibv_query_port_speed': 'IBVERBS_1.16',
}


def users():
    """ELF files that are linked to one of ours, and to which."""
    files = [f for pattern in PROGRAMS for f in glob.glob(pattern)]
    files += [os.path.join(d, name) for d in LIBRARY_DIRS for name in LIBRARIES]
    for f in sorted({os.path.realpath(f) for f in files if os.path.exists(f)}):
        out = subprocess.run(['readelf', '-d', f], capture_output=True,
                             text=True, check=False).stdout
        needs = [name for name in OURS
                 if re.search(rf'NEEDED.*\[{re.escape(name)}\]', out)]
        if needs:
            yield f, needs


def load(path, directory, needs):
    """None, or why it does not load."""
    env = dict(os.environ, LD_LIBRARY_PATH=directory, LD_BIND_NOW='1')
    p = subprocess.run(['ldd', '-r', path], env=env, capture_output=True,
                       text=True, check=False)
    text = p.stdout + p.stderr
    bad = [line for line in text.splitlines()
           if re.search('undefined symbol|not found|not defined', line)
           and re.search('ibv_|rdma|verbs|urnic', line, re.I)]
    if bad:
        return bad[0].strip()
    for name in needs:
        if f'{name} => {os.path.join(directory, name)}' not in text:
            return f'does not find our {name}'
    return None


def nccl(directory):
    """Symbols that a dlopen() of the development name does not give."""
    ctypes.CDLL(os.path.join(directory, 'liburnic.so'))
    lib = ctypes.CDLL(os.path.join(directory, 'libibverbs.so'))
    libc = ctypes.CDLL(None)
    libc.dlvsym.restype = ctypes.c_void_p
    libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    want = {'ibv_' + name: 'IBVERBS_1.1' for name in NCCL}
    want.update(NCCL_OPTIONAL)
    # pylint: disable-next=protected-access
    return [name for name, version in want.items()
            if not libc.dlvsym(lib._handle, name.encode(), version.encode())]


def main():
    directory = os.path.abspath(sys.argv[1])
    n = bad = 0
    for path, needs in users():
        n += 1
        why = load(path, directory, needs)
        if why:
            print('%s: %s' % (path, why))
            bad += 1
    for name in nccl(directory):
        print('dlvsym: %s is missing' % name)
        bad += 1
    print('%d programs and libraries, %d wrong' % (n, bad))
    return bad != 0 or n == 0


if __name__ == '__main__':
    sys.exit(main())
