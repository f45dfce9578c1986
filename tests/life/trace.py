# SPDX-License-Identifier: BSD-2-Clause
"""urnic trace: calls and requests of unmodified programs."""

import collections
import glob
import json
import os
import re
import signal
import tempfile
import time

from harness import clock, rights
from harness.env import Case, Failure
from harness.proc import SLOW, Proc, Skip

N = 50


def start(env, host, options, argv):
    argv = [env.urnic, 'trace', *options, '--', *[str(a) for a in argv]]
    return Proc(host.wrap(argv), clock.environ(env.progs, argv))


def ended(p, code=0):
    got = p.wait(60)
    if got != code:
        raise Failure(f'exit {got}, not {code}: {p.describe()}')
    return p.text()


def wait_for(p, path, text, times=1):
    """Until the trace has a text."""
    end = time.monotonic() + 20 * SLOW
    while not os.path.exists(path) or \
            open(path, encoding='ascii').read().count(text) < times:
        if time.monotonic() > end or not p.running():
            raise Failure(p.describe())
        time.sleep(0.02)


def traced_pair(env, server, client, options=(), listens=None,
                server_options=None):
    """Both sides traced into files of their own: their paths.  The server listens
    on a TCP port, or when its trace shows the call `listens`."""
    d = tempfile.TemporaryDirectory()
    files = [os.path.join(d.name, n) for n in ('server', 'client')]
    port = env.port()
    opt = [[*(server_options or options), files[0]], [*options, files[1]]]
    s = start(env, env.a, opt[0], server(port))
    c = None
    try:
        if listens:
            wait_for(s, files[0], listens)
        else:
            s.wait_listen(port)
        c = start(env, env.b, opt[1], client(port))
        ended(c)
        ended(s)
    finally:
        s.end()
        if c:
            c.end()
    return d, files


def lines(path):
    """The objects of a file of --json: nothing is missing from it."""
    with open(path, encoding='ascii') as f:
        found = [json.loads(line) for line in f]
    if found[0]['type'] != 'start' or found[0]['version'] != 1:
        raise Failure(f'it begins with {found[0]}')
    if found[-1] != {'type': 'end', 'lost': 0}:
        raise Failure(f'it ends with {found[-1]}')
    return found


def requests(found):
    return collections.Counter(
        (x['queue'], x['opcode'], x.get('status')) for x in found
        if x['type'] == 'wr' and 'status' in x)


def calls(found):
    return collections.Counter(x['name'] for x in found if x['type'] == 'call')


def pingpong(env):
    """ibv_rc_pingpong: each send and receive once, with a latency."""
    base = ['ibv_rc_pingpong', '-n', N, '-r', '10', '-g', env.gid(env.a, 'v4')]
    other = base[:-1] + [env.gid(env.b, 'v4')]
    d, files = traced_pair(env, lambda port: base + ['-p', port],
                           lambda port: other + ['-p', port, env.a.ip4],
                           ('--json', '-o'))
    with d:
        for path in files:
            found = lines(path)
            got, names = requests(found), calls(found)
            want = {('send', 'SEND', 'SUCCESS'): N,
                    ('recv', 'RECV', 'SUCCESS'): N}
            if got != want:
                raise Failure(f'{path}: {got}')
            if names['ibv_modify_qp'] != 3 or names['ibv_post_send'] != N or \
                    names['ibv_create_qp'] != 1 or names['ibv_close_device'] != 1:
                raise Failure(f'{path}: {names}')
            bad = [x for x in found if x['type'] == 'wr' and 'status' in x and
                   x['latency_ns'] <= 0]
            if bad:
                raise Failure(f'no latency: {bad[0]}')


