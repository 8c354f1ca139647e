# SPDX-License-Identifier: Apache-2.0
"""checks.py - what must be true, one line each: failures always, the rest with -v."""
import sys

VERBOSE = "-v" in sys.argv
failures = []


def check(good, what):
    if VERBOSE or not good:
        print("  %s %s" % ("ok  " if good else "FAIL", what), flush=True)
    if not good:
        failures.append(what)
    return good
