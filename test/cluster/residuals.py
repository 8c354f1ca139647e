#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""residuals.py [--full] [NAME...]: codecs that remember, between real processes that die.

What was given is what was applied, what is kept and what is said to be lost.  The job makes that
exact: its targets are so large that float forgets what the network predicts, so that a gradient
depends on its samples alone, and is a small whole number of UNITs.  All that is compared here is
what a user has: the result, /metrics, the exported parameters and the checkpoint.

Everybody reaches the master through a relay that counts, so the bytes are measured as well."""
import array
import json
import math
import os
import random
import re
import signal
import sys
import urllib.request

sys.dont_write_bytecode = True
from cluster import Cluster, free_port, main, need
from deltas import Counter, near, thalweg

COLUMNS, ROWS, BATCH = 2000, 64, 4
TARGET = 3 * 2**29      # the distance to the next float is 128, and predictions stay below 64
UNIT = TARGET * 2 / BATCH
RATE = 2.0**-64
TAU = 16.75 * UNIT      # more than a value of one gradient; residuals are seldom 0 again

ROUNDS = "name: ssgd, sum: total"

# What is sent, and how far from exact that is: onebit sends means, and sums of them are rounded.
CODECS = {
    "threshold": (f"up: threshold, up_tau: {TAU:.0f}", 0.0),
    "rice": (f"up: threshold, up_tau: {TAU:.0f}, up_coding: rice", 0.0),
    "topk": ("up: topk, up_share: 0.2", 0.0),
    "randomk": ("up: randomk, up_share: 0.2", 0.0),
    "onebit": ("up: onebit", 0.05),
}
# The others do not promise that nothing is lost.
OTHERS = {
    "int8": "name: asgd, codec: {up: int8, down: int8}",
    "dgc": "name: asgd, codec: {up: dgc, up_share: 0.01}",
    "sparseloco": "name: local-sgd, push: 4, codec: {up: sparseloco}",
}


class Books(Cluster):
    """A cluster that is reached through a relay, and whose gradients are known.  `same`: all
    samples are equal, so that only their number matters, not which of them came twice."""

    def __init__(self, name, strategy, epochs, servers=1, workers=2, same=False):
        super().__init__(name, strategy, epochs, servers=servers, size=ROWS, batch=BATCH, job=f"""\
data: {{source: csv, file: x.csv, test_file: one.csv, label: y, task: values, batch: {BATCH},
       normalise: none, normalise_targets: none}}
