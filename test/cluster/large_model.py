#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""large_model.py [--full] [NAME...]: parameters on the nodes of their stages, and a model of 70.4
million parameters under a limit of 1.2 GB of address space per process: one process refuses it, and
a pipeline of processes trains, saves, resumes, evaluates, predicts and exports it."""
import hashlib
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from cluster import SKIPPED, THALWEG, Cluster, main, need

LIMIT = 1200000 * 1024
EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "large-mnist.yaml")
PLACED = """\
data: {{source: digits, count: {size}, batch: 8, accumulate: 4}}
model: {{layers: [linear 48, relu, linear 48, relu, linear 48, relu, linear 10]}}
train: {{epochs: {epochs}, seed: 3}}
update: {{rate: 0.05}}
cluster: {{stages: 3, place: with-stage, wait: 30s}}
checkpoint: {{every: 500ms, memory: {memory}}}
strategy: pipedream-flush
"""


def run(*words, limit=None, code=0, seconds=170):
    def narrow():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    done = subprocess.run([THALWEG, *words], capture_output=True, text=True, timeout=seconds,
                          preexec_fn=narrow)
    need(done.returncode == code, f"{words} ended with {done.returncode}: {done.stderr[-600:]}")
    return done


def answer(*words, **more):
    return json.loads(run(*words, "--json", **more).stdout)


def near(a, b, terms):
    """The same loss from batches of other sizes: the products of a layer are then added up in another
    order.  Two float sums of n terms are within 2 n 2^-24 of each other; `terms` is the n of all
    layers together."""
    return abs(a["loss"] - b["loss"]) <= 2 * terms * 2 ** -24 * max(1, b["loss"])


def refuses(_):
    """Too little memory is said before anything is made."""
    with tempfile.TemporaryDirectory() as d:
        there = os.path.join(d, "run")
        # digits stand in for mnist, which may not be here
        small = ["--set", "data.source=digits", "--set", "data.count=200"]
        done = run("train", EXAMPLE, "--run", there, *small, limit=LIMIT * 5 // 6, code=2)
        need(done.stderr.count("\n") == 1 and "ulimit -v leaves it" in done.stderr and
             "needs at least 1.1 GiB" in done.stderr, done.stderr)
        need(not os.path.exists(there), "a run that was refused left a directory")
        done = run("train", EXAMPLE, "--processes", "--run", there, *small, code=2,
                   limit=LIMIT // 4)
        need("use more stages" in done.stderr and not os.path.exists(there), done.stderr)
    return "one sentence"


class Placed(Cluster):
    def __init__(self, name, epochs, memory, size=2000):
        super().__init__(name, "pipedream-flush", epochs, size=size, batch=8, servers=0,
                         job=PLACED.format(size=size, epochs=epochs, memory=memory))


def same(epochs):
    """The bits of the simulator and of servers, in processes that hold their own parameters."""
    with Placed("same", epochs, "0B", size=400) as c:
        job = os.path.join(c.dir, "job.yaml")
        want = answer("sim", job, "--set", "cluster.place=servers")["parameters_digest"]
        there = os.path.join(c.dir, "processes")
        r = answer("train", job, "--processes", "--run", there)
        need(r["parameters_digest"] == want, f"{r['parameters_digest']}, and servers have {want}")
        e = answer("eval", there)
        need(e["parameters_digest"] == want and near(e, r, 784 + 3 * 48),
             f"{e}, not {r}")
        serve = c.serve()
        for _ in range(3):
            c.worker()
        r = c.finish(serve, exact=True)
        need(r["parameters_digest"] == want, f"{r['parameters_digest']}, and servers have {want}")
    return want


class Slow(Placed):
    """Its run lasts until the other process has joined, also on a fast machine."""
    share = 0.2


def lost(epochs):
    """A process is killed with the parameters of its stage; another one takes its place."""
    with Slow("lost", epochs, "0B") as c:
        serve = c.serve()
        workers = [c.worker() for _ in range(3)]
        c.until(lambda: c.checkpoints(), "a checkpoint", 60, serve)
        workers[1].kill()
        c.worker()
        r = c.finish(serve, exact=True)
        need("all stages go back to the last checkpoint" in serve.err(), serve.err()[-400:])
        return f"{r['redealt']} samples were dealt again"


def digest(path):
    """Of the data of a safetensors file."""
    with open(path, "rb") as f:
        f.seek(8 + struct.unpack("<Q", f.read(8))[0])
        return hashlib.file_digest(f, "md5").hexdigest()


def large(_):
    """The whole of examples/large-mnist.yaml, but for its length."""
    with tempfile.TemporaryDirectory() as d:
        os.environ["XDG_CACHE_HOME"] = d
        got = subprocess.run([THALWEG, "data", "fetch", "mnist"], capture_output=True, text=True)
        if got.returncode:
            print(f"large: skipped: MNIST is not here: {got.stderr.strip()}", flush=True)
            sys.exit(SKIPPED)
        there, out = os.path.join(d, "run"), os.path.join(d, "model.safetensors")
        short = ["--set", "train.epochs=0", "--set", "train.steps=24", "--run", there]
        # stopped at a checkpoint, and resumed
        run("train", EXAMPLE, "--processes", *short, "--checkpoints", "1", "--set",
            "checkpoint.every=1s", limit=LIMIT, code=75, seconds=600)
        r = answer("train", EXAMPLE, "--processes", *short, limit=LIMIT, seconds=600)
        need(r["parameters"] == 70381578 and r["steps"] == 24, f"{r}")
        e = answer("eval", there, "--predictions", os.path.join(d, "rows.csv"), limit=LIMIT,
                   seconds=600)
        need(e["parameters_digest"] == r["parameters_digest"] and near(e, r, 784 + 5 * 4096),
             f"{e}, not {r}")
        run("export", there, "--to", out, limit=LIMIT // 2, seconds=600)
        # without the limit, all at once
        w = answer("eval", out, "--job", EXAMPLE, "--predictions", os.path.join(d, "all.csv"),
                   seconds=600)
        need(w["parameters_digest"] == r["parameters_digest"], f"{w}, not {r}")
        with open(os.path.join(d, "rows.csv")) as a, open(os.path.join(d, "all.csv")) as b:
            need(a.read() == b.read(), "predictions stage after stage differ from those at once")
        return f"loss {r['loss']:.4f}, model {digest(out)}"


TESTS = {"refuses": (refuses, 1), "same": (same, 2), "lost": (lost, 8)}

if __name__ == "__main__":
    words = sys.argv[1:]
    tests = TESTS
    if words[:1] == ["--full"]:
        tests, words = {"large": (large, 1)}, words[1:]
    elif words:
        tests = {**TESTS, "large": (large, 1)}
    main(tests, words)
