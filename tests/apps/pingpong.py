# SPDX-License-Identifier: BSD-2-Clause
"""ibv_{rc,uc,ud,srq,xsrq}_pingpong of the distribution, unmodified.

A row: name, program, GID (none: LID addressing), arguments of both sides.
-c lets the server compare the data it received.
"""

import re

from harness.env import Case, Failure, words

ROWS = []
FULL_ROWS = []


def row(name, prog, gid, args):
    ROWS.append((name, prog, gid, args))


def full(name, prog, gid, args):
    FULL_ROWS.append((name, prog, gid, args))


for kind in ('rc', 'uc', 'ud', 'srq'):
    row(f'{kind}-lid', kind, None, '-c')
    row(f'{kind}-lid-events', kind, None, '-c -e')
    row(f'{kind}-v4', kind, 'v4', '-c')
    row(f'{kind}-v4-events', kind, 'v4', '-c -e')
    row(f'{kind}-v6', kind, 'v6', '-c')
    row(f'{kind}-v6-events', kind, 'v6', '-c -e -n 300')
    full(f'{kind}-v4-100000', kind, 'v4', '-c -n 100000')
    full(f'{kind}-v4-events-100000', kind, 'v4', '-c -e -n 100000')
    full(f'{kind}-lid-100000', kind, None, '-n 100000')

for kind in ('rc', 'uc', 'srq'):
    for size, n in ((1, 1000), (17, 1000), (65536, 200), (1 << 20, 50),
                    (4 << 20, 20)):
        row(f'{kind}-size-{size}', kind, 'v4', f'-c -s {size} -n {n}')
        full(f'{kind}-size-{size}-events', kind, 'v6',
             f'-c -e -s {size} -n {n}')
for kind in ('rc', 'uc'):
    for mtu in (256, 512, 1024, 2048, 4096):
        row(f'{kind}-mtu-{mtu}', kind, 'v4', f'-c -m {mtu} -s 50000 -n 200')

for size in (1, 17, 256, 1024):
    row(f'ud-size-{size}', 'ud', 'v4', f'-c -s {size}')
row('ud-mtu-lid', 'ud', None, '-c -s 1024')

row('rc-odp', 'rc', 'v4', '-c -o')
row('rc-odp-events', 'rc', 'v4', '-c -o -e -s 100000 -n 100')
row('srq-odp', 'srq', 'v4', '-c -o')
row('rc-new-send', 'rc', 'v4', '-c -N')
row('rc-new-send-events', 'rc', None, '-c -N -e')
row('rc-timestamps', 'rc', 'v4', '-c -t')
# -t not with -e: there the program takes an event whose completion it has
# polled already for an error, and any adapter may give it one.
row('rc-timestamps-new-send', 'rc', 'v6', '-c -t -N')
row('rc-deep', 'rc', 'v4', '-c -r 16000')
row('srq-64-qps', 'srq', 'v4', '-c -q 64')
full('rc-new-send-100000', 'rc', 'v4', '-c -N -n 100000')
full('rc-timestamps-100000', 'rc', 'v4', '-c -t -n 100000')
full('rc-odp-100000', 'rc', 'v4', '-c -o -n 100000')


def option(args, name, default):
    w = words(args)
    return int(w[w.index(name) + 1]) if name in w else default


def check(text, prog, args):
    """Both sides report the bytes that -n and -s amount to."""
    m = re.search(r'^(\d+) bytes in [\d.]+ seconds', text, re.M)
    if not m:
        raise Failure('no result line in:\n' + text)
    size = option(args, '-s', 1024 if prog == 'ud' else 4096)
    want = size * option(args, '-n', 1000) * 2
    if int(m[1]) != want:
        raise Failure(f'{m[1]} bytes instead of {want}')
    if re.search('invalid data|[Ff]ailed|[Cc]ouldn\'t', text):
        raise Failure('complaint in:\n' + text)


def case(prog, gid, args):
    def run(env):
        env.needs_mtu(option(args, '-m', 1024))
        port = env.port()
        base = [f'ibv_{prog}_pingpong', '-p', port] + words(args)
        server, client = list(base), list(base)
        if gid:
            server += ['-g', env.gid(env.a, gid)]
            client += ['-g', env.gid(env.b, gid)]
        s, c = env.pair(server, client + [env.a.ip4], port=port,
                        timeout=600 if env.full else 30)
        check(s.text(), prog, args)
        check(c.text(), prog, args)
    return run


def xsrq_case(gid, args):
    """It prints nothing but success."""
    def run(env):
        port = env.port()
        base = ['ibv_xsrq_pingpong', '-p', port] + words(args)
        server, client = list(base), list(base)
        if gid:
            server += ['-g', env.gid(env.a, gid)]
            client += ['-g', env.gid(env.b, gid)]
        for side in env.pair(server, client + [env.a.ip4], port=port,
                             timeout=30):
            if 'success' not in side.text():
                raise Failure('no success in:\n' + side.text())
    return run


# The short run over veth: addressing and large messages, the rest on lo.
FAR = re.compile(r'(rc|uc|ud|srq)-(lid|v4|v6|v4-events)|rc-size-.*|rc-mtu-.*')
CASES = [Case(name, case(prog, gid, args), far=FAR.fullmatch(name) is not None)
         for name, prog, gid, args in ROWS]
CASES += [Case(name, case(prog, gid, args), full=True)
          for name, prog, gid, args in FULL_ROWS]
CASES += [Case(f'xsrq-{name}', xsrq_case(gid, args), far=name == 'v4')
          for name, gid, args in (('v4', 'v4', ''), ('v6', 'v6', ''),
                                  ('lid', None, ''),
                                  ('size-65536', 'v4', '-s 65536 -n 100'))]
