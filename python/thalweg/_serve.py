# SPDX-License-Identifier: Apache-2.0
"""What runs in processes of the program: the master of a cluster, and comparisons."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path as _Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _library as L
from ._errors import Interrupted, JobError, Rejected
from ._job import Job, JobLike, Overrides, value_text
from ._layout import Layout, read_safetensors, write_safetensors
from ._result import Result

Path = Union[str, "os.PathLike[str]"]
_CODES = {2: JobError, 75: Interrupted}


def _raise(code: int, said: str) -> None:
    text = said.strip().split("\n")[-1]
    text = text[len("thalweg: "):] if text.startswith("thalweg: ") else text
    kind = _CODES.get(code)
    raise kind(text) if kind is JobError else (kind or Rejected)(text or f"thalweg ended with {code}")


def make_key(path: Path) -> None:
    """Write a new key for a cluster to a file that only you can read.  All its processes need it."""
    text = subprocess.run([L.program(), "key"], check=True, capture_output=True, text=True).stdout
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as f:
        f.write(text)


class Master:
    """The master of a cluster, in a process of its own; see `thalweg.serve`."""

    def __init__(self, command: Sequence[str], quiet: bool):
        self._lines: List[str] = []
        self._known = threading.Event()
        self._result: Optional[Result] = None
        self.address: str = ""
        # of its own session: Ctrl-C comes from us, once
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, start_new_session=True)
        self._said: List[str] = []
        self._readers = [threading.Thread(target=self._read_errors, args=(quiet,), daemon=True),
                         threading.Thread(target=self._read_result, daemon=True)]
        for thread in self._readers:
            thread.start()
        self._finish = weakref.finalize(self, _end, self._process)
        while not self._known.wait(0.05):
            if self._process.poll() is not None:
                self._over()

    def _read_errors(self, quiet: bool) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._lines.append(line)
            found = re.search(r"to join: thalweg join (\S+)", line)
            if found:
                self.address = found[1]
                self._known.set()
            if not quiet:
                sys.stderr.write(line)

    def _read_result(self) -> None:
        assert self._process.stdout
        self._said.append(self._process.stdout.read())

    def _over(self) -> Result:
        for thread in self._readers:
            thread.join()
        code = self._process.returncode
        self._finish.detach()
        text = "".join(self._said).strip()
        if text.startswith("{") and self._result is None:
            self._result = Result(json.loads(text))
        if code != 0 or self._result is None:
            _raise(code, "".join(self._lines))
        assert self._result
        return self._result

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Wait for the end of the run, and return its result.  Ctrl-C once: a checkpoint, and the end;
        twice: the end at once."""
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while self._process.poll() is None:
                if until is not None and time.monotonic() > until:
                    raise TimeoutError(f"the run is not over after {timeout} s")
                _wait(self._process, 0.05)
        except KeyboardInterrupt:
            self.stop()
            raise
        return self._over()

    def stop(self) -> None:
        """A checkpoint, and the end: serve the same job in the same directory again to resume."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            while self._process.poll() is None:
                _wait(self._process, 0.05)
        except KeyboardInterrupt:
            self._process.kill()
            raise

    def close(self) -> None:
        """End the process if it runs."""
        self._finish()

    def __enter__(self) -> "Master":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<master at {self.address}: {'running' if self.running else 'over'}>"


def _wait(process: "subprocess.Popen[str]", seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        _wait(process, 5.0)
    if process.poll() is None:
        process.kill()
    process.wait()


def _tensors_file(path: str, layout: Layout, keep: bool) -> None:
    """Names, shapes and initial values; a file of the same layout is kept for a run that resumes."""
    if keep and os.path.exists(path):
        there = read_safetensors(path)
        if [(n, a.shape) for n, a in there.items()] == [(t.name, t.shape) for t in layout.tensors]:
            return
    import numpy as np
    vector = layout.initial if layout.initial is not None else np.zeros(layout.floats, dtype=np.float32)
    buffers = " ".join(t.name for t in layout.tensors if t.buffer)
    write_safetensors(path, layout.split(vector), {"buffers": buffers} if buffers else None)


def serve(model: Any, job: JobLike, overrides: Overrides = None, *, listen: str = "127.0.0.1:7433",
          key: Optional[Path] = None, samples: Optional[int] = None, tests: Optional[int] = None,
          data: Optional[str] = None, directory: Optional[Path] = None, again: bool = False, wait: bool = True,
          quiet: bool = False, flags: Sequence[str] = ()) -> Union[Result, Master]:
    """Start the master of a cluster that trains `model`, and wait for its result.

    Writes the model's names, shapes and initial values beside the run directory, and runs `thalweg
    serve`.  `model` is a torch model, an array or a dict of arrays.  `job` is a job file, its text, a
    dict or a strategy; `samples`, `tests` and `data` are those of the workers (data.samples,
    model.tests and model.data).  Without a key it listens on this machine only.  `wait=False` returns
    a `Master` at once.  `flags` are further ones of `thalweg serve`."""
    from ._run import _layout
    torch_model = hasattr(model, "named_parameters")
    layout = _layout(model if torch_model else None, None if torch_model else model, None)
    if torch_model:
        from . import _torch
        data = _torch.data_text(model, data)
    spec = Job(job, overrides)
    if directory is None:
        directory = os.path.join("runs", _Path(spec.path).stem if spec.path else "served")
    where = os.path.abspath(os.fspath(directory))
    os.makedirs(os.path.dirname(where), exist_ok=True)
    resumes = os.path.isdir(where) and not again
    _tensors_file(where + "-model.safetensors", layout, resumes)
    spec.sets.setdefault("model.tensors", where + "-model.safetensors")
    for field, value in (("data.samples", samples), ("model.tests", tests), ("model.data", data)):
        if value is not None:
            spec.sets.setdefault(field, value)
    path = spec.path
    if path is None:
        path = where + "-job.yaml"
        with open(path, "w") as f:
            f.write(spec.text or "")
    command = [L.program(), "serve", path, "--listen", listen, "--run", where, "--json", "--http", "off"]
    command += ["--key", os.fspath(key)] if key is not None else []
    command += ["--again"] if again else []
    for field, value in spec.sets.items():
        command += ["--set", f"{field}={value_text(value)}"]
    master = Master([*command, *flags], quiet)
    if not wait:
        return master
    try:
        return master.wait()
    finally:
        master.close()


class Comparison:
    """Methods side by side; `report` has everything that docs/COMPARE.md describes."""

    def __init__(self, report: Mapping[str, Any], table: str, directory: str):
        self.report, self._table, self.directory = dict(report), table, directory

    @property
    def rows(self) -> List[Dict[str, Any]]:
        """One dict for each run: method, seed, its settings, and the value of every measure."""
        out, paths = [], [s["path"] if isinstance(s, dict) else s for s in self.report["settings"]]
        for row in self.report["rows"]:
            for run in row["runs"]:
                out.append({"method": row["label"], "seed": run["seed"], "workers": row["workers"],
                            "rank": row["rank"], "baseline": row["baseline"], "diverged": run["diverged"],
                            **dict(zip(paths, row["settings"])),
                            **run["values"]})
        return out

    @property
    def best(self) -> Optional[str]:
        """The method with the best mean; None: no run has a value."""
        return self.report["best"]

    def to_pandas(self) -> Any:
        """`rows` as a DataFrame."""
        import pandas
        return pandas.DataFrame(self.rows)

    def __repr__(self) -> str:
        return self._table

    def _repr_html_(self) -> str:
        import html
        return f"<pre>{html.escape(self._table)}</pre>"


def compare(*jobs: JobLike, vary: Optional[Mapping[str, Sequence[Any]]] = None, seeds: int = 0,
            tune: Optional[Mapping[str, Union[str, Sequence[Any]]]] = None, overrides: Overrides = None,
            world: str = "sim", directory: Optional[Path] = None, measure: Optional[str] = None,
            quiet: bool = True) -> Comparison:
    """Run several jobs, or variants of one, each with several seeds, and compare them: `thalweg compare`.

    `vary` gives values of fields, {"strategy": ["ssgd", "asgd"]}; two fields make a grid.  `tune`
    chooses the best of some values for each method.  With a `directory`, runs that are finished are
    not repeated, and report.html is there."""
    if not jobs:
        raise JobError("compare needs a job")
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.fspath(directory) if directory is not None else os.path.join(temporary, "compare")
        paths = []
        for k, job in enumerate(jobs):
            spec = Job(job)
            path = spec.path or os.path.join(temporary, f"job{k or ''}.yaml")
            if not spec.path:
                with open(path, "w") as f:
                    f.write(spec.text or "")
            paths.append(path)
        command = [L.program(), "compare", *paths, "--run", folder, "--world", world]
        command += ["--seeds", str(seeds)] if seeds else []
        command += ["--measure", measure] if measure else []
        for flag, rows in (("--vary", vary), ("--tune", tune)):
            for path, values in (rows or {}).items():
                text = values if isinstance(values, str) else ",".join(value_text(v) for v in values)
                command += [flag, f"{path}={text}"]
        for path, value in (overrides or {}).items():
            command += ["--set", f"{path}={value_text(value)}"]
        table = _run(command, quiet)
        with open(os.path.join(folder, "report.json")) as f:
            report = json.load(f)
    if directory is None:  # nothing is kept
        table = re.sub(r"\n+report  .*\Z", "", table)
    return Comparison(report, table, folder if directory is not None else "")


def _run(command: Sequence[str], quiet: bool) -> str:
    """What a command prints; Ctrl-C interrupts it, and it may be run again to resume."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE if quiet else None, text=True, start_new_session=True)
    said: List[Any] = []
    reader = threading.Thread(target=lambda: said.append(process.communicate()), daemon=True)
    reader.start()
    try:
        while reader.is_alive():
            reader.join(0.05)
    except KeyboardInterrupt:
        _end(process)
        raise
    out, err = said[0]
    if process.returncode:
        _raise(process.returncode, err or "")
    return out.rstrip("\n")


__all__ = ["Comparison", "Master", "compare", "make_key", "serve"]