def rping(env):
    """The calls of librdmacm, with events, and in order."""
    d, files = traced_pair(
        env, lambda port: ['rping', '-s', '-C', 5, '-a', env.a.ip4, '-p', port],
        lambda port: ['rping', '-c', '-C', 5, '-a', env.a.ip4, '-p', port],
        ('--json', '-e', 'cm,wr', '-o'), listens='rdma_listen')
    with d:
        found = lines(files[1])
    names = [x['name'] for x in found if x['type'] == 'call']
    order = ['rdma_create_event_channel', 'rdma_create_id', 'rdma_create_qp',
             'rdma_connect', 'rdma_disconnect', 'rdma_destroy_id']
    at = [names.index(n) for n in order if n in names]
    if len(at) != len(order) or at != sorted(at):
        raise Failure(f'{names}')
    events = [x['out']['event'] for x in found if x['type'] == 'call' and
              x['name'] == 'rdma_get_cm_event']
    if events[:3] != ['ADDR_RESOLVED', 'ROUTE_RESOLVED', 'ESTABLISHED']:
        raise Failure(f'{events}')
    if requests(found)[('send', 'SEND', 'SUCCESS')] < 10:
        raise Failure(f'{requests(found)}')
    if any(n.startswith('ibv_') for n in names):
        raise Failure(f'-e cm shows {names}')


def validate(path):
    """The trace events of a file: form, pairs, nesting.  The arrows found."""
    with open(path, encoding='ascii') as f:
        events = json.load(f)['traceEvents']
    need = {'M': 'name', 'X': 'dur', 'b': 'id', 'e': 'id', 's': 'id', 'f': 'id'}
    slices, begun, arrows = {}, {}, collections.defaultdict(dict)
    for e in events:
        if not {'ph', 'pid', 'tid', 'ts', 'name'} <= set(e) or \
                need.get(e['ph']) not in e or e['ts'] < 0:
            raise Failure(f'{path}: {e}')
        if e['ph'] == 'X':
            slices.setdefault((e['pid'], e['tid']), []).append(
                (e['ts'], -e['dur']))
        elif e['ph'] == 'b':
            begun.setdefault((e['cat'], e['id']), []).append(e)
        elif e['ph'] == 'e':
            b = begun[(e['cat'], e['id'])].pop()
            if b['ts'] > e['ts'] or b['pid'] != e['pid']:
                raise Failure(f'{path}: {b} and {e}')
        elif e['ph'] in 'sf':
            if e['ph'] in arrows[e['id']]:
                raise Failure(f'{path}: two of {e}')
            arrows[e['id']][e['ph']] = e
    if any(begun.values()):
        raise Failure(f'{path}: without end: {begun}')
    for thread, found in slices.items():
        nested(path, thread, found)
    return arrows, slices


def nested(path, thread, found):
    """The slices of a thread do not overlap but by what rounding makes of them."""
    end = 0
    for ts, dur in sorted(found):
        if ts < end - 0.0015:
            raise Failure(f'{path}: a slice of {thread} at {ts} overlaps {end}')
        end = ts - dur


def perfetto(env):
    """ib_send_lat on both sides, put together: an arrow for each message, forward
    in time, from a slice to a slice."""
    arg = ['ib_send_lat', '-d', 'urnic0', '-n', N, '-F']
    d, files = traced_pair(env, lambda port: arg + ['-p', port],
                           lambda port: arg + ['-p', port, env.a.ip4],
                           ('--perfetto',))
    with d:
        for path in files:
            validate(path)
        both = os.path.join(d.name, 'both')
        text = env.b.sh(env.urnic, 'trace', '--merge', '-o', both, *files)
        arrows, slices = validate(both)
    whole = [a for a in arrows.values() if len(a) == 2]
    if len(whole) != 2 * N or len(arrows) != 2 * N:
        raise Failure(f'{len(whole)} of {len(arrows)} arrows: {text}')
    for a in whole:
        s, f = a['s'], a['f']
        if s['ts'] > f['ts'] or s['pid'] == f['pid']:
            raise Failure(f'{s} and {f}')
        for e in (s, f):
            if not any(ts - 0.0015 <= e['ts'] <= ts - dur + 0.0015 for ts, dur
                       in slices[(e['pid'], e['tid'])]):
                raise Failure(f'{e} is in no slice')


