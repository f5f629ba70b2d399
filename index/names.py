"""What requests, options and records call the kinds of things that a collection has.

Help texts list them, so nothing here imports numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

MAX_K = 10_000
"""The most hits of a search."""

HAMMING = "hamming"
ASYMMETRIC = "asymmetric"
BM25 = "bm25"
HYBRID = "hybrid"
RANKING_SUMMARIES: Mapping[str, str] = {
    HAMMING: "by the distance of codes",
    ASYMMETRIC: "by the probability of a document's bits given the query's real values",
    BM25: "by the words that they share with a text",
    HYBRID: "by codes and words together",
}
"""How each ranking orders hits."""
SUMMARIES = "; ".join(f"{name}, {summary}" for name, summary in RANKING_SUMMARIES.items())
"""The rankings, for help texts."""

LOGITS, VECTORS = "logits", "vectors"
RESCORERS = (BM25, LOGITS, VECTORS)
"""What can rescore candidates: their words, the real values of the query, or their vectors."""

PLAIN, QUERY = "plain", "query"
SYNTAXES = (QUERY, PLAIN)
"""How a text query is read: with the syntax of queries, or as words alone."""

AVERAGE_VECTOR = "average_vector"
BEST_SCORE = "best_score"
STRATEGIES = (AVERAGE_VECTOR, BEST_SCORE)
"""How recommendations use several examples."""

AUTO = "auto"
"""What hummingbit chooses by what it finds."""
INDEX_TYPES = (AUTO, "scan", "lookup", "halves", "flat")

FLOAT32, FLOAT16, INT8, NONE = "float32", "float16", "int8", "none"
FORMS = (FLOAT32, FLOAT16, INT8, NONE)
"""The forms of kept vectors."""

PASSAGE_WORDS = 128
"""The words of a passage, if nothing else is asked for."""
LONG = 1000
"""With ``"auto"``, texts with more words than this have passages."""

DEFAULT_BUCKETS = 10
CalendarInterval = Literal["minute", "hour", "day", "week", "month", "quarter", "year"]
CALENDAR_INTERVALS: tuple[CalendarInterval, ...] = get_args(CalendarInterval)

Backend = Literal["local", "postgres"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
"""Where collections are stored."""


def check_backend(name: str) -> str:
    """Return the name of a backend.

    Raises:
        ValueError: if there is none of that name; the message is what it must be.
    """
    if name in BACKENDS:
        return name
    rule = f"must be {' or '.join(BACKENDS)}"
    if name == "milvus":
        move = "hummingbit index import NAME http://HOST:19530 --from milvus"
        rule += f"; move each collection on Milvus to one of them: {move}"
    raise ValueError(rule)


STORES = ("milvus", "qdrant", "txtai")
"""The vector stores whose exported points can be read."""
VectorType = Literal["float16", "bfloat16"]
VECTOR_TYPES: tuple[VectorType, ...] = get_args(VectorType)

SHIPPED_DISTRIBUTION = "hummingbit-models"
SHIPPED_NAME = "english"
"""The encoder that ships, in a distribution of its own, and its name in a data folder."""
