# SPDX-License-Identifier: BSD-2-Clause
"""Processes of a test: started, watched, and never left behind.

Every process dies with us (PR_SET_PDEATHSIG) and is the leader of a session,
so that a timeout ends its children too.  Output goes to files: a pipe that is
not read would block a program with much output.
"""

import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# Sanitized builds are slower; the wrapper of the tests preloads their runtime.
SLOW = 5 if 'asan' in os.environ.get('LD_PRELOAD', '') else 1


# Lines that say nothing about a failure.
BORING = r'(local|remote) address:|^ (GID|RAddr)'


class Failure(Exception):
    """The program under test did not do what it has to do."""


class Skip(Exception):
    """The case cannot be run on this machine; the text says why."""


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Proc:
    """One running program."""

    alive = []

    def __init__(self, argv, env=None):
        self.argv = [str(a) for a in argv]
        self.out = tempfile.TemporaryFile()
        self.started = time.monotonic()
        self.p = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=self.out,
            stderr=subprocess.STDOUT, env=env, start_new_session=True,
            preexec_fn=_die_with_parent)
        self.pid = self.p.pid
        Proc.alive.append(self)

    def text(self):
        """Everything it has written so far."""
        size = os.fstat(self.out.fileno()).st_size
        return os.pread(self.out.fileno(), size, 0).decode(errors='replace')

    def running(self):
        return self.p.poll() is None

    def wait(self, timeout):
        """Exit code (negative: the signal), Failure after timeout seconds."""
        try:
            return self.p.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            where = self.where()
            self.end()
            raise Failure(f'still running after {timeout} s ({where}): '
                          f'{self.describe()}') from None

    def wait_text(self, pattern, timeout):
        """Wait until its output matches pattern; the match."""
        end = time.monotonic() + timeout * SLOW
        while True:
            gone = not self.running()
            m = re.search(pattern, self.text())
            if m:
                return m
            if gone or time.monotonic() > end:
                raise Failure(f'no "{pattern}" from {self.describe()}')
            time.sleep(0.01)

    def wait_listen(self, port, timeout=20):
        """Wait until a process of its namespace listens on a TCP port."""
        end = time.monotonic() + timeout * SLOW
        while not listens(self.pid, port):
            if not self.running():
                raise Failure('ended early: ' + self.describe())
            if time.monotonic() > end:
                raise Failure(f'port {port} not open: {self.describe()}')
            time.sleep(0.01)

    def where(self):
        """Where the kernel sees each of its threads: a hint for hangs."""
        hints = []
        pid = self.leaf()
        try:
            for tid in os.listdir(f'/proc/{pid}/task'):
                with open(f'/proc/{pid}/task/{tid}/wchan') as f:
                    hints.append(f.read().strip() or 'running')
        except OSError:
            pass
        return ', '.join(hints)

    def leaf(self):
        """The pid of the program itself, below wrappers that did not exec."""
        pid = self.pid
        while True:
            try:
                with open(f'/proc/{pid}/task/{pid}/children') as f:
                    kids = f.read().split()
            except OSError:
                return pid
            if len(kids) != 1:
                return pid
            pid = int(kids[0])

    def signal(self, sig):
        os.kill(self.leaf(), sig)

    def cpu_ticks(self):
        """utime + stime of all threads, in clock ticks."""
        return cpu_ticks(self.leaf())

    def keep(self):
        """It lives longer than a case."""
        Proc.alive.remove(self)

    def end(self):
        """Kill what is left of it, with its children."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.p.wait()
        if self in Proc.alive:
            Proc.alive.remove(self)

    def describe(self, lines=12):
        said = [ln for ln in self.text().strip().splitlines()
                if ln.strip('- ') and not re.search(BORING, ln)]
        tail = said[:2] + ['…'] + said[2 - lines:] if len(said) > lines \
            else said
        return ' '.join(self.argv) + '\n      | ' + '\n      | '.join(tail)

    @classmethod
    def end_all(cls):
        for p in list(cls.alive):
            p.end()


def cpu_ticks(pid):
    with open(f'/proc/{pid}/stat') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])


def listens(pid, port):
    """Does a process in the namespace of pid listen on that TCP port?"""
    want = f':{port:04X}'
    for name in ('tcp', 'tcp6'):
        try:
            with open(f'/proc/{pid}/net/{name}') as f:
                for line in f:
                    w = line.split()
                    if w[1].endswith(want) and w[3] == '0A':
                        return True
        except OSError:
            pass
    return False


def sh(*argv, check=True, timeout=30):
    """Run a tool to its end; its output."""
    r = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=timeout, text=True, errors='replace')
    if check and r.returncode:
        raise Failure(' '.join(r.args) + f': exit {r.returncode}\n{r.stdout}')
    return r.stdout
