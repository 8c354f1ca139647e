# SPDX-License-Identifier: Apache-2.0
"""PyTorch: a model whose parameters arrive in its own memory, an optimizer, a loader, a schedule.

The parameters and float buffers of a model become views of one tensor, in the order of the layout.
Each task writes that tensor; nothing of the library's memory is ever given away.  The gradients are
copied from where autograd left them to the library's vector, in one pass; or, if zero_grad keeps
them, autograd adds them up in one piece, which the library reads where it is.
"""
from __future__ import annotations

import collections
import hashlib
import inspect
import math
import operator
import time
from typing import Any, Callable, Collection, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from . import _library as L
from ._copies import Copies, device_for
from ._errors import Error, JobError
from ._layout import Layout, view, write_safetensors
from ._session import Vector

TO_NONE = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"].default
Named = List[Tuple[str, torch.Tensor]]


def trained_of(model: torch.nn.Module) -> Named:
    """What is trained; a tied parameter comes once."""
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def frozen_of(model: torch.nn.Module) -> Named:
    return [(name, p) for name, p in model.named_parameters() if not p.requires_grad]


def buffers_of(model: torch.nn.Module) -> Named:
    """Running statistics: the buffers of floats that are saved with the model."""
    kept = set(model.state_dict(keep_vars=True))
    return [(name, b) for name, b in model.named_buffers() if name in kept and b.dtype == torch.float32 and b.numel()]


def layout_of(model: Any) -> Layout:
    if not isinstance(model, torch.nn.Module):
        raise JobError(f"model: give a torch.nn.Module, and not {type(model).__name__}")
    trained, buffers = trained_of(model), buffers_of(model)
    if not trained:
        raise JobError("the model has no parameter that is trained (requires_grad)")
    for name, p in trained:
        if p.dtype != torch.float32:
            raise JobError(f"{name} is of {str(p.dtype).replace('torch.', '')}; parameters are float32: call "
                           "model.float(), and compute in less with torch.autocast")
    devices = {p.device for _, p in trained + buffers}
    if len(devices) > 1:
        raise JobError(f"the model is on several devices ({', '.join(sorted(map(str, devices)))}); put it on one")
    initial = torch.cat([t.detach().reshape(-1).cpu() for _, t in trained + buffers]).numpy().copy()
    return Layout([(n, tuple(p.shape)) for n, p in trained], [(n, tuple(b.shape)) for n, b in buffers], initial)


def frozen_digest(model: torch.nn.Module) -> Optional[str]:
    """A text that is the same for the same frozen parameters; None: there are none."""
    rows = frozen_of(model)
    if not rows:
        return None
    h = hashlib.sha256()
    for name, p in rows:
        h.update(f"{name} {tuple(p.shape)} {p.dtype} ".encode())
        h.update(p.detach().cpu().contiguous().view(torch.uint8 if p.numel() else p.dtype).numpy().tobytes())
    return h.hexdigest()[:16]


def data_text(model: torch.nn.Module, data: Optional[str]) -> Optional[str]:
    """What is compared at a join: the caller's text, and the frozen parameters, which are not sent."""
    digest = frozen_digest(model)
    parts = [data] if data else []
    if digest:
        parts.append(f"frozen {digest}")
    return ", ".join(parts) or None


class Info(NamedTuple):
    """What optimizer.step returns, about the parameters that it brought."""

    version: int       # updates in them
    staleness: float   # updates of others since this worker's last step
    waited: float      # seconds
    progress: float    # share of the run that is applied
    wanted: bool       # False: nobody wanted the answer any more
    over: bool         # the run is over: there is no next batch


