# SPDX-License-Identifier: BSD-2-Clause
"""urnic pcap: what tshark reads from captures of one transfer."""

import json
import os
import signal
import subprocess
import tempfile
import time

from harness.env import Case, Failure
from harness.proc import SLOW, Proc, Skip
from life.watch import tool as on_client
from netns import pcap

FIELDS = ('infiniband.bth.opcode', 'infiniband.bth.psn', 'frame.len')


def tshark(path, *args):
    """Lines that tshark prints of a capture."""
    try:
        done = subprocess.run(['tshark', '-n', '-r', path, *args], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
    except FileNotFoundError:
        raise Skip('tshark is not installed') from None
    if done.returncode:
        raise Failure(f'tshark: {done.stderr}')
    return done.stdout.splitlines()


def fields(path, *names, only=None):
    args = ['-T', 'fields'] + [x for n in names for x in ('-e', n)]
    return [line.split('\t')
            for line in tshark(path, *args, *(['-Y', only] if only else []))]


class Transfer:
    """captured.c on both sides, which begins when go() is called."""

    def __init__(self, env, wire, args=()):
        self.dir = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.dir.name, 'go')
        port = env.port()
        base = ['env', 'URNIC_SHM=0'] if wire else ['env']
        base += [env.prog('captured'), '-p', port, '-M', self.file, *args]
        self.server, self.client = env.pair(
            base + ['-g', env.gid(env.a, 'v4')],
            base + ['-g', env.gid(env.b, 'v4'), env.a.ip4], port=port,
            wait=False)
        self.client.wait_text(r'qpn (\d+)', 20)
        self.server.wait_text(r'qpn (\d+)', 20)

    def qpn(self):
        return int(self.client.wait_text(r'qpn (\d+)', 1)[1])

    def go(self):
        with open(self.file, 'w', encoding='ascii'):
            pass

    def finish(self):
        if self.client.wait(60) or self.server.wait(60):
            raise Failure(self.client.describe() + self.server.describe())

    def end(self):
        self.client.end()
        self.server.end()
        self.dir.cleanup()


class Capture:
    """The tool, on the client's host, once the process is captured.  Without a path
    lines of JSON."""

    def __init__(self, env, path, *args):
        self.path = path
        to = ['-w', path] if path else ['--json']
        self.p = Proc(env.b.wrap([env.urnic, 'pcap', *to, *args]))

    def begun(self, env, pid):
        """The ring is mapped there."""
        maps = f'/proc/{pid}/maps'
        end = time.monotonic() + 20 * SLOW
        while 'urnic-capture' not in open(maps, encoding='ascii').read():
            if not self.p.running() or time.monotonic() > end:
                raise Failure(f'no capture: {self.p.describe()}')
            time.sleep(0.01)

    def finish(self):
        if self.p.wait(60):
            raise Failure(self.p.describe())
        return self.p.text()


def captured(env, path, wire, *args, options=()):
    """A transfer and a capture of its client; its QP number, what the tool says."""
    t = Transfer(env, wire, args)
    try:
        pid = t.client.leaf()
        c = Capture(env, path, str(pid), *options)
        c.begun(env, pid)
        t.go()
        t.finish()
        return t.qpn(), c.finish()
    finally:
        t.end()


def check_frames(path):
    """No frame is malformed, and every ICRC is right."""
    bad = tshark(path, '-Y', '_ws.malformed || _ws.expert.severity >= 8388608')
    if bad:
        raise Failure('malformed: ' + '\n'.join(bad[:5]))
    n = 0
    for frame in pcap.packets(path):
        parts = pcap.roce(frame)
        if not parts:
            continue
        n += 1
        if not pcap.icrc_right(*parts):
            raise Failure(f'the ICRC of packet {n} is wrong: {frame.hex()}')
    if not n:
        raise Failure('there are no packets')


# Bytes of Ethernet, IPv4, UDP, BTH and ICRC, and of what stands behind the BTH.
HEADERS = 14 + 20 + 8 + 12 + 4
EXTENDED = {0x06: 16, 0x0a: 16, 0x0d: 4, 0x0f: 4, 0x10: 4}
KINDS = {'SEND': (0x00, 0x01, 0x02, 0x04), 'WRITE': (0x06, 0x07, 0x08, 0x0a),
         'READ': (0x0c,), 'data': (0x0d, 0x0e, 0x0f, 0x10), 'old': (0x12,),
         'swap': (0x13,), 'add': (0x14,)}
