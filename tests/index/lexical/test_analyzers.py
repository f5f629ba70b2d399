from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from index.lexical.analyzers import ANALYZERS


def test_words_are_as_the_encoders_split_them() -> None:
    assert ANALYZERS["words"].terms("A Cross-Entropy loss_2, twice: loss_2") == (
        "cross entropy loss_2 twice loss_2".split()
    )


def test_english_words_lose_their_endings() -> None:
    stems = ANALYZERS["english"].terms("Searching searches searched: the neighbours' indices")
    assert stems == "search search search the neighbour indic".split()


def test_threads_stem_alike() -> None:
    texts = [f"running {word}ing quickly {word}s" for word in ("search", "index", "rank")] * 50
    terms = ANALYZERS["english"].terms
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(terms, texts)) == [terms(text) for text in texts]
