# SPDX-License-Identifier: BSD-2-Clause
"""rsockets: the distribution's programs, and plain socket programs through
the preload library, on each device.
"""

import contextlib
import filecmp
import os
import re
import shutil
import tempfile
import time

from apps.rdmacm import DEVICES, has_device, meet
from harness import rights
from harness.env import Case, Failure, finish, words
from harness.proc import SLOW, Skip

BIG = 5_000_000
NGINX = '''
{user}daemon off; {processes} pid {dir}/pid; error_log {dir}/err info;
events {{ use epoll; }}
http {{
  access_log off; sendfile {sendfile};
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;
  fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  server {{ listen {addr}:{port}; root {dir}/html; }}
}}
'''

ROWS = []


def row(name, prog, full=False, v6=False, only=None):
    ROWS.append((name, prog, full, v6, only))


for size in (1, 63, 64, 65, 2047, 2048, 2049, 65536, 1000000):
    row(f'rstream-size-{size}', f'rstream -T v -S {size} -C 20 -I 5')
row('rstream-many-small', 'rstream -T v -S 1 -C 2000 -I 1')
row('rstream-window', 'rstream -T v -S 3000 -C 300 -I 20')
row('rstream-buffers', 'rstream -T v -B 4096 -S 20000 -C 20 -I 2')
row('rstream-no-inline', 'rstream -T v -i 0 -S 100 -C 20 -I 5')
row('rstream-inline', 'rstream -T v -i 200 -S 100 -C 20 -I 5')
for letter, what in (('a', 'async'), ('b', 'blocking'), ('n', 'nonblocking'),
                     ('r', 'resolve'), ('f', 'fork')):
    row(f'rstream-{what}', f'rstream -T {letter} -S 3000 -C 50 -I 10')
row('rstream-keepalive', 'rstream -T b -k 1 -S 3000 -C 50 -I 10')
row('rstream-v6', 'rstream -T v -S 3000 -C 50 -I 10', v6=True)
row('rstream-all', 'rstream -T v', full=True)
row('rstream-all-async', 'rstream -T v -T a', full=True)
for size in (1, 64, 65, 2048, 65536, 1000000):
    row(f'riostream-size-{size}', f'riostream -T v -S {size} -C 5 -I 5')
row('riostream-v6', 'riostream -S 3000 -C 5 -I 5', v6=True)


def stream(device, prog, v6):
    def run(env):
        need(env, device)
        # They synchronize with 16 bytes of a buffer as long as the messages.
        if SANITIZED and re.search(r'-S 1\b', prog):
            raise Skip('the program reads beyond its own buffer')
        port = env.port()
        addr = env.a.ip6 if v6 else env.a.ip4
        base = ['env', f'URNIC_RDMACM_DEVICE={device}'] + words(prog)
        s, c = meet(env, base + ['-p', port, '-b', addr],
                    base + ['-p', port, '-s', addr])
        try:
            finish(s, c, 60)
            for p in (s, c):
                if not re.search(r'^\S+ +\S+ +\S+ +\S+ +\S+ +[\d.]+s',
                                 p.text(), re.M):
                    raise Failure('no result: ' + p.describe())
        finally:
            s.end()
            c.end()
    return run


SANITIZED = 'libasan' in os.environ.get('LD_PRELOAD', '')


def need(env, device, *programs):
    if not has_device(env, device):
        raise Skip(f'there is no {device}')
    for p in programs:
        if not (shutil.which(p) or os.path.exists(f'/usr/sbin/{p}')):
            raise Skip(f'{p} is not installed')


def preload(env):
    top = os.path.dirname(env.urnic)
    for path in ('lib/rsocket', '../lib/urnic/rsocket'):
        lib = os.path.join(top, path, 'librspreload.so')
        if os.path.exists(lib):
            return lib
    raise Failure('librspreload.so has not been built')


def start(env, host, device, *argv, **extra):
    """A plain program on rsockets."""
    more = [f'{k}={v}' for k, v in extra.items()]
    return env.run(host, 'sh', '-c',
                   f'LD_PRELOAD="{preload(env)}:$LD_PRELOAD" exec "$@"', '-',
                   'env', f'URNIC_RDMACM_DEVICE={device}', *more, *argv)


def call_plain(env, host, *argv):
    """A program that is not run on urnic, to its end; its output."""
    p = env.run(host, *argv, plain=True)
    try:
        if p.wait(60):
            raise Failure(f'exit {p.p.poll()}: {p.describe()}')
        return p.text()
    finally:
        p.end()


