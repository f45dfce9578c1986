# SPDX-License-Identifier: BSD-2-Clause
"""A device with two ports, each bound to one of two interfaces that join two
namespaces; programs talk to each other over a third."""

import contextlib
import json
import sys

from apps.rdmacm import meet
from harness.env import Case, Failure, finish
from netns.config import File, device, expect

LINKS = ('tp1', 'tp2')  # on either side


# Prints how many packets of RDMA (RoCEv2; iWARP's TCP) an interface had in either
# direction until SIGTERM.
COUNT = '''
import signal, socket, sys

class End(Exception):
    pass

def end(*unused):
    raise End

s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
s.bind((sys.argv[1], 3))
n = 0

def take():
    global n
    p, source = s.recvfrom(2048)
    to = 4 * (p[0] & 15) + 2
    if source[1] == 0x800 and (p[9] == 6 or p[9] == 17 and
                               int.from_bytes(p[to:to + 2], 'big') == 4791):
        n += 1

signal.signal(signal.SIGTERM, end)
print('counting', flush=True)
try:
    while True:
        take()
except End:
    s.setblocking(False)
    try:
        while True:
            take()
    except BlockingIOError:
        print(n, 'packets')
'''


def address(link, side):
    return f'10.9.{link + 2}.{side}'


def address_of_one_net(link, side):
    return f'10.9.2.{10 * link + side}'


class Ports:
    """The links, and a file that makes ports of them on both sides."""

    def __init__(self, env, kind='roce', address=address):
        self.address = address
        self.env, self.hosts = env, env.place.hosts
        self.file = File(device('two', kind,
                                ports=[{'interface': d} for d in LINKS]))

    def __enter__(self):
        self.file.__enter__()
        for link in range(len(LINKS)):
            self.make(link)
        return self

    def make(self, link):
        a, b = self.hosts
        dev = LINKS[link]
        a.sh('ip', 'link', 'add', dev, 'type', 'veth', 'peer', 'name', dev,
             'netns', b.ns)
        for side, h in enumerate(self.hosts, 1):
            h.sh('ip', 'link', 'set', dev, 'up')
            h.sh('ip', 'addr', 'add', f'{self.address(link, side)}/24',
                 'dev', dev)
            for name in ('all', dev):
                h.sh('sysctl', '-qw', f'net.ipv4.conf.{name}.rp_filter=0')

    def end(self, link):
        self.hosts[0].sh('ip', 'link', 'del', LINKS[link], check=False)

    def __exit__(self, *exc):
        self.file.__exit__(*exc)
        for link in range(len(LINKS)):
            self.end(link)

    def call(self, host, *argv, **keys):
        return self.file.call(self.env, host, *argv, **keys)

    def pair(self, port, server, client, timeout=60):
        env = self.env
        s, c = self.file.proc(env, env.a, *server), None
        try:
            s.wait_listen(port)
            c = self.file.proc(env, env.b, *client)
            finish(s, c, timeout)
            return s.text(), c.text()
        finally:
            s.end()
            if c:
                c.end()

    @contextlib.contextmanager
    def silent(self, link):
        """No packet of RDMA is on that link meanwhile."""
        p = self.env.run(self.env.a, sys.executable, '-c', COUNT, LINKS[link],
                         plain=True)
        try:
            p.wait_text('counting', 10)
            yield
            p.p.terminate()
            if p.wait(10) or '\n0 packets' not in p.text():
                raise Failure(f'{LINKS[link]}: {p.describe()}')
        finally:
            p.end()

    def sent(self, link):
        """Packets that left either side by that link."""
        n = 0
        for h in self.hosts:
            text = h.sh('ip', '-j', '-s', 'link', 'show', 'dev', LINKS[link])
            n += json.loads(text)[0]['stats64']['tx']['packets']
        return n


def seen(env):
    """Programs see two ports, each with the state and addresses of its own."""
    with Ports(env) as p:
        text = p.call(env.a, 'ibv_devinfo', '-v')
        expect(r'phys_port_cnt:\s+2$', text)
        for n in (1, 2):
            expect(rf'^\s+port:\s+{n}$', text)
            expect(f'::ffff:{address(n - 1, 1)}', text)
        if text.count('PORT_ACTIVE (4)') != 2:
            raise Failure(text)
        env.a.sh('ip', 'link', 'set', LINKS[1], 'down')
        text = p.call(env.a, 'ibv_devinfo')
        expect(r'(?s)port:\s+1\n.*PORT_ACTIVE.*port:\s+2\n.*PORT_DOWN', text)
        text = p.call(env.a, 'sh', '-c', 'cd /sys/class/infiniband/two/ports; '
                      'ls; cat 1/state 2/state 2/gid_attrs/ndevs/0')
        if text.split('\n')[:5] != ['1', '2', '4: ACTIVE', '1: DOWN', 'tp2']:
            raise Failure(f'sysfs has {text}')
        text = p.file.tool(env, env.a, 'devices')
        expect('^  port 1  ACTIVE', text)
        expect('^  port 2  DOWN', text)
        text = p.file.tool(env, env.a, 'devices', '--json')
        more = json.loads(text)[0]['more_ports']
        if [(m['port'], m['state'], m['gids'][0]['address'])
                for m in more] != [(2, 'DOWN', address(1, 1))]:
            raise Failure(text)
        text = env.a.sh(env.urnic, 'check-config', p.file.name)
        if text != 'two  RoCEv2  port 1  on tp1  port 2  on tp2\n':
            raise Failure(text)


