# SPDX-License-Identifier: BSD-2-Clause
"""urnic doctor: each finding is provoked on one host, or between two."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from harness import rights
from harness.env import Case, Failure
from harness.net import lose_at
from harness.proc import SLOW, Skip

REFUSE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'refuse.py')
AS_USER = ('setpriv', '--reuid', '61999', '--regid', '61999',
           '--clear-groups')
NO_RAW = ('setpriv', '--bounding-set', '-net_raw', '--inh-caps', '-net_raw')
OTHER_PIDS = ('unshare', '-p', '-f', '--mount-proc')
STATES = ('fail', 'slow', 'unread', 'note', 'ok')
UDP, GSO, GRO, CBPF = 17, 103, 104, 51
SOCKET, SNDBUF, RCVBUF, SNDBUFFORCE, RCVBUFFORCE = 1, 7, 8, 32, 33

# Holds UDP port 4791, as a program that is no urnicd, with a hostile name.
TAKE_PORT = '''
import socket, time
with open("/proc/self/comm", "wb") as f:
    f.write(b"a\\x1b[2J\\xff\\"b")
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 4791))
print("taken", flush=True)
time.sleep(600)'''

# urnicd's name; argument 1: the version that its WELCOME has, 0: no answer.
OTHER_URNICD = '''
import socket, struct, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind("\\0urnic")
s.listen()
print("listens", flush=True)
version = int(sys.argv[1])
while True:
    c = s.accept()[0]
    seq = c.recv(4096)[4:8]
    if version:
        c.send(struct.pack("!HH", 2, 0) + seq + struct.pack("!HI", version, 1))
    else:
        time.sleep(600)'''


def doctor(env, host, *args, before=(), status=None):
    """{check: [finding]} of one run; its status is checked against them."""
    argv = [*before, env.urnic, 'doctor', '--json', *args]
    r = subprocess.run(host.wrap([os.fsdecode(a) if isinstance(a, bytes) else
                                  str(a) for a in argv]), text=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=60 * SLOW)
    try:
        doc = json.loads(r.stdout)
    except ValueError:
        raise Failure(f'{argv}: {r.returncode} {r.stdout}{r.stderr}') from None
    check_document(doc, r.returncode)
    if status is not None and r.returncode != status:
        raise Failure(f'{argv}: status {r.returncode}, not {status}: {doc}')
    found = {}
    for f in doc['findings']:
        found.setdefault(f['check'], []).append(f)
    return found


def check_document(doc, status):
    if set(doc) != {'urnic', 'status', 'host', 'findings', 'not_checked'}:
        raise Failure(f'keys {sorted(doc)}')
    states = [f['state'] for f in doc['findings']]
    for f in doc['findings']:
        if set(f) != {'check', 'state', 'text', 'command'} or not f['text']:
            raise Failure(f'finding {f}')
    if states != sorted(states, key=STATES.index):
        raise Failure(f'the states are not in order: {states}')
    right = 2 if 'fail' in states else 1 if 'slow' in states else 0
    if doc['status'] != status or status != right:
        raise Failure(f'exit status {status}, "status" {doc["status"]}, '
                      f'states {states}')


def expect(found, check, state, text='', command=None):
    """One of the findings of a check is so."""
    for f in found.get(check, []):
        if (f['state'] == state and text in f['text']
                and (command is None or command in (f['command'] or ''))):
            return f
    raise Failure(f'{check} is not {state} with {text!r}, {command!r}: '
                  f'{found.get(check)}')


def usual(env):
    """What a healthy namespace has, and that text has it too."""
    found = doctor(env, env.a)
    for check in ('udp-socket', 'udp-gro', 'udp-gso', 'port', 'urnicd'):
        expect(found, check, 'ok')
    expect(found, 'libraries', 'note', command='urnic run -- PROGRAM')
    expect(doctor(env, env.a, before=(env.urnic, 'run', '--')), 'libraries',
           'ok')
    text = env.a.sh(env.urnic, 'doctor', check=False)
    for check in found:
        if f' {check}: ' not in text:
            raise Failure(f'no {check} in:\n{text}')


def command_line(env):
    for args, status in (('--help',), 0), (('--nothing',), 3), (('a', 'b'), 3):
        r = subprocess.run([env.urnic, 'doctor', *args], text=True,
                           capture_output=True)
        if r.returncode != status or 'doctor' not in r.stdout + r.stderr:
            raise Failure(f'{args}: {r}')


def refused(check, state, text, *calls):
    """A sandbox refuses system calls."""
    def run(env):
        found = doctor(env, env.a, before=(REFUSE, *calls, '--'))
        expect(found, check, state, text)
        if check[:3] != 'udp':    # the sockets are opened with the first QP
            check_opens(env, state, *calls)
        if expect(doctor(env, env.a), check, 'ok' if check[-6:] != 'buffer'
                  else found_state(env, check))['state'] == state:
            raise Failure(f'{check} is {state} without the sandbox too')
    return run


def check_opens(env, state, *calls):
    """A program opens a device there unless that "cannot work"."""
    r = subprocess.run(env.a.wrap([REFUSE, *calls, '--', env.urnic, 'run',
                                   '--', 'ibv_devinfo', '-d', 'urnic0']),
                       text=True, capture_output=True, timeout=60 * SLOW)
    if (r.returncode == 0) != (state != 'fail'):
        raise Failure(f'"{state}", but ibv_devinfo: {r}')


def found_state(env, check):
    """Of a buffer, which depends on the machine's limits."""
    state = doctor(env, env.a)[check][0]['state']
    if state == 'slow':
        raise Skip(f'{check} is small on this machine')
    return state