@contextlib.contextmanager
def server(env, device, *argv, **extra):
    s = start(env, env.a, device, *argv, **extra)
    try:
        yield s
    finally:
        s.end()


def ask(env, device, *argv, tries=30, timeout=60, **extra):
    """A client, again while no server answers; its output.

    Reset: it fell back to TCP just when the server began to listen, and on
    iWARP that is a TCP port too.
    """
    for _ in range(tries):
        c = start(env, env.b, device, *argv, **extra)
        try:
            if c.wait(timeout) == 0:
                return c.text()
            if not re.search('refused|Couldn.t connect|Could not connect|'
                             'unable to connect|reset',
                             c.text()):
                raise Failure(f'exit {c.p.poll()}: {c.describe()}')
        finally:
            c.end()
        time.sleep(0.1 * SLOW)
    raise Failure('never met: ' + c.describe())


def iperf3(device, args, **extra):
    def run(env):
        need(env, device, 'iperf3')
        port = str(env.port())
        with server(env, device, 'iperf3', '-s', '-1', '-p', port, **extra):
            text = ask(env, device, 'iperf3', '-c', env.a.ip4, '-p', port,
                       '-n', '30M', *words(args), **extra)
        if not re.search(r'sec +\S+ [KMG]?Bytes .*receiver', text):
            raise Failure('no result:\n' + text)
    return run


def redis(device):
    def run(env):
        need(env, device, 'redis-server', 'redis-benchmark')
        port = str(env.port())
        at = ('-h', env.a.ip4, '-p', port)
        with server(env, device, 'redis-server', '--port', port, '--bind',
                    env.a.ip4, '--save', '', '--protected-mode', 'no') as s:
            ask(env, device, 'redis-cli', *at, 'set', 'key', 'x' * 5000)
            if ask(env, device, 'redis-cli', *at, 'get',
                   'key').strip() != 'x' * 5000:
                raise Failure('got something else than was set')
            text = ask(env, device, 'redis-benchmark', *at, '-q', '-n', '500',
                       '-c', '10', '-P', '4', '-t', 'set,get,lpush,mset',
                       timeout=120)
            if len(re.findall(r'[\d.]+ requests per second', text)) < 4:
                raise Failure('no result:\n' + text)
            ask(env, device, 'redis-cli', *at, 'shutdown', 'nosave')
            if s.wait(20):
                raise Failure(s.describe())
    return run


FORKS = {'RDMAV_FORK_SAFE': 1}
WORKERS = 'worker_processes 2;'


def nginx(device, sendfile, processes='master_process off;', **extra):
    def run(env):
        need(env, device, 'nginx', 'curl')
        if SANITIZED:
            raise Skip('curl does not start with a preloaded sanitizer')
        with tempfile.TemporaryDirectory() as tmp:
            serve_files(env, device, sendfile, tmp, processes, extra)
    return run


def semaphores():
    """Of rsockets, as rdma-core's library leaves one."""
    return {name for name in os.listdir('/dev/shm') if 'rsocket' in name}


def serve_files(env, device, sendfile, tmp, processes, extra):
    os.chmod(tmp, 0o755)
    os.mkdir(f'{tmp}/html')
    with open(f'{tmp}/html/big', 'wb') as f:
        f.write(os.urandom(BIG))
    with open(f'{tmp}/html/small', 'w') as f:
        f.write('a few bytes')
    before = semaphores()
    port = env.port()
    # Its own user is none of a user namespace with one UID.
    user = 'user root root; ' if rights.of_namespace() or (
        extra and not os.getuid()) else ''
    conf = NGINX.format(user=user, dir=tmp, addr=env.a.ip4, port=port,
                        sendfile=sendfile, processes=processes)
    with open(f'{tmp}/conf', 'w') as f:
        f.write(conf)
    base = f'http://{env.a.ip4}:{port}'
    exe = shutil.which('nginx') or '/usr/sbin/nginx'
    with server(env, device, exe, '-c', f'{tmp}/conf', '-e', f'{tmp}/err',
                **extra):
        text = ask(env, device, 'curl', '-sS', f'{base}/small', **extra)
        if text != 'a few bytes':
            raise Failure('got ' + text)
        ask(env, device, 'curl', '-sS', '-o', f'{tmp}/got', f'{base}/big',
            **extra)
        if not filecmp.cmp(f'{tmp}/got', f'{tmp}/html/big', shallow=False):
            raise Failure('another file came')
        # One connection for all of them.
        text = ask(env, device, 'curl', '-sS', *[f'{base}/small'] * 20,
                   **extra)
        if text != 'a few bytes' * 20:
            raise Failure('got ' + text)
        if extra:
            # One that knows nothing of rsockets is sent no byte of theirs.
            text = call_plain(env, env.b, 'curl', '-sS', '--http0.9',
                              f'{base}/small')
            if text != 'a few bytes':
                raise Failure('a plain client got ' + text)
    for left in semaphores() - before:
        raise Failure(f'/dev/shm/{left} is left behind')


