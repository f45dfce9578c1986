# SPDX-License-Identifier: BSD-2-Clause
"""Races of the programs that the tests run and that are not ours.

A case that fails by one of them says nothing about urnic and is tried once
more.  Each is recognised by what the program prints, and no program of ours
prints that.
"""

import re

# (pattern in the text of a failure, cause)
RACES = (
    # Its thread that waits for events reads the channel which main() has
    # destroyed meanwhile (rping.c: rping_test_client(), rping_run_server()).
    (r'\brping\b.*rdma_get_cm_event: Bad file descriptor',
     'rping destroys its event channel under the thread that reads it'),
)


def of_foreigner(failure):
    """The cause, if the text of a failure shows one of them, or None."""
    for pattern, cause in RACES:
        if re.search(pattern, failure, re.DOTALL):
            return cause
    return None
