#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run a command to which the kernel refuses system calls, as sandboxes do.

    refuse.py CALL[:ARGUMENT=VALUE...][!ERRNO] ... -- COMMAND [ARGUMENT ...]

CALL is a name below.  ARGUMENT counts from 0, and its low 32 bits are compared.
ERRNO is a number, by default that of EPERM; 0 pretends success.
"""

import ctypes
import errno
import os
import struct
import sys

CALLS = {'setsockopt': 54, 'io_setup': 206, 'io_submit': 209,
         'process_vm_readv': 310, 'process_vm_writev': 311,
         'memfd_create': 319, 'membarrier': 324}    # x86-64
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERROR = 0x7fff0000, 0x00050000


def statement(code, value, yes=0, no=0):
    return struct.pack('=HBBI', code, yes, no, value)


def rule(text):
    text, _, code = text.partition('!')
    call, *conditions = text.split(':')
    tests = [(0, CALLS[call])]
    for c in conditions:
        argument, _, value = c.partition('=')
        tests.append((16 + 8 * int(argument), int(value)))
    program = []
    for i, (offset, value) in enumerate(tests):
        behind = 2 * (len(tests) - i - 1) + 1
        program += [statement(LOAD, offset),
                    statement(EQUAL, value, 0, behind)]
    return program + [statement(RETURN, ERROR | int(code or errno.EPERM))]


def main():
    at = sys.argv.index('--')
    program = [s for text in sys.argv[1:at] for s in rule(text)]
    program.append(statement(RETURN, ALLOW))
    code = ctypes.create_string_buffer(b''.join(program))
    filter_ = struct.pack('HP', len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    for args in ((PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero),
                 (PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER),
                  ctypes.c_char_p(filter_), zero, zero)):
        if libc.prctl(*args):
            sys.exit(f'refuse: prctl: {os.strerror(ctypes.get_errno())}')
    os.execvp(sys.argv[at + 1], sys.argv[at + 1:])


if __name__ == '__main__':
    main()
