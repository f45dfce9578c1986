# SPDX-License-Identifier: BSD-2-Clause
"""Connections per second and their set-up time: the kernel's rxe and siw,
urnic on both devices and TCP, all in the same guest, so that the same
(emulated) processors do the work.  bench/conn_rate is the program everywhere.
"""

import json
import os
import subprocess
import tempfile

from harness.proc import Failure, sh

TOTAL, AT_ONCE = 200, 4
# What urnic's libraries need and the guest has not.
LIBRARIES = ('libisal.so.2', 'libjson-c.so.5')
URNIC = '/usr/local/bin/urnic run -- env URNIC_RDMACM_DEVICE='
# Name, what is on the link, what stands before the program, its first word.
ROWS = (
    ('TCP', 'none', '', 'tcp'),
    ('rxe (kernel)', 'rxe', '', 'rdma'),
    ('siw (kernel)', 'siw', '', 'rdma'),
    ('urnic0 (urnic)', 'none', URNIC + 'urnic0 ', 'rdma'),
    ('urniw0 (urnic)', 'none', URNIC + 'urniw0 ', 'rdma'),
)


def install(guest, build):
    """Put urnic into the guest, as `make install` would."""
    with tempfile.TemporaryDirectory() as stage:
        sh('meson', 'install', '-C', build, '--no-rebuild', '--destdir',
           stage, timeout=60)
        lib = os.path.join(stage, 'usr/local/lib')
        for name in LIBRARIES:
            sh('cp', '-L', f'/usr/lib/x86_64-linux-gnu/{name}', lib)
        tar = subprocess.run(['tar', '-C', stage, '-c', 'usr'], check=True,
                             stdout=subprocess.PIPE)
        subprocess.run(guest.place.ssh + ['tar -C / -x && ldconfig'],
                       input=tar.stdout, check=True, timeout=60)
    guest.put(os.path.join(build, 'bench', 'conn_rate'), '/tmp/conn_rate')


def sample(guest, before, kind, at_once):
    text = guest.script(f'timeout -s KILL 100 {before}/tmp/conn_rate {kind} '
                        f'{TOTAL} {at_once} {guest.ip4}', timeout=120)
    return json.loads(text.strip().splitlines()[-1])


def measure(env, build):
    """Print a table."""
    install(env.b, build)
    # siw binds to ports of rdma_cm, which does not know what TCP still keeps.
    env.b.script('echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets')
    print(f'{"":18}{"1/s":>8} {"median us":>10} {"p99 us":>10}   '
          f'({TOTAL} connections; {AT_ONCE} at once, and one by one)')
    for name, link, before, kind in ROWS:
        # rxe holds the port as long as it is loaded.
        env.b.script(f'rdma-mode none; rmmod rdma_rxe; rdma-mode {link}')
        try:
            many = sample(env.b, before, kind, AT_ONCE)
            one = sample(env.b, before, kind, 1)
            print(f'{name:18}{many["per_s"]:8.0f} {one["median_us"]:10.0f} '
                  f'{one["p99_us"]:10.0f}', flush=True)
        except Failure as e:
            # The kernel's own stacks do not always get through this.
            print(f'{name:18}' + str(e).strip().splitlines()[-1], flush=True)
            env.b.script('killall -q -9 conn_rate; true')
