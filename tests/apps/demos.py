# SPDX-License-Identifier: BSD-2-Clause
"""The example programs (demos/), on each device and path."""

import re
import signal
import time

from harness.env import Case, Failure, finish, words
from harness.proc import SLOW

# Names of ways to run them, and what is set for each.
WAYS = {
    'urnic0': {'URNIC_RDMACM_DEVICE': 'urnic0'},
    'urnic0-sockets': {'URNIC_RDMACM_DEVICE': 'urnic0', 'URNIC_SHM': '0'},
    'urniw0': {'URNIC_RDMACM_DEVICE': 'urniw0'},
}
SUMMARY = r'round trips, one way: least [\d.]+, median [\d.]+'
GONE = 'the server has gone|the connection has failed: '
CASES = []


class Way:
    """Starts demos with the environment of a path."""

    def __init__(self, env, name):
        self.env, self.set = env, ['env'] + [
            f'{k}={v}' for k, v in WAYS[name].items()]
        self.port = env.port()

    def start(self, host, program, args):
        return self.env.run(host, *self.set, self.env.demo(program), '-p',
                            self.port, *words(args))

    def server(self, program, args='', host=None):
        p = self.start(host or self.env.a, program, args)
        p.wait_text('waiting at port', 20)
        return p

    def client(self, command, addr=None):
        """kv_client on the other host."""
        return self.start(self.env.b, 'kv_client',
                          f'{addr or self.env.a.ip4} {command}')

    def answer(self, command, code=0):
        """What a client says before it ends with this code."""
        p = self.client(command)
        try:
            got = p.wait(20)
            if got != code:
                raise Failure(f'exit {got} instead of {code}: {p.describe()}')
            return p.text()
        finally:
            p.end()


def expect(proc, pattern):
    if not re.search(pattern, proc.text()):
        raise Failure(f'no "{pattern}": {proc.describe()}')


def pingpong(name, args, v6=False):
    def run(env):
        way = Way(env, name)
        common = ' '.join(a for a in words(args) if a == '-e')
        s = way.server('pingpong', common)
        addr = env.a.ip6 if v6 else env.a.ip4
        c = way.start(env.b, 'pingpong', f'{args} {addr}')
        try:
            finish(s, c, 60)
            expect(c, SUMMARY)
            expect(s, r'the client has gone after [1-9]\d* messages')
        finally:
            s.end()
            c.end()
    return run


def pingpong_killed(name, victim, args):
    """The other side prints an error and ends."""
    def run(env):
        way = Way(env, name)
        s = way.server('pingpong', args)
        c = way.start(env.b, 'pingpong', f'{args} -n 10000000 {env.a.ip4}')
        try:
            # On a busy machine it takes its time to come.
            s.wait_text('serving a client', 30)
            time.sleep(0.3 * SLOW)
            (s if victim == 'server' else c).signal(signal.SIGKILL)
            if victim == 'server':
                if c.wait(60) != 1:
                    raise Failure(c.describe())
                expect(c, GONE)
            else:
                s.wait(60)
                expect(s, r'the client has gone after [1-9]\d* messages')
        finally:
            s.end()
            c.end()
    return run


def udp_pingpong(args):
    def run(env):
        way = Way(env, 'urnic0')
        s = way.server('udp_pingpong', args)
        c = way.start(env.b, 'udp_pingpong', f'{args} -n 500 {env.a.ip4}')
        try:
            if c.wait(30):
                raise Failure(c.describe())
            expect(c, SUMMARY)
        finally:
            s.end()
            c.end()
    return run


def kv(name, then, slots=1024):
    """then(way, server) with a server, which has to end well by SIGTERM."""
    def run(env):
        way = Way(env, name)
        s = way.server('kv_server', f'-n {slots}')
        try:
            then(way, s)
            s.signal(signal.SIGTERM)
            if s.wait(10):
                raise Failure(f'the server failed: {s.describe()}')
        finally:
            s.end()
    return run


def kv_basics(way, s):
    way.answer('put colour blue')
    way.answer('put shape round')
    way.answer('put empty ""')
    for _ in range(2):
        for key, value in (('colour', 'blue'), ('shape', 'round'),
                           ('empty', '')):
            got = way.answer(f'get {key}')
            if got != value + '\n':
                raise Failure(f'{key} is {got!r}, not {value!r}')
    way.answer('put colour green')
    if way.answer('get colour') != 'green\n':
        raise Failure('colour did not change')
    if "no key 'taste'" not in way.answer('get taste', 1):
        raise Failure('there is a key that was never put')
    if 'a key has 1 to 39 bytes' not in way.answer('put ' + 40 * 'k' + ' v',
                                                   1):
        raise Failure('a key that is too long')
    longest = 960 * 'v'
    way.answer(f'put {39 * "k"} {longest}')
    if way.answer(f'get {39 * "k"}') != longest + '\n':
        raise Failure('the longest key and value')


def kv_full(way, s):
    """Four slots take four keys, no fifth, and still new values."""
    for i in range(4):
        way.answer(f'put key{i} value{i}')
    if 'no room' not in way.answer('put key4 value4', 1):
        raise Failure('five keys in four slots')
    way.answer('put key3 other')
    if way.answer('get key3') != 'other\n':
        raise Failure('a full table takes no new value')
    if "no key 'key4'" not in way.answer('get key4', 1):
        raise Failure('a key that was refused is there')


