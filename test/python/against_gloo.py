#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two processes, torch computing: Thalweg's exchange against DistributedDataParallel over Gloo.

    TW_BUILD=build /usr/bin/python3 test/python/against_gloo.py [ROUNDS [NAME,NAME...]]

An MLP of 784, 512, 512 and 10, batches of 64 per process, one thread each, SGD, the same data.  Each
round measures all of them, one after the other.  "local-sgd" has its parameters in the master's process,
"local-sgd-ring" has no server.  Names with "+key" encrypt and authenticate what they send; Gloo does
neither.  Prints the medians of the rounds:

  samples/s   over the median of all spans of 8 steps: one push of local-sgd each
  mean        over all steps after the first ten and before the last one, in which a run ends
  cpu         milliseconds of a step, of one process; a master is not in it
  loss        over 4096 samples at the end

Not a test: it measures time.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
BUILD = os.path.join(ROOT, os.environ.get("TW_BUILD", "build"))
os.environ.setdefault("TW_LIBRARY", os.path.join(BUILD, "libthalweg.so"))
os.environ.setdefault("TW_PROGRAM", os.path.join(BUILD, "thalweg"))
os.environ["OMP_NUM_THREADS"] = "1"
import torch
import torch.nn.functional as F

SAMPLES, BATCH, RATE, WARM, SPAN = 64 * 2 * 150, 64, 0.05, 10, 8
LOCAL = {"name": "local-sgd", "push": SPAN}
STRATEGIES = {"ring": "ring", "local-sgd": LOCAL, "local-sgd-ring": {**LOCAL, "topology": "ring"}}
NAMES = ["gloo", "ring", "ring+key", "local-sgd", "local-sgd+key", "local-sgd-ring", "local-sgd-ring+key"]


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                               torch.nn.Linear(512, 10))


def data():
    g = torch.Generator().manual_seed(4)
    x = torch.randn(SAMPLES, 784, generator=g)
    return x, (x @ torch.randn(784, 10, generator=g)).argmax(1)


def loss_of(model, x, y):
    with torch.no_grad():
        return F.cross_entropy(model(x[:4096]), y[:4096]).item()


class Clock:
    """Wall and CPU time at the beginning of every step."""

    def __init__(self):
        self.wall, self.cpu = [], []

    def step(self):
        self.wall.append(time.perf_counter())
        self.cpu.append(time.process_time())

    def rates(self):
        wall, cpu = self.wall[WARM:], self.cpu[WARM:]
        steps, spans = len(wall) - 1, [b - a for a, b in zip(wall, wall[SPAN:])]
        return {"rate": 2 * BATCH * SPAN / statistics.median(spans), "mean": 2 * BATCH * steps / (wall[-1] - wall[0]),
                "cpu": 1000 * (cpu[-1] - cpu[0]) / steps}


def gloo(rank, folder):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{folder}/gloo", rank=rank, world_size=2)
    x, y = data()
    model = torch.nn.parallel.DistributedDataParallel(network())
    opt = torch.optim.SGD(model.parameters(), lr=RATE)
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(5))[rank::2]
    clock = Clock()
    for k in range(SAMPLES // 2 // BATCH):
        clock.step()
        at = order[k * BATCH:(k + 1) * BATCH]
        opt.zero_grad()
        F.cross_entropy(model(x[at]), y[at]).backward()
        opt.step()
    return {**clock.rates(), "loss": loss_of(model, x, y)}


def joined(address, key):
    import thalweg as tw
    x, y = data()
    model, clock = network(), Clock()
    with tw.join(address, key or None, model=model) as run:
        opt = run.optimizer()
        for xb, yb in run.loader((x, y)):
            clock.step()
            opt.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step(loss)
    return {**clock.rates(), "loss": loss_of(model, x, y)}


def one(name, folder):
    """Two processes of this file; the slower one counts."""
    command, master = [sys.executable, os.path.abspath(__file__), "--as"], None
    if name == "gloo":
        workers = [subprocess.Popen([*command, "gloo", str(r), folder], stdout=subprocess.PIPE, text=True) for r in range(2)]
    else:
        import thalweg as tw
        kind, _, key = name.partition("+")
        if key:
            key = os.path.join(folder, "key")
            tw.make_key(key)
        job = {"strategy": STRATEGIES[kind], "update": {"rate": RATE}, "data": {"batch": BATCH}, "cluster": {"workers": 2}}
        master = tw.serve(network(), job, listen="127.0.0.1:0", key=key or None, samples=SAMPLES, directory=os.path.join(folder, "run"),
                          wait=False, quiet=True)
        workers = [subprocess.Popen([*command, "join", master.address, key], stdout=subprocess.PIPE, text=True)
                   for _ in range(2)]
    said = [json.loads(p.communicate()[0]) for p in workers]
    if master:
        master.wait()
    return {"rate": min(s["rate"] for s in said), "mean": min(s["mean"] for s in said), "cpu": max(s["cpu"] for s in said),
            "loss": statistics.mean(s["loss"] for s in said)}


def main():
    torch.set_num_threads(1)
    if "--as" in sys.argv:
        kind, a, b = sys.argv[2:5]
        print(json.dumps(gloo(int(a), b) if kind == "gloo" else joined(a, b)))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    names = sys.argv[2].split(",") if len(sys.argv) > 2 else NAMES
    found = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(one(name, folder))
    middle = {name: {key: statistics.median(r[key] for r in rows) for key in rows[0]} for name, rows in found.items()}
    for name in names:
        m, base = middle[name], middle[names[0]]
        print(f"{name:<18} {m['rate']:6.0f} samples/s ({m['rate'] / base['rate']:.2f} of {names[0]}), mean {m['mean']:6.0f} "
              f"({m['mean'] / base['mean']:.2f}), cpu {m['cpu']:5.2f} ms, loss {m['loss']:.4f}; "
              f"each: {[round(r['rate']) for r in found[name]]}")


if __name__ == "__main__":
    main()
