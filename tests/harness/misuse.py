# SPDX-License-Identifier: BSD-2-Clause
"""What `urnic run --check` writes of the programs of a test."""

import json
import os
import tempfile

from harness.proc import Failure

KNOWN = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     'misuse.suppressions')


def options(path):
    """Of `urnic run`: findings to the file, the exit status is the program's."""
    return ['--check', '--check-exit', '0', '--check-file', path, '--json',
            '--suppress', KNOWN]


def lines(path):
    """The objects of complete lines."""
    try:
        with open(path, encoding='utf-8') as f:
            return [json.loads(line) for line in f.read().split('\n')[:-1]]
    except FileNotFoundError:
        return []
    except ValueError as e:
        raise Failure(f'{path} has a line that is not JSON: {e}') from None


def findings(path):
    return [x for x in lines(path) if 'rule' in x]


def summaries(path):
    """Of the processes that have come to their end."""
    return [x for x in lines(path) if 'findings' in x]


class Checked:
    """The programs of all cases of a run; without `wanted` they are not checked."""

    def __init__(self, wanted):
        self.dir = tempfile.TemporaryDirectory()
        os.chmod(self.dir.name, 0o777)
        self.path = os.path.join(self.dir.name, 'found') if wanted else ''
        self.options = options(self.path) if wanted else ()
        self.processes = 0

    def look(self):
        """Failure if the programs of the case have findings."""
        if not self.path:
            return
        found = findings(self.path)
        self.processes += len(summaries(self.path))
        if found:
            raise Failure('findings of urnic run --check:\n      '
                          + '\n      '.join(map(json.dumps, found)))

    def forget(self):
        """Drops findings of a case that has ended."""
        if os.path.exists(self.path):
            os.unlink(self.path)
