# SPDX-License-Identifier: BSD-2-Clause
"""What is measured where: a table of probes.

A scene is a place and a path through it.  A probe is a program's run in a
scene; those of curves are taken in every other round.
"""

from benchlib import ports
from benchlib import programs as p
from benchlib import sleepers as z
from netns.ports import Memif, Veth

KIB, MIB = 2 ** 10, 2 ** 20
LAT_SIZES = (2, 8, 64, 512, 4 * KIB, 32 * KIB, 256 * KIB, MIB, 8 * MIB)
BW_SIZES = (2, 8, 64, 512, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 8 * MIB)
# Between namespaces some of them do.
FAR_LAT = (8, 512, 4 * KIB, 32 * KIB, MIB)
FAR_BW = (64, 512, 4 * KIB, 64 * KIB, MIB, 8 * MIB)
# For which there are goals: measured in every round.
LAT_GOAL = (8,)
BW_GOAL = (8, 64, 64 * KIB, MIB)
QPS = (16, 256)
THREADS = (1, 2, 4, 8)
AT_ONCE = (1, 16, 1000)  # connections
MANY = 4096  # whose send queues are short: one completion queue has them all


class Scene:
    def __init__(self, name, title, place, mtu=None, env=None):
        self.name, self.title, self.place = name, title, place
        self.mtu, self.env = mtu, dict(env or {})


class Link(Scene):
    """A link between two namespaces that DPDK may have."""

    def __init__(self, name, title, link, kernel):
        super().__init__(name, title, 'veth1500')
        self.link, self.link_mtu, self.kernel = link, 1500, kernel


MEMORY = Scene('memory', 'Same host, through memory', 'lo')
LOOPBACK = Scene('loopback', 'Loopback, through sockets', 'lo', 4096,
                 {'URNIC_SHM': '0'})
VETH9000 = Scene('veth9000', 'Two namespaces, MTU 9000', 'veth9000', 4096)
VETH1500 = Scene('veth1500', 'Two namespaces, MTU 1500', 'veth1500', 1024)
PORT_VETH = Link('port-veth', 'DPDK on packet sockets of a veth', Veth, True)
PORT_MEMIF = Link('port-memif', 'DPDK on a memif', Memif, False)
PORTS = (PORT_VETH, PORT_MEMIF)
SLEEPING = Scene('sleeping', 'Programs that sleep, on loopback', 'lo')
LOSSES = (0, 0.1, 1, 5)  # percent
LOSSY = tuple(Scene(f'loss{n:g}', f'MTU 1500, real packets, {n:g} % lost',
                    f'lossy{n:g}', 1024) for n in LOSSES)
SCENES = (MEMORY, LOOPBACK, VETH9000, VETH1500, *LOSSY, SLEEPING, PORT_VETH,
          PORT_MEMIF)
NETWORK = (LOOPBACK, VETH9000, VETH1500)

ROCE = p.Urnic()
IWARP = p.Urnic('urniw0', 'urniw0')
MAPPED = p.Urnic('urnic0 mapped', mapped=True)


class Probe:
    def __init__(self, scene, name, take, curve=False):
        self.name = f'{scene.name}/{name}'
        self.take, self.curve = take, curve


def urnic_lat(scene, urnic, ops, sizes=LAT_SIZES):
    for op in ops:
        for size in sizes:
            yield Probe(scene, f'{urnic.who} {op} lat {size}',
                        p.perf_lat(scene, urnic, op, size),
                        size not in LAT_GOAL)


def urnic_bw(scene, urnic, ops, sizes=BW_SIZES):
    for op in ops:
        for size in sizes:
            yield Probe(scene, f'{urnic.who} {op} bw {size}',
                        p.perf_bw(scene, urnic, op, size),
                        size not in BW_GOAL)


def urnic_qps(scene, urnic, ops, counts=QPS):
    for op in ops:
        for n in counts:
            yield Probe(scene, f'{urnic.who} {op} bw 64 q{n}',
                        p.perf_bw(scene, urnic, op, 64, n), n != 16)


def urnic_many(scene, urnic, op):
    yield Probe(scene, f'{urnic.who} {op} bw 64 q{MANY}',
                p.perf_bw(scene, urnic, op, 64, MANY, 16), True)


def urnic_threads(scene, device):
    """A thread for each queue pair."""
    for op in ('write', 'send'):
        for what, mode in (('threads', op), ('thread domains', op + '+')):
            yield Probe(scene, f'{device} {op} {what}',
                        p.threads(scene, device, f'{op} {what}', mode,
                                  THREADS), True)


def urnic_spread(scene, urnic, op):
    yield Probe(scene, f'{urnic.who} {op} spread',
                p.perf_spread(scene, urnic, op, 8), True)


def ucx(scene, who, tls, test, op, sizes, goals):
    for size in sizes:
        yield Probe(scene, f'{who} {test} {size}',
                    p.ucx(scene, who, tls, test, op, size), size not in goals)


