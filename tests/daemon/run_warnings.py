#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`urnic run` says what keeps a program from its devices, and it is true.

    run_warnings.py URNIC

Each program prints how many devices it sees.
"""

import os
import shutil
import subprocess
import sys
import tempfile

COUNT = '''#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
	int n = -1;

	ibv_get_device_list(&n);
	printf("%d\\n", n);
	return 0;
}
'''
# By dlopen(), of the path that is compiled in.
OPEN = '''#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
	void *lib = dlopen(LIBRARY, RTLD_NOW);
	void *(*list)(int *) = lib ? dlsym(lib, "ibv_get_device_list") : 0;
	int n = -1;

	if (list)
		list(&n);
	printf("%d\\n", n);
	return 0;
}
'''
STATIC = '#include <stdio.h>\nint main(void) { puts("0"); return 0; }\n'
# As programs of Go do: the mark of one, and a system call without the C library.
VIEW = '''#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
const char mark[] __attribute__((used)) = MARK;
int main(void)
{
	const char *path = "/sys/class/infiniband/urnic0/node_type";

	printf("%d %d\\n", open(path, O_RDONLY) >= 0,
	       syscall(SYS_openat, AT_FDCWD, path, O_RDONLY) >= 0);
	return 0;
}
'''
PYTHON = '''#!{interpreter}
import ctypes
n = ctypes.c_int(-1)
ctypes.CDLL("{library}").ibv_get_device_list(ctypes.byref(n))
print(n.value)
'''

wrong = []


class Rig:
    def __init__(self, urnic, work):
        self.urnic, self.work = os.path.abspath(urnic), work

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, name, text, mode=0o755):
        with open(self.path(name), 'w', encoding='utf-8') as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def build(self, name, source, *args):
        self.write(name + '.c', source, 0o644)
        subprocess.run(['gcc', self.path(name + '.c'), '-o', self.path(name),
                        *args], check=True)
        return self.path(name)

    def run(self, args, before=()):
        env = {k: v for k, v in os.environ.items()
               if k not in ('LD_LIBRARY_PATH', 'LD_PRELOAD', 'URNIC_DEVICES')}
        env['PATH'] = self.work + ':' + env['PATH']
        return subprocess.run([*before, self.urnic, 'run', '--', *args],
                              env=env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd=self.work)

    def expect(self, what, args, said='', out=None, code=0, before=()):
        """One line on standard error that contains `said`, or none."""
        got = self.run(args, before)
        lines = [x for x in got.stderr.splitlines() if x.startswith('urnic:')]
        if len(lines) != (1 if said else 0) or said not in ''.join(lines) or \
                code not in (None, got.returncode) or \
                (out is not None and got.stdout.strip() != out):
            wrong.append(f'{what}: status {got.returncode}, '
                         f'{got.stdout.strip()!r}, {got.stderr.strip()!r}')


def library():
    """The distribution's."""
    for line in subprocess.check_output(['/sbin/ldconfig', '-p'],
                                        text=True).splitlines():
        if 'libibverbs.so.1 ' in line:
            return line.split()[-1]
    print('skipped: the distribution\'s libibverbs is not installed')
    sys.exit(77)


def patched(rig, name, old, new, origin):
    with open(origin, 'rb') as f:
        data = f.read()
    assert data.count(old) >= 1 and len(old) == len(new)
    with open(rig.path(name), 'wb') as f:
        f.write(data.replace(old, new, 1))
    os.chmod(rig.path(name), 0o755)
    return rig.path(name)


def linking(rig):
    lib = library()
    where = os.path.dirname(lib)
    none = None if os.path.isdir('/sys/class/infiniband') else '0'
    plain = rig.build('plain', COUNT, '-libverbs')
    rig.expect('a program as usual', [plain], out='2')
    rig.expect('static', [rig.build('static', STATIC, '-static')],
               'statically linked')
    rig.expect('static, naming the view', [rig.build(
        'static_view', VIEW, '-static', '-DMARK=""')],
        'sees no device and no /sys/class/infiniband', '0 0')
    rig.expect('view by the C library', [rig.build(
        'view', VIEW, '-DMARK=""')], out='1 0')
    rig.expect('view by system calls', [rig.build(
        'view_go', VIEW, '-DMARK="\\xff Go buildinf:"')],
        'by system calls of its own', '1 0')
    rig.expect('RPATH', [rig.build('rpath', COUNT, '-libverbs',
                                   f'-Wl,-rpath,{where}',
                                   '-Wl,--disable-new-dtags')],
               f'has an RPATH and takes {lib}', none)
    rig.expect('RPATH without the library', [rig.build(
        'rpath_tmp', COUNT, '-libverbs', '-Wl,-rpath,/nowhere:$ORIGIN',
        '-Wl,--disable-new-dtags')], out='2')
    # It comes behind LD_LIBRARY_PATH.
    rig.expect('RUNPATH', [rig.build('runpath', COUNT, '-libverbs',
                                     f'-Wl,-rpath,{where}',
                                     '-Wl,--enable-new-dtags')], out='2')
    os.symlink(lib, rig.path('libibverbs.so.1'))
    rig.expect('RPATH of $ORIGIN', [rig.path('rpath_tmp')],
               'has an RPATH and takes', none)
    os.unlink(rig.path('libibverbs.so.1'))
    rig.expect('dlopen by a path', [rig.build('dlopen', OPEN,
                                              f'-DLIBRARY="{lib}"')],
               f'names {lib} by its path', none)
    rig.expect('dlopen by a name', [rig.build(
        'dlopen_name', OPEN, '-DLIBRARY="libibverbs.so.1"')], out='2')
    rig.expect('32 bit', [patched(rig, 'bits', b'\x7fELF\x02', b'\x7fELF\x01',
                                  plain)],
               'is no 64-bit program', code=None)
    rig.expect('no loader', [patched(rig, 'loader', b'/lib64/ld-linux',
                                     b'/lib64/no-linux', plain)],
               'its loader /lib64/no-linux-x86-64.so.2 is not', code=127)


