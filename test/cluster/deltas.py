#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""deltas.py [--full] [NAME...]: methods whose workers step by themselves, between real processes: the
same parameters as in the simulator and in threads, and as many bytes as the result says.

Workers reach the master through a relay that counts what it carries, so the bytes are measured by
somebody who knows nothing of messages."""
import glob
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from cluster import THALWEG, Cluster, main, need
from links import Relay

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
NEAR = 0.02  # of the bytes
PUSH = {"streaming-diloco": "push: 20, delay: 2, fragments: 2"}  # of others: 5
QUICK = ("averaging", "diloco_adamw")  # the others are in --full


def thalweg(*words, job=None):
    """job: a text, where a word is `-`."""
    return subprocess.run([THALWEG, *words], stdout=subprocess.PIPE, check=True, text=True,
                          input=job).stdout


def methods():
    """Every preset with an example that pushes deltas and works in rounds of all workers.  The data
    of the example may not be on this machine."""
    found = []
    for path in sorted(glob.glob(os.path.join(EXAMPLES, "*.yaml"))):
        with open(path) as f:
            named = re.search(r"^strategy: *(?:\{name: *)?([a-z0-9-]+)", f.read(), re.M)
        explained = thalweg("train", "-", "--explain", job="data: {source: digits}\nmodel: mlp\n"
                            f"strategy: {named.group(1)}\n") if named else ""
        if re.search(r"^ *send: delta\b", explained, re.M) and \
                re.search(r"^ *gate: bsp\b", explained, re.M):
            found.append(named.group(1))
    return found


class Counter(Relay):
    """A relay that is never late and counts."""

    def __init__(self, address):
        self.there = self.back = 0
        super().__init__(address, 0.0)

    def carried(self, to, count):
        if to.getpeername()[1] == self.to[1]:
            self.there += count
        else:
            self.back += count


def near(name, said, measured):
    need(abs(said - measured) <= NEAR * measured,
         f"{name}: the result says {said} bytes, {measured} were expected")


def agree(preset, update, kept=0):
    """kept: vectors of its own that a worker puts into the checkpoint at the end."""
    def test(epochs):
        sets = [("cluster.limit", "60s"), ("cluster.suspect", ""), ("cluster.heartbeat", ""),
                ("checkpoint.every", "0s"), ("update.schedule.kind", "step"),
                ("update.schedule.at", "[0.7]"), ("update.schedule.factor", "0.3"),
                *update.items()]
        with Cluster(f"deltas-{preset}", f"{{name: {preset}, {PUSH.get(preset, 'push: 5')}}}", epochs,
                     sets=sets, size=4000) as c:
            more = [w for k, v in c.sets.items() if v for w in ("--set", f"{k}={v}")]
            job = os.path.join(c.dir, "job.yaml")
            sim = json.loads(thalweg("sim", job, "--json", *more))
            threads = json.loads(thalweg("train", job, "--json", "--run", os.path.join(c.dir, "t"), *more))
            serve = c.serve()
            relay = Counter(c.address)
            for _ in range(2):
                c.worker(relay.address)
            r = c.finish(serve, target=0.5, exact=True)
            relay.close()
            for name, other in (("sim", sim), ("threads", threads)):
                need(r["parameters_digest"] == other["parameters_digest"],
                     f"{name} ends with {other['parameters_digest']}, tcp with "
                     f"{r['parameters_digest']}")
            near("bytes_sent", r["bytes_sent"], relay.back + relay.there)
            near("bytes_received", r["bytes_received"], relay.there)
            # a vector of 4-byte floats for each contribution; in sim its answer, and a first look
            pushed = sum(r["staleness"]["histogram"]) // r["shards"]
            vector = 4 * r["parameters"]
            if preset not in PUSH:  # it pushes parts of the vector
                near("pushes", r["bytes_received"], (pushed + kept * r["workers"]) * vector)
                near("sim", sim["bytes_sent"], (2 * pushed + r["workers"]) * vector)
            return (f"{relay.there + relay.back} bytes carried, the result says "
                    f"{r['bytes_sent']}; {pushed} pushes of {vector} bytes")
    return test


def tests(full):
    all_of_them = {}
    for preset in methods():
        all_of_them[preset] = (agree(preset, {}), 2)
        all_of_them[preset + "_adamw"] = (agree(preset, {"update.rule": "adamw",
                                                         "update.rate": "0.002"}, 2), 2)
    return {k: v for k, v in all_of_them.items() if full or k in QUICK}


if __name__ == "__main__":
    words = sys.argv[1:]
    full = words[:1] == ["--full"]
    words = words[1:] if full else words
    main(tests(full or bool(words)), words)
