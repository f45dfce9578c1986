# SPDX-License-Identifier: BSD-2-Clause
"""Two processes on two hosts, both on pyverbs: every transport's operations.

pyverbs_pair.py serve DEVICE GID TCP_PORT
    pyverbs_pair.py call DEVICE GID TCP_PORT ADDRESS

They exchange queue pairs and memory over TCP, and report each completed step.
The caller does what there is to do, both look whether it is right, and print
it.
"""

import json
import socket
import struct
import sys
import time

from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import (
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
    IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WC_WITH_IMM,
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM)
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SIZE = 16384           # of the memory; several packets
GRH = 40
QKEY, IMM = 0x11111111, 0x12345678
WAIT_S = 20
ACCESS = (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
          | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
KINDS = {'rc': IBV_QPT_RC, 'uc': IBV_QPT_UC, 'ud': IBV_QPT_UD,
         'srq': IBV_QPT_RC}


def check(what, is_, should):
    if is_ != should:
        sys.exit(f'{what}: {is_!r}, not {should!r}')


class Peer:
    """The other process, a line of JSON at a time."""

    def __init__(self, sock):
        self.sock, self.lines = sock, sock.makefile()

    def swap(self, mine):
        self.sock.sendall(json.dumps(mine).encode() + b'\n')
        line = self.lines.readline()
        if not line:
            sys.exit('the other one is gone')
        return json.loads(line)

    def meet(self):
        self.swap('there')


class Side:
    """A queue pair of that kind and what it needs."""

    def __init__(self, ctx, gid_index, kind, peer):
        self.kind = kind
        self.pd = PD(ctx)
        self.cq = CQ(ctx, 64)
        self.mr = MR(self.pd, SIZE, ACCESS)
        self.srq = None
        if kind == 'srq':
            self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(16, 1)))
        init = QPInitAttr(qp_type=KINDS[kind], scq=self.cq, rcq=self.cq,
                          srq=self.srq, cap=QPCap(16, 16, 1, 1))
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.qkey = QKEY
        # UD's goes up to RTS at once.
        self.qp = QP(self.pd, init, attr if kind == 'ud' else None)
        gid = ctx.query_gid(port_num=1, index=gid_index)
        self.far = peer.swap({'qpn': self.qp.qp_num, 'gid': gid.gid,
                              'addr': self.mr.buf, 'rkey': self.mr.rkey})
        route = GlobalRoute(dgid=GID(self.far['gid']), sgid_index=gid_index,
                            hop_limit=64)
        ah = AHAttr(is_global=1, port_num=1, gr=route)
        if kind == 'ud':
            self.ah = AH(self.pd, attr=ah)
        else:
            self.connect(attr, ah)
        self.fill(b'\0')
        self.receive()
        peer.meet()

    def connect(self, attr, ah):
        attr.dest_qp_num = self.far['qpn']
        attr.path_mtu = 3
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer = 12
        attr.rq_psn = attr.sq_psn = 7
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
        attr.ah_attr = ah
        self.qp.to_rts(attr)

    def fill(self, byte, n=SIZE):
        self.mr.write(byte * n, n)

    def bytes(self, n, at=0):
        return self.mr.read(n, at)

    def sge(self, n, at=0):
        return [SGE(self.mr.buf + at, n, self.mr.lkey)]

    def receive(self):
        wr = RecvWR(num_sge=1, sg=self.sge(SIZE))
        (self.srq or self.qp).post_recv(wr)

    def post(self, opcode, n, imm=0, atomic=None):
        wr = SendWR(opcode=opcode, num_sge=1, sg=self.sge(n), imm_data=imm,
                    send_flags=IBV_SEND_SIGNALED)
        if self.kind == 'ud':
            wr.set_wr_ud(self.ah, self.far['qpn'], QKEY)
        elif atomic:
            wr.set_wr_atomic(self.far['rkey'], self.far['addr'], *atomic)
        elif opcode not in (IBV_WR_SEND, IBV_WR_SEND_WITH_IMM):
            wr.set_wr_rdma(self.far['rkey'], self.far['addr'])
        self.qp.post_send(wr)
        return self.done()

    def done(self):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            n, wcs = self.cq.poll(1)
            if n:
                check(f'{self.kind}: status', wcs[0].status, IBV_WC_SUCCESS)
                return wcs[0]
        sys.exit(f'{self.kind}: no completion')


