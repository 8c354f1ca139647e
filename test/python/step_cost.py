#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What opt.step costs beside the same step of the C session: 14.6 million parameters, one worker.

    TW_BUILD=build /usr/bin/python3 test/python/step_cost.py [STEPS]

Both in this process, alternating.  "C": thalweg_next into memory of the caller's and thalweg_done
with the gradient in the library's memory, where a C program computes it.  "torch": opt.step, with
gradients where zero_grad keeps them.  "copied": opt.step, with gradients that autograd made anew.
Prints medians in milliseconds.  Not a test: it measures time.
"""
import ctypes as C
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.setdefault("TW_LIBRARY", os.path.join(ROOT, os.environ.get("TW_BUILD", "build"), "libthalweg.so"))
import numpy as np
import torch

import thalweg as tw
from thalweg import _library as L


def network():
    return torch.nn.Sequential(torch.nn.Linear(784, 3072), torch.nn.ReLU(), torch.nn.Linear(3072, 3072), torch.nn.ReLU(),
                               torch.nn.Linear(3072, 876), torch.nn.ReLU(), torch.nn.Linear(876, 10))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    torch.set_num_threads(1)
    job = {"strategy": "ssgd", "update": {"rate": 1e-6}, "data": {"batch": 1}}
    model = network()
    n = sum(p.numel() for p in model.parameters())
    plain = tw.local(job, parameters=n, samples=2 * steps + 5, workers=1)
    run = tw.local(job, model=model, samples=2 * steps + 5, workers=1)
    opt = run.optimizer()
    for p in model.parameters():
        p.grad = torch.full_like(p, 1e-3)
    loader = iter(run.loader((torch.zeros(2 * steps + 5, 1),)))
    into, raw, at = np.zeros(n, dtype=np.float32), L.Task(), plain._session._at
    answer = L.Answer(1.0, -1.0, None)
    times = {"C": [], "torch": [], "copied": []}
    assert L.lib.thalweg_next(at, 1000, into.ctypes.data, C.byref(raw), None) == L.TASK
    for k in range(steps):
        C.memset(raw.vector, 0, 4 * n)  # computed: warm, and not counted
        began = time.perf_counter()
        L.lib.thalweg_done(at, C.byref(raw), C.byref(answer), None)
        assert L.lib.thalweg_next(at, 1000, into.ctypes.data, C.byref(raw), None) == L.TASK
        times["C"].append(time.perf_counter() - began)
        for name in ("torch", "copied"):
            next(loader)
            opt.zero_grad(set_to_none=False)
            for p in model.parameters():
                if name == "copied":
                    p.grad = torch.empty_like(p)
                p.grad.fill_(1e-3)
            began = time.perf_counter()
            opt.step(1.0)
            times[name].append(time.perf_counter() - began)
    ms = {name: 1000 * statistics.median(t[3:]) for name, t in times.items()}
    print(f"{n} parameters, {steps} steps: C {ms['C']:.2f} ms, torch {ms['torch']:.2f} ms, ratio {ms['torch'] / ms['C']:.3f}; "
          f"copied {ms['copied']:.2f} ms, ratio {ms['copied'] / ms['C']:.3f}")
    plain.close()
    run.close()


if __name__ == "__main__":
    main()
