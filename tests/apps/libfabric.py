# SPDX-License-Identifier: BSD-2-Clause
"""libfabric's verbs provider: connected endpoints, and reliable datagrams on
them, with every byte checked.

Its server listens on the loopback address unless it is given one, so both sides
are on one host; its list of devices leaves hosts out that have no other address.
"""

import shutil

from harness.env import Case, Failure, Skip, finish


KINDS = (('msg', 'verbs', 'msg'), ('rdm', 'verbs;ofi_rxm', 'rdm'))


def pingpong(device, provider, endpoint):
    def run(env):
        if not shutil.which('fi_pingpong'):
            raise Skip('no fi_pingpong: apt-get install libfabric-bin')
        base = ['env', f'URNIC_DEVICES={device}', 'fi_pingpong', '-p', provider,
                '-e', endpoint, '-c', '-I', 50]
        port = env.port()
        s = env.run(env.a, *base, '-B', port)
        c = None
        try:
            s.wait_listen(port)
            c = env.run(env.a, *base, '-P', port, '127.0.0.1')
            finish(s, c, 60)
            for side in (s, c):
                if '1m ' not in side.text():
                    raise Failure(f'no result of 1 MiB in {side.describe()}')
        finally:
            s.end()
            if c:
                c.end()
    return run


# The datagrams of urnic0 failed in 2 of 92 runs, when the programs ended: the
# server got a flushed request.  Why is not known yet.
CASES = [Case(f'{device}-{name}', pingpong(device, provider, endpoint),
              full=name == 'rdm')
         for device in ('urnic0', 'urniw0')
         for name, provider, endpoint in KINDS]
