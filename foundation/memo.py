"""What a function returned for its latest arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

V = TypeVar("V")


class Memo(dict[str, V]):
    """The value of each text, computed when it is first asked for: ``memo[text]``.

    There are at most `most` values; then it begins anew. Unlike what :func:`functools.lru_cache`
    returns, it can be pickled with the object that holds it.
    """

    def __init__(self, compute: Callable[[str], V], most: int) -> None:
        super().__init__()
        self._compute, self._most = compute, most

    def __missing__(self, text: str) -> V:
        if len(self) >= self._most:
            self.clear()
        value = self[text] = self._compute(text)
        return value
