# SPDX-License-Identifier: BSD-2-Clause
"""urnic run --fault, urnic fault: each fault is seen by the program, and counted."""

import glob
import ipaddress
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from harness.env import Case, Failure
from life.life import json_values, known, start
from life.watch import has_uid, rows, tool as on_client, until


def done(text):
    """What the log says was injected, by kind."""
    return {k: int(n)
            for k, n in re.findall(r'fault: ([-\w]+): (\d+) injected', text)}


def faulty(env, spec, argv):
    return ['env', 'URNIC_LOG=info', env.urnic, 'run', '--fault', spec,
            '--', *argv]


def pair(env, spec, args='-c -n 300', good=True):
    """A ping-pong whose client has faults; its output."""
    port = env.port()
    base = ['ibv_rc_pingpong', '-p', port, *args.split()]
    s, c = env.pair(base + ['-g', env.gid(env.a, 'v4')],
                    faulty(env, spec, base + ['-g', env.gid(env.b, 'v4'),
                                              env.a.ip4]),
                    port=port, timeout=60, wait=False)
    try:
        code = c.wait(60)
        if good and (code or s.wait(20)):
            raise Failure(f'{s.describe()} {c.describe()}')
        if not good and not code:
            raise Failure(f'no failure: {c.describe()}')
        return c.text()
    finally:
        s.end()
        c.end()


def repaired(spec, *kinds):
    def run(env):
        n = done(pair(env, spec + ',seed=7'))
        if set(n) != set(kinds):
            raise Failure(f'{n} instead of {kinds}')
    return run


def counted(env):
    n = done(pair(env, 'drop=5'))
    if n != {'drop': 5}:
        raise Failure(f'{n} instead of 5')


def alone(env, spec, prog, *args):
    """A program without a peer, which succeeds; its output."""
    p = env.run(env.a, *faulty(env, spec, [env.prog(prog), *args]))
    if p.wait(60):
        raise Failure(p.describe())
    return p.text()


def early(text):
    """Sends that were seen before their receives."""
    return int(re.search(r'(\d+) of \d+ sends before', text)[1])


def late_cq(*args):
    """Between queues the order changes; in each it does not, and no event is lost."""
    def run(env):
        if early(alone(env, 'none', 'late_cq', *args)):
            raise Failure('in another order without the fault')
        text = alone(env, 'late-cq=500us@20%,seed=7', 'late_cq', *args)
        if not early(text) or set(done(text)) != {'late-cq'}:
            raise Failure(text)
    return run


def recorded(env, pid, what):
    """Faults without packets are in the flight recorder."""
    text = on_client(env, 'explain', '--json', '--events', pid).stdout
    if not any(v['what'].startswith(what) for v in json.loads(text)['verdicts']):
        raise Failure(f'not recorded: {what}\n{text}')


def late_device(env):
    """Not of another device, until a running program gets the fault."""
    text = alone(env, 'late-cq=1ms/device=urniw0', 'late_cq')
    if early(text) or done(text):
        raise Failure(text)
    s, c = start(env, 'stream', '-n 0')
    c.wait_text('running', 20)
    pid = c.leaf()
    on_client(env, 'fault', pid, 'late-cq=1ms@50%,seed=1')
    until('late completions', lambda: counted_by(env, pid, 'late-cq=1ms@50%') > 20)
    if path_of(env, pid) == {'sockets'}:
        raise Failure('it has left shared memory')
    recorded(env, pid, 'the fault late-cq delayed')
    on_client(env, 'fault', pid, '--clear')
    if in_force(env, pid)['done']['late-cq'] <= 20 or not c.running():
        raise Failure(f'{in_force(env, pid)} {c.describe()}')
    # It has lost no completion, so it goes on.
    on_client(env, 'fault', pid, 'late-cq=1us@50%,seed=1')
    until('more of them', lambda: counted_by(env, pid, 'late-cq=1us@50%') > 20)
    s.end()
    c.end()


def forked(env):
    """The program notices nothing of its children."""
    text = alone(env, 'fork=3ms@5%,seed=7', 'forked')
    if done(text).get('fork', 0) < 20 or \
            text.count('exit handler of the program') != 1:
        raise Failure(text)