def sampled(env):
    """One of ten, and the summary."""
    arg = ['ib_send_bw', '-d', 'urnic0', '-n', 1000, '-F']
    d, files = traced_pair(env, lambda port: arg + ['-p', port],
                           lambda port: arg + ['-p', port, env.a.ip4],
                           ('--sample', '10', '-e', 'wr', '--json', '-o'))
    with d:
        found = lines(files[1])
    n = requests(found)[('send', 'SEND', 'SUCCESS')]
    if not 2 <= n <= 110:
        raise Failure(f'{n} of 1000 requests')


def while_running(p, met):
    """Until a condition is met."""
    end = time.monotonic() + 20 * SLOW
    while not met():
        if time.monotonic() > end or not p.running():
            raise Failure(p.describe())
        time.sleep(0.01)


# KiB of a ring that records of requests may fill (tools/tracer/ring.h).
DATA_KIB = ((1 << 18) - 8192) * 32 // 1024


def waits_for_room(pid):
    """Its ring is full, and it sleeps: it polls otherwise."""
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        state = f.read().rsplit(')', 1)[1].split()[0]
    return ring_pages(pid) >= DATA_KIB and state == 'S'


def complete(env):
    """More requests than a ring holds.  The tool is stopped before the first of them,
    until the program waits for it: none is missing."""
    n = 1100000
    arg = ['ib_send_bw', '-d', 'urnic0', '-s', '64', '-n', n, '-F', '-p', env.port()]
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'trace')
        s = env.run(env.a, *arg)
        c = None
        try:
            s.wait_listen(arg[-1])
            s.signal(signal.SIGSTOP)
            c = start(env, env.b, ('-c', '-e', 'wr', '--block', '-o', path),
                      arg + [env.a.ip4])
            while_running(c, lambda: 'ib_send_bw' in thread_names(c.leaf()))
            os.kill(c.pid, signal.SIGSTOP)
            s.signal(signal.SIGCONT)
            while_running(c, lambda: waits_for_room(c.leaf()))
            os.kill(c.pid, signal.SIGCONT)
            said = ended(c)
            ended(s)
        finally:
            s.end()
            if c:
                c.end()
        text = open(path, encoding='ascii').read()
    if 'missing' in said or not re.search(rf' {n} +0  SEND', text):
        raise Failure(f'{said}{text}')


def counted(env):
    """-c on iWARP: the numbers of a program that says them."""
    arg = ['env', 'URNIC_DEVICES=urniw0', 'rping', '-C', N, '-a', env.a.ip4]
    d, files = traced_pair(env, lambda port: arg + ['-s', '-p', port],
                           lambda port: arg + ['-c', '-p', port], ('-c', '-o'),
                           'rdma_listen', ('--json', '-o'))
    with d:
        text = open(files[1], encoding='ascii').read()
        devices = [x['args']['context'] for x in lines(files[0])
                   if x.get('name') == 'ibv_alloc_pd']
    rows = {line.split()[5]: line.split() for line in text.splitlines()
            if len(line.split()) > 5}
    if int(rows['ibv_post_send'][3]) < 2 * N or int(rows['rdma_connect'][3]) != 1 \
            or 'rdma_get_cm_event' not in rows or devices != ['urniw0']:
        raise Failure(f'{devices} {text}')


def errors(env):
    """Calls that fail are shown with their error, and nothing else is."""
    p = start(env, env.a, ('-e', 'errors'), ['ibv_rc_pingpong', '-i', 9])
    try:
        text = ended(p, 1)
    finally:
        p.end()
    shown = [line for line in text.splitlines() if '(' in line and ' = ' in line]
    if not any('EINVAL (Invalid argument)' in line for line in shown):
        raise Failure(text)
    if any(' = 0 <' in line for line in shown):
        raise Failure(text)


