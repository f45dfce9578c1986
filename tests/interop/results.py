# SPDX-License-Identifier: BSD-2-Clause
"""The table of results in a Markdown file: one row a case, kept up to date.

The file is all there is: rows are read from it, changed and written back, so
that the whole can be run in pieces.
"""

import os
import re
import time

from peers import ROLES

HEAD = ('| case | ' + ' | '.join(r.replace('-', ' ') for r in ROLES)
        + ' | Linux |')
RULE = '|---|---|---|---|'
ROW = re.compile(r'\| `(?P<name>\S+)` \| (?P<a>[^|]*) \| (?P<b>[^|]*) \| '
                 r'(?P<linux>[^|]*) \|$')


class Table:
    """The rows of a file, by name: [verdict in each role, kernel]."""

    def __init__(self, path):
        self.path = path
        self.read()

    def read(self):
        self.rows = {}
        with open(self.path, encoding='utf-8') as f:
            lines = f.read().splitlines()
        if HEAD not in lines:
            raise ValueError(f'{self.path} has no table under {HEAD}')
        start = lines.index(HEAD)
        end = start + 2
        while end < len(lines) and lines[end].startswith('|'):
            m = ROW.match(lines[end])
            if not m:
                raise ValueError(f'{self.path}:{end + 1}: not a row of a case')
            self.rows[m['name']] = [m['a'].strip(), m['b'].strip(),
                                    m['linux'].strip()]
            end += 1
        self.before, self.after = lines[:start], lines[end:]

    def passed(self, name, role):
        row = self.rows.get(name)
        return bool(row) and row[ROLES.index(role)].startswith('passed')

    def note(self, name, role, verdict, linux, names):
        """A case has been run in a role, now.  Others may have changed the
        file meanwhile.  names: of all cases, in their order."""
        self.read()
        row = self.rows.setdefault(name, ['', '', ''])
        row[ROLES.index(role)] = f'{verdict} {time.strftime("%Y-%m-%d")}'
        row[2] = linux
        self.rows = {n: self.rows[n] for n in names if n in self.rows}
        self.write()

    def write(self):
        rows = [f'| `{name}` | {a} | {b} | {linux} |'
                for name, (a, b, linux) in self.rows.items()]
        temporary = self.path + '.new'
        with open(temporary, 'w', encoding='utf-8') as f:
            f.write('\n'.join(self.before + [HEAD, RULE] + rows + self.after)
                    + '\n')
        os.replace(temporary, self.path)
