# SPDX-License-Identifier: Apache-2.0
"""Tables of other libraries (pyarrow, pandas, polars, duckdb) through Arrow's C stream, without them.

Layouts of the structs: the Arrow C data and stream interfaces.  Columns of numbers, truth values,
words, dates of days, and words by dictionary are read; others are refused by name.
"""
from __future__ import annotations

import ctypes as C
import datetime
from typing import Any, Callable, Dict, Iterator, List, Optional

from ._errors import JobError
from ._layout import np


class Schema(C.Structure):
    pass


class Array(C.Structure):
    pass


class Stream(C.Structure):
    pass


Schema._fields_ = [("format", C.c_char_p), ("name", C.c_char_p), ("metadata", C.c_void_p), ("flags", C.c_int64),
                   ("n_children", C.c_int64), ("children", C.POINTER(C.POINTER(Schema))), ("dictionary", C.POINTER(Schema)),
                   ("release", C.CFUNCTYPE(None, C.POINTER(Schema))), ("private_data", C.c_void_p)]
Array._fields_ = [("length", C.c_int64), ("null_count", C.c_int64), ("offset", C.c_int64), ("n_buffers", C.c_int64),
                  ("n_children", C.c_int64), ("buffers", C.POINTER(C.c_void_p)), ("children", C.POINTER(C.POINTER(Array))),
                  ("dictionary", C.POINTER(Array)), ("release", C.CFUNCTYPE(None, C.POINTER(Array))),
                  ("private_data", C.c_void_p)]
Stream._fields_ = [("get_schema", C.CFUNCTYPE(C.c_int, C.POINTER(Stream), C.POINTER(Schema))),
                   ("get_next", C.CFUNCTYPE(C.c_int, C.POINTER(Stream), C.POINTER(Array))),
                   ("get_last_error", C.CFUNCTYPE(C.c_char_p, C.POINTER(Stream))),
                   ("release", C.CFUNCTYPE(None, C.POINTER(Stream))), ("private_data", C.c_void_p)]

NUMBERS = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8", "e": "f2", "f": "f4",
           "g": "f8"}
_DAY = datetime.date(1970, 1, 1)


def _memory(address: Optional[int], kind: str, count: int) -> Any:
    """A copy of `count` values; a missing buffer has none."""
    dtype = np.dtype(kind)
    if not address or count == 0:
        return np.zeros(count, dtype=dtype)
    return np.frombuffer(C.string_at(address, count * dtype.itemsize), dtype=dtype)


def _bits(address: Optional[int], offset: int, count: int) -> Any:
    bytes_ = _memory(address, "u1", (offset + count + 7) // 8)
    return np.unpackbits(bytes_, bitorder="little")[offset:offset + count].astype(bool)


def _words(array: Array, offsets: str) -> List[str]:
    at = _memory(array.buffers[1], offsets, array.offset + array.length + 1)
    text = C.string_at(array.buffers[2], int(at[-1])) if array.buffers[2] and len(at) and at[-1] else b""
    return [text[at[k]:at[k + 1]].decode() for k in range(array.offset, array.offset + array.length)]


def _values(schema: Schema, array: Array) -> List[Any]:
    """The cells of a column; None where one is missing."""
    kind, n, offset = schema.format.decode(), array.length, array.offset
    if schema.dictionary:
        words = _values(schema.dictionary.contents, array.dictionary.contents)
        index = _memory(array.buffers[1], NUMBERS[kind], offset + n)[offset:]
        valid = _bits(array.buffers[0], offset, n) if array.buffers[0] else np.ones(n, dtype=bool)
        return [words[k] if good else None for k, good in zip(index, valid)]
    cells: List[Any]
    if kind in NUMBERS:
        cells = _memory(array.buffers[1], NUMBERS[kind], offset + n)[offset:].tolist()
    elif kind == "b":
        cells = _bits(array.buffers[1], offset, n).astype(int).tolist()
    elif kind in ("u", "U"):
        cells = _words(array, "i4" if kind == "u" else "i8")
    elif kind == "tdD":
        days = _memory(array.buffers[1], "i4", offset + n)[offset:]
        cells = [(_DAY + datetime.timedelta(days=int(d))).isoformat() for d in days]
    elif kind == "n":
        return [None] * n
    else:
        raise JobError(f"column {(schema.name or b'').decode()}: the Arrow type '{kind}' is not read; use numbers, truth "
                       "values, words or dates")
    if array.buffers[0] and array.null_count:
        valid = _bits(array.buffers[0], offset, n)
        cells = [c if good else None for c, good in zip(cells, valid)]
    return cells


def _stream(table: Any) -> Any:
    capsule = table.__arrow_c_stream__()
    get: Callable[..., Any] = C.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = C.c_void_p, [C.py_object, C.c_char_p]  # type: ignore[attr-defined]
    return C.cast(get(capsule, b"arrow_array_stream"), C.POINTER(Stream)), capsule


def _check(code: int, stream: Any) -> None:
    if code:
        said = stream.contents.get_last_error(stream) if stream.contents.get_last_error else b""
        raise JobError(f"the Arrow stream fails with {code}: {(said or b'no reason').decode()}")


def columns(table: Any) -> Dict[str, List[Any]]:
    """The columns of a table by name; None where a cell is missing."""
    stream, capsule = _stream(table)
    schema = Schema()
    try:
        _check(stream.contents.get_schema(stream, C.byref(schema)), stream)
        if schema.format != b"+s" or not schema.n_children:
            raise JobError("the Arrow stream is no table with columns")
        out: Dict[str, List[Any]] = {}
        kinds = [schema.children[k].contents for k in range(schema.n_children)]
        for kind in kinds:
            out[(kind.name or b"").decode()] = []
        if len(out) != len(kinds) or "" in out:
            raise JobError("the columns of the table need names that differ")
        for batch in _batches(stream):
            for k, kind in enumerate(kinds):
                child = batch.children[k].contents
                rows = _values(kind, child)
                out[kind.name.decode()] += rows[batch.offset:batch.offset + batch.length]
        return out
    finally:
        if schema.release:
            schema.release(C.byref(schema))
        if stream.contents.release:
            stream.contents.release(stream)
        del capsule


def _batches(stream: Any) -> Iterator[Array]:
    while True:
        batch = Array()
        _check(stream.contents.get_next(stream, C.byref(batch)), stream)
        if not batch.release:
            return
        try:
            yield batch
        finally:
            batch.release(C.byref(batch))