def messages(scene, who, run, layer, lats=LAT_SIZES, bws=BW_SIZES):
    """Both ways to measure a message library, all sizes in one run each."""
    yield Probe(scene, f'{who} lat', run(scene, who, layer, 'lat', lats))
    yield Probe(scene, f'{who} bw', run(scene, who, layer, 'bw', bws))


def memory():
    s = MEMORY
    copy = [('memcpy', 'write bw', 'write'), ('memcpy', 'read bw', 'read'),
            ('process_vm', 'write bw', 'vm_write'),
            ('process_vm', 'read bw', 'vm_read')]
    yield Probe(s, 'store', p.store(s))
    yield Probe(s, 'ring', p.ring(s))
    for who, op, mode in copy:
        yield Probe(s, f'{who} {op}',
                    p.copies(s, 'mem_copy', who, op, BW_SIZES, '-m', mode))
    yield Probe(s, 'bounce bw', p.copies(s, 'mem_bounce', 'bounce', 'bw',
                                         BW_SIZES))
    yield from urnic_lat(s, ROCE, ('send', 'write', 'read'))
    yield from urnic_lat(s, ROCE, ('atomic',), (8,))
    yield from urnic_bw(s, ROCE, ('send', 'write', 'read'))
    yield from urnic_lat(s, MAPPED, ('write', 'read'), (8,))
    yield from urnic_bw(s, MAPPED, ('send', 'write', 'read'), (64 * KIB, MIB))
    yield from urnic_qps(s, ROCE, ('send', 'write'))
    yield from urnic_threads(s, 'urnic0')
    yield from urnic_spread(s, ROCE, 'send')
    yield from urnic_spread(s, ROCE, 'write')
    for who, tls in (('UCX posix', 'posix,cma,self'),
                     ('UCX sysv', 'sysv,cma,self')):
        first = who == 'UCX posix'
        sizes = LAT_SIZES if first else LAT_GOAL
        yield from ucx(s, who, tls, 'tag_lat', 'lat', sizes, LAT_GOAL)
        yield from ucx(s, who, tls, 'tag_bw', 'tag',
                       BW_SIZES if first else BW_GOAL, BW_GOAL)
        if first:
            yield from ucx(s, who, tls, 'ucp_am_lat', 'am lat', LAT_GOAL,
                           LAT_GOAL)
            yield from ucx(s, who, tls, 'ucp_put_lat', 'put lat', LAT_GOAL,
                           LAT_GOAL)
            yield from ucx(s, who, tls, 'ucp_put_bw', 'put', BW_GOAL, BW_GOAL)
            yield from ucx(s, who, tls, 'ucp_get', 'get', (64 * KIB, MIB),
                           BW_GOAL)
    yield Probe(s, 'UCX posix spread',
                p.ucx_spread(s, 'UCX posix', 'posix,cma,self'), True)
    yield from messages(s, 'libfabric shm', p.fabric, 'shm')
    yield Probe(s, 'libfabric shm write',
                p.fabric(s, 'libfabric shm', 'shm', 'write', BW_GOAL))
    yield Probe(s, 'fi_pingpong shm 8',
                p.fi_pingpong(s, 'fi_pingpong shm', 'shm', 8), True)
    yield from messages(s, 'Open MPI vader', p.mpi, 'vader')


def peers(s, lats, bws):
    yield from ucx(s, 'UCX tcp', 'tcp,self', 'tag_lat', 'lat', lats, LAT_GOAL)
    yield from ucx(s, 'UCX tcp', 'tcp,self', 'tag_bw', 'tag', bws, BW_GOAL)
    yield from messages(s, 'libfabric tcp', p.fabric, 'tcp;ofi_rxm', lats, bws)
    yield Probe(s, 'libfabric tcp write',
                p.fabric(s, 'libfabric tcp', 'tcp;ofi_rxm', 'write', BW_GOAL))
    yield Probe(s, 'UCX tcp spread', p.ucx_spread(s, 'UCX tcp', 'tcp,self'),
                True)
    yield Probe(s, 'fi_pingpong tcp 8',
                p.fi_pingpong(s, 'fi_pingpong tcp', 'tcp;ofi_rxm', 8), True)
    yield Probe(s, 'iperf3', p.iperf3(s))
    if s is LOOPBACK:
        # mpirun starts its ranks in one namespace.
        yield from messages(s, 'Open MPI tcp', p.mpi, 'tcp')
        yield Probe(s, 'sockperf tcp', p.sockperf(s, True), True)
    yield Probe(s, 'qperf', p.qperf(s), True)


