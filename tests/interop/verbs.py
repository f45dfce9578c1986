# SPDX-License-Identifier: BSD-2-Clause
"""urnic against the kernel's rxe without connection management.

Each row runs in both roles.  The programs are the distribution's, the same on
either side, and our own that compare every byte (tests/progs), which in the
guest use the distribution's library.
"""

import os
import re
import tempfile
import time

from apps.perftest import check_table
from apps.pingpong import check
from harness.env import Case, Failure, words
from netns import pcap
from peers import Sampler

CASES = []


def case(name, fn, full=False):
    def on_rxe(env):
        env.set_link('rxe')
        fn(env)
    CASES.append(Case(name, on_rxe, full=full))


def to(peer):
    """What a client has more on its command line than a server."""
    return [peer.ip4] if peer else []


def last_ack_may_be_lost(attempt, again):
    """A side that ends first repeats no acknowledgement; the other may then
    report that its last one is missing."""
    while True:
        try:
            return attempt()
        except Failure as e:
            if not again or not re.search('client exit (0.*1|1.*0)', str(e)) \
                    or 'exceeded (12) for wr_id 2' not in str(e):
                raise
            again -= 1


def pingpong(kind, gid, args, lost=0):
    def run(env):
        port = env.port()

        def make(host, peer):
            return ([f'ibv_{kind}_pingpong', '-p', port] + words(args)
                    + ['-g', env.gid(host, gid)] + to(peer))
        with Loss(env, lost):
            s, c = last_ack_may_be_lost(
                lambda: env.duel(make, timeout=90), 3 if lost else 0)
        check(s.text(), kind, args)
        check(c.text(), kind, args)
    return run


# An emulated guest may pause for seconds, which is no reason to give up.
PATIENT = ['-u', '18']


def perftest(prog, args, gid='v4', lost=0):
    def run(env):
        port = env.port()
        timeout = [] if lost else PATIENT

        def make(host, peer):
            return ([f'ib_{prog}', '-F', '-p', port] + words(args) + timeout
                    + ['-x', env.gid(host, gid)] + to(peer))
        with Loss(env, lost):
            _, c = env.duel(make, timeout=180)
        check_table(c.text(), prog, args)
    return run


def verify(gid, args, lost=0):
    """SEND, WRITE, READ and atomics of random sizes; every byte compared."""
    def run(env):
        port = env.port()

        def make(host, peer):
            return ([env.prog_on(host, 'verify'), '-p', port] + words(args)
                    + ['-g', env.gid(host, gid)] + to(peer))
        with Loss(env, lost):
            env.duel(make, timeout=120)
    return run


def sizes(gid, args, lost=0):
    """Every kind of transfer in every size; every byte compared."""
    def run(env):
        port = env.port()

        def make(host, peer):
            return ([env.prog_on(host, 'sizes'), '-p', port] + words(args)
                    + ['-g', env.gid(host, gid)] + to(peer))
        with Loss(env, lost):
            _, c = env.duel(make, timeout=150)
        told = re.search(r'(\d+) transfers', c.text())
        if not told or int(told[1]) < 50:
            raise Failure('few transfers: ' + c.describe())
    return run


class Loss:
    """A context in which the wire loses packets, in both directions."""

    def __init__(self, env, percent):
        self.env, self.percent = env, percent

    def __enter__(self):
        if self.percent:
            self.env.place.lose(self.percent)

    def __exit__(self, *exc):
        if not self.percent:
            return
        dropped = [h.sh('tc', '-s', 'filter', 'show', 'dev', h.dev, 'ingress')
                   for h in (self.env.a, self.env.b)]
        self.env.place.lossless()
        if not all('bytecode' in text for text in dropped):
            raise Failure(f'the loss filter was not in place: {dropped}')


def capture(gid):
    """Both sides' packets carry the right ICRC, as an outsider computes it."""
    def run(env):
        path = os.path.join(tempfile.mkdtemp(prefix='urnic-cap.'), 'pcap')
        dump = env.run(env.a, 'tcpdump', '-i', env.a.dev, '-U', '-s', '0',
                       '-B', '65536', '--immediate-mode', '-w', path,
                       'udp port 4791', plain=True)
        try:
            dump.wait_text('listening on', 10)
            verify(gid, '-n 30 -s 20000')(env)
            time.sleep(1)
            dump.signal(2)
            dump.wait(10)
            seen = {}
            for frame in pcap.packets(path):
                parts = pcap.roce(frame)
                if not parts:
                    continue
                if not pcap.icrc_right(*parts):
                    raise Failure(f'wrong ICRC in {path}')
                source = frame[6:12]
                seen[source] = seen.get(source, 0) + 1
            if len(seen) != 2 or min(seen.values()) < 100:
                raise Failure(f'packets of the sides: {seen}')
            os.unlink(path)
            os.rmdir(os.path.dirname(path))
        finally:
            dump.end()
    return run