def need_root(*able):
    if SANITIZED:
        raise Skip('the program does not start with a preloaded sanitizer')
    if os.getuid() or rights.of_namespace() or not rights.quiet(*able):
        raise Skip('needs root of the host, to become another user')


def postgres_bin():
    top = '/usr/lib/postgresql'
    for version in sorted(os.listdir(top) if os.path.isdir(top) else []):
        if os.path.exists(f'{top}/{version}/bin/initdb'):
            return f'{top}/{version}/bin'
    raise Skip('postgresql is not installed')


@contextlib.contextmanager
def urnicd_of_root(env):
    """Kept by a program of root's.  A urnicd that another user's program starts
    serves that user alone, in the following cases too."""
    p = env.run(env.a, 'env', 'URNIC_RDMACM_DEVICE=urnic0', 'rstream', '-p',
                env.port(), '-b', env.a.ip4)
    try:
        end = time.monotonic() + 20 * SLOW
        while all(known['pid'] != p.leaf()
                  for known in env.show(env.a)['processes']):
            if not p.running() or time.monotonic() > end:
                raise Failure('urnicd does not know ' + p.describe())
            time.sleep(0.05)
        yield
    finally:
        p.end()


def postgres(device, safe):
    """A process for each connection.  Without the variable it cannot work, and
    says in one line what to set."""
    def run(env):
        need(env, device, 'psql', 'setpriv')
        bin = postgres_bin()
        need_root('setpriv', '--reuid', 'postgres', '--regid', 'postgres',
                  '--clear-groups', 'true')
        port = env.port()
        as_postgres = ['setpriv', '--reuid', 'postgres', '--regid',
                       'postgres', '--clear-groups']
        with tempfile.TemporaryDirectory() as tmp:
            shutil.chown(tmp, 'postgres')
            call_plain(env, env.a, *as_postgres, f'{bin}/initdb', '-D',
                       f'{tmp}/db', '-A', 'trust', '-N')
            with open(f'{tmp}/db/pg_hba.conf', 'a') as f:
                f.write('host all all 0.0.0.0/0 trust\n')
            extra = FORKS if safe else {}
            with urnicd_of_root(env), server(
                    env, device, *as_postgres, f'{bin}/postgres', '-D',
                    f'{tmp}/db', '-h', env.a.ip4, '-p', port, '-k', tmp, '-c',
                    'dynamic_shared_memory_type=mmap', **extra) as s:
                s.wait_text('ready to accept connections', 30)
                psql = [*as_postgres, 'psql', '-h', env.a.ip4, '-p', port,
                        '-U', 'postgres', '-Atc', SQL]
                if safe:
                    for client in (extra, None):
                        out = (ask(env, device, *psql, **extra) if client else
                               call_plain(env, env.b, *psql))
                        if out.strip() != '20000|588894':
                            raise Failure('got ' + out)
                    return
                c = start(env, env.b, device, *psql)
                try:
                    s.wait_text('set RDMAV_FORK_SAFE=1 for servers', 30)
                finally:
                    c.end()
    return run


SQL = ("select count(*), sum(length(t)) from (select 'row ' || i || "
       "repeat('x', 21) as t from generate_series(1, 20000) as i) as rows")


