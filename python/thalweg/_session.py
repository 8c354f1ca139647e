# SPDX-License-Identifier: Apache-2.0
"""A session of the library: opened, asked for tasks, answered, closed; never touched after that."""
from __future__ import annotations

import atexit
import ctypes as C
import logging
import os
import threading
import time
import weakref
from typing import Any, Dict, List, Optional, Tuple

from . import _library as L
from . import _threads
from ._errors import Error, failure

lib = L.lib
WAIT_MS = 50       # of one call: Ctrl-C is heard between two calls
LEAVE = 0.15       # seconds that an interrupted run gets to end by itself
_LEVELS = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}
_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()
_callers: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()  # threads that have asked for tasks


def _close_events(at: C.c_void_p, lock: threading.Lock, owner: int) -> None:
    if os.getpid() != owner:  # in a child, a thread that is not there may have been writing
        return
    with lock:  # at the end of the program another thread may be in `take`
        lib.thalweg_events_close(at)
        at.value = None


class Events:
    """What the library says, kept until it is asked for: no thread of the library calls Python."""

    def __init__(self, room: int = 4096):
        self._at = C.c_void_p()
        why = L.Error()
        if lib.thalweg_events_open(room, C.byref(self._at), C.byref(why)):
            raise failure(why.status, why.text.decode())
        self._lock = threading.Lock()
        self._finish = weakref.finalize(self, _close_events, self._at, self._lock, os.getpid())
        self.evaluations: List[Dict[str, float]] = []
        self.progress: Optional[Dict[str, float]] = None
        self.errors: List[str] = []

    @property
    def address(self) -> int:
        return self._at.value or 0

    def listen(self) -> int:
        return C.cast(lib.thalweg_events_listen, C.c_void_p).value or 0

    def take(self, ms: int = 0) -> List[Dict[str, Any]]:
        """All that has come, after waiting for the first up to `ms`; log lines go to the logger "thalweg"."""
        out: List[Dict[str, Any]] = []
        e = L.Event()
        with self._lock:
            while lib.thalweg_events_next(self._at, ms, C.byref(e)):
                ms = 0
                out.append(self._one(e))
        return out

    def _one(self, e: L.Event) -> Dict[str, Any]:
        if e.kind == L.LOG:
            line = (e.line or b"").decode(errors="replace")
            if e.level == 0:
                self.errors.append(line)
            _threads.log.log(_LEVELS.get(e.level, logging.INFO), "%s: %s", (e.who or b"").decode(), line)
            return {"kind": "log", "line": line}
        kind = {L.PROGRESS: "progress", L.EVALUATION: "evaluation", L.CHECKPOINT: "checkpoint"}[e.kind]
        row = {name: getattr(e, name) for name in ("seconds", "epochs", "samples", "total", "samples_per_second",
                                                   "seconds_left", "loss", "accuracy", "staleness", "workers")}
        if e.kind == L.EVALUATION:
            self.evaluations.append(row)
        elif e.kind == L.PROGRESS:
            self.progress = row
        return {"kind": kind, "checkpoint": e.checkpoint, **row}


class Vector:
    """Memory for an answer that the library reads where it is.  It lives as long as an array of it."""

    def __init__(self, session: "Session", count: int):
        self.at, why = C.c_void_p(), L.Error()
        with session.using() as at:
            status = lib.thalweg_vector_new(at, C.byref(self.at), C.byref(why))
        if status:
            raise failure(status, why.text.decode(errors="replace"))
        self.count = count
        weakref.finalize(self, lib.thalweg_vector_free, self.at).atexit = False

    def array(self) -> Any:
        """All of it, for numpy; it keeps the memory."""
        floats = (C.c_float * self.count).from_address(lib.thalweg_vector_floats(self.at))
        floats.owner = self  # type: ignore[attr-defined]
        return floats

    @property
    def busy(self) -> bool:
        """It was lent, and the library still reads it."""
        return bool(lib.thalweg_vector_busy(self.at))


class _Inside:
    """A call of a session: `with session.using() as at`."""

    __slots__ = ("_session",)

    def __init__(self, session: "Session"):
        self._session = session

    def __enter__(self) -> int:
        return self._session.enter()

    def __exit__(self, *_: Any) -> None:
        self._session.leave()


