# SPDX-License-Identifier: Apache-2.0
"""A run in which your program computes: tasks out, gradients in; in this process, simulated, or as a
worker of a cluster."""
from __future__ import annotations

import ctypes as C
import json
import math
import os
import sys
import threading
import time
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Union

from . import _library as L
from ._errors import Error, JobError
from ._job import Job, JobLike, Overrides
from ._layout import Layout, layout_of, need_numpy, np, view
from ._result import Result, html_of_run
from ._session import Events, Session

Path = Union[str, "os.PathLike[str]"]
Gradient = Any  # an array of all floats, or a dict of arrays by name


class Task:
    """Samples, and the parameters at which their gradient is wanted.

    Attributes: `samples` (numbers from 0), `score` (they are test samples: answer with loss and
    correct), `parameters` (all floats, yours), `tensors` (the same by name), `worker`, `epoch`,
    `version` (updates in the parameters), `staleness` (updates of others since this worker's last
    task), `progress` (share of the run that is applied), `rate` (of learning) and `now` (seconds,
    virtual ones if simulated)."""

    def __init__(self, run: "Run", raw: L.Task, parameters: Any):
        self._run, self._raw, self._open = run, raw, True
        self.samples = np.frombuffer((C.c_int64 * raw.count).from_address(raw.sample), dtype=np.int64).copy()
        self.parameters = parameters
        self.score: bool = raw.work == L.SCORE
        self.worker: int = raw.worker
        self.epoch: int = raw.epoch
        self.version: int = raw.version
        self.staleness: float = raw.staleness
        self.progress: float = raw.progress
        self.rate: float = raw.rate
        self.now: float = raw.now

    def __repr__(self) -> str:
        what = "test samples" if self.score else "samples"
        return f"<task of worker {self.worker}: {len(self.samples)} {what} at version {self.version}>"

    @property
    def tensors(self) -> Dict[str, Any]:
        """The parameters by name, as views of `parameters`."""
        return self._run.layout.split(self.parameters)

    def done(self, gradient: Gradient = None, loss: Optional[float] = None, correct: Optional[float] = None, *,
             parameters: Any = None) -> bool:
        """Answer: the mean gradient of the samples, and their mean loss.

        `gradient` has all floats in order (buffers last: their changes; they may be left out if they
        do not change), or is a dict of arrays by name.  Test samples have no gradient; `correct` is
        how many of them were right.  With update: {rule: caller} in the job, your loop takes the steps,
        and `parameters` has the new values of all floats.  False: nobody wants the answer any more; go
        on."""
        if self._run._fact().own_steps and not self.score:
            if gradient is not None or parameters is None:
                raise JobError("the job has update.rule: caller: your loop takes the steps; answer with "
                               "task.done(parameters=new, loss=l)")
            if np.size(parameters) != self._run.layout.floats and not isinstance(parameters, Mapping):
                raise JobError(f"parameters has {np.size(parameters)} values, and the model {self._run.layout.floats}")
            gradient = parameters
        elif parameters is not None:
            raise JobError("the job's rule takes gradients; answer with task.done(gradient=g, loss=l), or use update: "
                           "{rule: caller} and a strategy with deltas, such as local-sgd")
        self._check(gradient, loss)
        session = self._run._session_now()
        address, keep = None, None
        if not self.score:
            address, keep = self._vector(session, gradient)
        status, text = session.done(self._raw, float(loss), -1.0 if correct is None else float(correct), address)
        del keep
        self._open = False
        return self._run._answered(self, float(loss), status, text)

    def fail(self, reason: str) -> None:
        """It cannot be computed: the run ends with this reason; one that joined leaves its cluster."""
        if not self._open:
            raise JobError("the task was answered already")
        self._open = False
        self._run._session_now().fail(self._raw, reason)

    def _check(self, gradient: Gradient, loss: Optional[float]) -> None:
        if not self._open:
            raise JobError("the task was answered already")
        if loss is None:
            raise JobError("done needs the loss: task.done(gradient=g, loss=l)")
        if self.score and gradient is not None:
            raise JobError("these are test samples: they have no gradient; answer with loss and correct")
        if not self.score and gradient is None:
            raise JobError("done needs the gradient: task.done(gradient=g, loss=l)")

    def _vector(self, session: Session, gradient: Gradient) -> Any:
        """(address, what keeps it alive) of a vector that the library copies; None: it is in place."""
        layout = self._run.layout
        if not isinstance(gradient, Mapping):
            g = np.asarray(gradient)
            if g.dtype == np.float32 and g.size == layout.floats and g.flags.c_contiguous:
                return g.ctypes.data, g
            _check_floats("the gradient", g)
            if g.size not in (layout.floats, layout.parameters):
                raise JobError(f"the gradient has {g.size} values, and the model {layout.parameters}" +
                               (f" and {layout.buffers} of buffers" if layout.buffers else ""))
            with session.using():
                to = view(self._raw.vector, layout.floats)
                to[:g.size] = g.reshape(-1)
                to[g.size:] = 0
            return None, None
        rows = {t.name: np.asarray(gradient[t.name]) for t in layout.tensors if t.name in gradient}
        unknown = [name for name in gradient if name not in rows]
        whole = self._run._fact().own_steps
        missing = [t.name for t in layout.tensors if t.name not in rows and (whole or not t.buffer)]
        if unknown or missing:
            raise JobError(f"the gradient has no {missing[0]}" if missing else
                           f"the gradient has {unknown[0]}, which the model does not")
        for t in layout.tensors:
            if t.name in rows:
                _check_floats(f"the gradient of {t.name}", rows[t.name])
                if rows[t.name].shape != t.shape:
                    raise JobError(f"the gradient of {t.name} has the shape {rows[t.name].shape}, and the tensor "
                                   f"{t.shape}")
        with session.using():
            to = view(self._raw.vector, layout.floats)
            for t in layout.tensors:
                to[t.start:t.start + t.count] = rows[t.name].reshape(-1) if t.name in rows else 0
        return None, None


