# SPDX-License-Identifier: Apache-2.0
"""Exceptions.  Their text is the library's sentence."""
from __future__ import annotations

import re
from typing import List, Optional, Sequence

from . import _library as L


class Error(Exception):
    """Something failed; the text says what, and what would be accepted.

    `status` is the library's word for the kind of failure, such as "refused"."""

    def __init__(self, text: str, status: int = L.REFUSED):
        super().__init__(text)
        self.status: str = L.lib.thalweg_status_name(status).decode()


class JobError(Error, ValueError):
    """A job, a request or an argument is wrong.

    `file`, `line` and `field` say where, `remedy` what would be accepted; each is None where the
    sentence does not say it."""

    _PLACE = re.compile(r"^(?P<file>[^\s:][^:]*?)(?::(?P<line>\d+))?: (?P<field>[a-z_]+(?:\.[a-z_0-9]+)+|[a-z_]+): ")

    def __init__(self, text: str, status: int = L.BAD_INPUT):
        super().__init__(text, status)
        place = self._PLACE.match(text)
        self.file: Optional[str] = place and place["file"] or None
        self.line: Optional[int] = int(place["line"]) if place and place["line"] else None
        self.field: Optional[str] = place["field"] if place else None
        self.remedy: Optional[str] = text.split("; ", 1)[1] if "; " in text else None


class ModelMismatch(JobError):
    """The model is not the one that the master has; `differences` lists every tensor that differs."""

    def __init__(self, text: str, differences: Sequence[str] = ()):
        super().__init__(text)
        self.differences: List[str] = list(differences)


class Rejected(Error):
    """The cluster refused this process or what it sent: another key, a training that diverged."""


class Lost(Error, ConnectionError):
    """The master cannot be reached, or was lost for longer than `patience`."""


class Interrupted(Error):
    """The run was stopped on request."""


_KINDS = {L.BAD_INPUT: JobError, L.IO: Lost, L.REFUSED: Rejected, L.INTERRUPTED: Interrupted}
_MISMATCH = "the layout is not that of the master's model.tensors: "


def failure(status: int, text: str, lines: Sequence[str] = (), files: bool = False) -> Exception:
    """The exception for a status and its sentence; `lines`: errors that were logged before it.
    `files`: a failure of the operating system is one of a file, not of a connection."""
    if status == L.NO_MEMORY:
        return MemoryError(text)
    if text.startswith(_MISMATCH):
        return ModelMismatch(text, lines or text[len(_MISMATCH):].split("; "))
    if status == L.IO and files:
        return OSError(text)
    kind = _KINDS.get(status)
    return kind(text, status) if kind else Error(text, status)


def check(status: int, why: L.Error, files: bool = True) -> None:
    if status != L.OK:
        raise failure(status, why.text.decode(errors="replace"), files=files)