def one_cpu(env):
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip('has one CPU')
    cpu = min(os.sched_getaffinity(0))
    found = doctor(env, env.a, before=('taskset', '-c', cpu))
    expect(found, 'cpus', 'slow', 'of', 'taskset')
    expect(doctor(env, env.a), 'cpus', 'ok')


def limited(files):
    """A shell line: files of all control groups of this process."""
    lines = ['mount -t tmpfs tmpfs /sys/fs/cgroup']
    with open('/proc/self/cgroup', encoding='ascii') as f:
        groups = [line.strip().split(':', 2) for line in f]
    for _, names, path in groups:
        for name in (names.split(',') if names else ['.']):
            where = f'/sys/fs/cgroup/{name}{path}'
            lines.append(f'mkdir -p "{where}"')
            lines += [f'echo "{text}" > "{where}/{file}"'
                      for file, text in files.items()]
    if len(groups) == 1:
        lines.append('echo cpu > /sys/fs/cgroup/cgroup.controllers')
    return ' && '.join(lines) + ' && exec "$@"'


def cgroup(files, check, state, text):
    def run(env):
        probe = ('unshare', '-m', 'sh', '-c')
        if not rights.quiet(*probe, limited({}), 'sh', 'true'):
            raise Skip('may not mount')
        found = doctor(env, env.a, before=(*probe, limited(files), 'sh'))
        expect(found, check, state, text)
    return run


QUOTA = {'cpu.max': '50000 100000', 'cpu.cfs_quota_us': '50000',
         'cpu.cfs_period_us': '100000'}
WIDE = {'cpu.max': '300000 100000', 'cpu.cfs_quota_us': '300000',
        'cpu.cfs_period_us': '100000'}
FREE = {'cpu.max': 'max 100000', 'cpu.cfs_quota_us': '-1',
        'cpu.cfs_period_us': '100000'}
THREADS = {'pids.max': '20', 'pids.current': '18'}
MEMORY = {'memory.max': '268435456', 'memory.limit_in_bytes': '268435456'}