def message(s, peer, calls, opcode, size, imm=0):
    """SEND, or WRITE with immediate data: takes a receive request."""
    writes = opcode == IBV_WR_RDMA_WRITE_WITH_IMM
    if calls:
        s.fill(b'm')
        s.post(opcode, size, imm)
    else:
        wc = s.done()
        at = GRH if s.kind == 'ud' else 0
        check('length', wc.byte_len, size + at)
        check('bytes', s.bytes(size, at), b'm' * size)
        check('immediate', bool(wc.wc_flags & IBV_WC_WITH_IMM), bool(imm))
        if imm:
            check('immediate', wc.imm_data, imm)
        s.fill(b'\0')
        s.receive()
    peer.meet()
    tell(s, 'WRITE_IMM' if writes else 'SEND_IMM' if imm else 'SEND', size)


def write(s, peer, calls, size):
    if calls:
        s.fill(b'w')
        s.post(IBV_WR_RDMA_WRITE, size)
    # UC's are not acknowledged: what comes behind is.
    peer.meet()
    message(s, peer, calls, IBV_WR_SEND, 0)
    if not calls:
        s.fill(b'\0')
    peer.meet()
    tell(s, 'WRITE', size)


def read(s, peer, calls, size):
    s.fill(b'c' if calls else b'r')
    peer.meet()
    if calls:
        s.post(IBV_WR_RDMA_READ, size)
        check('bytes read', s.bytes(size), b'r' * size)
    peer.meet()
    tell(s, 'READ', size)


def atomics(s, peer, calls):
    if not calls:
        s.mr.write(struct.pack('<Q', 40), 8)
    peer.meet()
    if calls:
        s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, atomic=(2, 0))
        check('fetched', s.bytes(8), struct.pack('<Q', 40))
        s.post(IBV_WR_ATOMIC_CMP_AND_SWP, 8, atomic=(42, 99))
        check('fetched', s.bytes(8), struct.pack('<Q', 42))
        s.post(IBV_WR_ATOMIC_CMP_AND_SWP, 8, atomic=(42, 7))
        check('fetched', s.bytes(8), struct.pack('<Q', 99))
    peer.meet()
    if not calls:
        check('swapped', s.bytes(8), struct.pack('<Q', 99))
    tell(s, 'ATOMIC', 8)


def tell(s, what, size):
    print(f'{s.kind} {what} {size} is right', flush=True)


def run(ctx, gid, peer, calls):
    for kind in KINDS:
        s = Side(ctx, gid, kind, peer)
        for size in (1, 1000, SIZE) if kind != 'ud' else (1, 1000):
            message(s, peer, calls, IBV_WR_SEND, size)
            message(s, peer, calls, IBV_WR_SEND_WITH_IMM, size, IMM)
            if kind == 'ud':
                continue
            message(s, peer, calls, IBV_WR_RDMA_WRITE_WITH_IMM, size, IMM)
            write(s, peer, calls, size)
            if kind != 'uc':
                read(s, peer, calls, size)
        if kind in ('rc', 'srq'):
            atomics(s, peer, calls)
        peer.meet()
        s.qp.close()


def main(role, device, gid, port, address=None):
    calls = role == 'call'
    if calls:
        sock = socket.create_connection((address, int(port)), 30)
    else:
        listener = socket.create_server(('', int(port)))
        sock, _ = listener.accept()
    with Context(name=device) as ctx:
        run(ctx, int(gid), Peer(sock), calls)
    print('all is right', flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
