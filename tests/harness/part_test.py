#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""run.py lists the cases of every group; --part: the parts are the whole, and
anything else is refused."""

import os
import subprocess
import sys

from run import GROUPS

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'run.py')


def groups():
    """Each place lists the cases of every group, which imports all of them."""
    for where in ('lo', 'veth1500', 'veth9000'):
        r = subprocess.run([RUN, '--list', '--full', '--where', where,
                            *GROUPS], capture_output=True, text=True)
        assert r.returncode == 0 and not r.stderr, r.stderr


def cases(*args):
    """(cases of a group, what was said of wrong arguments)"""
    r = subprocess.run([RUN, '--list', *args, 'pingpong'],
                       capture_output=True, text=True)
    return r.stdout.split(), r.stderr


def left(*args):
    """Exit code and last line of a run that finds no case."""
    r = subprocess.run([RUN, *args, 'pingpong'], capture_output=True,
                       text=True)
    return r.returncode, r.stdout.splitlines()[-1]


def main():
    os.environ.pop('URNIC_TEST_PART', None)
    groups()
    every, _ = cases()
    parts = [cases('--part', f'3:{i}')[0] for i in range(3)]
    assert every and sorted(sum(parts, [])) == sorted(every), parts
    assert len(set(map(len, parts))) <= 2, parts
    assert cases('--part', '3')[0] == parts[0]
    assert cases('--part', '3:7654322')[0] == parts[7654322 % 3]
    reason = 'skipped: none of the cases '
    assert left('--part', '999:998') == (77, reason + 'is in part 999:998')
    assert left('-k', 'a?') == (77, reason + "contains 'a?'")
    assert left('-k', 'a?', '--part', '3:1') == (
        77, reason + "contains 'a?' and is in part 3:1")
    for wrong in ('0', '-1', '3:', '3:x', 'x', '', '0:1'):
        listed, said = cases('--part=' + wrong)
        assert not listed and 'is no N or N:I' in said, (wrong, said)
    os.environ['URNIC_TEST_PART'] = '0'
    assert 'is no N or N:I' in cases()[1]


if __name__ == '__main__':
    sys.exit(main())
