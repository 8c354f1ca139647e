# SPDX-License-Identifier: Apache-2.0
"""Workers of Python killed at random moments, others that join, a master that is killed and resumes."""
import json
import os
import random
import time

import pytest
from networks import problem
from problem import Cluster, program

RUNS = int(os.environ.get("TW_RUNS", "30"))
WORKER = """
import sys, time
import thalweg as tw
from networks import problem, train
make, x, y = problem('mlp', 192)
model = make(seed=99)
with tw.join(sys.argv[1], sys.argv[2], model=model, patience=60) as run:
    train(run, model, x, y, each=lambda a, b: time.sleep(0.01))
"""


@pytest.mark.parametrize("seed", range(RUNS))
def test_deaths(seed):
    rng = random.Random(seed)
    strategy = rng.choice(["ssgd", "ssgd", "asgd", {"name": "local-sgd", "push": 2}, "ssp"])
    make, _, _ = problem("mlp", 192)
    with Cluster(strategy, workers=3, start=1, epochs=3, model=make(), samples=192) as c:
        workers = [program(WORKER, c.address, c.key) for _ in range(3)]
        for _ in range(rng.randrange(1, 4)):
            time.sleep(rng.uniform(0.5, 2.5))
            if not c.master.running:
                break
            if rng.random() < 0.3:
                address = c.address
                c.master._process.kill()
                c.master._process.wait()
                if os.path.exists(os.path.join(c.directory, "result.json")):
                    break  # it had just finished
                c.master = c.make(address)
            else:
                rng.choice(workers).kill()
                workers.append(program(WORKER, c.address, c.key))
        try:
            if c.master.running:
                c.master.wait(120)
            with open(os.path.join(c.directory, "result.json")) as f:
                r = json.load(f)
        finally:
            for p in workers:
                p.kill()
                p.communicate()
    if strategy == "ssgd":  # each sample once in each epoch, whoever died
        assert r["epochs_applied"] == 3 and r["repeated"] == 0 and r["dropped"] == 0, r
    assert r["epochs_applied"] >= 2.9, r
