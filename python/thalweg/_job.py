# SPDX-License-Identifier: Apache-2.0
"""What a caller may give as a job, as the library takes it: a path or a text, and overrides."""
from __future__ import annotations

import ctypes as C
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Union

from . import _library as L
from ._errors import JobError

JobLike = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Overrides = Optional[Mapping[str, Any]]


def value_text(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float, list, tuple, dict, type(None))):
        return json.dumps(value)
    if hasattr(value, "item"):  # a number of numpy or torch
        return json.dumps(value.item())
    raise JobError(f"{value!r} is no value for a field of a job; use a number, a text, a list or a dict")


class Job:
    """A job file, a job as text or dict, or the name of a strategy; and fields that differ."""

    def __init__(self, job: JobLike, overrides: Overrides = None, **fields: Any):
        self.path: Optional[str] = None
        self.text: Optional[str] = None
        self.named = False  # only a strategy: all else has its default or is a keyword
        if isinstance(job, Mapping):
            self.text = json.dumps(job)
        elif isinstance(job, os.PathLike):
            self.path = os.fspath(job)
        elif not isinstance(job, str):
            raise JobError(f"a job is a file, a text, a dict or the name of a strategy, and not {type(job).__name__}")
        elif "\n" in job or "{" in job or ": " in job:
            self.text = job
        elif job.endswith((".yaml", ".yml", ".json")) or "/" in job or os.path.exists(job):
            self.path = job
        else:
            self.text, self.named = json.dumps({"strategy": job}), True
        if overrides is not None and not isinstance(overrides, Mapping):
            raise JobError(f"overrides are a dict, such as {{'update.rate': 0.1}}, and not {type(overrides).__name__}")
        self.sets: Dict[str, Any] = dict(overrides or {})
        for path, value in fields.items():
            if value is not None:
                self.sets.setdefault(path.replace("__", "."), value)

    def request(self, world: int, events: Optional[int] = None, verbosity: int = 0) -> L.Request:
        """As the library takes it.  What it points to lives as long as the struct."""
        rows: List[bytes] = [f"{path}={value_text(value)}".encode() for path, value in self.sets.items()]
        array = (C.c_char_p * len(rows))(*rows)
        q = L.Request(path=self.path and os.fsencode(self.path), text=self.text and self.text.encode(),
                      set=array, sets=len(rows), world=world, verbosity=verbosity)
        if events:
            q.listen = C.cast(L.lib.thalweg_events_listen, C.c_void_p)
            q.user = events
        q.alive = (rows, array)  # type: ignore[attr-defined]
        return q
