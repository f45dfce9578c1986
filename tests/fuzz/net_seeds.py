# SPDX-License-Identifier: BSD-2-Clause
"""Seeds of fuzz_net (see fuzz_net.c for the form): the beginnings of captured
conversations, from the view of each end, and what stations say to each other
about neighbours, addresses, errors and groups."""
import ipaddress
import struct

OURS, PEER = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
ALL = b"\xff" * 6
NOBODY, NOBODY6 = "0.0.0.0", "::"
US4, PEER4, US6, PEER6 = "10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"
ARP, IP, IP6, VLAN = 0x0806, 0x0800, 0x86dd, 0x8100
ICMP, IGMP, UDP, ICMP6 = 1, 2, 17, 58

# The first byte: a tag, checksums of UDP on IPv4, probes, gateways.
TAGGED, SUMS, PROBES, GATEWAYS = 1, 4, 8, 128
LATER = bytes([4, 255])           # a quarter of a second
SEND, SEND6 = bytes([0x40, 7, 2]), bytes([0x41, 7, 2])
LINK_UP = bytes([0xc4])

CAPTURES = ("rc_pingpong", "rc_pingpong_v6", "ib_read_bw_loss", "mckey",
            "rping_v6", "ud_pingpong", "cm_good")
FRAMES, BYTES = 24, 200           # of a capture, of a frame


def step(frame):
    """A frame as it is."""
    return bytes([0x8d, 0, len(frame)]) + frame


def packed(addr):
    return ipaddress.ip_address(addr).packed


def csum(data):
    data += b"\0" * (len(data) % 2)
    s = sum(struct.unpack(f">{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return struct.pack(">H", s ^ 0xffff)


def arp(op, sender, target, src=PEER, dst=ALL):
    return dst + src + struct.pack(">HHHBBH", ARP, 1, IP, 6, 4, op) + src + \
        packed(sender) + bytes(6) + packed(target)


def ip4(proto, payload, src=PEER4, dst=US4, mac=OURS):
    head = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0,
                                 0x4000, 64, proto, 0)
                     + packed(src) + packed(dst))
    head[10:12] = csum(bytes(head))
    return mac + PEER + struct.pack(">H", IP) + head + payload


def ip6(proto, payload, src=PEER6, dst=US6, mac=OURS, hops=255):
    return mac + PEER + struct.pack(">HIHBB", IP6, 6 << 28, len(payload),
                                    proto, hops) + packed(src) + packed(dst) \
        + payload


def icmp4(kind, code, rest, **to):
    body = struct.pack(">BBH", kind, code, 0) + rest
    return ip4(ICMP, body[:2] + csum(body) + body[4:], **to)


def icmp6(kind, code, rest, src=PEER6, dst=US6, before=b"", **to):
    """before: extension headers, whose last names ICMPv6."""
    body = struct.pack(">BBH", kind, code, 0) + rest
    pseudo = packed(src) + packed(dst) + struct.pack(">II", len(body), ICMP6)
    body = before + body[:2] + csum(pseudo + body) + body[4:]
    return ip6(0 if before else ICMP6, body, src, dst, **to)


def udp(port=4791, size=16):
    return struct.pack(">HHHH", 50000, port, 8 + size, 0) + bytes(size)


def neighbours4():
    return (bytes([SUMS | PROBES]) + LATER + SEND
            + step(arp(2, PEER4, US4, dst=OURS)) + SEND
            + step(arp(1, PEER4, US4)) + step(arp(1, PEER4, PEER4))
            + step(arp(1, PEER4, US4, src=b"\2\0\0\0\0\3")) + LATER * 8
            + step(arp(1, NOBODY, US4)) + step(arp(2, US4, US4)) + LINK_UP
            + step(arp(2, US4, NOBODY, dst=OURS)) + LATER * 4)


def neighbours6():
    node, option = bytes.fromhex("3333ff000001"), bytes([1, 1]) + PEER
    target = bytes([2, 1]) + PEER
    group = "ff02::1:ff00:1"
    return (bytes([SUMS | PROBES]) + LATER + SEND6
            + step(icmp6(136, 0, b"\x60\0\0\0" + packed(PEER6) + target))
            + SEND6
            + step(icmp6(135, 0, bytes(4) + packed(US6) + option, dst=group,
                         mac=node))
            + step(icmp6(135, 0, bytes(4) + packed(US6), src=NOBODY6,
                         dst=group, mac=node))
            + step(icmp6(136, 0, b"\x20\0\0\0" + packed(US6) + target,
                         dst="ff02::1", mac=bytes.fromhex("333300000001")))
            + LATER * 8)