def forked_pair(wire):
    """Data of all kinds of requests, both sides of which fork."""
    def run(env):
        port = env.port()
        base = ['env', 'URNIC_SHM=0'] if wire else ['env']
        argv = [env.prog('verify'), '-p', port, '-s', '20000', '-n', '200']
        s, c = env.pair(*[base + faulty(env, f'fork=5ms@3%,seed={n}', argv + more)
                          for n, more in
                          ((1, ['-g', env.gid(env.a, 'v4')]),
                           (2, ['-g', env.gid(env.b, 'v4'), env.a.ip4]))],
                        port=port, timeout=60, wait=False)
        for p in (c, s):
            if p.wait(60) or set(done(p.text())) != {'fork'}:
                raise Failure(s.describe() + c.describe())
    return run


def children(pid):
    """Of all its threads; none once it has ended."""
    found = []
    for path in glob.glob(f'/proc/{pid}/task/*/children'):
        try:
            with open(path, encoding='ascii') as f:
                found += f.read().split()
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def forked_killed(env):
    """A child that lives on keeps nothing of a killed program open."""
    s, c = start(env, 'stream', '-n 0')
    c.wait_text('running', 20)
    pid = c.leaf()
    on_client(env, 'fault', pid, 'fork=900s@50%,seed=1')
    until('a child that lives',
          lambda: (first := children(pid)) and not time.sleep(.1) and
          first == children(pid))
    recorded(env, pid, 'the fault fork called fork()')
    between, = children(pid)
    os.kill(pid, signal.SIGKILL)
    until('its end', lambda: not os.path.exists(f'/proc/{between}'))
    s.end()
    c.end()


def refused(env):
    text = pair(env, 'nak=access:3', good=False)
    if 'remote access error' not in text or done(text) != {'nak': 1}:
        raise Failure(text)


def cut_off(env):
    """Retries end; those of the pingpong take 14 * 4.096 us * 2^14."""
    text = pair(env, 'partition/send/out', good=False)
    if 'transport retry counter exceeded' not in text:
        raise Failure(text)


def healed(env):
    """No packet passes at first, so the client outlives the partition."""
    with tempfile.NamedTemporaryFile('w') as f:
        f.write('0 partition\n300ms none  # it heals\n')
        f.flush()
        os.chmod(f.name, 0o644)
        text = pair(env, '@' + f.name)
    if 'fault: in force: none' not in text:
        raise Failure(text)


def killed(env):
    pair(env, 'kill:50', good=False)


def fails(spec, message):
    def run(env):
        text = pair(env, spec, good=False)
        if message not in text or done(text) != {'fail': 1}:
            raise Failure(f'not "{message}": {text}')
    return run


def tool(env, *argv):
    p = subprocess.run([env.urnic, 'run', *argv], capture_output=True,
                       text=True, check=False, timeout=60)
    return p.returncode, p.stdout, p.stderr


def wrong(env):
    code, _, text = tool(env, '--fault', 'dorp=1%', '--', 'true')
    if code != 2 or text.count('\n') != 1 or \
            '"dorp" is no fault: drop,' not in text:
        raise Failure(f'{code}: {text}')
    code, _, text = tool(env, '--chaos', '0', '--', 'true')
    if code != 2 or text != 'urnic: "0" is no number from 1 to 1000000\n':
        raise Failure(f'{code}: {text}')
    code, _, text = tool(env, '--fault', 'drop=1%', '--chaos', '3', '--',
                         'true')
    if code != 2 or 'only one of --fault, --chaos' not in text:
        raise Failure(f'{code}: {text}')


def chaos(env):
    """The faults that broke the program are found, and come again."""
    code, _, text = tool(env, '--chaos', '20', '--', 'sh', '-c',
                         'case $URNIC_FAULT in *drop*) exit 3; esac')
    m = re.search("ended with status 3 with --fault '(.*)'; --chaos-seed "
                  r'(\d+) ', text)
    if code != 1 or not m:
        raise Failure(f'{code}: {text}')
    code, out, _ = tool(env, '--chaos-seed', m[2], '--', 'sh', '-c',
                        'echo $URNIC_FAULT')
    if code or out.strip() != m[1]:
        raise Failure(f'{out} instead of {m[1]}')


