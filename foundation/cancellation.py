"""Work of seconds that ends when nobody waits for its result any more.

Training, evaluations, exports, maps and the like call :func:`check_cancelled` now and then. Work of
a fraction of a second does not: it ends sooner than anybody would notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(Exception):  # noqa: N818 - nothing is wrong
    """Nobody waits for the result of this work."""


_is_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("is_cancelled", default=None)


@contextmanager
def cancelled_by(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Let the work inside the block, in threads that it starts as well, end once that is true."""
    token = _is_cancelled.set(is_cancelled)
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def check_cancelled() -> None:
    """End this work if nobody waits for its result.

    Raises:
        Cancelled: if so.
    """
    is_cancelled = _is_cancelled.get()
    if is_cancelled is not None and is_cancelled():
        raise Cancelled
