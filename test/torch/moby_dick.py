#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains examples/moby-dick.yaml, and in PyTorch the network of nanoGPT with its settings for a CPU;
both must predict the last tenth of the book equally well.

    TW_BUILD=build /usr/bin/python3 test/torch/moby_dick.py [--seeds 3] [--pytorch|--ours]

PyTorch's side is nanoGPT's training loop for `--device=cpu`: 4 layers, 4 heads, width 128, 64
bytes, batches of 12 at random places, 2,000 steps; embedding and output share their weights, no
biases, normal initial weights of 0.02 (projections into the sum of a block by sqrt(2 layers) less);
AdamW with betas 0.9 and 0.99, a decay of 0.1 for matrices alone, gradients clipped to a norm of 1,
100 steps of warm-up to a rate of 0.001, then a cosine down to a tenth of it.

Compared are nats per byte over all windows of the last tenth.  One worker must be at most the mean
of PyTorch's seeds + 0.02.  Two asynchronous workers (rennala: two batches of 6 make an update, and what
comes too late is dropped) must be within 0.03 of one, with as many samples applied; with `asgd`, where
every gradient is an update late, they are some 0.15 behind.
Needs python3-torch, a built tree and the fetched book; exits 77 (skipped) without one of them.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    print("torch_moby_dick: skipped: python3-torch is not installed (./setup --full installs it)", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = os.path.join(ROOT, "examples", "moby-dick.yaml")
LAYERS, HEADS, WIDTH, LENGTH, BATCH, STEPS, WARM = 4, 4, 128, 64, 12, 2000, 100
RATE, LAST = 1e-3, 1e-4
WORSE, APART = 0.02, 0.03
TWO = ["cluster.workers=2", "strategy={name: rennala, collect: 2}", f"data.batch={BATCH // 2}", "train.steps=0",
       f"train.updates={STEPS}"]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.register_buffer("later", torch.ones(LENGTH, LENGTH).triu(1).bool(), persistent=False)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.into(x).view(b, t, 3, HEADS, w // HEADS).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-2, -1)) / math.sqrt(w // HEADS)
        y = s.masked_fill(self.later, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Normal(nn.Module):
    """A layer norm without a bias."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return F.layer_norm(x, (WIDTH,), self.weight, None, 1e-5)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.Sequential(Normal(), Attention())
        self.think = nn.Sequential(Normal(), nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.GELU(),
                                   nn.Linear(4 * WIDTH, WIDTH, bias=False))

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.think(x)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.normal = Normal()
        self.out = nn.Linear(WIDTH, 256, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                last = name.endswith("attend.1.out.weight") or name.endswith("think.3.weight")
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * LAYERS) if last else 0.02)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(self.normal(self.blocks(self.embedding(x) + self.positions.weight)))


def rate(step):
    if step < WARM:
        return RATE * step / WARM
    return LAST + (RATE - LAST) * 0.5 * (1 + math.cos(math.pi * (step - WARM) / (STEPS - WARM)))


def nats(net, x, y):
    with torch.no_grad():
        sums = [F.cross_entropy(net(a).flatten(0, 1), b.flatten(), reduction="sum").item()
                for a, b in zip(x.split(64), y.split(64))]
    return sum(sums) / y.numel()


def pytorch(book, windows, tests, seed):
    """nanoGPT's loop; nats of the last `tests` windows."""
    torch.manual_seed(seed)
    net = Network()
    heavy = [p for p in net.parameters() if p.dim() == 2]
    light = [p for p in net.parameters() if p.dim() != 2]
    best = torch.optim.AdamW([{"params": heavy, "weight_decay": 0.1}, {"params": light, "weight_decay": 0}],
                             lr=RATE, betas=(0.9, 0.99))
    train = book[:(windows - tests) * LENGTH + 1]
    for step in range(STEPS):
        for group in best.param_groups:
            group["lr"] = rate(step)
        at = torch.randint(len(train) - LENGTH, (BATCH,))
        x = torch.stack([train[i:i + LENGTH] for i in at])
        y = torch.stack([train[i + 1:i + 1 + LENGTH] for i in at])
        best.zero_grad(set_to_none=True)
        F.cross_entropy(net(x).flatten(0, 1), y.flatten()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        best.step()
    x, y = (book[k:windows * LENGTH + k].view(-1, LENGTH)[-tests:] for k in (0, 1))
    return nats(net, x, y)


def thalweg(*words):
    program = os.path.join(ROOT, os.environ.get("TW_BUILD", "build"), "thalweg")
    return subprocess.run([program, *words], text=True, capture_output=True)


def ours(run, seed, *more):
    began = time.monotonic()
    said = thalweg("train", EXAMPLE, "--run", run, "-q", "--set", f"train.seed={seed}",
                   *(w for m in more for w in ("--set", m)))
    if said.returncode:
        sys.exit(f"train: {said.stderr}")
    said = thalweg("eval", run, "--json")
    if said.returncode:
        sys.exit(f"eval: {said.stderr}")
    return json.loads(said.stdout)["nats"], time.monotonic() - began


def shown(name, values):
    print(f"{name}: {np.mean(values):.4f} nats; " + " ".join(f"{v:.4f}" for v in values), flush=True)
    return float(np.mean(values))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--seeds", type=int, default=3)
    args.add_argument("--set", action="append", default=[])
    args.add_argument("--pytorch", action="store_true")
    args.add_argument("--ours", action="store_true")
    args = args.parse_args()
    if thalweg("data", "check", "moby-dick").returncode:
        print("torch_moby_dick: skipped: run `thalweg data fetch moby-dick`", file=sys.stderr)
        return 77
    counts = json.loads(thalweg("data", "check", EXAMPLE, "--json").stdout)
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "thalweg")
    book = torch.from_numpy(np.fromfile(os.path.join(cache, "moby-dick", "data.txt"), np.uint8).astype(np.int64))
    windows, tests = counts["train"] + counts["test"], counts["test"]
    seeds = range(1, args.seeds + 1)
    torch.set_num_threads(1)
    theirs = None
    if not args.ours:
        theirs = shown("PyTorch", [pytorch(book, windows, tests, s) for s in seeds])
    if args.pytorch:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        runs = [ours(os.path.join(folder, f"one-{s}"), s, *args.set) for s in seeds]
        one = shown("one worker", [r[0] for r in runs])
        pairs = [ours(os.path.join(folder, f"two-{s}"), s, *TWO, *args.set) for s in seeds]
        two = shown("two workers", [r[0] for r in pairs])
    print(f"seconds: one worker {np.mean([r[1] for r in runs]):.0f}, two {np.mean([r[1] for r in pairs]):.0f}")
    return int((theirs is not None and one > theirs + WORSE) or two > one + APART)


if __name__ == "__main__":
    sys.exit(main())