ENDS = (0x02, 0x04, 0x08, 0x0a, 0x0c, 0x0f, 0x10, 0x12, 0x13, 0x14)
AGAIN = ('retransmission', 'dropped: ', 'duplicate')


def messages(path):
    """[(kind, bytes)] of a capture, requests first.  A packet without a comment
    that it was sent again has a PSN of its own.  Two urnics on sockets cut a long
    message into packets above the path MTU, so those are not counted."""
    requests, answers, acks, repeats = {}, {}, 0, []
    for op, psn, length, pad, comment in fields(
            path, *FIELDS, 'infiniband.bth.padcnt', 'frame.comment'):
        if not op:
            continue
        op, psn = int(op, 0), int(psn, 0)
        kind = [k for k, ops in KINDS.items() if op in ops]
        acks += op == 0x11
        if not kind:
            continue
        to = answers if kind[0] in ('data', 'old') else requests
        if comment.startswith(AGAIN):
            if to is requests:
                repeats.append(psn)
            continue
        if psn in to and not (to is answers and
                              any((psn - x) % 2**24 < 64 for x in repeats)):
            raise Failure(f'{path}: PSN {psn} comes twice: '
                          f'{fields(path, *FIELDS, "frame.comment")}')
        size = int(length) - HEADERS - EXTENDED.get(op, 0) - int(pad, 0)
        to[psn] = (kind[0], op, size)
    if not acks:
        raise Failure('there is no ACK')
    found = []
    for part in requests, answers:
        total, first = 0, next(iter(part))
        for psn in sorted(part, key=lambda x: (x - first) % 2**24):
            kind, op, size = part[psn]
            if kind in ('SEND', 'WRITE', 'data'):
                total += size
            if op in ENDS:
                found.append((kind, total))
                total = 0
    return found


def alike(env):
    """The same transfer by sockets and by shared memory."""
    with tempfile.TemporaryDirectory() as d:
        by_wire, by_shm = (os.path.join(d, x) for x in ('wire', 'shm'))
        captured(env, by_wire, True)
        captured(env, by_shm, False)
        check_frames(by_wire)
        check_frames(by_shm)
        wire, shm = messages(by_wire), messages(by_shm)
        if wire != shm or len(wire) != 28:
            raise Failure(f'not alike: {wire} and {shm}')
        marked = fields(by_shm, 'frame.comment', only='frame.comment')
        if not any('shared memory' in x[0] for x in marked):
            raise Failure(f'none went through shared memory: {marked[:3]}')


def lossy(env):
    """Packets are lost: what was sent again and what was dropped says so."""
    env.place.real_packets()
    env.place.lose(10)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'lossy')
        captured(env, path, True, '-n', '20')
        check_frames(path)
        said = {x[0] for x in fields(path, 'frame.comment',
                                     only='frame.comment')}
        if 'retransmission' not in said:
            raise Failure(f'no packet was sent again: {said}')