def traced(env, options, argv):
    """The records of a program that needs no peer."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'trace')
        p = start(env, env.a, ('--json', *options, '-o', path), argv)
        try:
            if 'warning' in ended(p):
                raise Failure(p.describe())
        finally:
            p.end()
        return lines(path)


def opened(found):
    return {x['pid'] for x in found if x.get('name') == 'ibv_open_device'}


def forked(env):
    """The calls of parent and children, each with its number."""
    pids = opened(traced(env, ('-e', 'verbs'), [
        'sh', '-c', 'ibv_devinfo >/dev/null & ibv_devinfo; wait']))
    if len(pids) != 2:
        raise Failure(f'{pids}')


def forked_alone(env):
    """A child without exec has a ring of its own, and the parent goes on with its."""
    found = traced(env, (), [env.prog('after_fork'), '-n', 3])
    if len(opened(found)) != 4:
        raise Failure(f'{opened(found)}')
    pids = {x['pid'] for x in found if x.get('name') == 'ibv_post_send'}
    if len(pids) != 4:
        raise Failure(f'{pids}')


def threads(env):
    """Each of many threads has a ring, which is read to its end when it ends."""
    found = traced(env, ('-e', 'verbs,wr'), [env.prog('threads'), '-q', 200, '-n', 2])
    made = [x['tid'] for x in found if x.get('name') == 'ibv_create_cq']
    if len(made) != 201 or len(set(made)) != 201:
        raise Failure(f'{len(made)} calls of {len(set(made))} threads')
    n = sum(requests(found).values())
    if n != 200 * 2 * 2 + 200 * 2:
        raise Failure(f'{n} requests')


def run_inside(env):
    """What `urnic run` starts is traced too."""
    found = traced(env, ('-e', 'verbs'),
                   [env.urnic, 'run', '--', 'ibv_devinfo', '-d', 'urnic0'])
    if len(opened(found)) != 1:
        raise Failure(f'{opened(found)}')


def left(env):
    """A program outlives its tool, and the next tool removes what that has left."""
    pattern = r':(/\S+/trace-\w+)\n'
    with tempfile.TemporaryDirectory() as d:
        stay = os.path.join(d, 'stay')
        open(stay, 'w', encoding='ascii').close()
        p = start(env, env.a, (), [
            'sh', '-c', f'echo $URNIC_TRACE; while [ -e {stay} ]; do sleep 0.05; done; '
            'ibv_devinfo -d urnic0; echo status $?'])
        try:
            path = p.wait_text(pattern, 20).group(1)
            other = env.a.sh(env.urnic, 'trace', 'sh', '-c', 'echo $URNIC_TRACE')
            if not os.path.exists(path) or \
                    os.path.exists(re.search(pattern, other).group(1)):
                raise Failure(f'{path}, {other}')
            os.kill(p.pid, signal.SIGKILL)
            p.wait(20)
            env.a.sh(env.urnic, 'trace', 'true')
            if os.path.exists(path):
                raise Failure(f'{path} is there')
            os.unlink(stay)
            end = time.monotonic() + 20 * SLOW
            while not re.search('urnic0(.|\n)*status 0', p.text()):
                if time.monotonic() > end:
                    raise Failure(p.describe())
                time.sleep(0.02)
        finally:
            p.end()


def killed(env):
    """What a killed program has written is there, its last call too."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'trace')
        p = start(env, env.a, ('--json', '-o', path),
                  ['ibv_rc_pingpong', '-p', env.port(), '-g',
                   env.gid(env.a, 'v4')])
        r = start(env, env.a, ('--json', '-o', path + '2'),
                  ['rping', '-s', '-a', env.a.ip4, '-p', env.port()])
        try:
            for q, f, want in ((p, path, 'ibv_post_recv'),
                               (r, path + '2', 'rdma_listen')):
                wait_for(q, f, want)
                os.kill(q.leaf(), signal.SIGKILL)
                ended(q, 137)
        finally:
            p.end()
            r.end()
        if 'ibv_query_port' not in calls(lines(path)):
            raise Failure('no calls')
        if not any(x['type'] == 'unfinished' and
                   x['name'] == 'rdma_get_cm_event' for x in lines(path + '2')):
            raise Failure('the call that waited is not shown')


