# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's rdmacm-utils and perftest -R, unmodified, on each device.

A row: name, server, client, what to look for in their output.  {a} and {b}
are the server's and the client's address, {a6} and {b6} those of IPv6, {ll}
the server's link-local one as the client writes it, {port} a free port.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time

from harness.env import Case, Failure, finish, words
from harness.proc import SLOW, Skip, sh

PYVERBS = '/usr/share/doc/rdma-core/tests'
DEVICES = ('urnic0', 'urniw0')
NOT_YET = r'REJECTED|UNREACHABLE|refused|Connection reset|CM event bl blka 8'
ROWS = []


def row(name, server, client=None, expect='', ends=True, roce=False,
        full=False, only=None):
    """ends: the server does so too; roce: nothing for the other device."""
    if client is None:
        client = f'{server} -s {{a}}'
    ROWS.append((name, server, client, expect, ends, roce, full, only))


def rping(name, args, server='', addr='{a}', bind='{a}', **kw):
    row(f'rping-{name}', f'rping -s -p {{port}} -a {bind} {args} {server}',
        f'rping -c -p {{port}} -a {addr} {args}', **kw)


rping('default', '-C 10')
rping('wildcard', '-C 10', bind='0.0.0.0')
rping('verbose', '-C 50 -v -V')
rping('v6', '-C 10 -V', addr='{a6}', bind='{a6}')
rping('v6-wildcard', '-C 10 -V', addr='{a6}', bind='::0')
rping('v4-on-v6-wildcard', '-C 10 -V', bind='::0')
rping('link-local', '-C 10 -V', addr='{ll}', bind='::0', only='veth')
# iWARP moves the QP itself, and rping wants to.
rping('own-qp', '-q -C 10 -V', roce=True)
rping('own-qp-v6', '-q -C 10 -V', addr='{a6}', bind='{a6}', roce=True)
rping('persistent', '-C 100 -V', server='-P', ends=False)
for size in (23, 24, 1000, 4096, 65535):
    rping(f'size-{size}', f'-V -C 200 -S {size}')
rping('100000', '-v -V -C 100000', full=True)
row('rping-source', 'rping -s -p {port} -a 0.0.0.0 -C 10 -V',
    'rping -c -p {port} -a {a} -I {b} -C 10 -V')

DONE = 'return status 0'
row('ucmatose', 'ucmatose -p {port}', expect=DONE)
row('ucmatose-20', 'ucmatose -p {port} -c 20 -C 20 -S 1000', expect=DONE)
row('ucmatose-large', 'ucmatose -p {port} -C 10 -S 1000000', expect=DONE)
row('ucmatose-empty', 'ucmatose -p {port} -C 0', expect=DONE)
row('ucmatose-migrate', 'ucmatose -p {port} -c 10 -m', expect=DONE)
row('ucmatose-options', 'ucmatose -p {port} -t 8 -a 14', expect=DONE)
row('ucmatose-ib-space', 'ucmatose -p {port} -P ib -f ip', expect=DONE,
    roce=True)
row('ucmatose-bound', 'ucmatose -p {port} -b {a}',
    'ucmatose -p {port} -b {b} -s {a}', expect=DONE)
row('ucmatose-v6', 'ucmatose -p {port} -b {a6}',
    'ucmatose -p {port} -s {a6}', expect=DONE)
row('ucmatose-200', 'ucmatose -p {port} -c 200', expect=DONE, full=True)

row('udaddy', 'udaddy', expect=DONE, roce=True)
row('udaddy-10', 'udaddy -c 10 -C 20 -S 1000 -t 32', expect=DONE, roce=True)
row('udaddy-empty', 'udaddy -C 0', expect=DONE, roce=True)
row('udaddy-bound', 'udaddy -b {a}', 'udaddy -b {b} -s {a}', expect=DONE,
    roce=True)
row('udaddy-v6', 'udaddy -b {a6}', 'udaddy -s {a6}', expect=DONE, roce=True)
row('udaddy-ipoib', 'udaddy -P ipoib', expect=DONE, roce=True)


def mckey(name, args, addr='{}'):
    row(f'mckey-{name}', f'mckey {args} -b {addr.format("{a}")}',
        f'mckey {args} -b {addr.format("{b}")} -s', expect=DONE, roce=True)


mckey('v4', '-m 239.77.1.1')
mckey('large', '-m 239.77.1.2 -C 20 -S 1000')
mckey('ipoib', '-m 239.77.1.3 -p 0x2')
row('mckey-v6', 'mckey -m ff0e::77:1 -b {a6}',
    'mckey -m ff0e::77:1 -b {b6} -s', expect=DONE, roce=True, only='veth')
