# SPDX-License-Identifier: Apache-2.0
"""The shared library: where it is, what its structs look like, its functions.

The structs are described here a second time.  thalweg_abi() says what the library itself was
compiled with; a difference is an ImportError, before any other call.
"""
from __future__ import annotations

import ctypes as C
import os
import shutil
import sys
from pathlib import Path
from typing import Iterator, List, Optional

VERSION = "0.1"  # major and minor: the shared library's name has them
HERE = Path(__file__).resolve().parent


def _same(kind: type, *names: str) -> list:
    return [(name, kind) for name in names]


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("text", C.c_char * 600)]


class Tensor(C.Structure):
    _fields_ = [("name", C.c_char_p), ("rank", C.c_uint32), ("shape", C.c_uint64 * 8),
                *_same(C.c_size_t, "from", "count"), ("buffer", C.c_int)]


class Event(C.Structure):
    _fields_ = [("kind", C.c_int), *_same(C.c_double, "seconds", "epochs"),
                *_same(C.c_uint64, "samples", "total"),
                *_same(C.c_double, "samples_per_second", "seconds_left", "loss", "accuracy", "staleness"),
                ("workers", C.c_uint32), ("checkpoint", C.c_uint64), ("level", C.c_int),
                *_same(C.c_char_p, "who", "line")]


class Request(C.Structure):
    _fields_ = [*_same(C.c_char_p, "path", "text"), ("set", C.POINTER(C.c_char_p)), ("sets", C.c_size_t),
                *_same(C.c_int, "environment", "world"), *_same(C.c_void_p, "engine", "listen", "user"),
                ("verbosity", C.c_int)]


class Result(C.Structure):
    _fields_ = [*_same(C.c_double, "loss", "accuracy", "epochs", "updates"), *_same(C.c_uint64, "steps", "samples"),
                *_same(C.c_double, "seconds", "samples_per_second", "staleness"), ("workers", C.c_uint32),
                ("interrupted", C.c_int), ("digest", C.c_char * 33), *_same(C.c_char_p, "checkpoint", "json")]


class Score(C.Structure):
    _fields_ = [*_same(C.c_double, "loss", "accuracy"), ("samples", C.c_uint64)]


class Layout(C.Structure):
    _fields_ = [("tensor", C.POINTER(Tensor)), *_same(C.c_size_t, "tensors", "parameters"),
                ("initial", C.c_void_p), *_same(C.c_uint64, "samples", "tests"), ("data", C.c_char_p)]


class SessionRequest(C.Structure):
    _fields_ = [("size", C.c_size_t), ("layout", Layout), ("job", C.POINTER(Request)), ("directory", C.c_char_p),
                ("flags", C.c_uint), *_same(C.c_char_p, "address", "key", "save"), ("patience", C.c_double),
                *_same(C.c_void_p, "listen", "user"), *_same(C.c_int, "verbosity", "own_steps"), ("cancel", C.POINTER(C.c_int)),
                ("keep", C.c_int), *_same(C.c_char_p, "certificate", "certificate_key", "authority")]


class SessionFacts(C.Structure):
    _fields_ = [*_same(C.c_size_t, "parameters", "buffers"), *_same(C.c_uint64, "samples", "tests"),
                *_same(C.c_uint32, "batch", "workers"), *_same(C.c_int, "simulated", "own_steps")]


class Task(C.Structure):
    _fields_ = [("id", C.c_uint64), *_same(C.c_uint32, "work", "worker"), ("sample", C.c_void_p),
                *_same(C.c_uint64, "count", "epoch"), *_same(C.c_void_p, "parameters", "vector"),
                ("version", C.c_uint64), *_same(C.c_double, "staleness", "progress", "rate", "now")]


class Answer(C.Structure):
    _fields_ = [*_same(C.c_double, "loss", "correct"), ("vector", C.c_void_p)]


class ModelFacts(C.Structure):
    _fields_ = [("inputs", C.c_size_t), ("rank", C.c_uint32), ("shape", C.c_uint32 * 3), ("outputs", C.c_size_t),
                ("classes", C.c_int), *_same(C.POINTER(C.c_char_p), "input_names", "output_names"),
                ("columns", C.c_size_t), ("column_names", C.POINTER(C.c_char_p))]


