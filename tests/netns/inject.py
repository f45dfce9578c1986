# SPDX-License-Identifier: BSD-2-Clause
"""A hostile host on the link: writes its own frames to an interface.

    inject.py spoof INTERFACE PORT_MAC SECONDS
    inject.py flood INTERFACE PORT_MAC SECONDS SEED

spoof says again and again, in every form there is, that the neighbour's
addresses are at a MAC address that no host has.  flood modifies frames that
pass on the interface, and announcements of hosts, and sends them.  Prints how
many frames were sent.  write_pcap() makes a file of such frames.
"""

import ipaddress
import os
import random
import socket
import struct
import sys
import time

ALL = b'\xff' * 6
LIAR = bytes.fromhex('0266666666aa')
US = ('10.77.0.1', 'fd77::1')
PEER = ('10.77.0.2', 'fd77::2')
NODES = 'ff02::1'
ARP, IP, IP6 = 0x0806, 0x0800, 0x86dd
ICMP6 = 58
UDP, ICMP = 17, 1
ROCE = 4791
SEEN = 256         # frames that passed, to be changed
BATCH, PAUSE = 64, 0.002
ETH_P_ALL = 3


def packed(addr):
    return ipaddress.ip_address(addr).packed


def csum(data):
    data += b'\0' * (len(data) % 2)
    s = sum(struct.unpack(f'>{len(data) // 2}H', data))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return struct.pack('>H', s ^ 0xffff)


def arp(op, mac, to, target):
    """The peer's IPv4 address is at that MAC address."""
    return to + mac + struct.pack('>HHHBBH', ARP, 1, IP, 6, 4, op) + mac + \
        packed(PEER[0]) + to + packed(target)


def nd(kind, flags, mac, to, dst, option):
    """A solicitation (135) or advertisement (136) from the peer."""
    about = US[1] if kind == 135 else PEER[1]
    body = struct.pack('>BBHI', kind, 0, 0, flags << 24) + packed(about) + \
        bytes([option, 1]) + mac
    pseudo = packed(PEER[1]) + packed(dst) + \
        struct.pack('>II', len(body), ICMP6)
    body = body[:2] + csum(pseudo + body) + body[4:]
    return to + mac + struct.pack('>HIHBB', IP6, 6 << 28, len(body), ICMP6,
                                  255) + packed(PEER[1]) + packed(dst) + body


def claims(mac, port):
    """Messages that claim the peer is at that MAC address."""
    nodes = bytes.fromhex('333300000001')
    yield arp(1, mac, ALL, PEER[0])
    yield arp(2, mac, ALL, PEER[0])
    yield arp(2, mac, port, US[0])
    yield arp(1, mac, port, US[0])
    for flags in (0x20, 0x60, 0xe0):
        yield nd(136, flags, mac, port, US[1], 2)
        yield nd(136, flags & ~0x40, mac, nodes, NODES, 2)
    yield nd(135, 0, mac, port, US[1], 1)


def ip4(proto, payload, flags=0x4000):
    head = struct.pack('>BBHHHBB', 0x45, 0, 20 + len(payload), 7, flags, 64,
                       proto)
    ends = packed(PEER[0]) + packed(US[0])
    return head + csum(head + b'\0\0' + ends) + ends + payload


def ip6(proto, payload):
    return struct.pack('>IHBB', 6 << 28, len(payload), proto, 64) + \
        packed(PEER[1]) + packed(US[1]) + payload


def talk(port, rng):
    """Messages of a well-behaved peer: requests, echoes, fragments."""
    bth = struct.pack('>BBHII', rng.randrange(256), 0, 0xffff,
                      rng.randrange(1 << 24), rng.randrange(1 << 24))
    data = bth + rng.randbytes(rng.randrange(128))
    udp = struct.pack('>HHHH', 0xc000, ROCE, 8 + len(data), 0) + data
    echo = struct.pack('>HHHH', 0x0800, 0, 1, 1) + data
    echo = echo[:2] + csum(echo) + echo[4:]
    head = port + bytes.fromhex('020000000002')
    for p in (ip4(UDP, udp), ip4(ICMP, echo), ip4(UDP, udp, 0x2000),
              ip4(UDP, udp, 3), ip4(6, data)):
        yield head + struct.pack('>H', IP) + p
    options = bytes([UDP, 0, 1, 4, 0, 0, 0, 0]) + udp
    part = struct.pack('>BBHI', UDP, 0, 1, 9) + udp
    for p in (ip6(UDP, udp), ip6(ICMP6, b'\x80' + echo[1:]),
              ip6(0, options), ip6(44, part), ip6(6, data)):
        yield head + struct.pack('>H', IP6) + p


def write_pcap(path, port, count, seed):
    """So many frames to the port with that MAC address, most of them wrong."""
    rng = random.Random(seed)
    port = bytes.fromhex(port.replace(':', ''))
    with open(path, 'wb') as f:
        f.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for i in range(count):
            if i % 64 == 0:
                known = list(claims(rng.randbytes(6), port)) + \
                    list(talk(port, rng))
            frame = change(rng.choice(known), rng)
            f.write(struct.pack('<IIII', i // 1000, i % 1000, len(frame),
                                len(frame)) + frame)


def spoof(s, port, rng):
    frames = list(claims(LIAR, port))
    while True:
        yield frames
        time.sleep(0.005)


def look(s, seen, rng):
    """Keep frames that pass."""
    while True:
        try:
            frame, _ = s.recvfrom(2048, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if len(seen) < SEEN:
            seen.append(frame)
        else:
            seen[rng.randrange(SEEN)] = frame


def change(frame, rng):
    f = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        what, at = rng.randrange(6), rng.randrange(len(f))
        if rng.random() < 0.7:
            at = min(at, rng.randrange(64))
        if what == 0:
            f[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            f[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff))
        elif what == 2:
            f[at:at + 2] = struct.pack('>H', rng.randrange(65536))
        elif what == 3:
            del f[max(at, 14):]
        elif what == 4:
            f += rng.randbytes(rng.randrange(64))
        else:
            f[at:at + 4] = rng.randbytes(4)
    del f[1514:]
    f += bytes(14 - len(f) if len(f) < 14 else 0)
    # Behind the checksum there is more to be found.
    if rng.random() < 0.5 and f[12:14] == b'\x08\0' and len(f) >= 34:
        end = 14 + (f[14] & 15) * 4
        f[24:26] = b'\0\0'
        f[24:26] = csum(bytes(f[14:end]))
    return bytes(f)


def flood(s, port, rng):
    seen = []
    while True:
        look(s, seen, rng)
        known = seen + list(claims(rng.randbytes(6), port))
        batch = [change(rng.choice(known), rng) for _ in range(BATCH)]
        # Most of them to us or to all: others' go no further.
        yield [(f if rng.random() < 0.1 or f[:6] == ALL else port + f[6:])
               for f in batch]
        time.sleep(PAUSE)


def main(mode, dev, port, seconds, seed=0):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                      socket.htons(ETH_P_ALL))
    s.bind((dev, ETH_P_ALL))
    rng = random.Random(int(seed))
    make = {'spoof': spoof, 'flood': flood}[mode]
    end, n = time.monotonic() + float(seconds), 0
    for frames in make(s, bytes.fromhex(port.replace(':', '')), rng):
        for f in frames:
            try:
                n += s.send(f) > 0
            except OSError:
                pass   # no room: as lost on the wire
        if time.monotonic() > end:
            break
    print(n, 'frames', flush=True)
    os._exit(0)


if __name__ == '__main__':
    main(*sys.argv[1:])