def injected(env):
    """A comment says what a fault did to a packet, also to one that was dropped."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'injected')
        t = Transfer(env, False, ('-n', '20'))
        try:
            pid = t.client.leaf()
            on_client(env, 'fault', pid, 'drop:9/out,drop:9/in,duplicate:20/in,'
                      'delay=100us:30/out,reorder:40/in')
            c = Capture(env, path, str(pid))
            c.begun(env, pid)
            t.go()
            t.finish()
            c.finish()
        finally:
            t.end()
        check_frames(path)
        said = [x[0] for x in fields(path, 'frame.comment',
                                     only='frame.comment')]
        for text, n in (('injected: dropped by fault', 2),
                        ('injected: a second copy by fault', 1),
                        ('injected: delayed by fault', 2)):
            got = sum(x.startswith(text) for x in said)
            if got != n:
                raise Failure(f'{got} times "{text}": {said}')
        if not any(x.startswith('retransmission') for x in said):
            raise Failure(f'nothing was sent again: {said}')


def by_qp(env):
    """Of two queue pairs the packets of one, in both directions."""
    with tempfile.TemporaryDirectory() as d:
        path, other = os.path.join(d, 'one'), os.path.join(d, 'none')
        t = Transfer(env, True)
        try:
            pid = str(t.client.leaf())
            c = Capture(env, path, pid, '--qp', hex(t.qpn()))
            c.begun(env, pid)
            t.go()
            t.finish()
            c.finish()
        finally:
            t.end()
        qpns = {int(x[0], 0)
                for x in fields(path, 'infiniband.bth.destqp') if x[0]}
        if t.qpn() not in qpns or len(qpns) != 2:
            raise Failure(f'of queue pair {t.qpn()}: {qpns}')
        captured(env, other, True, options=('--qp', '0x3fffff'))
        if tshark(other):
            raise Failure('packets of a queue pair that there is not')


LENGTHS = (13, 64, 1024, 5000, 20000, 100000)
ANSWER = 'RC RDMA READ response'
MESSAGES = ('RC SEND', 'RC RDMA WRITE', ANSWER)


def lines(text, device):
    """The packets of lines of JSON, with a start and an end around them."""
    found = [json.loads(x) for x in text.splitlines()]
    start, *packets, end = found
    if start['type'] != 'start' or start['schema'] != 1 or \
            {p['type'] for p in packets} != {'packet'} or \
            (end['type'], end['schema'], end['packets'], end['processes'],
             end['lost']) != ('end', 1, len(packets), 1, 0):
        raise Failure(f'{start} {end}, {len(packets)} packets')
    if len(str(start['realtime_ns'])) != 19:
        raise Failure(f'{start}')
    last = packets[0]['t_ns'] if packets else 0
    for p in packets:
        if p['device'] != device or p['t_ns'] < last or not p['pid'] or not p['comm']:
            raise Failure(f'{p}')
        last = p['t_ns']
    return packets


def json_lines(wire):
    """Each packet of a transfer; requests leave, acknowledgements come."""
    def run(env):
        qpn, text = captured(env, None, wire)
        total, psns = dict.fromkeys(MESSAGES, 0), set()
        packets = lines(text, 'urnic0')
        for p in packets:
            if p.get('comment', '').startswith(AGAIN):
                continue
            kind = next((k for k in MESSAGES if p['opcode'].startswith(k)), '')
            sent = p['direction'] == 'out'
            if p['protocol'] != 'roce' or kind and sent == (kind == ANSWER) or \
                    (p['dest_qp'] == qpn) == sent or p.get('qp', qpn) != qpn or \
                    'Acknowledge' in p['opcode'] and 'syndrome' not in p:
                raise Failure(f'{qpn}: {p}')
            if kind and (kind, p['psn']) not in psns:
                total[kind] += p['length']
            psns.add((kind, p['psn']))
        if set(total.values()) != {sum(LENGTHS)} or \
                wire == any('shared memory' in p.get('comment', '') for p in packets):
            raise Failure(f'{total}: {packets[:5]}')
    return run


def json_end(env):
    """With a file the last line alone."""
    with tempfile.NamedTemporaryFile() as f:
        _, text = captured(env, f.name, False, options=('--json',))
        end = json.loads(text)
        n = len(list(pcap.packets(f.name)))
    if not n or end != {'type': 'end', 'schema': 1, 'packets': n,
                        'processes': 1, 'lost': 0}:
        raise Failure(f'{n} packets: {text}')


MADS = {0x10: 'ConnectRequest', 0x13: 'ConnectReply', 0x14: 'ReadyToUse',
        0x15: 'DisconnectRequest', 0x16: 'DisconnectReply'}


def rping(env, path, *variables):
    """What the tool says of a server of rping, which sends 3 messages."""
    args = ('-a', env.b.ip4, '-p', str(env.port()), '-C', '3')
    base = ['env', *variables, env.urnic, 'run', '--']
    server = Proc(env.b.wrap([*base, 'stdbuf', '-oL', 'rping', '-d', '-s', *args]))
    client = None
    try:
        server.wait_text('rdma_listen', 20)
        pid = server.leaf()
        c = Capture(env, path, str(pid))
        c.begun(env, pid)
        client = Proc(env.a.wrap([*base, 'rping', '-c', *args]))
        client.wait(60)
        server.wait(60)
        return c.finish()
    finally:
        server.end()
        if client:
            client.end()


def json_iwarp(env):
    """A stream, each direction of which has its bytes once and in order."""
    text = rping(env, None, 'URNIC_RDMACM_DEVICE=urniw0')
    next_seq, made_up = {}, 0
    for p in lines(text, 'urniw0'):
        made_up += p.get('comment', '').startswith('made up')
        if p['protocol'] != 'iwarp' or p['local'] != env.b.ip4 or not p['qp']:
            raise Failure(f'{p}')
        at = next_seq.setdefault(p['direction'], 0)
        if p['seq'] not in (at, 1 if at == 0 else at):
            raise Failure(f'{at} is missing: {p}')
        next_seq[p['direction']] = max(p['seq'] + p['length'], 1)
    # 64 bytes each time, which the client sends, and the server reads and writes.
    if set(next_seq) != {'in', 'out'} or made_up != 5 or \
            min(next_seq.values()) < 3 * 64:
        raise Failure(f'{next_seq}, {made_up} made up')


def connection(env):
    """The messages of the connection manager, at a server."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'cm')
        rping(env, path)
        check_frames(path)
        seen = {int(x[0], 0) for x in
                fields(path, 'infiniband.mad.attributeid',
                       only='infiniband.bth.destqp == 1')}
        if seen != set(MADS):
            raise Failure(f'{seen} instead of {MADS}')