class Optimizer(torch.optim.Optimizer):
    """Looks like an optimizer of torch.  `step(loss)` sends the gradients of the batch and brings new
    parameters into the model; what an update is, the job says."""

    def __init__(self, bound: "Bound", own: Optional[torch.optim.Optimizer]):
        self._bound, self._own = bound, own
        self._states: Dict[int, Any] = {}
        super().__init__([p for _, p in bound.trained], {"lr": 0.0})
        if own is not None:
            self.param_groups = own.param_groups  # the same list: schedulers and groups work

    def step(self, loss: Any = None) -> Info:  # type: ignore[override]
        """Send the gradients and bring new parameters.  `loss` is that of the batch."""
        if callable(loss) and not isinstance(loss, torch.Tensor):
            raise JobError("step takes the loss, and no closure: compute the loss and its gradient first, then call "
                           "opt.step(loss)")
        if loss is None:
            raise JobError("step needs the loss of the batch: opt.step(loss)")
        return self._bound.step(float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss))

    def zero_grad(self, set_to_none: bool = TO_NONE) -> None:
        """As in torch.  Gradients that are kept (set_to_none=False) move into one piece of memory, from
        which `step` sends them without a copy."""
        if set_to_none or self._own is not None or not self._bound.gradients.zero():
            super().zero_grad(set_to_none)

    def state_dict(self) -> Dict[str, Any]:
        return self._own.state_dict() if self._own is not None else super().state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        (self._own.load_state_dict if self._own is not None else super().load_state_dict)(state)
        if self._own is not None:
            self.param_groups = self._own.param_groups

    def _own_step(self, worker: int) -> None:
        """The own optimizer takes a step for this worker: in one process each has a state."""
        own = self._own
        assert own is not None
        if len(self._states) > 1 or worker not in self._states:
            if not self._states:  # a state that was loaded is that of the first
                self._states[worker] = own.state
            own.state = self._states.setdefault(worker, collections.defaultdict(dict))
        own.step()
        self._states[worker] = own.state


def _same(now: Collection[Any], then: Collection[Any]) -> bool:
    """The same objects; both are kept, so that no other object has their place."""
    return len(now) == len(then) and all(map(operator.is_, now, then))


class _Piece:
    """Room for all gradients, and its part for each parameter."""

    def __init__(self, vector: Vector, tensors: Sequence[Any]):
        self.vector = vector
        self.flat = torch.from_numpy(np.frombuffer(vector.array(), dtype=np.float32))
        self.parts = [self.flat[t.start:t.start + t.count].view(t.shape) for t in tensors]


class Gradients:
    """Gradients of the parameters in one piece, while zero_grad keeps them.

    Whenever the program has control, nobody else reads the piece that they are in: if the library still
    does after a step, they move on to another one."""

    def __init__(self, bound: "Bound"):
        self._bound = bound
        self._piece: Optional[_Piece] = None
        self._others: List[_Piece] = []  # the library read them when they were left

    def _free(self) -> _Piece:
        for k, piece in enumerate(self._others):
            if not piece.vector.busy:
                return self._others.pop(k)
        run = self._bound.run
        return _Piece(Vector(run._session_now(), run.layout.floats), self._bound._tensors[:len(self._bound.trained)])

    def zero(self) -> bool:
        """Put zeros where there are gradients, in one piece.  False: they cannot be there."""
        run = self._bound.run
        if run._closed or run._session is None or not self._bound.copies.device.direct:
            return False
        if self._piece is None:
            self._piece = self._free()
        self._piece.flat.zero_()
        self._move(self._piece, lambda p, k: p.grad is not None)
        return True

    def _move(self, piece: _Piece, which: Callable[[torch.Tensor, int], bool]) -> None:
        for k, (_, p) in enumerate(self._bound.trained):
            if p.grad is not piece.parts[k] and which(p, k):
                p.grad = piece.parts[k]

    def lend(self) -> Optional[_Piece]:
        """The piece with all gradients in it; None: none of them is there."""
        piece = self._piece
        if piece is None:
            return None
        bound = self._bound
        elsewhere = [k for k, (_, p) in enumerate(bound.trained) if p.grad is not piece.parts[k]]
        if len(elsewhere) == len(piece.parts):
            return None
        with torch.no_grad():
            for k in elsewhere:
                g = bound._gradient(bound._tensors[k], bound.trained[k][1])
                piece.parts[k].zero_() if g is None else piece.parts[k].copy_(g)
        return piece

    def back(self) -> None:
        """The program has control again."""
        last, run = self._piece, self._bound.run
        if last is None or not last.vector.busy:
            return
        if run._closed or run._session is None or run._session.ended:
            self._piece = None  # there is no next step
            return
        self._piece = self._free()
        self._piece.flat.copy_(last.flat)
        self._move(self._piece, lambda p, k: p.grad is last.parts[k])
        self._others.append(last)


