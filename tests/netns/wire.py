# SPDX-License-Identifier: BSD-2-Clause
"""Packets on the wire: tshark dissects them, and every ICRC is right."""

import os
import re
import tempfile
import time

from harness import rights
from harness.env import Case, Failure, words
from harness.proc import Skip
from netns import pcap

TRAFFIC = (
    # program, its option for a GID index, which GID, arguments
    ('ibv_rc_pingpong', '-g', 'v4', '-n 50 -s 20000'),
    ('ibv_rc_pingpong', '-g', 'v6', '-n 50 -s 20000'),
    ('ibv_rc_pingpong', '-g', 'll', '-n 20'),
    ('ibv_rc_pingpong', '-g', 'v4', '-n 50 -s 63'),
    ('ibv_uc_pingpong', '-g', 'v4', '-n 50 -s 5000'),
    ('ibv_uc_pingpong', '-g', 'v6', '-n 50 -s 200'),
    ('ibv_ud_pingpong', '-g', 'v4', '-n 50 -s 1000'),
    ('ibv_ud_pingpong', '-g', 'v6', '-n 50 -s 1000'),
    ('ibv_srq_pingpong', None, None, '-n 50'),
    ('ib_write_bw', None, None, '-F -s 60000 -n 20'),
    ('ib_write_bw', '-x', 'v6', '-F -s 60000 -n 20'),
    ('ib_write_bw', None, None, '-F -s 61 -n 200'),
    ('ib_read_bw', None, None, '-F -s 60000 -n 20'),
    ('ib_read_lat', '-x', 'v6', '-F -s 3001 -n 20'),
    ('ib_read_lat', None, None, '-F -s 8 -n 20'),
    ('ib_atomic_bw', None, None, '-F -n 20'),
    ('ib_atomic_lat', None, None, '-F -n 20 -A CMP_AND_SWAP'),
    ('ib_send_lat', None, None, '-F -c UD -s 777 -n 20'),
    ('ib_send_bw', None, None, '-F -c UC -s 9000 -n 20'),
)


def traffic(env):
    """A bit of everything."""
    for prog, option, gid, args in TRAFFIC:
        port = env.port()
        server = [prog, '-p', port] + words(args)
        client = list(server)
        if option:
            server += [option, env.gid(env.a, gid)]
            client += [option, env.gid(env.b, gid)]
        env.pair(server, client + [env.a.ip4], port=port, timeout=30)


class Capture:
    """tcpdump on the server's end of the link."""

    def __init__(self, env):
        self.env = env
        if rights.of_namespace():
            raise Skip('tcpdump sets its groups, which a user namespace of an '
                       'ordinary user refuses')
        fd, self.path = tempfile.mkstemp(suffix='.pcap')
        os.close(fd)

    def __enter__(self):
        h = self.env.a
        self.p = self.env.run(
            h, 'tcpdump', '-i', h.dev, '-s', '0', '-B', '65536', '-U', '-n',
            '--immediate-mode', '-Z', 'root', '-w', self.path,
            'udp', 'port', pcap.PORT, plain=True)
        self.p.wait_text('listening on', 10)
        return self

    def __exit__(self, *exc):
        time.sleep(0.3)
        self.p.p.terminate()
        self.p.wait(10)
        self.dropped = re.search(r'(\d+) packets dropped by kernel',
                                 self.p.text())
        self.p.end()

    def remove(self):
        os.unlink(self.path)


def tshark(env, path, *args):
    return env.a.sh('tshark', '-n', '-r', path, *args, timeout=120)


def count(env, path, display_filter):
    return int(tshark(env, path, '-Y', display_filter, '-T', 'fields', '-e',
                      'frame.number').count('\n') or 0)


def check_dissection(env, path):
    """tshark dissects every frame as RoCEv2, without errors."""
    text = tshark(env, path, '-T', 'fields', '-e', 'frame.number',
                  '-e', 'infiniband.bth.opcode', '-e', '_ws.malformed',
                  '-e', 'udp.dstport')
    lines = [ln.split('\t') for ln in text.splitlines() if '\t' in ln]
    if len(lines) < 1000:
        raise Failure(f'only {len(lines)} packets were captured')
    for number, opcode, malformed, port in lines:
        if int(port) != pcap.PORT or not opcode or malformed:
            raise Failure(f'frame {number}: opcode "{opcode}", port {port}, '
                          f'malformed "{malformed}"')
    seen = {int(ln[1], 0) for ln in lines}
    want = {0, 1, 2, 4, 6, 7, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20,
            0x20, 0x21, 0x22, 0x24, 0x64}
    if not want <= seen:
        raise Failure(f'opcodes never seen: {sorted(want - seen)}')
    return len(lines)


def check_icrc(path):
    """Every packet's ICRC; the number of packets."""
    n = 0
    for frame in pcap.packets(path):
        parts = pcap.roce(frame)
        if parts is None:
            raise Failure(f'packet {n} is not RoCEv2: {frame.hex()}')
        if not pcap.icrc_right(*parts):
            raise Failure(f'packet {n}: ICRC {parts[2][-4:].hex()}, '
                          f'{pcap.icrc(*parts):08x} expected; ip '
                          f'{parts[0].hex()} udp {parts[1].hex()} bth '
                          f'{parts[2][:12].hex()} length {len(parts[2])}')
        n += 1
    return n


def check_size(env, path):
    """No packet is larger than the link: these are real packets."""
    largest = max(len(f) for f in pcap.packets(path))
    if largest > env.place.mtu + 14:
        raise Failure(f'a frame of {largest} bytes: not cut')


def wire(env):
    env.place.real_packets()
    with Capture(env) as cap:
        traffic(env)
    try:
        n = check_icrc(cap.path)
        check_size(env, cap.path)
        if check_dissection(env, cap.path) != n:
            raise Failure('tshark saw another number of packets')
        if cap.dropped and int(cap.dropped[1]):
            raise Failure(cap.dropped[0])
    finally:
        cap.remove()


def golden(env):
    """The ICRC above agrees with the kernel's, in its own captures."""
    data = os.path.join(os.path.dirname(os.path.dirname(
        os.path.abspath(__file__))), 'data')
    n = 0
    for folder, _, names in os.walk(data):
        for name in names:
            if name.endswith('.pcap') and not name.startswith('siw'):
                n += count_right(os.path.join(folder, name))
    if n < 1000:
        raise Failure(f'only {n} golden packets in {data}')


def count_right(path):
    n = 0
    for frame in pcap.packets(path):
        parts = pcap.roce(frame)
        if parts:
            n += 1
            if not pcap.icrc_right(*parts):
                raise Failure(f'{path}: packet {n}')
    return n


CASES = [
    Case('golden-icrc', golden),
    Case('tshark-and-icrc', wire, where='veth'),
]
