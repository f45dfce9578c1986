#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Make the seeds of fuzz_bth and fuzz_icrc in tests/data/fuzz: of each opcode
in the golden captures the shortest packet.  And those of fuzz_raw: frames with
the headers that it looks for, behind flows that ask for them; and of fuzz_shm:
scripts of what the two ends of a channel do when they mean well; and of
fuzz_net: see net_seeds.py."""
import pathlib
import struct

import net_seeds

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
ETHER, IPV4, UDP_PORT = 14, 0x0800, 4791


def frames(path):
    raw = path.read_bytes()
    at = 24
    while at < len(raw):
        length = struct.unpack_from("<8xI", raw, at)[0]
        yield raw[at + 16:at + 16 + length]
        at += 16 + length


def roce(frame):
    """The UDP payload of a RoCEv2 packet and its IPv4 identification."""
    v4 = struct.unpack_from(">H", frame, 12)[0] == IPV4
    udp = ETHER + (20 if v4 else 40)
    proto = frame[ETHER + (9 if v4 else 6)] if len(frame) > udp else 0
    if proto != 17 or frame[udp + 2:udp + 4] != UDP_PORT.to_bytes(2, "big"):
        return None, 0
    return frame[udp + 8:], struct.unpack_from(">H", frame, 18)[0]


IP4 = bytes.fromhex("0a0000010a000002")
MACS = bytes.fromhex("02000000000b02000000000a")


def ipv4(proto, payload):
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0x4000, 64,
                       proto, 0) + IP4 + payload


def raw_frames():
    """Name and bytes of one frame for each kind of header."""
    udp = struct.pack(">HHHH", 1000, 2000, 14, 0) + b"hello!"
    tcp = struct.pack(">HHIIHHHH", 1000, 2000, 1, 2, 0x5018, 99, 0, 0)
    plain = MACS + b"\x08\0" + ipv4(17, udp)
    yield "udp", plain
    yield "vlan", MACS + bytes.fromhex("8100ac0c0800") + ipv4(17, udp)
    yield "tcp", MACS + b"\x08\0" + ipv4(6, tcp + b"x" * 40)
    yield "tcp6", (MACS + b"\x86\xdd" + struct.pack(
        ">IHBB", 0x60b12345, 8 + len(tcp), 0, 63) + IP4 * 4
        + bytes.fromhex("0600010400000000") + tcp)
    yield "vxlan", MACS + b"\x08\0" + ipv4(17, struct.pack(
        ">HHHHII", 9, 4789, 16 + len(plain), 0, 8 << 24, 7 << 8) + plain)
    yield "gre", MACS + b"\x08\0" + ipv4(47, bytes.fromhex(
        "a00008000000000001020304") + ipv4(17, udp))
    yield "mpls", MACS + bytes.fromhex("884700064040000c8140") + ipv4(17, udp)
    yield "esp", MACS + b"\x08\0" + ipv4(50, bytes(16))


def raw_seeds():
    folder = DATA / "fuzz/fuzz_raw"
    folder.mkdir(parents=True, exist_ok=True)
    # No, one and two specs; then the tag and the size of a packet.
    flows = bytes([0, 1, 0, 0]) + bytes([0, 0, 1, 1, 5, 0, 0, 0]) + bytes(
        [0, 2, 0, 2, 0, 0, 1, 2, 0x84, 0, 0, 0]) + bytes([3, 0, 0, 0])
    for name, frame in raw_frames():
        (folder / name).write_bytes(flows + bytes([0, 0, 0, 0, 20]) + frame)


# fuzz_shm.c: commands, kinds and flags of cells.
CELL, READ, AGREE, POST, RECV, LOOK = 0, 5, 6, 7, 10, 14
K_REFUSED, K_DONE, K_DATA, K_OLD, K_PULLS, K_SEND, K_PULL = 4, 6, 7, 8, 9, 10, 16
FIRST, LAST, FIRST_LAST, IMM, IN_BODY, ACK = 1, 2, 3, 4, 16, 32
BEHIND, V6 = 64, 128


def cell(kind, flags=0, epoch=0, ack=0, length=0, qp=0, key=0):
    """A cell for a queue pair, with its payload at offset 0."""
    return bytes([CELL, qp, 0, kind, flags, epoch, ack, key, 1, length])


def shm_seeds():
    folder = DATA / "fuzz/fuzz_shm"
    folder.mkdir(parents=True, exist_ok=True)
    start = bytes([7, 4, 4] * 4 + [AGREE])
    recvs = bytes([RECV, 0, 64] * 8)
    look = bytes([LOOK, 1])
    requests = b"".join(cell(K_SEND + i, FIRST_LAST | (0 if i > 1 else IN_BODY),
                             length=8) for i in range(5))
    posts = b"".join(bytes([POST, 0, op, 8]) for op in range(8))
    big = b"".join(bytes([POST, 0, 16, 255, POST, 1, 16, 255])
                   for _ in range(16))
    answers = [(K_DONE, 5, 0), (K_DATA, 5, 8), (K_OLD, 7, 8), (K_REFUSED, 7, 0)]
    (folder / "requests").write_bytes(start + recvs + requests + look)
    (folder / "posts").write_bytes(start + posts + bytes([READ]) + b"".join(
        cell(k, ACK | IN_BODY, 1, ack, n) for k, ack, n in answers) + look)
    (folder / "full").write_bytes(start + big + look + bytes([READ]) + look)
    # Key 5 is the region that the peer exports, 4 the one that we send from.
    hear = bytes([LOOK, 17])
    asks = (cell(K_SEND, FIRST_LAST, length=200, key=5) + hear) * 5
    pulls = b"".join(cell(K_PULL, flags, length=200, key=5)
                     for flags in (FIRST_LAST, FIRST, LAST, FIRST_LAST | IMM))
    (folder / "pulls").write_bytes(
        start + recvs + asks + pulls + look + big +
        cell(K_PULLS, epoch=1, length=1, key=4) + look + big + look)
    (folder / "both").write_bytes(start + recvs + posts + requests + look +
                                  cell(K_DONE, ACK, 1, 8) + look)
    # UC is the third queue pair, UD the fourth, with Q_Key 1.
    recvs = b"".join(bytes([RECV, qp, 4]) for qp in (2, 3)) * 4
    loose = b"".join(
        cell(kind, flags, length=8, qp=2) for kind in (K_SEND, K_SEND + 1)
        for flags in (FIRST_LAST | IN_BODY, FIRST, LAST, FIRST_LAST | IMM))
    loose += b"".join(cell(K_SEND + 5, flags, ack=1, length=8, qp=3)
                      for flags in (IN_BODY, 0, IMM, V6, BEHIND | V6))
    posts = b"".join(bytes([POST, qp, op, 8]) for qp in (2, 3)
                     for op in (32, 33, 34, 0, 48))
    dry = bytes([LOOK, 9])
    (folder / "loose").write_bytes(start + recvs + loose + look + dry + look +
                                   posts + bytes([READ]) + look)


def masked_packets():
    """Atomics with masks, of 16 bytes; their ICRC is not computed."""
    def packet(opcode, header, payload):
        return (bytes([opcode, 0x40, 0xff, 0xff, 0, 0, 0x40, 1, 0x92, 0, 0, 1])
                + header + bytes(range(payload)) + bytes(4)), 0
    reth = struct.pack(">QII", 0x1000, 1, 16)
    return {0xd2: packet(0xd2, bytes([0x1f, 0, 0, 1]), 16),
            0xd3: packet(0xd3, reth, 64),
            0xd4: packet(0xd4, reth, 32)}


def main():
    raw_seeds()
    shm_seeds()
    net_seeds.make(DATA, frames)
    shortest = {}
    for path in sorted((DATA / "pcap").glob("*.pcap")):
        for frame in frames(path):
            packet, ident = roce(frame)
            if packet and len(packet) < len(
                    shortest.get(packet[0], (b"x" * 9999, 0))[0]):
                shortest[packet[0]] = packet, ident
    for name in "fuzz_bth", "fuzz_icrc":
        (DATA / "fuzz" / name).mkdir(parents=True, exist_ok=True)
    shortest.update(masked_packets())
    # As an adapter sends it (tests/unit/wire/golden_test.c).
    shortest[0x81] = bytes.fromhex("8100ffff400000d2" + "00" * 20
                                   + "e42dad81"), 0
    for opcode, (packet, ident) in shortest.items():
        name = f"opcode_{opcode:02x}"
        (DATA / "fuzz/fuzz_bth" / name).write_bytes(packet)
        (DATA / "fuzz/fuzz_icrc" / name).write_bytes(
            struct.pack(">BHI", 1, ident, 0) + packet[:-4])


if __name__ == "__main__":
    main()
