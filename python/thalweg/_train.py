# SPDX-License-Identifier: Apache-2.0
"""Jobs that the library computes itself: training, its result, a trained model that predicts."""
from __future__ import annotations

import ctypes as C
import json
import os
import threading
import weakref
from typing import Any, Callable, Dict, Mapping, Optional, Union

from . import _library as L
from . import _threads
from ._errors import Error, JobError, check, failure
from ._job import Job, JobLike, Overrides
from ._layout import need_numpy, np, view
from ._result import Result
from ._session import Events

lib = L.lib
Path = Union[str, "os.PathLike[str]"]


def _close_job(at: int, owner: int) -> None:
    if os.getpid() == owner:
        lib.thalweg_close(at)


class _Handle:
    """An open job.  It is closed when nobody has it any more."""

    def __init__(self, job: Job, world: int, verbosity: int):
        self.events = Events()
        request, at, why = job.request(world, self.events.address, verbosity), C.c_void_p(), L.Error()
        gone = threading.Event()

        def work() -> int:
            status = lib.thalweg_open(C.byref(request), C.byref(at), C.byref(why))
            if status == L.OK and gone.is_set():
                lib.thalweg_close(at)  # it was interrupted while it read its data
            return status

        status = _threads.call(work, gone.set, "thalweg open")
        self.events.take()
        if status:
            raise failure(status, why.text.decode(errors="replace"), self.events.errors, files=True)
        self.at = at.value
        self.interrupted = False
        self.close = weakref.finalize(self, _close_job, at.value, os.getpid())

    def interrupt(self) -> None:
        self.interrupted = True
        lib.thalweg_stop(self.at)


class Trained(Result):
    """The result of `thalweg.train`: its figures, and the trained parameters."""

    def __init__(self, figures: Mapping[str, Any], handle: _Handle):
        super().__init__(figures, handle.events.evaluations)
        self._handle = handle

    @property
    def tensors(self) -> Dict[str, Any]:
        """Copies of the trained parameters, by name."""
        need_numpy()
        rows, count = C.POINTER(L.Tensor)(), C.c_size_t()
        number = lib.thalweg_tensors(self._handle.at, C.byref(rows))
        address = lib.thalweg_parameters(self._handle.at, C.byref(count))
        if not address:
            raise Error("there are no parameters: the training was stopped", L.ABSENT)
        every = view(address, count.value).copy()
        out = {}
        for k in range(number):
            t = rows[k]
            start = getattr(t, "from")
            out[t.name.decode()] = every[start:start + t.count].reshape(tuple(t.shape[:t.rank]))
        return out

    def save(self, path: Path) -> None:
        """Write the parameters as safetensors; `thalweg.load` and `thalweg predict` read it."""
        why = L.Error()
        check(lib.thalweg_save(self._handle.at, os.fsencode(path), C.byref(why)), why)

    def evaluate(self) -> Dict[str, float]:
        """Score the parameters on the whole test set."""
        why, score = L.Error(), L.Score()
        check(lib.thalweg_evaluate(self._handle.at, C.byref(score), C.byref(why)), why)
        return {"loss": score.loss, "accuracy": score.accuracy, "samples": score.samples}


def train(job: JobLike, overrides: Overrides = None, *, data: Any = None, world: str = "threads",
          directory: Optional[Path] = None, again: bool = False, verbosity: int = 0,
          listen: Optional[Callable[[Dict[str, Any]], Any]] = None) -> Trained:
    """Train a job with the library's own networks, and return its result.

    `job` is a job file, its text, a dict, or the name of a strategy; `overrides` are fields that
    differ, {"update.rate": 0.05}.  `data` is (x, y), (x, y, test_x, test_y), a torch dataset, two of
    them to train and to test with, or a table with Arrow's stream (pyarrow, pandas, polars), instead
    of a source in the job.  `world` is "threads" or "sim".  With a `directory`
    a training that was stopped resumes there, and `again` starts over.  `listen` is called on this
    thread with every event (a dict with `kind`: progress, evaluation, checkpoint or log); a result
    that is true stops the training.

    Ctrl-C makes a checkpoint if there is a directory, and raises KeyboardInterrupt."""
    if world not in ("threads", "sim"):
        raise JobError(f"world: {world!r} is none; use 'threads' or 'sim'")
    spec, files = Job(job, overrides), None
    if data is not None:
        from ._data import Files
        files = Files(data)
        spec.sets = {**files.sets, **spec.sets}
    try:
        handle = _Handle(spec, L.SIM if world == "sim" else L.THREADS, verbosity)
    finally:
        if files:
            files.remove()  # the library has read them
    return _train(handle, directory, again, listen)


