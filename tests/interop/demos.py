# SPDX-License-Identifier: BSD-2-Clause
"""The example programs (demos/) between urnic and the kernel.

The key-value store's GET is an RDMA READ of the server's memory, its PUT a
SEND; ping-pong is two SENDs.  In the guest they run
on the distribution's libraries.
"""

import re

from cm import MODES, address
from harness.env import Case, Failure, finish, words

CASES = []
SUMMARY = r'round trips, one way: least [\d.]+, median [\d.]+'


def start(env, mode, host, program, args):
    told = MODES[mode].env if host is env.a else []
    return env.run(host, 'env', *told, env.prog_on(
        host, program, env.demo(program)), *words(args))


def serving(env, mode, program, args, then):
    """then(server's process) while it can be reached."""
    env.set_link(MODES[mode].link)
    s = start(env, mode, env.sides()[0], program, args)
    try:
        s.wait_text('waiting at port', 20)
        then(s)
    except Failure as e:
        raise Failure(f'{e}\n      server: {s.describe()}') from None
    finally:
        s.end()
        env.b.sweep()


def server_address(env, mode, v6=False):
    """The demos listen at any address of either family; siw makes that those
    of IPv6 only."""
    server, _ = env.sides()
    return address(server, v6 or mode != 'rxe' and server is env.b)


def expect(proc, pattern):
    if not re.search(pattern, proc.text()):
        raise Failure(f'no "{pattern}": {proc.describe()}')


def pingpong(mode, common='', more='', v6=False):
    def run(env):
        _, client = env.sides()
        args = f'-p {env.port()} {common}'

        def then(s):
            c = start(env, mode, client, 'pingpong',
                      f'{args} {more} {server_address(env, mode, v6)}')
            try:
                finish(s, c, 60)
                expect(c, SUMMARY)
                expect(s, r'the client has gone after [1-9]\d* messages')
            finally:
                c.end()
        serving(env, mode, 'pingpong', args, then)
    return run


class Client:
    """Runs kv_client to its end."""

    def __init__(self, env, mode, port):
        self.env, self.mode, self.port = env, mode, port

    def start(self, command):
        _, client = self.env.sides()
        addr = server_address(self.env, self.mode)
        return start(self.env, self.mode, client, 'kv_client',
                     f'-p {self.port} {addr} {command}')

    def answer(self, command, code=0):
        p = self.start(command)
        try:
            if p.wait(30) != code:
                raise Failure(f'exit {p.p.returncode}: {p.describe()}')
            return p.text()
        finally:
            p.end()


def basics(client):
    longest = 960 * 'v'
    for key, value in (('colour', 'blue'), ('empty', ''), ('colour', 'green'),
                       (39 * 'k', longest)):
        client.answer(f'put {key} "{value}"')
        got = client.answer(f'get {key}')
        if got != value + '\n':
            raise Failure(f'{key} is {got!r}, not {value!r}')
    if "no key 'taste'" not in client.answer('get taste', 1):
        raise Failure('there is a key that was never put')


def consistent(client):
    """Writers and a watcher of one key; each checks all that it sees."""
    procs = [client.start(f'{what} key 200')
             for what in ('watch', 'write', 'write')]
    try:
        for p in procs:
            if p.wait(90):
                raise Failure(p.describe())
            expect(p, 'values put and got|gets saw')
    finally:
        for p in procs:
            p.end()


def store(mode, then):
    def run(env):
        client = Client(env, mode, env.port())
        serving(env, mode, 'kv_server', f'-p {client.port}',
                lambda s: then(client))
    return run


# siw computes a CRC of memory from which it sends later, so that with CRCs a
# READ of what changes ends the connection.
STEADY = {'rxe': 'rxe', 'siw': 'siw-plain'}
for each in ('rxe', 'siw'):
    CASES.append(Case(f'{each}-pingpong', pingpong(each, more='-n 200')))
    CASES.append(Case(f'{each}-pingpong-events', pingpong(
        each, '-e', '-n 100 -s 100000')))
    CASES.append(Case(f'{each}-pingpong-v6', pingpong(
        each, more='-n 100 -s 8', v6=True)))
    CASES.append(Case(f'{each}-store', store(each, basics)))
    CASES.append(Case(f'{each}-store-consistent', store(STEADY[each],
                                                        consistent)))
