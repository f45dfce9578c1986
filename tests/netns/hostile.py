# SPDX-License-Identifier: BSD-2-Clause
"""Ports that urnic runs, with a hostile host on the link.

Floods last a few seconds, URNIC_TEST=full: half a minute, and as many seconds
as $URNIC_FLOOD says.  What is to take longer than meson's patience is run by
the harness itself:

    URNIC_FLOOD=600 tests/harness/run.py --urnic build/urnic \\
        --progs build/tests/progs --where veth1500 -k flooded dpdk

URNICD=build-asan/src/urnicd/urnicd beside it has the sanitizers look on.
"""

import os
import re
import shutil
import tempfile
import time

from harness.env import Case, finish
from harness.proc import SLOW, Failure, Proc, Skip
from netns import inject
from netns.ports import EAL, PORT, Joined, Memif, Veth, address

LIVE = 'claims the address of a live neighbour'
MOVED = 'a neighbour has another address now'
FLOOD_S, FLOOD_FULL_S = 3, 30
FRAMES = 20000    # of a file
PCAP_MAC = '00:70:63:61:70:00'    # that DPDK gives the first such port
TESTPMD = 'dpdk-testpmd'
PIECE_S = 20      # of a forwarder's flood, each from another file
LINES = 200       # what one may make us log in that time, and far more


def flood_seconds(env):
    return int(os.environ.get('URNIC_FLOOD', 0)) or \
        (FLOOD_FULL_S if env.full else FLOOD_S)


class Injector:
    """inject.py on the neighbour's end of the link."""

    def __init__(self, env, mode, seconds, *args):
        self.p = Proc(env.b.wrap(
            ['python3', os.path.realpath(inject.__file__), mode, Veth.dev,
             mac_of(env.a, PORT), seconds, *args]))

    def __enter__(self):
        return self.p

    def __exit__(self, *exc):
        self.p.end()


def mac_of(host, dev):
    return re.search(r'link/ether (\S+)',
                     host.sh('ip', 'link', 'show', dev)).group(1)


def counters(env, kind, host=None):
    """Of the port's stack, by the process that runs it."""
    shown = env.show(host or env.a)
    if kind == 'urnicd':
        ports = shown['daemon']['ports']
        if len(ports) != 1 or ports[0]['interface'] != PORT:
            raise Failure(f'ports are {ports}')
        return ports[0]['counters']
    for p in shown['processes']:
        for lane in p.get('report', {}).get('lanes', ()):
            if 'port' in lane:
                return lane['port']
    raise Failure(f'no port in {shown}')


def received(env, kind, host=None):
    return counters(env, kind, host)['rx_roce']


def wait_more(env, kind, than, procs, host=None):
    """Until the port has received more of the pair's packets."""
    end = time.monotonic() + 20
    while received(env, kind, host) <= than:
        for p in procs:
            if not p.running():
                raise Failure(p.describe())
        if time.monotonic() > end:
            raise Failure(f'no more than {than} packets have come')
        time.sleep(0.05)


def drops(counted):
    return {k: v for k, v in counted.items() if k.startswith('drop_') and v}


def spoofed(kind, gid):
    """Another host claims the address of a live neighbour: traffic goes on to
    the right one, and the claim is counted and logged."""
    used = ('0a4d0002', '00000002')[gid]    # the end of its address

    def run(env):
        with Joined(env, kind, 'sockets') as j:
            tcp = env.port()
            argv = ['ibv_rc_pingpong', '-d', 'dp0', '-g', gid, '-p', tcp,
                    '-n', 2000000]
            procs = [j.proc(0, *argv)]
            try:
                procs[0].wait_listen(tcp)
                procs.append(j.proc(1, *argv, address(1)))
                wait_more_once(env, kind, procs)
                with Injector(env, 'spoof', 1) as liar:
                    if liar.wait(20):
                        raise Failure(liar.describe())
                wait_more(env, kind, received(env, kind) + 50, procs)
                counted = counters(env, kind)
                log = (j.daemons[0] or procs[0]).text()
                if not counted['neigh_conflict']:
                    raise Failure(f'counted: {counted}')
                # One that is not in use may be believed.
                if f'{LIVE}: ignored (…{used}' not in log or \
                        f'{MOVED} (…{used}' in log or log.count('\n') > LINES:
                    raise Failure(log[-2000:])
            finally:
                for p in procs:
                    p.end()
    return run


