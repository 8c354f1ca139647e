# SPDX-License-Identifier: Apache-2.0
"""safetensors files as NumPy arrays by name, without a library."""
import json

import numpy as np

TYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32}


def safe_read(path):
    with open(path, "rb") as f:
        data = f.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    out = {}
    for name, t in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = np.frombuffer(data[begin + a:begin + b], TYPES[t["dtype"]]) \
                .reshape(t["shape"]).copy()
    return out


def safe_write(path, tensors):
    header, at = {}, 0
    for name, t in tensors.items():
        assert t.dtype == np.float32
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for t in tensors.values():
            f.write(np.ascontiguousarray(t).tobytes())
