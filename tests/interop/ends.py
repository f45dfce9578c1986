# SPDX-License-Identifier: BSD-2-Clause
"""How what is refused and what dies looks to the other kind of peer.

Rows of our own cm_peer, which prints events and completion states, on both
sides; what has to be said depends on who serves, for where the kernel's
answers differ from the specification's, programs see them.
"""

import re
import time

from cm import MODES, command_lines, listens, set_link
from harness.env import Case, Failure
from peers import ROLES

CASES = []
LINE = 'cm_peer -p {port} -M '

# wc states: 9 remote invalid request, 10 remote access, 11 remote operation,
# 13 RNR retries exceeded.  By role: what the client is told.
ROCE = {
    'reject': (r'REJECTED status 28\nprivate data: not today',) * 2,
    'badkey': ('wc status 10',) * 2,
    'readkey': ('wc status 10',) * 2,
    'range': ('wc status 10',) * 2,
    # rxe takes a receive that is too short for a failure of its own.
    'toolong': ('wc status 9', 'wc status 11'),
    'rnr': ('wc status 13',) * 2,
}
# A rejection on iWARP says ECONNREFUSED or ECONNRESET.
IWARP = {
    'reject': (r'REJECTED status -1\d\d\nprivate data: not today',) * 2,
}


def peers(env, mode, what):
    """Start cm_peer on both sides; (server, client)."""
    set_link(env, MODES[mode].link)
    server, client = env.sides()
    lines = command_lines(env, mode, [LINE + what, LINE + what + ' {s}'])
    for host, argv in zip((server, client), lines):
        argv[argv.index('cm_peer')] = env.prog_on(host, 'cm_peer')
    s = env.run(server, *lines[0])
    try:
        listens(env, server, s)
        return s, env.run(client, *lines[1])
    except Failure:
        s.end()
        raise


def told(proc, pattern, timeout=30):
    proc.wait_text(pattern, timeout)


def refusal(mode, what, expect):
    def run(env):
        s, c = peers(env, mode, what)
        try:
            told(c, expect[ROLES.index(env.role)])
            for proc in (c, s):
                if proc.wait(30):
                    raise Failure('failed: ' + proc.describe())
        finally:
            s.end()
            c.end()
            env.b.sweep()
    return run


def killed(mode):
    """Who serves is killed: the other is told within the retry time."""
    def run(env):
        s, c = peers(env, mode, 'wait')
        try:
            told(c, 'ESTABLISHED')
            told(s, 'ESTABLISHED')
            if env.sides()[0] is env.a:
                s.signal(9)
            else:
                env.b.sweep()
            told(c, 'DISCONNECTED')
            if c.wait(10):
                raise Failure('failed: ' + c.describe())
        finally:
            s.end()
            c.end()
            env.b.sweep()
    return run


def nobody(mode, program, expect):
    """Nobody listens: the client is told, and at once."""
    def run(env):
        set_link(env, MODES[mode].link)
        env.call(env.a, 'ibv_devinfo')  # so that somebody is there
        _, client = env.sides()
        _, line = command_lines(env, mode, ['', program])
        c = env.run(client, *line)
        try:
            start = time.monotonic()
            c.wait(30)
            if not re.search(expect, c.text()):
                raise Failure(f'no "{expect}": {c.describe()}')
            if time.monotonic() - start > 20:
                raise Failure('not told, but timed out: ' + c.describe())
        finally:
            c.end()
            env.b.sweep()
    return run


for each in ('rxe', 'siw'):
    for name, row in (ROCE if each == 'rxe' else IWARP).items():
        CASES.append(Case(f'{each}-{name}', refusal(each, name, row)))
    CASES.append(Case(f'{each}-killed', killed(each)))
    CASES.append(Case(f'{each}-nobody', nobody(
        each, 'ucmatose -p {port} -s {s}', 'REJECTED|refused')))
CASES.append(Case('rxe-nobody-datagram', nobody(
    'rxe', 'udaddy -s {s}', 'UNREACHABLE')))
