# SPDX-License-Identifier: BSD-2-Clause
"""urnic top and metrics, the schema of `urnic show`, counters in the view."""

import fcntl
import glob
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time

from harness import rights
from harness.env import Case, Failure
from harness.proc import SLOW, Skip
from life.life import start

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool,
         'integer': int, 'null': type(None)}


# --- a JSON schema, as far as docs/show-schema.json uses it ---

def check(schema, value, root, at='$'):
    if '$ref' in schema:
        schema = root['$defs'][schema['$ref'].rsplit('/', 1)[1]]
    kinds = schema.get('type')
    kinds = [kinds] if isinstance(kinds, str) else kinds or []
    if kinds and not any(type(value) is TYPES[k] for k in kinds):
        raise Failure(f'{at}: {value!r} is not {kinds}')
    if 'const' in schema and value != schema['const']:
        raise Failure(f'{at}: {value!r} is not {schema["const"]!r}')
    if 'enum' in schema and value not in schema['enum']:
        raise Failure(f'{at}: {value!r} is not of {schema["enum"]}')
    if isinstance(value, dict):
        known = schema.get('properties', {})
        for name in schema.get('required', []):
            if name not in value:
                raise Failure(f'{at}: no {name}')
        for name, v in value.items():
            rest = schema.get('additionalProperties', True)
            if name not in known and rest is False:
                raise Failure(f'{at}: {name} is not documented')
            sub = known.get(name, rest)
            check(sub if isinstance(sub, dict) else {}, v, root,
                  f'{at}.{name}')
    for i, v in enumerate(value if isinstance(value, list) else []):
        check(schema.get('items', {}), v, root, f'{at}[{i}]')


# --- OpenMetrics 1.0 text, strictly: what the exporter may print ---

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
SAMPLE = re.compile(
    rf'({NAME})(?:\{{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)+)\}})?'
    r' (-?\d+(?:\.\d+)?(?:e[-+]\d+)?)')
SUFFIX = {'counter': '_total', 'gauge': '', 'summary': ''}


def openmetrics(text):
    """The samples: {(name, labels): value}."""
    samples, families, family, kind = {}, set(), None, None
    if not text.endswith('# EOF\n') or text.count('# EOF') != 1:
        raise Failure(f'does not end with "# EOF": {text[-80:]!r}')
    for line in text.splitlines()[:-1]:
        m = re.fullmatch(rf'# TYPE ({NAME}) (counter|gauge|summary)', line)
        if m:
            family, kind = m.groups()
            if family in families or family.endswith('_total'):
                raise Failure(f'family {family} again')
            families.add(family)
            continue
        m = re.fullmatch(rf'# UNIT ({NAME}) ([a-z]+)', line)
        if m:
            if m[1] != family or not family.endswith('_' + m[2]):
                raise Failure(line)
            continue
        m = SAMPLE.fullmatch(line)
        if not m or family is None or m[1] != family + SUFFIX[kind]:
            raise Failure(f'no sample of {family}: {line!r}')
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m[2] or ''))
        key = (m[1], tuple(sorted(labels.items())))
        if key in samples:
            raise Failure(f'twice: {line}')
        if kind == 'counter' and float(m[3]) < 0:
            raise Failure(line)
        samples[key] = float(m[3])
    return samples


def of_pid(samples, name, pid):
    return [v for (n, labels), v in samples.items()
            if n == name and dict(labels).get('pid') == str(pid)]


# --- programs that send for as long as they are looked at ---

def sending(env, wire=False):
    port = env.port()
    base = (['env', 'URNIC_SHM=0'] if wire else []) + [
        'ib_send_lat', '-d', 'urnic0', '-F', '-s', '64', '-p', port, '-D',
        '120', '-x']
    s, c = env.pair(base + [gid_index(env, env.a)],
                    base + [gid_index(env, env.b), env.a.ip4], wait=False,
                    port=port)
    until('sends', lambda: any(
        q['state'] == 'RTS' and q['sends']
        for p in env.show(env.b)['processes'] if p['pid'] == c.leaf()
        for lane in p.get('report', {}).get('lanes', []) for q in lane['qps']))
    return s, c


