"""The published state of a collection, and how a write changes it."""

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
    """A generation, and the last row that had been assigned by then."""

    generation: Generation
    last_row: int
    lexical: LexicalIndex | None = None
    """The texts of the same generation; None until a search needs them."""
    moments: CodeMoments | None = None
    """The moments of its codes; present if `lexical` is."""


class SearchTarget(NamedTuple):
    """What to search: a generation, and the rows that match the filter; None without a filter."""

    published: PublishedGeneration
    among: Rows | None


class TextChanges:
    """The changes of a write to the lexical index; texts are read only if there is an index."""

    def __init__(self, number: int, changes: Changes, codes: Codes, removed: Rows) -> None:
        self._number = number
        self._changes = changes
        self._codes = codes
        self._removed = removed

    def apply_to(
        self, before: PublishedGeneration
    ) -> tuple[LexicalIndex | None, CodeMoments | None]:
        """Return the lexical index and the moments after the write, or None if there were none."""
        if before.lexical is None or before.moments is None:
            return None, None
        # This write both added and removed the rows after `last_row`.
        removed = before.generation.codes_of(self._removed[self._removed <= before.last_row])
        return before.lexical.with_changes(*self.write), before.moments.with_changes(
            self._codes, removed
        )

    @cached_property
    def write(self) -> tuple[int, list[tuple[int, str]], Rows]:
        """The arguments of :meth:`index.lexical.index.LexicalIndex.with_changes`."""
        return self._number, self._changes.added_texts(), self._removed
