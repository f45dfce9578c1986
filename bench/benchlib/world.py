# SPDX-License-Identifier: BSD-2-Clause
"""Where samples are taken, and whether they were taken undisturbed."""

import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from harness.net import Place
from harness.proc import Failure, Proc, Skip

from benchlib.samples import MIXED

# Nanoseconds one way between the two cores, below which they are so near.
PLACES = ((40, 'siblings'), (140, 'one cache'), (float('inf'), 'far'))
# Share of one core that others may take meanwhile.
OTHERS = 0.08
BUFFER = 64 << 20
START = 20  # seconds until a server listens, at most
LOSSY = 'lossy'  # and the percentage: the kind of a LossyPlace
KEEP_DAEMON = '60'  # seconds; longer than other programs take in between


class Missing(Exception):
    """A program is not there; the text says in which package it is."""


class LossyPlace(Place):
    """Two namespaces and a link of real packets that loses some of IP."""

    def __init__(self, kind):
        super().__init__('veth1500')
        self.percent = float(kind.removeprefix(LOSSY))

    def __enter__(self):
        super().__enter__()
        self.real_packets()
        if self.percent:
            self.lose(self.percent, every=True)
        return self


class World:
    """The build, the cores, and the places with their namespaces."""

    def __init__(self, build, cores, seconds, pin=True, takes=1, nice=0):
        self.build = os.path.abspath(build)
        self.urnic = os.path.join(self.build, 'urnic')
        self.cores, self.seconds = cores, seconds
        self.pin, self.takes, self.nice = pin, takes, nice
        self.commands = {}
        self._distributions = {}
        self._counts = {}
        self._places = {}
        self._buffers = []
        self._stack = contextlib.ExitStack()
        self._tick = os.sysconf('SC_CLK_TCK')

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        Proc.end_all()
        self._stack.close()

    def place(self, kind):
        if kind not in self._places:
            try:
                made = LossyPlace if kind.startswith(LOSSY) else Place
                self._places[kind] = self._stack.enter_context(made(kind))
            except (Skip, Failure) as e:
                self._places[kind] = Missing(str(e))
        place = self._places[kind]
        if isinstance(place, Missing):
            raise place
        return place

    def own(self, name, package=None):
        """Path of one of our programs; it may need another's library."""
        path = os.path.join(self.build, 'bench', name)
        if not os.access(path, os.X_OK):
            hint = f'apt-get install {package}; ' if package else ''
            raise Missing(f'{name} is not built: {hint}'
                          'meson setup --reconfigure, ninja')
        return path

    @staticmethod
    def need(program, package):
        if not shutil.which(program):
            raise Missing(f'no {program}: apt-get install {package}')
        return program

    def buffers(self):
        """Files in memory for the buffers of either side."""
        if not self._buffers:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(
                prefix='urnic-bench', dir='/dev/shm'))
            self._buffers = [os.path.join(folder, side)
                             for side in ('server', 'client')]
            for path in self._buffers:
                with open(path, 'wb') as f:
                    f.truncate(BUFFER)
        return self._buffers

    def environment(self, extra):
        env = dict(os.environ, URNIC_IDLE=KEEP_DAEMON,
                   BENCH_CORES=self.pair_of_cores() if self.pin else '')
        env.update(extra or {})
        return env

    def pair_of_cores(self):
        return ','.join(map(str, self.cores))

    def _wrap(self, host, core, argv):
        argv = [str(a) for a in argv]
        if self.pin:
            argv = ['taskset', '-c', str(core)] + argv
        return host.wrap(argv)

    def distribution(self, name, percentiles):
        """Add a round's [(percent, µs)] to what is known of a latency."""
        self._distributions.setdefault(name, []).append(percentiles)

    def distributions(self):
        """{name: [(percent, median of the rounds' µs)]}"""
        found = {}
        for name, rounds in self._distributions.items():
            of = {}
            for percent, us in (pair for one in rounds for pair in one):
                of.setdefault(percent, []).append(us)
            found[name] = [[percent, statistics.median(values)]
                           for percent, values in of.items()]
        return found

    def note(self, name, argv, env):
        """Remember the command line, as a reader would type it."""
        said = [f'{k}={v}' for k, v in sorted((env or {}).items())]
        text = ' '.join(said + [str(a) for a in argv])
        self.commands[name] = text.replace(self.build + '/', 'build/')

    def _start(self, argv, env):
        """A process; each has a session, and with it a scheduling group."""
        p = Proc(argv, env=self.environment(env))
        if self.nice:
            with contextlib.suppress(OSError), \
                    open(f'/proc/{p.pid}/autogroup', 'w') as f:
                f.write(str(self.nice))
        return p

    def call(self, host, argv, env=None):
        """Run something that is not measured."""
        p = self._start(host.wrap([str(a) for a in argv]), env)
        try:
            p.wait(20)
        finally:
            p.end()

    def alone(self, name, host, argv, env=None, timeout=30):
        """Output of a program that starts and pins its sides itself."""
        self.note(name, argv, env)
        p = self._start(host.wrap([str(a) for a in argv]), env)
        try:
            if p.wait(timeout):
                raise Failure(p.describe())
            return p.text()
        finally:
            p.end()

    def json(self, name, host, argv, env=None):
        text = self.alone(name, host, argv, env)
        try:
            return json.loads(text)
        except ValueError:
            raise Failure(f'{name}: no JSON in {text}') from None

    def pair(self, name, place, server, client, env=None, ends=True,
             timeout=30, ready=None):
        """Output of the client.  PORT stands for a port; ends: so does the
        server, after one client; ready: what the server prints when it
        listens, None: it listens on a port of TCP."""
        self.note(name, client, env)
        port = free_port()
        server = [port if a == 'PORT' else a for a in server]
        client = [port if a == 'PORT' else a for a in client]
        near, far = self.cores
        s = self._start(self._wrap(place.a, far, server), env)
        c = None
        try:
            if ready:
                s.wait_text(ready, START)
            else:
                s.wait_listen(port)
            c = self._start(self._wrap(place.b, near, client), env)
            if c.wait(timeout):
                raise Failure(f'client: {c.describe()}\n'
                              f'      server: {s.describe()}')
            if ends:
                s.wait(10)
            return c.text()
        finally:
            s.end()
            if c:
                c.end()

    def count(self, key, first):
        """How many messages to send; learned from the last time."""
        return self._counts.get(key, first)

    def learn(self, key, n, took, least, most):
        """n took so long; is that long enough to be a sample?"""
        want = n * self.seconds / max(took, 1e-6)
        self._counts[key] = int(min(max(want, least), most))
        return took > self.seconds / 4 or self._counts[key] <= 2 * n

    def near(self):
        """Where the host has put our two cores just now."""
        r = subprocess.run([self.own('mem_store'), '-t', '0.004'],
                           stdout=subprocess.PIPE, text=True, check=True,
                           env=dict(self.environment(None),
                                    BENCH_CORES=self.pair_of_cores()))
        ns = json.loads(r.stdout)['median_us'] * 1e3
        return next(name for limit, name in PLACES if ns < limit)

    def others_busy(self):
        """Seconds of CPU that all other processes have used so far."""
        mine = {os.getpid()}
        total = 0.0
        for pid, ppid, comm, ticks in sorted(processes()):
            if ppid in mine or pid in mine:
                mine.add(pid)
            elif comm != 'urnicd':
                total += ticks / self._tick
        return total

    def sample(self, take, before, takes):
        """(values, place, where the cores are now); taken again, but not more
        often than that, when the cores moved or others took a core."""
        for _ in range(takes):
            busy, start = self.others_busy(), time.monotonic()
            values = take(self)
            took = time.monotonic() - start
            share = (self.others_busy() - busy) / took
            after = self.near()
            if before == after and share < OTHERS:
                return values, after, after
            before = after
        return values, MIXED, after


def processes():
    """[(pid, parent, name, ticks of it and its ended children)]"""
    for pid in os.listdir('/proc'):
        if not pid.isdigit():
            continue
        try:
            with open(f'/proc/{pid}/stat') as f:
                head, tail = f.read().rsplit(')', 1)
        except OSError:
            continue
        w = tail.split()
        yield (int(pid), int(w[1]), head.split('(', 1)[1],
               sum(map(int, w[11:15])))


def free_port():
    with socket.socket() as s:
        s.bind(('', 0))
        return s.getsockname()[1]
