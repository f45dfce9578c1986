# SPDX-License-Identifier: BSD-2-Clause
"""What the tests that start real programs have in common."""