def port_taken(env):
    env.a.needs_own('a port 4791 that is free')
    p = env.run(env.a, sys.executable, '-c', TAKE_PORT, plain=True)
    try:
        p.wait_text('taken', 10)
        found = doctor(env, env.a, status=2)
        expect(found, 'port', 'fail', f'a?[2J?"b (pid {p.pid}',
               f'kill {p.pid}')
        # A urnicd that has not got the port.
        d = env.run(env.a, sys.executable, '-c', OTHER_URNICD, 6, plain=True)
        d.wait_text('listens', 10)
        found = doctor(env, env.a, status=2)
        d.end()
        expect(found, 'port', 'fail', f'pid {p.pid}', f'kill {p.pid}')
    finally:
        p.end()
    expect(doctor(env, env.a), 'port', 'ok', 'free')


def port_unseen(env):
    """The owner is of another user, or of another PID namespace, as the kernel's
    rxe has no process; that one is named only if it is loaded."""
    env.a.needs_own('a port 4791 that is free')
    if os.geteuid() or rights.of_namespace():
        raise Skip('has no second user')
    rxe = ('unshare', '-m', 'sh', '-c', 'mount -t tmpfs tmpfs /sys/module && '
           'mkdir /sys/module/rdma_rxe && exec "$@"', 'sh')
    if not (rights.quiet(*AS_USER, env.urnic, '--version')
            and rights.quiet(*rxe, *OTHER_PIDS, 'true')):
        raise Skip('another user does not reach the build tree, or may not mount')
    p = env.run(env.a, sys.executable, '-c', TAKE_PORT, plain=True)
    try:
        p.wait_text('taken', 10)
        for before, text, command in (
                (AS_USER, 'cannot see', 'sudo urnic doctor'),
                (OTHER_PIDS, 'another PID namespace', None),
                ((*rxe, *OTHER_PIDS), "the kernel's rxe",
                 'modprobe -r rdma_rxe')):
            f = expect(doctor(env, env.a, before=before, status=2), 'port',
                       'fail', text)
            if f['command'] != command:
                raise Failure(f'{f}, not {command}')
    finally:
        p.end()


def few_files(env):
    found = doctor(env, env.a, before=('prlimit', '--nofile=512:512'))
    expect(found, 'open-files', 'note', '512', 'ulimit')


def other_urnicd(version, text):
    def run(env):
        env.a.needs_own('the name of urnicd')
        p = env.run(env.a, sys.executable, '-c', OTHER_URNICD, version,
                    plain=True)
        try:
            p.wait_text('listens', 10)
            found = doctor(env, env.a, status=2)
            expect(found, 'urnicd', 'fail', text, f'kill {p.pid}')
            if rights.quiet(*OTHER_PIDS, 'true'):
                found = doctor(env, env.a, before=OTHER_PIDS, status=2)
                f = expect(found, 'urnicd', 'fail', text)
                if f['command']:    # "kill 0" would end the reader
                    raise Failure(f'{f}')
        finally:
            p.end()
    return run


def urnicd_of_other(env):
    """One that this user does not trust."""
    env.a.needs_own('the name of urnicd')
    if os.geteuid() or rights.of_namespace():
        raise Skip('has no second user')
    p = env.run(env.a, *AS_USER, sys.executable, '-c', OTHER_URNICD, 6,
                plain=True)
    try:
        p.wait_text('listens', 10)
        found = doctor(env, env.a, status=2)
        expect(found, 'urnicd', 'fail', 'user 61999', 'systemctl')
    finally:
        p.end()


def slow_clock(env):
    file = '/sys/devices/system/clocksource/clocksource0/current_clocksource'
    line = ('mount -t tmpfs tmpfs /mnt && echo hpet > /mnt/hpet && '
            f'mount --bind /mnt/hpet {file} && exec "$@"')
    probe = ('unshare', '-m', 'sh', '-c', line, 'sh')
    if not rights.quiet(*probe, 'true'):
        raise Skip('may not mount')
    expect(doctor(env, env.a, before=probe), 'clock', 'slow', 'hpet')


