"""What requests and options of labelling call formats and methods, without importing numpy."""

from __future__ import annotations

JSONL, QRELS, QUERIES = "jsonl", "qrels", "queries"
FORMATS = (JSONL, QRELS, QUERIES)

HERDING, MARGIN, RANDOM, SECOND_OPINION = "herding", "margin", "random", "second-opinion"
SUGGESTION_METHODS = (HERDING, MARGIN, RANDOM, SECOND_OPINION)
DEFAULT_METHOD = HERDING
MAX_SUGGESTED = 10_000
"""The most documents that are suggested at a time."""
