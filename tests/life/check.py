# SPDX-License-Identifier: BSD-2-Clause
"""urnic run --check: the broken programs of docs/debugging.md, and programs
without a mistake."""

import os
import re
import tempfile
import time

from harness import clock, misuse
from harness.env import Case, Failure, finish
from harness.misuse import findings
from harness.proc import SLOW, Proc, Skip
from life.explain import explain, qpn_of

DOC = os.path.join(os.path.dirname(__file__), '../../docs/debugging.md')
ROW = re.compile(r'^\| `(\w+)` \|[^|]*\| (.*?) \| (.*?) \| (.*?) \|$')


def rows():
    """(program, what verbs say, cause of explain, rules) of the table in the
    section of --check."""
    with open(DOC, encoding='utf-8') as f:
        section = f.read().split('## Is verbs used correctly?')[1]
    lines = section.split('\n## ')[0].split('\n')
    found = [m.groups() for m in map(ROW.match, lines) if m]
    return [(prog, verbs, cause.strip('`'), rules) for prog, verbs, cause,
            rules in found]


def start(env, host, path, options, *argv):
    """Checked, with its findings in the file."""
    argv = [env.urnic, 'run', *options, '--check-file', path, '--json', '--',
            *(str(a) for a in argv)]
    return Proc(host.wrap(argv), clock.environ(env.progs, argv))


def program(env, name):
    path = os.path.join(env.progs, '..', 'broken', name)
    if not os.path.exists(path):
        raise Failure(f'{path} has not been built')
    return path


def run_broken(env, name, option, hangs, *through):
    """(output, exit status, findings); of one that hangs, until there are any."""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o777)
        path = os.path.join(d, 'found')
        p = start(env, env.a, path, [option], *through, 'env',
                  'HANG_SECONDS=60', program(env, name))
        try:
            while hangs and p.running() and not findings(path):
                time.sleep(0.02)
            code = None if hangs else p.wait(60)
            return p.text(), code, findings(path)
        finally:
            p.end()


def broken(name, verbs, cause, rules):
    """Each column of the table, and the call stack of the finding."""
    only_all = rules.endswith('(all)')
    want = [] if rules == '–' else re.findall('`([a-z-]+)`', rules)
    hangs = verbs.endswith('hangs')

    def run(env):
        text = env.call(env.a, program(env, name), timeout=30 * SLOW)
        if verbs != (re.search('^verbs: (.*)$', text, re.M) or ' –')[1]:
            raise Failure(f'verbs do not say {verbs}: {text}')
        verdicts = explain(env, env.a, qpn_of(last_qpn(text)))
        if [v.get('cause', '–') for v in verdicts] != [cause]:
            raise Failure(f'{verdicts} instead of {cause}')
        if only_all and run_broken(env, name, '--check', False)[1:] != (0, []):
            raise Failure('findings without =all')
        text, code, found = run_broken(
            env, name, '--check=all' if only_all else '--check', hangs)
        if {f['rule'] for f in found} != set(want):
            raise Failure(f'{found} instead of {want}')
        if want and not hangs and code != 99:
            raise Failure(f'exit status {code}: {text}')
        if want and not any(name in s or 'main' in s
                            for s in found[0]['at']):
            raise Failure(f'a call stack without the program: {found}')
    return run


def last_qpn(text):
    return 'qpn ' + re.findall(r'^qpn (\d+)$', text, re.M)[-1]


def pair(env, server, client):
    """Programs without other findings than those that are known."""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o777)
        path = os.path.join(d, 'found')
        port = env.port()
        known = ['--check', '--check-exit', '0', '--suppress', misuse.KNOWN]
        s = start(env, env.a, path, known, *server, port)
        c = None
        try:
            s.wait_listen(port)
            c = start(env, env.b, path, known, *client, port)
            finish(s, c, 60)
        finally:
            s.end()
            if c:
                c.end()
        found = findings(path)
        if len(misuse.summaries(path)) != 2:
            raise Failure('not two summaries')
    if found:
        raise Failure(f'findings: {found}')


def perftest(prog, *args):
    def run(env):
        base = [prog, '-n', '200', '-x']
        pair(env, base + [env.gid(env.a, 'v4'), *args, '-p'],
             base + [env.gid(env.b, 'v4'), *args, env.a.ip4, '-p'])
    return run