def foreign_libraries(env):
    """A directory with another libibverbs.so.1 before urnic's."""
    there = os.path.dirname(find_library())
    libs = env.a.sh(env.urnic, 'run', '--env')
    ours = [line.partition('=')[2] for line in libs.splitlines()
            if line.startswith('LD_LIBRARY_PATH=')][0].split(':')[0]
    found = doctor(env, env.a, before=(
        'env', f'LD_LIBRARY_PATH={there}:{ours}'), status=2)
    expect(found, 'libraries', 'fail', there)


def find_library():
    env = {k: v for k, v in os.environ.items() if k != 'LD_LIBRARY_PATH'}
    code = ('import ctypes; ctypes.CDLL("libibverbs.so.1"); print([l.split()[5]'
            ' for l in open("/proc/self/maps") if "/libibverbs.so" in l][0])')
    r = subprocess.run([sys.executable, '-c', code], env=env, text=True,
                       capture_output=True)
    if r.returncode:
        raise Skip('no other libibverbs.so.1 is installed')
    return r.stdout.strip()


def bad_config(env):
    found = doctor(env, env.a, before=('env', 'URNIC_CONFIG=/dev/null/none'),
                   status=2)
    expect(found, 'devices', 'fail')


def small_mtu(env):
    ip = ('ip', 'link', 'set', env.a.dev, 'mtu')
    env.a.sh(*ip, 600)
    try:
        expect(doctor(env, env.a), 'mtu', 'slow', 'MTU 600')
    finally:
        env.a.sh(*ip, env.place.mtu)
        # The kernel has no IPv6 on an interface with such an MTU.
        env.a.sh('ip', 'addr', 'add', env.a.ip6 + '/64', 'dev', env.a.dev,
                 'nodad')
    expect(doctor(env, env.a), 'mtu', 'note', f'MTU {env.place.mtu}')


def nft(host, text):
    for line in text.strip().splitlines():
        host.sh('nft', line.strip())


DROP = '''add table inet f
add chain inet f {0} {{ type filter hook {0} priority 0; policy drop; }}
add rule inet f {0} iif lo accept
add rule inet f {0} ct state established,related accept
add rule inet f {0} tcp dport {{ 22, 80 }} accept'''
DROP_OUT = '''add table inet f
add chain inet f output {{ type filter hook output priority 0; }}
add rule inet f output udp dport 4791 drop'''


def firewall(hook, rules):
    def run(env):
        env.a.needs_own('rules of a firewall')
        if not shutil.which('nft'):
            raise Skip('nft is not installed')
        if not rights.quiet(*env.a.wrap(['nft', 'list', 'ruleset'])):
            raise Skip('the kernel has no nf_tables')
        nft(env.a, rules.format(hook))
        try:
            found = doctor(env, env.a, status=2)
            f = expect(found, 'firewall', 'fail', hook, 'nft insert rule')
            env.a.sh(*f['command'].split())
            expect(doctor(env, env.a), 'firewall', 'ok', f'at {hook}')
        finally:
            env.a.sh('nft', 'flush', 'ruleset')
    return run


def odd_nft(line, text):
    """A program that is called nft."""
    def run(env):
        with tempfile.TemporaryDirectory() as path:
            os.chmod(path, 0o755)
            nft_path = os.path.join(path, 'nft')
            if line:
                with open(nft_path, 'w', encoding='ascii') as f:
                    f.write(f'#!/bin/sh\n{line}\n')
                os.chmod(nft_path, 0o755)
            where = f'{path}:{os.environ["PATH"]}' if line else path
            found = doctor(env, env.a, before=('/usr/bin/env',
                                               f'PATH={where}'))
            expect(found, 'firewall', 'unread', text)
    return run


def odd_host(env):
    """Any bytes of the command line give valid JSON."""
    found = doctor(env, env.a, b'\xff\x1b"\\', status=2)
    expect(found, 'peer', 'fail', '??"\\')


def ordinary_user(env):
    """Says what it could not read."""
    if os.geteuid() or rights.of_namespace():
        raise Skip('has no second user')
    if not rights.quiet(*AS_USER, env.urnic, '--version'):
        raise Skip('another user does not reach the build tree')
    found = doctor(env, env.a, before=AS_USER)
    expect(found, 'firewall', 'unread')


