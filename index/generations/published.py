"""What is published of a collection, and what a write changes of it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from encoder.codes import Codes
from index.engines.protocol import Rows
from index.engines.segments import Generation
from index.lexical.index import LexicalIndex
from index.rankings.moments import CodeMoments
from index.sqlite.changes import Changes


class PublishedGeneration(NamedTuple):
    """A generation, and the last row that had been given by then."""

    generation: Generation
    last_row: int
    lexical: LexicalIndex | None = None
    """The texts of the same generation; None until they are asked for."""
    moments: CodeMoments | None = None
    """The moments of its codes; they are there where the texts are."""


class SearchTarget(NamedTuple):
    """What to search: a generation, and the rows for which the filter holds; None without one."""

    published: PublishedGeneration
    among: Rows | None


class TextChanges:
    """What a write changes of the lexical index; read only if there is one to add it to."""

    def __init__(self, number: int, changes: Changes, codes: Codes, removed: Rows) -> None:
        self._number = number
        self._changes = changes
        self._codes = codes
        self._removed = removed

    def added_to(
        self, before: PublishedGeneration
    ) -> tuple[LexicalIndex | None, CodeMoments | None]:
        """Return the lexical index and the moments after the write, if there were any before."""
        if before.lexical is None or before.moments is None:
            return None, None
        # Rows above were both added and removed by this write.
        gone = before.generation.codes_of(self._removed[self._removed <= before.last_row])
        return before.lexical.with_changes(*self.write), before.moments.with_changes(
            self._codes, gone
        )

    @cached_property
    def write(self) -> tuple[int, list[tuple[int, str]], Rows]:
        """What :meth:`index.lexical.index.LexicalIndex.with_changes` takes."""
        return self._number, self._changes.added_texts(), self._removed