row('mckey-unmapped', 'mckey -M ff0e::77:2 -b {a6}',
    'mckey -M ff0e::77:2 -b {b6} -s', expect=DONE, roce=True, only='veth')
row('mckey-send-only', 'mckey -m 239.77.1.4 -b {a}',
    'mckey -m 239.77.1.4 -b {b} -s -o', expect=DONE, roce=True)
row('mckey-no-group', 'mckey -m {a} -b {a}', 'mckey -m {a} -b {b} -s',
    expect=DONE, roce=True, only='veth')

row('cmtime-100', 'cmtime -p {port}', 'cmtime -p {port} -s {a} -c 100',
    ends=False)
row('cmtime-1000', 'cmtime -p {port}', 'cmtime -p {port} -s {a} -c 1000',
    ends=False, full=True)
row('rdma-client', 'rdma_server -p {port}',
    'rdma_client -p {port} -s {a}', expect='end 0')
row('rdma-xclient', 'rdma_xserver -p {port}',
    'rdma_xclient -p {port} -s {a}', expect='end 0')
row('rdma-xclient-xrc', 'rdma_xserver -c x -p {port}',
    'rdma_xclient -c x -p {port} -s {a}', expect='end 0', roce=True)

for prog, args in (('send_bw', '-s 4096 -n 1000'), ('send_lat', ''),
                   ('write_bw', '-s 65536 -n 500'), ('write_lat', ''),
                   ('read_bw', '-s 65536 -n 500'), ('read_lat', ''),
                   ('send_bw', '-e -s 4096 -n 1000'),
                   ('write_bw', '-q 8 -s 4096 -n 500'),
                   ('write_bw', '-T 32 -s 4096 -n 500')):
    line = f'ib_{prog} -R -F -p {{port}} {args}'
    option = re.match('-[eqT]', args)
    row(f'{prog}-R' + (option[0] if option else ''), line, line + ' {a}',
        expect='#bytes')
for prog, args in (('atomic_bw', ''), ('atomic_lat', ''),
                   ('send_lat', '-c UD -s 512')):
    line = f'ib_{prog} -R -F -p {{port}} {args}'
    row(f'{prog}-R' + ('-ud' if 'UD' in args else ''), line, line + ' {a}',
        expect='#bytes', roce='UD' in args)


def link_local(env):
    text = sh('ip', '-n', env.a.ns, '-6', '-o', 'addr', 'show', 'dev',
              env.a.dev, 'scope', 'link')
    return re.search(r'inet6 (\S+)/', text)[1] + '%' + env.b.dev


def has_device(env, device):
    return device in env.call(env.a, 'ibv_devices')


def meet(env, server, client, run=None):
    """Both, the client again while the server is not listening yet; by run(host,
    *argv), if it is given.

    Only the server can tell when that is.  perftest, moreover, closes
    its listener and opens another while the client goes on to it: on iWARP,
    where a refusal is immediate, more than half of its clients come too early.
    """
    run = run or env.run
    perftest = any(str(word).startswith('ib_') for word in client)
    for _ in range(40 if perftest else 10):
        s = run(env.a, *server)
        for _ in range(20):
            time.sleep((0.5 if perftest else 0.1) * SLOW)
            c = run(env.b, *client)
            end = c.started + 60 * SLOW
            while c.running() and time.monotonic() < end:
                if not s.running():  # the client may still have to say why
                    end = min(end, time.monotonic() + 3 * SLOW)
                time.sleep(0.01)
            if c.running() or not re.search(NOT_YET, c.text()):
                return s, c
            c.end()
            if perftest:
                break
        s.end()
    raise Failure(f'never met: {s.describe()}\n      {c.describe()}')


def cmtime_takes_tcp_port():
    """In newer releases (rdma-core 56) both sides of cmtime meet on a TCP socket, too."""
    said = subprocess.run(['cmtime', '-?'], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=20)
    return 'socket baseline' in said.stdout


