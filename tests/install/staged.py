#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Install into a staging directory, move it, run it there, uninstall.

    staged.py SOURCE BUILD
"""

import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM = '''#define _GNU_SOURCE
#include <urnic.h>
int main(void) { return urnic_query_ah(NULL, NULL) == EOPNOTSUPP ? 0 : 1; }
'''


def fail(what):
    sys.exit(f'staged: {what}')


def run(args, **env):
    got = subprocess.run(args, env={**os.environ, **env}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if got.returncode:
        fail(f'{" ".join(args)}: status {got.returncode}\n{got.stdout}')
    return got.stdout


def everything(root):
    for where, dirs, files in os.walk(root):
        for name in dirs + files:
            yield os.path.join(where, name)


def check_runs(prefix):
    """The command finds the libraries that lie beside it, and no others."""
    urnic = os.path.join(prefix, 'bin', 'urnic')
    env = run([urnic, 'run', '--env'])
    if f'LD_LIBRARY_PATH={prefix}/' not in env:
        fail(f'runs with other libraries:\n{env}')
    maps = run([urnic, 'run', '--', sys.executable, '-c', '''
import ctypes, ctypes.util
lib = ctypes.CDLL("libibverbs.so.1")
n = ctypes.c_int()
lib.ibv_get_device_list.restype = ctypes.c_void_p
lib.ibv_get_device_list(ctypes.byref(n))
print(n.value, open("/proc/self/maps").read())'''], URNIC_DEVICES='urnic0')
    if not maps.startswith('1 '):
        fail(f'finds no device: {maps[:200]}')
    if f'{prefix}/lib' not in maps or '/liburnic.so' not in maps:
        fail('the library of another place was loaded')


def check_pkg_config(prefix, pc, work):
    # The file knows the prefix that it was configured with.
    args = ['pkg-config', f'--define-variable=prefix={prefix}', '--cflags',
            '--libs', 'urnic']
    flags = run(args, PKG_CONFIG_PATH=os.path.dirname(pc)).split()
    if f'-I{prefix}/include' not in flags:
        fail(f'urnic.pc has no directory of headers: {flags}')
    source = os.path.join(work, 'p.c')
    with open(source, 'w', encoding='utf-8') as f:
        f.write(PROGRAM)
    program = os.path.join(work, 'p')
    run(['gcc', '-Wall', '-Werror', source, '-o', program, *flags])
    run([program])


def check_exp(prefix, pc, source, work):
    """A program of Mellanox OFED compiles, in C and as far as its includes go
    in C++, with the installed headers."""
    flags = run(['pkg-config', f'--define-variable=prefix={prefix}',
                 '--cflags', '--libs', 'urnic-exp'],
                PKG_CONFIG_PATH=os.path.dirname(pc)).split()
    found = [p for p in everything(prefix) if '/infiniband/' in p]
    own = os.path.join(prefix, 'include', 'urnic-exp')
    if not found or any(not p.startswith(own + '/') for p in found):
        fail(f'headers that configure scripts find: {found}')
    if f'-I{own}' not in flags or f'-I{prefix}/include' in flags:
        fail(f'urnic-exp.pc has other directories of headers: {flags}')
    run(['gcc', '-Wall', '-Wextra', '-Wpedantic', '-Werror',
         os.path.join(source, 'tests', 'progs', 'exp_style.c'), '-o',
         os.path.join(work, 'e'), *flags])
    if shutil.which('g++'):
        name = os.path.join(work, 'e.cc')
        with open(name, 'w', encoding='utf-8') as f:
            f.write('#include <infiniband/arch.h>\n'
                    '#include <infiniband/verbs.h>\n'
                    'enum ibv_qp_type dci = IBV_EXP_QPT_DC_INI;\n'
                    'enum ibv_event_type event = IBV_EXP_EVENT_DCT_REQ_ERR;\n')
        run(['g++', '-Wall', '-Wextra', '-Wpedantic', '-Werror',
             '-fsyntax-only', name, *flags])


def main():
    source, build = sys.argv[1:]
    install = os.path.join(source, 'scripts', 'install')
    # What was installed by hand stays in the build directory's record.
    record = os.path.join(build, 'installed-dirs')
    old = open(record).read() if os.path.exists(record) else ''
    with tempfile.TemporaryDirectory(prefix='urnic-staged-') as work:
        stage = os.path.join(work, 'stage')
        os.mkdir(stage)
        run([install, build], DESTDIR=stage)
        said = run([install, build], DESTDIR=stage)  # what is there already
        urnic = [p for p in everything(stage) if p.endswith('/bin/urnic')]
        if len(urnic) != 1 or f'installed {urnic[0]}\n' not in said:
            fail(f'does not say what it installs:\n{said}')
        pages = {os.path.basename(p) for p in everything(stage)
                 if '/share/man/man' in p and not os.path.isdir(p)}
        if pages != set(os.listdir(os.path.join(source, 'docs', 'man'))):
            fail(f'these manual pages are installed: {sorted(pages)}')
        prefix = os.path.dirname(os.path.dirname(urnic[0]))
        elsewhere = os.path.join(work, 'elsewhere')
        shutil.copytree(prefix, elsewhere, symlinks=True)
        check_runs(elsewhere)
        pc = [p for p in everything(elsewhere) if p.endswith('/urnic.pc')]
        if len(pc) != 1:
            fail('there is no urnic.pc')
        check_pkg_config(elsewhere, pc[0], work)
        check_exp(elsewhere, pc[0].replace('/urnic.pc', '/urnic-exp.pc'),
                  source, work)
        others = os.path.join(prefix, 'bin', 'others')
        open(others, 'w').close()
        run([install, '--undo', build], DESTDIR=stage)
        left = [p for p in everything(stage) if not os.path.isdir(p)]
        if left != [others]:
            fail(f'uninstall leaves {left}, which is not {[others]}')
        os.unlink(others)
        run([install, build], DESTDIR=stage)
        run([install, '--undo', build], DESTDIR=stage)
        left = list(everything(stage))
        if left:
            fail(f'uninstall leaves {left}')
    if (open(record).read() if os.path.exists(record) else '') != old:
        fail('the record of directories has changed')


if __name__ == '__main__':
    main()