class Urnicd:
    """One that runs on a host, as a program waits for its client."""

    def __init__(self, env, host):
        self.port = env.port()
        self.p = env.run(host, 'ibv_rc_pingpong', '-g', '0', '-p', self.port)

    def __enter__(self):
        self.p.wait_listen(self.port)

    def __exit__(self, *exc):
        self.p.end()


def both_ways(env):
    """urnicd of the other host answers, over both families."""
    with Urnicd(env, env.b):
        for address in [env.b.ip4] + [env.b.ip6] * env.b.has_ip6():
            found = doctor(env, env.a, address)
            expect(found, 'peer', 'ok', 'right ICRC')
            expect(found, 'loss', 'ok', 'none')
        expect(doctor(env, env.a), 'urnicd', 'ok', 'runs')
        expect(doctor(env, env.a), 'port', 'ok', 'has UDP port')
        if rights.quiet(*OTHER_PIDS, 'true'):
            found = doctor(env, env.a, before=OTHER_PIDS)
            expect(found, 'urnicd', 'ok', 'another PID namespace')
            expect(found, 'port', 'ok', 'has UDP port')


def nothing_there(env):
    """The host answers, by ICMP; it has no urnicd."""
    stop_urnicd(env.b)
    found = doctor(env, env.a, env.b.ip4, status=2)
    expect(found, 'peer', 'fail', 'nothing has its UDP port', 'urnicd')


def stop_urnicd(host):
    """One that ends when idle."""
    end = time.monotonic() + 30
    while host.pids():
        if time.monotonic() > end:
            raise Failure(f'{host.ns} has processes')
        time.sleep(0.1)


def silent(env):
    """All packets of RoCE are dropped: no answer, and no ICMP either."""
    with Urnicd(env, env.b):
        lose_at(env.b, env.b.dev, 100)
        try:
            found = doctor(env, env.a, env.b.ip4, status=2)
        finally:
            env.b.sh('tc', 'qdisc', 'del', 'dev', env.b.dev, 'clsact')
        expect(found, 'peer', 'fail', 'no ICMP message')


def lossy(env):
    with Urnicd(env, env.b):
        lose_at(env.b, env.b.dev, 30)
        try:
            found = doctor(env, env.a, env.b.ip4)
        finally:
            env.b.sh('tc', 'qdisc', 'del', 'dev', env.b.dev, 'clsact')
        expect(found, 'peer', 'ok')
        expect(found, 'loss', 'slow', 'were lost')


def no_route(env):
    expect(doctor(env, env.a, '198.51.100.1', status=2), 'peer', 'fail',
           'no route', 'ip route')
    expect(doctor(env, env.a, 'no.such.name.invalid', status=2), 'peer',
           'fail')


def check_path(env, before):
    found = doctor(env, env.a, env.b.ip4, before=before)
    expect(found, 'path-mtu', 'ok', f'{env.place.mtu} bytes')
    expect(found, 'path-load', 'ok', 'MB/s each way')
    lose_at(env.b, env.b.dev, 5, every=True)
    try:
        expect(doctor(env, env.a, env.b.ip4, before=before), 'path-load',
               'slow', 'had no answer')
    finally:
        env.b.sh('tc', 'qdisc', 'del', 'dev', env.b.dev, 'clsact')
    expect(doctor(env, env.a, env.b.ip6, before=before), 'path-mtu', 'ok',
           f'{env.place.mtu} bytes')


def path_mtu(env):
    """The other interface takes shorter packets than ours sends; a veth takes
    those of its MTU with the tag of a VLAN.  First by raw sockets, of both families,
    since a new namespace lets no group have those of ping(8); then by those, and a
    user has neither."""
    ip = ('ip', 'link', 'set', env.a.dev, 'mtu')
    group = ('sysctl', '-qw', 'net.ipv4.ping_group_range=0 0')
    expect(doctor(env, env.a, env.b.ip4, before=NO_RAW), 'path-mtu', 'unread',
           'socket', 'ping_group_range')
    check_path(env, ())
    env.a.sh(*group)
    check_path(env, NO_RAW)
    env.a.sh(*ip, 9000)
    try:
        found = doctor(env, env.a, env.b.ip4, status=2)
        expect(found, 'path-mtu', 'fail', 'echoes of up to 15',
               f'dev {env.a.dev} mtu 15')
    finally:
        env.a.sh(*ip, env.place.mtu)


