#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""early_signals.py - SIGTERM and SIGINT at many instants from the first one of each verb on.

A process is signalled so many seconds after it has reached main(), which shows in /proc: it ignores
SIGXFSZ.  It must end by itself: done, or with the exit code of a stopped run, never killed by the
signal.  What it leaves behind must be good for the same command, which resumes or begins.

    TW_BUILD=build test/cluster/early_signals.py [-v] [--many]
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from checks import check, failures

BUILD = os.environ.get("TW_BUILD", "build")
THALWEG = os.path.abspath(os.path.join(BUILD, "thalweg"))
SLOW = float(os.environ.get("TW_SLOW", "1"))
JOB = """
data: {samples: 2000, batch: 1}
model: {quadratic: {dimension: 20}}
train: {epochs: 1}
update: {rate: 0.01}
cluster: {workers: 2}
checkpoint: {every: 0.02s}
"""
MANY = "--many" in sys.argv
# dense where handlers are put up, then up to where work is under way
DELAYS = [k * 0.0005 for k in range(12)] + [0.008 * k for k in range(1, 9)] + [0.1, 0.2]
if MANY:
    DELAYS = [k * 0.0002 for k in range(50)] + [k * 0.005 for k in range(2, 101)]


def in_main(p):
    """Wait until it has reached main(); False: it has ended before it was seen there."""
    while p.poll() is None:
        try:
            with open("/proc/%d/status" % p.pid) as f:
                for line in f:
                    if line.startswith("SigIgn:"):
                        if int(line.split()[1], 16) >> (signal.SIGXFSZ - 1) & 1:
                            return True
        except OSError:
            pass
    return False


def start(args, work):
    env = dict(os.environ, XDG_CACHE_HOME=os.path.join(work, "cache"))
    # a shell that started this in the background ignores SIGINT
    return subprocess.Popen([THALWEG, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work, env=env,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def ended(p, seconds=60):
    try:
        out, err = p.communicate(timeout=seconds * SLOW)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        return "killed by the test", err.decode(errors="replace")
    return p.returncode, err.decode(errors="replace")


def signalled(name, args, allowed, work, number, delay):
    p = start(args, work)
    if in_main(p):
        time.sleep(delay)
        p.send_signal(number)
    code, err = ended(p)
    check(code in allowed, "%s: %s after %.4f s: %s %s" % (name, signal.Signals(number).name, delay, code, err[-200:].strip()))
    if code == 0:  # the next one begins anew
        shutil.rmtree(os.path.join(work, args[-1]), ignore_errors=True)
    return code


def verbs(work):
    """name, arguments, exit codes that may be, whether the same command ends with 0 in the end."""
    nobody = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
    at = "127.0.0.1:%d" % nobody.getsockname()[1]
    tcp = ["--listen", "127.0.0.1:0", "--http", "off"]
    # sim without a directory has nothing to resume: the first signal stops it at once
    return nobody, (
        ("train", ["train", "job.yaml", "--run", "runs/train"], (0, 75), True),
        ("train --processes", ["train", "job.yaml", "--processes", "--run", "runs/processes"], (0, 75), True),
        ("sim", ["sim", "job.yaml", "--run", "runs/sim"], (0, 75), True),
        ("sim without --run", ["sim", "job.yaml"], (0, 75, 128 + signal.SIGTERM, 128 + signal.SIGINT), True),
        ("compare", ["compare", "job.yaml", "--vary", "update.rate=0.01,0.02", "--set", "compare.seeds=1", "--run", "runs/compare"],
         (0, 75), True),
        ("serve", ["serve", "job.yaml", *tcp, "--run", "runs/serve"], (75,), False),
        ("join", ["join", at], (75,), False),
        ("join --workers 2", ["join", at, "--workers", "2"], (75,), False))


def early(work):
    nobody, all_verbs = verbs(work)
    for name, args, allowed, ends in all_verbs:
        for number in (signal.SIGTERM, signal.SIGINT):
            codes = [signalled(name, args, allowed, work, number, delay) for delay in DELAYS]
            print("%-18s %s: %s" % (name, signal.Signals(number).name,
                                    ", ".join("%d times %s" % (codes.count(c), c) for c in sorted(set(codes), key=str))), flush=True)
        if ends:
            code, err = ended(start(args, work))
            check(code == 0, "%s: what is left is resumed: %s %s" % (name, code, err[-300:].strip()))
    nobody.close()


def twice(work):
    """The second signal stops at once, with 128 + its number, as early as it may come."""
    for pause in (0, 0.0005, 0.002, 0.01):
        p = start(["serve", "job.yaml", "--listen", "127.0.0.1:0", "--http", "off", "--run", "runs/twice"], work)
        in_main(p)
        time.sleep(0.1)
        p.send_signal(signal.SIGTERM)
        time.sleep(pause)
        p.send_signal(signal.SIGTERM)
        code, err = ended(p)
        check(code in (75, 128 + signal.SIGTERM), "two signals, %.4f s apart: %s %s" % (pause, code, err[-200:].strip()))


def main():
    work = tempfile.mkdtemp(prefix="thalweg-early-")
    with open(os.path.join(work, "job.yaml"), "w") as f:
        f.write(JOB)
    try:
        early(work)
        twice(work)
    finally:
        shutil.rmtree(work)
    print("early_signals: %d starts, %d failures" % (len(DELAYS) * 16, len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
