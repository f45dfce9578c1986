# SPDX-License-Identifier: BSD-2-Clause
"""perftest of the distribution, unmodified.

A row: name, program, arguments of both sides, GID and what -m has to fit.
"""

import contextlib
import os
import re
import tempfile

from harness import rights
from harness.env import Case, Failure, words
from harness.proc import Skip

ROWS = []


def row(name, prog, args, gid=None, full=False):
    ROWS.append((name, prog, args, gid, full))


RC = ('send_bw', 'send_lat', 'write_bw', 'write_lat', 'read_bw', 'read_lat')
ATOMIC = ('atomic_bw', 'atomic_lat')
BW = ('send_bw', 'write_bw', 'read_bw', 'atomic_bw')

# Every size up to 8 MiB.
for prog in RC:
    row(f'{prog}-all', prog, '-a -n 5')
    row(f'{prog}-all-long', prog, '-a', full=True)
for prog in ATOMIC:
    row(prog, prog, '')
    row(f'{prog}-cas', prog, '-A CMP_AND_SWAP')
    row(f'{prog}-v6', prog, '', gid='v6')

for prog in ('send_bw', 'send_lat'):
    row(f'{prog}-uc-all', prog, '-c UC -a -n 5')
    row(f'{prog}-ud-all', prog, '-c UD -a -n 100')
    row(f'{prog}-ud-v6', prog, '-c UD -s 512', gid='v6')
    row(f'{prog}-events', prog, '-e -s 4096')
    row(f'{prog}-uc-events', prog, '-c UC -e -s 4096', full=True)
    row(f'{prog}-ud-events', prog, '-c UD -e -s 512')
    row(f'{prog}-srq', prog, '--use-srq -s 4096')
    row(f'{prog}-inline', prog, '-I 64 -s 64')
    row(f'{prog}-inline-1k', prog, '-I 900 -s 900')
for prog in ('write_bw', 'write_lat'):
    row(f'{prog}-uc-all', prog, '-c UC -a -n 5')
    row(f'{prog}-inline', prog, '-I 64 -s 64')

for prog in RC + ATOMIC:
    row(f'{prog}-xrc', prog, '-c XRC -n 500')
for prog in ('send_bw', 'write_bw'):
    row(f'{prog}-xrc-all', prog, '-c XRC -a -n 5', full=True)
    row(f'{prog}-xrc-mixture', prog, '-c XRC -b -q 4 -l 4 -s 4096 -n 400')
row('send_bw-xrc-events', 'send_bw', '-c XRC -e -s 4096')

for prog in BW:
    size = '' if prog.startswith('atomic') else '-s 4096'
    row(f'{prog}-bidirectional', prog, f'-b {size}')
    row(f'{prog}-64-qps', prog, f'-q 64 {size} -n 200')
    row(f'{prog}-post-list', prog, f'-l 16 {size} -n 1600')
    row(f'{prog}-gbits', prog, f'--report_gbits {size}')
    if prog != 'write_bw':  # which refuses -e
        row(f'{prog}-events', prog, f'-e {size}')
    row(f'{prog}-mixture', prog, f'-b -q 4 -l 4 {size} -n 400')
row('send_bw-srq-64-qps', 'send_bw', '--use-srq -q 64 -s 2048 -n 200')
row('send_bw-recv-post-list', 'send_bw', '--recv_post_list=16 -s 2048 -n 1600')
row('send_bw-reversed', 'send_bw', '--reversed -s 65536 -n 500')
row('write_bw-b-all', 'write_bw', '-b -a', full=True)
row('send_bw-b-64-qps-all', 'send_bw', '-b -q 64 -a -n 100', full=True)
row('write_bw-duration', 'write_bw', '-D 2 -s 65536')
row('write_bw-mr-per-qp', 'write_bw', '--mr_per_qp -q 8 -s 65536 -n 100')
row('write_bw-odp', 'write_bw', '--odp -s 65536 -n 100')
row('write_bw-old-post-send', 'write_bw', '--use_old_post_send -s 4096')
row('send_bw-old-post-send', 'send_bw', '--use_old_post_send -s 4096')
row('send_bw-deep', 'send_bw', '-t 8000 -r 16000 -s 64 -n 20000')

for prog in RC:
    for mtu in (256, 512, 1024, 2048, 4096):
        row(f'{prog}-mtu-{mtu}', prog, f'-m {mtu} -s 65536 -n 100',
            full=prog not in ('send_bw', 'write_bw', 'read_bw'))
    row(f'{prog}-v6', prog, '-s 65536 -n 100', gid='v6')

NUMBER = r'(?:-?\d+(?:\.\d+)?|-?nan|-?inf)'


