# SPDX-License-Identifier: Apache-2.0
"""Data of this program for a job of the library's own networks: files that it reads, and removes."""
from __future__ import annotations

import csv
import os
import shutil
import tempfile
from typing import Any, Dict, List, Tuple

from ._errors import JobError
from ._layout import need_numpy, np


def _array(name: str, value: Any) -> Any:
    if hasattr(value, "detach"):  # a tensor of torch
        value = value.detach().cpu().numpy()
    a = np.asarray(value)
    if a.dtype.kind not in "fiub" or a.ndim < 1:
        raise JobError(f"data: {name} is of {a.dtype} and rank {a.ndim}; use an array of numbers with a row for each sample")
    if a.dtype.kind == "b":
        a = a.astype(np.uint8)
    if a.dtype.kind == "f" and a.dtype != np.float64:
        a = a.astype(np.float32)
    return np.ascontiguousarray(a)


def _pairs(dataset: Any) -> Tuple[Any, Any]:
    """The samples of a dataset of torch, read once."""
    xs: List[Any] = []
    ys: List[Any] = []
    for k in range(len(dataset)):
        sample = dataset[k]
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            raise JobError("data: a sample of the dataset is no pair of an input and a label")
        x, y = sample
        xs.append(_array("an input", x[None] if hasattr(x, "detach") else np.asarray(x)[None])[0])
        ys.append(y.item() if hasattr(y, "item") and getattr(y, "ndim", 0) == 0 else np.asarray(y))
    return np.stack(xs), np.asarray(ys)


def _arrays(data: Any) -> List[Any]:
    if isinstance(data, (tuple, list)) and len(data) in (2, 4):
        if len(data) == 2 and all(hasattr(part, "__getitem__") and hasattr(part, "__len__") and
                                  not hasattr(part, "shape") and not isinstance(part, (list, tuple)) for part in data):
            return [*_pairs(data[0]), *_pairs(data[1])]  # datasets to train and to test with
        return list(data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "shape") and \
            not isinstance(data, (tuple, list, dict, str)):
        return list(_pairs(data))
    raise JobError("data: give (x, y), (x, y, test_x, test_y), a torch dataset, two of them to train and to test with, or an "
                   "Arrow table")


def _write_table(path: str, table: Any) -> None:
    from ._arrow import columns
    rows = columns(table)
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(rows)
        for row in zip(*rows.values()):
            out.writerow(["" if c is None or c != c else c for c in row])


class Files:
    """Arrays or a table as files of a folder that is removed when the library has read them."""

    def __init__(self, data: Any):
        need_numpy()
        if hasattr(data, "__arrow_c_stream__"):
            self.folder = tempfile.mkdtemp(prefix="thalweg-")
            path = os.path.join(self.folder, "table.csv")
            self.sets: Dict[str, Any] = {"data.source": "csv", "data.file": path, "data.header": "yes"}
            try:
                _write_table(path, data)
            except BaseException:
                self.remove()
                raise
            return
        arrays = [_array(name, a) for name, a in zip(("x", "y", "test_x", "test_y"), _arrays(data))]
        for x, y in zip(arrays[::2], arrays[1::2]):
            if len(x) != len(y):
                raise JobError(f"data: there are {len(x)} inputs and {len(y)} labels")
        self.folder = tempfile.mkdtemp(prefix="thalweg-")
        self.sets = {"data.source": "npy"}
        for name, a in zip(("x", "y", "test_x", "test_y"), arrays):
            path = os.path.join(self.folder, f"{name}.npy")
            np.save(path, a)
            self.sets[f"data.{name}"] = path

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
