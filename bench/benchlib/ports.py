# SPDX-License-Identifier: BSD-2-Clause
"""The same link under several owners: urnic on a port of DPDK, urnic on the
kernel's sockets, bare sockets, and DPDK's own testpmd, which sends frames on one
side, drops them on the other, and does nothing with them.

The link is one more between the two namespaces, as the tests make it
(tests/netns/ports.py); it lasts as long as a sample takes.
"""

import re
import time

from apps.perftest import table
from benchlib.programs import latency
from benchlib.samples import cell
from benchlib.world import Missing
from harness.env import Env, built
from harness.proc import Failure, Proc, Skip
from netns.ports import EAL, Joined, address

US = 1e-6
FORWARD = 'dpdk-testpmd'


def joined(world, scene, *kinds):
    place = world.place(scene.place)
    env = Env(place, world.urnic, '', False)
    try:
        built(env.urnic, 'liburnic-dpdk.so')
    except Skip:
        raise Missing('no DPDK: scripts/deps dpdk; meson setup '
                      '--reconfigure') from None
    return Joined(env, *kinds, link=scene.link, mtu=scene.link_mtu)


def perftest(world, scene, who, kind, name, args):
    world.need('ib_send_lat', 'perftest')
    place = world.place(scene.place)
    try:
        with joined(world, scene, kind, kind) as j:
            argv = [['env', f'URNIC_CONFIG={f.name}', world.urnic, 'run', '--',
                     f'ib_{name}', '-d', 'dp0', '-x', 0, '-F', '-p', 'PORT',
                     *args] for f in j.files]
            text = world.pair(f'{scene.name}/{who} {name} {args[1]}', place,
                              argv[0], argv[1] + [address(1)])
    except Skip as e:
        raise Missing(str(e)) from None
    rows = table(text)
    if not rows:
        raise Failure(f'{name}: no result in\n{text}')
    return rows[-1]


def lat(scene, who, kind, size):
    key = (scene.name, who, 'lat', size)

    def take(world):
        while True:
            n = world.count(key, 5000)
            row = perftest(world, scene, who, kind, 'send_lat',
                           ['-s', size, '-n', n])
            if world.learn(key, n, row[4] * 2 * n * US, 500, 200000):
                return {cell(scene.name, who, 'send lat', size): row[4]}
    return take


def bw(scene, who, kind, size):
    key = (scene.name, who, 'bw', size)

    def take(world):
        while True:
            n = world.count(key, 20000)
            row = perftest(world, scene, who, kind, 'send_bw',
                           ['-s', size, '-n', n, '-N'])
            rate = row[4]
            if world.learn(key, n, n / rate * US, 2000, 2000000):
                return {cell(scene.name, who, 'send bw', size):
                        rate * size / 1e3,
                        cell(scene.name, who, 'send rate', size): rate}
    return take


def udp(scene, size):
    """Bare sockets on the same link."""
    def take(world):
        place = world.place(scene.place)
        with joined(world, scene, 'sockets', 'sockets'):
            argv = [world.own('udp_pingpong'), '-t', world.seconds, '-s', size,
                    '-a', address(1), '-n', place.a.ns]
            found = world.json(f'{scene.name}/UDP {size}', place.b, argv)
        return latency(world, scene, 'UDP', 'lat', size, found)
    return take


def testpmd(world, host, core, vdev, mode, size):
    """One that says every second what it does; both its threads on a core."""
    argv = [FORWARD, '--lcores', f'0@{core},1@{core}', *EAL.split(),
            '--no-shconf', '--no-telemetry', vdev, '--', '--stats-period', 1,
            '--forward-mode', mode, '--txpkts', size,
            '--total-num-mbufs', 8192]
    return Proc(host.wrap([str(a) for a in argv]),
                env=world.environment(None))


def forward(scene, size):
    """Frames a second that one sends and the other takes and drops."""
    def take(world):
        world.need(FORWARD, 'dpdk-dev')
        place = world.place(scene.place)
        link = scene.link((place.a, place.b), scene.link_mtu)
        procs = []
        link.make()
        try:
            for i, (host, core, mode) in enumerate((
                    (place.a, world.cores[1], 'rxonly'),
                    (place.b, world.cores[0], 'txonly')), 1):
                procs.append(testpmd(world, host, core, link.port(host, i),
                                     mode, size))
            world.note(f'{scene.name}/testpmd {size}', procs[1].argv[4:], None)
            rate = received(procs)
        finally:
            for p in procs:
                p.end()
            link.end()
        return {cell(scene.name, 'testpmd', 'rate', size): rate / 1e6}
    return take


def received(procs):
    """The second whole second that frames came in."""
    end = time.monotonic() + 15
    while time.monotonic() < end:
        rates = [int(r) for r in re.findall(r'Rx-pps:\s+(\d+)',
                                            procs[0].text())]
        rates = [r for r in rates if r]
        if len(rates) > 2:
            return rates[2]
        for p in procs:
            if not p.running():
                raise Failure(p.describe())
        time.sleep(0.1)
    raise Failure(f'nothing comes: {procs[0].describe()}')
