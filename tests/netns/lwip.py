# SPDX-License-Identifier: BSD-2-Clause
"""iWARP over ports that urnic runs itself: lwIP on DPDK's packet sockets.

`lwip` is a device on such a port, `tcp` one of the kernel's sockets.
"""

import os
import re
import signal
import time

from harness.env import Case, built
from harness.proc import SLOW, Failure, Proc
from netns.dpdk import check_idle
from netns.ports import Joined, Veth, address

DEV = Veth.dev
RPING = 7174  # where it listens
OURS = ('lwip', 'urnicd')


class Streams(Joined):
    def __enter__(self):
        built(self.env.urnic, 'liburnic-lwip.so')
        return super().__enter__()

    def side(self, host, kind, i):
        f = super().side(host, 'dpdk' if kind == 'lwip' else
                         'sockets' if kind == 'tcp' else kind, i)
        # With a queue, so that tc sees what it sends.
        f.text = f.text.replace('"roce"', '"iwarp"').replace(
            f'iface={DEV}', f'iface={DEV},qdisc_bypass=0')
        return f

    def call(self, client):
        c = self.proc(1, *client)
        try:
            if c.wait(40):
                raise Failure(c.describe())
        finally:
            c.end()

    def both(self, server, client, port=RPING, strict=True):
        s = self.proc(0, *server)
        try:
            s.wait_listen(port)
            self.call(client)
            if s.wait(20) and strict:
                raise Failure(s.describe())
        finally:
            s.end()

    def carried(self, server, client, port=RPING):
        """Which TCP carries a connection that lasts until it is ended here."""
        s = self.proc(0, *server)
        c = None
        try:
            s.wait_listen(port)
            c = self.proc(1, *client)
            wait_open(self, c)
        finally:
            s.end()
            if c:
                c.end()


def links(env, host):
    return [lane.get('link') for p in env.show(host)['processes']
            for lane in p.get('report', {}).get('lanes', ())]


def wait_open(j, c):
    """Until a connection is open, and its ends are of the kinds they should
    be: a lane says `lwip` while it has such a connection."""
    wanted = ['lwip' if kind in OURS else 'tcp' for kind in j.kinds]
    lanes = None
    end = time.monotonic() + 20 * SLOW
    while c.running() and time.monotonic() < end:
        lanes = [links(j.env, host) for host in j.hosts]
        if all(kind in lane for kind, lane in zip(wanted, lanes)):
            break
        time.sleep(0.1)
    else:
        raise Failure(f'lanes are not {wanted}: {lanes}: {c.describe()}')
    if any('lwip' in lane for kind, lane in zip(wanted, lanes)
           if kind not in OURS):
        raise Failure(f'lanes are {lanes}, not {wanted}')


def rping(*kinds, v6=False, size=64, count=20):
    def run(env):
        with Streams(env, *kinds) as j:
            server = ['rping', '-s', '-a', '::' if v6 else '0.0.0.0', '-S',
                      size]
            client = ['rping', '-c', '-V', '-a', address(1, v6), '-S', size]
            j.carried(server, client)
            j.both([*server, '-C', count], [*client, '-C', count])
    return run


def until_accepted(env, check, argv):
    """With -R perftest connects twice, and the server listens again for the
    second: the client may come before it does, which is perftest's own race."""
    for left in reversed(range(8)):
        tcp = env.port()
        both = [*argv, '-p', tcp]
        try:
            return check(both, [*both, address(1)], tcp)
        except Failure as e:
            if not left or 'connection refused' not in str(e):
                raise
            print('      again: refused between two listeners')


def perftest(tool, *kinds, size=65536, count=300):
    def run(env):
        with Streams(env, *kinds) as j:
            for check, args in ((j.carried, ['--run_infinitely']),
                                (j.both, ['-n', count])):
                until_accepted(env, check, [
                    tool, '-R', '-d', 'dp0', '-s', size, '-F', *args])
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
            s.wait_listen(RPING)
            c = j.proc(1, 'rping', '-c', '-a', address(1))
            try:
                wait_open(j, c)
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


def server(env, j):
    """One that listens, and runs the port."""
    s = j.proc(0, 'rping', '-s', '-P', '-a', '0.0.0.0')
    s.wait_listen(RPING)
    return s


def host_traffic(kind):
    """Segments of no connection of the process go to the host."""
    def run(env):
        with Streams(env, kind, 'tcp') as j:
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
                # No program listens there: the kernel says so.
                if j.proc(1, 'rping', '-c', '-a', address(1), '-p', tcp,
                          '-C', 1).wait(20) == 0:
                    raise Failure('something listens')
                j.call(['rping', '-c', '-V', '-a', address(1), '-C', 3])
            finally:
                h.end()
                s.end()
    return run


