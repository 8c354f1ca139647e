# SPDX-License-Identifier: Apache-2.0
"""Copies between the library's memory and a model's: the only place that knows devices.

Orders that must hold, whatever the device does at the same time:

 (1) parameters are on the device before the model computes with them;
 (2) no parameters arrive in the host's buffer while an earlier copy still reads it;
 (3) the gradients are computed before they are copied;
 (4) ... and are in the library's memory before the task is answered.

A device has `copy(to, from_)`, which begins a copy and returns an event; `event.wait()` returns when
it has happened, and `before_compute(event)` lets what is computed from now on wait for it.
"""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch


class _Done:
    def wait(self) -> None:
        pass


class Cpu:
    """Copies happen at once, and parameters arrive in the model's own memory."""

    direct = True
    device = torch.device("cpu")

    def buffer(self, count: int) -> torch.Tensor:
        return torch.empty(count, dtype=torch.float32)

    def memory(self, count: int) -> torch.Tensor:
        return torch.empty(count, dtype=torch.float32)

    def copy(self, to: torch.Tensor, from_: torch.Tensor) -> Any:
        to.copy_(from_)
        return _Done()

    def before_compute(self, event: Any) -> None:
        event.wait()


class Cuda:
    """A stream of its own for copies, through pinned memory."""

    direct = False

    def __init__(self, device: torch.device):
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def buffer(self, count: int) -> torch.Tensor:
        return torch.empty(count, dtype=torch.float32, pin_memory=True)

    def memory(self, count: int) -> torch.Tensor:
        return torch.empty(count, dtype=torch.float32, device=self.device)

    def copy(self, to: torch.Tensor, from_: torch.Tensor) -> Any:
        event = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))  # (3), and nobody reads `to` any more
        with torch.cuda.stream(self.stream):
            to.copy_(from_, non_blocking=True)
            event.record(self.stream)
        return _CudaEvent(event)

    def before_compute(self, event: Any) -> None:
        torch.cuda.current_stream(self.device).wait_event(event.event)


class _CudaEvent:
    def __init__(self, event: Any):
        self.event = event

    def wait(self) -> None:
        self.event.synchronize()


def device_for(device: torch.device) -> Any:
    if device.type == "cpu":
        return Cpu()
    if device.type == "cuda":
        return Cuda(device)
    raise NotImplementedError(f"no copies are known for the device {device}; use cpu or cuda")


class Copies:
    """The parameters of a model on a device, in one piece, and the way to and from the library."""

    def __init__(self, device: Any, count: int):
        self.device = device
        self.memory: torch.Tensor = device.memory(count)  # what the model's parameters are views of
        self.host: torch.Tensor = self.memory if device.direct else device.buffer(count)
        self._staged: Optional[torch.Tensor] = None if device.direct else device.buffer(count)
        self._arrived: Any = None

    @property
    def into(self) -> int:
        """Where the library puts parameters; they are of use after `arrive`."""
        if self._arrived is not None:
            self._arrived.wait()  # (2)
            self._arrived = None
        return self.host.data_ptr()

    def arrive(self) -> None:
        """The library has written `into`."""
        if not self.device.direct:
            self._arrived = self.device.copy(self.memory, self.host)
            self.device.before_compute(self._arrived)  # (1)

    def send(self, pieces: Sequence[Tuple[int, int, Optional[torch.Tensor]]], to: torch.Tensor) -> None:
        """Put tensors at their places of the library's vector: (from, count, values), None: zeros."""
        if self._staged is None:
            for start, count, values in pieces:
                part = to[start:start + count]
                part.zero_() if values is None else part.copy_(values.reshape(-1))
            return
        events: List[Any] = []
        for start, count, values in pieces:
            part = self._staged[start:start + count]
            if values is None:
                part.zero_()
            else:
                events.append(self.device.copy(part, values.reshape(-1)))
        for event in events:
            event.wait()  # (4)
        to.copy_(self._staged)