def table(text):
    """Result rows of perftest as lists of numbers."""
    rows = []
    inside = False
    for line in text.splitlines():
        if line.strip().startswith('#bytes'):
            inside = True
        elif inside and line.startswith('---'):
            inside = False
        # Standard error's, which may come behind a row.
        line = line.split('Correlation coefficient')[0]
        if inside and re.fullmatch(rf'\s*{NUMBER}(\s+{NUMBER})+\s*', line):
            rows.append([float(x) for x in line.split()])
    return rows


def value(args, name, default):
    w = words(args)
    return w[w.index(name) + 1] if name in w else default


def check_table(text, prog, args):
    rows = table(text)
    if not rows:
        raise Failure('no result rows in:\n' + text)
    sizes = [int(r[0]) for r in rows]
    if '-a' in words(args):
        count = 23 if value(args, '-c', 'RC') != 'UD' else len(sizes)
        if sizes != [2 << i for i in range(count)]:
            raise Failure(f'sizes {sizes} in:\n{text}')
        if max(sizes) < 1024:
            raise Failure(f'sizes end at {max(sizes)} in:\n{text}')
    elif '-s' in words(args) and sizes != [int(value(args, '-s', 0))]:
        raise Failure(f'sizes {sizes} in:\n{text}')
    # It could not find out the speed of its time stamp counter, as on a busy
    # virtual machine, and prints no rates.
    clockless = 'Correlation coefficient' in text
    for r in rows:
        # Messages a second or typical latency; few large ones a second are
        # printed as none, so what they carried.
        rate = r[4] or r[3]
        if r[1] < 5 or (rate <= 0 and not clockless):
            raise Failure(f'row {r} in:\n{text}')
    if re.search('ERROR|Failed|Completion with error|Couldn\'t', text):
        raise Failure('complaint in:\n' + text)


# perftest opens its XRC domains by files of these names, and leaves them.
XRC_FILES = [f'/tmp/xrc_domain{end}' for end in ('_server', '_client')]
# In a mount namespace: an empty file of ours in the place of each.
OVER_FILES = ('for f in {files}; do mount --bind {ours} $f || exit; done; '
              'exec "$@"')


def drop_xrc_files():
    for path in XRC_FILES:
        try:
            os.unlink(path)
        except OSError:
            pass


@contextlib.contextmanager
def xrc_files():
    """What goes in front of a program so that its files are ours."""
    drop_xrc_files()
    others = ' '.join(filter(os.path.lexists, XRC_FILES))
    if not others:
        yield []
        drop_xrc_files()
        return
    with tempfile.NamedTemporaryFile() as f:
        front = ['unshare', '--mount', 'sh', '-c',
                 OVER_FILES.format(files=others, ours=f.name), 'sh']
        if not rights.quiet(*front, 'true'):
            raise Skip(f'{others}: left by another user, and this one may '
                       'not mount')
        yield front


def patient(run):
    """UC and UD may lose messages, and perftest waits for a lost one for
    ever: on a busy machine a second try is fair, a third is not."""
    def twice(env):
        try:
            run(env)
        except Failure as e:
            if 'still running' not in str(e):
                raise
            print(f'      again: {e}')
            run(env)
    return twice


def case(prog, args, gid):
    def run(env):
        env.needs_mtu(int(value(args, '-m', 1024)))
        port = env.port()
        base = [f'ib_{prog}', '-F', '-p', port] + words(args)
        server, client = list(base), list(base)
        if gid:
            server += ['-x', env.gid(env.a, gid)]
            client += ['-x', env.gid(env.b, gid)]
        with files() as front:
            s, c = env.pair(front + server, front + client + [env.a.ip4],
                            port=port, timeout=900 if env.full else 60)
        check_table(c.text(), prog, args)
    connection = value(args, '-c', 'RC')
    files = xrc_files if connection == 'XRC' else \
        lambda: contextlib.nullcontext([])
    return run if connection in ('RC', 'XRC') else patient(run)


def refused(connection):
    """A transport that the device lacks: both sides print that and end."""
    def run(env):
        port = env.port()
        base = ['ib_send_bw', '-F', '-p', port, '-c', connection]
        try:
            env.pair(base, base + [env.a.ip4], port=port, timeout=60)
        except Failure as e:
            text = str(e)
            if 'client exit 1, server exit 1' not in text or \
                    'create QP' not in text:
                raise
            return
        raise Failure(f'{connection} works')
    return run


# The short run over veth; the rest on lo.
FAR = re.compile(r'.*-all|.*-v6|.*-ud-.*|atomic_(bw|lat)|.*_bw-64-qps'
                 r'|(send|write)_bw-xrc|(send|write|read)_bw-mtu-.*')
CASES = [Case(name, case(prog, args, gid), full=full,
              far=FAR.fullmatch(name) is not None)
         for name, prog, args, gid, full in ROWS]
CASES += [Case(f'send_bw-{connection.lower()}-refused', refused(connection))
          for connection in ('DC', 'SRD')]
