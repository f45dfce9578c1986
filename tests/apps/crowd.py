# SPDX-License-Identifier: BSD-2-Clause
"""Many pairs of programs at the same time."""

from harness.env import Case, Failure, finish
from apps.pingpong import check

KINDS = ('rc', 'rc', 'srq', 'ud')


def crowd(pairs, args):
    def run(env):
        started = []
        for i in range(pairs):
            kind = KINDS[i % len(KINDS)]
            port = env.port()
            base = [f'ibv_{kind}_pingpong', '-p', port, '-e', '-c',
                    '-s', '1024'] + args.split()
            gid = i % 2
            server = base + (['-g', env.gid(env.a, 'v4')] if gid else [])
            started.append((kind, port, base, gid, env.run(env.a, *server)))
        couples = []
        for kind, port, base, gid, s in started:
            s.wait_listen(port)
            client = base + (['-g', env.gid(env.b, 'v4')] if gid else [])
            couples.append((kind, s, env.run(env.b, *client, env.a.ip4)))
        failed = []
        for kind, s, c in couples:
            try:
                finish(s, c, 120)
                check(c.text(), kind, '-s 1024 ' + args)
            except Failure as e:
                failed.append(str(e))
        if failed:
            raise Failure(f'{len(failed)} of {pairs} pairs failed; first: '
                          + failed[0])
    return run


CASES = [
    Case('32-pairs', crowd(32, '-n 500')),
    Case('32-pairs-long', crowd(32, '-n 20000'), full=True),
    Case('100-pairs', crowd(100, '-n 500'), full=True),
]