def two_hosts(name, fn):
    return Case(name, fn, where='veth1500')


CASES = [
    Case('usual', usual),
    Case('command line', command_line),
    Case('no UDP_SEGMENT', refused('udp-gso', 'slow', 'UDP_SEGMENT',
                                   f'setsockopt:1={UDP}:2={GSO}!92')),
    Case('no UDP_GRO', refused('udp-gro', 'slow', 'UDP_GRO',
                               f'setsockopt:1={UDP}:2={GRO}!92')),
    Case('no steering', refused('udp-socket', 'fail', 'BPF',
                                f'setsockopt:1={SOCKET}:2={CBPF}!92')),
    Case('no membarrier', refused('membarrier', 'slow', 'membarrier',
                                  'membarrier')),
    Case('no memfd', refused('memfd', 'slow', 'memfd_create',
                             'memfd_create!38')),
    Case('no process_vm', refused('process-vm', 'slow', 'process_vm_readv',
                                  'process_vm_readv')),
    Case('no AIO', refused('aio-poll', 'slow', 'io_setup', 'io_setup!38')),
    Case('receive buffer', refused(
        'receive-buffer', 'slow', 'KiB', f'setsockopt:1={SOCKET}:2={RCVBUF}!0',
        f'setsockopt:1={SOCKET}:2={RCVBUFFORCE}!0')),
    Case('send buffer', refused(
        'send-buffer', 'slow', 'KiB', f'setsockopt:1={SOCKET}:2={SNDBUF}!0',
        f'setsockopt:1={SOCKET}:2={SNDBUFFORCE}!0')),
    Case('one CPU', one_cpu),
    Case('half a CPU', cgroup(QUOTA, 'cpu-quota', 'slow', '0.50')),
    Case('three CPUs', cgroup(WIDE, 'cpu-quota', 'note', '3.00')),
    Case('no quota', cgroup(FREE, 'cpu-quota', 'ok', 'no limit')),
    Case('few threads', cgroup(THREADS, 'threads', 'fail', '2 threads')),
    Case('memory', cgroup(MEMORY, 'memory', 'note', '256 MiB')),
    Case('few files', few_files),
    Case('port taken', port_taken),
    Case('port of one unseen', port_unseen),
    Case('other version', other_urnicd(6, 'another version')),
    Case('urnicd hangs', other_urnicd(0, 'does not answer')),
    Case('urnicd of another user', urnicd_of_other),
    Case('slow clock', slow_clock),
    Case('other libraries', foreign_libraries),
    Case('bad configuration', bad_config),
    two_hosts('small MTU', small_mtu),
    Case('firewall, input', firewall('input', DROP)),
    Case('firewall, output', firewall('output', DROP_OUT)),
    Case('no nft', odd_nft('', 'no nft is in PATH')),
    Case('nft fails', odd_nft('exit 1', 'nft fails')),
    Case('nft hangs', odd_nft('exec sleep 600', '10 s')),
    Case('nft of 17 MiB', odd_nft('head -c 17M /dev/zero; exec sleep 600',
                                  '16 MiB')),
    Case('nft without JSON', odd_nft('echo no rules', 'not as expected')),
    Case('ordinary user', ordinary_user),
    Case('HOST of any bytes', odd_host),
    Case('HOST', both_ways),
    two_hosts('HOST without urnicd', nothing_there),
    two_hosts('HOST silent', silent),
    two_hosts('HOST with loss', lossy),
    two_hosts('HOST without route', no_route),
    two_hosts('HOST, path MTU', path_mtu),
]
