# SPDX-License-Identifier: BSD-2-Clause
"""What an interop case gets: urnic on one side, the kernel on the other."""

import re
import threading

from harness.env import Env, finish, parse_gids
from harness.proc import Failure, Proc
from onport import Joint

# Both roles of every run.
ROLES = ('urnic-serves', 'kernel-serves')


class Peers(Env):
    """.a is urnic's host, .b the guest; a case runs once in each role."""

    def __init__(self, place, urnic, progs, full):
        super().__init__(place, urnic, progs, full)
        self.role = ROLES[0]
        self.joint = Joint(self.a, urnic, place.mtu)
        self.there = set()
        self.link = 'rxe'

    def set_link(self, link):
        """Have the guest offer this link, and no other to rdma_cm."""
        if self.link != link:
            self.b.sh('rdma-mode', link)
            self.link = link

    def sides(self):
        """(server, client) in this role."""
        return (self.a, self.b) if self.role == ROLES[0] else (self.b, self.a)

    def use(self, way):
        """How urnic is joined to the wire from now on."""
        if way != self.joint.way:
            self.joint.use(way)
            self._gids = {}

    def healthy(self):
        """What has to last through all cases does."""
        self.joint.healthy()
        self.b.healthy()

    def run(self, host, *argv, plain=False):
        if host is not self.a:
            return Proc(host.wrap(argv))
        argv = [str(a) for a in argv]
        if not plain:
            argv = self.joint.argv([self.urnic, 'run', '--'] + argv)
        return Proc(host.wrap(argv))

    def gids(self, host):
        if host is self.a:
            return super().gids(host)
        return parse_gids(host.sh('ibv_devinfo', '-v'))

    def prog_on(self, host, name, path=None):
        """Path of one of our own programs on that side; path: where it has
        been built, if that is not among the tests' programs."""
        path = path or self.prog(name)
        if host is self.a:
            return path
        target = f'/tmp/{name}'
        if name not in self.there:
            host.put(path, target)
            self.there.add(name)
        return target

    def duel(self, make, timeout=60, ready=None):
        """Run make(host, peer) on both sides: the argument list of the
        server (peer None) or of the client.  Both have to end well.

        ready(host) waits until the server can be reached.
        """
        server, client = self.sides()
        s = self.run(server, *make(server, None))
        c = None
        try:
            (ready or self.listening())(server, s)
            c = self.run(client, *make(client, server))
            finish(s, c, timeout)
            return s, c
        except Failure:
            self.b.sweep()
            raise
        finally:
            s.end()
            if c:
                c.end()

    def listening(self, port=None):
        """A waiter for a TCP listener; port None: the last one given out."""
        port = port or self._port

        def wait(host, proc):
            if host is self.a:
                proc.wait_listen(port)
                return
            self.wait_guest(f'ss -Htln "sport = :{port}" | grep -q .', proc)
        return wait

    def wait_guest(self, test, proc):
        """Wait until a shell test holds in the guest, some 20 s at most."""
        try:
            self.b.script(f'for i in $(seq 60); do {test} && exit 0; '
                          'sleep 0.2; done; exit 1')
        except Failure as e:
            said = str(e).rpartition(': exit ')[2].strip()
            raise Failure(f'not ready (exit {said}): '
                          + proc.describe()) from None

    def rxe(self):
        """rxe's own counters."""
        text = self.b.sh('rdma', 'statistic', 'show', 'link', 'rxe0/1')
        return {k: int(v) for k, v in
                re.findall(r'(\w+) (\d+)(?= |$)', text.strip())}


class Sampler(threading.Thread):
    """Reads urnic's counters while a case runs: they end with the process."""

    def __init__(self, env):
        super().__init__(daemon=True)
        self.env, self.last, self.over = env, {}, threading.Event()

    def run(self):
        while not self.over.wait(0.3):
            try:
                self.last = counters(self.env.show(self.env.a)) or self.last
            except Failure:
                pass

    def result(self):
        """The last values seen."""
        self.over.set()
        self.join()
        return self.last


def counters(show):
    """The counters of all lanes in an `urnic show --json`, added up."""
    total = {}
    for p in show.get('processes') or []:
        for lane in (p.get('report') or {}).get('lanes', []):
            for k, v in lane.get('counters', {}).items():
                total[k] = total.get(k, 0) + v
    return total
