#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""scripts/run_tests: a skip without a reason is a failure, and of a test that
failed it says which case."""

import importlib.machinery
import importlib.util
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
CMOCKA = '[ RUN      ] one\n{}[  SKIPPED ] one\n[==========] 2 test(s) run.\n'
HARNESS = 'skipped lo       progs/one          0.02 s\n{}passed  lo   x/y\n'


def run_tests():
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader(
        'run_tests', os.path.join(TOP, 'scripts', 'run_tests'))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def main():
    sys.dont_write_bytecode = True
    judge = run_tests().judge_skips

    def verdict(result, stdout='', stderr=''):
        test = {'name': 't', 'result': result, 'stdout': stdout,
                'stderr': stderr}
        lines = list(judge(test))
        return test['result'], lines

    # Whole tests.
    assert verdict('SKIP') == ('FAIL', [])
    assert verdict('SKIP', '[==========] 3 test(s) run.\n') == ('FAIL', [])
    assert verdict('SKIP', 'skipped:\n') == ('FAIL', [])
    for where in ({'stdout': 'skipped: no tun\n'},
                  {'stderr': 'skipped: no tun\n'},
                  {'stdout': HARNESS.format('      no tun\n')}):
        assert verdict('SKIP', **where) == ('SKIP', ['skipped: t: no tun'])
    # Cases of a test that passed.
    assert verdict('OK', 'all right\n') == ('OK', [])
    assert verdict('OK', CMOCKA.format('')) == ('FAIL', [])
    assert verdict('OK', CMOCKA.format('skipped: no tun\n')) == (
        'OK', ['skipped: t: one: no tun'])
    assert verdict('OK', HARNESS.format('      no tun\n')) == (
        'OK', ['skipped: t: progs/one: no tun'])
    assert verdict('OK', HARNESS.format('      \n')) == ('FAIL', [])
    # One reason is for one case.
    assert verdict('OK', CMOCKA.format('skipped: no tun\n')
                   + CMOCKA.format(''))[0] == 'FAIL'
    assert verdict('FAIL', CMOCKA.format('')) == ('FAIL', [])

    what = run_tests().what_failed
    assert what({}) == 'it printed nothing'
    assert what({'stdout': 'one\ntwo\n\n'}) == 'two'
    assert what({'stdout': '[   LINE   ] --- a.c:3: error: Failure!\n'
                 '[  FAILED  ] one\n[==========] 2 test(s) run.\n'}) == (
        '[   LINE   ] --- a.c:3: error: Failure!\n    [  FAILED  ] one\n'
        '    [==========] 2 test(s) run.')
    assert what({'stdout': 'urnic0 WRONG: a\npassed  lo  b\n'}) == (
        'urnic0 WRONG: a')
    assert what({'stderr': '==7==ERROR: a\n==7==HINT: b\n'}) == (
        '==7==ERROR: a\n    ==7==HINT: b')
    assert what({'stdout': HARNESS.format('      exit 1\n      | why\n')
                 .replace('skipped lo', 'failed  lo')}).endswith(
                     'exit 1\n    | why')


if __name__ == '__main__':
    sys.exit(main())
