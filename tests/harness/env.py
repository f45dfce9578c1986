# SPDX-License-Identifier: BSD-2-Clause
"""The environment of a case: starting programs on either side, and checks."""

import json
import os
import re
import shlex
import time

from harness import clock
from harness.proc import SLOW, Failure, Proc, Skip, sh


class Env:
    """The place, the product under test and the size of the run."""

    def __init__(self, place, urnic, progs, full, options=()):
        """options: of `urnic run`, for every program."""
        self.place, self.urnic, self.progs, self.full, self.options = (
            place, urnic, progs, full, options)
        self.a, self.b = place.a, place.b
        self._port = 20000
        self._gids = {}
        self._mtu = None

    def port(self):
        """A TCP port that no other case of this run uses."""
        self._port += 1
        while listens_here(self.a, self._port):
            self._port += 1
        return self._port

    def run(self, host, *argv, plain=False):
        """Start a program on urnic (plain: without) on a host."""
        argv = [str(a) for a in argv]
        if not plain:
            argv = [self.urnic, 'run', *self.options, '--'] + argv
        return Proc(host.wrap(argv), clock.environ(self.progs, argv))

    def call(self, host, *argv, timeout=20):
        """Run a program on urnic to its end; its output."""
        p = self.run(host, *argv)
        try:
            code = p.wait(timeout)
            if code:
                raise Failure(f'exit {code}: {p.describe()}')
            return p.text()
        finally:
            p.end()

    def prog(self, name):
        """Path of one of our own test programs."""
        path = os.path.join(self.progs, name)
        if not os.path.exists(path):
            raise Failure(f'{path} has not been built')
        return path

    def demo(self, name):
        """Path of one of the example programs."""
        path = os.path.join(os.path.dirname(self.urnic), 'demos', name)
        if not os.path.exists(path):
            raise Skip(f'{path} has not been built')
        return path

    def gids(self, host):
        """[(index, address)] of the first device, by ibv_devinfo."""
        key = host.ns
        if key not in self._gids:
            text = self.call(host, 'ibv_devinfo', '-v')
            self._gids[key] = parse_gids(text)
        return self._gids[key]

    def gid(self, host, kind):
        """Index of a GID: v4, v6 (global or loopback) or ll (link-local)."""
        for index, addr in self.gids(host):
            if gid_kind(addr) == kind:
                return index
        if kind == 'v6':
            host.ip6  # skips the case where there is no such address
        raise Failure(f'no {kind} GID: {self.gids(host)}')

    def mtu(self):
        """Of the first device's port."""
        if not self._mtu:
            text = self.call(self.a, 'ibv_devinfo')
            self._mtu = int(re.search(r'active_mtu:\s+(\d+)', text)[1])
        return self._mtu

    def needs_mtu(self, mtu):
        """Skip where the ports have less; devices/active-mtu checks the MTU of
        our own namespaces."""
        if mtu > self.mtu():
            raise Skip(f'needs MTU {mtu}, the port has {self.mtu()}')

    def show(self, host):
        """`urnic show --json` as an object."""
        text = host.sh(self.urnic, 'show', '--json')
        try:
            return json.loads(text)
        except ValueError:
            raise Failure('urnic show --json is not JSON:\n' + text) from None

    def pair(self, server, client, timeout=60, wait=True, port=None):
        """Start both sides; (server, client) when both ended well.

        server and client are argument lists.  The client starts when the
        server listens on `port`.
        """
        s = self.run(self.a, *server)
        c = None
        try:
            s.wait_listen(port)
            c = self.run(self.b, *client)
            if wait:
                finish(s, c, timeout)
            return s, c
        except Failure as e:
            if 'still running' in str(e):
                raise Failure(f'{e}\n{self.state()}') from None
            raise
        finally:
            if wait or not c:
                s.end()
                if c:
                    c.end()

    def state(self):
        """What urnic show says of every process, without the zeros."""
        lines = []
        for host in self.place.hosts:
            try:
                lines += [f'      {line}' for line in brief(self.show(host))]
            except Failure as e:
                lines.append(f'      urnic show: {e}')
        return '\n'.join(lines)


def brief(show):
    """Lines of `urnic show --json` that help to explain a hang."""
    for p in show.get('processes') or []:
        for lane in (p.get('report') or {}).get('lanes', []):
            counters = {k: v for k, v in lane.get('counters', {}).items() if v}
            yield (f'pid {p.get("pid")} {p.get("comm")} rx_overflow '
                   f'{lane.get("rx_overflow")} {counters}')
            for qp in lane.get('qps', [])[:3]:
                yield f'  {qp}'


def built(urnic, name):
    """Path of the file of that name in the build directory of `urnic`."""
    info = os.path.join(os.path.dirname(urnic),
                        'meson-info/intro-targets.json')
    with open(info, encoding='utf-8') as f:
        for target in json.load(f):
            for path in target['filename']:
                if os.path.basename(path) == name:
                    return path
    raise Skip(f'this build has no {name}')


def finish(s, c, timeout):
    """Wait for a pair; Failure shows both sides.

    When one side failed the other may wait for ever: it gets some seconds to
    print what it saw.
    """
    end = time.monotonic() + timeout * SLOW
    codes = [None, None]
    while None in codes and time.monotonic() < end:
        codes = [c.p.poll(), s.p.poll()]
        if any(codes):
            end = min(end, time.monotonic() + 3)
            break
        time.sleep(0.005)
    while None in codes and time.monotonic() < end:
        codes = [c.p.poll(), s.p.poll()]
        time.sleep(0.02)
    if codes != [0, 0]:
        told = [f'exit {code}' if code is not None else
                f'still running ({p.where()})'
                for code, p in zip(codes, (c, s))]
        raise Failure(f'client {told[0]}, server {told[1]}\n'
                      f'      server: {s.describe()}\n'
                      f'      client: {c.describe()}')


def listens_here(host, port):
    text = host.sh('ss', '-Htln', f'sport = :{port}', check=False)
    return bool(text.strip())


def parse_gids(text):
    """GIDs of ibv_devinfo -v as [(index, address)], holes left out."""
    found = []
    for m in re.finditer(r'GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)', text):
        if not re.fullmatch(r'[0:]+', m[2].rstrip(',')):
            found.append((int(m[1]), m[2]))
    return found


def gid_kind(addr):
    a = addr.lower()
    if a.startswith('::ffff:') or '0000:0000:0000:0000:0000:ffff' in a:
        return 'v4'
    return 'll' if a.startswith('fe80') else 'v6'


class Case:
    """One row: a name and what to do.

    full: only in the long run; far: in the short run also over veth;
    where: only in places whose name begins so.
    """

    def __init__(self, name, fn, full=False, where=None, far=True):
        self.name, self.fn, self.full = name, fn, full
        self.where, self.far = where, far


def words(text):
    return shlex.split(text)


__all__ = ['Case', 'Env', 'Failure', 'Proc', 'built', 'finish', 'gid_kind',
           'parse_gids', 'sh', 'words']