def _check_floats(what: str, a: Any) -> None:
    if a.dtype.kind != "f":
        raise JobError(f"{what} is of {a.dtype}; use float32 or another type of floats")


class Run:
    """A run whose gradients come from your program; see `thalweg.local`, `simulate` and `join`.

    Iterate over it for tasks; any number of threads may.  With a torch model, use `loader` and
    `optimizer`.  Leave its block, or call `close`, to end all its threads."""

    def __init__(self, opener: Callable[["Run", int, int, Optional[int]], L.SessionRequest], layout: Layout,
                 samples: int, tests: int, model: Any, title: str, data: Optional[str] = None):
        self.layout, self.title, self._data = layout, title, data
        self._opener, self._session = opener, None  # type: ignore[var-annotated]
        self._closed = False
        self._lock = threading.Lock()
        self._pool: List[Any] = []
        self.events = Events()
        self._last: Dict[str, float] = {}
        self._curve: List[Any] = []
        self._result: Optional[Result] = None
        self._final: Any = None
        self._thread: Optional[threading.Thread] = None
        self._failed: Optional[BaseException] = None
        self._refusals = 0
        self._facts: Optional[L.SessionFacts] = None
        self._samples, self._tests = samples, tests
        self._bound: Any = None
        if model is not None:
            from . import _torch
            self._bound = _torch.Bound(self, model)
        if samples >= 0:
            self._begin(None)

    # --- opening and closing ---

    def _begin(self, batch: Optional[int]) -> Session:
        request = self._opener(self, self._samples, self._tests, batch)
        self._session = Session(request, self.events)
        self.layout.initial = None  # the library has a copy
        self._finish = weakref.finalize(self, self._session.close)
        self._facts = self._session.facts()
        self._samples, self._tests = self._facts.samples, self._facts.tests
        return self._session

    def _session_now(self) -> Session:
        if self._closed:
            raise Error("the run was closed: its block has ended, or close() was called", L.BAD_INPUT)
        if self._session is None:
            raise JobError("the run does not know its samples yet: give samples=..., or call run.loader(dataset)")
        return self._session

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the run if it is not over, and all its threads.  May be called again."""
        if self._closed:
            return
        if self._session is not None:
            if self._session.ended and self._final is None:
                self._collect()
            self._finish()
        self._closed = True
        if self._bound is not None:
            self._bound.close()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join()

    def stop(self) -> None:
        """Stop early: a checkpoint is made if there is a directory, what is begun is finished, and the
        iteration ends.  One that joined leaves; the run goes on without it."""
        self._session_now().stop()
        if self._thread and self._thread is not threading.current_thread():
            while self._thread.is_alive():
                self._thread.join(0.05)
            self._raise_background()

    # --- facts ---

    def _fact(self) -> L.SessionFacts:
        self._session_now() if self._facts is None else None
        assert self._facts
        return self._facts

    @property
    def batch_size(self) -> int:
        """Samples of a step at most."""
        return self._fact().batch

    @property
    def workers(self) -> int:
        """Workers of the job; others may join or leave."""
        return self._fact().workers

    @property
    def samples(self) -> int:
        """Samples of an epoch."""
        return self._fact().samples

    @property
    def tests(self) -> int:
        """Test samples; 0: nothing is evaluated."""
        return self._fact().tests

    @property
    def simulated(self) -> bool:
        return bool(self._fact().simulated)

    @property
    def progress(self) -> float:
        """Share of the run that is applied, as of the last task; NaN: it has no known end."""
        return self._last.get("progress", 0.0)

    # --- tasks ---

    def __iter__(self) -> Iterator[Task]:
        """Tasks until the run is over."""
        if self._bound is not None:
            raise JobError("a run with a model gives batches: use run.loader(dataset)")
        while True:
            task = self.next()
            if task is None:
                return
            yield task

    def next(self) -> Optional[Task]:
        """The next task; None: the run is over."""
        return self._next(None)

    def _next(self, into: Optional[int]) -> Optional[Task]:
        session = self._session_now()
        raw, room = L.Task(), None
        if into is None:
            room = self._room()
            into = room.ctypes.data
        if not session.next(into, raw):
            self._collect()
            return None
        task = Task(self, raw, room)
        self._last = {"version": task.version, "staleness": task.staleness, "progress": task.progress,
                      "rate": task.rate, "now": task.now, "epoch": task.epoch}
        return task

    def _room(self) -> Any:
        """Memory for the parameters of a task: an array that nobody looks at any more, or a new one."""
        with self._lock:
            for a in self._pool:
                if sys.getrefcount(a) == 3:  # the list, `a`, the argument
                    return a
            a = np.empty(self.layout.floats, dtype=np.float32)
            self._pool = [a] + self._pool[:15]
            return a

    def _answered(self, task: Task, loss: float, status: int, text: str) -> bool:
        if not task.score and math.isfinite(loss):
            self._curve.append((task.progress, task.now, loss))
            if len(self._curve) > 4000:
                self._curve = self._curve[::2]
            self._last["loss"] = loss
        if status == L.REFUSED:
            self._refusals += 1
            if self._refusals == 1:
                warnings.warn(text.replace("thalweg_done: ", "", 1), RuntimeWarning, stacklevel=3)
        return status != L.CANCELLED

    # --- the end ---

    def _collect(self) -> None:
        """The run is over: keep what came of it."""
        session = self._session
        assert session is not None
        self.events.take()
        text = session.result()
        if text and self._result is None:
            self._result = Result(json.loads(text), self.events.evaluations)
        address, count = session.parameters()
        if address and self._final is None:
            with session.using():
                self._final = view(address, count).copy()
            if self._bound is not None:
                self._bound.finish(self._final)

    @property
    def result(self) -> Optional[Result]:
        """What came of it, after its end; None: it is not over, or ended without a result."""
        return self._result

    @property
    def parameters(self) -> Any:
        """All floats after the end of the run; None: there are none."""
        return self._final

    @property
    def tensors(self) -> Optional[Dict[str, Any]]:
        """The parameters by name, after the end of the run."""
        return None if self._final is None else self.layout.split(self._final)

    @property
    def evaluations(self) -> List[Dict[str, float]]:
        """Losses and accuracies on the test set so far; a run that joined hears of none."""
        if not self._closed:
            self.events.take()
        return self.events.evaluations

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write the trained parameters as safetensors, after the end of the run.  With a torch model the
        file has the model's whole state_dict."""
        if self._final is None:
            raise Error("there is nothing to save: the run is not over, or ended without parameters", L.ABSENT)
        if self._bound is not None:
            self._bound.save(os.fspath(path))
        else:
            from ._layout import write_safetensors
            buffers = " ".join(t.name for t in self.layout.tensors if t.buffer)
            write_safetensors(os.fspath(path), self.layout.split(self._final), {"buffers": buffers} if buffers else None)

    # --- torch ---

    def _model(self, what: str) -> Any:
        if self._bound is None:
            raise JobError(f"{what} needs a torch model: open the run with model=...")
        return self._bound

    def optimizer(self, own: Any = None) -> Any:
        """An optimizer for your loop; its step(loss) sends the gradients and brings new parameters.

        With `own`, an optimizer of torch: it takes the steps, and what it changed is sent.  The job
        then has update: {rule: caller}."""
        return self._model("run.optimizer").optimizer(own)

    def schedule(self, factor: Callable[[float], float]) -> Any:
        """Multiply the rates of an own optimizer by factor(share of the run done, 0 to 1)."""
        return self._model("run.schedule").schedule(factor)

    def loader(self, dataset: Any, batch_size: Optional[int] = None, **options: Any) -> Any:
        """Batches of the samples that this worker gets: each sample once per epoch, whoever dies.

        `dataset`: one of torch with a length, or a tuple of tensors or arrays.  `batch_size` may be
        left out; it must be the job's data.batch.  Options: `collate`, `num_workers` (processes that
        read samples), `accumulate` (give each batch in so many parts; call step when loader.last is true),
        `test` and `score` (test samples, and a function of a batch of them that returns the mean loss
        and how many were right, or None)."""
        return self._model("run.loader").loader(dataset, batch_size, **options)

    # --- notebooks ---

    def background(self, loop: Callable[["Run"], Any]) -> "Run":
        """Call loop(run) on a thread of its own, and return at once; see `stop`, `wait` and the run's
        picture in a notebook."""
        if self._thread and self._thread.is_alive():
            raise JobError("the run has a loop in the background already; call run.stop() first")
        self._session_now() if self._bound is None else None

        def work() -> None:
            try:
                loop(self)
            except BaseException as why:  # noqa: B902: it is raised by wait() and stop()
                self._failed = why

        self._failed = None
        self._thread = threading.Thread(target=work, name="thalweg loop", daemon=True)
        self._thread.start()
        return self

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait for the loop in the background; its exception is raised here.  False: it is not over."""
        until = None if timeout is None else time.monotonic() + timeout
        while self._thread and self._thread.is_alive():
            self._thread.join(0.05)
            if until is not None and time.monotonic() >= until:
                return not self._thread.is_alive()
        self._raise_background()
        return True

    def _raise_background(self) -> None:
        why, self._failed = self._failed, None
        if why:
            raise why

    def _state(self) -> str:
        if self._closed or (self._session is not None and self._session.ended):
            return "over"
        return "running" if self._session is not None else "waiting for its samples"

    def __repr__(self) -> str:
        if self._result is not None:
            return repr(self._result)
        rows = [f"run          {self.title}: {self._state()}"]
        if self._facts:
            rows.append(f"work         {self._facts.workers} workers, batches of {self._facts.batch}, "
                        f"{self._facts.samples} samples, {self.layout.parameters} parameters")
        if self._last:
            share = self._last["progress"]
            rows.append(f"so far       version {self._last['version']}" +
                        ("" if math.isnan(share) else f", {100 * share:.1f} %") +
                        (f", loss {self._last['loss']:.6g}" if "loss" in self._last else ""))
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        return html_of_run(self, self._curve)


# --- ways to open one -----------------------------------------------------------------------------

def _session_request(run: Run, samples: int, tests: int) -> L.SessionRequest:
    q = L.SessionRequest(size=C.sizeof(L.SessionRequest), own_steps=-1)
    layout = run.layout.struct(samples, tests, run._data)
    q.layout = layout
    q.alive = [layout]  # type: ignore[attr-defined]
    return q


RANKS = -1  # of an MPI, instead of a world


def _local(world: int, job: JobLike, overrides: Overrides, model: Any, parameters: Any, buffers: Any, samples: Optional[int],
           tests: int, directory: Any, again: bool, verbosity: int, fields: Dict[str, Any]) -> Run:
    layout = _layout(model, parameters, buffers)
    spec = Job(job, overrides, **fields)

    def opener(run: Run, samples: int, tests: int, batch: Optional[int]) -> L.SessionRequest:
        if batch is not None and spec.named:
            spec.sets.setdefault("data.batch", batch)
        if run._bound is not None and run._bound.own and spec.named:
            spec.sets.setdefault("update.rule", "caller")
        q = _session_request(run, samples, tests)
        inner = spec.request(L.THREADS if world == RANKS else world, run.events.address, verbosity)
        q.address = b"mpi" if world == RANKS else None
        q.job = C.pointer(inner)
        q.directory = os.fsencode(directory) if directory is not None else None
        q.flags = L.AGAIN if again else 0
        q.alive.append(inner)
        return q

    if samples is None and model is None:
        raise JobError("samples: give the number of samples in an epoch, such as samples=60_000")
    if samples is not None and samples < 1:
        raise JobError(f"samples: {samples} are too few; an epoch has at least 1")
    title = job if isinstance(job, str) and "\n" not in job else type(job).__name__
    where = {L.SIM: "simulated", L.THREADS: "in this process", RANKS: "on the ranks of an MPI"}[world]
    return Run(opener, layout, -1 if samples is None else samples, tests, model, f"{title}, {where}")


def _layout(model: Any, parameters: Any, buffers: Any) -> Layout:
    if (model is None) == (parameters is None):
        raise JobError("give a torch model (model=...) or parameters=..., and not both")
    if model is None:
        return layout_of(parameters, buffers)
    need_numpy()
    from . import _torch
    return _torch.layout_of(model)


def local(job: JobLike, overrides: Overrides = None, *, model: Any = None, parameters: Any = None,
          buffers: Optional[Mapping[str, Any]] = None, samples: Optional[int] = None, tests: int = 0,
          workers: Optional[int] = None, epochs: Optional[float] = None, seed: Optional[int] = None,
          directory: Optional[Path] = None, again: bool = False, verbosity: int = 0) -> Run:
    """A run whose workers are all in this process; your threads compute for them.

    `job` is a job file, its text, a dict, or the name of a strategy; `overrides` are fields that
    differ, {"update.rate": 0.1}.  `model` is a torch model; without one, `parameters` is their number,
    an array of initial values, or a dict of arrays by name, and `buffers` a dict of running
    statistics.  `samples` may be left out with a model: run.loader(dataset) counts them.  With a
    `directory` a run that was stopped resumes; `again` starts over."""
    return _local(L.THREADS, job, overrides, model, parameters, buffers, samples, tests, directory, again, verbosity,
                  {"cluster__workers": workers, "train__epochs": epochs, "train__seed": seed})


def simulate(job: JobLike, overrides: Overrides = None, *, model: Any = None, parameters: Any = None,
             buffers: Optional[Mapping[str, Any]] = None, samples: Optional[int] = None, tests: int = 0,
             workers: Optional[int] = None, epochs: Optional[float] = None, seed: Optional[int] = None,
             directory: Optional[Path] = None, again: bool = False, verbosity: int = 0) -> Run:
    """As `local`, with simulated machines: tasks come one at a time in the order of virtual time, so
    the same loop gives the same run again."""
    return _local(L.SIM, job, overrides, model, parameters, buffers, samples, tests, directory, again, verbosity,
                  {"cluster__workers": workers, "train__epochs": epochs, "train__seed": seed})


def ranks(job: JobLike, overrides: Overrides = None, *, model: Any = None, parameters: Any = None,
          buffers: Optional[Mapping[str, Any]] = None, samples: Optional[int] = None, tests: int = 0,
          epochs: Optional[float] = None, seed: Optional[int] = None, directory: Optional[Path] = None, again: bool = False,
          verbosity: int = 0) -> Run:
    """As `local`, on the ranks of an MPI: a launcher starts the program, mpirun -n 4 python3 mine.py, and
    every rank opens the run with the same job and model and computes for its own worker.  The program
    must not initialise MPI itself.  Rank 0 has the directory, the result and the final parameters."""
    return _local(RANKS, job, overrides, model, parameters, buffers, samples, tests, directory, again, verbosity,
                  {"train__epochs": epochs, "train__seed": seed})


def join(address: str, key: Optional[Path] = None, *, model: Any = None, parameters: Any = None,
         buffers: Optional[Mapping[str, Any]] = None, samples: int = 0, tests: int = 0, data: Optional[str] = None,
         patience: float = 600.0, certificate: Optional[Path] = None, certificate_key: Optional[Path] = None,
         authority: Optional[Path] = None, verbosity: int = 0) -> Run:
    """Join the cluster of `thalweg serve` or `thalweg.serve` as one worker.

    `key` is the file of the cluster's key; or there are files of a certificate, its private key and
    the authority that signs all of them.  Names, shapes and their order must be the master's;
    initial values come from it.  `samples` and `tests` are the master's if they are left out; `data`
    is any text that is the same for the same data.  `patience` is how many seconds to wait for a
    master that is away; negative: for ever."""
    layout = _layout(model, parameters, buffers)
    if not isinstance(address, str) or not address:
        raise JobError("address: give the master's, such as head:7433")
    layout.initial = None

    def opener(run: Run, samples: int, tests: int, batch: Optional[int]) -> L.SessionRequest:
        q = _session_request(run, samples, tests)
        q.address = address.encode()
        q.keep = 1  # the model at the end
        for name, file in (("key", key), ("certificate", certificate), ("certificate_key", certificate_key),
                           ("authority", authority)):
            setattr(q, name, os.fsencode(file) if file is not None else None)
        q.patience = patience
        q.verbosity = verbosity
        q.listen, q.user = run.events.listen(), run.events.address
        return q

    return Run(opener, layout, samples, tests, model, f"joined {address}", data)


__all__ = ["Run", "Task", "local", "simulate", "join", "ranks"]