def network(s):
    datagram = s.mtu + 16
    yield Probe(s, 'UDP lat', p.sockets_lat(s, 'udp_pingpong', 'UDP', 8))
    yield Probe(s, 'UDP GSO', p.udp_gso_burst(s, datagram, s.mtu))
    yield Probe(s, 'UDP GSO 64', p.udp_gso_burst(s, 80, 64, '-w', 65536))
    if s is LOOPBACK:
        yield Probe(s, 'sendmmsg 64', p.udp_batches(s, 80, 64))
    yield Probe(s, 'TCP lat', p.sockets_lat(s, 'tcp_pingpong', 'TCP', 8))
    yield Probe(s, 'TCP bw', p.tcp_stream(s, 256 * KIB))
    whole = s is LOOPBACK
    lats, bws = (LAT_SIZES, BW_SIZES) if whole else (FAR_LAT, FAR_BW)
    yield from urnic_lat(s, ROCE, ('send', 'write', 'read') if whole else
                         ('send',), lats)
    yield from urnic_bw(s, ROCE, ('send', 'write', 'read'), bws)
    yield from urnic_qps(s, ROCE, ('send', 'write'))
    yield from urnic_lat(s, IWARP, ('send',), lats if whole else LAT_GOAL)
    yield from urnic_bw(s, IWARP, ('write',), bws if whole else (MIB,))
    yield from urnic_bw(s, IWARP, ('send', 'read'), (MIB,))
    yield from urnic_spread(s, ROCE, 'send')
    yield from urnic_spread(s, IWARP, 'send')
    yield from peers(s, lats, bws)
    if whole:
        yield from urnic_many(s, ROCE, 'write')
        yield from urnic_threads(s, 'urnic0')
        for who, kind, device in (('TCP', 'tcp', None),
                                  ('urnic0', 'rdma', 'urnic0'),
                                  ('urniw0', 'rdma', 'urniw0')):
            yield Probe(s, f'{who} connections',
                        p.connections(s, who, kind, AT_ONCE, device))
        yield Probe(s, 'urnic0 costs', p.costs(s, 'urnic0'))


def sleeping_lat(s, size, curve):
    yield Probe(s, f'TCP lat {size}', z.tcp_pingpong(s, size), curve)
    for op in ('send', 'read'):
        for stack in z.OURS:
            yield Probe(s, f'{stack.who} {op} lat {size}',
                        z.pingpong(s, stack, op, size), curve)


def sleeping_redis(s, op, clients, pipelined, curve):
    name = f'{op} requests {z.GET}' + (f' q{clients}' if clients > 1 else '')
    for stack in z.STACKS:
        yield Probe(s, f'{stack.who} {name}',
                    z.redis(s, stack, clients, pipelined), curve)


def sleeping():
    """Each program by every stack before the next program."""
    s = SLEEPING
    yield from sleeping_lat(s, 8, False)
    yield from sleeping_lat(s, 4 * KIB, True)
    for clients in (1, 16, 64):
        yield from sleeping_redis(s, 'redis', clients, False, clients == 64)
    yield from sleeping_redis(s, 'redis pipelined', 16, True, True)
    for stack in z.STACKS:
        yield Probe(s, f'{stack.who} iperf3 bw {z.PIECE}',
                    z.iperf3(s, stack))
    for size in (4 * KIB, 64 * KIB):
        for depth, suffix in ((1, ''), (16, ' q16')):
            for stack in z.STACKS:
                yield Probe(s, f'{stack.who} fio write bw {size}{suffix}',
                            z.fio(s, stack, size, depth), True)
    for stack in z.STACKS:
        yield Probe(s, f'{stack.who} pairs', z.pairs(s, stack))
        yield Probe(s, f'{stack.who} epoll pairs',
                    z.pairs(s, stack, epoll=True))


def lossy(s):
    """The link has no bursts: every packet costs what it costs on a wire."""
    yield Probe(s, 'iperf3', p.iperf3(s))
    yield from urnic_bw(s, ROCE, ('write', 'read'), (MIB,))
    yield from urnic_bw(s, ROCE, ('send',), (64 * KIB,))
    yield Probe(s, 'urnic0 send lat 64', p.perf_tail(s, ROCE, 'send', 64))


def port(s):
    """Curves all: the first round and every other one have them."""
    ways = [('urnic0 DPDK', 'dpdk'), ('urnic0 urnicd', 'urnicd')]
    if s.kernel:
        ways.append(('urnic0 sockets', 'sockets'))
        yield Probe(s, 'UDP lat', ports.udp(s, 64), True)
    for size in (64, s.link_mtu):
        yield Probe(s, f'testpmd {size}', ports.forward(s, size), True)
    for who, kind in ways:
        yield Probe(s, f'{who} send lat 64', ports.lat(s, who, kind, 64), True)
        for size in (64, 4 * KIB):
            yield Probe(s, f'{who} send bw {size}',
                        ports.bw(s, who, kind, size), True)


def probes():
    yield from memory()
    for scene in NETWORK:
        yield from network(scene)
    for scene in LOSSY:
        yield from lossy(scene)
    yield from sleeping()
    for scene in PORTS:
        yield from port(scene)
