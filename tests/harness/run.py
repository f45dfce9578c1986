#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run groups of cases in one place and print one line for each.

    run.py --urnic build/urnic --progs build/tests/progs --where lo pingpong

URNIC_TEST=full (or --full) runs the long form of everything; -k TEXT only the
cases with TEXT in their name; --check all programs under `urnic run --check`,
where a case with findings fails; URNIC_TEST_PART=N:I (or --part N:I) every Nth
case of a group from the Ith on (I modulo N, 0 if it is not given), for slow
builds.  A case has one try; the closing line names those that failed.
Exit code: 0 all passed or skipped, 1 a case failed, 77 nothing could be run.
"""

import argparse
import importlib
import os
import re
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import misuse, rights             # noqa: E402
from harness.env import Env                    # noqa: E402
from harness.net import Place                  # noqa: E402
from harness.proc import Failure, Proc, Skip   # noqa: E402

GROUPS = {
    'devices': 'apps.devices',
    'pingpong': 'apps.pingpong',
    'perftest': 'apps.perftest',
    'crowd': 'apps.crowd',
    'rdmacm': 'apps.rdmacm',
    'rsocket': 'apps.rsocket',
    'demos': 'apps.demos',
    'manual': 'apps.manual',
    'exp': 'apps.exp',
    'libfabric': 'apps.libfabric',
    'mpi': 'apps.mpi',
    'refused': 'apps.refused',
    'progs': 'life.progs',
    'explain': 'life.explain',
    'watch': 'life.watch',
    'pcap': 'life.pcap',
    'trace': 'life.trace',
    'fault': 'life.fault',
    'check': 'life.check',
    'life': 'life.life',
    'raw': 'netns.raw',
    'dpdk': 'netns.dpdk',
    'lwip': 'netns.lwip',
    'config': 'netns.config',
    'doctor': 'netns.doctor',
    'wire': 'netns.wire',
    'full': 'netns.full',
    'loss': 'netns.loss',
    'ecn': 'netns.ecn',
    'migrate': 'netns.migrate',
    'two-ports': 'netns.two_ports',
    'dc': 'netns.dc',
}


def part(text):
    """(N, I) of "N:I" or "N"."""
    m = re.fullmatch('([1-9][0-9]*)(?::([0-9]+))?', text)
    if not m:
        raise argparse.ArgumentTypeError(
            f'{text!r} is no N or N:I, with N of 1 at least')
    return int(m[1]), int(m[2] or 0) % int(m[1])


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--urnic', default='build/urnic')
    p.add_argument('--progs', default='build/tests/progs')
    p.add_argument('--where', default='lo',
                   choices=['lo', 'veth1500', 'veth9000'])
    p.add_argument('--full', action='store_true',
                   default=os.environ.get('URNIC_TEST') == 'full')
    p.add_argument('--part', type=part, metavar='N[:I]',
                   default=os.environ.get('URNIC_TEST_PART') or '1')
    p.add_argument('--check', action='store_true')
    p.add_argument('--list', action='store_true')
    p.add_argument('-k', default='', metavar='TEXT')
    p.add_argument('groups', nargs='+', choices=sorted(GROUPS),
                   metavar='GROUP')
    return p.parse_args()


def wanted(case, name, args):
    if case.full and not args.full:
        return False
    if not (case.far or args.full or args.where == 'lo'):
        return False
    if case.where and not args.where.startswith(case.where):
        return False
    return args.k in name


def selected(args):
    for group in args.groups:
        module = importlib.import_module(GROUPS[group])
        named = [(f'{group}/{case.name}', case) for case in module.CASES]
        cases = [(name, case) for name, case in named
                 if wanted(case, name, args)]
        yield from cases[args.part[1]::args.part[0]]


def nothing_left(args):
    """Why no case of the groups is to be run."""
    text = f' contains {args.k!r}' if args.k else ''
    of_part = ' is in part {}:{}'.format(*args.part)
    if args.part[0] > 1:
        return 'none of the cases' + (text and text + ' and') + of_part
    return 'none of the cases' + (text or ' belongs here')


def run_case(name, case, env, checked=None):
    """('passed', 'failed' or 'skipped', why), printed as well."""
    t0 = time.monotonic()
    detail = ''
    try:
        case.fn(env)
        if checked:
            checked.look()
        verdict = 'passed'
    except Skip as e:
        verdict, detail = 'skipped', str(e)
    except Failure as e:
        verdict, detail = 'failed', str(e)
    except Exception:  # a bug of the case itself is a failure, not an end
        verdict, detail = 'failed', traceback.format_exc()
    finally:
        Proc.end_all()
        if checked:
            checked.forget()
    took = time.monotonic() - t0
    print(f'{verdict:8}{env.place.kind:9}{name:44}{took:6.2f} s'
          + (f'\n      {detail}' if detail else ''), flush=True)
    return verdict, detail


def stop(signum, frame):
    """Clean up, once: make and timeout both send the signal."""
    signal.signal(signum, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, stop)
    cases = list(selected(args))
    if args.list:
        print('\n'.join(name for name, _ in cases))
        return 0
    if not cases:
        print('skipped: ' + nothing_left(args))
        return 77
    rights.take()
    count = dict(passed=0, failed=0, skipped=0)
    failed = []
    checked = misuse.Checked(args.check)
    if args.part[0] > 1:
        print('--part {}:{}'.format(*args.part), flush=True)
    try:
        with Place(args.where) as place:
            env = Env(place, os.path.abspath(args.urnic),
                      os.path.abspath(args.progs), args.full,
                      checked.options)
            for name, case in cases:
                verdict, _ = run_case(name, case, env, checked)
                if verdict == 'failed':
                    failed.append(name)
                count[verdict] += 1
    except Skip as e:
        print(f'skipped: {e}')
        count['skipped'] = len(cases)
    except KeyboardInterrupt:
        print('interrupted')
        count['failed'] += 1
    finally:
        Proc.end_all()
    if args.check:
        print(f'{checked.processes} processes were checked to their end')
        count['failed'] += bool(count['passed'] and not checked.processes)
    print('{passed} passed, {failed} failed, {skipped} skipped'
          .format(**count)
          + (f", failed: {', '.join(failed)}" if failed else ''))
    if count['failed']:
        return 1
    return 0 if count['passed'] else 77


if __name__ == '__main__':
    sys.exit(main())
