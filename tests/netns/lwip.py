# SPDX-License-Identifier: BSD-2-Clause
"""iWARP over ports that urnic runs itself: lwIP on DPDK's packet sockets.

`lwip` is a device on such a port, `tcp` one of the kernel's sockets.
"""

import os
import re
import signal
import time

from harness.env import Case
from harness.proc import Failure, Proc, Skip
from netns.config import File, device
from netns.dpdk import DEV, Joined, address, ticks


class Streams(Joined):
    def __enter__(self):
        libs = os.path.join(os.path.dirname(os.path.realpath(self.env.urnic)),
                            '../src/link/lwip/liburnic-lwip.so')
        if not os.path.exists(libs):
            raise Skip('built without lwIP')
        return super().__enter__()

    @staticmethod
    def side(host, kind, i):
        f = Joined.side(host, 'sockets' if kind == 'tcp' else 'dpdk', i)
        # With a queue, so that tc sees what it sends.
        f.text = f.text.replace('"roce"', '"iwarp"').replace(
            f'iface={DEV}', f'iface={DEV},qdisc_bypass=0')
        return f

    def retry(self, client, s):
        """Until the server listens."""
        for _ in range(50):
            c = self.proc(1, *client)
            try:
                if c.wait(40) == 0:
                    return
                if not s.running():
                    raise Failure(f'{s.describe()} {c.describe()}')
                text = c.describe()
            finally:
                c.end()
            time.sleep(0.1)
        raise Failure(text)

    def both(self, server, client, strict=True):
        s = self.proc(0, *server)
        try:
            self.retry(client, s)
            if s.wait(20) and strict:
                raise Failure(s.describe())
        finally:
            s.end()


def links(env, host):
    return [lane.get('link') for p in env.show(host)['processes']
            for lane in p.get('report', {}).get('lanes', ())]


def rping(*kinds, v6=False, size=64, count=20):
    def run(env):
        with Streams(env, *kinds) as j:
            args = ['-C', count, '-S', size]
            addr = address(1, v6)
            j.both(['rping', '-s', '-a', '::' if v6 else '0.0.0.0', *args],
                   ['rping', '-c', '-V', '-a', addr, *args])
    return run


def perftest(tool, *kinds, size=65536, count=300):
    def run(env):
        with Streams(env, *kinds) as j:
            tcp = env.port()
            argv = [tool, '-R', '-d', 'dp0', '-p', tcp, '-s', size, '-n',
                    count, '-F']
            j.both(argv, [*argv, address(1)])
    return run


def tcp_loss(percent):
    """Classic BPF for tc: drop `percent` of the IPv4 packets of TCP."""
    ldh, ldb, ldw = 0x28, 0x30, 0x20
    jeq, jge, ret = 0x15, 0x35, 0x06
    prog = [
        (ldh, 0, 0, 12),
        (jeq, 0, 5, 0x0800),
        (ldb, 0, 0, 23),
        (jeq, 0, 3, 6),
        (ldw, 0, 0, 0xfffff000 + 56),  # random
        (jge, 0, 1, int(2 ** 32 * (1 - percent / 100))),
        (ret, 0, 0, 2),                # drop
        (ret, 0, 0, 0xffffffff),
    ]
    return f'{len(prog)},' + ','.join(
        f'{c} {t} {f} {k}' for c, t, f, k in prog)


def lossy(*kinds):
    """Segments are lost where they leave: what leaves by a packet socket
    passes there as well.

    The server's exit code says nothing: rping reads a channel that it has
    freed, if the process does not end at once.
    """
    def run(env):
        with Streams(env, *kinds) as j:
            for host in j.hosts:
                host.sh('tc', 'qdisc', 'add', 'dev', DEV, 'clsact')
                host.sh('tc', 'filter', 'add', 'dev', DEV, 'egress', 'bpf',
                        'da', 'bytecode', tcp_loss(2))
            j.both(['rping', '-s', '-a', '0.0.0.0', '-C', 30, '-S', 20000],
                   ['rping', '-c', '-V', '-a', address(1), '-C', 30, '-S',
                    20000], strict=False)
            text = ''.join(h.sh('tc', '-s', 'filter', 'show', 'dev', DEV,
                                'egress') +
                           h.sh('tc', '-s', 'qdisc', 'show', 'dev', DEV)
                           for h in j.hosts)
            if not re.search(r'dropped [1-9]', text):
                raise Failure(f'nothing was lost: {text}')
    return run


def killed(*kinds):
    """The peer of a process that is killed learns of it."""
    def run(env):
        with Streams(env, *kinds) as j:
            s = j.proc(0, 'rping', '-s', '-a', '0.0.0.0')
            c = j.proc(1, 'rping', '-c', '-a', address(1))
            try:
                wait_open(env, c)
                os.kill(c.p.pid, signal.SIGKILL)
                # A kernel says so at once, and others by not answering.
                if s.wait(60) is None:
                    raise Failure(s.describe())
            finally:
                s.end()
                c.end()
            j.both(['rping', '-s', '-a', '0.0.0.0', '-C', 5],
                   ['rping', '-c', '-V', '-a', address(1), '-C', 5])
    return run


