"""The verification of a collection on Milvus, and the statistics of its codes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from index.engines.segments import Generation
from index.generations.code_statistics import code_statistics
from index.milvus.catalogue import Counters
from index.milvus.schema import is_intact, to_codes
from index.milvus.store import MilvusStore
from index.records import Verification
from index.sqlite.verification import MAX_PROBLEMS

MAX_DOCUMENTS = 100_000


def verify_on_milvus(store: MilvusStore, now: Counters) -> Verification:
    """Check every document against its checksum, and their number against Milvus' count."""
    checked, damaged = 0, 0
    problems: list[str] = []
    for entity in store.documents(1, now.last_row):
        checked += 1
        if not is_intact(entity):
            damaged += 1
            if damaged <= MAX_PROBLEMS:
                document = f"{entity['id']!r} (row {entity['row']})"
                problems.append(f"document {document} does not match its checksum")
    if damaged > MAX_PROBLEMS:
        problems.append(f"{damaged - MAX_PROBLEMS:,} more documents do not match their checksums")
    if (count := store.count()) != checked:
        problems.append(f"Milvus counts {count:,} documents and returns {checked:,}")
    return Verification(checked, problems)


def statistics_on_milvus(store: MilvusStore, now: Counters, n_bits: int) -> dict[str, Any]:
    """Return the statistics of the codes of the first :data:`MAX_DOCUMENTS` documents."""
    entities = store.by_row(["row", "code"], 1, now.last_row)
    entities_read = list(itertools.islice(entities, MAX_DOCUMENTS))
    rows = np.array([entity["row"] for entity in entities_read], dtype=np.int64)
    return code_statistics(Generation.build(now.generation, to_codes(entities_read, n_bits), rows))
