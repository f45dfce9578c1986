# SPDX-License-Identifier: BSD-2-Clause
"""A gettimeofday() that spares perftest most of its measuring of the clock."""

import os
import re

PROGRAM = re.compile(r'ib_(send|write|read|atomic)_(bw|lat)')


def environ(progs, argv):
    """The environment of a program; None: ours.

    perftest measures the rate of the time stamp counter for 0.2 s for each
    message size, on both sides, which was most of the time of its cases.  Rates
    and latencies that it then prints are those of another clock, so a run that
    is given a duration (-D), which netns/ecn.py judges by its rate, has the
    real one.
    """
    clock = os.path.join(progs, 'libtsc_clock.so')
    if '-D' in argv or not any(PROGRAM.fullmatch(a) for a in argv) or \
            not os.path.exists(clock):
        return None
    loaded = os.environ.get('LD_PRELOAD')
    return dict(os.environ,
                LD_PRELOAD=f'{loaded}:{clock}' if loaded else clock)