def _train(handle: _Handle, directory: Optional[Path], again: bool, listen: Any) -> Trained:
    why, result = L.Error(), L.Result()
    helper = _threads.Helper(lambda: lib.thalweg_train(handle.at, os.fsencode(directory) if directory is not None else None,
                                                       L.AGAIN if again else 0, C.byref(result), C.byref(why)),
                             "thalweg train")
    _threads.watch(handle)
    try:
        while not helper.over.is_set():
            for event in handle.events.take(50):
                if listen and listen(event):
                    lib.thalweg_stop(handle.at)
    except BaseException:
        lib.thalweg_stop(handle.at)
        helper.over.wait()
        raise
    finally:
        _threads.unwatch(handle)
    status = helper.value()
    for event in handle.events.take():
        if listen:
            listen(event)
    if handle.interrupted:
        raise KeyboardInterrupt
    if status not in (L.OK, L.INTERRUPTED):
        raise failure(status, why.text.decode(errors="replace"), handle.events.errors, files=True)
    return Trained(json.loads(result.json), handle)


class Model:
    """A trained network that predicts; it needs neither its job nor its data."""

    def __init__(self, path: Path):
        at, why = C.c_void_p(), L.Error()
        check(lib.thalweg_model_open(os.fsencode(path), C.byref(at), C.byref(why)), why)
        self._at = at.value
        self._close = weakref.finalize(self, lib.thalweg_model_close, at.value)
        facts = lib.thalweg_model_facts(self._at).contents
        self.inputs: int = facts.inputs
        self.outputs: int = facts.outputs
        self.shape = tuple(facts.shape[:facts.rank])
        self.classes: bool = bool(facts.classes)
        self.input_names = [facts.input_names[k].decode() for k in range(self.inputs)] if facts.input_names else None
        self.output_names = [facts.output_names[k].decode() for k in range(self.outputs)] if facts.output_names else None
        self.columns: int = facts.columns
        self.column_names = [facts.column_names[k].decode() for k in range(self.columns)] if facts.column_names else None
        self._lock = threading.Lock()

    def predict(self, rows: Any) -> Any:
        """An array of `outputs` numbers for each row; of classes, their probabilities.  Rows have
        `inputs` values as they were in the data: the model normalises them."""
        need_numpy()
        x = np.ascontiguousarray(rows, dtype=np.float32)
        if x.size % self.inputs or x.ndim < 1:
            raise JobError(f"rows: {x.size} values are no rows of {self.inputs}")
        count = x.size // self.inputs
        out, why = np.empty((count, self.outputs), dtype=np.float32), L.Error()
        with self._lock:
            check(lib.thalweg_predict(self._at, x.ctypes.data, count, out.ctypes.data, C.byref(why)), why)
        return out

    def predict_cells(self, rows: Any) -> Any:
        """The same of cells of a table: each row is a list of `columns` cells in the order of
        `column_names`, or a dict by these names.  A cell is text or a number; None, "" and "NA" are
        missing, and so is a number that is not finite."""
        need_numpy()
        cells: list = []
        for number, row in enumerate(rows, 1):
            if isinstance(row, dict):
                lacks = [name for name in self.column_names or [] if name not in row]
                if lacks or not self.column_names:
                    raise JobError(f"row {number}: has no column {lacks[0]!r}" if lacks
                                   else "the columns of this model have no names; give rows as lists")
                row = [row[name] for name in self.column_names]
            if len(row) != self.columns:
                raise JobError(f"row {number}: has {len(row)} cells, and the model takes {self.columns}")
            cells += [None if c is None or c != c else str(c).encode() for c in row]
        count = len(cells) // self.columns if self.columns else 0
        out, why = np.empty((count, self.outputs), dtype=np.float32), L.Error()
        at = (C.c_char_p * len(cells))(*cells)
        with self._lock:
            check(lib.thalweg_predict_cells(self._at, at, count, out.ctypes.data, C.byref(why)), why)
        return out


def load(path: Path) -> Model:
    """Open a run directory, a checkpoint or an exported safetensors file."""
    return Model(path)