def wait_open(env, c):
    """Until a connection is open, and is what it is said to be."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if c.running() and 'lwip' in links(env, env.a):
            return
        time.sleep(0.1)
    raise Failure(f'lanes are {links(env, env.a)}: {c.describe()}')


def server(env, j):
    """One that listens, and runs the port."""
    s = j.proc(0, 'rping', '-s', '-P', '-a', '0.0.0.0')
    s.wait_listen(7174)
    return s


def host_traffic(env):
    """What is of none of the process' connections is the host's."""
    with Streams(env, 'lwip', 'tcp') as j:
        tcp = env.port()
        s = server(env, j)
        h = Proc(env.a.wrap(['python3', '-c', 'import socket; '
                             f's = socket.create_server(("", {tcp})); '
                             's.accept()[0].sendall(b"yes")']))
        try:
            h.wait_listen(tcp)
            for addr in (address(1), address(1, True)):
                env.b.sh('ping', '-c', '3', '-i', '0.1', '-W', '5', addr)
            text = env.b.sh('python3', '-c', 'import socket; '
                            's = socket.create_connection(("'
                            f'{address(1)}", {tcp}), 5); '
                            'print(s.recv(9))')
            if 'yes' not in text:
                raise Failure(text)
            # Nobody listens there: the kernel says so.
            if j.proc(1, 'rping', '-c', '-a', address(1), '-p', tcp,
                      '-C', 1).wait(20) == 0:
                raise Failure('something listens')
            j.retry(['rping', '-c', '-V', '-a', address(1), '-C', 3], s)
        finally:
            h.end()
            s.end()


def second(env):
    """Who comes second has the kernel's TCP, and is served there."""
    with Streams(env, 'lwip', 'tcp') as j:
        s = server(env, j)
        try:
            tcp = env.port()
            j.both(['rping', '-s', '-a', '0.0.0.0', '-p', tcp, '-C', 5],
                   ['rping', '-c', '-V', '-a', address(1), '-p', tcp, '-C', 5])
        finally:
            s.end()


def many(env):
    """One listener, one client after the other, also over the host's own
    addresses, where the kernel carries."""
    with Streams(env, 'lwip', 'lwip') as j:
        s = server(env, j)
        try:
            for _ in range(5):
                j.retry(['rping', '-c', '-V', '-a', address(1), '-C', 3], s)
            p = j.proc(0, 'rping', '-c', '-V', '-a', address(1), '-C', 3)
            try:
                if p.wait(20):
                    raise Failure(p.describe())
            finally:
                p.end()
        finally:
            s.end()


def idle(env):
    """A port without traffic costs next to nothing, connections or not."""
    with Streams(env, 'lwip', 'tcp') as j:
        s = j.proc(0, 'rping', '-s', '-a', '0.0.0.0')
        try:
            s.wait_listen(7174)
            time.sleep(1)
            before = ticks(env.a)
            time.sleep(2)
            used = ticks(env.a) - before
            # A busy thread would have used 200 of 10 ms.
            if used > 100:
                raise Failure(f'{used * 10} ms of 2000 used')
        finally:
            s.end()


CASES = [
    Case('rping', rping('lwip', 'lwip')),
    Case('rping-ipv6', rping('lwip', 'lwip', v6=True)),
    Case('rping-large', rping('lwip', 'lwip', size=60000)),
    Case('rping-to-tcp', rping('tcp', 'lwip', size=5000)),
    Case('rping-from-tcp', rping('lwip', 'tcp', size=5000)),
    Case('send', perftest('ib_send_bw', 'lwip', 'lwip')),
    Case('write', perftest('ib_write_bw', 'lwip', 'lwip')),
    Case('write-to-tcp', perftest('ib_write_bw', 'tcp', 'lwip')),
    Case('write-from-tcp', perftest('ib_write_bw', 'lwip', 'tcp')),
    Case('send-to-tcp', perftest('ib_send_bw', 'tcp', 'lwip')),
    Case('send-from-tcp', perftest('ib_send_bw', 'lwip', 'tcp')),
    Case('loss', lossy('lwip', 'lwip')),
    Case('loss-to-tcp', lossy('tcp', 'lwip')),
    Case('loss-from-tcp', lossy('lwip', 'tcp')),
    Case('killed-tcp', killed('lwip', 'tcp')),
    Case('killed', killed('lwip', 'lwip'), full=True),
    Case('host', host_traffic),
    Case('second', second),
    Case('many', many),
    Case('idle', idle),
    # Ports that urnicd runs have their TCP from the kernel.
    Case('shared-rping', rping('urnicd', 'urnicd')),
]