def attached(env):
    """A running process, three times: until SIGINT, until the tool is killed, and
    until the process is killed.  It does not notice."""
    arg = ['ib_send_bw', '-d', 'urnic0', '-s', 1 << 20, '-n', 10000000, '-N', '-e', '-F',
           '-p', env.port()]
    s = env.run(env.a, *arg)
    c = None
    with tempfile.TemporaryDirectory() as d:
        try:
            s.wait_listen(arg[-1])
            c = env.run(env.b, *arg, env.a.ip4)
            for i, end in enumerate((signal.SIGINT, signal.SIGKILL, None)):
                attach(env, c, os.path.join(d, f'trace{i}'), end)
        finally:
            s.end()
            if c:
                c.end()
        for i in (0, 2):
            found = lines(os.path.join(d, f'trace{i}'))
            if requests(found)[('send', 'SEND', 'SUCCESS')] < 10 or \
                    calls(found)['ibv_create_qp']:
                raise Failure(f'{i}: {requests(found)} {calls(found)}')


def attached_idle(env):
    """A process that only listens, on RoCE and on iWARP: what comes is traced."""
    for device in 'urnic0', 'urniw0':
        port = env.port()
        wrap = ['env', f'URNIC_DEVICES={device}']
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'trace')
            s = Proc(env.a.wrap([*wrap, env.urnic, 'run', '--', 'rping', '-s', '-C',
                                 '3', '-a', env.a.ip4, '-p', port]))
            t = None
            try:
                t = await_traced(env.a, env, s, path)
                c = Proc(env.b.wrap([*wrap, env.urnic, 'run', '--', 'rping', '-c', '-C',
                                     '3', '-a', env.a.ip4, '-p', port]))
                ended(c)
                ended(s)
                ended(t)
            finally:
                s.end()
                if t:
                    t.end()
            found = lines(path)
        names = calls(found)
        if names['rdma_accept'] != 1 or names['ibv_create_qp'] + \
                names['rdma_create_qp'] != 1 or \
                requests(found)[('send', 'RDMA_READ', 'SUCCESS')] != 3:
            raise Failure(f'{names} {requests(found)}')


def await_traced(host, env, process, path):
    """The tool, attached to a process, which may not have opened its device yet."""
    argv = [env.urnic, 'trace', '--json', '-o', path, str(process.leaf())]
    end = time.monotonic() + 20 * SLOW
    p = Proc(host.wrap(argv))
    while 'is traced' not in p.text():
        if time.monotonic() > end:
            raise Failure(p.describe())
        if not p.running():
            if 'no process' not in p.text() and 'no urnicd' not in p.text():
                raise Failure(p.describe())
            p = Proc(host.wrap(argv))
        time.sleep(0.02)
    return p


def ring_pages(pid):
    """KiB of rings that the process has mapped."""
    with open(f'/proc/{pid}/smaps', encoding='ascii') as f:
        rings = re.findall(r'memfd:urnic-trace .*?Rss: +(\d+)', f.read(), re.DOTALL)
    return sum(map(int, rings))


def attach(env, process, path, sig):
    """Attach to a process, and end the tool by a signal, or else the process."""
    p = await_traced(env.b, env, process, path)
    try:
        wait_for(p, path, 'ibv_get_cq_event')
        wait_for(p, path, 'ibv_wr_complete')
        wait_for(p, path, '"SUCCESS"', 10)
        if not sig:
            os.kill(process.leaf(), signal.SIGKILL)
            ended(p)
            return
        if sig == signal.SIGINT:
            other = Proc(env.b.wrap([env.urnic, 'trace', str(process.leaf())]))
            if 'is traced already' not in ended(other, 1):
                raise Failure(other.describe())
        os.kill(p.leaf(), sig)
        if p.wait(20) != 0 and sig == signal.SIGINT:
            raise Failure(p.describe())
        if sig == signal.SIGINT and ring_pages(process.leaf()):
            raise Failure('rings stay in memory')
    finally:
        p.end()


def ready(env, *argv):
    """A program of the device's events, behind others, which has opened it."""
    p = Proc(env.b.wrap(['env', *argv, env.prog('async')]))
    p.wait_text('ready', 20)
    return p


