# SPDX-License-Identifier: BSD-2-Clause
"""Raw packet queue pairs: our own program, and perftest between two hosts."""

import json
import re
import socket
import time

from harness.env import Case, words
from harness.proc import Failure, Skip

PROGRAM = ('steer', 'vlan', 'csum', 'tso', 'rss', 'event', 'refused', 'eperm',
           'rate')

IP = '-J 10.9.0.1 -j 10.9.0.2 -K 1234 -k 4321'
IP6 = '--raw_ipv6 -J fd09::1 -j fd09::2 -K 1234 -k 4321'
# Not with -e: raw_ethernet_bw waits for an event that it never asked for.  Few packets:
# nothing holds the sender back, and a server that gets no processor loses some of many
# and waits for them.
ROWS = (
    ('bw', 'bw', '-s 1024 -n 1000'),
    ('bw-full-size', 'bw', '-s 1500 -n 1000'),
    ('bw-udp', 'bw', f'-s 1024 -n 1000 {IP}'),
    ('bw-tcp', 'bw', f'-s 1024 -n 1000 {IP} --tcp'),
    ('bw-udp6', 'bw', f'-s 1024 -n 1000 {IP6}'),
    ('bw-vlan', 'bw', '-s 1024 -n 1000 --vlan_en'),
    ('lat', 'lat', '-s 64 -n 300'),
    ('lat-udp', 'lat', f'-s 64 -n 300 {IP}'),
)


def needs_packet_sockets():
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except PermissionError:
        raise Skip('this user may not have packet sockets') from None


def program(what):
    def run(env):
        needs_packet_sockets()
        env.call(env.a, env.prog('raw'), what, timeout=60)
    return run


def lost(env):
    """A rule of the host drops what leaves."""
    env.a.sh('tc', 'qdisc', 'add', 'dev', env.a.dev, 'clsact')
    try:
        env.a.sh('tc', 'filter', 'add', 'dev', env.a.dev, 'egress',
                 'bpf', 'da', 'bytecode', '1,6 0 0 2')
        program('lost')(env)
    finally:
        env.a.sh('tc', 'qdisc', 'del', 'dev', env.a.dev, 'clsact')


def mac(host):
    link = json.loads(host.sh('ip', '-j', 'link', 'show', 'dev', host.dev))
    return link[0]['address']


def wait_flow(env, server):
    """Until the server has its flow: what is sent before is lost."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for process in env.show(env.a)['processes']:
            lanes = process.get('report', {}).get('lanes', ())
            if any(lane.get('flows') for lane in lanes):
                return
        if not server.running():
            break
        time.sleep(0.1)
    raise Failure(f'no flow: {server.describe()}')


def perftest(prog, args):
    """The two sides exchange nothing but the frames."""
    def run(env):
        a, b = mac(env.a), mac(env.b)
        base = [f'raw_ethernet_{prog}', '-d', 'urnic0', '-F'] + words(args)
        server = env.run(env.a, *base, '--server', '-B', a, '-E', b)
        try:
            wait_flow(env, server)
            client = env.run(env.b, *base, '--client', '-B', b, '-E', a)
            try:
                for p in client, server:
                    if p.wait(60):
                        raise Failure(p.describe())
            finally:
                client.end()
        finally:
            server.end()
    return run


def many_flows(env):
    """A thousand of them, made one by one on each side."""
    for side in 'server', 'client':
        text = env.call(env.a, 'raw_ethernet_fs_rate', '-d', 'urnic0',
                        f'--{side}', '-B', mac(env.a), '-E', mac(env.b))
        if not re.search(r'^1000 +[0-9.]+', text, re.M):
            raise Failure(f'no rate of 1000 flows:\n{text}')


CASES = [Case(what, program(what)) for what in PROGRAM]
CASES += [Case('raw_ethernet_fs_rate', many_flows, where='veth')]
CASES += [Case('lost', lost, where='veth')]
CASES += [Case(f'raw_ethernet_{name}', perftest(prog, args), where='veth')
          for name, prog, args in ROWS]
