# SPDX-License-Identifier: Apache-2.0
"""together.py - several checks at a time: a launcher spends most of its time waiting."""
import os
import sys
import time
import traceback

from cluster import end_with_us
from checks import check, failures


def begin(call):
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        end_with_us()
        failures.clear()
        call()
        code = 1 if failures else 0
    except BaseException:  # noqa: BLE001 - the parent must hear of everything
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def together(calls, width=2):
    """Make all calls, `width` at a time, each (name, function) in a process of its own.

    A call that fails a check or raises is a failure here."""
    waiting, running = list(calls), {}
    while waiting or running:
        while waiting and len(running) < width:
            name, call = waiting.pop(0)
            running[begin(call)] = name
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                name = running.pop(pid)
                check(status == 0, f"{name} (its checks are above)")
        time.sleep(0.02)
