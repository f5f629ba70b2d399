"""What one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from corpus.document import MAX_TEXT_LENGTH
from index.collection import MAX_K


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits, in bytes, entries and characters; what goes beyond one is refused and says so.

    `max_body_bytes` holds for every request but those that carry documents or labelled queries,
    for which it is `max_bulk_body_bytes`. `max_hits` bounds the searches of a batch times the
    largest of their limits.

    At most `concurrent_writes` requests that write and `concurrent_long_reads` that evaluate,
    encode or search in batches run at a time; the others wait, and single searches overtake them.
    Evaluations in the background run one after the other; the last `kept_evaluations` are kept, in
    memory.
    """

    max_body_bytes: int = 1 << 20
    max_bulk_body_bytes: int = 16 << 20
    max_text_length: int = MAX_TEXT_LENGTH
    max_limit: int = MAX_K
    max_hits: int = 100_000
    max_documents: int = 10_000
    max_searches: int = 1_000
    max_inputs: int = 1_000
    max_queries: int = 10_000
    concurrent_writes: int = 8
    concurrent_long_reads: int = 8
    kept_evaluations: int = 16
