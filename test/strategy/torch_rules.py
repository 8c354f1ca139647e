#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our rules with PyTorch's optimisers on the same gradients.

    TW_BUILD=build /usr/bin/python3 test/strategy/torch_rules.py

Needs python3-torch and a built tree; exits 77 (skipped) without torch.
"""
import array
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
N, STEPS = 257, 200

try:
    import torch
except ImportError:
    print("torch_rules: skipped, python3-torch is not installed", file=sys.stderr)
    sys.exit(77)

# name, our options, decay, torch's optimiser, does the rate move?
# (torch's nesterov moves what we show to workers; the two agree while the rate stands still.)
CASES = [
    ("sgd", [], 0.0, lambda p: torch.optim.SGD(p, lr=1), True),
    ("momentum", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9), True),
    ("momentum", ["momentum=0.5"], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.5), True),
    ("nag", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, nesterov=True), False),
    ("multi", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9), True),
    ("dana", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, nesterov=True), False),
    ("adagrad", [], 0.0, lambda p: torch.optim.Adagrad(p, lr=1), True),
    ("rmsprop", [], 0.0, lambda p: torch.optim.RMSprop(p, lr=1), True),
    ("rmsprop", ["alpha=0.9", "epsilon=1e-3"], 0.0,
     lambda p: torch.optim.RMSprop(p, lr=1, alpha=0.9, eps=1e-3), True),
    ("adam", [], 0.0, lambda p: torch.optim.Adam(p, lr=1), True),
    ("adam", ["beta1=0.8", "beta2=0.95", "epsilon=1e-4"], 0.0,
     lambda p: torch.optim.Adam(p, lr=1, betas=(0.8, 0.95), eps=1e-4), True),
    ("adamw", [], 0.01, lambda p: torch.optim.AdamW(p, lr=1), True),
    ("adamw", [], 0.1, lambda p: torch.optim.AdamW(p, lr=1, weight_decay=0.1), True),
]


def build(build_dir, into):
    program = os.path.join(into, "rules")
    libraries = [os.path.join(build_dir, f"libtw_{room}.a") for room in ("strategy", "vec", "base")]
    subprocess.run([os.environ.get("CC", "cc"), "-D_GNU_SOURCE", "-I", os.path.join(ROOT, "src"),
                    os.path.join(ROOT, "test/strategy/driver/rules.c"), *libraries,
                    "-lm", "-lpthread", "-o", program], check=True)
    return program


def ours(program, name, options, decay, start, gradients, rates):
    message = array.array("f", start.tolist())
    for rate, gradient in zip(rates, gradients):
        message.append(rate)
        message.extend(gradient.tolist())
    done = subprocess.run([program, name, str(N), str(decay), *options], input=message.tobytes(),
                          stdout=subprocess.PIPE, check=True)
    seen = array.array("f")
    seen.frombytes(done.stdout)
    return torch.tensor(seen.tolist(), dtype=torch.float64).view(len(rates), N)


def theirs(make, start, gradients, rates):
    parameter = torch.nn.Parameter(start.clone().double())
    optimiser = make([parameter])
    seen = []
    for rate, gradient in zip(rates, gradients):
        optimiser.param_groups[0]["lr"] = rate
        parameter.grad = gradient.double()
        optimiser.step()
        seen.append(parameter.detach().clone())
    return torch.stack(seen)


def main():
    build_dir = os.environ.get("TW_BUILD", os.path.join(ROOT, "build"))
    torch.manual_seed(1)
    start = torch.randn(N)
    gradients = [torch.randn(N) * 0.5 for _ in range(STEPS)]
    failed = 0
    with tempfile.TemporaryDirectory() as into:
        program = build(build_dir, into)
        for name, options, decay, make, moving in CASES:
            # rates that a float holds exactly, so that both sides use the same
            rates = [2.0 ** -(7 + k // 50) if moving else 2.0 ** -7 for k in range(STEPS)]
            mine = ours(program, name, options, decay, start, gradients, rates)
            other = theirs(make, start, gradients, rates)
            worst = ((mine - other).abs() / other.abs().clamp(min=1.0)).max().item()
            moved = (other[-1] - start.double()).abs().max().item()
            good = worst < 5e-6 and moved > 1e-2
            failed += not good
            print(f"{name:10} {' '.join(options):40} worst {worst:.1e} {'ok' if good else 'FAILED'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