def rules(env):
    with Ports(env) as p:
        p.call(env.a, env.prog('two_ports'), '-M', 'rules')


def cm(kind):
    def run(env):
        with Ports(env, kind) as p:
            port = env.port()
            p.call(env.a, env.prog('two_ports'), '-M', 'cm', '-p', port,
                   address(1, 1))
            # And to the other host, by the second link only.
            argv = ['-C', 50, '-V', '-p', port]
            with p.silent(0):
                s, c = meet(env, ['rping', '-s', *argv],
                            ['rping', '-c', *argv, '-a', address(1, 1)],
                            lambda host, *a: p.file.proc(env, host, *a))
                try:
                    finish(s, c, 60)
                finally:
                    s.end()
                    c.end()
    return run


def perftest(prog, link, address=address):
    def run(env):
        with Ports(env, address=address) as p:
            port = env.port()
            argv = [prog, '-d', 'two', '-i', link + 1, '-x', 0, '-s', 1024,
                    '-n', 1000, '-F', '-p', port]
            before = p.sent(link)
            with p.silent(1 - link):
                p.pair(port, argv, argv + [env.a.ip4])
            # A packet that is counted is a burst of up to 64.
            if p.sent(link) < before + 1000 // 64:
                raise Failure(f'{p.sent(link) - before} packets by the link')
    return run


def cut(letter, address=address):
    """The link of the first port fails and comes back; then that of the second."""
    def run(env):
        with Ports(env, address=address) as p:
            port = env.port()
            argv = [env.prog('two_ports'), '-M', 'cut', '-p', port]
            host = env.a if letter == 'a' else env.b
            s, c = p.file.proc(env, env.a, *argv), None
            try:
                s.wait_listen(port)
                c = p.file.proc(env, env.b, *argv, env.a.ip4)
                for link in (0, 1):
                    for side in (s, c):
                        side.wait_text(f'armed {link + 1}', 30)
                    before = p.sent(1 - link)
                    host.sh('ip', 'link', 'set', LINKS[link], 'down')
                    for side in (s, c):
                        side.wait_text(f'moved {2 - link}', 60)
                    # 2000 messages from either side, at most 16 in a burst.
                    if p.sent(1 - link) < before + 250:
                        raise Failure('no traffic on the other link')
                    host.sh('ip', 'link', 'set', LINKS[link], 'up')
                finish(s, c, 60)
            finally:
                s.end()
                if c:
                    c.end()
    return run


def gone(env):
    """A port without its interface is down, and takes up the next one; the
    device ends with the last interface."""
    with Ports(env) as p:
        e = p.file.proc(env, env.a, env.prog('two_ports'), '-M', 'events')
        try:
            e.wait_text('open', 20)
            p.end(0)
            e.wait_text('port error 1\n', 20)
            expect('^tp2$', p.call(env.a, 'sh', '-c', 'cat /sys/class/'
                                   'infiniband/two/ports/2/gid_attrs/ndevs/0'))
            p.make(0)
            e.wait_text('port active 1\n', 20)
            if 'error 2' in e.text():
                raise Failure(e.describe())
            p.end(1)
            e.wait_text('port error 2\n', 20)
            p.end(0)
            if e.wait(20) or 'fatal' not in e.text():
                raise Failure(e.describe())
        finally:
            e.end()


CASES = [
    Case('seen', seen, where='veth'),
    Case('rules', rules, where='veth'),
    Case('cm-roce', cm('roce'), where='veth'),
    Case('cm-iwarp', cm('iwarp'), where='veth'),
    Case('perftest-bw-port-1', perftest('ib_write_bw', 0), where='veth'),
    Case('perftest-bw-port-2', perftest('ib_write_bw', 1), where='veth'),
    Case('perftest-lat-port-2', perftest('ib_send_lat', 1), where='veth'),
    Case('perftest-bw-port-2-in-one-net',
         perftest('ib_write_bw', 1, address_of_one_net), where='veth'),
    Case('interface-deleted', gone, where='veth'),
    Case('link-of-the-server-down', cut('a'), where='veth'),
    Case('link-of-the-client-down', cut('b'), where='veth'),
    Case('link-down-in-one-net', cut('a', address_of_one_net), where='veth'),
]
