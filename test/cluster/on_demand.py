#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""on_demand.py [NAME...]: samples that come with the leases (data.placement: on-demand), between real
processes: workers have no data, the parameters are those of the simulator, everybody may die, and the
result says how many bytes were sent."""
import os
import random
import subprocess
import sys

sys.dont_write_bytecode = True
from cluster import THALWEG, Cluster, main, need
from deltas import Counter

ROWS, COLUMNS = 600, 50
SENT = {"data.placement": "on-demand"}


def table(epochs):
    return f"""\
data: {{source: csv, file: rows.csv, label: y, batch: 20, class_weights: balanced}}
model: {{layers: [linear 2]}}
train: {{epochs: {epochs}, seed: 3, evaluate: 0}}
update: {{rule: sgd, rate: 0.05}}
cluster: {{workers: 2, servers: 1}}
strategy: ssgd
"""


def put_rows(c):
    dice = random.Random(4)
    lines = [",".join(f"a{k}" for k in range(COLUMNS)) + ",y"]
    for _ in range(ROWS):
        row = [dice.gauss(0, 1) for _ in range(COLUMNS)]
        lines.append(",".join(f"{v:.5f}" for v in row) + (",up" if sum(row) > 3 else ",down"))
    c.write("rows.csv", "\n".join(lines) + "\n")


def same_parameters(key):
    """The workers run where the table is not, and what they compute is what the simulator does."""
    def test(epochs):
        with Cluster(f"on-demand-{key}", "ssgd", epochs, sets=SENT.items(), key=key,
                     size=ROWS * 4 // 5, batch=20, job=table(epochs)) as c:
            put_rows(c)
            simulated = subprocess.run(
                [THALWEG, "sim", os.path.join(c.dir, "job.yaml"), "--json", "-q"],
                stdout=subprocess.PIPE, check=True, text=True).stdout
            serve = c.serve()
            relay = Counter(c.address)
            ws = [c.worker(relay.address) for _ in range(2)]
            r = c.finish(serve)
            need(f'"{r["parameters_digest"]}"' in simulated,
                 "the parameters are not those of the simulator with all samples everywhere")
            for w in ws:
                need("come with the leases" in w.err(), f"{w.name} does not say where samples are")
            sent, size = r["on_demand"], epochs * c.size
            need(sent["samples"] >= size, f"{sent['samples']} samples were sent, {size} used")
            each = 4 * COLUMNS + 4 + 4  # values, label, weight
            need(sent["bytes"] == each * sent["samples"], f"{sent['bytes']} bytes of samples")
            need(relay.back > sent["bytes"], f"{relay.back} bytes came to the workers, and "
                                             f"{sent['bytes']} of samples are counted")
            return f"{sent['samples']} samples, {sent['bytes']} bytes"
    return test


def dies(strategy):
    """A worker dies, then the master; it goes on from its checkpoint, at the sample."""
    def test(epochs):
        with Cluster(f"on-demand-dies-{strategy}", strategy, epochs, workers=3, sets=SENT.items(),
                     key=True) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.kill()
            c.until_gone(two, serve)
            c.until_steps(three, 20)
            c.until_checkpoint(serve)
            serve.kill()
            c.rest(1.0, one, three)
            serve = c.serve()
            c.until_back(one, three)
            c.until_steps(one, 50)
            late = c.worker()
            c.until_steps(late, 20)
            r = c.finish(serve, again=True)
            need("resuming from" in serve.err(), "the second master does not say that it goes on")
            return f"{r['samples']} samples, redealt {r['redealt']}, repeated {r['repeated']}"
    return test


TESTS = {
    "same_parameters": (same_parameters(False), 6),
    "same_parameters_key": (same_parameters(True), 6),
    "dies_bsp": (dies("ssgd"), 20),
    "dies_async": (dies("asgd"), 20),
}

if __name__ == "__main__":
    Cluster.share, Cluster.samples = 0.3, 5000
    main(TESTS, sys.argv[1:], at_once=4)