class Bound:
    """A model that belongs to a run."""

    def __init__(self, run: Any, model: torch.nn.Module, device: Any = None):
        self.run, self.model = run, model
        if getattr(model, "_thalweg_run", None) is not None:
            raise JobError("the model belongs to another run that is not closed")
        self.trained, self.buffers = trained_of(model), buffers_of(model)
        self._tensors = run.layout.tensors
        self.copies = Copies(device or device_for(self.trained[0][1].device), run.layout.floats)
        self._move()
        self._before = torch.empty(run.layout.buffers)
        self.gradients = Gradients(self)
        self.optimizer_: Optional[Optimizer] = None
        self._factor: Optional[Callable[[float], float]] = None
        self._rates: List[float] = []
        self._loader: Optional[Loader] = None
        self.task: Any = None      # that whose batch is out, or comes next
        self._out = False          # ... its batch is out
        run._data = data_text(model, run._data) if run._data or run.title.startswith("joined") else run._data
        object.__setattr__(model, "_thalweg_run", run)

    def _move(self) -> None:
        """Parameters and buffers become views of one piece."""
        memory = self.copies.memory
        with torch.no_grad():
            for t, (_, p) in zip(self._tensors, self.trained + self.buffers):
                part = memory[t.start:t.start + t.count].view(t.shape)
                part.copy_(p.detach())
                p.data = part
        self._places = [(name, p, p.data_ptr()) for name, p in self.trained + self.buffers]
        self._modules = [(d, list(d.values())) for m in self.model.modules() for d in (m._parameters, m._modules)]
        self._needs = [(p, p.requires_grad) for p in self.model.parameters()]

    def close(self) -> None:
        object.__setattr__(self.model, "_thalweg_run", None)

    def _check_model(self) -> None:
        """The model must be the one that joined."""
        for name, p, place in self._places:
            if p.data_ptr() != place:
                raise JobError(f"{name} is elsewhere than when the run was opened: call model.to(), .half() and "
                               "load_state_dict(assign=True) before, or open another run")
        if all(_same(d.values(), then) for d, then in self._modules) and \
                all(p.requires_grad is needs for p, needs in self._needs):
            return  # nothing was put in, taken out, frozen or thawed
        now = {id(p) for p in self.model.parameters() if p.requires_grad}
        for name, p in self.trained:
            if id(p) not in now:
                raise JobError(f"{name} was replaced or frozen after the run was opened: change the model before, or open "
                               "another run")
        if len(now) != len(self.trained):
            raise JobError(f"the model has {len(now)} trained parameters, and had {len(self.trained)} when the run was "
                           "opened: change it before, or open another run")

    # --- what Run gives away ---

    def optimizer(self, own: Optional[torch.optim.Optimizer]) -> Optimizer:
        if self.optimizer_ is not None:
            raise JobError("the run has an optimizer already; one takes all steps (run.optimizer() was called before)")
        if own is not None:
            if not isinstance(own, torch.optim.Optimizer):
                raise JobError(f"run.optimizer takes an optimizer of torch, and not {type(own).__name__}")
            if isinstance(own, torch.optim.LBFGS):
                raise JobError("LBFGS needs a closure, and a task is one gradient; use optimiser: lbfgs in a job of "
                               "Thalweg's own networks, or another optimizer")
            mine = {id(p) for _, p in self.trained}
            theirs = {id(p) for group in own.param_groups for p in group["params"]}
            if not mine & theirs:
                raise JobError("the optimizer has none of the model's parameters; make it from model.parameters()")
        self.optimizer_ = Optimizer(self, own)
        if self.run._facts is not None:
            self._check_steps()
        return self.optimizer_

    @property
    def own(self) -> bool:
        """The program's own optimizer takes the steps."""
        return self.optimizer_ is not None and self.optimizer_._own is not None

    def _check_steps(self) -> None:
        theirs = bool(self.run._fact().own_steps)
        if self.own and not theirs:
            self.optimizer_ = None
            raise JobError("the job's rule takes gradients: use run.optimizer() without an optimizer of your own, or set "
                           "update: {rule: caller} and a strategy with deltas, such as local-sgd, in the job")
        if theirs and self.optimizer_ is not None and not self.own:
            self.optimizer_ = None
            raise JobError("the job has update.rule: caller: your optimizer takes the steps; use "
                           "run.optimizer(torch.optim.SGD(model.parameters(), ...)), or another rule in the job")

    def schedule(self, factor: Callable[[float], float]) -> "Bound":
        if not self.own:
            raise JobError("run.schedule goes with an own optimizer, run.optimizer(torch.optim...); the job has the rate "
                           "otherwise: use update.schedule there")
        if self._factor is not None:
            raise JobError("the run has a schedule already")
        assert self.optimizer_ is not None and self.optimizer_._own is not None
        self._factor = factor
        self._rates = [group["lr"] for group in self.optimizer_._own.param_groups]
        return self

    def loader(self, dataset: Any, batch_size: Optional[int] = None, **options: Any) -> "Loader":
        if self._loader is not None:
            raise JobError("the run has a loader already; one gives all batches")
        loader = Loader(self, dataset, batch_size, **options)
        if self.run._session is None:
            if self.run._closed:
                self.run._session_now()
            self.run._samples, self.run._tests = loader.count, loader.tests
            self.run._begin(batch_size)
        loader.check(self.run)
        self._check_steps()
        self._loader = loader
        return loader

    # --- tasks ---

    def advance(self) -> bool:
        """The next step's task, with its parameters in the model.  False: the run is over."""
        self.task, self._out = None, False
        while True:
            task = self.run._next(self.copies.into)
            if task is None:
                return False
            self.copies.arrive()
            if not task.score:
                break
            self._score(task)
        self.task = task
        n = self.run.layout.parameters
        if self.run.layout.buffers:
            self._before.copy_(self.copies.host[n:])
        if self.optimizer_ is not None and not self.own:
            for group in self.optimizer_.param_groups:
                group["lr"] = task.rate
        return True

    def _score(self, task: Any) -> None:
        assert self._loader
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                loss, correct = self._loader.scored(task.samples)
        finally:
            self.model.train(training)
        task.done(loss=loss, correct=correct)

    def step(self, loss: float) -> Info:
        if self.run._closed:
            self.run._session_now()
        if self.task is None or not self._out:
            raise JobError("there is no batch to answer: call step once for each batch of run.loader(dataset)")
        assert self._loader
        self._loader.check_parts()
        self._check_model()
        task = self.task
        wanted = self._answer(task, loss)
        began = time.monotonic()
        try:
            more = self.advance()
        finally:
            self.gradients.back()
        if not more:
            last = self.run._last
            return Info(int(last.get("version", 0)), 0.0, time.monotonic() - began, 1.0, wanted, True)
        return Info(self.task.version, self.task.staleness, time.monotonic() - began, self.task.progress, wanted, False)

    @staticmethod
    def _gradient(t: Any, p: torch.Tensor) -> Optional[torch.Tensor]:
        """The gradient of a parameter as it goes into the vector; None: zeros."""
        g = p.grad
        if g is not None and tuple(g.shape) != t.shape:
            raise JobError(f"the gradient of {t.name} has the shape {tuple(g.shape)}, and the parameter {t.shape}")
        return g.to_dense() if g is not None and g.is_sparse else g

    def _answer(self, task: Any, loss: float) -> bool:
        if self.own:
            return self._answer_own(task, loss)
        session = self.run._session_now()
        n = self.run.layout.parameters
        lent = self.gradients.lend()
        pieces = None if lent else [(t.start, t.count, self._gradient(t, p)) for t, (_, p) in zip(self._tensors, self.trained)]
        with session.using():
            if not task._open:
                raise JobError("the batch was answered already")
            to = lent.flat if lent else torch.from_numpy(view(task._raw.vector, self.run.layout.floats))
            with torch.no_grad():
                if pieces is not None:
                    self.copies.send(pieces, to[:n] if not self.run.layout.buffers else to)
                for t, (_, b) in zip(self._tensors[len(self.trained):], self.buffers):
                    at = t.start - n
                    to[t.start:t.start + t.count] = b.detach().reshape(-1).cpu() - self._before[at:at + t.count]
            del to
        status, text = session.done(task._raw, loss, -1.0, None, lent.vector if lent else None)
        task._open = False
        self.task, self._out = None, False
        return self.run._answered(task, loss, status, text)

    def _answer_own(self, task: Any, loss: float) -> bool:
        """The own optimizer takes its step; all floats are sent as they are then."""
        session, optimizer = self.run._session_now(), self.optimizer_
        assert optimizer is not None and optimizer._own is not None
        if self._factor is not None:
            share = task.progress if math.isfinite(task.progress) else 0.0
            for group, rate in zip(optimizer._own.param_groups, self._rates):
                group["lr"] = rate * self._factor(share)
        optimizer._own_step(task.worker)
        vector = None
        if self.copies.device.direct:
            vector = self.copies.memory.data_ptr()  # the library copies it
        else:
            with session.using():
                to = torch.from_numpy(view(task._raw.vector, self.run.layout.floats))
                self.copies.send([(0, self.run.layout.floats, self.copies.memory)], to)
                del to
        status, text = session.done(task._raw, loss, -1.0, vector)
        task._open = False
        self.task, self._out = None, False
        return self.run._answered(task, loss, status, text)

    # --- the end ---

    def finish(self, final: np.ndarray) -> None:
        """The run is over: its parameters are the model's."""
        with torch.no_grad():
            _ = self.copies.into  # wait for what is on its way
            self.copies.host.copy_(torch.from_numpy(final))
            self.copies.arrive()

    def save(self, path: str) -> None:
        state = {name: t.detach().cpu().contiguous().numpy() for name, t in self.model.state_dict().items()}
        buffers = " ".join(name for name, _ in self.buffers)
        write_safetensors(path, state, {"format": "pt", **({"buffers": buffers} if buffers else {})})


