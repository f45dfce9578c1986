#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The documents of the public interface agree with the code.

    pages.py SOURCE

Environment variables: those that the code reads, the table in urnic(7) and the
table in README.md.  Functions and structures: include/urnic.h and its pages of
section 3.  Checks of `urnic doctor`: the code and urnic(1).
"""

import glob
import os
import re
import sys

# Of other programs: their own documents say what they mean.
FOREIGN = {'PATH', 'LD_LIBRARY_PATH', 'LD_PRELOAD', 'XDG_RUNTIME_DIR',
           'NOTIFY_SOCKET', 'LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES'}
CALL = re.compile(r'\b(secure_)?getenv\(\s*("?)(\w+)')
NAME = re.compile(r'"([A-Z][A-Z0-9_]{3,})"')
TABLE = '| variable | values | default | meaning |'


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as f:
        return f.read()


def same(what, one, other):
    """Two dictionaries or sets of (name, where it stands)."""
    (a, in_a), (b, in_b) = one, other
    wrong = [f'{name} is in {x}, not in {y}'
             for name, x, y in [(n, in_a, in_b) for n in sorted(set(a) - set(b))]
             + [(n, in_b, in_a) for n in sorted(set(b) - set(a))]]
    if isinstance(a, dict):
        wrong += [f'{name}: {in_a} has\n  {a[name]}\n{in_b} has\n  {b[name]}'
                  for name in sorted(set(a) & set(b)) if a[name] != b[name]]
    if wrong:
        sys.exit(f'pages: {what}: ' + '\n'.join(wrong))


def read_by_code(source):
    """(all variables, those that are ignored with more rights)"""
    names, secure = set(), set()
    for path in glob.glob(os.path.join(source, 'src', '**', '*.c'),
                          recursive=True) + \
            glob.glob(os.path.join(source, 'tools', '**', '*.c'),
                      recursive=True):
        text = read(path)
        for is_secure, is_literal, name in CALL.findall(text):
            # The name comes from elsewhere in the file: take all that are one.
            found = {name} if is_literal else set(NAME.findall(text))
            names |= found
            if is_secure:
                secure |= found
    return names - FOREIGN, secure - FOREIGN


def roff_text(lines):
    """Running text: BR, RB and the like join their arguments, B and I do not."""
    words = []
    for line in lines:
        macro = re.match(r'\.([BIR]{1,2}) (.*)', line)
        if macro:
            parts = [a or b for a, b in
                     re.findall(r'"([^"]*)"|(\S+)', macro.group(2))]
            line = ('' if len(macro.group(1)) == 2 else ' ').join(parts)
        elif line.startswith('.'):
            continue
        words.append(re.sub(r'\\f.|\\&', '', line).replace(r'\-', '-'))
    return ' '.join(words)


def section(page, title):
    found = re.search(rf'^\.SH {title}\n(.*?)(?=^\.SH |\Z)', page, re.S | re.M)
    if not found:
        sys.exit(f'pages: no section {title}')
    return found.group(1)


def in_manual(page):
    rows = {}
    first, *items = section(page, 'ENVIRONMENT').split('.TP\n')
    for item in items:
        head, values, _, default, _, *meaning = item.splitlines()
        rows[head.removeprefix('.B ')] = (
            values.removeprefix('Values: '), default.removeprefix('Default: '),
            roff_text(meaning))
    secure = set(re.findall(r'\bURNIC\w*', first)) if first else set()
    return rows, secure


def in_readme(text):
    table, _, rest = text.partition(TABLE)[2].partition('\n\n')
    rows = {}
    for line in table.splitlines()[2:]:
        name, *cells = [cell.strip().replace('`', '')
                        for cell in line.strip('|').split('|')]
        rows[name] = tuple(cells)
    return rows, set(re.findall(r'`(URNIC\w*)`', rest.partition('\n\n')[0]))


def check_environment(source):
    code, code_secure = read_by_code(source)
    known = set(re.findall(r'"(URNIC\w+)"',
                           read(source, 'src/config/environment.c')))
    same('variables', ({n for n in code if n.startswith('URNIC')}, 'the code'),
         (known, 'config/environment.c'))
    if not {'URNIC_SHM', 'RS_INLINE'} <= code:
        sys.exit(f'pages: the search is broken, it has found {code}')
    manual, manual_secure = in_manual(read(source, 'docs/man/urnic.7'))
    readme, readme_secure = in_readme(read(source, 'README.md'))
    same('variables', (code, 'the code'), (set(manual), 'urnic(7)'))
    same('variables', (manual, 'urnic(7)'), (readme, 'README.md'))
    same('ignored with more rights', (code_secure, 'the code'),
         (manual_secure, 'urnic(7)'))
    same('ignored with more rights', (code_secure, 'the code'),
         (readme_secure, 'README.md'))


def declarations(text):
    """Prototypes and members, with one space between words."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    text = ' '.join(text.split())
    functions = dict(re.findall(r'static inline int (urnic_\w+)\(([^)]*)\)',
                                text))
    structs = dict(re.findall(r'struct (urnic_\w+) \{ ([^}]*) \};', text))
    return functions, structs


def check_functions(source):
    header = read(source, 'include/urnic.h')
    functions, structs = declarations(header)
    if not functions or not structs:
        sys.exit('pages: the header has no declarations')
    pages = {os.path.basename(path)[:-2]: read(path) for path in
             glob.glob(os.path.join(source, 'docs', 'man', '*.3'))}
    same('functions', (set(functions), 'urnic.h'), (set(pages), 'docs/man'))
    for name, arguments in functions.items():
        synopsis = roff_text(section(pages[name], 'SYNOPSIS').splitlines())
        if f'int {name}({arguments});' not in synopsis:
            sys.exit(f'pages: {name}(3) has another prototype:\n{synopsis}')
    shown = {}
    for page in pages.values():
        shown.update(declarations(page)[1])
    same('structures', (structs, 'urnic.h'), (shown, 'docs/man'))
    above, _, rest = header.partition('#ifndef URNIC_H')
    for name, page in pages.items():
        own = rest.partition(f'static inline int {name}(')[0]
        own = own[own.rindex('\n}'):] if '\n}' in own else own
        error = re.compile(r'^ \*\t(E[A-Z]+)\t', re.M)
        same(f'errors of {name}',
             (set(error.findall(above) + error.findall(own)), 'urnic.h'),
             (set(re.findall(r'^\.TP\n\.B (E[A-Z]+)$',
                             section(page, 'ERRORS'), re.M)), 'its page'))


def check_doctor(source):
    """The names of the checks of `urnic doctor`."""
    code = ''.join(read(path) for path in
                   glob.glob(os.path.join(source, 'tools', 'doctor*.c')))
    names = set(re.findall(r'ur_doctor_add\(\s*d,\s*UR_DOCTOR_\w+,\s*"([^"]+)"',
                           code))
    names |= set(re.search(r'check = rx \? "([^"]+)" : "([^"]+)"',
                           code).groups())
    page = read(source, 'docs', 'man', 'urnic.1')
    listed = re.search(r'^\.B check\n\(([^)]*)\)', page, re.M).group(1)
    same('checks of doctor', (names, 'the code'),
         (set(listed.replace('\\-', '-').replace(',', ' ').split()),
          'urnic(1)'))


def main():
    check_doctor(sys.argv[1])
    check_environment(sys.argv[1])
    check_functions(sys.argv[1])


if __name__ == '__main__':
    main()