STRUCTS = {"error": Error, "tensor": Tensor, "event": Event, "request": Request, "result": Result, "score": Score,
           "layout": Layout, "session_request": SessionRequest, "session_facts": SessionFacts, "task": Task,
           "answer": Answer, "model_facts": ModelFacts}

GROWS = {"session_request"}  # has its size in it: the library takes those that are shorter than its own

# enum thalweg_status
(OK, NO_MEMORY, BAD_INPUT, BAD_BYTES, NO_ROOM, IO, REFUSED, ABSENT, INTERRUPTED, CANCELLED) = range(10)
PROGRESS, EVALUATION, CHECKPOINT, LOG = range(4)  # enum thalweg_event_kind
THREADS, SIM = range(2)                           # enum thalweg_world
END, TASK, IDLE = range(3)                        # enum thalweg_got
STEP, SCORE = range(2)                            # enum thalweg_work
AGAIN = 1                                         # enum thalweg_flags

_E, _S, _P = C.POINTER(Error), C.c_char_p, C.c_void_p
_OUT = C.POINTER(C.c_void_p)
# what each function returns, and takes
FUNCTIONS = {
    "thalweg_version": (_S, []),
    "thalweg_status_name": (_S, [C.c_int]),
    "thalweg_events_open": (C.c_int, [C.c_size_t, _OUT, _E]),
    "thalweg_events_next": (C.c_int, [_P, C.c_uint, C.POINTER(Event)]),
    "thalweg_events_close": (None, [_P]),
    "thalweg_open": (C.c_int, [C.POINTER(Request), _OUT, _E]),
    "thalweg_close": (None, [_P]),
    "thalweg_train": (C.c_int, [_P, _S, C.c_uint, C.POINTER(Result), _E]),
    "thalweg_stop": (None, [_P]),
    "thalweg_tensors": (C.c_size_t, [_P, C.POINTER(C.POINTER(Tensor))]),
    "thalweg_parameters": (_P, [_P, C.POINTER(C.c_size_t)]),
    "thalweg_load": (C.c_int, [_P, _S, _E]),
    "thalweg_save": (C.c_int, [_P, _S, _E]),
    "thalweg_evaluate": (C.c_int, [_P, C.POINTER(Score), _E]),
    "thalweg_session_open": (C.c_int, [C.POINTER(SessionRequest), _OUT, _E]),
    "thalweg_session_facts": (C.c_int, [_P, C.POINTER(SessionFacts), _E]),
    "thalweg_next": (C.c_int, [_P, C.c_uint, _P, C.POINTER(Task), _E]),
    "thalweg_done": (C.c_int, [_P, C.POINTER(Task), C.POINTER(Answer), _E]),
    "thalweg_vector_new": (C.c_int, [_P, _OUT, _E]),
    "thalweg_vector_floats": (_P, [_P]),
    "thalweg_vector_busy": (C.c_int, [_P]),
    "thalweg_vector_free": (None, [_P]),
    "thalweg_done_with": (C.c_int, [_P, C.POINTER(Task), C.POINTER(Answer), _P, _E]),
    "thalweg_fail": (C.c_int, [_P, C.POINTER(Task), _S, _E]),
    "thalweg_session_stop": (None, [_P]),
    "thalweg_session_result": (C.c_int, [_P, C.POINTER(Result), _E]),
    "thalweg_session_save": (C.c_int, [_P, _S, _E]),
    "thalweg_session_parameters": (_P, [_P, C.POINTER(C.c_size_t)]),
    "thalweg_session_close": (C.c_int, [_P, _E]),
    "thalweg_model_open": (C.c_int, [_S, _OUT, _E]),
    "thalweg_model_close": (None, [_P]),
    "thalweg_model_facts": (C.POINTER(ModelFacts), [_P]),
    "thalweg_predict": (C.c_int, [_P, _P, C.c_size_t, _P, _E]),
    "thalweg_predict_cells": (C.c_int, [_P, C.POINTER(C.c_char_p), C.c_size_t, _P, _E]),
}


