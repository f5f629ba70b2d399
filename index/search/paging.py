"""The next page of a search, whatever was written in between."""

from __future__ import annotations

from typing import NamedTuple

from index.engines.protocol import Rows
from index.filters import filter_to_json
from index.rankings.protocol import RankedRows, Ranking, RankingFromAnywhere
from index.records import EncodedQueries
from index.search.cursors import Position, write_cursor
from index.search.search_options import SearchOptions


class Page(NamedTuple):
    """The hits of one query, whether more follow, and whether the next has the last hit's score."""

    found: RankedRows
    more: bool
    tie_cut: bool
    passed: int
    """The number of hits before the next page."""


def hits_after(
    after: Position, ranking: Ranking, query: EncodedQueries, k: int, allowed: Rows | None
) -> RankedRows:
    """Return the hits of one query after a position, more than `k` of them if there are so many.

    Only documents that existed when the first page was made are found.
    """
    # Some rankings find the hits before the page again.
    passed = 0 if isinstance(ranking, RankingFromAnywhere) else after.passed
    count = passed + k + 1
    while True:
        if isinstance(ranking, RankingFromAnywhere):
            ranked = ranking.rank_after(query, count, after.score, after.row, allowed)
        else:
            (ranked,) = ranking.rank(query, count, allowed)
        exhausted = len(ranked.rows) < count
        old = ranked.rows <= after.last_row
        rows, scores = ranked.rows[old], ranked.scores[old]
        later = (scores < after.score) | ((scores == after.score) & (rows > after.row))
        hits = RankedRows(rows[later], scores[later], ranked.statistics)
        # Documents that were added since may have displaced hits of this page.
        if exhausted or len(hits.rows) > k:
            return hits
        count *= 2


def cursor_after(page: Page, last_row: int, identity: tuple[object, ...]) -> str | None:
    """Return the cursor of the page after this one, or None if this is the last."""
    if not page.more:
        return None
    rows, scores, statistics = page.found
    position = Position(float(scores[-1]), int(rows[-1]), last_row, page.passed, statistics)
    return write_cursor(position, *identity)


def cursor_identity(
    name: str, incarnation: str, ranking: str, queries: EncodedQueries, options: SearchOptions
) -> tuple[object, ...]:
    """Return the values that bind a cursor to its search."""
    filter_json = None if options.filter is None else filter_to_json(options.filter)
    query_key = (queries.codes.tobytes(), queries.weights.tobytes(), *queries.texts)
    return (name, incarnation, ranking, options.hybrid, *query_key, options.radius, filter_json)