model: {{init: zeros, layers: [linear 1]}}
train: {{epochs: {epochs}, seed: 1, evaluate: 0}}
update: {{rule: sgd, rate: {RATE!r}}}
cluster: {{workers: {workers}, min: 1, wait: 30s, servers: {servers}, shards: {servers}}}
checkpoint: {{every: 1s, keep: 2, cut: drain}}
strategy: {{{strategy}}}
""")
        self.http = str(free_port())
        self.rows = self.make_rows(same)

    def make_rows(self, same):
        dice = random.Random(1)
        row = [dice.randint(-3, 3) for _ in range(COLUMNS)]
        rows = [row if same else [dice.randint(-3, 3) for _ in row] for _ in range(ROWS)]
        head = ",".join(f"a{i}" for i in range(COLUMNS)) + ",y"
        text = [",".join(map(str, r)) + f",{TARGET}" for r in rows]
        self.write("x.csv", "\n".join([head, *text, ""]))
        self.write("one.csv", "\n".join([head, text[0], ""]))
        return [r + [1] for r in rows]  # the last is the bias

    def open(self, workers=2):
        serve = self.serve()
        self.relay = Counter(self.address)
        servers = [self.server(self.relay.address) for _ in range(self.servers - 1)]
        ws = [self.worker(self.relay.address) for _ in range(workers)]
        for w in ws:
            self.until_steps(w, 50)
        return serve, servers, ws

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10) as page:
            found = re.search(rf"^{name} (\S+)$", page.read().decode(), re.M)
        need(found, f"/metrics has no {name}")
        return float(found.group(1))

    # --- what a user finds afterwards ---

    def floats(self, path, only=""):
        """The tensors of a safetensors file one after the other."""
        with open(path, "rb") as f:
            data = f.read()
        begin = 8 + int.from_bytes(data[:8], "little")
        rows = [(t["data_offsets"], name) for name, t in json.loads(data[8:begin]).items()
                if name.startswith(only) and t.get("dtype") == "F32"]
        return [v for (a, b), _ in sorted(rows) for v in array.array("f", data[begin + a:begin + b])]

    def applied(self):
        """What was subtracted from each parameter, before the rate."""
        path = os.path.join(self.dir, "w.safetensors")
        thalweg("export", os.path.join(self.dir, "run"), "--to", path)
        return [-w / RATE for w in self.floats(path)]

    def kept(self):
        """The sum of what workers owe in the last checkpoint."""
        last = os.path.join(self.dir, "run", f"ckpt-{self.checkpoints()[-1]}")
        parts = [self.floats(os.path.join(last, p), "residual") for p in os.listdir(last)
                 if p.startswith("worker")]
        need(parts and all(parts), f"{last} has no residuals")
        return [sum(of) for of in zip(*parts)]

    def lost(self, samples=None):
        """What was given, less what was applied and what is kept.  samples: so many, all equal."""
        if samples is None:
            given = [-UNIT * self.epochs * sum(of) for of in zip(*self.rows)]
        else:
            given = [-UNIT * samples * x for x in self.rows[0]]
        return [g - a - k for g, a, k in zip(given, self.applied(), self.kept(), strict=True)]

    def close(self, serve, **more):
        """The run ends; its bytes are those that the relay has seen."""
        r = self.finish(serve, **more)
        self.relay.close()
        seen = self.relay.back + self.relay.there
        if self.servers == 1:
            near("bytes_sent", r["bytes_sent"], seen)
        else:  # other servers and workers reach each other directly
            need(r["bytes_sent"] > 0.98 * seen, f"bytes_sent: {r['bytes_sent']}, and {seen} were seen")
        near("bytes_received", r["bytes_received"], self.relay.there)
        up = r["codec"]["up"]
        need(0 < up["encoded"] < up["raw"] / 2, f"the codec made {up}")
        return r


def norm(vector):
    return math.sqrt(sum(v * v for v in vector))


def nothing_lost(codec, lost, r):
    need(max(map(abs, lost)) <= CODECS[codec][1] * r["residual"]["max"],
         f"of some parameter {max(map(abs, lost)) / UNIT} units are lost")


def kill_worker(codec, gate):
    """One leaves and loses nothing, one is killed and replaced: what it owed, and no more, is lost,
    and its norm is in the result and in /metrics."""
    def test(epochs):
        with Books(f"residual-killed-{codec}", f"{gate}, codec: {{{CODECS[codec][0]}}}", epochs,
                   workers=3, same=True) as c:
            serve, _, (one, two, three) = c.open(3)
            two.signal(signal.SIGTERM)
            need(two.wait(20) == 0, "a worker was asked to leave and did not end well")
            need(c.metric("thalweg_residual_lost") == 0, "a worker that left has lost something")
            three.kill()
            c.until(lambda: "is gone" in serve.err(), "the worker is removed", 10, serve)
            four = c.worker(c.relay.address)
            c.until_steps(one, 50)
            c.until_steps(four, 50)
            shown = c.metric("thalweg_residual_lost")
            r = c.close(serve, exact=False)
            said, lost = r["residual"], c.lost(r["samples"])
            need(said["lost_workers"] == (said["lost"] > 0), f"the result says {said}")
            near = max(1e-6, CODECS[codec][1]) * said["max"]
            need(abs(norm(lost) - said["lost"]) <= near,
                 f"{norm(lost)} is lost, the result says {said['lost']}")
            need(abs(shown - said["lost"]) <= near, f"/metrics has {shown}, the result {said}")
            return f"lost {norm(lost) / UNIT:.2f} units, the result says {said['lost'] / UNIT:.2f}"
    return test


def replace_server(c):
    serve, (server,), workers = c.open()
    c.until_checkpoint(serve)
    c.until_steps(workers[0], 50)  # which are lost, or done again
    server.kill()
    c.server(c.relay.address)
    for w in workers:
        c.until_steps(w, 50)
    return serve


def kill_server(codec):
    """In rounds everybody goes back to the checkpoint, each with what it owed then: nothing is
    lost."""
    def test(epochs):
        with Books(f"residual-server-{codec}", f"{ROUNDS}, codec: {{{CODECS[codec][0]}}}", epochs,
                   servers=2) as c:
            r = c.close(replace_server(c), exact=True)
            nothing_lost(codec, c.lost(), r)
            return f"{r['bytes_received']} bytes"
    return test


def kill_server_async(gate):
    """Others go on: of the range that was lost, what was sent between the checkpoint and the kill
    is missing.  That is a whole number of steps of tau, at most one of each update that is said to
    be lost.  Nothing of the other range is."""
    def test(epochs):
        with Books("residual-server-async", f"{gate}, codec: {{{CODECS['threshold'][0]}}}",
                   epochs, servers=2, same=True) as c:
            r = c.close(replace_server(c), exact=False)
            lost = c.lost(c.epochs * ROWS)
            half = (len(lost) + 1) // 2
            ranges = sorted((lost[:half], lost[half:]), key=norm)
            nothing_lost("threshold", ranges[0], r)
            steps = [v / TAU for v in ranges[1]]
            most = r["shards"] * (r["lost_updates"] + 1)
            need(all(s == int(s) for s in steps), "a part of a step is lost")
            need(0 < max(map(abs, steps)) <= most,
                 f"{max(map(abs, steps))} steps of tau are lost, and at most {most} updates")
            return f"{r['lost_updates']} lost updates, {max(map(abs, steps)):.0f} steps of tau"
    return test


def kill_master(codec, gate):
    """The same command resumes from the last checkpoint; workers, which outlive it, go back, too."""
    def test(epochs):
        with Books(f"residual-master-{codec}", f"{gate}, codec: {{{CODECS[codec][0]}}}",
                   epochs, same=True) as c:
            serve, _, workers = c.open()
            c.until_checkpoint(serve)
            serve.kill()
            c.rest(1.0, *workers)
            serve = c.serve()
            for w in workers:
                c.until_steps(w, 50)
            r = c.finish(serve, exact=gate == ROUNDS, again=True)
            c.relay.close()
            nothing_lost(codec, c.lost(r["samples"]), r)
            return f"{r['bytes_received']} bytes"
    return test


def bytes_only(strategy):
    def test(epochs):
        with Books("residual-bytes", strategy, epochs) as c:
            serve, _, _ = c.open()
            r = c.close(serve, exact=False)
            return f"{r['bytes_received']} bytes received, {r['codec']['up']['encoded']} encoded"
    return test


def tests(full):
    quick = {
        "killed_threshold_async": (kill_worker("threshold", "name: asgd"), 600),
        "server_topk": (kill_server("topk"), 300),
    }
    if not full:
        return quick
    return {
        **quick,
        **{f"killed_{k}_async": (kill_worker(k, "name: asgd"), 600) for k in CODECS},
        **{f"killed_{k}_bsp": (kill_worker(k, ROUNDS), 300) for k in CODECS},
        "killed_topk_ssp": (kill_worker("topk", "name: ssp"), 600),
        **{f"server_{k}": (kill_server(k), 300) for k in CODECS},
        "server_async": (kill_server_async("name: asgd"), 600),
        "server_ssp": (kill_server_async("name: ssp"), 600),
        **{f"master_{k}": (kill_master(k, ROUNDS), 300) for k in CODECS},
        "master_async": (kill_master("threshold", "name: asgd"), 600),
        **{f"bytes_{k}": (bytes_only(v), 300) for k, v in OTHERS.items()},
    }


if __name__ == "__main__":
    words = sys.argv[1:]
    full = words[:1] == ["--full"]
    words = words[1:] if full else words
    main(tests(full or bool(words)), words)