def errors():
    ours4, ours6 = (f(UDP, udp(), a, b)[14:] for f, a, b in
                    ((ip4, US4, PEER4), (ip6, US6, PEER6)))
    return (bytes([GATEWAYS]) + LATER + SEND + SEND6
            + step(arp(2, PEER4, US4, dst=OURS))
            + step(icmp4(8, 0, b"\0\1\0\1echo"))
            + step(icmp6(128, 0, b"\0\1\0\1echo"))
            + step(icmp4(3, 4, struct.pack(">HH", 0, 1400) + ours4))
            + step(icmp6(2, 0, struct.pack(">I", 1400) + ours6))
            + step(icmp4(3, 3, bytes(4) + ours4))
            + step(icmp6(1, 4, bytes(4) + ours6))
            + step(ip4(UDP, udp(53))) + step(ip6(UDP, udp(53))) + SEND + LATER)


def groups():
    alert = bytes([ICMP6, 0, 5, 2, 0, 0, 1, 0])
    query = b"\x11\x64" + csum(b"\x11\x64" + bytes(6)) + bytes(4)
    return (bytes([0]) + LATER * 6
            + step(ip4(IGMP, query, dst="224.0.0.1",
                       mac=bytes.fromhex("01005e000001")))
            + step(icmp6(130, 0, struct.pack(">HH", 1000, 0) + bytes(16),
                         dst="ff02::1", before=alert, hops=1,
                         mac=bytes.fromhex("333300000001")))
            + step(ip4(UDP, udp(), dst="239.1.0.1",
                       mac=bytes.fromhex("01005e010001")))
            + LATER * 5)


def tagged():
    def tag(frame):
        return step(frame[:12] + struct.pack(">HH", VLAN, 5) + frame[12:])

    return (bytes([TAGGED]) + LATER + SEND
            + tag(arp(2, PEER4, US4, dst=OURS)) + tag(ip4(UDP, udp()))
            + step(ip4(UDP, udp())) + LATER)


def addresses(frame):
    """Where source and destination are: (offset, offset, length) or None."""
    kind = struct.unpack_from(">H", frame, 12)[0]
    return {ARP: (28, 38, 4), IP: (26, 30, 4), IP6: (22, 38, 16)}.get(kind)


def seen_by(frame, host):
    """The frame as it would be if that address were ours; None: it is from
    us, or no such frame."""
    at = addresses(frame)
    if not at or len(frame) > BYTES:
        return None
    f, (src, dst, size) = bytearray(frame), at
    if frame[src:src + size] == host:
        return None
    us, peer = (US4, PEER4) if size == 4 else (US6, PEER6)
    f[6:12] = PEER
    f[src:src + size] = packed(peer)
    if frame[dst:dst + size] == host:
        f[dst:dst + size] = packed(us)
        if not f[0] & 1:
            f[:6] = OURS
    if at[0] == 26:
        f[24:26] = b"\0\0"
        f[24:26] = csum(bytes(f[14:14 + (f[14] & 15) * 4]))
    return bytes(f)


def conversation(frames):
    """What either end hears of it, one after the other."""
    frames = list(frames)
    hosts = []
    for frame in frames:
        at = addresses(frame)
        if at and frame[at[0]:at[0] + at[2]] not in hosts:
            hosts.append(frame[at[0]:at[0] + at[2]])
    out = bytes([0]) + LATER + SEND + SEND6
    for host in hosts[:2]:
        heard = [f for f in (seen_by(f, host) for f in frames) if f]
        out += b"".join(step(f) for f in heard[:FRAMES]) + LATER
    return out


def make(data, frames):
    """Write them below the directory; frames(path) reads a capture."""
    folder = data / "fuzz/fuzz_net"
    folder.mkdir(parents=True, exist_ok=True)
    for build in neighbours4, neighbours6, errors, groups, tagged:
        (folder / build.__name__).write_bytes(build())
    for name in CAPTURES:
        found = frames(data / "pcap" / (name + ".pcap"))
        (folder / name).write_bytes(conversation(found))
