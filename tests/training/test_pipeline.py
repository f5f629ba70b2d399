from __future__ import annotations

import numpy as np

from training.pipeline import collapse_warnings


def codes_of(distinct: int, documents: int) -> np.ndarray:
    return (np.arange(documents, dtype=np.uint16) % distinct).view(np.uint8).reshape(-1, 2)


def test_few_distinct_codes_are_said_to_be() -> None:
    (one,) = collapse_warnings(codes_of(1, 50))
    assert one.startswith("50 documents have 1 distinct code;")
    (several,) = collapse_warnings(codes_of(20, 1000))
    assert several.startswith("1,000 documents have 20 distinct codes;")


def test_many_distinct_codes_or_few_documents_are_no_collapse() -> None:
    assert collapse_warnings(codes_of(21, 1000)) == ()
    assert collapse_warnings(codes_of(1, 49)) == ()