def case(device, server, client, expect, ends, limit):
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        names = dict(a=env.a.ip4, b=env.b.ip4, a6=env.a.ip6, b6=env.b.ip6,
                     port=env.port(),
                     ll=link_local(env) if '{ll}' in client else '')
        on = ['env', f'URNIC_RDMACM_DEVICE={device}']
        if server.startswith('cmtime') and cmtime_takes_tcp_port():
            if device == 'urniw0':
                raise Skip('cmtime wants the TCP port of its listener for '
                           'itself, which iWARP has, siw too')
            # A listener on the wildcard hears iWARP's device too.
            on.append(f'URNIC_DEVICES={device}')
        s, c = meet(env, on + words(server.format(**names)),
                    on + words(client.format(**names)))
        try:
            if ends:
                finish(s, c, limit)
            elif c.wait(limit):
                raise Failure(f'exit {c.p.poll()}: {c.describe()}')
            # Not each server of perftest tells a result.
            both = ends and 'ib_' not in client
            if expect not in c.text() or (both and expect not in s.text()):
                raise Failure(f'no "{expect}":\n      {s.describe()}\n'
                              f'      {c.describe()}')
        finally:
            s.end()
            c.end()
    return run


def pyverbs(device):
    """The rdma_cm part of the distribution's own test suite."""
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        if not os.path.isdir(PYVERBS):
            raise Skip('rdma-core\'s tests are not installed')
        with tempfile.TemporaryDirectory() as tmp:
            shutil.copytree(PYVERBS, f'{tmp}/tests')
            subprocess.run(f'gunzip {tmp}/tests/*.gz', shell=True, check=True)
            p = env.run(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                        '/usr/bin/python3', f'{tmp}/tests/run_tests.py',
                        '--dev', device, '-v', 'tests.test_rdmacm')
            try:
                if p.wait(120) or not re.search(r'^Ran [1-9]', p.text(), re.M):
                    raise Failure(p.describe(40))
            finally:
                p.end()
    return run


def prog(name, device, family):
    """cm_rules or cm_killed of tests/progs, both sides on one host."""
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        addr = env.a.ip4 if family == 'v4' else env.a.ip6
        env.call(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                 env.prog(name), addr, timeout=120)
    return run


NOWHERE = '10.9.0.77', 'fd09::77'  # of the link, on no host
FAR = '192.0.2.1', '2001:db8::1'   # no route leads there


def resolving(device):
    """The events of an address that no host has."""
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        for addr, expect in ((NOWHERE[0], 'ADDR_ERROR Connection timed out'),
                             (NOWHERE[1], 'ADDR_ERROR Connection timed out'),
                             (FAR[0], 'Network is unreachable'),
                             (FAR[1], 'Network is unreachable'),
                             (env.b.ip4, 'ADDR_RESOLVED Success'),
                             (env.b.ip6, 'ADDR_RESOLVED Success')):
            out = env.call(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                           'URNIC_LOG=error', env.prog('cm_address'),
                           'resolve', addr)
            for line in out.strip().splitlines():
                if not line.endswith(expect):
                    raise Failure(f'{addr}: {line}, not {expect}')
    return run


def rejected_by_icmp(device):
    """ICMP "prohibited": TCP ends at once, as with the kernel's iWARP; RoCE's
    manager repeats until its timeout, and reports it."""
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        via = env.a.ip4
        env.a.sh('sysctl', '-qw', 'net.ipv4.ip_forward=1')
        env.a.sh('ip', 'route', 'add', 'prohibit', '10.78.0.0/24')
        env.b.sh('ip', 'route', 'add', '10.78.0.0/24', 'via', via)
        p = env.run(env.b, 'env', f'URNIC_RDMACM_DEVICE={device}', 'rping',
                    '-c', '-a', '10.78.0.1', '-C', 1)
        try:
            if device == 'urnic0':
                p.wait_text('warn: rdma_cm: 10.78.0.1 port 7174: no answer',
                            20)
                if not p.running():
                    raise Failure('gave up: ' + p.describe())
            elif not p.wait(20) or not re.search(
                    'warn: .*No route to host.*CONNECT_ERROR, error -113',
                    p.text(), re.S):
                raise Failure(p.describe())
        finally:
            p.end()
            env.b.sh('ip', 'route', 'del', '10.78.0.0/24')
            env.a.sh('ip', 'route', 'del', 'prohibit', '10.78.0.0/24')
    return run


def address_change(device):
    """Each ID on an address that is removed gets one event."""
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        env.a.sh('ip', 'addr', 'add', '10.9.1.1/32', 'dev', env.a.dev)
        p = env.run(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                    env.prog('cm_address'), 'watch', '10.9.1.1')
        try:
            p.wait_text('ready', 20)
        finally:
            env.a.sh('ip', 'addr', 'del', '10.9.1.1/32', 'dev', env.a.dev)
        try:
            if p.wait(30):
                raise Failure(p.describe())
            told = sorted(p.text().strip().splitlines()[1:])
            if told != [f'{who}: RDMA_CM_EVENT_ADDR_CHANGE'
                        for who in ('client', 'listener', 'server')]:
                raise Failure(p.describe())
        finally:
            p.end()
    return run