def second(env):
    """A second process has the kernel's TCP, and is served there."""
    with Streams(env, 'lwip', 'tcp') as j:
        s = server(env, j)
        try:
            tcp = env.port()
            j.both(['rping', '-s', '-a', '0.0.0.0', '-p', tcp, '-C', 5],
                   ['rping', '-c', '-V', '-a', address(1), '-p', tcp, '-C', 5],
                   tcp)
        finally:
            s.end()


def many(kind):
    """One listener, one client after the other, also over the host's own
    addresses, where the kernel carries."""
    def run(env):
        with Streams(env, kind, kind) as j:
            s = server(env, j)
            try:
                for _ in range(5):
                    j.call(['rping', '-c', '-V', '-a', address(1), '-C', 3])
                p = j.proc(0, 'rping', '-c', '-V', '-a', address(1), '-C', 3)
                try:
                    if p.wait(20):
                        raise Failure(p.describe())
                finally:
                    p.end()
            finally:
                s.end()
    return run


def bound(kind):
    """From a port number that the application chose, without an address."""
    def run(env):
        with Streams(env, kind, kind) as j:
            tcp = env.port()
            argv = [os.path.join(env.progs, 'cm_peer'), '-p', tcp, '-M',
                    'bound']
            s = j.proc(0, *argv)
            try:
                s.wait_listen(tcp)
                c = j.proc(1, *argv, address(1))
                try:
                    if c.wait(20) or 'wc status 0' not in c.text():
                        raise Failure(c.describe())
                finally:
                    c.end()
            finally:
                s.end()
    return run


# A peer that knows but MPA's first revision (RFC 5044) rejects the second one,
# and prints what it is asked then.
OLD = """
import socket
s = socket.create_server(('', {port}))
for _ in range(2):
    c = s.accept()[0]
    frame = b''
    while len(frame) < 20:
        frame += c.recv(20 - len(frame))
    print('revision', frame[17], flush=True)
    c.sendall(b'MPA ID Rep Frame' + bytes((0x20, 1, 0, 0)))
    c.recv(9999)
    c.close()
"""


def again(kind):
    """The second connection has another port number."""
    def run(env):
        with Streams(env, 'tcp', kind) as j:
            tcp = env.port()
            s = Proc(env.a.wrap(['python3', '-c', OLD.format(port=tcp)]))
            try:
                s.wait_listen(tcp)
                c = j.proc(1, 'rping', '-c', '-a', address(1), '-p', tcp)
                try:
                    s.wait_text('revision 2\\s+revision 1', 20)
                finally:
                    c.end()
            finally:
                s.end()
    return run


LINK_LOCAL = 'fe80::77:{}'


class Near(Streams):
    """The ports have addresses of the link as well."""

    def side(self, host, kind, i):
        f = super().side(host, kind, i)
        f.text = f.text.replace(f'"{address(i, True)}/64"',
                                f'"{address(i, True)}/64", '
                                f'"{LINK_LOCAL.format(i)}/64"')
        return f


def link_local(kind):
    """A client must know the interface by name before there is a port: it is
    the kernel's."""
    def run(env):
        with Near(env, kind, 'tcp') as j:
            j.hosts[1].sh('ip', 'addr', 'add', LINK_LOCAL.format(2) + '/64',
                          'dev', DEV, 'nodad')
            server = ['rping', '-s', '-a', '::']
            client = ['rping', '-c', '-V', '-a',
                      f'{LINK_LOCAL.format(1)}%{DEV}']
            j.carried(server, client)
            j.both([*server, '-C', 5], [*client, '-C', 5])
    return run


def counted(kind):
    """`urnic show` has the counters of the stack and its port."""
    def run(env):
        with Streams(env, kind, 'tcp') as j:
            s = server(env, j)
            try:
                j.call(['rping', '-c', '-V', '-a', address(1), '-C', 3])
                shown = env.show(j.hosts[0])['processes']
                report = [p['report'] for p in shown
                          if 'lwip' in p.get('report', {})]
                if len(report) != 1:
                    raise Failure(f'{len(report)} processes have lwIP')
                tcp = report[0]['lwip']
                if tcp['connections_accepted'] != 1 or not tcp['rx_segments']:
                    raise Failure(tcp)
                ports = report[0]['lwip_ports']
                if len(ports) != 1:
                    raise Failure(ports)
                if not rx_count(j, kind, ports[0]):
                    raise Failure(f'nothing came: {ports}')
            finally:
                s.end()
    return run


def steered(j, i=0):
    """TCP counters of urnicd's port on a side."""
    return j.env.show(j.hosts[i])['daemon']['ports'][0]['tcp']


def rx_count(j, kind, port):
    if kind == 'lwip':
        return port['counters']['rx_frames']
    return steered(j)['tcp_rx']