class Session:
    """The library's session.  Any thread may call; after close, calls raise."""

    def __init__(self, request: L.SessionRequest, events: Events):
        self.events = events
        self.request = request  # what it points to must live until it is open
        self.owner = os.getpid()
        self.ended: Optional[Tuple[int, str]] = None  # status and sentence
        self.interrupted = False
        self._interrupted_at = 0.0
        self._at: Optional[int] = None
        self._users, self._closing = 0, False
        self._lock = threading.Condition()
        self._open()
        _sessions.add(self)

    def _open(self) -> None:
        at, why, cancel = C.c_void_p(), L.Error(), C.c_int(0)
        if self.request.address and not self.request.job:
            self.request.cancel = C.pointer(cancel)

        def work() -> int:
            status = lib.thalweg_session_open(C.byref(self.request), C.byref(at), C.byref(why))
            if status == L.OK and cancel.value:
                lib.thalweg_session_close(at, None)  # it came too late
            return status

        def give_up() -> None:
            cancel.value = 1

        status = _threads.call(work, give_up, "thalweg open")
        self.events.take()
        if status:
            raise failure(status, why.text.decode(errors="replace"), self.events.errors)
        self._at = at.value
        self.request = L.SessionRequest()

    # --- every call enters and leaves, so that close waits for those inside ---

    def using(self) -> "_Inside":
        return _Inside(self)

    def enter(self) -> int:
        with self._lock:
            if os.getpid() != self.owner:
                raise Error(f"the run belongs to process {self.owner}, and this is a child of it: use it there, or "
                            "open one here")
            if self._at is None or self._closing:
                raise Error("the run was closed: its block has ended, or close() was called", L.BAD_INPUT)
            self._users += 1
            return self._at

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._closing:
                self._lock.notify_all()

    def facts(self) -> L.SessionFacts:
        facts, why = L.SessionFacts(), L.Error()
        with self.using() as at:
            status = lib.thalweg_session_facts(at, C.byref(facts), C.byref(why))
        if status:
            raise failure(status, why.text.decode())
        return facts

    def next(self, into: Optional[int], task: L.Task) -> bool:
        """Wait for a task.  False: the run is over.  KeyboardInterrupt: it was interrupted, and nothing
        is left to do."""
        why = L.Error()
        _threads.watch(self)
        _callers.add(threading.current_thread())
        while True:
            if self.ended:
                return self._end()
            with self.using() as at:
                got = lib.thalweg_next(at, WAIT_MS, into, C.byref(task), C.byref(why))
            if got == L.TASK:
                return True
            self.events.take()
            if got == L.END:
                self.ended = (why.status, why.text.decode(errors="replace"))
                return self._end()
            if why.status:  # idle for want of memory
                raise failure(why.status, why.text.decode())
            if self.interrupted and time.monotonic() - self._interrupted_at > LEAVE:
                raise KeyboardInterrupt

    def _end(self) -> bool:
        assert self.ended
        status, text = self.ended
        _threads.unwatch(self)
        if self.interrupted:
            raise KeyboardInterrupt
        if status in (L.OK, L.INTERRUPTED):
            return False
        raise failure(status, text, self.events.errors)

    def done(self, task: L.Task, loss: float, correct: float, vector: Optional[int],
             lent: Optional["Vector"] = None) -> Tuple[int, str]:
        """Status and sentence: OK, CANCELLED (nobody wants it any more) or REFUSED (the loss is not finite)."""
        why = L.Error()
        answer = L.Answer(loss, correct, vector)
        with self.using() as at:
            if lent is None:
                status = lib.thalweg_done(at, C.byref(task), C.byref(answer), C.byref(why))
            else:
                status = lib.thalweg_done_with(at, C.byref(task), C.byref(answer), lent.at, C.byref(why))
        text = why.text.decode(errors="replace")
        if status not in (L.OK, L.CANCELLED, L.REFUSED):
            raise failure(status, text)
        return status, text

    def fail(self, task: L.Task, reason: str) -> None:
        why = L.Error()
        with self.using() as at:
            status = lib.thalweg_fail(at, C.byref(task), reason.encode(), C.byref(why))
        if status:
            raise failure(status, why.text.decode(errors="replace"))

    def stop(self) -> None:
        with self.using() as at:
            lib.thalweg_session_stop(at)

    def interrupt(self) -> None:
        """The first Ctrl-C; in a signal handler: no lock is taken."""
        self.interrupted, self._interrupted_at = True, time.monotonic()
        if self._at is not None and not self._closing:
            lib.thalweg_session_stop(self._at)

    def result(self) -> Optional[bytes]:
        """The JSON text; None: there is none."""
        r, why = L.Result(), L.Error()
        with self.using() as at:
            if lib.thalweg_session_result(at, C.byref(r), C.byref(why)):
                return None
            return r.json

    def parameters(self) -> Tuple[int, int]:
        """Address and number of the final parameters, until it is closed; 0: there are none."""
        count = C.c_size_t()
        with self.using() as at:
            address = lib.thalweg_session_parameters(at, C.byref(count))
        return address or 0, count.value

    def save(self, path: str) -> None:
        why = L.Error()
        with self.using() as at:
            status = lib.thalweg_session_save(at, os.fsencode(path), C.byref(why))
        if status:
            raise failure(status, why.text.decode(errors="replace"), files=True)

    def close(self) -> None:
        """End it and all its threads.  One that joined and is not over leaves first."""
        with self._lock:
            if self._at is None or self._closing or os.getpid() != self.owner:
                return
            self._closing = True
            at = self._at
        if not self.ended:
            self._leave(at)
        with self._lock:
            while self._users:
                self._lock.wait(0.01)
        lib.thalweg_session_close(at, None)
        self._at = None
        _threads.unwatch(self)

    def _leave(self, at: int) -> None:
        """Ask it to stop, and give it a moment; tasks that still come are given back."""
        task, why, until = L.Task(), L.Error(), time.monotonic() + LEAVE
        lib.thalweg_session_stop(at)
        while time.monotonic() < until:
            got = lib.thalweg_next(at, 20, None, C.byref(task), C.byref(why))
            if got == L.END:
                self.ended = (why.status, why.text.decode(errors="replace"))
                return
            if got == L.TASK:
                lib.thalweg_fail(at, C.byref(task), b"the program ended its run", None)


def _after_fork() -> None:
    for session in list(_sessions):
        session._lock = threading.Condition()  # another thread of the parent may have held it
    _callers.clear()
    _threads.forget()


def _at_exit() -> None:
    """End all runs, and give daemon threads that were in one a moment to notice: the interpreter does
    not wait for them, and clears what they stand in."""
    for session in list(_sessions):
        session.close()
    until = time.monotonic() + 2.0
    for thread in list(_callers):
        if thread.daemon and thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