def scripts(rig):
    lib = library()
    me = sys.executable
    rig.expect('script', [rig.write('script', PYTHON.format(
        interpreter=me, library='libibverbs.so.1'))], out='2')
    rig.expect('script of env', [rig.write('script_env', PYTHON.format(
        interpreter='/usr/bin/env python3', library='libibverbs.so.1'))],
        out='2')
    rig.expect('script with a path', [rig.write('script_path', PYTHON.format(
        interpreter=me, library=lib))], f'names {lib} by its path')
    rig.expect('script of nothing', [rig.write(
        'script_none', '#!/nowhere/sh\n')], 'its interpreter /nowhere/sh',
        code=127)
    rig.expect('script of a static program', [rig.write(
        'script_static', f'#!{rig.path("static")}\n')], 'statically linked')
    rig.expect('text without an interpreter', [rig.write(
        'text', 'echo fine\n')], out='fine')


def wrappers(rig):
    rig.write('sudo', '#!/bin/sh\nexec "$@"\n')
    plain, static = rig.path('plain'), rig.path('static')
    rig.expect('sudo', ['sudo', plain], 'drops urnic\'s environment')
    rig.expect('sudo urnic', ['sudo', rig.urnic, 'run', '--', plain], out='2')
    rig.expect('env -i', ['env', '-i', plain], 'env drops urnic\'s',
               None if os.path.isdir('/sys/class/infiniband') else '0')
    rig.expect('env -', ['env', '-', 'A=b', plain], 'env drops urnic\'s')
    rig.expect('env', ['env', 'A=i', plain], out='2')
    rig.expect('timeout', ['timeout', '20', static], 'statically linked')
    rig.expect('nested', ['nice', 'env', 'A=b', 'timeout', '20', static],
               'statically linked')


def no_new_privileges():
    with open('/proc/self/status', encoding='ascii') as f:
        return 'NoNewPrivs:\t1' in f.read()


def privileges(rig):
    plain = rig.path('plain')
    if os.getuid() != 0:
        return print('set-uid and capabilities: not tried, not root')
    os.chmod(rig.work, 0o755)
    user = ['setpriv', '--reuid', '65534', '--regid', '65534',
            '--clear-groups']
    if subprocess.run([*user, rig.urnic, '--version'],
                      stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode:
        return print('set-uid and capabilities: not tried, the build '
                     'directory is not another user\'s to read')
    none = None if os.path.isdir('/sys/class/infiniband') else '0'
    # In some containers none are given by a file's mode.
    given = not no_new_privileges()
    mode = ((lambda bit: (f'is set-{bit}', none)) if given else
            (lambda bit: ('', '2')))
    suid, sgid, caps = (shutil.copy(plain, rig.path(n))
                        for n in ('suid', 'sgid', 'caps'))
    rig.expect('another user', [plain], out='2', before=user)
    os.chmod(suid, 0o4755)
    os.chmod(sgid, 0o2755)
    rig.expect('set-uid', [suid], *mode('uid'), before=user)
    rig.expect('set-gid', [sgid], *mode('gid'), before=user)
    # For root set-uid root changes nothing.
    rig.expect('set-uid by root', [suid], out='2')
    os.chmod(suid, 0o4711)
    rig.expect('not readable', [suid], *mode('uid'), before=user)
    # Version 2, effective, CAP_NET_RAW.
    os.setxattr(caps, 'security.capability',
                b'\x01\x00\x00\x02\x00\x20' + bytes(14))
    rig.expect('capabilities', [caps], 'has file capabilities', none,
               before=user)
    rig.expect('capabilities, root', [caps], out='2')
    rig.expect('no new privileges', [suid], out='2',
               before=[*user, '--no-new-privs'])
    rig.expect('capabilities, no new privileges', [caps],
               'has file capabilities', none,
               before=[*user, '--no-new-privs'])
    # To be permitted only: with no new privileges they are not.
    os.setxattr(caps, 'security.capability',
                b'\x00\x00\x00\x02\x00\x20' + bytes(14))
    rig.expect('capabilities to be permitted', [caps],
               *(('has file capabilities', none) if given else ('', '2')),
               before=user)
    rig.expect('the same, no new privileges', [caps], out='2',
               before=[*user, '--no-new-privs'])


def absent(rig):
    rig.expect('none', ['no-such-program'], 'no such program in PATH',
               code=127)
    rig.expect('none there', ['/nowhere/program'], 'No such file', code=127)
    rig.expect('a directory', ['/usr'], 'is a directory', code=126)
    rig.expect('not executable', [rig.write('notes', 'text', 0o644)],
               'may not be executed', code=126)
    rig.expect('no name', [''], 'is empty', code=127)


def main():
    with tempfile.TemporaryDirectory(prefix='urnic-run-') as work:
        rig = Rig(sys.argv[1], work)
        linking(rig)
        scripts(rig)
        wrappers(rig)
        privileges(rig)
        absent(rig)
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


if __name__ == '__main__':
    main()