def opened(device):
    """An address of every device: the one that the program has opened."""
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        out = env.call(env.a, 'env', '-u', 'URNIC_RDMACM_DEVICE',
                       env.prog('cm_address'), 'opened', env.a.ip4, device)
        want = [f'{who}: {device}' for who in ('listener', 'client', 'server')]
        if out.strip().splitlines() != want:
            raise Failure(out)
    return run


def socket_port(device):
    """A port that a TCP socket holds: only iWARP's listener fails."""
    want = {'urnic0': ['bind: Success', 'listen: Success',
                       'free: Invalid argument'],
            'urniw0': ['bind: Success', 'listen: Address already in use',
                       'free: Success']}

    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        for addr in (env.a.ip4, env.a.ip6):
            out = env.call(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                           env.prog('cm_address'), 'port', addr)
            if out.strip().splitlines() != want[device]:
                raise Failure(out)
    return run


def opened_perftest(device, prog):
    """perftest -R on the device of -d, which it takes for the connection's."""
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        line = ['env', '-u', 'URNIC_RDMACM_DEVICE', f'ib_{prog}', '-R', '-F',
                '-d', device, '-n', 100, '-p', env.port()]
        s, c = meet(env, line, line + [env.a.ip4])
        try:
            finish(s, c, 60)
            if '#bytes' not in c.text():
                raise Failure('no result: ' + c.describe())
        finally:
            s.end()
            c.end()
    return run


def both_devices(env):
    """One listener on the wildcard, clients on either device."""
    if not all(has_device(env, d) for d in DEVICES):
        raise Skip('there is one device only')
    port = env.port()
    s = env.run(env.a, 'rping', '-s', '-P', '-p', port, '-a', '0.0.0.0')
    try:
        for device in DEVICES * 2:
            for _ in range(20):
                time.sleep(0.1 * SLOW)
                c = env.run(env.b, 'env', f'URNIC_RDMACM_DEVICE={device}',
                            'rping', '-c', '-p', port, '-a', env.a.ip4,
                            '-C', 20, '-V')
                code = c.wait(30)
                if not re.search(NOT_YET, c.text()):
                    break
            if code or 'error' in c.text():
                raise Failure(f'{device}: exit {code}: {c.describe()}')
    finally:
        s.end()


def cycles(device):
    def run(env):
        if not has_device(env, device):
            raise Skip(f'there is no {device}')
        env.call(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                 env.prog('cm_rules'), env.a.ip4, 'cycles', '10000',
                 timeout=300)
    return run


CASES = [Case('both-devices', both_devices)]
for dev in DEVICES:
    for name, server, client, expect, ends, roce, full, only in ROWS:
        if dev == DEVICES[0] or not roce:
            CASES.append(Case(f'{dev}-{name}',
                              case(dev, server, client, expect, ends,
                                   300 if full else 60),
                              full=full, where=only))
    for kind in ('v4', 'v6'):
        CASES.append(Case(f'{dev}-rules-{kind}',
                          prog('cm_rules', dev, kind)))
    CASES.append(Case(f'{dev}-socket-port', socket_port(dev), where='lo'))
    CASES.append(Case(f'{dev}-opened', opened(dev), where='lo'))
    for name in ('send_bw', 'send_lat', 'write_bw', 'write_lat', 'read_bw',
                 'read_lat') + (('atomic_bw', 'atomic_lat')
                                if dev == 'urnic0' else ()):
        CASES.append(Case(f'{dev}-{name}-R-d', opened_perftest(dev, name),
                          full=name != 'write_bw', where='lo'))
    CASES.append(Case(f'{dev}-killed', prog('cm_killed', dev, 'v4')))
    CASES.append(Case(f'{dev}-resolving', resolving(dev), where='veth'))
    CASES.append(Case(f'{dev}-rejected-by-icmp', rejected_by_icmp(dev),
                      where='veth'))
    CASES.append(Case(f'{dev}-address-change', address_change(dev),
                      where='veth'))
    CASES.append(Case(f'{dev}-10000-cycles', cycles(dev), full=True,
                      where='lo'))
    CASES.append(Case(f'{dev}-pyverbs', pyverbs(dev), where='veth'))
