#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Frozen layers and rates of layers against PyTorch: requires_grad = False on the same tensors, and
groups of parameters with the same rates.

    TW_BUILD=build /usr/bin/python3 test/torch/groups.py

A network with every kind of normalisation is trained on all samples at once, so that both programs
see the same batches, from the same weights, for 8 steps of SGD with momentum.  All its layers are
smooth: at the kink of a relu or a maximum, a last bit of one program decides over a whole gradient.  Trained tensors and
running statistics must agree to 2e-5, frozen ones in every bit.  Needs python3-torch; exits 77
(skipped) without it.
"""
import os
import subprocess
import sys
import tempfile

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
try:
    import numpy as np
    import torch
    import torch.nn as nn
except ImportError as missing:
    print(f"torch_groups: skipped: {missing.name} is not installed (./setup --full installs it)",
          file=sys.stderr)
    sys.exit(77)

from safe import safe_read, safe_write

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("TW_BUILD", "build"))
THALWEG = os.path.join(BUILD, "thalweg")
SAMPLES, STEPS, RATE, MOMENTUM = 24, 8, 0.05, 0.9
LIMIT = 2e-5

JOB = """
data: {source: npy, x: x.npy, y: y.npy, test_x: x.npy, test_y: y.npy, batch: 24, normalise: none}
model:
  weights: first.safetensors
  layers: [conv 4 3x3 pad 1, batchnorm, tanh, avgpool 2, conv 5 3x3, groupnorm 5, tanh, flatten,
           linear 9, layernorm, tanh, linear 3]
  freeze: %s
train: {epochs: 8, seed: 4, evaluate: 0}
update: {rule: momentum, momentum: 0.9, rate: 0.05%s}
cluster: {workers: 1}
strategy: %s
"""


class Failed(Exception):
    pass


def thalweg(*words, where):
    ran = subprocess.run([THALWEG, *words], cwd=where, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Failed(f"thalweg {' '.join(words)}: {ran.stderr}")


def network():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Tanh(),
                         nn.AvgPool2d(2), nn.Conv2d(4, 5, 3), nn.GroupNorm(5, 5), nn.Tanh(),
                         nn.Flatten(), nn.Linear(20, 9), nn.LayerNorm(9), nn.Tanh(),
                         nn.Linear(9, 3))


def by_thalweg(where, freeze, update, strategy):
    with open(os.path.join(where, "job.yaml"), "w") as f:
        f.write(JOB % (freeze, update, strategy))
    thalweg("train", "job.yaml", "--run", "run", "--again", "-q", where=where)
    thalweg("export", "run", "--to", "ours.safetensors", "-q", "--force", where=where)
    return safe_read(os.path.join(where, "ours.safetensors"))


def by_torch(first, x, y, groups):
    """groups(layer): None where it is frozen, else what its group has of its own."""
    net = network()
    net.load_state_dict({k: torch.tensor(v) for k, v in first.items()}, strict=False)
    sets = []
    for layer, module in enumerate(net):
        for p in module.parameters():
            how = groups(layer)
            p.requires_grad = how is not None
            if how is not None:
                sets.append({"params": [p], **how})
    rule = torch.optim.SGD(sets, lr=RATE, momentum=MOMENTUM)
    net.train()
    for _ in range(STEPS):
        rule.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        rule.step()
    return {k: v.detach().numpy() for k, v in net.state_dict().items()}


def compare(what, ours, theirs, first, groups):
    worst = 0.0
    for name, value in ours.items():
        layer, tensor = name.split(".")
        if groups(int(layer)) is None and not tensor.startswith("running"):
            if not np.array_equal(value, first[name]):
                raise Failed(f"{what}: {name} is frozen and has changed")
            continue
        # normalisation takes away what the biases before it add
        if name not in ("0.bias", "4.bias") and np.array_equal(value, first[name]):
            raise Failed(f"{what}: {name} has not changed")
        worst = max(worst, float(np.abs(value - theirs[name]).max()))
    if worst > LIMIT:
        raise Failed(f"{what}: differs from PyTorch's by {worst}")
    print(f"{what:40} {worst:.1e} (at most {LIMIT:.0e})")


# freeze, update, strategy, groups
CASES = [
    ("[]", "", "ssgd", lambda k: {}),
    ("[0, 1]", "", "ssgd", lambda k: None if k < 2 else {}),
    ("[0-8]", "", "asgd", lambda k: None if k < 9 else {}),
    ("[4, 9]", "", "ssgd", lambda k: None if k in (4, 9) else {}),
    ("[1, 5, 11]", "", "ring", lambda k: None if k in (1, 5, 11) else {}),
    ("[8]", "", "local-sgd", lambda k: None if k == 8 else {}),
    ("[]", ", layers: [0-4=0.1, 11=3]", "ssgd",
     lambda k: {"lr": RATE * (0.1 if k < 5 else 3 if k == 11 else 1)}),
    ("[0, 1]", ", decay: 0.02, layers: [4-5=0.25, 9=2]", "asgd",
     lambda k: None if k < 2 else {"lr": RATE * (0.25 if k in (4, 5) else 2 if k == 9 else 1),
                                   "weight_decay": 0.02}),
    ("[]", ", layers: [8=0.5]", "local-sgd", lambda k: {"lr": RATE * (0.5 if k == 8 else 1)}),
    ("[9]", ", layers: [8=0.5]", "ring",
     lambda k: None if k == 9 else {"lr": RATE * (0.5 if k == 8 else 1)}),
]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(5)
    draw = np.random.default_rng(3)
    x = draw.normal(size=(SAMPLES, 1, 8, 8)).astype(np.float32)
    y = draw.integers(0, 3, SAMPLES)
    first = {k: v.numpy() for k, v in network().state_dict().items() if v.dtype == torch.float32}
    with tempfile.TemporaryDirectory() as where:
        np.save(os.path.join(where, "x.npy"), x)
        np.save(os.path.join(where, "y.npy"), y)
        safe_write(os.path.join(where, "first.safetensors"), first)
        for freeze, update, strategy, groups in CASES:
            theirs = by_torch(first, torch.tensor(x), torch.tensor(y), groups)
            ours = by_thalweg(where, freeze, update, strategy)
            compare(f"{strategy}, freeze: {freeze}{update}", ours, theirs, first, groups)


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        print(f"torch_groups: {why}", file=sys.stderr)
        sys.exit(1)
