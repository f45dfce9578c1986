# SPDX-License-Identifier: BSD-2-Clause
"""urnic explain: each cause is provoked, and has to be found."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time

from harness.env import Case, Failure
from harness.proc import SLOW

# What tests/progs/faults.c does.
CAUSES = (
    'rkey-zero', 'rkey-unknown', 'rkey-deregistered', 'rkey-reregistered',
    'rkey-wrong-pd', 'rkey-no-remote-write', 'rkey-no-remote-read',
    'rkey-no-remote-atomic', 'rkey-zero-based', 'rkey-before-start',
    'rkey-beyond-end', 'rkey-outside', 'rkey-unmapped', 'send-lkey-zero',
    'send-lkey-unknown', 'send-lkey-deregistered', 'send-lkey-wrong-pd',
    'send-lkey-beyond-end', 'send-lkey-outside', 'send-lkey-no-local-write',
    'recv-lkey-deregistered', 'recv-lkey-no-local-write',
    'recv-lkey-beyond-end', 'qp-no-remote-write', 'qp-no-remote-read',
    'qp-no-remote-atomic', 'recv-too-short', 'atomic-unaligned',
    'no-reads-agreed', 'rnr-exceeded', 'retry-peer-destroyed',
    'retry-peer-early', 'retry-peer-err', 'retry-psn', 'retry-no-qp',
    'retry-peer-other', 'moved-to-err', 'stall-rnr', 'cq-overrun', 'ud-qkey',
    'no-receive', 'ud-too-short', 'send-queue-full', 'recv-queue-full',
    'send-state', 'recv-state', 'post-invalid', 'modify-attributes')

# What tests/progs/faults_exp.c does, and what it has to be taken for.
EXP_CAUSES = {
    'access-key': 'dc-access-key', 'mtu': 'dc-mtu',
    'deregistered': 'rkey-deregistered', 'two-initiators': 'rkey-beyond-end',
    'no-right': 'qp-no-remote-write', 'too-short': 'recv-too-short',
    'receive-key': 'recv-lkey-deregistered', 'empty-srq': 'rnr-empty-srq',
    'destroyed': 'retry-peer-destroyed', 'no-target': 'retry-no-target',
    'unanswered': 'retry-session-unanswered', 'stopped': 'retry-peer-stuck',
    'exp-full': 'send-queue-full', 'exp-state': 'send-state',
    'exp-invalid': 'post-invalid', 'task-full': 'recv-queue-full',
    'task-state': 'send-state', 'builder-state': 'send-state'}


def explain(env, host, *args):
    """The verdicts of `urnic explain`."""
    text = host.sh(env.urnic, 'explain', '--json', *args)
    try:
        return json.loads(text)['verdicts']
    except ValueError:
        raise Failure('urnic explain --json is not JSON:\n' + text) from None


def qpn_of(text, name='qpn'):
    m = re.search(rf'^{name} (\d+)$', text, re.M)
    if not m:
        raise Failure(f'no QP number in: {text}')
    return hex(int(m[1]))


def expect(verdicts, cause):
    found = [v.get('cause') for v in verdicts]
    if cause not in found:
        raise Failure(f'{found} instead of {cause}: {verdicts}')
    return verdicts[found.index(cause)]


def alone(cause):
    def run(env):
        # The process has ended when it is looked at.
        text = env.call(env.a, env.prog('faults'), '-M', cause,
                        timeout=30 * SLOW)
        v = expect(explain(env, env.a, qpn_of(text)), cause)
        for key in ('what', 'why', 'change', 'where'):
            if not v.get(key):
                raise Failure(f'{cause} has no {key}: {v}')
    return run


def alone_exp(mode, cause):
    """The initiator and, if it has refused something, the target show it."""
    def run(env):
        text = env.call(env.a, 'env', 'URNIC_SHM=0', env.prog('faults_exp'),
                        '-M', mode, timeout=30 * SLOW)
        qpn = qpn_of(text)
        v = expect(explain(env, env.a, qpn), cause)
        if 'target' in text:
            target = qpn_of(text, 'target')
            other = expect(explain(env, env.a, target), cause)
            if (v.get('peer_qpn') != int(target, 16) or
                    other.get('peer_qpn') != int(qpn, 16)):
                raise Failure(f'other ends: {v} {other}')
    return run


def logged(env):
    """The first failing completion writes a line by itself."""
    text = env.call(env.a, 'env', 'URNIC_LOG=info', env.prog('faults'), '-M',
                    'send-lkey-beyond-end')
    lines = [x for x in text.splitlines() if 'local protection error' in x]
    if len(lines) != 1 or 'beyond the end of its region' not in lines[0]:
        raise Failure(f'not one line: {text}')


def start(env, mode, wire):
    port = env.port()
    base = ['env', 'URNIC_SHM=0'] if wire else ['env']
    base += [env.prog('faults_pair'), '-p', port, '-M', mode]
    return env.pair(base + ['-g', env.gid(env.a, 'v4')],
                    base + ['-g', env.gid(env.b, 'v4'), env.a.ip4],
                    port=port, wait=False)


def soon(env, qpn, cause):
    """The verdict, once the process has come as far."""
    end = time.monotonic() + 20 * SLOW
    while True:
        verdicts = explain(env, env.b, qpn)
        if cause in [v.get('cause') for v in verdicts] or \
                time.monotonic() > end:
            return expect(verdicts, cause)
        time.sleep(0.1)


def one_host(env):
    return env.a.ns == env.b.ns


def deregistered(wire):
    def run(env):
        s, c = start(env, 'deregistered', wire)
        try:
            if c.wait(30) or s.wait(30):
                raise Failure(f'{s.describe()} {c.describe()}')
            qpn = qpn_of(c.text())
            if not one_host(env):
                expect(explain(env, env.b, qpn), 'remote-access')
                return
            v = expect(explain(env, env.b, qpn), 'rkey-deregistered')
            if 'before' not in v.get('before', '') or not v.get('peer_pid'):
                raise Failure(f'time and thread are missing: {v}')
        finally:
            s.end()
            c.end()
    return run


def delegated(env):
    """Another process than the owner of the target has refused the request."""
    port = env.port()
    base = [env.prog('xrc_procs'), '-p', port, '-M', 'refused']
    s, c = env.pair(base + ['-g', env.gid(env.a, 'v4')],
                    base + ['-g', env.gid(env.b, 'v4'), env.a.ip4],
                    port=port, wait=False)
    try:
        if c.wait(30) or s.wait(30):
            raise Failure(f'{s.describe()} {c.describe()}')
        expect(explain(env, env.b, qpn_of(c.text())),
               'rkey-unknown' if one_host(env) else 'remote-access')
        v = explain(env, env.a, qpn_of(c.text(), 'target'))
        for cause in ('rkey-unknown', 'delegate-refused'):
            expect(v, cause)
    finally:
        s.end()
        c.end()


def stall(wire):
    """While both run, and after the client was killed."""
    def run(env):
        s, c = start(env, 'stall', wire)
        try:
            end = time.monotonic() + 20 * SLOW
            while 'qpn' not in c.text() and time.monotonic() < end:
                time.sleep(0.05)
            qpn = qpn_of(c.text())
            soon(env, qpn, 'stall-rnr')
            c.p.send_signal(signal.SIGKILL)
            c.wait(10)
            explain(env, env.b, qpn)
        finally:
            s.end()
            c.end()
    return run


def killed(wire):
    def run(env):
        s, c = start(env, 'killed', wire)
        try:
            if c.wait(60):
                raise Failure(c.describe())
            v = soon(env, qpn_of(c.text()),
                     'retry-peer-ended' if one_host(env) else 'retry-silent')
            if not v.get('found') and one_host(env):
                raise Failure(f'nothing is found: {v}')
        finally:
            s.end()
            c.end()
    return run


def saved(env):
    """A file that -w has written says the same; a damaged one is refused."""
    text = env.call(env.a, env.prog('faults'), '-M', 'rkey-beyond-end')
    qpn = qpn_of(text)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'records')
        env.a.sh(env.urnic, 'explain', '-w', path)
        v = [v for v in explain(env, env.a, path)
             if v.get('qpn') == int(qpn, 16)]
        expect(v, 'rkey-beyond-end')
        with open(path, 'r+b') as f:
            f.truncate(os.path.getsize(path) // 2)
        p = subprocess.run(env.a.wrap([env.urnic, 'explain', path]),
                           capture_output=True, text=True, check=False)
        if p.returncode != 1 or 'is no file of' not in p.stderr:
            raise Failure(f'damaged: {p}')


def unrecorded(env):
    """The tool says so of a queue pair beyond those that are recorded."""
    text = env.call(env.a, env.prog('faults'), '-M', 'unrecorded')
    p = subprocess.run(env.a.wrap([env.urnic, 'explain', qpn_of(text)]),
                       capture_output=True, text=True, check=False)
    if p.returncode != 1 or 'more than 2048' not in p.stderr:
        raise Failure(f'not said: {p}')


def refused(env):
    """No listener; and an argument that is no process or queue pair."""
    p = env.run(env.a, 'rping', '-c', '-a', env.a.ip4, '-p', env.port(), '-C',
                1)
    p.wait(30)
    pid = p.p.pid
    p.end()
    found = [v.get('cause') for v in explain(env, env.a)]
    if 'no-listener' not in found:
        raise Failure(f'{found}, pid {pid}')
    p = subprocess.run(env.a.wrap([env.urnic, 'explain', '0xfffffe']),
                       capture_output=True, text=True, check=False)
    if p.returncode != 1 or 'neither a process nor' not in p.stderr:
        raise Failure(f'an unknown QP number: {p}')


def wrong_crc(env):
    """iWARP: a byte of the stream has changed on its way, to either end, which
    tells the other by a TERMINATE."""
    port = env.port()
    base = ['env', 'URNIC_RDMACM_DEVICE=urniw0', 'rping', '-C', '200', '-p', port,
            '-a', env.a.ip4]
    s, c = env.pair(base + ['-s'], [env.urnic, 'run', '--fault', 'corrupt:100', '--',
                                    *base, '-c'], port=port, timeout=60, wait=False)
    try:
        c.wait(60)
        s.wait(20)
        found = [v.get('cause') for side in (env.a, env.b)
                 for v in explain(env, side)]
        if 'fpdu-crc' not in found:
            raise Failure(f'{found} {s.describe()} {c.describe()}')
    finally:
        s.end()
        c.end()


# One process has both queue pairs, and so no use for a link.
CASES = [
    *[Case(cause, alone(cause), far=False) for cause in CAUSES],
    *[Case('exp-' + mode, alone_exp(mode, cause), far=False)
      for mode, cause in EXP_CAUSES.items()],
    Case('log', logged, far=False),
    *[Case(f'pair-{name}{"-wire" if wire else ""}', case(wire))
      for wire in (False, True)
      for name, case in (('deregistered', deregistered), ('stall', stall),
                         ('killed', killed))],
    Case('xrc-delegate', delegated),
    Case('file', saved, far=False),
    Case('unrecorded', unrecorded, far=False),
    Case('refused', refused),
    Case('iwarp-crc', wrong_crc),
]
