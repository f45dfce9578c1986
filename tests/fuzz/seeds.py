#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Make the seeds of fuzz_bth and fuzz_icrc in tests/data/fuzz: of each opcode
in the golden captures the shortest packet."""
import pathlib
import struct

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


def main():
    shortest = {}
    for path in sorted((DATA / "pcap").glob("*.pcap")):
        for frame in frames(path):
            packet, ident = roce(frame)
            if packet and len(packet) < len(
                    shortest.get(packet[0], (b"x" * 9999, 0))[0]):
                shortest[packet[0]] = packet, ident
    for name in "fuzz_bth", "fuzz_icrc":
        (DATA / "fuzz" / name).mkdir(parents=True, exist_ok=True)
    for opcode, (packet, ident) in shortest.items():
        name = f"opcode_{opcode:02x}"
        (DATA / "fuzz/fuzz_bth" / name).write_bytes(packet)
        (DATA / "fuzz/fuzz_icrc" / name).write_bytes(
            struct.pack(">BHI", 1, ident, 0) + packet[:-4])


if __name__ == "__main__":
    main()
