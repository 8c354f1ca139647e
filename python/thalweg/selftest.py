# SPDX-License-Identifier: Apache-2.0
"""Does the package work here?  python3 -m thalweg.selftest [--device cuda]

Trains a small network on the processor and on the device, and compares.  `--device slow` is a
simulated device whose copies take their time: its results equal the processor's bit for bit.
"""
from __future__ import annotations

import argparse
import queue
import sys
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

import torch
import torch.nn.functional as F

import thalweg as tw

from . import _torch


class _Event:
    def __init__(self) -> None:
        self.happened = threading.Event()

    def wait(self) -> None:
        self.happened.wait()


class Slow:
    """A device in the processor's memory: copies happen later, in their order, on a thread.

    `break_order` leaves one of the orders of _copies.py out: "arrive" computes before the parameters
    are there, "reuse" lets new ones into a buffer that is still read, "send" answers before the
    gradients are there."""

    direct = False
    device = torch.device("cpu")

    def __init__(self, delay: float = 0.001, break_order: Optional[str] = None):
        self.delay, self.break_order = delay, break_order
        self.copies = 0
        self._work: "queue.Queue[Optional[Tuple[torch.Tensor, torch.Tensor, _Event]]]" = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            one = self._work.get()
            if one is None:
                return
            time.sleep(self.delay)
            with torch.no_grad():
                one[0].copy_(one[1])
            one[2].happened.set()

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()

    def buffer(self, count: int) -> torch.Tensor:
        return torch.full((count,), float("nan"))  # what nobody wrote is not taken for a number

    def memory(self, count: int) -> torch.Tensor:
        return torch.full((count,), float("nan"))

    def copy(self, to: torch.Tensor, from_: torch.Tensor) -> Any:
        event = _Event()
        self.copies += 1
        self._work.put((to, from_.detach(), event))
        if self.break_order == "send" and to.numel() and not torch.isnan(to).all():
            event.wait = lambda: None  # type: ignore[method-assign]
        if self.break_order == "reuse":
            event.wait = lambda: None  # type: ignore[method-assign]
        return event

    def before_compute(self, event: Any) -> None:
        if self.break_order != "arrive":
            event.happened.wait()


def _network() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.BatchNorm1d(24), torch.nn.ReLU(), torch.nn.Linear(24, 4))


def trained(device: str = "cpu", fake: Any = None, strategy: str = "ssgd", own: bool = False) -> List[torch.Tensor]:
    """The parameters and buffers after a short training on a device."""
    torch.manual_seed(8)
    x = torch.randn(96, 12)
    y = (x @ torch.randn(12, 4)).argmax(1)
    model = _network().to(device)
    before: Callable[..., Any] = _torch.device_for
    if fake is not None:
        _torch.device_for = lambda device: fake
    try:
        with tw.local("local-sgd" if own else strategy, {} if own else {"update.rate": 0.05}, model=model, workers=2,
                      epochs=3) as run:
            opt = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9) if own else None)
            for xb, yb in run.loader((x, y), batch_size=8, device=device):
                opt.zero_grad()
                loss = F.cross_entropy(model(xb), yb)
                loss.backward()
                opt.step(loss)
    finally:
        _torch.device_for = before
    if device != "cpu":
        torch.cuda.synchronize()
    return [t.detach().cpu().clone() for t in (*model.parameters(), *model.buffers())]


def apart(a: List[torch.Tensor], b: List[torch.Tensor]) -> float:
    return max((s.double() - t.double()).abs().max().item() if not torch.isnan(s + t).any() else float("inf")
               for s, t in zip(a, b))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m thalweg.selftest", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="slow", help="slow (a simulated device), cpu, cuda or cuda:N")
    device = parser.parse_args().device
    if device.startswith("cuda") and not torch.cuda.is_available():
        print("selftest: this torch sees no CUDA device", file=sys.stderr)
        return 2
    failed = 0
    print(f"thalweg {tw.__version__}, torch {torch.__version__}, device {device}")
    for what, arguments in (("ssgd, gradients", {}), ("asgd, gradients", {"strategy": "asgd"}),
                            ("local-sgd, own optimizer", {"own": True})):
        fake = Slow() if device == "slow" else None
        difference = apart(trained(**arguments), trained("cpu" if fake else device, fake, **arguments))
        limit = 0.0 if not device.startswith("cuda") else 1e-3
        good = difference <= limit
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {what}: differs from the processor by {difference:g} (limit {limit:g})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
