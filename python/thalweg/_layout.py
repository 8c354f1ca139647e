# SPDX-License-Identifier: Apache-2.0
"""Names, shapes and initial values of a model's tensors, and files with them."""
from __future__ import annotations

import ctypes as C
import json
import os
import struct
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _library as L
from ._errors import JobError

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]


def need_numpy() -> None:
    if np is None:
        raise ImportError("this needs numpy: apt install python3-numpy, and in a virtual environment "
                          "python3 -m venv --system-site-packages")


class Tensor:
    """A tensor of the vector: elements start to start + count."""

    __slots__ = ("name", "shape", "start", "count", "buffer")

    def __init__(self, name: str, shape: Sequence[int], start: int, buffer: bool):
        self.name, self.shape, self.start, self.buffer = name, tuple(int(d) for d in shape), start, buffer
        self.count = 1
        for d in self.shape:
            self.count *= d


class Layout:
    """The tensors of a model in the order of its vector, the trainable ones first."""

    def __init__(self, trained: Sequence[Tuple[str, Sequence[int]]], buffers: Sequence[Tuple[str, Sequence[int]]] = (),
                 initial: Any = None):
        self.tensors: List[Tensor] = []
        at = 0
        for rows, buffer in ((trained, False), (buffers, True)):
            for name, shape in rows:
                if len(shape) > 8:
                    raise JobError(f"tensor {name}: rank {len(shape)} is above 8")
                self.tensors.append(Tensor(name, shape, at, buffer))
                at += self.tensors[-1].count
        self.floats = at
        self.parameters = sum(t.count for t in self.tensors if not t.buffer)
        self.buffers = self.floats - self.parameters
        self.initial = initial  # float32, in one piece; None: zeros

    def struct(self, samples: int, tests: int, data: Optional[str]) -> L.Layout:
        """As the library takes it; what it points to lives as long as the struct."""
        array = (L.Tensor * len(self.tensors))()
        for row, t in zip(array, self.tensors):
            row.name, row.rank, row.buffer = t.name.encode(), len(t.shape), t.buffer
            row.shape[:len(t.shape)] = t.shape
        q = L.Layout(tensor=array, tensors=len(self.tensors), samples=samples, tests=tests,
                     data=data.encode() if data is not None else None)
        if self.initial is not None:
            q.initial = self.initial.ctypes.data
        q.alive = (array, self.initial)  # type: ignore[attr-defined]
        return q

    def split(self, vector: Any) -> Dict[str, Any]:
        """The tensors of a vector, as views of it."""
        return {t.name: vector[t.start:t.start + t.count].reshape(t.shape) for t in self.tensors}


def _floats(name: str, value: Any) -> Any:
    a = np.asarray(value)
    if a.dtype.kind not in "fiu" or a.size == 0:
        raise JobError(f"{name}: {a.dtype} of {a.size} values cannot be trained; use floats")
    return a.astype(np.float32)


def layout_of(parameters: Any, buffers: Optional[Mapping[str, Any]]) -> Layout:
    """From a number of parameters, initial values, or a dict of names and initial values."""
    need_numpy()
    if isinstance(parameters, (bool, str)) or parameters is None:
        raise JobError("parameters: give their number, an array of their initial values, or a dict of such arrays")
    if isinstance(parameters, (int, np.integer)):
        if parameters < 1:
            raise JobError(f"parameters: {parameters} are too few; a model has at least 1")
        if buffers:
            raise JobError("buffers have names: give parameters as a dict, too")
        return Layout([("parameters", (int(parameters),))])
    named = parameters if isinstance(parameters, Mapping) else {"parameters": parameters}
    arrays = {name: _floats(name, value) for name, value in named.items()}
    more = {name: _floats(name, value) for name, value in (buffers or {}).items()}
    if not arrays:
        raise JobError("parameters: the dict is empty; a model has at least 1 tensor")
    initial = np.concatenate([a.ravel() for a in (*arrays.values(), *more.values())])
    return Layout([(n, a.shape) for n, a in arrays.items()], [(n, a.shape) for n, a in more.items()],
                  np.ascontiguousarray(initial, dtype=np.float32))


# --- safetensors files: a length, a JSON header, the bytes --------------------------------------

_NAMES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1",
          "BOOL": "|b1"}


def write_safetensors(path: str, tensors: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Write arrays; an existing file is replaced only when all is written."""
    need_numpy()
    words = {np.dtype(kind): word for word, kind in _NAMES.items()}
    header: Dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays, at = [], 0
    for name, value in tensors.items():
        a = np.ascontiguousarray(value)
        if a.dtype not in words:
            raise JobError(f"tensor {name}: safetensors files have no {a.dtype}")
        header[name] = {"dtype": words[a.dtype], "shape": list(np.shape(value)), "data_offsets": [at, at + a.nbytes]}
        arrays.append(a)
        at += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{path}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for a in arrays:
                f.write(a.data if a.ndim and a.size else a.tobytes())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def read_safetensors(path: str) -> Dict[str, Any]:
    """Every tensor of a file as an array."""
    need_numpy()
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        body = f.read()
    header.pop("__metadata__", None)
    out = {}
    for name, row in header.items():
        begin, end = row["data_offsets"]
        out[name] = np.frombuffer(body[begin:end], dtype=_NAMES[row["dtype"]]).reshape(row["shape"])
    return out


def view(address: int, count: int) -> Any:
    """Floats of the library as an array: to be used only while a task is open, and never given away."""
    return np.frombuffer((C.c_float * count).from_address(address), dtype=np.float32)