def idle(kind):
    """A port without traffic costs next to nothing, connections or not."""
    def run(env):
        with Streams(env, kind, 'tcp') as j:
            s = j.proc(0, 'rping', '-s', '-a', '0.0.0.0')
            try:
                s.wait_listen(RPING)
                check_idle(env.a)
            finally:
                s.end()
    return run


def two(env):
    """Two processes share the port; the end of one, by exit or kill, does not
    disturb the other, and its peer is notified."""
    with Streams(env, 'urnicd', 'tcp') as j:
        tcp = [env.port() for _ in range(2)]
        procs = [(j.proc(0, 'rping', '-s', '-a', '0.0.0.0', '-p', p))
                 for p in tcp]
        try:
            for s, p in zip(list(procs), tcp):
                s.wait_listen(p)
                procs.append(j.proc(1, 'rping', '-c', '-V', '-a', address(1),
                                    '-p', p))
            end = time.monotonic() + 20 * SLOW
            while links(env, j.hosts[0]).count('lwip') < 2:
                if time.monotonic() > end:
                    raise Failure(links(env, j.hosts[0]))
                time.sleep(0.1)
            os.kill(procs[0].p.pid, signal.SIGKILL)
            if procs[2].wait(20) is None:
                raise Failure(f'not told: {procs[2].describe()}')
            if not steered(j)['tcp_resets']:
                raise Failure(steered(j))
            sent = steered(j)['tcp_rx']
            time.sleep(0.5)
            if steered(j)['tcp_rx'] <= sent or not procs[3].running():
                raise Failure(f'the other stands still: {steered(j)}')
            # The number is free at once.
            procs.append(j.proc(0, 'rping', '-s', '-a', '0.0.0.0', '-p',
                                tcp[0]))
            procs[-1].wait_listen(tcp[0])
            j.call(['rping', '-c', '-V', '-a', address(1), '-p', tcp[0], '-C',
                    5])
        finally:
            for p in procs:
                p.end()


def restarted(env):
    """urnicd ends: connections break on either side, and the next one carries
    again."""
    with Streams(env, 'urnicd', 'tcp') as j:
        s = j.proc(0, 'rping', '-s', '-a', '0.0.0.0')
        c = None
        try:
            s.wait_listen(RPING)
            c = j.proc(1, 'rping', '-c', '-V', '-a', address(1))
            wait_open(j, c)
            j.daemons[0].end()
            if s.wait(20) is None:
                raise Failure(f'goes on: {s.describe()}')
        finally:
            s.end()
            if c:
                c.end()
        j.serve(1)
        j.carried(['rping', '-s', '-a', '0.0.0.0'],
                  ['rping', '-c', '-V', '-a', address(1)])


CASES = [
    Case('rping', rping('lwip', 'lwip')),
    Case('rping-ipv6', rping('lwip', 'lwip', v6=True)),
    Case('rping-link-local', link_local('lwip')),
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
    Case('host', host_traffic('lwip')),
    Case('second', second),
    Case('many', many('lwip')),
    Case('bound', bound('lwip')),
    Case('again', again('lwip')),
    Case('counted', counted('lwip')),
    Case('idle', idle('lwip')),
    # Over ports that urnicd runs for all.
    Case('shared-rping', rping('urnicd', 'urnicd')),
    Case('shared-rping-ipv6', rping('urnicd', 'urnicd', v6=True)),
    Case('shared-rping-link-local', link_local('urnicd')),
    Case('shared-rping-large', rping('urnicd', 'urnicd', size=60000)),
    Case('shared-rping-to-tcp', rping('tcp', 'urnicd', size=5000)),
    Case('shared-rping-from-tcp', rping('urnicd', 'tcp', size=5000)),
    Case('shared-send', perftest('ib_send_bw', 'urnicd', 'urnicd')),
    Case('shared-write', perftest('ib_write_bw', 'urnicd', 'lwip')),
    Case('shared-write-to-tcp', perftest('ib_write_bw', 'tcp', 'urnicd')),
    Case('shared-write-from-tcp', perftest('ib_write_bw', 'urnicd', 'tcp')),
    Case('shared-loss', lossy('urnicd', 'urnicd')),
    Case('shared-loss-to-tcp', lossy('tcp', 'urnicd')),
    Case('shared-loss-from-tcp', lossy('urnicd', 'tcp')),
    Case('shared-killed-tcp', killed('urnicd', 'tcp')),
    Case('shared-killed', killed('tcp', 'urnicd')),
    Case('shared-host', host_traffic('urnicd')),
    Case('shared-many', many('urnicd')),
    Case('shared-bound', bound('urnicd')),
    Case('shared-again', again('urnicd')),
    Case('shared-counted', counted('urnicd')),
    Case('shared-idle', idle('urnicd')),
    Case('shared-two', two),
    Case('shared-restarted', restarted),
]