def no_drops(env):
    """Neither side has dropped a packet for its ICRC or form."""
    port = env.port()

    def make(host, peer):
        return (['ib_write_bw', '-F', '-D', '4', '-s', '8192', '-p', port,
                 '-x', env.gid(host, 'v4')] + to(peer))
    shows = []

    def ready(host, proc):
        env.listening(port)(host, proc)
        shows.append(Sampler(env))
        shows[0].start()
    env.duel(make, timeout=60, ready=ready)
    total = shows[0].result()
    # What a slow guest acknowledges after it was asked again is no fault.
    bad = {k: v for k, v in total.items()
           if v and k.startswith('drop_') and k != 'drop_ghost_ack'}
    if bad:
        raise Failure(f'urnic has dropped: {bad}')
    if not total.get('rcvd_pkts'):
        raise Failure(f'nothing was received, or counted: {total}')
    log = env.b.script('dmesg | grep -i "rxe.*\\(icrc\\|invalid\\|bad\\)" || '
                       'true')
    if log.strip():
        raise Failure('the kernel complains:\n' + log)


for kind in ('rc', 'uc', 'ud', 'srq'):
    for gid in ('v4', 'v6'):
        case(f'{kind}-{gid}', pingpong(kind, gid, '-c -n 300'))
    case(f'{kind}-events', pingpong(kind, 'v4', '-c -e -n 300'))
case('rc-1M', pingpong('rc', 'v4', '-c -s 1048576 -n 10'))
for kind in ('rc', 'uc'):
    for mtu in (256, 512, 1024, 2048, 4096):
        case(f'{kind}-mtu-{mtu}',
             pingpong(kind, 'v4', f'-c -m {mtu} -s 50001 -n 30'),
             full=mtu not in (256, 4096))
case('rc-ll', pingpong('rc', 'll', '-c -n 100'), full=True)

for prog in ('send', 'write', 'read'):
    case(f'{prog}-bw', perftest(f'{prog}_bw', '-s 65536 -n 100'))
    case(f'{prog}-bw-v6',
         perftest(f'{prog}_bw', '-s 65536 -n 100', 'v6'))
    case(f'{prog}-lat', perftest(f'{prog}_lat', '-s 64 -n 200'))
    case(f'{prog}-all', perftest(f'{prog}_bw', '-a -n 5'), full=True)
    case(f'{prog}-8-qps', perftest(f'{prog}_bw',
                                   '-q 8 -s 4096 -n 100'))
    for mtu in (256, 512, 1024, 2048, 4096):
        case(f'{prog}-mtu-{mtu}', full=True,
             fn=perftest(f'{prog}_bw', f'-m {mtu} -s 50001 -n 60'))
for cas in ('FETCH_AND_ADD', 'CMP_AND_SWAP'):
    case(f'atomic-bw-{cas.lower()}',
         perftest('atomic_bw', f'-n 200 -A {cas}'))
case('atomic-lat', perftest('atomic_lat', '-n 200'))
case('send-uc', perftest('send_bw', '-c UC -s 4096 -n 100'))
case('send-srq', perftest('send_bw', '--use-srq -s 4096 -n 100'))
case('send-both-ways', perftest('send_bw', '-b -s 4096 -n 200'))
case('send-post-list', perftest('send_bw', '-l 16 -s 1024 -n 320'))

for gid in ('v4', 'v6'):
    case(f'verify-{gid}', verify(gid, '-n 100 -s 65536'))
    case(f'icrc-{gid}', capture(gid))
case('verify-long', verify('v4', '-n 1000 -s 262144'), full=True)
for mtu in (256, 512, 1024, 2048, 4096):
    case(f'sizes-rc-mtu-{mtu}', full=mtu != 1024,
         fn=sizes('v4', f'-M rc -m {mtu} -s 131072'))
    # Unreliable, so that what is lost is not sent again: little at once.
    case(f'sizes-uc-mtu-{mtu}', full=mtu != 1024,
         fn=sizes('v4', f'-M uc -m {mtu} -s 16384 -n 1'))
for gid in ('v4', 'v6'):
    case(f'sizes-ud-{gid}', sizes(gid, '-M ud -m 4096 -s 4096 -n 1'))
case('sizes-rc-v6', sizes('v6', '-M rc -s 131072'))
case('sizes-rc-8M', sizes('v4', '-M rc -s 8388608 -n 1'), full=True)
case('no-drops', no_drops)

case('loss-rc', pingpong('rc', 'v4', '-c -n 500', lost=1))
case('loss-srq', pingpong('srq', 'v6', '-c -n 300', lost=1), full=True)
case('loss-verify', verify('v4', '-n 100 -s 65536', lost=1))
case('loss-sizes', sizes('v4', '-M rc -m 1024 -s 32768', lost=1), full=True)
for prog in ('send_bw', 'write_bw', 'read_bw'):
    case(f'loss-{prog}', full=prog != 'write_bw',
         fn=perftest(prog, '-s 65536 -n 100', lost=1))
case('loss-atomic', perftest('atomic_bw', '-n 300', lost=1))
