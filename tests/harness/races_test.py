#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""run.py: a second try for a race of a foreign program, and for nothing else."""

import contextlib
import io
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import run  # noqa: E402
from harness.env import Case  # noqa: E402
from harness.proc import Failure  # noqa: E402

RPING = 'client exit 1, server exit 0\n      client: rping -c -a 127.0.0.1\n' \
    '      | rdma_get_cm_event: Bad file descriptor'


def outcome(*failures):
    """(exit code, closing line, tries) of a run of one case that fails with
    each text in turn, and passes after that."""
    left = list(failures)

    def fn(env):
        if left:
            raise Failure(left.pop(0))

    case = Case('it', fn)
    run.selected = lambda args: [('group/it', case)]
    run.Place = lambda kind: contextlib.nullcontext(
        types.SimpleNamespace(kind=kind, a=None, b=None))
    run.rights.take = lambda: None
    sys.argv = ['run.py', 'pingpong']
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run.main()
    return code, out.getvalue().splitlines()[-1], \
        len(failures) - len(left) + (code == 0)


def main():
    assert outcome() == (0, '1 passed, 0 failed, 0 skipped', 1)
    code, line, tries = outcome(RPING)
    assert (code, tries) == (0, 2), (code, tries)
    assert 'tried again: group/it (rping destroys' in line, line
    assert outcome(RPING, RPING, RPING)[::2] == (1, 2)
    ours = RPING.replace('rping', 'cm_peer')
    assert outcome(ours)[::2] == (1, 1)
    assert outcome('still running after 60 s: rping -c')[::2] == (1, 1)


if __name__ == '__main__':
    sys.exit(main())