def declines(env, process, order, why):
    """The process says why it does not obey, and is as before."""
    p = Proc(env.b.wrap([env.urnic, *order[:1], str(process.leaf()), *order[1:]]))
    try:
        if f'process {process.leaf()}: {why}' not in ended(p, 1):
            raise Failure(p.describe())
    finally:
        p.end()
    if 'urnic-fault' in thread_names(process.leaf()):
        raise Failure(f'{order}: it has a thread for faults')


def mapped(pid):
    with open(f'/proc/{pid}/maps', encoding='ascii') as f:
        return f.read()


def thread_names(pid):
    names = ''
    for path in glob.glob(f'/proc/{pid}/task/*/comm'):
        try:
            with open(path, encoding='ascii') as f:
                names += f.read()
        except OSError:  # it has ended
            pass
    return names


def relative_path(env):
    """Its libraries were loaded by a path that may mean other files by now."""
    libs = libraries(env)
    p = ready(env, f'--chdir={libs}', 'LD_LIBRARY_PATH=.')
    try:
        declines(env, p, ('trace',),
                 'its libraries were loaded by a relative path')
    finally:
        p.end()


def libraries(env):
    shown = env.b.sh(env.urnic, 'run', '--env')
    return re.search('^LD_LIBRARY_PATH=([^:\n]+)', shown, re.MULTILINE)[1]


OTHER_GROUP = ('setpriv', '--rgid=65534', '--clear-groups')


def secure(env):
    """It has more rights than its user, as a group that is not the real one."""
    if os.environ.get('LD_PRELOAD'):
        raise Skip('a sanitizer is not preloaded in secure-execution mode')
    if not rights.quiet(*OTHER_GROUP, 'true'):
        raise Skip('this user may not change its group')
    libs = libraries(env)
    # urnicd runs, and stays for the first one: the second may not start it.
    p, q = ready(env, f'LD_LIBRARY_PATH={libs}'), None
    try:
        q = ready(env, *OTHER_GROUP, loader(p.leaf()), '--library-path', libs)
        for order in (('trace',), ('fault', 'drop=1%'), ('fault', '--clear'),
                      ('pcap', '-w', '/dev/null')):
            declines(env, q, order, 'it runs in secure-execution mode')
    finally:
        p.end()
        if q:
            q.end()


def loader(pid):
    return re.search(r'/\S+/ld-linux\S*', mapped(pid))[0]


def refusals(env):
    """What it does not do is said in one line; the status is the program's."""
    for args, text, code in (((), 'usage', 2), (('-e', 'x', 'true'), 'no call', 2),
                             (('--sample', '0', 'true'), 'not valid', 2),
                             (('1',), 'no process', 1),
                             (('--sample', '2', '1'), 'not of a running', 2),
                             (('/no/program',), 'No such file', 127),
                             (('/sbin/ldconfig', '-V'), 'is statically linked', 0),
                             (('true',), 'nothing was recorded', 0),
                             (('--merge', '/dev/null'), 'is no file', 1),
                             (('-o', '/dev/full', env.prog('memcheck')),
                              'No space left', 125),
                             (('sh', '-c', 'exit 3'), '', 3)):
        p = Proc(env.b.wrap([env.urnic, 'trace', *args]))
        try:
            if text not in ended(p, code):
                raise Failure(f'{args}: {p.describe()}')
        finally:
            p.end()


CASES = [
    Case('pingpong', pingpong),
    Case('rping', rping),
    Case('perfetto', perfetto),
    Case('sampled', sampled, far=False),
    Case('complete', complete, far=False),
    Case('counted', counted),
    Case('errors', errors, far=False),
    Case('forked', forked, far=False),
    Case('forked-alone', forked_alone, far=False),
    Case('threads', threads, far=False),
    Case('run-inside', run_inside, far=False),
    Case('left', left, far=False),
    Case('killed', killed, far=False),
    Case('attached', attached, far=False),
    Case('attached-idle', attached_idle, far=False),
    Case('relative-path', relative_path, far=False),
    Case('secure', secure, far=False),
    Case('refusals', refusals, far=False),
]