def last(env):
    """The first failed completion ends the capture."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'last')
        t = Transfer(env, True, ('-s', '1'))
        try:
            pid = str(t.client.leaf())
            c = Capture(env, path, pid, '--last', '60')
            c.begun(env, pid)
            t.go()
            text = c.finish()
            if 'no completion has failed' in text:
                raise Failure(text)
        finally:
            t.end()
        naks = fields(path, 'frame.number',
                      only='infiniband.aeth.syndrome == 0x62')
        if len(naks) != 1:
            raise Failure(f'{len(naks)} NAKs: {fields(path, *FIELDS)[-5:]}')


def killed_tool(env):
    """The program does not notice, and can be captured again."""
    with tempfile.TemporaryDirectory() as d:
        t = Transfer(env, False, ('-n', '20'))
        try:
            pid = str(t.client.leaf())
            c = Capture(env, os.path.join(d, 'first'), pid)
            c.begun(env, pid)
            busy = Proc(env.b.wrap([env.urnic, 'pcap', '-w',
                                    os.path.join(d, 'x'), pid]))
            if busy.wait(20) == 0 or 'another tool' not in busy.text():
                raise Failure(busy.describe())
            c.p.signal(signal.SIGKILL)
            c.p.wait(10)
            path = os.path.join(d, 'second')
            end = time.monotonic() + 20 * SLOW
            maps = f'/proc/{pid}/maps'
            while 'urnic-capture' in open(maps, encoding='ascii').read():
                if time.monotonic() > end:
                    raise Failure('the first capture does not end')
                time.sleep(0.01)
            c = Capture(env, path, pid)
            c.begun(env, pid)
            t.go()
            t.finish()
            c.finish()
        finally:
            t.end()
        check_frames(path)


def killed_program(env):
    """The file is whole up to then."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'killed')
        t = Transfer(env, True, ('-n', '1000000'))
        try:
            pid = str(t.client.leaf())
            c = Capture(env, path, pid)
            c.begun(env, pid)
            t.go()
            end = time.monotonic() + 20 * SLOW
            while time.monotonic() < end and (
                    not os.path.exists(path) or
                    os.path.getsize(path) < 100000):
                time.sleep(0.01)
            t.client.signal(signal.SIGKILL)
            t.client.p.wait(10)
            c.finish()
        finally:
            t.end()
        check_frames(path)


def refusals(env):
    """What cannot be captured is said in one line."""
    for args, text in (((), '-w FILE'), (('--json', '1'), 'process 1 '),
                       (('-w', '/dev/null', '1'), 'process 1 '),
                       (('-w', '/dev/null', 'x'), 'no number'),
                       (('-w', '/dev/null', '--qp', 'x'), 'not valid')):
        p = Proc(env.b.wrap([env.urnic, 'pcap', *args]))
        if p.wait(20) == 0 or text not in p.text() and \
                'no urnicd' not in p.text():
            raise Failure(f'{args}: {p.describe()}')
        p.end()


CASES = [
    Case('alike', alike, far=False),
    Case('by-qp', by_qp, far=False),
    Case('json', json_lines(True), far=False),
    Case('json-shm', json_lines(False), far=False),
    Case('json-end', json_end, far=False),
    Case('json-iwarp', json_iwarp, far=False),
    Case('injected', injected, far=False),
    Case('connection', connection, far=False),
    Case('last', last, far=False),
    Case('killed-tool', killed_tool, far=False),
    Case('killed-program', killed_program, far=False),
    Case('refusals', refusals, far=False),
    Case('lossy', lossy, where='veth1500'),
]