def chaos_survived(env):
    code, _, text = tool(env, '--chaos', '1', '--', 'true')
    if code or 'none broke the program' not in text:
        raise Failure(f'{code}: {text}')
    code, _, text = tool(env, '--chaos', '1', '--', 'false')
    if code != 2 or 'fails without faults' not in text:
        raise Failure(f'{code}: {text}')


def gone(pid):
    """Killed; it may be some time until it is no more."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            with open(f'/proc/{pid}/stat', encoding='ascii') as f:
                if f.read().rsplit(')', 1)[1].split()[0] == 'Z':
                    return
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(.01)
    raise Failure(f'process {pid} is left')


def started(path):
    """The number that a program has written to the file, which was empty."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with open(path, encoding='ascii') as f:
            line = f.read()
        if line.endswith('\n'):
            return int(line)
        time.sleep(.01)
    raise Failure('the program was not started')


# Ends without faults; with some it does not, nor does what it has started.
SLEEPER = 'test "$URNIC_FAULT" || exit 0; sleep 1000 & echo $! >{0}; wait'


def chaos_ends(env):
    """Cut off at the end, and nothing is left of what the program started."""
    with tempfile.NamedTemporaryFile() as f:
        code, _, text = tool(env, '--chaos', '1', '--', 'sh', '-c',
                             SLEEPER.format(f.name))
        if code or ' 0 runs with faults, none broke' not in text:
            raise Failure(f'{code}: {text}')
        gone(started(f.name))


def chaos_interrupted(env):
    with tempfile.NamedTemporaryFile() as f:
        with subprocess.Popen([env.urnic, 'run', '--chaos', '1000', '--', 'sh',
                               '-c', SLEEPER.format(f.name)]) as p:
            pid = started(f.name)
            p.send_signal(signal.SIGTERM)
            if p.wait(20) != -signal.SIGTERM:
                raise Failure(f'exit code {p.returncode}')
        gone(pid)


def stream(spec, *kinds, good=True, lines=None, jitter=0):
    """rping on iWARP, whose client has faults of its TCP stream.  `jitter`, in
    seconds: one piece is late at a time, so all take their sum."""
    def run(env):
        port = env.port()
        base = ['env', 'URNIC_RDMACM_DEVICE=urniw0', 'rping', '-V', '-C',
                '200', '-p', port, '-a', env.a.ip4]
        with tempfile.NamedTemporaryFile('w') as f:
            f.write(lines or '')
            f.flush()
            os.chmod(f.name, 0o644)
            s, c = env.pair(base + ['-s'],
                            faulty(env, spec or '@' + f.name, base + ['-c']),
                            port=port, timeout=60, wait=False)
            begin = time.monotonic()
            code = c.wait(60)
            took = time.monotonic() - begin
        n = done(c.text())
        if jitter and took < n['jitter'] * jitter / 3:
            raise Failure(f'{n["jitter"]} times up to {jitter} s in {took} s')
        # rping ends with 0 when it is disconnected, too.
        if set(n) != set(kinds) or code or s.wait(20) or \
                good == bool(re.search('wait for .* state', c.text())):
            raise Failure(f'{n} {s.describe()} {c.describe()}')
        s.end()
        c.end()
    return run


# --- running processes ---

def path_of(env, pid):
    return {r['path'] for r in rows(env, '-v', 'qps', '-p', pid)}


def in_force(env, pid):
    """What urnic show --json has of a process, as urnic fault prints it."""
    doc = json.loads(on_client(env, 'fault', '--json', pid).stdout)
    if doc['schema'] != 1 or len(doc['processes']) != 1:
        raise Failure(f'{doc}')
    return doc['processes'][0]['faults']


def counted_by(env, pid, fault):
    """Faults injected by that rule, once there are some."""
    for r in in_force(env, pid)['rules']:
        if r['fault'] == fault:
            return r['done']
    raise Failure(f'{fault} is not in force: {in_force(env, pid)}')