class Loader:
    """Batches of the samples that this worker gets, until the run is over."""

    def __init__(self, bound: Bound, dataset: Any, batch_size: Optional[int], *, collate: Optional[Callable] = None,
                 num_workers: int = 0, accumulate: int = 1, test: Any = None, score: Optional[Callable] = None,
                 device: Any = None):
        self._bound, self.batch_size, self.accumulate = bound, batch_size, accumulate
        self._left = 0  # parts of the batch that are not out yet
        self._data = _Source(dataset, collate, num_workers)
        self._test = _Source(test, collate, 0) if test is not None else None
        self._score, self._device = score, device
        self.count = self._data.count
        self.tests = self._test.count if self._test else 0
        if (test is None) != (score is None):
            raise JobError("test samples need both: test=dataset, and score=function of a batch that returns the mean "
                           "loss and how many were right")
        if not isinstance(accumulate, int) or accumulate < 1:
            raise JobError(f"accumulate: {accumulate!r} is no number of parts; use 1 or more")
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise JobError(f"batch_size: {batch_size!r} is no number of samples; use 1 or more")

    def check(self, run: Any) -> None:
        if self.count != run.samples:
            raise JobError(f"the dataset has {self.count} samples, and the job {run.samples} (data.samples)")
        if self.batch_size is not None and self.batch_size != run.batch_size:
            raise JobError(f"batch_size is {self.batch_size}, and the job's {run.batch_size}: set data.batch there, or "
                           "leave batch_size out")
        if self.tests != run.tests:
            raise JobError(f"there are {self.tests} test samples here, and {run.tests} in the job: give run.loader "
                           "test= and score= with as many (model.tests)")

    @property
    def last(self) -> bool:
        """Is the part that is out the last one of its batch?  A short batch may have fewer parts."""
        return self._left == 0

    def scored(self, samples: np.ndarray) -> Tuple[float, Optional[float]]:
        assert self._test and self._score
        said = self._score(*_parts(self._place(self._test.get(samples))))
        loss, correct = said if isinstance(said, tuple) else (said, None)
        return float(loss), None if correct is None else float(correct)

    def check_parts(self) -> None:
        if self._left:
            raise JobError(f"{self._left} of the {self.accumulate} parts of the batch are not out yet: call step after "
                           "the last of them")

    def _place(self, batch: Any) -> Any:
        return batch if self._device is None else _to(batch, self._device)

    def __iter__(self) -> Iterator[Any]:
        bound = self._bound
        if bound.optimizer_ is None:
            raise JobError("the run has no optimizer: call opt = run.optimizer() first, and opt.step(loss) for each batch")
        try:
            while True:
                bound.run._session_now()
                if bound._out:
                    raise JobError("the last batch was not answered: call opt.step(loss) before the next batch")
                if bound.task is None and not bound.advance():
                    return
                yield from self._batch(bound.task)
                if bound.run._session is not None and bound.run._session.ended and bound.task is None:
                    return
        finally:
            self._data.close()

    def _batch(self, task: Any) -> Iterator[Any]:
        parts = [task.samples]
        if self.accumulate > 1:
            parts = [p for p in np.array_split(task.samples, self.accumulate) if len(p)]
        self._bound._out = True
        for k, part in enumerate(parts):
            self._left = len(parts) - 1 - k
            yield self._place(self._data.get(part))
        self._left = 0


