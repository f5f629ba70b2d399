"""Searches that leave out near-duplicates of better hits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import code_to_hex
from hummingbit.foundation.errors import InputError
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.passages import Passages
from hummingbit.index.records import Query
from hummingbit.index.search import Hit
from tests.support.codes import clustered_codes
from tests.support.encoders import random_texts
from tests.support.service import make_data_folder


def without_duplicates(hits: list[Hit], radius: int) -> list[str]:
    """The oracle: compare each hit with all that were kept, bit by bit."""
    kept: list[tuple[str, int]] = []
    for hit in hits:
        code = int(hit.code or "", 16)
        if all((code ^ other).bit_count() > radius for _, other in kept):
            kept.append((hit.id, code))
    return [id_ for id_, _ in kept]


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    radius=st.integers(0, 16),
    k=st.integers(1, 120),
    offset=st.integers(0, 20),
)
def test_the_best_of_near_copies_stays(
    tmp_path_factory: pytest.TempPathFactory, *, seed: int, radius: int, k: int, offset: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = clustered_codes(rng, 300, 16, centres=20, flips=0.05)
    with DataFolder(tmp_path_factory.mktemp("data"), writable=True) as folder:
        collection = folder.create_collection("codes", n_bits=16)
        collection.upsert(
            [Document(f"d{i}", code=code_to_hex(code)) for i, code in enumerate(codes)]
        )
        query = [Query(code=code_to_hex(codes[0]))]
        whole = collection.search(query, 300, with_code=True).hits[0]
        options = {"collapse_duplicates": radius, "offset": offset}
        found = collection.search(query, k, **options)
        expected = without_duplicates(whole, radius)
        assert [hit.id for hit in found.hits[0]] == expected[offset : offset + k]
        assert found.next_cursors == [None]
        by_id = {hit.id: hit for hit in whole}
        assert all(hit._replace(code=by_id[hit.id].code) == by_id[hit.id] for hit in found.hits[0])


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric", "bm25", "hybrid"])
def test_every_ranking_takes_it(tmp_path: Path, ranking: str) -> None:
    texts = random_texts(60, seed=1)
    with DataFolder(make_data_folder(tmp_path), writable=True) as folder:
        for name, passages in (("plain", None), ("split", True)):
            collection = folder.create_collection(
                name, encoder="words", passages=Passages.of(passages)
            )
            copies = [f"{text}{mark}" for text in texts for mark in ("", ".", "!", " ?")]
            collection.upsert([Document(f"d{i}", text) for i, text in enumerate(copies)])
            query = [Query(text=texts[0])]
            whole = collection.search(query, 1000, ranking=ranking, with_code=True).hits[0]
            found = collection.search(query, 10, ranking=ranking, collapse_duplicates=1).hits[0]
            assert [hit.id for hit in found] == without_duplicates(whole, 1)[:10]
            code = Query(code=whole[0].code)
            near = collection.search([code], 1, collapse_duplicates=0).hits[0]
            assert near[0].distance == 0


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("codes", n_bits=16)
        collection.upsert([Document("a", code="0000"), Document("b", code="0001")])
        query = [Query(code="0000")]
        for radius in (-1, 17):
            with pytest.raises(InputError, match="collapse_duplicates"):
                collection.search(query, 1, collapse_duplicates=radius)
        cursor = collection.search(query, 1).next_cursors[0]
        with pytest.raises(InputError, match="collapse_duplicates; use offset"):
            collection.search(query, 1, cursor=cursor, collapse_duplicates=1)
