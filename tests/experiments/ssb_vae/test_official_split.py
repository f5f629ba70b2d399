from __future__ import annotations

import pytest

from hummingbit.corpus.readers import read_documents

REPEATED = (31, 32, 36, 39, 337, 365, 406, 432, 630, 646, 648, 935, 965, 990, 1235, 1601, 1620,
            1633, 1754, 1864, 1940, 1980, 1986, 2040, 2052, 2167)  # fmt: skip


@pytest.mark.public_data
def test_26_test_texts_of_snippets_are_also_in_train() -> None:
    train, test = (list(read_documents(f"snippets:{part}")) for part in ("train", "test"))
    assert (len(train), len(test)) == (10_060, 2_280)
    classes: dict[str | None, set[tuple[str, ...]]] = {}
    for document in train:
        classes.setdefault(document.text, set()).add(document.labels)
    both = [document for document in test if document.text in classes]
    assert [document.id for document in both] == [f"test-{number:05}" for number in REPEATED]
    other = [document.id for document in both if document.labels not in classes[document.text]]
    assert other == ["test-00406", "test-00965"]
