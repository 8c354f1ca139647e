#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our rules with PyTorch's optimisers on the same gradients.

First 20 updates of a small network, with the gradients that PyTorch computes on its own way down:
parameters within 1e-6 of its optimiser, in float and in double.  Then 200 updates with noise for
gradients and a rate that moves: within 5e-6.

    TW_BUILD=build /usr/bin/python3 test/strategy/torch_rules.py

Needs python3-torch and a built tree; exits 77 (skipped) without torch.
"""
import array
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
N, STEPS, NET_STEPS = 257, 200, 20

try:
    import torch
except ImportError:
    print("torch_rules: skipped: python3-torch is not installed (./setup --full installs it)", file=sys.stderr)
    sys.exit(77)

# name, our options, decay, torch's optimiser, does the rate move?
# (torch's nesterov moves what we show to workers; the two agree while the rate stands still, and
# without decay: torch's then pulls at what workers see, ours at w.)
CASES = [
    ("sgd", [], 0.0, lambda p: torch.optim.SGD(p, lr=1), True),
    ("momentum", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9), True),
    ("momentum", ["momentum=0.5"], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.5), True),
    ("nag", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, nesterov=True), False),
    ("multi", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9), True),
    ("multi", ["nesterov=true"], 0.0,
     lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, nesterov=True), False),
    ("dana", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, nesterov=True), False),
    ("adagrad", [], 0.0, lambda p: torch.optim.Adagrad(p, lr=1), True),
    ("rmsprop", [], 0.0, lambda p: torch.optim.RMSprop(p, lr=1), True),
    ("rmsprop", ["alpha=0.9", "epsilon=1e-3"], 0.0,
     lambda p: torch.optim.RMSprop(p, lr=1, alpha=0.9, eps=1e-3), True),
    ("adam", [], 0.0, lambda p: torch.optim.Adam(p, lr=1), True),
    ("adam", ["beta1=0.8", "beta2=0.95", "epsilon=1e-4"], 0.0,
     lambda p: torch.optim.Adam(p, lr=1, betas=(0.8, 0.95), eps=1e-4), True),
    # (without foreach, NAdam of PyTorch 1.13 multiplies by mu once too often)
    ("nadam", [], 0.0, lambda p: torch.optim.NAdam(p, lr=1, foreach=True), True),
    ("nadam", ["beta1=0.99", "beta2=0.95", "epsilon=1e-4", "momentum_decay=0.02"], 0.0,
     lambda p: torch.optim.NAdam(p, lr=1, betas=(0.99, 0.95), eps=1e-4, momentum_decay=0.02,
                                 foreach=True), True),
    ("predict-momentum", [], 0.0, lambda p: torch.optim.SGD(p, lr=1, momentum=0.9), True),
    ("predict-adam", [], 0.0, lambda p: torch.optim.Adam(p, lr=1), True),
    ("sgd", [], 0.02, lambda p: torch.optim.SGD(p, lr=1, weight_decay=0.02), True),
    ("momentum", [], 0.02,
     lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, weight_decay=0.02), True),
    ("adagrad", [], 0.02, lambda p: torch.optim.Adagrad(p, lr=1, weight_decay=0.02), True),
    ("rmsprop", [], 0.02, lambda p: torch.optim.RMSprop(p, lr=1, weight_decay=0.02), True),
    ("adam", [], 0.02, lambda p: torch.optim.Adam(p, lr=1, weight_decay=0.02), True),
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


class Net:
    """A network of 16-24-8-7 with its parameters in one vector."""
    sizes = (16, 24, 8, 7)
    length = sum((a + 1) * b for a, b in zip(sizes, sizes[1:]))

    def __init__(self):
        self.x = torch.randn(NET_STEPS, 32, self.sizes[0])
        self.label = torch.randint(self.sizes[-1], (NET_STEPS, 32))

    def loss(self, w, step):
        y, at, pairs = self.x[step].to(w.dtype), 0, list(zip(self.sizes, self.sizes[1:]))
        for a, b in pairs:
            y = y @ w[at:at + a * b].view(a, b) + w[at + a * b:at + (a + 1) * b]
            at += (a + 1) * b
            y = y if at == self.length else torch.tanh(y)
        return torch.nn.functional.cross_entropy(y, self.label[step])


def ours(program, name, options, decay, start, gradients, rates):
    message = array.array("f", start.tolist())
    for rate, gradient in zip(rates, gradients):
        message.append(rate)
        message.extend(gradient.tolist())
    done = subprocess.run([program, name, str(len(start)), str(decay), *options],
                          input=message.tobytes(), stdout=subprocess.PIPE, check=True)
    seen = array.array("f")
    seen.frombytes(done.stdout)
    return torch.tensor(seen.tolist(), dtype=torch.float64).view(len(rates), len(start))


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


def descend(make, net, start, rate):
    """PyTorch trains the net in float: its gradients and its parameters after every update."""
    parameter = torch.nn.Parameter(start.clone())
    optimiser = make([parameter])
    optimiser.param_groups[0]["lr"] = rate
    gradients, seen = [], []
    for step in range(NET_STEPS):
        optimiser.zero_grad()
        net.loss(parameter, step).backward()
        gradients.append(parameter.grad.clone())
        optimiser.step()
        seen.append(parameter.detach().double())
    return gradients, torch.stack(seen)


def apart(mine, other):
    return ((mine - other).abs() / other.abs().clamp(min=1.0)).max().item()


def on_net(program, case, net, start):
    """Worst distance of 20 updates, and how far they went."""
    name, options, decay, make, _ = case
    rate = 2.0 ** -7
    gradients, other = descend(make, net, start, rate)
    mine = ours(program, name, options, decay, start, gradients, [rate] * NET_STEPS)
    double = theirs(make, start, gradients, [rate] * NET_STEPS)
    return max(apart(mine, other), apart(mine, double)), \
        (other[-1] - start.double()).abs().max().item()


def on_noise(program, case, start, gradients):
    name, options, decay, make, moving = case
    # rates that a float holds exactly, so that both sides use the same
    rates = [2.0 ** -(7 + k // 50) if moving else 2.0 ** -7 for k in range(STEPS)]
    mine = ours(program, name, options, decay, start, gradients, rates)
    other = theirs(make, start, gradients, rates)
    return apart(mine, other), (other[-1] - start.double()).abs().max().item()


def main():
    build_dir = os.environ.get("TW_BUILD", os.path.join(ROOT, "build"))
    torch.manual_seed(1)
    start = torch.randn(N)
    gradients = [torch.randn(N) * 0.5 for _ in range(STEPS)]
    net, net_start = Net(), torch.randn(Net.length) * 0.3
    failed = 0
    with tempfile.TemporaryDirectory() as into:
        program = build(build_dir, into)
        for case in CASES:
            close, went = on_net(program, case, net, net_start)
            worst, moved = on_noise(program, case, start, gradients)
            good = close <= 1e-6 and went > 1e-3 and worst < 5e-6 and moved > 1e-2
            failed += not good
            print(f"{case[0]:10} {' '.join(case[1]):36} decay {case[2]:<5g} 20 updates {close:.1e} "
                  f"<= 1e-6  200 updates {worst:.1e} <= 5e-6  {'ok' if good else 'FAILED'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
