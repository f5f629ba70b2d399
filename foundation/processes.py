"""What belongs to the process that opened it, and may not be used in one that was forked later.

A forked process has the connections, locks and counters of its parent as they were at the fork. If
both go on with them, they overwrite each other's documents, and a lock that another thread held at
the fork is never released.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any
from weakref import WeakSet

from hummingbit.foundation.errors import HummingbitError


class ForkedError(HummingbitError, RuntimeError):
    """Something was opened before a fork, and is used in the process that was forked."""


class Process:
    """The process that may use something."""

    def __init__(self, what: object) -> None:
        """Let this process use it; `what` it is goes into the message of an error."""
        self._what = what
        self._id: int | None = os.getpid()

    def check(self) -> None:
        """Raise ForkedError if another process opened what this one is about to use."""
        here = os.getpid()
        if self._id is None:
            self._id = here
        if self._id != here:
            raise ForkedError(
                f"{self._what} was opened before a fork, in process {self._id}; open it again in"
                f" this process, {here}"
            )

    @property
    def is_here(self) -> bool:
        """Whether this process may use it."""
        return self._id in (None, os.getpid())

    def share(self) -> None:
        """Let the process that uses it next have it, and every one that is forked before that.

        So it can be used on both sides of a fork if nothing is open meanwhile.
        """
        self._id = None


class ProcessLock:
    """A lock of one process; a forked process raises an error instead of waiting for it forever."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See :meth:`threading.Lock.acquire`.

        Raises:
            ForkedError: if this process was forked from that of the lock.
        """
        self._process.check()
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """See :meth:`threading.Lock.release`."""
        self._lock.release()

    def locked(self) -> bool:
        """See :meth:`threading.Lock.locked`."""
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Inherited:
    """Something open that a forked process gets a copy of."""

    def leave_to_parent(self) -> None:
        """Do in a process that was just forked whatever the copy needs, perhaps again."""


_inherited: WeakSet[Inherited] = WeakSet()
_kept: list[Any] = []


def note(opened: Inherited) -> None:
    """Call :meth:`Inherited.leave_to_parent` of what was opened in every forked process."""
    _inherited.add(opened)


def keep(*opened: Any) -> None:
    """Never close these copies: closing one would change what the parent has open.

    SQLite, https://www.sqlite.org/howtocorrupt.html, section 2.6.
    """
    _kept.extend(opened)


def _leave_to_parent() -> None:
    for opened in [*_inherited]:
        opened.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