def pingpong(prog, *args):
    def run(env):
        base = [prog, '-n', '100', '-g']
        pair(env, base + [env.gid(env.a, 'v4'), *args, '-p'],
             base + [env.gid(env.b, 'v4'), *args, env.a.ip4, '-p'])
    return run


def ucx(env):
    if not os.path.exists('/usr/bin/ucx_perftest'):
        raise Skip('needs ucx_perftest')
    base = ['env', 'UCX_TLS=rc_verbs,ud_verbs,self', 'ucx_perftest', '-n', '100', '-t',
            'tag_bw', '-s', '20000']
    pair(env, base + ['-p'], base + [env.a.ip4, '-p'])


def output(env, *args):
    """Text and status of urnic run with these arguments."""
    argv = [env.urnic, 'run', *args]
    p = Proc(env.a.wrap(argv), clock.environ(env.progs, argv))
    try:
        return p.wait(30), p.text()
    finally:
        p.end()


def without_mistake(name):
    """Also with a stack without a limit."""
    def run(env):
        text, code, found = run_broken(env, name, '--check', False, 'sh', '-c',
                                       'ulimit -s unlimited; "$@"', 'sh')
        if code or found or 'verbs: done' not in text:
            raise Failure(f'status {code}, {found}: {text}')
    return run


def off(env):
    """Nothing of it is in a process that is not checked."""
    maps = ('--', 'cat', '/proc/self/maps')
    if 'urnic-check' in output(env, *maps)[1]:
        raise Failure('it is loaded without --check')
    if 'urnic-check' not in output(env, '--check', *maps)[1]:
        raise Failure('it is not loaded')


def options(env):
    """Text, exit status, destructors, suppressions, wrong arguments."""
    prog = program(env, 'dereg_early')
    code, text = output(env, '--check', '--', prog)
    for part in ('[mr-deregistered]', 'main (', 'ended at', 'rule  ',
                 'change  ', '1 findings', 'destructor'):
        if part not in text and not (part == 'main (' and '+0x' in text):
            raise Failure(f'{part} is missing: {text}')
    if code != 99 or output(env, '--check', '--check-exit=3', '--',
                            prog)[0] != 3:
        raise Failure(f'exit status {code}')
    with tempfile.NamedTemporaryFile('w', suffix='.supp') as f:
        os.chmod(f.name, 0o644)
        f.write('# ours\nmr-* * dereg_early\nrnr no_such_function\n')
        f.flush()
        code, text = output(env, '--check', '--suppress', f.name, '--', prog)
        if code or '0 findings, 1 suppressed' not in text:
            raise Failure(f'suppressed: {code} {text}')
    for wrong in (['--check=some'], ['--json'], ['--check', '--check-exit=x'],
                  ['--check', '--suppress', '/no/such/file']):
        code, text = output(env, *wrong, '--', prog)
        if code != 2 or 'urnic:' not in text:
            raise Failure(f'{wrong}: {code} {text}')


CASES = [Case('options', options), Case('off', off, far=False),
         Case('correct', without_mistake('correct'), far=False),
         Case('forks', without_mistake('forks'), far=False)]
CASES += [Case(f'broken-{r[0]}', broken(*r), far=False) for r in rows()]
CASES += [
    Case('send-lat', perftest('ib_send_lat')),
    Case('write-bw', perftest('ib_write_bw', '-b', '-q', '2', '-l', '4')),
    Case('write-lat', perftest('ib_write_lat')),
    Case('read-bw', perftest('ib_read_bw', '-s', '4096')),
    Case('send-bw', perftest('ib_send_bw')),
    Case('send-bw-events', perftest('ib_send_bw', '-e'), full=True),
    Case('send-bw-ud', perftest('ib_send_bw', '-c', 'UD', '-s', '1024'),
         full=True),
    Case('write-bw-uc', perftest('ib_write_bw', '-c', 'UC'), full=True),
    Case('read-lat', perftest('ib_read_lat'), full=True),
    Case('atomic-bw', perftest('ib_atomic_bw'), full=True),
    Case('atomic-lat', perftest('ib_atomic_lat'), full=True),
    Case('rc-pingpong', pingpong('ibv_rc_pingpong', '-e')),
    Case('ud-pingpong', pingpong('ibv_ud_pingpong')),
    Case('srq-pingpong', pingpong('ibv_srq_pingpong', '-e')),
    Case('ucx', ucx, far=False),
]
