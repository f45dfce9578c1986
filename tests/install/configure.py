#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What is installed after configuration is noticed, PREFIX is honoured.

    configure.py SOURCE

A compiler and a pkg-config of the test's hide valgrind's header and libfabric
as long as a file `hide` exists.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

COMPILER = '''#!/bin/sh
# The check for a header comes as a file, or through standard input.
if [ -e "{here}/hide" ]; then
	for arg; do
		case $arg in
		*.c) grep -q valgrind/valgrind.h "$arg" 2>/dev/null && exit 1 ;;
		-)
			text=$(cat)
			case $text in *valgrind*) exit 1 ;; esac
			echo "$text" | exec {real} "$@"
			exit
			;;
		esac
	done
fi
exec {real} "$@"
'''

PKG_CONFIG = '''#!/bin/sh
case " $* " in
*" libfabric "*)
	[ ! -e "{here}/hide" ] || exit 1
	export PKG_CONFIG_PATH="{here}/pc"
	;;
esac
exec {real} "$@"
'''


def script(path, text, real):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text.format(here=os.path.dirname(path), real=real))
    os.chmod(path, 0o755)


def prepare(here):
    script(os.path.join(here, 'gcc'), COMPILER, shutil.which('gcc'))
    script(os.path.join(here, 'pkg-config'), PKG_CONFIG,
           shutil.which('pkg-config'))
    os.mkdir(os.path.join(here, 'pc'))
    with open(os.path.join(here, 'pc', 'libfabric.pc'), 'w') as f:
        f.write('Name: libfabric\nDescription: a stand-in\nVersion: 9\n')
    os.environ['PATH'] = here + ':' + os.environ['PATH']
    os.environ['CC'] = 'gcc'
    for name in ('DESTDIR', 'PREFIX', 'PKG_CONFIG', 'PKG_CONFIG_PATH'):
        os.environ.pop(name, None)


def configure(source, build, **env):
    got = subprocess.run([os.path.join(source, 'scripts', 'configure'), build],
                         env={**os.environ, **env}, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    if got.returncode:
        sys.exit(f'configure: status {got.returncode}\n{got.stdout}')
    return got.stdout


def has(build):
    """What the build directory does with what was hidden."""
    with open(os.path.join(build, 'build.ninja'), encoding='utf-8') as f:
        text = f.read()
    return '-DUR_VALGRIND=1' in text, 'bench/fi_pair.p/' in text


def installed(build):
    with open(os.path.join(build, 'meson-info', 'intro-installed.json'),
              encoding='utf-8') as f:
        return list(json.load(f).values())


def expect(what, ok):
    if not ok:
        sys.exit(f'configure: {what}')


def check_features(source, build, hide):
    open(hide, 'w').close()
    configure(source, build)
    expect('hidden packages were found', has(build) == (False, False))
    expect('configures twice', configure(source, build) == '')
    os.unlink(hide)
    said = configure(source, build)
    expect(f'does not say what has come: {said}',
           'valgrind/valgrind.h' in said and 'libfabric 9' in said)
    # The first of them only if valgrind's header is on this machine.
    expect('does not build with what has come',
           has(build) == (os.path.exists('/usr/include/valgrind/valgrind.h'),
                          True))
    expect('configures twice', configure(source, build) == '')


def check_prefix(source, build):
    multiarch = subprocess.check_output(['gcc', '-print-multiarch'],
                                        text=True).strip()
    library = '/lib/' + multiarch + '/urnic/liburnic.so'
    if multiarch and os.path.exists('/usr/bin/dpkg'):
        expect('the library is not where Debian has libraries',
               '/usr/local' + library in installed(build))
    said = configure(source, build, PREFIX='/opt/x y')
    expect(f'does not say that PREFIX has changed: {said}', '/opt/x y' in said)
    expect('PREFIX is not honoured',
           all(path.startswith('/opt/x y/') for path in installed(build)))
    expect('forgets PREFIX',
           configure(source, build) == '' and
           installed(build)[0].startswith('/opt/x y/'))


def check_refusals(source, here):
    """Processors that the code is not for, by files that say so of gcc."""
    for family, endian in (('arm', 'little'), ('aarch64', 'big'),
                           ('ppc64', 'big')):
        cross = os.path.join(here, f'{family}.ini')
        with open(cross, 'w', encoding='utf-8') as f:
            f.write(f"""[binaries]
c = 'gcc'
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{family}'
endian = '{endian}'
""")
        got = subprocess.run(['meson', 'setup', '--cross-file', cross, source,
                              os.path.join(here, family)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True)
        said = f'this is {family} {endian}-endian with 64 bits'
        expect(f'does not refuse {family}: {got.stdout}',
               got.returncode and said in got.stdout)


def main():
    source = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix='urnic-configure-') as here:
        prepare(here)
        build = os.path.join(here, 'build')
        check_features(source, build, os.path.join(here, 'hide'))
        check_prefix(source, build)
        check_refusals(source, here)


if __name__ == '__main__':
    main()
