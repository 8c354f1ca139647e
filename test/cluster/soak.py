#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py [MINUTES] - churn for a long time: memory and open files of the master must not grow.

Every second one worker goes (by SIGTERM or by kill -9, in turn) and another joins; a joined server
goes and comes every minute.  After a third of the time the master's memory and descriptors are
measured, and again at the end: at most a tenth more."""
import json
import os
import signal
import statistics
import subprocess
import sys
import time

from cluster import THALWEG, Cluster, Wrong, need

MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
WORKERS = 4


def median(samples, begin, end):
    return statistics.median(v for at, v in samples if begin <= at <= end)


def end_one(p, kindly):
    if kindly:
        p.signal(signal.SIGTERM)
    else:
        p.kill()


def churn(cluster, serve, server, workers, seconds):
    """Returns what was measured: (second, KiB) and (second, descriptors)."""
    memory, files = [], []
    began = time.monotonic()
    leaving, turn = [], 0
    while True:
        now = time.monotonic() - began
        if now >= seconds:
            break
        need(serve.running(), f"serve ended with {serve.child.returncode}")
        turn += 1
        gone = workers.pop(0)
        end_one(gone, turn % 2 == 0)
        leaving.append(gone)
        workers.append(cluster.worker())
        if turn % 60 == 30:
            server.kill()
            server = cluster.server()
        for p in [p for p in leaving if not p.running()]:
            need(p.doomed or p.child.returncode in (0, 75),  # 75: it was not in yet
                 f"{p.name} left with {p.child.returncode}: {p.err()[-300:]}")
            leaving.remove(p)
            cluster.all.remove(p)
        need(len(leaving) < 40, f"{len(leaving)} workers were told to leave and have not")
        memory.append((now, serve.memory()))
        files.append((now, serve.open_files()))
        time.sleep(max(0.0, began + turn - time.monotonic()))
    return memory, files, turn


def main():
    seconds = 60 * MINUTES
    with Cluster("soak", "asgd", 1000000, workers=WORKERS + 2, servers=2,
                 sets=[("checkpoint.every", "5s"), ("cluster.wait", "5s"),
                       ("data.count", "4000"), ("data.tests", "1000")]) as c:
        serve, (server,), workers = c.begin(WORKERS)
        memory, files, turns = churn(c, serve, server, workers, seconds)
        third, window = seconds / 3, min(30.0, seconds / 10)
        was = median(memory, third - window, third + window), median(files, third - window,
                                                                     third + window)
        now = median(memory, seconds - 2 * window, seconds), median(files, seconds - 2 * window,
                                                                    seconds)
        print(f"soak: {turns} left and joined in {MINUTES:g} minutes; memory {was[0] / 1024:.1f} -> "
              f"{now[0] / 1024:.1f} MiB, open files {was[1]:.0f} -> {now[1]:.0f}", flush=True)
        need(now[0] <= 1.1 * was[0], f"memory grew from {was[0]} to {now[0]} KiB")
        need(now[1] <= 1.1 * was[1], f"open files grew from {was[1]} to {now[1]}")
        serve.signal(signal.SIGTERM)
        code = serve.wait(90)
        need(code == 75, f"serve ended with {code}, not 75")
        r = serve.result()
        need(r["repeated"] <= r["redealt"], f"{r['repeated']} repeated, {r['redealt']} redealt")
        scored = json.loads(subprocess.run([THALWEG, "eval", os.path.join(c.dir, "run"), "--json"],
                                           capture_output=True, check=True).stdout)
        need(scored["accuracy"] >= 0.9, f"accuracy {scored['accuracy']}")


if __name__ == "__main__":
    try:
        main()
    except Wrong as e:
        sys.exit(f"soak: {e}")