def kv_consistent(count, writers, watchers):
    """Writers and watchers of one key; each checks all that it sees."""
    def then(way, s):
        procs = [way.client(f'watch key {count}') for _ in range(watchers)]
        procs += [way.client(f'write key {count}') for _ in range(writers)]
        try:
            for p in procs:
                if p.wait(120):
                    raise Failure(p.describe())
                expect(p, 'values put and got|gets saw')
        finally:
            for p in procs:
                p.end()
    return then


def kv_clients(way, s):
    """Many at the same time, some of which are killed."""
    procs = [way.client(f'write k{i} 100')
             for i in range(12)]
    doomed = [way.client(f'watch k{i} 1000000') for i in range(3)]
    try:
        for p in procs:
            if p.wait(120):
                raise Failure(p.describe())
        for p in doomed:
            p.signal(signal.SIGKILL)
            p.wait(10)
        way.answer('write k0 200')
    finally:
        for p in procs + doomed:
            p.end()


def kv_killed(name, how):
    """Clients of a server that ends print a message and do not hang."""
    def run(env):
        way = Way(env, name)
        s = way.server('kv_server')
        procs = [way.client('watch key 1000000000'),
                 way.client('write key 1000000000')]
        try:
            time.sleep(0.7 * SLOW)
            s.signal(how)
            s.wait(10)
            for p in procs:
                if p.wait(60) != 1:
                    raise Failure(p.describe())
                expect(p, GONE)
        finally:
            for p in procs + [s]:
                p.end()
    return run


def unreachable(env):
    """An address without a route.  On the machine's own network any IPv4
    address may have one; a link-local address without its interface has not.
    """
    return '192.0.2.1' if env.a.ns else 'fe80::1'


def not_there(env):
    # Without a urnicd of RoCE's there is no reject, and it takes a minute.
    other = Way(env, 'urnic0').server('kv_server')
    way = Way(env, 'urnic0')
    expected = (('pingpong', f'{env.a.ip4}', 'rdma_connect: ', 1),
                ('kv_client', f'{env.a.ip4} get key', 'rdma_connect: ', 1),
                ('kv_client', f'{unreachable(env)} get key',
                 'rdma_create_ep: ', 1),
                ('kv_client', '--help', 'usage: kv_client', 0),
                ('kv_client', f'{env.a.ip4} get', 'usage: kv_client', 2),
                ('kv_server', '-n 0', 'is not a number', 2),
                ('pingpong', '-s x', 'is not a number', 2),
                ('udp_pingpong', '--what', 'usage: ', 2))
    for program, args, text, code in expected:
        p = way.start(env.b, program, args)
        try:
            got = p.wait(30)
            if got != code or text not in p.text():
                raise Failure(f'exit {got}: {p.describe()}')
        finally:
            p.end()
    other.end()


def collectives(name, args, expected=r'barrier: .*\n.*all-reduce: '):
    """Eight processes, the ranks in turn on either host.

    There are two sessions, and often fewer processors than four: the kernel can
    leave all pollers of a session without one while those of the other poll.
    """
    def run(env):
        way = Way(env, name)
        # One port for each rank
        way.port = 10000 + (way.port - 20000) * 8
        hosts = f'{env.a.ip4} {env.b.ip4}'
        a = way.start(env.a, 'collectives', f'-l 0 {args} {hosts}')
        b = way.start(env.b, 'collectives', f'-l 1 {args} {hosts}')
        try:
            finish(a, b, 90)
            expect(a, expected)
        finally:
            a.end()
            b.end()
    return run


def case(name, fn, **kw):
    CASES.append(Case(name, fn, **kw))


case('not-there', not_there)
case('udp-pingpong', udp_pingpong(''))
case('udp-pingpong-events', udp_pingpong('-e -s 1000'))
for each in WAYS:
    case(f'{each}-pingpong', pingpong(each, '-n 1000'))
    case(f'{each}-pingpong-events', pingpong(each, '-e -n 300 -s 100000'))
    case(f'{each}-pingpong-v6', pingpong(each, '-n 100 -s 8', v6=True))
    case(f'{each}-server-killed', pingpong_killed(each, 'server', '-e'))
    case(f'{each}-client-killed', pingpong_killed(each, 'client', '-e'))
    case(f'{each}-collectives', collectives(each, '-i 20'))
    case(f'{each}-collectives-by-program', collectives(each, '-a -i 10'))
    case(f'{each}-collectives-killed', collectives(
        each, '-i 10 -k 5', 'all others have noticed'))
    case(f'{each}-kv', kv(each, kv_basics))
    case(f'{each}-kv-full', kv(each, kv_full, slots=4))
    # Through memory about one put in a hundred meets a READ.
    case(f'{each}-kv-consistent', kv(each, kv_consistent(
        3000 if each == 'urnic0' else 500, 1, 2)))
    case(f'{each}-kv-writers', kv(each, kv_consistent(300, 2, 1)))
    case(f'{each}-kv-clients', kv(each, kv_clients))
    case(f'{each}-kv-killed', kv_killed(each, signal.SIGKILL))
    case(f'{each}-kv-ended', kv_killed(each, signal.SIGTERM))
    case(f'{each}-kv-long', kv(each, kv_consistent(20000, 2, 3)), full=True)