def gid_index(env, host):
    return env.gid(host, 'v4')


def tool(env, *args, want=0, **kw):
    p = subprocess.run(env.b.wrap([env.urnic, *map(str, args)]),
                       capture_output=True, text=True, check=False,
                       timeout=60 * SLOW, **kw)
    if p.returncode != want:
        raise Failure(f'{args}: {p}')
    return p


def until(what, get):
    end = time.monotonic() + 30 * SLOW
    while True:
        got = get()
        if got:
            return got
        if time.monotonic() > end:
            raise Failure(f'never {what}')
        time.sleep(0.2)


def rows(env, *args):
    text = tool(env, 'top', '--json', '-n', 1, '-d', 0.5, *args).stdout
    doc = json.loads(text)
    if doc['schema'] != 1:
        raise Failure(text)
    return doc['rows']


def top(wire):
    def run(env):
        s, c = sending(env, wire)
        pid = c.leaf()

        def timed():
            return [r for r in rows(env, '-v', 'qps', '-p', pid)
                    if r['samples'] and r['tx_messages'] > 0
                    and r['tx_bytes'] > 0]
        r = until('a latency', timed)[0]
        if not 0 < r['p50_ns'] <= r['p99_ns'] <= r['max_ns']:
            raise Failure(f'percentiles: {r}')
        ratio = r['tx_bytes'] / r['tx_messages']
        if not 32 < ratio < 96:
            raise Failure(f'64 bytes each: {r}')
        shm = env.a.ns == env.b.ns and not wire
        if (r['path'] in ('shared memory', 'direct')) != shm or \
                (r['path'] == 'sockets' and not r['why']):
            raise Failure(f'path: {r}')
        sums = rows(env, '-v', 'processes', '-s', 'pid')
        if pid not in [x['pid'] for x in sums]:
            raise Failure(f'processes: {sums}')
        if not any(x['pid'] == pid and ':' in x['peer']
                   for x in rows(env, '-v', 'peers')):
            raise Failure('no peer')
        text = tool(env, 'top', '-n', 2, '-d', 0.3, '-p', pid).stdout
        if text.count('COMMAND') != 2 or '\033' in text:
            raise Failure(text)
        s.end()
        c.end()
    return run


def killed(env):
    """The process ends while it is looked at: its row goes, top goes on."""
    s, c = sending(env)
    pid = c.leaf()
    p = subprocess.Popen(
        env.b.wrap([env.urnic, 'top', '--json', '-d', '0.3']),
        stdout=subprocess.PIPE, text=True)
    try:
        for line in p.stdout:
            if pid in [r['pid'] for r in json.loads(line)['rows']]:
                break
        os.kill(pid, signal.SIGKILL)
        for line in p.stdout:
            if pid not in [r['pid'] for r in json.loads(line)['rows']]:
                break
        p.terminate()
        if p.wait(20):
            raise Failure(f'status {p.returncode}')
    finally:
        p.kill()
        p.wait()
    s.end()
    c.end()


def has_uid(uid):
    """Does the user namespace have that user?"""
    with open('/proc/self/uid_map', encoding='ascii') as f:
        ranges = [[int(x) for x in line.split()] for line in f]
    return any(first <= uid < first + n for first, _, n in ranges)


# The tools that take a process
OF_PROCESS = (('top', '-n', '1', '-p'), ('explain',), ('trace',),
              ('pcap', '-w', '/dev/null'), ('fault',))
TOOLS = ('run', 'show', 'explain', 'top', 'metrics', 'pcap', 'fault', 'trace',
         'doctor')


def helps(env):
    for name in TOOLS:
        if 'usage: urnic ' + name not in tool(env, name, '--help').stdout:
            raise Failure(f'{name} --help')


