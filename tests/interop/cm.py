# SPDX-License-Identifier: BSD-2-Clause
"""urnic against the kernel through rdma_cm: rxe, siw, siw with MPA CRC.

The programs of rdmacm-utils and perftest -R, the same on either side.  A row:
name, the server's and the client's command line, what both have to print.
{s} and {c} are the server's and the client's address (their IPv6 ones if the
name ends in v6), {port} a free port.
"""

import re
import time

from harness.env import Case, Failure, finish, words
from harness.proc import SLOW
from verbs import Loss

# The one who connects is told so while nobody listens yet.
NOT_YET = r'REJECTED|UNREACHABLE|refused|unable to connect|error: 8|blka 8'
DONE = 'return status 0'
MODES = {'rxe': 'urnic0', 'siw': 'urniw0', 'siw-crc': 'urniw0'}

CASES = []


def perf(prog, args):
    line = f'ib_{prog} -R -F -p {{port}} {args}'
    return line, line + ' {s}', '#bytes'


RPING_S, RPING_C = 'rping -s -p {port} -a {s} ', 'rping -c -p {port} -a {s} '
UCMA = 'ucmatose -p {port} '
BOTH = {
    'rping': (RPING_S + '-C 20 -V', RPING_C + '-C 20 -V', ''),
    'rping-v6': (RPING_S + '-C 20 -V', RPING_C + '-C 20 -V', ''),
    'rping-65535': (RPING_S + '-C 10 -V -S 65535',
                    RPING_C + '-C 10 -V -S 65535', ''),
    'ucmatose': (UCMA + '-b {s}', UCMA + '-s {s}', DONE),
    'ucmatose-20': (UCMA + '-b {s} -c 20 -C 5 -S 1000',
                    UCMA + '-s {s} -c 20 -C 5 -S 1000', DONE),
    'ucmatose-v6': (UCMA + '-b {s}', UCMA + '-s {s}', DONE),
    'send_bw-R': perf('send_bw', '-s 4096 -n 200'),
    'write_bw-R': perf('write_bw', '-s 65536 -n 100'),
    'read_bw-R': perf('read_bw', '-s 65536 -n 100'),
    'send_lat-R': perf('send_lat', '-s 64 -n 100'),
}
ROCE = {
    'rping-own-qp': (RPING_S + '-C 20 -V -q', RPING_C + '-C 20 -V -q', ''),
    'udaddy': ('udaddy -b {s}', 'udaddy -s {s}', DONE),
    'udaddy-v6': ('udaddy -b {s}', 'udaddy -s {s}', DONE),
    'mckey': ('mckey -m 239.81.1.1 -b {s}', 'mckey -m 239.81.1.1 -b {c} -s',
              DONE),
    'atomic_bw-R': perf('atomic_bw', '-n 100'),
}
LONG = {
    'rping-long': (RPING_S + '-C 2000 -V', RPING_C + '-C 2000 -V', ''),
    'write_bw-all-R': perf('write_bw', '-a -n 5'),
    'send_bw-all-R': perf('send_bw', '-a -n 5'),
    'ucmatose-large': (UCMA + '-b {s} -C 5 -S 1000000',
                       UCMA + '-s {s} -C 5 -S 1000000', DONE),
}
LOSSY = ('rping', 'ucmatose-20', 'write_bw-R')


def set_mode(env, mode):
    """Have the guest offer this link, and no other to rdma_cm."""
    if getattr(env, 'mode', 'rxe') != mode:
        env.b.sh('rdma-mode', mode)
        env.mode = mode


def listens(env, host, proc):
    """Wait for the server's rdma_cm listener."""
    if 'mckey' in proc.argv[-1]:
        # The kernel's list has the group's address as a number.
        env.wait_guest('grep -qi 010151EF /proc/net/igmp', proc)
    elif host is env.b:
        env.wait_guest('rdma resource show cm_id | grep -q LISTEN', proc)
        return
    time.sleep(0.7 * SLOW)


def started(env, server, client, lines):
    """(server, client) when the client has found the server listening."""
    for _ in range(8):
        s = env.run(server, *lines[0])
        listens(env, server, s)
        c = env.run(client, *lines[1])
        end = time.monotonic() + 10 * SLOW
        while c.running() and s.running() and time.monotonic() < end:
            time.sleep(0.05)
        if c.running() or not re.search(NOT_YET, c.text()):
            return s, c
        s.end()
        c.end()
        env.b.sweep()
        time.sleep(0.3)
    raise Failure(f'never met: {s.describe()}\n      {c.describe()}')


def address(host, v6):
    return host.ip6 if v6 else host.ip4


def case(mode, name, row, lost=0):
    server_line, client_line, expect = row

    def run(env):
        set_mode(env, mode)
        server, client = env.sides()
        v6 = name.endswith('v6')
        names = dict(s=address(server, v6), c=address(client, v6),
                     port=env.port())
        lines = []
        for host, line in ((server, server_line), (client, client_line)):
            argv = words(line.format(**names))
            if host is env.a:
                argv = ['env', f'URNIC_RDMACM_DEVICE={MODES[mode]}'] + argv
            lines.append(argv)
        with Loss(env, lost):
            meet(env, server, client, lines, expect)
    return run


def meet(env, server, client, lines, expect):
    s, c = started(env, server, client, lines)
    try:
        finish(s, c, 60)
        # perftest's servers do not all tell a result.
        told = (c,) if expect == '#bytes' else (s, c)
        if not all(expect in p.text() for p in told):
            raise Failure(f'no "{expect}":\n      {s.describe()}\n'
                          f'      {c.describe()}')
    except Failure:
        env.b.sweep()
        raise
    finally:
        s.end()
        c.end()


def again_for_siw(run):
    """siw misses what comes while it still accepts: its QP's state is locked
    then, and nobody tells it of the data later.  One stall is its own."""
    def twice(env):
        try:
            run(env)
        except Failure as e:
            if not re.search('still running|error: -110', str(e)):
                raise
            print(f'      again: {e}')
            run(env)
    return twice


def refused(env):
    """Nobody listens: the client is told, and at once."""
    server, client = env.sides()
    set_mode(env, 'rxe')
    c = env.run(client, 'ucmatose', '-p', env.port(), '-s', server.ip4)
    try:
        c.wait(20)
        if 'REJECTED' not in c.text() and 'error: 8' not in c.text():
            raise Failure('not rejected: ' + c.describe())
    finally:
        c.end()


def add(mode):
    rows = dict(BOTH, **(ROCE if mode == 'rxe' else {}))
    if mode == 'siw-crc':
        rows = {k: rows[k] for k in ('rping', 'ucmatose', 'write_bw-R',
                                     'read_bw-R', 'send_bw-R')}
    patient = again_for_siw if mode.startswith('siw') else lambda run: run
    for name, row in dict(rows, **LONG).items():
        CASES.append(Case(f'{mode}-{name}', patient(case(mode, name, row)),
                          full=name in LONG))
    for name in LOSSY if mode != 'siw-crc' else ():
        CASES.append(Case(f'{mode}-loss-{name}', full=name != 'rping',
                          fn=patient(case(mode, name, rows[name], lost=1))))
    if mode == 'rxe':
        CASES.append(Case('rxe-refused', refused))


for each in MODES:
    add(each)