def _parts(batch: Any) -> Sequence[Any]:
    return batch if isinstance(batch, (tuple, list)) else (batch,)


def _to(batch: Any, device: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {k: _to(v, device) for k, v in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)(_to(v, device) for v in batch)
    return batch


_dataset: Any = None  # of a reading process


def _read_init(dataset: Any) -> None:
    global _dataset
    torch.set_num_threads(1)
    _dataset = dataset


def _read(numbers: List[int]) -> List[Any]:
    return [_dataset[k] for k in numbers]


class _Source:
    """Samples of a dataset by number, as one batch."""

    def __init__(self, dataset: Any, collate: Optional[Callable], workers: int):
        self._tensors: Optional[List[torch.Tensor]] = None
        self._pool: Any = None
        self._workers = workers
        if isinstance(dataset, torch.utils.data.TensorDataset):
            self._tensors = list(dataset.tensors)
        elif isinstance(dataset, (tuple, list)) and dataset and all(hasattr(a, "shape") for a in dataset):
            self._tensors = [torch.as_tensor(a) for a in dataset]
            if len({len(a) for a in self._tensors}) != 1:
                raise JobError("the arrays of the dataset have different lengths: " +
                               ", ".join(str(len(a)) for a in self._tensors))
        elif not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise JobError(f"{type(dataset).__name__} has no numbered samples; use a dataset with __len__ and "
                           "__getitem__: the job deals their numbers")
        if not isinstance(workers, int) or workers < 0:
            raise JobError(f"num_workers: {workers!r} is no number of processes; use 0 or more")
        self.dataset = dataset
        self.count = len(self._tensors[0]) if self._tensors is not None else len(dataset)
        self._collate = collate or torch.utils.data.default_collate

    def get(self, samples: np.ndarray) -> Any:
        if self._tensors is not None:
            at = torch.from_numpy(samples)
            rows = [a[at] for a in self._tensors]
            return rows[0] if len(rows) == 1 else rows
        numbers = samples.tolist()
        if not self._workers:
            return self._collate([self.dataset[k] for k in numbers])
        if self._pool is None:
            import torch.multiprocessing as mp
            self._pool = mp.get_context("fork").Pool(self._workers, _read_init, (self.dataset,))
            self._pids = {p.pid for p in self._pool._pool}
        size = math.ceil(len(numbers) / self._workers)
        asked = [self._pool.apply_async(_read, (numbers[k:k + size],)) for k in range(0, len(numbers), size)]
        rows = []
        for one in asked:
            while not one.ready():
                one.wait(0.05)
                if {p.pid for p in self._pool._pool} != self._pids and not one.ready():
                    raise Error("a process that reads samples has died (num_workers)", L.IO)
            rows += one.get()
        return self._collate(rows)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()
            self._pool = None


__all__ = ["Bound", "Info", "Loader", "Optimizer"]