COMPLETE = """PATH=$1:$PATH; source "$2"; shift 2
COMP_WORDS=(urnic "$@" ''); COMP_CWORD=$(($# + 1)); _urnic; printf '%s\\n' "${COMPREPLY[@]}"
"""


def completes(env, pid):
    """The completion for bash offers the process."""
    script = os.path.join(ROOT, 'dist/urnic.bash')
    for args in OF_PROCESS:
        words = ['top', '-p'] if args[0] == 'top' else args[:1]
        found = env.b.sh('bash', '-c', COMPLETE, 'complete',
                         os.path.dirname(env.urnic), script, *words).split()
        if str(pid) not in found:
            raise Failure(f'{words}: {pid} is not in {found}')


def errors(env):
    s, c = sending(env)
    tool(env, 'top', '-n', 1, '-d', 0.1)
    completes(env, c.leaf())
    p = tool(env, 'top', '-n', 1, '-p', 999999999, want=1)
    if 'no process 999999999 uses urnic' not in p.stderr:
        raise Failure(p.stderr)
    for args in (['top', 'x'], ['top', '-v', 'x'], ['top', '-d', '0'],
                 ['metrics', 'x'], ['metrics', '--listen', '0.0.0.0:1']):
        tool(env, *args, want=2)
    for args in OF_PROCESS:
        p = tool(env, *args, 999999999, want=1)
        if '999999999' not in p.stderr:
            raise Failure(f'{args}, no such process: {p}')
        if os.geteuid() == 0 and has_uid(65534):
            p = subprocess.run(
                env.b.wrap(['setpriv', '--reuid=65534', '--regid=65534',
                            '--clear-groups', env.urnic, *args,
                            str(c.leaf())]),
                capture_output=True, text=True, check=False)
            if p.returncode != 1 or str(c.leaf()) not in p.stderr:
                raise Failure(f'{args}, as another user: {p}')
    s.end()
    c.end()


def waits(env):
    """Without urnicd top says so, and goes on."""
    if not rights.quiet('unshare', '-n', 'true'):
        raise Skip(f'without urnicd: {rights.why_no_namespaces()}')
    p = subprocess.run(['unshare', '-n', env.urnic, 'top', '-n', '2', '-d',
                        '0.1'], capture_output=True, text=True, check=False)
    if p.returncode or p.stderr.count('waiting for a program') != 1 or \
            p.stdout.count('COMMAND') != 2:
        raise Failure(f'{p}')
    for args in OF_PROCESS:
        p = subprocess.run(['unshare', '-n', env.urnic, *args, '1'],
                           capture_output=True, text=True, check=False)
        if p.returncode == 1 and 'no urnicd runs' in p.stderr:
            continue
        raise Failure(f'{p}')


def schema(env):
    """What `urnic show --json` prints is what docs/show-schema.json says."""
    s, c = sending(env)
    with open(os.path.join(ROOT, 'docs/show-schema.json'),
              encoding='utf-8') as f:
        root = json.load(f)
    doc = json.loads(tool(env, 'show', '--json').stdout)
    check(root, doc, root)
    if not any('report' in p for p in doc['processes']):
        raise Failure(f'no report: {doc}')
    for wrong in ({**doc, 'schema': 0}, {**doc, 'x': 1},
                  {k: v for k, v in doc.items() if k != 'processes'}):
        try:
            check(root, wrong, root)
        except Failure:
            continue
        raise Failure('the checker finds nothing')
    s.end()
    c.end()


def get(sock, request):
    sock.settimeout(20 * SLOW)
    sock.sendall(request)
    data = b''
    while True:
        more = sock.recv(65536)
        if not more:
            return data
        data += more


def metrics(env):
    s, c = sending(env)
    pid = c.leaf()
    samples = until('timed', lambda: (lambda x: x if of_pid(
        x, 'urnic_request_latency_seconds', pid) else None)(
            openmetrics(tool(env, 'metrics').stdout)))
    regions = of_pid(samples, 'urnic_memory_regions', pid)
    if sum(regions) != 1:
        raise Failure(f'memory regions: {regions}')
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'urnic.prom')
        tool(env, 'metrics', '-w', path)
        with open(path, encoding='utf-8') as f:
            openmetrics(f.read())
        if os.listdir(d) != ['urnic.prom']:
            raise Failure(f'{os.listdir(d)}')
        scrape(env, os.path.join(d, 'socket'), pid)
    s.end()
    c.end()