def describe(name: str, struct: type) -> str:
    """A struct as thalweg_abi() has it."""
    fields = (f"{f[0]}@{getattr(struct, f[0]).offset}/{getattr(struct, f[0]).size}" for f in struct._fields_)
    return f"thalweg_{name} {C.sizeof(struct)} {' '.join(fields)}"


def _parts(abi: str) -> Iterator[str]:
    """The structs of thalweg_abi()'s line."""
    part: List[str] = []
    for word in abi.split()[2:]:
        if word.startswith("thalweg_") and "@" not in word:
            if part:
                yield " ".join(part)
            part = []
        part.append(word)
    if part:
        yield " ".join(part)


def compare(abi: str, where: str) -> None:
    """ImportError unless the library has the structs that this package describes."""
    words = abi.split()
    if words[:2] != ["thalweg", VERSION]:
        raise ImportError(f"{where} is {' '.join(words[:2])}, and this package is for thalweg {VERSION}: "
                          "install the package that comes with the library")
    theirs = {part.split()[0]: part for part in _parts(abi)}
    for name, struct in STRUCTS.items():
        mine = describe(name, struct)
        there = theirs.get(f"thalweg_{name}", "")
        if name in GROWS and there.split()[2:][:len(struct._fields_)] == mine.split()[2:]:
            continue  # fields that this package does not know are zeros
        if there != mine:
            raise ImportError(f"{where} has another struct thalweg_{name} than this package: "
                              f"{theirs.get(f'thalweg_{name}', 'none')}; expected {mine}: "
                              "install the package that comes with the library")


def candidates() -> Iterator[str]:
    """Where the shared library may be, in this order."""
    name = f"libthalweg.so.{VERSION}"
    if os.environ.get("TW_LIBRARY"):
        yield os.environ["TW_LIBRARY"]
        return
    yield str(HERE / name)  # pip installs it beside the package
    for up in HERE.parents[:4]:  # <prefix>/lib/python3/dist-packages/thalweg
        for folder in sorted(up.glob(f"*-linux-gnu/{name}")):
            yield str(folder)
        yield str(up / name)
    if (HERE.parents[1] / "CMakeLists.txt").exists():  # the source tree
        yield str(HERE.parents[1] / "build" / name)
    yield name  # where the loader looks


def load() -> C.CDLL:
    tried = []
    for path in candidates():
        if "/" in path and not os.path.exists(path):
            tried.append(path)
            continue
        try:
            lib = C.CDLL(path)
        except OSError as why:
            tried.append(f"{path} ({why})")
            continue
        try:
            lib.thalweg_abi.restype = C.c_char_p
            abi = lib.thalweg_abi().decode()
        except AttributeError:
            raise ImportError(f"{path} is not the library of Thalweg, or an old one: it has no thalweg_abi") from None
        compare(abi, path)
        for name, (returns, takes) in FUNCTIONS.items():
            if not hasattr(lib, name):
                raise ImportError(f"{path} has no function {name}: it is older than this package; install the package "
                                  "that comes with the library")
            function = getattr(lib, name)
            function.restype, function.argtypes = returns, takes
        return lib
    raise ImportError("the shared library of Thalweg was not found; build it (cmake --preset release && ninja -C "
                      "build) and install it (cmake --install build), or set TW_LIBRARY to its file; tried: "
                      + ", ".join(tried))


lib = load()


def program() -> str:
    """The program `thalweg`, for what runs in a process of its own."""
    if os.environ.get("TW_PROGRAM"):
        return os.environ["TW_PROGRAM"]
    places = [Path(sys.executable).parent / "thalweg"]
    if "/" in lib._name:
        beside = Path(lib._name).resolve().parent  # the build directory, or <prefix>/lib
        places = [beside / "thalweg", beside.parent / "bin" / "thalweg", beside.parent.parent / "bin" / "thalweg", *places]
    for path in places:
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    found: Optional[str] = shutil.which("thalweg")
    if not found:
        raise FileNotFoundError("the program thalweg was not found beside the library or in PATH; install it "
                                "(cmake --install build), or set TW_PROGRAM to its file")
    return found
