# SPDX-License-Identifier: BSD-2-Clause
"""A queue that marks packets (ECN), at the sending end of a link.

tbf is the queue: it holds packets to a rate, and drops what exceeds its limit.
The kernels of test machines often lack red and fq_codel, so an eBPF program in
front of it computes how full the queue is, and marks (RFC 3168) every packet
that comes while it holds more than a threshold.
"""

import contextlib
import ctypes
import os
import re
import struct
import subprocess
import tempfile

from harness.proc import Skip, sh

SYS_BPF = {'x86_64': 321, 'aarch64': 280}
MAP_CREATE, PROG_LOAD, OBJ_PIN = 0, 5, 6
MAP_ARRAY, SCHED_CLS = 2, 3
# Helpers of the kernel.
LOOKUP, KTIME, SET_CE = 1, 5, 97


def insn(code, dst=0, src=0, off=0, imm=0):
    return struct.pack('<BBhi', code, src << 4 | dst, off, imm)


def program(map_fd, ns_per_byte, ns_free):
    """`ns_free`: the longest time to send what the queue holds, unmarked."""
    return b''.join((
        insn(0xbf, 6, 1),                       # 0 r6 = the packet
        insn(0x61, 7, 1),                       # 1 r7 = its length
        insn(0x85, imm=KTIME),                  # 2
        insn(0xbf, 8, 0),                       # 3 r8 = now
        insn(0x62, 10, off=-4),                 # 4 key 0
        insn(0xbf, 2, 10),                      # 5
        insn(0x07, 2, imm=-4),                  # 6
        insn(0x18, 1, 1, imm=map_fd), insn(0),  # 7, 8
        insn(0x85, imm=LOOKUP),                 # 9
        insn(0x15, 0, off=12),                  # 10 no value: to 23
        insn(0x79, 1, 0),                       # 11 r1 = the queue is empty at
        insn(0x3d, 1, 8, off=1),                # 12 not past: to 14
        insn(0xbf, 1, 8),                       # 13
        insn(0x27, 7, imm=ns_per_byte),         # 14
        insn(0x0f, 1, 7),                       # 15
        insn(0x7b, 0, 1),                       # 16
        insn(0x1f, 1, 8),                       # 17 r1 = time to send it
        insn(0xb5, 1, off=2, imm=ns_free),      # 18 short: to 21
        insn(0xbf, 1, 6),                       # 19
        insn(0x85, imm=SET_CE),                 # 20 if it is ECT
        insn(0xb7, 0, imm=-1),                  # 21 next filter
        insn(0x95),                             # 22
        insn(0xb7, 0, imm=-1),                  # 23
        insn(0x95),                             # 24
    ))


def bpf(command, attr):
    number = SYS_BPF.get(os.uname().machine)
    if number is None:
        raise Skip('the number of bpf(2) is unknown on this machine')
    buf = ctypes.create_string_buffer(attr.ljust(144, b'\0'), 144)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(number, command, buf, len(buf))
    if fd < 0:
        raise Skip('no eBPF: ' + os.strerror(ctypes.get_errno()))
    return fd


def load(ns_per_byte, ns_free):
    """A file descriptor of the program."""
    held = bpf(MAP_CREATE, struct.pack('<4I', MAP_ARRAY, 4, 8, 1))
    text = ctypes.create_string_buffer(program(held, ns_per_byte, ns_free))
    licence = ctypes.create_string_buffer(b'Dual BSD/GPL')
    try:
        return bpf(PROG_LOAD, struct.pack(
            '<2I2Q', SCHED_CLS, (len(text) - 1) // 8, ctypes.addressof(text),
            ctypes.addressof(licence)))
    finally:
        os.close(held)


@contextlib.contextmanager
def pinned(fd):
    """A file by which tc finds the program."""
    with tempfile.TemporaryDirectory(prefix='urnic-bpf-') as at:
        if subprocess.run(['mount', '-t', 'bpf', 'bpf', at], check=False,
                          capture_output=True).returncode:
            raise Skip('no file system of eBPF')
        try:
            path = os.path.join(at, 'mark')
            name = ctypes.create_string_buffer(path.encode())
            bpf(OBJ_PIN, struct.pack('<QI', ctypes.addressof(name), fd))
            yield path
        finally:
            sh('umount', at)


@contextlib.contextmanager
def marking_queue(host, mbit, mark_bytes, limit_bytes):
    """What `host` sends waits in a queue of that rate, threshold and limit."""
    ns_per_byte = 8000 // mbit
    fd = load(ns_per_byte, mark_bytes * ns_per_byte)
    try:
        host.sh('tc', 'qdisc', 'replace', 'dev', host.dev, 'root', 'tbf',
                'rate', f'{mbit}mbit', 'burst', '8k', 'limit', limit_bytes)
        host.sh('tc', 'qdisc', 'add', 'dev', host.dev, 'clsact')
        with pinned(fd) as path:
            host.sh('tc', 'filter', 'add', 'dev', host.dev, 'egress', 'bpf',
                    'da', 'object-pinned', path)
        yield
    finally:
        os.close(fd)
        for kind in 'clsact', 'root':
            host.sh('tc', 'qdisc', 'del', 'dev', host.dev, kind, check=False)


def dropped(host):
    """Packets that the queue had no room for."""
    text = host.sh('tc', '-s', 'qdisc', 'show', 'dev', host.dev, 'root')
    return int(re.search(r'dropped (\d+)', text)[1])