def scrape(env, path, pid):
    p = subprocess.Popen(env.b.wrap([env.urnic, 'metrics', '--listen', path]))
    try:
        until('a socket', lambda: os.path.exists(path))

        def ask(request):
            with socket.socket(socket.AF_UNIX) as u:
                u.connect(path)
                return get(u, request).decode()
        head, _, body = ask(b'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'
                            ).partition('\r\n\r\n')
        if not head.startswith('HTTP/1.1 200 ') or \
                'openmetrics-text; version=1.0.0' not in head or \
                f'Content-Length: {len(body)}' not in head:
            raise Failure(head)
        if not of_pid(openmetrics(body), 'urnic_queue_pairs', pid):
            raise Failure(body)
        for request, status in ((b'GET / HTTP/1.1\r\n\r\n', 404),
                                (b'PUT /metrics HTTP/1.1\r\n\r\n', 405),
                                (b'x' * 8192, 400)):
            if f'HTTP/1.1 {status} ' not in ask(request):
                raise Failure(f'{request[:30]} is not {status}')
        p.terminate()
        if p.wait(20) or os.path.exists(path):
            raise Failure('does not end')
    finally:
        p.kill()
        p.wait()


def hostile(env):
    """Whatever clients do, the next one gets its answer."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'socket')
        p = subprocess.Popen(env.b.wrap([env.urnic, 'metrics', '--listen',
                                         path]))

        def connect():
            u = socket.socket(socket.AF_UNIX)
            u.connect(path)
            return u
        try:
            until('a socket', lambda: os.path.exists(path))
            with connect() as silent, connect() as gone, connect() as big:
                gone.close()
                silent.sendall(b'GET /met')
                try:
                    big.sendall(b'GET /metrics HTTP/1.1\r\nX: '
                                + b'x' * 1000000)
                except BrokenPipeError:
                    pass
                with connect() as u:
                    text = get(u, b'GET /metrics HTTP/1.1\r\n\r\n' * 3)
            if text.count(b'HTTP/1.1 200 ') != 1:
                raise Failure(text)
            p.terminate()
            if p.wait(20) or os.path.exists(path):
                raise Failure('does not end')
        finally:
            p.kill()
            p.wait()


def terminal(env):
    """On a terminal top obeys its keys and leaves the terminal as it was."""
    s, c = sending(env)
    pid = str(c.leaf())
    master, slave = os.openpty()
    before = termios.tcgetattr(slave)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('4H', 24, 200, 0, 0))
    p = subprocess.Popen(env.b.wrap([env.urnic, 'top']), stdin=slave,
                         stdout=slave, stderr=slave)
    seen = ''

    def shows(*words):
        nonlocal seen
        while select.select([master], [], [], 0)[0]:
            seen += os.read(master, 65536).decode()
        last = seen.rsplit('\033[H', 1)[-1]
        return all(w in last for w in words)
    try:
        until('processes', lambda: shows('processes by messages', pid))
        os.write(master, b's')
        until('sorted', lambda: shows('processes by bytes'))
        os.write(master, b'\033[B\033[A\r')
        until('queue pairs', lambda: shows('qps by bytes', 'RC RTS'))
        os.write(master, b'\033')
        until('back', lambda: shows('processes by bytes', '1 QP'))
        p.send_signal(signal.SIGSTOP)
        p.send_signal(signal.SIGCONT)
        os.write(master, b'q')
        if p.wait(20):
            raise Failure(f'status {p.returncode}: {seen[-300:]}')
        if termios.tcgetattr(slave) != before or not shows('\033[?7h'):
            raise Failure(f'the terminal: {seen[-300:]}')
    finally:
        p.kill()
        p.wait()
        os.close(master)
        os.close(slave)
    s.end()
    c.end()


def switches(pid):
    """How often the threads of a process have slept."""
    n = 0
    for path in glob.glob(f'/proc/{pid}/task/*/status'):
        with open(path, encoding='utf-8') as f:
            n += int(re.search(r'\nvoluntary_ctxt_switches:\s(\d+)',
                               f.read())[1])
    return n


def rests(env):
    """Counters in the view do not wake a program without traffic."""
    s, c = start(env, 'stream', '-M idle')
    for p in (s, c):
        p.wait_text('idle', 10)

    def asleep():
        before = [switches(p.leaf()) for p in (s, c)]
        time.sleep(2.5)
        return before == [switches(p.leaf()) for p in (s, c)]
    until('asleep', asleep)
    s.end()
    c.end()


def board(env):
    """Each expression of the Grafana board names a metric that there is."""
    with open(os.path.join(ROOT, 'docs/grafana-board.json'),
              encoding='utf-8') as f:
        doc = json.load(f)
    s, c = sending(env)
    samples = until('timed', lambda: (lambda x: x if of_pid(
        x, 'urnic_request_latency_seconds', c.leaf()) else None)(
            openmetrics(tool(env, 'metrics').stdout)))
    names = {name for name, _ in samples}
    exprs = [t['expr'] for panel in doc['panels'] for t in panel['targets']]
    for expr in exprs:
        used = re.findall(r'urnic_\w+', expr)
        if not used or not set(used) <= names:
            raise Failure(f'{expr}: {set(used) - names}')
    if len(exprs) < 8:
        raise Failure(f'{len(exprs)} expressions')
    s.end()
    c.end()


def live(env):
    """Counters in the view grow while a program runs, and stay after it."""
    view = tool(env, 'run', '--', 'sh', '-c', 'echo $URNIC_SYSFS'
                ).stdout.strip()
    port = f'{view}/class/infiniband/urnic0/ports/1'

    def read(name):
        with open(f'{port}/{name}', encoding='ascii') as f:
            return int(f.read())
    if len(glob.glob(f'{port}/hw_counters/*')) < 20:
        raise Failure('hw_counters')
    names = ('counters/port_xmit_packets', 'counters/port_xmit_data',
             'hw_counters/sent_pkts', 'hw_counters/rcvd_pkts')
    before = [read(n) for n in names]
    s, c = sending(env, wire=True)
    until('counted', lambda: all(
        read(n) > b for n, b in zip(names, before)))
    now = [read(n) for n in names]
    until('more', lambda: all(read(n) > b for n, b in zip(names, now)))
    s.end()
    c.end()
    if any(read(n) < b for n, b in zip(names, now)):
        raise Failure('counters went back')
    # A program that is shorter than a second adds at its end, and does not wait
    # for one that holds the directory.
    fd = os.open(port, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    short(env)
    os.close(fd)
    now = [read(n) for n in names]
    short(env)
    more = [read(n) - b for n, b in zip(names, now)]
    if min(more) < 500:
        raise Failure(f'at the end: {more}')


def short(env):
    port = env.port()
    base = ['env', 'URNIC_SHM=0', 'ib_send_lat', '-d', 'urnic0', '-F', '-s',
            '64', '-p', port, '-n', '500', '-x']
    env.pair(base + [gid_index(env, env.a)],
             base + [gid_index(env, env.b), env.a.ip4], port=port)


CASES = [
    Case('schema', schema),
    Case('top', top(False)),
    Case('top-wire', top(True)),
    Case('killed', killed, far=False),
    Case('helps', helps, far=False),
    Case('errors', errors, far=False),
    Case('waits', waits, far=False),
    Case('metrics', metrics, far=False),
    Case('hostile', hostile, far=False),
    Case('terminal', terminal, far=False),
    Case('board', board, far=False),
    Case('live', live, far=False),
    Case('rests', rests),
]
