# SPDX-License-Identifier: Apache-2.0
"""Calls of the library that take long, so that Ctrl-C is heard; and the first and second Ctrl-C.

Python runs signal handlers only between its own instructions, so a long call runs on a helper
thread, and the caller waits in steps of 50 ms.
"""
from __future__ import annotations

import logging
import signal
import threading
import weakref
from typing import Any, Callable, Optional, Protocol

STEP = 0.05  # seconds
log = logging.getLogger("thalweg")


class Helper:
    """One call on a thread of its own."""

    def __init__(self, call: Callable[[], Any], name: str):
        self._value: Any = None
        self._failed: Optional[BaseException] = None
        self.over = threading.Event()

        def work() -> None:
            try:
                self._value = call()
            except BaseException as why:  # noqa: B902: it is raised where it is waited for
                self._failed = why
            finally:
                self.over.set()

        self.thread = threading.Thread(target=work, name=name)
        self.thread.start()

    def value(self) -> Any:
        """After it is over."""
        self.thread.join()
        if self._failed:
            raise self._failed
        return self._value


def call(work: Callable[[], Any], interrupt: Callable[[], None], name: str) -> Any:
    """Call `work`; on Ctrl-C call `interrupt`, which makes it end, and raise KeyboardInterrupt."""
    helper = Helper(work, name)
    try:
        while not helper.over.wait(STEP):
            pass
    except BaseException:
        interrupt()
        raise
    return helper.value()


class Stoppable(Protocol):
    interrupted: bool

    def interrupt(self) -> None: ...


_active: "weakref.WeakSet[Stoppable]" = weakref.WeakSet()


def _on_interrupt(number: int, frame: Any) -> None:
    if not _active or any(run.interrupted for run in _active):
        signal.default_int_handler(number, frame)
    log.warning("leaving after what was begun; press Ctrl-C again to stop at once")
    for run in tuple(_active):
        run.interrupt()


def watch(run: Stoppable) -> None:
    """From now on the first Ctrl-C interrupts this run, and the second raises KeyboardInterrupt.
    Only in the main thread, and only where nobody else handles the signal."""
    if threading.current_thread() is not threading.main_thread() or run in _active:
        return
    if not _active:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        signal.signal(signal.SIGINT, _on_interrupt)
    _active.add(run)


def unwatch(run: Stoppable) -> None:
    if run not in _active:
        return
    _active.discard(run)
    if not _active and threading.current_thread() is threading.main_thread() and \
            signal.getsignal(signal.SIGINT) is _on_interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def forget() -> None:
    """In a child after a fork: its Ctrl-C is its own."""
    _active.clear()
    if signal.getsignal(signal.SIGINT) is _on_interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)