def running(env):
    """A stream through shared memory, which compares each byte, gets faults on
    either side and loses them again."""
    s, c = start(env, 'stream', '-n 0')
    c.wait_text('running', 20)
    until('shared memory', lambda: path_of(env, c.leaf()) == {'direct'})
    for p in (c, s):
        pid = p.leaf()
        said = on_client(env, 'fault', pid, 'drop=1%,seed=7').stdout
        if said != f'process {pid} (stream): drop=1%,seed=7\n':
            raise Failure(said)
        until('drops', lambda: counted_by(env, pid, 'drop=1%') > 20)
        if path_of(env, c.leaf()) != {'sockets'}:
            raise Failure(f'still there: {path_of(env, c.leaf())}')
        on_client(env, 'fault', pid, '--clear')
        if in_force(env, pid)['spec'] != 'none':
            raise Failure(f'{in_force(env, pid)}')
        until('shared memory', lambda: path_of(env, c.leaf()) == {'direct'})
    if not c.running():
        raise Failure(c.describe())
    s.end()
    c.end()


def channels(env, pid):
    doc = json.loads(on_client(env, 'show', '--json').stdout)
    report = next(p['report'] for p in doc['processes'] if p['pid'] == pid)
    return [c for k in json_values(report, 'channels') for c in k]


def peer_killed(env):
    """What shared memory has of a peer ends with it, while faults are in force."""
    s, c = start(env, 'stream', '-M idle')
    c.wait_text('idle', 20)
    pid = c.leaf()
    until('a channel', lambda: channels(env, pid))
    on_client(env, 'fault', pid, 'drop=1')
    os.kill(s.leaf(), signal.SIGKILL)
    until('its end', lambda: not channels(env, pid))
    s.end()
    c.end()


def cleared(env):
    """Faults since the start of the process: it comes to shared memory after them."""
    port = env.port()
    base = [env.prog('stream'), '-n', '0', '-p', port]
    s, c = env.pair(base + ['-g', env.gid(env.a, 'v4')],
                    faulty(env, 'delay=10us,seed=1', base +
                           ['-g', env.gid(env.b, 'v4'), env.a.ip4]),
                    port=port, wait=False)
    c.wait_text('running', 20)
    pid = c.leaf()
    until('delays', lambda: counted_by(env, pid, 'delay=10us') > 20)
    if path_of(env, pid) != {'sockets'} or channels(env, pid):
        raise Failure(f'{path_of(env, pid)} {channels(env, pid)}')
    on_client(env, 'fault', pid, '--clear')
    until('shared memory', lambda: path_of(env, pid) == {'direct'})
    if not c.running():
        raise Failure(c.describe())
    s.end()
    c.end()


def verified(env):
    """Requests of all kinds and both directions, while faults come and go."""
    s, c = start(env, 'verify', '-s 20000 -n 4000')
    pids = [p.leaf() for p in (s, c)]
    n = 0
    while c.running() and s.running():
        for pid in pids:
            p = subprocess.run(
                env.b.wrap([env.urnic, 'fault', str(pid)]
                           + (['--clear'] if n & 2 else
                              [f'drop=0.5%,reorder=1%,seed={n}'])),
                capture_output=True, text=True, check=False, timeout=60)
            n += p.returncode == 0
    if c.wait(60) or s.wait(60):
        raise Failure(s.describe() + c.describe())
    if n < 4:
        raise Failure(f'{n} orders')


def restricted(env):
    """To a device, a peer, the lines of a file."""
    s, c = start(env, 'stream', '-n 0', wire=True)
    c.wait_text('running', 20)
    pid = c.leaf()
    # Of the device: its first one need not be the one that TCP uses.
    gid = dict(env.gids(env.a))[env.gid(env.a, 'v4')]
    peer = str(ipaddress.ip_address(gid).ipv4_mapped)
    with tempfile.NamedTemporaryFile('w') as f:
        f.write('0 delay=10us,seed=1\n50ms drop=3\n')
        f.flush()
        os.chmod(f.name, 0o644)
        said = on_client(env, 'fault', pid, '@' + f.name).stdout
    if 'process' not in said or '\n0 delay=10us,seed=1\n50000000ns drop=3,' \
            not in said:
        raise Failure(said)
    until('the second line', lambda: in_force(env, pid)['done']['drop'] == 3)
    said = on_client(env, 'fault', '--device', 'urnic0', '--peer', peer,
                     'drop=2,seed=1').stdout
    rule = f'drop=2/device=urnic0/peer={peer}'
    if f'process {pid} (stream): {rule},seed=1\n' not in said:
        raise Failure(said)
    until('drops', lambda: counted_by(env, pid, rule) == 2)
    on_client(env, 'fault', pid, '--device', 'other', '--peer', '192.0.2.77',
              'drop=100%')
    time.sleep(.1)
    if in_force(env, pid)['rules'][0]['seen']:
        raise Failure(f'{in_force(env, pid)}')
    shown = on_client(env, 'fault').stdout
    if 'drop=100%/device=other/peer=192.0.2.77' not in shown or \
            ' 0 of 0\n' not in shown:
        raise Failure(shown)
    on_client(env, 'fault', '--clear')
    if in_force(env, pid)['spec'] != 'none' or not c.running():
        raise Failure(f'{in_force(env, pid)}')
    s.end()
    c.end()


