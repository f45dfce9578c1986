# SPDX-License-Identifier: BSD-2-Clause
"""Refused connections and killed processes, as the other kind of peer sees
them.

Rows of our own cm_peer, which prints events and completion states, on both
sides.  The expected output depends on which side serves, since programs see
where the kernel's answers differ from the specification's.
"""

import re
import time

from cm import MODES, command_lines, listens
from harness.env import Case, Failure
from peers import ROLES

CASES = []
LINE = 'cm_peer -p {port} -M '

# wc states: 5 flushed, 9 remote invalid request, 10 remote access, 11 remote
# operation, 12 transport retries exceeded, 13 RNR retries exceeded.
# Mode and bytes of private data: what the client is told, by role.
ROCE = {
    'reject': ('-s 16', (r'REJECTED status 28\nprivate data: 16 ',) * 2),
    'reject-most': ('-s 148', (r'status 28\nprivate data: 148 ',) * 2),
    'private-none': ('-s 0', ('private data: 0 ',) * 2),
    'private-most': ('-s 56', ('private data: 56 ',) * 2),
    'badkey': ('', ('wc status 10',) * 2),
    'readkey': ('', ('wc status 10',) * 2),
    'range': ('', ('wc status 10',) * 2),
    # rxe takes a receive that is too short for a failure of its own.
    'toolong': ('', ('wc status 9', 'wc status 11')),
    'rnr': ('', ('wc status 13',) * 2),
}
# A rejection on iWARP says ECONNREFUSED or ECONNRESET.  siw (6.1) cannot send
# more than 251 bytes of private data, and oopses if it gets more than 252.
IWARP = {
    'reject': ('-s 16', (r'REJECTED status -1\d\d\nprivate data: 16 of 16\n',)
               * 2),
    'reject-none': ('-s 0', (r'status -1\d\d\nprivate data: 0 of 0\n',)
                    * 2),
    'reject-most': ('-s 251', (r'status -1\d\d\nprivate data: 251 of 251\n',)
                    * 2),
    'private-none': ('-s 0', ('private data: 0 of 0\n',) * 2),
    'private-one': ('-s 1', ('private data: 1 of 1\n',) * 2),
    'private-most': ('-s 251', ('private data: 251 of 251\n',) * 2),
}


def peers(env, mode, what):
    """Start cm_peer on both sides; (server, client)."""
    env.set_link(MODES[mode].link)
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


def case(mode, what, fn):
    """fn(env, server, client) with both sides of cm_peer running."""
    def run(env):
        s, c = peers(env, mode, what)
        try:
            fn(env, s, c)
        finally:
            s.end()
            c.end()
            env.b.sweep()
    return run


def refusal(mode, what, expect):
    def see(env, s, c):
        told(c, expect[ROLES.index(env.role)])
        if 'private' in what:
            told(s, expect[ROLES.index(env.role)])
        ended_well(c, s)
    run = case(mode, what, see)
    return lost_reply(run) if mode == 'siw' and 'reject' in what else run


def lost_reply(run):
    """siw's client may overlook a reply behind which the peer closes, which
    siw's own server does too.  Then it says the same, without the data."""
    def several(env):
        for again in (True, True, False):
            try:
                return run(env)
            except Failure as e:
                if not again or 'private data: wrong 0' not in str(e) \
                        or env.sides()[1] is env.a:
                    raise
                print(f'      again: {e}')
    return several


def ended_well(*procs):
    for proc in procs:
        if proc.wait(30):
            raise Failure('failed: ' + proc.describe())


def send_signal(env, server, proc, number):
    """To cm_peer itself, on whatever side it is."""
    if env.sides()[0 if server else 1] is env.b:
        env.b.sh('killall', f'-{number}', 'cm_peer')
    else:
        proc.signal(number)


def killed(mode, what, server_dies, reached, telling):
    """When both have printed `reached`, one is killed, and the other prints
    all of `telling` (on urnic, on the kernel) within the retry time."""
    def see(env, s, c):
        victim, other = (s, c) if server_dies else (c, s)
        for proc, pattern in zip((s, c), reached):
            told(proc, pattern)
        send_signal(env, server_dies, victim, 9)
        victim.wait(20)  # siw gives up an unanswered request after ten
        if what == 'hold' and not server_dies:
            send_signal(env, not server_dies, other, 10)
        ours = env.sides()[1 if server_dies else 0] is env.a
        for pattern in telling[0 if ours else 1]:
            told(other, pattern, 60)
        ended_well(other)
    return case(mode, what, see)


BOTH_THERE = ('ESTABLISHED',) * 2
ASKED = ('CONNECT_REQUEST', 'ROUTE_RESOLVED')
END = (['DISCONNECTED'],) * 2
# siw keeps some requests for ever.
FLUSHED = (['wc status (5|12)\n0 left', 'DISCONNECTED'],
           ['wc status', 'DISCONNECTED'])
REFUSED = (['REJECTED|CONNECT_ERROR'],) * 2
TOO_LATE = (['cannot accept|REJECTED|CONNECT_ERROR|DISCONNECTED'],) * 2
# The traffic, whether the server dies, the output before that, the events of
# the other side.
KILLED = {
    'killed': ('wait', True, BOTH_THERE, END),
    'killed-client': ('wait', False, BOTH_THERE, END),
    'killed-busy': ('busy', True, BOTH_THERE, FLUSHED),
    'killed-busy-client': ('busy', False, BOTH_THERE, END),
    'killed-asked': ('hold', True, ASKED, REFUSED),
    'killed-asking': ('hold', False, ASKED, TOO_LATE),
}


def nobody(mode, program, expect):
    """No server listens: the client gets an error, and at once."""
    def run(env):
        env.set_link(MODES[mode].link)
        env.call(env.a, 'ibv_devinfo')  # so that urnicd runs
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
    for name, (args, row) in (ROCE if each == 'rxe' else IWARP).items():
        CASES.append(Case(f'{each}-{name}', refusal(
            each, f'{name.split("-")[0]} {args}', row)))
    for name, row in KILLED.items():
        CASES.append(Case(f'{each}-{name}', killed(each, *row)))
    CASES.append(Case(f'{each}-nobody', nobody(
        each, 'ucmatose -p {port} -s {s}', 'REJECTED|refused')))
CASES.append(Case('rxe-nobody-datagram', nobody(
    'rxe', 'udaddy -s {s}', 'UNREACHABLE')))