def sshd(device):
    """It executes itself for each connection."""
    def run(env):
        need(env, device, 'ssh', 'sshd', 'ssh-keygen')
        need_root('chroot', '/', 'true')
        port = env.port()
        os.makedirs('/run/sshd', exist_ok=True)
        with tempfile.TemporaryDirectory() as tmp:
            for key in ('host', 'user'):
                call_plain(env, env.a, 'ssh-keygen', '-q', '-t', 'ed25519',
                           '-N', '', '-f', f'{tmp}/{key}')
            with open(f'{tmp}/conf', 'w') as f:
                f.write(f'Port {port}\nListenAddress {env.a.ip4}\n'
                        f'HostKey {tmp}/host\nStrictModes no\nUsePAM no\n'
                        f'PermitRootLogin yes\nPidFile none\n'
                        f'AuthorizedKeysFile {tmp}/user.pub\n')
            client = ['ssh', '-i', f'{tmp}/user', '-p', port, '-F', 'none',
                      '-o', 'StrictHostKeyChecking=no', '-o',
                      'UserKnownHostsFile=/dev/null', '-o', 'LogLevel=ERROR',
                      f'root@{env.a.ip4}', 'seq 1 100000 | cksum']
            with server(env, device, '/usr/sbin/sshd', '-D', '-e', '-f',
                        f'{tmp}/conf', **FORKS):
                for plain_one in (False, True):
                    out = (call_plain(env, env.b, *client) if plain_one
                           else ask(env, device, *client, **FORKS))
                    if '588895' not in out:
                        raise Failure('got ' + out)
    return run




def rcopy(device):
    def run(env):
        need(env, device, 'rcopy')
        with tempfile.TemporaryDirectory() as tmp:
            with open(f'{tmp}/from', 'wb') as f:
                f.write(os.urandom(BIG))
            port = env.port()
            on = ['env', f'URNIC_RDMACM_DEVICE={device}', 'rcopy']
            s, c = meet(env, on + ['-p', port],
                        on + [f'{tmp}/from', f'{env.a.ip4}:{tmp}/to', '-p',
                              port])
            try:
                if c.wait(60):
                    raise Failure(f'exit {c.p.poll()}: {c.describe()}')
            finally:
                s.end()
                c.end()
            if not filecmp.cmp(f'{tmp}/from', f'{tmp}/to', shallow=False):
                raise Failure('another file came')
    return run


def own(device, name, v6=False, args=(), timeout=60):
    """One of our programs about rsockets, both sides in one process."""
    def run(env):
        need(env, device)
        text = env.call(env.a, 'env', f'URNIC_RDMACM_DEVICE={device}',
                        env.prog(f'rsocket_{name}'),
                        env.a.ip6 if v6 else env.a.ip4, *args,
                        timeout=timeout)
        if 'all right' not in text:
            raise Failure(text)
    return run


def is_connected(env, host, p):
    return any(qp['state'] == 'RTS'
               for known in env.show(host)['processes']
               if known['pid'] == p.leaf()
               for lane in known.get('report', {}).get('lanes', ())
               for qp in lane.get('qps', ()))


def wait_connected(env, s, c, seconds=20):
    """Both are; False: the client has ended, before its server listened."""
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        if not c.running():
            return False
        if is_connected(env, env.a, s) and is_connected(env, env.b, c):
            return True
        time.sleep(0.05)
    raise Failure(f'no connection: {s.describe()} {c.describe()}')


def killed(device, victim):
    """The other side of a killed process learns of it."""
    def run(env):
        need(env, device)
        port = env.port()
        prog = ['env', f'URNIC_RDMACM_DEVICE={device}', 'rstream', '-p', port,
                '-T', 'b', '-S', 65536, '-C', 1000, '-I', 1000]
        s = env.run(env.a, *prog, '-b', env.a.ip4)
        try:
            for _ in range(20):
                c = env.run(env.b, *prog, '-s', env.a.ip4)
                if wait_connected(env, s, c):
                    break
                c.end()
                time.sleep(0.2)
            dies, lives = (s, c) if victim == 'server' else (c, s)
            if not (dies.running() and lives.running()):
                raise Failure('ended early: ' + dies.describe())
            dies.signal(9)
            if not lives.wait(30):
                raise Failure('took it for a success: ' + lives.describe())
        finally:
            s.end()
            c.end()
    return run


# Without -S and -C udpong goes through all sizes, and may never end, over the
# kernel's UDP just as well: when an answer takes more than a millisecond it
# asks twice, from then on takes each answer for the one before it, and a
# datagram lost after that is one it never asks for again.
def udpong(device, args):
    def run(env):
        need(env, device)
        port = env.port()
        on = ['env', f'URNIC_RDMACM_DEVICE={device}', 'udpong', '-p', port]
        on += words(args)
        s = env.run(env.a, *on, '-b', env.a.ip4)
        try:
            time.sleep(0.5 * SLOW)
            text = env.call(env.b, *on, '-s', env.a.ip4, timeout=60)
            if not re.search(r'^custom .*[\d.]+s', text, re.M):
                raise Failure('no result:\n' + text)
        finally:
            s.end()
    return run