def device_states(env):
    """The events of a port, its addresses and the device, as they go and come."""
    w = env.run(env.b, env.prog('async'))
    w.wait_text('ready', 20)
    pid = w.leaf()
    for fault, event, back in (('port-down', 'port error', 'port active'),
                               ('no-address', 'GID table change',
                                'GID table change'),
                               ('remove', 'device fatal', None)):
        seen = len(w.text())
        on_client(env, 'fault', pid, fault)
        until(event, lambda: event in w.text()[seen:])
        if bool(counted_by(env, pid, fault)) != (fault == 'remove'):
            raise Failure(f'{in_force(env, pid)}')
        seen = len(w.text())
        on_client(env, 'fault', pid, '--clear')
        if back:
            until(back, lambda: back in w.text()[seen:])
    w.end()


def port_down(env):
    """No packet passes either."""
    s, c = start(env, 'stream', '-n 0')
    c.wait_text('running', 20)
    on_client(env, 'fault', '--device', 'urnic0', 'port-down')
    if c.wait(60) != 3 or 'error 12 ' not in c.text():
        raise Failure(c.describe())
    s.end()
    c.end()


def overrun(env):
    s, c = start(env, 'stream', '-n 0')
    c.wait_text('running', 20)
    pid = c.leaf()
    on_client(env, 'fault', pid, 'overrun')

    def failed():
        doc = json.loads(on_client(env, 'show', '--json').stdout)
        report = next(p['report'] for p in doc['processes']
                      if p['pid'] == pid)
        return 'ERR' in set(json_values(report, 'state')) and \
            True in set(json_values(report, 'overrun'))
    until('an overrun', failed)
    if counted_by(env, pid, 'overrun') != 1:
        raise Failure(f'{in_force(env, pid)}')
    s.end()
    c.end()


def daemon_killed(env):
    """Programs go on, and start the next one."""
    s, c = start(env, 'stream', '-n 0')
    c.wait_text('running', 20)
    pid = c.leaf()

    def daemon():
        try:
            return json.loads(on_client(env, 'show', '--json').stdout)['daemon']
        except Failure:  # it dies while it is asked
            return None
    before = daemon()['pid']
    on_client(env, 'fault', pid, 'kill-urnicd')
    until('another urnicd', lambda: (daemon() or {'pid': before})['pid']
          != before and pid in known(env, env.b))
    if in_force(env, pid)['done']['kill-urnicd'] != 1 or not c.running():
        raise Failure(f'{in_force(env, pid)} {c.describe()}')
    s.end()
    c.end()


def not_given(env):
    """Each reason in one line."""
    s, c = start(env, 'stream', '-M idle')
    pid = str(c.leaf())
    c.wait_text('idle', 20)
    for args, status, text in (
            (['999999999', 'drop=1%'], 1, 'no process 999999999 uses urnic'),
            (['999999999'], 1, 'no process 999999999 uses urnic'),
            ([pid, 'dorp=1%'], 2, '"dorp" is no fault: drop,'),
            ([pid, '@/nonexistent'], 2, '/nonexistent: No such file'),
            (['drop=1%'], 2, '"drop=1%": in which process?'),
            ([pid, 'drop=1%', 'x'], 2, 'no argument "x"'),
            ([pid, '--clear', 'drop=1%'], 2, '--clear ends all faults'),
            ([pid, '--device', 'd'], 2, 'which faults?'),
            (['--peer', 'x', 'drop=1%'], 2, 'an address of IPv4 or IPv6'),
            ([pid, '--peer', '::1', 'fail=reg_mr'], 2, '"/peer=::1" does not select what fail acts on'),
            ([pid, '--json', 'drop=1%'], 2, '--json shows faults')):
        p = on_client(env, 'fault', *args, want=status)
        if text not in p.stderr or p.stderr.count('\n') != 1 or p.stdout:
            raise Failure(f'{args}: {p}')

    def in_force_again():
        doc = json.loads(on_client(env, 'fault', '--json', pid).stdout)
        # It may be too late with its answer at first.
        return doc['processes'] and \
            doc['processes'][0]['faults']['spec'] != 'none'
    c.signal(signal.SIGSTOP)
    p = on_client(env, 'fault', pid, 'drop=1%', want=1)
    if 'does not answer (stopped?)' not in p.stderr:
        raise Failure(f'{p}')
    c.signal(signal.SIGCONT)
    until('in force', in_force_again)
    if os.geteuid() == 0 and has_uid(65534):
        p = subprocess.run(
            env.b.wrap(['setpriv', '--reuid=65534', '--regid=65534',
                        '--clear-groups', env.urnic, 'fault', pid, 'kill']),
            capture_output=True, text=True, check=False)
        if p.returncode != 1 or "it is another user's" not in p.stderr:
            raise Failure(f'as another user: {p}')
    s.end()
    c.end()


