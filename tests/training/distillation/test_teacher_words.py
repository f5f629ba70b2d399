from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.training import word_vectors
from hummingbit.training.data import gather

VOCABULARY = {"##ing": 0, "Ġsea": 1, "▁tide": 2, "[CLS]": 3, "new york": 4, "sea": 5, ".": 6}


class Model:
    """Stands for a language model: a word has its length as its vector."""

    tokenizer = SimpleNamespace(get_vocab=lambda: VOCABULARY)

    def encode(self, words: list[str], **_options: Any) -> Any:
        return np.array([[len(word), 1.0] for word in words])

    def state_dict(self) -> dict[str, Any]:
        return {}


def test_words_are_those_of_the_model_and_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "load_sentence_transformer", lambda _source: Model())
    data = gather([Document(id="a", text="Anchors at sea"), Document(id="b", text="at the tide")])
    found = word_vectors.encode_words("model", data, "visible")
    assert found is not None
    assert [*found.words] == ["sea", "tide", "anchors", "at", "the"]
    np.testing.assert_array_equal(found.vectors[:, 0], [3, 4, 7, 2, 3])
    assert found.about()["name"] == "model"
    # Every word has several runs of characters, so none is a single term.
    assert word_vectors.encode_words("model", data, "visible+3-5grams") is None
