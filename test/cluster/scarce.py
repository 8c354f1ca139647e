#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scarce.py - every verb with too little memory and too few descriptors.

Each command runs under a sweep of limits (RLIMIT_AS, RLIMIT_NOFILE), from where the program can be
loaded at all to where it works.  Every run must work, or end with exit code 1 and a sentence that
names what there was too little of: no signal, no hang, no other cause.  Then `serve` meets more
connections than it has descriptors for: it says so once, does not spin, and trains on.

    TW_BUILD=build test/cluster/scarce.py [-v]
"""
import os
import re
import resource
import shutil
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
data: {source: digits, count: 400, tests: 40, batch: 20}
model: {name: mlp, hidden: [32]}
train: {epochs: 1}
cluster: {workers: 2, wait: 60s}
"""
MIB = 1 << 20
MEMORY = re.compile(r"memory|thread", re.I)
FILES = re.compile(r"open files|descriptor", re.I)


def limited(args, which, limit, seconds=30):
    """Exit code (None: it did not end) and stderr."""
    def limits():
        resource.setrlimit(which, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    p = subprocess.Popen([THALWEG, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits)
    try:
        out, err = p.communicate(timeout=seconds * SLOW)
        return p.returncode, err.decode(errors="replace")
    except subprocess.TimeoutExpired:
        p.kill()
        return None, p.communicate()[1].decode(errors="replace")


# these need hardly more than the system's loader, which fails first
EASY = ("join", "inspect a job", "inspect a model", "data check")


def sweep(name, args, which, limits, cause, enough, seconds=30):
    """enough: does this exit code and stderr say that it has all it needs?"""
    tried = 0
    for limit in limits:
        code, err = limited(args, which, limit, seconds)
        if code == 127:  # the system could not load the program
            continue
        what = "%s with %s" % (name, "%.1f MiB" % (limit / MIB) if which == resource.RLIMIT_AS else "%d descriptors" % limit)
        if enough(code, err):
            check(tried > 0 or name in EASY, "%s: there were limits below that it could not work with (%d)" % (what, tried))
            return
        tried += 1
        last = err.strip().split("\n")[-1] if name != "compare" else err  # it counts the runs that failed, each with its cause
        if check(code is not None and code >= 0, "%s: no signal and no hang (%s): %s" % (what, code, last[-200:])):
            check(code == 1 and cause.search(last), "%s: exit code 1 and the cause (%s): %s" % (what, code, last[-200:]))
    check(False, "%s: it works at the end of the sweep" % name)


def works(code, err):
    return code == 0


def sweeps(work):
    job, run = os.path.join(work, "job.yaml"), os.path.join(work, "run")
    with open(job, "w") as f:
        f.write(JOB)
    model = os.path.join(work, "model.safetensors")
    subprocess.run([THALWEG, "train", job, "--run", run], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([THALWEG, "export", run, "--to", model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows, driven = os.path.join(work, "rows.csv"), os.path.join(work, "driven.yaml")
    with open(rows, "w") as f:
        f.write((",".join(["0"] * 784) + "\n") * 3)
    with open(driven, "w") as f:
        f.write(JOB + "strategy: sandblaster\n")
    # bound, but nobody listens: whoever dials it is refused at once
    deaf = socket.socket()
    deaf.bind(("127.0.0.1", 0))
    nobody = "127.0.0.1:%d" % deaf.getsockname()[1]
    # without workers serve waits, and join ends without a master
    alone = lambda code, err: code is None and "to join: thalweg join" in err
    unreached = lambda code, err: "Connection refused" in err
    verbs = (("train", ["train", job, "--run", os.path.join(work, "t"), "--again"], works),
             ("eval", ["eval", run], works),
             ("inspect a job", ["inspect", job], works),
             ("inspect a model", ["inspect", model], works),
             ("data check", ["data", "check", job], works),
             ("join", ["join", nobody, "--patience", "100ms"], unreached),
             ("serve", ["serve", job, "--listen", "127.0.0.1:0", "--http", "off", "--run", os.path.join(work, "s"), "--again"], alone),
             ("plan", ["plan", job], works),
             ("predict", ["predict", run, "--data", rows], works),
             ("compare", ["compare", job, "--vary", "update.rate=0.1,0.2", "--set", "compare.seeds=1", "--run", os.path.join(work, "r")],
              works),
             ("sandblaster", ["train", driven, "--run", os.path.join(work, "d"), "--again"], works))
    for name, args, enough in verbs:
        sweep(name, args, resource.RLIMIT_AS, range(50 * MIB, 220 * MIB, 5 * MIB // 2), MEMORY, enough,
              4 if name == "serve" else 30)
    for name, args, enough in (verbs[0], verbs[1], verbs[6]):
        sweep(name, args, resource.RLIMIT_NOFILE, range(3, 40), FILES, enough,
              4 if name == "serve" else 30)
    # a checkpoint that could not be opened is not taken for a damaged one
    code, err = limited(["train", job, "--run", run], resource.RLIMIT_NOFILE, 7)
    check("damaged" not in err and "is refused" not in err, "no checkpoint is called damaged: %s" % err[-300:])
    code = subprocess.run([THALWEG, "eval", run], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    check(code == 0, "what was trained before is still there (%s)" % code)


def cpu(pid):
    with open("/proc/%d/stat" % pid) as f:
        part = f.read().rsplit(")", 1)[1].split()
    return (int(part[11]) + int(part[12])) / os.sysconf("SC_CLK_TCK")


def crowded(work):
    """More connections than descriptors: said once, without spinning, and training goes on later."""
    def limits():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    job = os.path.join(work, "crowd.yaml")
    with open(job, "w") as f:
        f.write(JOB)
    log = os.path.join(work, "stderr")
    with open(log, "wb") as err:
        p = subprocess.Popen([THALWEG, "serve", job, "--listen", "127.0.0.1:0", "--http", "off", "--run", os.path.join(work, "c")],
                             stdout=subprocess.DEVNULL, stderr=err, preexec_fn=limits)
    joiners = []
    try:
        def said(text, seconds=20):
            end = time.monotonic() + seconds * SLOW
            while time.monotonic() < end:
                with open(log, errors="replace") as f:
                    found = re.search(text, f.read())
                if found:
                    return found
                time.sleep(0.05)
            return None
        port = int(said(r"to join: thalweg join 127\.0\.0\.1:(\d+)").group(1))
        # those who ask are let in and keep their descriptors
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import hostile
        crowd = []
        accepts = True
        for _ in range(60):
            c = hostile.Client(port)
            c.send(hostile.greet(flags=1))
            crowd.append(c)
            if not accepts:
                continue
            c.s.settimeout(3 * SLOW)
            try:  # too many who have not greeted at once are not let in
                c.exactly(64)
            except OSError:
                accepts = False
        check(said("cannot accept another connection: Too many open files"), "crowded: it says what there is too little of")
        before = cpu(p.pid)
        time.sleep(3)
        spent = cpu(p.pid) - before
        check(spent < 1.0, "crowded: it does not spin (%.2f s of 3)" % spent)
        with open(log, errors="replace") as f:
            lines = f.read().count("cannot accept another")
        check(lines <= 2, "crowded: it says so once in five seconds (%d lines)" % lines)
        for c in crowd:
            c.close()
        joiners = [subprocess.Popen([THALWEG, "join", "127.0.0.1:%d" % port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for _ in range(2)]
        check(p.wait(60 * SLOW) == 0, "crowded: it trains when the crowd is gone")
    finally:
        for x in [p] + joiners:
            if x.poll() is None:
                x.kill()
            x.wait()


def main():
    work = tempfile.mkdtemp(prefix="thalweg-scarce-")
    try:
        sweeps(work)
        crowded(work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("scarce: %s" % ("%d failures" % len(failures) if failures else "said as it is"))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
