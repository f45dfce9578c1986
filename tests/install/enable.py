#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""urnic enable and disable, with an /etc of their own in a mount namespace.

    enable.py BUILD
"""

import ctypes
import glob
import os
import shutil
import subprocess
import sys
import tempfile

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
CONF = '/etc/ld.so.conf.d/000-urnic.conf'
HERE = '/mnt'           # root's alone, as an installation is
UNINSTALL = os.path.join(os.path.dirname(os.path.realpath(__file__)), '..',
                         '..', 'scripts', 'install')
LOADED = '''
import ctypes
ctypes.CDLL("libibverbs.so.1")
print([line.split()[5] for line in open("/proc/self/maps")
       if "/libibverbs.so" in line][0])'''

libc = ctypes.CDLL(None, use_errno=True)


def fail(what):
    sys.exit(f'enable: {what}')


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


def mount(source, target, kind=None, flags=0, data=None):
    def enc(text):
        return text.encode() if text else None
    if libc.mount(enc(source), target.encode(), enc(kind),
                  ctypes.c_ulong(flags), enc(data)):
        skip(f'cannot mount on {target}: {os.strerror(ctypes.get_errno())}')


def make_system(work):
    """An /etc that may change, and a directory for an installation."""
    if os.geteuid() != 0:
        skip('needs root')
    with open('/proc/self/uid_map', encoding='ascii') as f:
        if f.read().split() != ['0', '0', '4294967295']:
            skip('in a user namespace files of root may be another user\'s')
    if libc.unshare(CLONE_NEWNS):
        skip('cannot make a mount namespace')
    mount('none', '/', flags=MS_REC | MS_PRIVATE)
    etc = os.path.join(work, 'etc')
    os.mkdir(etc)
    for path in glob.glob('/etc/ld.so.*'):
        copy = shutil.copytree if os.path.isdir(path) else shutil.copy
        copy(path, os.path.join(etc, os.path.basename(path)))
    # ldconfig deletes links in /usr/lib that lead nowhere, as those into
    # /etc/alternatives would.
    shutil.copytree('/etc/alternatives', os.path.join(etc, 'alternatives'),
                    symlinks=True)
    mount('/usr', '/usr', flags=MS_BIND)
    mount('none', '/usr', flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
    mount(etc, '/etc', flags=MS_BIND)
    mount('tmpfs', '/var/cache/ldconfig', 'tmpfs')
    mount('tmpfs', HERE, 'tmpfs', data='mode=755')
    if os.stat('/').st_uid or os.stat('/').st_mode & 0o22:
        skip('users other than root can change /')


def run(status, *argv, **how):
    env = {k: v for k, v in os.environ.items() if not k.startswith('LD_')}
    got = subprocess.run(argv, env=env, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, **how)
    if got.returncode != status:
        fail(f'{argv}: status {got.returncode}, not {status}\n{got.stdout}')
    return got.stdout


def refused(what, *argv, **how):
    before = conf_files()
    said = run(1, *argv, **how)
    if what not in said:
        fail(f'{argv} says {said}')
    if conf_files() != before:
        fail(f'{argv} was refused and leaves {conf_files()}')


def conf_files():
    """The files of urnic below /etc with their contents."""
    found = {}
    for path in glob.glob(CONF + '*'):
        with open(path, encoding='utf-8') as f:
            found[path] = f.read()
    return found


def loads(prefix):
    path = run(0, sys.executable, '-c', LOADED)
    if path.startswith(HERE) != prefix:
        fail(f'a program loads {path}')


def install():
    """The path of the urnic command."""
    run(0, 'meson', 'install', '-C', sys.argv[1], '--no-rebuild', '--quiet',
        '--destdir', HERE)
    return [os.path.join(where, 'urnic') for where, _, files in os.walk(HERE)
            if 'urnic' in files and where.endswith('/bin')][0]


def without_ldconfig(call, *args):
    mount('/bin/false', '/sbin/ldconfig', flags=MS_BIND)
    call(*args)
    libc.umount2(b'/sbin/ldconfig', 0)


def check_access(urnic):
    """Files that other users could change, or could not read."""
    prefix = os.path.dirname(os.path.dirname(urnic))
    libs = os.path.dirname(glob.glob(
        prefix + '/**/urnic/liburnic.so', recursive=True)[0])
    urnicd = glob.glob(prefix + '/*bin/urnicd')[0]
    for path, mode, what in [
            (prefix, 0o777, 'can change'),
            (libs + '/liburnic.so', 0o666, 'can change'),
            (libs + '/librdmacm.so.1', 0o775, 'can change'),
            (urnicd, 0o777, 'can change'),
            (prefix, 0o750, 'have no access'),
            (libs, 0o700, 'have no access')]:
        before = os.stat(path).st_mode & 0o7777
        os.chmod(path, mode)
        refused(f'users other than root {what}', urnic, 'enable')
        os.chmod(path, before)
    os.chown(libs + '/liburnic.so', 61001, 0)
    refused('users other than root can change', urnic, 'enable')
    os.chown(libs + '/liburnic.so', 0, 0)


def check_foreign(urnic):
    """A libibverbs.so.1 of others in the lib directory of the prefix."""
    lib = os.path.join(os.path.dirname(os.path.dirname(urnic)), 'lib')
    foreign = os.path.join(lib, 'libibverbs.so.1')
    os.makedirs(lib, exist_ok=True)
    shutil.copy('/bin/true', foreign)
    said = run(0, urnic, 'run', '--no-preload', '--env')
    os.unlink(foreign)
    libs = said.partition('LD_LIBRARY_PATH=')[2].partition('\n')[0]
    if not os.path.exists(libs + '/liburnic.so'):
        fail(f'urnic run takes the libraries of {libs}')


def check_include(urnic):
    """Without the directory in ld.so.conf it would do nothing."""
    with open('/etc/ld.so.conf', encoding='utf-8') as f:
        before = f.read()
    with open('/etc/ld.so.conf', 'w', encoding='utf-8') as f:
        f.write('# include /etc/ld.so.conf.d/*.conf\n/lib\n')
    refused('does not include', urnic, 'enable')
    with open('/etc/ld.so.conf', 'w', encoding='utf-8') as f:
        f.write(before)


def main():
    with tempfile.TemporaryDirectory(prefix='urnic-enable-') as work:
        make_system(work)
        urnic = install()
        loads(False)
        refused('needs root', urnic, 'enable', user=61001)
        check_foreign(urnic)
        check_access(urnic)
        check_include(urnic)
        run(2, urnic, 'enable', 'it')
        without_ldconfig(refused, 'ldconfig failed', urnic, 'enable')
        for _ in range(2):
            run(0, urnic, 'enable')
            loads(True)
        without_ldconfig(refused, 'ldconfig failed', urnic, 'enable')
        loads(True)
        refused('needs root', urnic, 'disable', user=61001)
        without_ldconfig(run, 1, urnic, 'disable')
        if 'not enabled' not in run(0, urnic, 'disable'):
            fail('disable does not say that it was not enabled')
        loads(False)
        run(0, urnic, 'enable')
        loads(True)
        run(0, urnic, 'disable')
        loads(False)
        if conf_files():
            fail(f'disable leaves {conf_files()}')
        run(0, urnic, 'enable')
        loads(True)
        run(0, 'env', f'DESTDIR={HERE}', UNINSTALL, '--undo', sys.argv[1])
        loads(False)
        if conf_files():
            fail(f'uninstalling leaves {conf_files()}')
        libc.umount2(b'/etc', 2)


if __name__ == '__main__':
    main()