def wait_more_once(env, kind, procs):
    """Until the pair is connected; the port may be starting."""
    end = time.monotonic() + 20
    while True:
        try:
            return wait_more(env, kind, 20, procs)
        except (Failure, KeyError):
            if time.monotonic() > end or not all(p.running() for p in procs):
                raise
            time.sleep(0.1)


def pair_or_why(env, j):
    """A pair works; else the port's counters and log are shown."""
    tcp = env.port()
    try:
        j.pair(['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n', 200],
               [address(1)], tcp)
    except Failure as e:
        shown = {k: v for k, v in counters(env, 'urnicd').items() if v}
        ports = [{k: v for k, v in p.items() if k != 'counters'}
                 for p in env.show(env.a)['daemon']['ports']]
        raise Failure(f'{e}\n{shown}\n{ports}\n'
                      + j.daemons[0].describe()) from None


def believe(env):
    """The host's own stack accepts spoofed messages, and the pairs use it."""
    env.a.sh('ip', 'neigh', 'replace', address(2), 'lladdr',
             mac_of(env.b, Veth.dev), 'dev', PORT, 'nud', 'permanent')


def flooded(kind):
    """Frames of any form: pairs go on working, most frames are dropped for a
    reason that is counted, and the log stays short."""
    def run(env):
        seconds = flood_seconds(env)
        with Joined(env, 'urnicd', kind) as j:
            believe(env)
            before = sum(drops(counters(env, 'urnicd')).values())
            with Injector(env, 'flood', seconds, os.getpid()) as p:
                while True:
                    pair_or_why(env, j)
                    if not p.running():
                        break
                if p.wait(1) or int(p.text().split()[0]) < 1000:
                    raise Failure(p.describe())
            counted = drops(counters(env, 'urnicd'))
            if len(counted) < 5 or sum(counted.values()) < before + 500:
                raise Failure(f'seed {os.getpid()}: dropped: {counted}')
            d = j.daemons[0]
            if not d.running() or d.text().count('\n') > LINES + 4 * seconds:
                raise Failure(f'seed {os.getpid()}: {d.describe()}')
    return run


