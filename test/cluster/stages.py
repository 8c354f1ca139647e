#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""stages.py [--full] [NAME...]: a model over several processes.  The bits are those of the simulator
and of threads, over sockets with and without TLS and over socket pairs; cells die, stop, leave, come
and are cut off, and the run goes on."""
import json
import os
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
from cluster import THALWEG, Cluster, free_port, main, need

SCHEDULES = {
    "gpipe": "gpipe",
    "1f1b-flush": "pipedream-flush",
    "2bw": "pipedream-2bw",
    "vertical": "{gate: async, pipeline: {schedule: pipedream, vertical: true}}",
    "pipedream": "pipedream",
}
EXACT = ("gpipe", "1f1b-flush")  # in rounds: every sample counts once, whoever dies


def text(schedule, epochs, size, stages, workers, servers, every):
    accumulate = 1 if schedule in ("vertical", "pipedream") else 4
    return f"""\
data: {{source: digits, count: {size}, batch: 8, accumulate: {accumulate}}}
model: {{layers: [linear 48, relu, linear 48, relu, linear 48, relu, linear 10]}}
train: {{epochs: {epochs}, seed: 3}}
update: {{rate: 0.05}}
cluster: {{workers: {workers}, min: 1, wait: 30s, stages: {stages}, servers: {servers}}}
checkpoint: {{every: {every}, keep: 2}}
strategy: {SCHEDULES[schedule]}
"""


class Pipeline(Cluster):
    def __init__(self, name, schedule, epochs, size=2000, stages=3, workers=1, servers=1,
                 every="1s", **more):
        super().__init__(f"{name}-{schedule}", schedule, epochs, size=size, batch=8,
                         servers=servers, job=text(schedule, epochs, size, stages, workers, servers,
                                                   every), **more)
        self.stages, self.exact = stages, schedule in EXACT

    def here(self, verb, *words):
        """The same job on this machine."""
        done = subprocess.run([THALWEG, verb, os.path.join(self.dir, "job.yaml"), "--json",
                               *words], capture_output=True, text=True, timeout=120)
        need(done.returncode == 0, f"{verb} {words}: {done.stderr[-600:]}")
        return json.loads(done.stdout)

    def finish(self, serve, **more):
        more.setdefault("exact", self.exact and not more.get("again"))
        r = super().finish(serve, **more)
        for p in self.all:
            for line in p.err().split("\n"):
                need("has waited" not in line or
                     re.search(r"for (master|server \d+|shard \d+ of server \d+|worker \d+\.\d+)"
                               r"( on \S+)?: \S", line),
                     f"{p.name} does not say for whom it waits: {line}")
        return r


def same(*schedules, everywhere=False):
    """The digests of `sim` are those of all worlds."""
    def test(epochs):
        for schedule in schedules:
            # a drain for a checkpoint ends a stream, and with it a delay
            with Pipeline("same", schedule, 2, size=400, every="0s") as c:
                want = c.here("sim")["parameters_digest"]
                runs = [("threads", c.here("train", "--run", os.path.join(c.dir, "threads"))),
                        ("processes", c.here("train", "--processes", "--run",
                                             os.path.join(c.dir, "processes")))]
                for key in (False, True) if everywhere or schedule == "gpipe" else (False,):
                    c.key = c.make_key() if key else []
                    c.address = f"127.0.0.1:{free_port()}"
                    c.count, c.all = {}, []
                    serve = c.serve()
                    for _ in range(c.stages):
                        c.worker()
                    runs.append(("tls" if key else "tcp", c.finish(serve)))
                    subprocess.run(["rm", "-rf", os.path.join(c.dir, "run")], check=True)
                for world, r in runs:
                    need(r["parameters_digest"] == want,
                         f"{schedule}, {world}: {r['parameters_digest']}, and sim has {want}")
        return f"{len(schedules)} schedules"
    return test


TESTS = {
    "same": (same("gpipe"), 2),
    "same_others": (same("1f1b-flush", "2bw", "vertical"), 2),
}


def full():
    return {"same_everywhere": (same(*SCHEDULES, everywhere=True), 2)}


if __name__ == "__main__":
    words = sys.argv[1:]
    tests = TESTS
    if words[:1] == ["--full"]:
        tests, words = full(), words[1:]
    elif words:
        tests = {**full(), **TESTS}
    main(tests, words)
