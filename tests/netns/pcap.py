# SPDX-License-Identifier: BSD-2-Clause
"""Reading captures of RoCEv2, and the ICRC made from the text of the standard.

This shares nothing with the product: zlib's CRC and Python's struct, so that
an error would have to be made twice.
"""

import struct
import zlib

PORT = 4791


def packets(path):
    """The Ethernet frames of a pcap or pcapng file, whole ones only."""
    with open(path, 'rb') as f:
        head = f.read(24)
        if head[:4] == b'\x0a\x0d\x0d\x0a':
            yield from blocks(head + f.read())
            return
        order = '<' if head[:4] in (b'\xd4\xc3\xb2\xa1',
                                    b'\x4d\x3c\xb2\xa1') else '>'
        while True:
            h = f.read(16)
            if len(h) < 16:
                return
            _, _, caplen, length = struct.unpack(order + 'IIII', h)
            data = f.read(caplen)
            if caplen == length:
                yield data


def blocks(data):
    """The frames of the packet blocks (type 6) of a pcapng section."""
    order = '<' if data[8:12] == b'\x4d\x3c\x2b\x1a' else '>'
    at = 0
    while at + 12 <= len(data):
        kind, size = struct.unpack_from(order + 'II', data, at)
        if kind == 6:
            caplen, length = struct.unpack_from(order + 'II', data, at + 20)
            if caplen == length:
                yield data[at + 28:at + 28 + caplen]
        at += size


def roce(frame):
    """(ip header, udp header, BTH to ICRC) of a RoCEv2 frame, else None."""
    kind = struct.unpack_from('>H', frame, 12)[0]
    ip = frame[14:]
    if kind == 0x0800:
        size = (ip[0] & 15) * 4
        total = struct.unpack_from('>H', ip, 2)[0]
        proto = ip[9]
    elif kind == 0x86dd:
        size = 40
        total = 40 + struct.unpack_from('>H', ip, 4)[0]
        proto = ip[6]
    else:
        return None
    if proto != 17:
        return None
    udp = ip[size:size + 8]
    if struct.unpack_from('>H', udp, 2)[0] != PORT:
        return None
    return ip[:size], udp, ip[size + 8:total]


def icrc(ip, udp, payload):
    """The invariant CRC (IBTA A17.3.3) over masked headers and payload."""
    ip, udp, rest = bytearray(ip), bytearray(udp), bytearray(payload[:-4])
    if ip[0] >> 4 == 4:
        ip[1] = 0xff                        # type of service
        ip[8] = 0xff                        # time to live
        ip[10:12] = b'\xff\xff'             # header checksum
    else:
        ip[0] |= 0x0f                       # traffic class
        ip[1:4] = b'\xff\xff\xff'           # and flow label
        ip[7] = 0xff                        # hop limit
    udp[6:8] = b'\xff\xff'                  # checksum
    rest[4] = 0xff                          # BTH: FECN, BECN, reserved
    return zlib.crc32(b'\xff' * 8 + bytes(ip) + bytes(udp) + bytes(rest))


def icrc_right(ip, udp, payload):
    return struct.unpack('<I', payload[-4:])[0] == icrc(ip, udp, payload)