def plain(device, *args, **extra):
    """plain_fork: both sides in one program that knows sockets only."""
    def run(env):
        need(env, device)
        p = start(env, env.a, device, env.prog('plain_fork'), env.a.ip4,
                  *args, **extra)
        try:
            if p.wait(60) or 'all right' not in p.text():
                raise Failure(f'exit {p.p.poll()}: {p.describe()}')
        finally:
            p.end()
    return run


def ready(device, wait, shm):
    """A connection is served beside a descriptor that is always ready, and not
    by its timers, which took 20 ms a message on a busy machine."""
    def run(env):
        need(env, device)
        port = env.port()
        prog, n = env.prog('plain_ready'), 4000
        with server(env, device, prog, wait, env.a.ip4, port, n,
                    URNIC_SHM=shm) as s:
            ask(env, device, prog, 'client', env.a.ip4, port, n,
                URNIC_SHM=shm)
            if s.wait(20):
                raise Failure(s.describe())
    return run


CASES = []
for dev in DEVICES:
    CASES += [Case(f'{dev}-{name}', stream(dev, prog, v6), full=full,
                   where=only, far='size' not in name)
              for name, prog, full, v6, only in ROWS]
    CASES += [
        Case(f'{dev}-rules', own(dev, 'rules'), where='lo'),
        Case(f'{dev}-ends', own(dev, 'ends'), where='lo'),
        Case(f'{dev}-ends-v6', own(dev, 'ends', v6=True), where='lo'),
        Case(f'{dev}-preload-fork', plain(dev), where='lo'),
        Case(f'{dev}-preload-workers',
             plain(dev, 'workers', RDMAV_FORK_SAFE=1), where='lo'),
        Case(f'{dev}-epoll', own(dev, 'epoll'), where='lo'),
        Case(f'{dev}-ready-poll', ready(dev, 'poll', 0)),
        Case(f'{dev}-ready-epoll', ready(dev, 'epoll', 0)),
        Case(f'{dev}-ready-poll-shm', ready(dev, 'poll', 1), where='lo'),
        Case(f'{dev}-ready-epoll-shm', ready(dev, 'epoll', 1), where='lo'),
        Case(f'{dev}-iomap', own(dev, 'iomap'), where='lo'),
        Case(f'{dev}-hostile', own(dev, 'hostile'), where='lo'),
        Case(f'{dev}-cycles', own(dev, 'cycles', args=('300',)), where='lo'),
        Case(f'{dev}-cycles-10000', own(dev, 'cycles', args=('10000',),
                                        timeout=120), full=True),
        Case(f'{dev}-options', own(dev, 'options'), where='lo'),
        Case(f'{dev}-options-v6', own(dev, 'options', v6=True), where='lo'),
        Case(f'{dev}-killed-server', killed(dev, 'server')),
        Case(f'{dev}-killed-client', killed(dev, 'client')),
        Case(f'{dev}-rcopy', rcopy(dev)),
        Case(f'{dev}-iperf3', iperf3(dev, '')),
        Case(f'{dev}-iperf3-reverse', iperf3(dev, '-R')),
        Case(f'{dev}-iperf3-parallel', iperf3(dev, '-P 4')),
        Case(f'{dev}-iperf3-sendfile', iperf3(dev, '-Z')),
        Case(f'{dev}-redis', redis(dev)),
        Case(f'{dev}-nginx', nginx(dev, 'off')),
        Case(f'{dev}-nginx-sendfile', nginx(dev, 'on')),
        Case(f'{dev}-nginx-workers', nginx(dev, 'on', WORKERS, **FORKS),
             where='lo'),
        Case(f'{dev}-postgres', postgres(dev, True), where='lo'),
        Case(f'{dev}-postgres-unsafe', postgres(dev, False), where='lo'),
        Case(f'{dev}-sshd', sshd(dev), where='lo'),
    ]
CASES += [
    Case('urnic0-udpong', udpong('urnic0', '-S 100 -C 50')),
    Case('urnic0-udpong-echo', udpong('urnic0', '-S 900 -C 50 -T e')),
    Case('urnic0-udpong-large', udpong('urnic0', '-S 1800 -C 50 -T b')),
    Case('urnic0-dgram', own('urnic0', 'dgram'), where='lo'),
    Case('urnic0-dgram-v6', own('urnic0', 'dgram', v6=True), where='lo'),
    Case('urnic0-iperf3-fork', iperf3('urnic0', '', RDMAV_FORK_SAFE=1)),
]
