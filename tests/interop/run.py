#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""urnic against the RDMA stacks of a Linux kernel, which runs in a guest.

    run.py --urnic build/urnic --progs build/tests/progs [GROUP ...]

Every case runs in both roles.  --on says how urnic is joined to the wire
(onport.py): by the kernel's sockets, by ports of DPDK, or all ways in turn;
what is on a port is called NAME@WAY.  --short leaves out the long ones, --smoke runs
one of each kind, -k PATTERN those whose names match.  --record FILE enters
what came of each into the table of docs/interop.md or another file, --missing
runs only what has not passed there: so the whole can be run in pieces, each as
long as --limit says.  Exit code: 0 all passed or skipped, 1 a case failed, 77
nothing could be run.
"""

import argparse
import importlib
import os
import re
import shlex
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import guest                                   # noqa: E402
import onport                                  # noqa: E402
import rates                                   # noqa: E402
import results                                 # noqa: E402
from harness.proc import Failure, Proc, Skip   # noqa: E402
from harness.run import run_case, stop         # noqa: E402
from peers import ROLES, Peers                 # noqa: E402

GROUPS = ('verbs', 'cm', 'ends', 'demos', 'path')
SMOKE_SECONDS = 300


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--urnic', default='build/urnic')
    p.add_argument('--progs', default='build/tests/progs')
    p.add_argument('--image', default=os.environ.get(
        'URNIC_GUEST', '/var/tmp/urnic-guest'), help='where the image is kept')
    p.add_argument('--accel', choices=['kvm', 'tcg'])
    p.add_argument('--on', action='append', choices=onport.WAYS + ('all',),
                   help='sockets if not given')
    p.add_argument('--short', action='store_true')
    p.add_argument('--smoke', action='store_true',
                   help='the fewest cases that touch everything, in '
                   f'{SMOKE_SECONDS} s with the image\'s making')
    p.add_argument('--limit', type=int, metavar='SECONDS',
                   help='skip what would start later')
    p.add_argument('--hold', action='store_true',
                   help='boot the guest, run nothing, end on ^C')
    p.add_argument('--rates', metavar='BUILD', help='no cases: compare the '
                   'rate of connections within the guest')
    p.add_argument('--record', metavar='FILE', type=results.Table)
    p.add_argument('--missing', action='store_true')
    p.add_argument('--list', action='store_true')
    p.add_argument('-k', default='', metavar='PATTERN')
    p.add_argument('groups', nargs='*', metavar='GROUP')
    args = p.parse_args()
    if args.missing and not args.record:
        p.error('--missing goes with --record')
    args.on = onport.WAYS if 'all' in (args.on or ()) else \
        tuple(args.on or onport.WAYS[:1])
    args.limit = args.limit or (SMOKE_SECONDS if args.smoke else 10 ** 6)
    return args


def selected(args):
    """(name, role, case, way) of everything to run."""
    for way in args.on:
        for name, case in every(args.groups or GROUPS, way):
            for role in ROLES:
                if args.smoke and not onport.SMOKE[way].match(
                        f'{name} {role}'):
                    continue
                if args.missing and args.record.passed(name, role):
                    continue
                if onport.left_out(way, name, role):
                    continue
                if re.search(args.k, f'{name} {role}') and \
                        not (case.full and args.short):
                    yield name, role, case, way


def every(groups, way):
    """(name, case) of all that there is for a way."""
    for group in groups:
        for case in importlib.import_module(group).CASES:
            yield onport.named(f'{group}/{case.name}', way), case


def all_names():
    return [name for way in onport.WAYS for name, _ in every(GROUPS, way)]


def run_all(args, cases, count):
    end = time.monotonic() + args.limit
    guest.preconditions()
    guest.build(args.image, args.limit)
    place = guest.GuestPlace(args.image, args.accel)
    signal.signal(signal.SIGTERM, lambda *a: (place.pull_plug(), stop(*a)))
    with place:
        env = Peers(place, os.path.abspath(args.urnic),
                    os.path.abspath(args.progs), not args.short)
        if args.hold:
            env.use(args.on[0])
            hold(env)
        if args.rates:
            rates.measure(env, args.rates)
            return
        try:
            run_each(args, cases, count, env, end)
        finally:
            env.joint.end()


def run_each(args, cases, count, env, end):
    place = env.place
    for name, role, case, way in cases:
        if time.monotonic() > end - 10:
            raise Skip(f'not done within {args.limit} s: {name} ...')
        env.use(way)
        env.role = role
        verdict, why = run_case(f'{name} {role}', case, env)
        if verdict == 'failed':
            note(f'failed: {name} {role}: {why[:1500]}')
        count[verdict] += 1
        if args.record:
            args.record.note(name, role, verdict, place.linux, all_names())
        if not place.vm.running():
            raise Failure('the guest has ended: ' + place.console())
        if verdict == 'failed':
            env.healthy()
    env.healthy()


def hold(env):
    """Tell how to reach both sides and wait."""
    urnic = shlex.join(env.joint.argv([env.urnic, 'run', '--']))
    print(f'urnic: ip netns exec {env.a.ns} {urnic} PROGRAM '
          f'({env.a.ip4}, {env.a.ip6})')
    print(f'guest: {shlex.join(env.place.ssh)} PROGRAM '
          f'({env.b.ip4}, {env.b.ip6})', flush=True)
    while env.place.vm.running():
        time.sleep(1)


def note(text):
    """Printed, and repeated at the end of .ci/run's output."""
    print(text, flush=True)
    if os.environ.get('UR_TALLY'):
        with open(os.environ['UR_TALLY'] + '.notes', 'a',
                  encoding='utf-8') as out:
            print(text, file=out)


def tell(count):
    print('{passed} passed, {failed} failed, {skipped} skipped'
          .format(**count))
    if os.environ.get('UR_TALLY'):
        with open(os.environ['UR_TALLY'], 'a', encoding='utf-8') as out:
            print(count['passed'], count['failed'], count['skipped'],
                  file=out)
    if count['failed']:
        return 1
    return 0 if count['passed'] else 77


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, stop)
    cases = list(selected(args))
    if args.list:
        print('\n'.join(f'{name} {role}' for name, role, _, _ in cases))
        return 0
    count = dict(passed=0, failed=0, skipped=0)
    try:
        run_all(args, cases, count)
    except Skip as e:
        print(f'skipped: {e}')
        count['skipped'] += len(cases) - sum(count.values())
    except Failure as e:
        print(f'failed: {e}')
        count['failed'] += 1
    except KeyboardInterrupt:
        print('interrupted')
        count['failed'] += 1
    finally:
        Proc.end_all()
    return tell(count)


if __name__ == '__main__':
    sys.exit(main())
