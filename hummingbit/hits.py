"""The hits of a search in this process."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from hummingbit.inputs import data_frame
from index.backend import CollectionBackend
from index.filters import Filter
from index.records import Hit, SearchResult
from index.search.empty_results import reasons_for_none

if TYPE_CHECKING:
    import pandas as pd

REPR_TEXT = 60
"""How many characters of a hit's text its line has."""


class Hits(Sequence[Hit]):
    """The hits of one query, best first."""

    def __init__(self, result: SearchResult, place: int, warnings: Sequence[str] = ()) -> None:
        self._hits = result.hits[place]
        self.generation = result.generation
        """The generation of the collection that was searched: the number of writes before it."""
        self.ranking = result.rescored_by or result.rankings[place]
        """The ranking that ordered the hits."""
        terms = result.queries.terms[place]
        self.recognized_terms: int | None = None if terms is None else terms.recognized_terms
        """The number of words of the query that the encoder knows; None if it is not a text."""
        self.corrected: list[tuple[str, str]] = [] if terms is None else [*terms.corrected]
        """Unknown words of the query, each with what the encoder reads in its place."""
        self.warnings = [*warnings]
        """Why a search with a filter found nothing."""

    @overload
    def __getitem__(self, place: int) -> Hit: ...

    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...

    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        return self._hits[place]

    def __len__(self) -> int:
        return len(self._hits)

    def __repr__(self) -> str:
        """Return a line for each hit, for interactive use."""
        lines = [f"{hit.score:9.3f}  {hit.id}  {_beginning(hit)}".rstrip() for hit in self._hits]
        return "\n".join(lines or ["no hits", *self.warnings])

    @property
    def ids(self) -> list[str]:
        """The ids of the documents found."""
        return [hit.id for hit in self._hits]

    @property
    def distances(self) -> npt.NDArray[np.int64]:
        """Hamming distances from the query's code, ``int64[k]``."""
        return np.array([hit.distance for hit in self._hits], dtype=np.int64)

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """The scores of the ranking, ``float64[k]``; higher is better."""
        return np.array([hit.score for hit in self._hits], dtype=np.float64)

    @property
    def relevances(self) -> npt.NDArray[np.float64]:
        """The scores on one scale for all rankings, ``float64[k]`` from 0 to 1, in their order.

        A document has 0 if it agrees with the query by chance, and 1 if it consists of the query.
        """
        return np.array([hit.relevance for hit in self._hits], dtype=np.float64)

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each hit: id, distance, score, text, and one column a payload field."""
        rows = [
            {
                **(hit.payload or {}),
                "id": hit.id,
                "distance": hit.distance,
                "score": hit.score,
                "text": hit.text,
            }
            for hit in self._hits
        ]
        return data_frame(rows, ["id", "distance", "score", "text"])


def hits_of(
    result: SearchResult, collection: CollectionBackend, filter_: Filter | None
) -> list[Hits]:
    """Return the hits of each query; if none has a hit, with the reasons that `filter_` gives."""
    warnings = [] if any(result.hits) else reasons_for_none(collection, filter_)
    return [Hits(result, place, warnings) for place in range(len(result.hits))]


def _beginning(hit: Hit) -> str:
    return "" if hit.text is None else shorten(hit.text, REPR_TEXT, placeholder=" …")