class Pcap:
    """A link on which a file of frames comes in, as fast as they are taken."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, hosts, mtu):
        return self

    def make(self):
        self.dir = tempfile.TemporaryDirectory(prefix='urnic-pcap')
        self.file = os.path.join(self.dir.name, 'frames')
        inject.write_pcap(self.file, PCAP_MAC, FRAMES, self.seed)

    def end(self):
        self.dir.cleanup()

    def port(self, host, i):
        return f'--vdev=net_pcap0,rx_pcap={self.file},tx_pcap=/dev/null'

    def running(self, host, i):
        """The forwarder runs."""


def local_pair(env, j):
    """Two processes of the host, by the device whose port is flooded."""
    tcp = env.port()
    argv = ['ibv_rc_pingpong', '-d', 'dp0', '-g', 0, '-p', tcp, '-n', 200]
    s = j.proc(0, *argv)
    try:
        s.wait_listen(tcp)
        c = j.proc(0, *argv, address(1))
        try:
            finish(s, c, 60)
        finally:
            c.end()
    finally:
        s.end()


def one_file(env, seed):
    with Joined(env, 'urnicd', link=Pcap(seed)) as j:
        d = j.daemons[0]
        end = time.monotonic() + 60 * SLOW
        while True:
            counted = counters(env, 'urnicd')
            if counted['rx_frames'] >= FRAMES:
                break
            if not d.running() or time.monotonic() > end:
                raise Failure(f'seed {seed}: {counted} {d.describe()}')
            time.sleep(0.05)
        local_pair(env, j)
        lost = drops(counted)
        if len(lost) < 10 or lost.get('drop_mac', 0) > FRAMES // 2:
            raise Failure(f'seed {seed}: dropped: {lost}')
        if not d.running() or d.text().count('\n') > LINES:
            raise Failure(f'seed {seed}: {d.describe()}')


def flooded_from_file(env):
    """DPDK's driver that reads a capture is the port: no kernel stands between
    the frames and the stack, whatever their form."""
    seed, end = os.getpid(), time.monotonic() + flood_seconds(env)
    while True:
        one_file(env, seed)
        seed += 1
        if time.monotonic() > end:
            break


class Forwarder:
    """DPDK's testpmd at the other end of the link: what a file has goes out
    over and over, as fast as one core can."""

    def __init__(self, env, link, seed):
        self.env, self.link, self.seed = env, link, seed

    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory(prefix='urnic-pcap')
        frames = os.path.join(self.dir.name, 'frames')
        inject.write_pcap(frames, mac_of(self.env.a, PORT), FRAMES // 4,
                          self.seed)
        # The packet socket is one beside the kernel's interface, which lives.
        out = f'--vdev=net_af_packet0,iface={Veth.dev}' \
            if isinstance(self.link, Veth) else self.link.port(self.env.b, 2)
        self.p = Proc(self.env.b.wrap(
            [TESTPMD, '--lcores', '0@0-1,1@0-1', *EAL.split(), '-m', '128',
             '--no-shconf', '--no-telemetry',
             f'--vdev=net_pcap0,rx_pcap={frames},tx_pcap=/dev/null,'
             'infinite_rx=1', out, '--', '--stats-period', '1',
             '--forward-mode', 'io', '--total-num-mbufs', '16384']))
        return self.p

    def __exit__(self, *exc):
        self.p.end()
        self.dir.cleanup()


def pair_now(env, j):
    """Over the link if the kernel is at its other end, else within the host.
    """
    if isinstance(j.link, Veth):
        pair_or_why(env, j)
    else:
        local_pair(env, j)


def pair_under_flood(env, j):
    """It may fail: most frames are lost before any driver sees them. But it
    ends."""
    try:
        pair_now(env, j)
    except Failure as e:
        if 'still running' in str(e) or 'retry counter' not in str(e):
            raise
        return 1
    return 0


def forward_piece(env, j, seed, seconds):
    """A piece of the flood; how many pairs did not get through."""
    lost = 0
    with Forwarder(env, j.link, seed) as p:
        p.wait_text('NIC statistics', 30)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            lost += pair_under_flood(env, j)
            if not p.running() or not j.daemons[0].running():
                raise Failure(f'seed {seed}: {p.describe()} '
                              f'{j.daemons[0].describe()}')
            time.sleep(0.2)
    pair_now(env, j)
    return lost


def forwarded(link):
    """Malformed frames by another program's driver, at full speed: urnicd
    survives, logs little, and works as soon as it is over."""
    def run(env):
        if not shutil.which(TESTPMD):
            raise Skip('needs dpdk-dev')
        kinds = ('urnicd', 'sockets') if link is Veth else ('urnicd',)
        seconds, seed, lost = flood_seconds(env), os.getpid(), 0
        with Joined(env, *kinds, link=link) as j:
            d = j.daemons[0]
            if link is Veth:
                believe(env)
            for begun in range(0, seconds, PIECE_S):
                lost += forward_piece(env, j, seed,
                                      min(seconds - begun, PIECE_S))
                seed += 1
            counted = counters(env, 'urnicd')
            print(f"        {counted['rx_frames']} frames taken, {lost} pairs "
                  'lost', flush=True)
            if counted['rx_frames'] < FRAMES or len(drops(counted)) < 10:
                raise Failure(f'seed {seed}: {counted}')
            if not d.running() or 'runtime error' in d.text() or \
                    d.text().count('\n') > LINES + 4 * seconds:
                raise Failure(f'seed {seed}: {d.describe(40)}')
    return run


CASES = [
    Case('spoofed', spoofed('dpdk', 0)),
    Case('spoofed-shared', spoofed('urnicd', 0)),
    Case('spoofed-shared-v6', spoofed('urnicd', 1)),
    Case('flooded', flooded('sockets')),
    Case('flooded-from-file', flooded_from_file),
    Case('forwarded', forwarded(Veth)),
    Case('forwarded-memif', forwarded(Memif)),
]
