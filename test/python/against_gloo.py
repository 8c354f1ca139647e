#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two processes, torch computing: Thalweg's exchange against DistributedDataParallel over Gloo.

    TW_BUILD=build /usr/bin/python3 test/python/against_gloo.py [ROUNDS]

An MLP of 784, 512, 512 and 10, batches of 64 per process, one thread each, SGD, the same data.  Each
round measures all of them, one after the other: samples per second of the steps after the first ten,
and the loss over all samples at the end.  Prints the median of the rounds.  Not a test: it measures
time.
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

SAMPLES, BATCH, RATE, WARM = 64 * 2 * 150, 64, 0.05, 10


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


def gloo(rank, folder):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{folder}/gloo", rank=rank, world_size=2)
    x, y = data()
    model = torch.nn.parallel.DistributedDataParallel(network())
    opt = torch.optim.SGD(model.parameters(), lr=RATE)
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(5))[rank::2]
    for k in range(SAMPLES // 2 // BATCH):
        if k == WARM:
            began = time.perf_counter()
        at = order[k * BATCH:(k + 1) * BATCH]
        opt.zero_grad()
        F.cross_entropy(model(x[at]), y[at]).backward()
        opt.step()
    took = time.perf_counter() - began
    return {"rate": 2 * BATCH * (k + 1 - WARM) / took, "loss": loss_of(model, x, y)}


def joined(address, key):
    import thalweg as tw
    x, y = data()
    model = network()
    with tw.join(address, key, model=model) as run:
        own = torch.optim.SGD(model.parameters(), lr=RATE) if run._fact().own_steps else None
        opt = run.optimizer(own)
        for k, (xb, yb) in enumerate(run.loader((x, y))):
            if k == WARM:
                began = time.perf_counter()
            opt.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step(loss)
        took = time.perf_counter() - began
    return {"rate": 2 * BATCH * (k + 1 - WARM) / took, "loss": loss_of(model, x, y)}


def one(name, folder):
    """Two processes of this file; the slower one counts."""
    command, master = [sys.executable, os.path.abspath(__file__), "--as"], None
    if name == "gloo":
        workers = [subprocess.Popen([*command, "gloo", str(r), folder], stdout=subprocess.PIPE, text=True) for r in range(2)]
    else:
        import thalweg as tw
        key = os.path.join(folder, "key")
        tw.make_key(key)
        strategy = {"ring": "ring", "local-sgd": {"name": "local-sgd", "push": 8}}[name]
        job = {"strategy": strategy, "update": {"rate": RATE}, "data": {"batch": BATCH}, "cluster": {"workers": 2}}
        master = tw.serve(network(), job, listen="127.0.0.1:0", key=key, samples=SAMPLES, directory=os.path.join(folder, "run"),
                          wait=False, quiet=True)
        workers = [subprocess.Popen([*command, "join", master.address, key], stdout=subprocess.PIPE, text=True)
                   for _ in range(2)]
    said = [json.loads(p.communicate()[0]) for p in workers]
    if master:
        master.wait()
    return {"rate": min(s["rate"] for s in said), "loss": statistics.mean(s["loss"] for s in said)}


def main():
    torch.set_num_threads(1)
    if "--as" in sys.argv:
        kind, a, b = sys.argv[2:5]
        print(json.dumps(gloo(int(a), b) if kind == "gloo" else joined(a, b)))
        return
    rounds, names = int(sys.argv[1]) if len(sys.argv) > 1 else 3, ["gloo", "ring", "local-sgd"]
    found = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(one(name, folder))
    base = statistics.median(r["rate"] for r in found["gloo"])
    for name in names:
        rate = statistics.median(r["rate"] for r in found[name])
        print(f"{name:<10} {rate:8.0f} samples/s, {rate / base:.2f} of gloo, loss "
              f"{statistics.median(r['loss'] for r in found[name]):.4f}; each: {[round(r['rate']) for r in found[name]]}")


if __name__ == "__main__":
    main()