CASES = [
    Case('drop', repaired('drop=2%', 'drop')),
    Case('corrupt', repaired('corrupt=2%', 'corrupt')),
    Case('retries', cut_off),
]
CASES += [Case(name, fn, far=False) for name, fn in (
    ('running', running),
    ('drop-count', counted),
    ('drop-acks', repaired('drop=10%/ack', 'drop')),
    ('lost-ack', repaired('lost-ack=10%', 'lost-ack')),
    ('duplicate-reorder', repaired('duplicate=5%,reorder=5%', 'duplicate',
                                   'reorder')),
    ('delay-jitter', repaired('delay=100us,jitter=100us', 'delay', 'jitter')),
    ('rate', repaired('rate=1Gbit', 'rate')),
    ('slow', repaired('slow=1ms@1%', 'slow')),
    ('rnr', repaired('rnr=5', 'rnr')),
    ('nak-sequence', repaired('nak=sequence@5', 'nak')),
    ('nak-access', refused),
    ('kill', killed),
    ('fail-reg-mr', fails('fail=reg_mr:1', "Couldn't register MR")),
    ('fail-create-qp', fails('fail=create_qp', "Couldn't create QP")),
    ('fail-post-send', fails('fail=post_send:3', "Couldn't post send")),
    ('chaos', chaos),
    ('chaos-survived', chaos_survived),
    ('chaos-ends', chaos_ends),
    ('chaos-interrupted', chaos_interrupted),
    ('partition-heals', healed),
    ('iwarp-late', stream('delay=100us@50%,jitter=100us,seed=7', 'delay',
                          'jitter')),
    ('iwarp-jitter', stream('jitter=900us,seed=7', 'jitter', jitter=900e-6)),
    ('iwarp-rate', stream('rate=100Mbit,slow=1ms@2%,seed=7', 'rate', 'slow')),
    ('iwarp-corrupt', stream('corrupt:40/in', 'corrupt', good=False)),
    ('iwarp-corrupt-sent', stream('corrupt:40/out', 'corrupt', good=False)),
    ('iwarp-reset', stream('reset:40/out', 'reset', good=False)),
    ('iwarp-reset-read', stream('reset:40/in', 'reset', good=False)),
    ('iwarp-heals', stream('', 'partition', 'delay', lines=
                           '0 delay=1ms\n50ms partition\n250ms none\n')),
    ('late-cq', late_cq()),
    ('late-cq-events', late_cq('-M', 'events')),
    ('late-cq-device', late_device),
    ('late-cq-iwarp', stream('late-cq=500us@20%,seed=7', 'late-cq')),
    ('forked', forked),
    ('forked-shm', forked_pair(False)),
    ('forked-by-wire', forked_pair(True)),
    ('forked-killed', forked_killed),
    ('forked-iwarp', stream('fork=3ms@5%,seed=7', 'fork')),
    ('verified', verified),
    ('peer-killed', peer_killed),
    ('cleared', cleared),
    ('restricted', restricted),
    ('not-given', not_given),
    ('device-states', device_states),
    ('port-down', port_down),
    ('overrun', overrun),
    ('daemon-killed', daemon_killed),
    ('wrong', wrong))]
