# SPDX-License-Identifier: Apache-2.0
"""Tables through Arrow's C stream, from a producer that is written here after the specification."""
import ctypes as C
import datetime
import gc

import numpy as np
import pytest

import thalweg as tw
from thalweg._arrow import Array, Schema, Stream, columns


class Table:
    """A producer: batches of columns, each (format, values); counts what is released."""

    def __init__(self, names, batches, offset=0, fails=None):
        self.names, self.batches, self.offset, self.fails = names, batches, offset, fails
        self.live, self.keep = 0, []

    def _released(self, kind):
        def release(at):
            self.live -= 1
            at.contents.release = type(at.contents.release)()  # NULL
        f = dict(Schema._fields_ if kind is Schema else Array._fields_ if kind is Array else Stream._fields_)["release"](release)
        self.keep.append(f)
        self.live += 1
        return f

    def _schema(self, out, form, name, children=(), dictionary=None):
        out.format, out.name, out.n_children = form.encode(), name.encode(), len(children)
        if children:
            array = (C.POINTER(Schema) * len(children))(*[C.pointer(c) for c in children])
            self.keep += [array, *children]
            out.children = array
        if dictionary is not None:
            self.keep.append(dictionary)
            out.dictionary = C.pointer(dictionary)
        return out

    def _buffers(self, out, *arrays):
        rows = (C.c_void_p * len(arrays))(*[None if a is None else a.ctypes.data for a in arrays])
        self.keep += [rows, *arrays]
        out.n_buffers, out.buffers = len(arrays), rows

    def _column(self, form, values, offset):
        out = Array(length=len(values) - offset, offset=offset)
        missing = [v is None for v in values]
        out.null_count = sum(missing[offset:])
        valid = np.packbits([not m for m in missing], bitorder="little") if any(missing) else None
        if form in ("u", "U"):
            text = [b"" if v is None else v.encode() for v in values]
            at = np.cumsum([0] + [len(t) for t in text]).astype("i4" if form == "u" else "i8")
            self._buffers(out, valid, at, np.frombuffer(b"".join(text) or b" ", dtype="u1"))
        elif form == "b":
            self._buffers(out, valid, np.packbits([bool(v) for v in values], bitorder="little"))
        elif form == "tdD":
            days = [0 if v is None else (v - datetime.date(1970, 1, 1)).days for v in values]
            self._buffers(out, valid, np.array(days, dtype="i4"))
        elif form.startswith("dict"):
            words = sorted({v for v in values if v is not None})
            self._buffers(out, valid, np.array([0 if v is None else words.index(v) for v in values], dtype="i2"))
            inner = self._column("u", words, 0)
            self.keep.append(inner)
            out.dictionary = C.pointer(inner)
        else:
            kind = {"l": "i8", "f": "f4", "g": "f8", "C": "u1"}[form]
            self._buffers(out, valid, np.array([0 if v is None else v for v in values], dtype=kind))
        return out

    def __arrow_c_stream__(self, requested_schema=None):
        left = list(self.batches)

        def get_schema(stream, out):
            rows = [self._schema(Schema(), "s" if form.startswith("dict") else form, name,
                                 dictionary=self._schema(Schema(), "u", "") if form.startswith("dict") else None)
                    for name, (form, _) in zip(self.names, self.batches[0])]
            self._schema(out.contents, "+s", "", rows)
            out.contents.release = self._released(Schema)
            return 0

        def get_next(stream, out):
            if self.fails and not left:
                return 5
            if not left:
                out.contents.release = type(out.contents.release)()
                return 0
            kids = [self._column(form, values, self.offset) for form, values in left.pop(0)]
            array = (C.POINTER(Array) * len(kids))(*[C.pointer(k) for k in kids])
            self.keep += [array, *kids]
            out.contents.length, out.contents.n_children = kids[0].length, len(kids)
            out.contents.children = array
            out.contents.release = self._released(Array)
            return 0
        fields = dict(Stream._fields_)
        stream = Stream(get_schema=fields["get_schema"](get_schema), get_next=fields["get_next"](get_next),
                        get_last_error=fields["get_last_error"](lambda s: b"no more paper"), release=self._released(Stream))
        self.keep.append(stream)
        new = C.pythonapi.PyCapsule_New
        new.restype, new.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]
        return new(C.addressof(stream), b"arrow_array_stream", None)


DAY = datetime.date(2024, 2, 29)
ROWS = [("l", [1, None, 3]), ("f", [0.5, 1.5, None]), ("u", ["a", "b,c", None]), ("b", [True, False, True]),
        ("tdD", [DAY, None, DAY]), ("dict", ["x", "y", "x"]), ("U", ["long", "", "é"])]


@pytest.mark.parametrize("offset", [0, 1])
def test_every_kind_of_column(offset):
    table = Table(list("abcdefg"), [ROWS, ROWS], offset)
    got = columns(table)
    want = {n: [v.isoformat() if isinstance(v, datetime.date) else int(v) if isinstance(v, bool) else v
                for v in values[offset:]] * 2 for n, (_, values) in zip("abcdefg", ROWS)}
    assert got == want
    gc.collect()
    assert table.live == 0  # stream, schema and batches are released


def test_mistakes():
    with pytest.raises(tw.JobError, match="fails with 5: no more paper"):
        columns(Table(["a"], [[("l", [1])]], fails=True))
    odd = Table(["a"], [[("l", [1])]])
    odd._column = lambda *_: Array()
    odd.batches = [[("tsu", [1])]]
    with pytest.raises(tw.JobError, match="column a: the Arrow type 'tsu' is not read"):
        columns(odd)
    with pytest.raises(tw.JobError, match="names that differ"):
        columns(Table(["a", "a"], [[("l", [1]), ("l", [1])]]))


def test_a_table_trains_as_its_file_does(tmp_path):
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 100, 200), rng.normal(size=200).round(3)
    c = [None if k % 17 == 0 else "red" if k % 3 else "blue" for k in range(200)]
    label = ["yes" if x + 30 * y > 50 else "no" for x, y in zip(a, b)]
    with open(tmp_path / "t.csv", "w") as f:
        f.write("a,b,c,label\n" + "".join(f"{x},{y},{z or ''},{w}\n" for x, y, z, w in zip(a, b, c, label)))
    job = {"model": {"layers": ["linear 8", "relu", "linear 2"]}, "data": {"batch": 8, "label": "label"},
           "train": {"epochs": 3}, "update": {"rate": 0.1}, "strategy": "ssgd"}
    cut = 120
    table = Table(["a", "b", "c", "label"], [[("l", list(a[s])), ("g", list(b[s])), ("dict", c[s]), ("u", label[s])]
                                             for s in (slice(0, cut), slice(cut, 200))])
    file = tw.train(job, {"data.source": "csv", "data.file": str(tmp_path / "t.csv")})
    assert tw.train(job, data=table).parameters_digest == file.parameters_digest
