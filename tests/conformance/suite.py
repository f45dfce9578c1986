#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs rdma-core's tests in this process and reports each as it ends.

    suite.py TESTS REPORT WHICH DEVICE [--gid N]

TESTS is the directory with the suite, whose name must be `tests`.  REPORT gets
a line of JSON when a test begins and when it ends: from it the caller can tell
which test ended the process.  Tests that REPORT knows already are not run, so
that the caller can start the suite again for the rest.  WHICH is a JSON object:
`leave` has patterns of tests that are not run, `only` a text that the name of
a test must contain.
"""

import fnmatch
import json
import multiprocessing
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader


class Report:
    """The lines of an earlier life of this process, and ours behind them."""

    def __init__(self, path):
        self.seen = set()
        if os.path.exists(path):
            with open(path, encoding='utf-8') as f:
                self.seen = {json.loads(line).get('test') for line in f}
        self.out = open(path, 'a', encoding='utf-8')
        self.pid = os.getpid()

    def say(self, test, result, why=''):
        """One line; children of a test that come back here say nothing."""
        if os.getpid() != self.pid:
            return
        line = {'test': test, 'result': result, 'why': str(why)}
        self.out.write(json.dumps(line) + '\n')
        self.out.flush()


def error_text(err):
    return f'{err[0].__name__}: {err[1]}'


class Result(unittest.TextTestResult):
    """What unittest prints, and the report besides."""

    report = None

    def startTest(self, test):
        super().startTest(test)
        self.report.say(test.id(), 'begun')

    def addSuccess(self, test):
        super().addSuccess(test)
        self.report.say(test.id(), 'passed')

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.report.say(test.id(), 'skipped', reason)

    def addError(self, test, err):
        super().addError(test, err)
        self.report.say(test.id(), 'error', error_text(err))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.report.say(test.id(), 'failed', error_text(err))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.report.say(test.id(), 'failed', error_text(err))


def leaves(suite):
    """Every test of a tree of suites."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from leaves(item)
        else:
            yield item


def chosen(tests, which, report):
    """The tests to run; those left out are reported."""
    for test in tests:
        name = test.id()
        if name in report.seen or which['only'] not in name:
            continue
        if any(fnmatch.fnmatchcase(name, p) for p in which['leave']):
            report.say(name, 'left')
        else:
            yield test


def main():
    tests_dir, report_path, which, device = sys.argv[1:5]
    report = Result.report = Report(report_path)
    sys.argv = ['run_tests.py', '--dev', device, '-v'] + sys.argv[5:]
    sys.path.insert(0, tests_dir)
    from args_parser import parser
    module = SourceFileLoader(
        'tests', os.path.join(tests_dir, '__init__.py')).load_module()
    parser.parse_args()
    # The default of Python 3.14 pickles the test, which no test of devices bears.
    multiprocessing.set_start_method('fork')
    found = unittest.defaultTestLoader.loadTestsFromModule(module)
    todo = unittest.TestSuite(
        chosen(leaves(found), json.loads(which), report))
    unittest.TextTestRunner(verbosity=2, resultclass=Result).run(todo)


if __name__ == '__main__':
    main()
