from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import CONTENT_SHARES, QUERY_CLASSIFIERS, ClassCodeRecipe
from hummingbit.training import class_codes
from hummingbit.training.class_codes import draw_documents, train_class_codes
from hummingbit.training.data import gather
from tests.support.corpora import TOPICS, topic_documents, topic_vectors

_CLUSTERS = 5
_RUN = ClassCodeRecipe(n_bits=16, validation_share=0)


def _choice(documents: Any, out: Path, recipe: ClassCodeRecipe) -> Any:
    return train_class_codes(gather(documents), recipe, out).encoder.metadata["chosen"]


def _clustered(class_word: Callable[[int, int], str]) -> list[Document]:
    """400 texts of two classes, each of five clusters; a fifth of each cluster is labelled.

    A text has six of its cluster's twelve words, then the word that `class_word` returns for the
    number of its cluster and its number in the cluster. Multiples of five are labelled.
    """
    rng = np.random.default_rng(0)
    documents = []
    for number in range(400):
        label, cluster, member = number % 2, number // 2 % _CLUSTERS, number // (2 * _CLUSTERS)
        own = rng.choice(12, 6, replace=False)
        words = [f"own{label}x{cluster}x{word}" for word in own]
        text = " ".join([*words, class_word(cluster, member) + str(label)])
        labels = (f"class {label}",) if member % 5 == 0 else ()
        documents.append(Document(id=str(number), text=text, labels=labels))
    return documents


def test_a_trial_learns_from_unlabelled_documents_as_the_run_does(tmp_path: Path) -> None:
    def link(cluster: int, member: int) -> str:
        """Only unlabelled texts of the next cluster have the word of the labelled ones of one."""
        return f"link{cluster if member % 5 == 0 else (cluster + 1) % _CLUSTERS}x"

    choice = _choice(_clustered(link), tmp_path / "e", replace(_RUN, content_share=0.125))
    assert [trial["P@20"] for trial in choice["trials"]] == pytest.approx([1.0] * 4, abs=0.12)


def test_a_trial_learns_nothing_of_documents_near_its_queries(tmp_path: Path) -> None:
    def link(cluster: int, member: int) -> str:
        """A word tells the class of texts without a label and of every second with one."""
        return f"plain{cluster}x{member}x" if member % 10 == 0 else "class"

    choice = _choice(_clustered(link), tmp_path / "e", replace(_RUN, content_share=0.125))
    # Queries with the word find their class. The others are guesses.
    assert [trial["P@20"] for trial in choice["trials"]] == pytest.approx([0.75] * 4, abs=0.1)


def test_a_share_of_content_leaves_a_codeword_for_each_class(tmp_path: Path) -> None:
    documents = [
        replace(document, labels=(f"{document.labels[0]} {number % 5}",))
        for number, document in enumerate(topic_documents(300))
    ]
    # With 8 bits, 3 of them for content leave 4 for the class of 15.
    choice = _choice(documents, tmp_path / "e", replace(_RUN, n_bits=8, query_classifier="both"))
    assert [trial["content_share"] for trial in choice["trials"]] == [0.25, 0.375, 0.125]


@pytest.mark.parametrize("documents", [topic_documents, topic_vectors])
@pytest.mark.parametrize("shown", [(1, 1), (2, 1), (2, 2), (1, 1, 1)])
def test_two_labels_are_enough(documents: Any, shown: tuple[int, ...], tmp_path: Path) -> None:
    """`shown` has the number of labelled documents of each class."""
    left = dict(zip(TOPICS, shown, strict=False))
    given = []
    for document in documents(60):
        (label,) = document.labels
        left[label] = left.get(label, 0) - 1
        given.append(document if left[label] >= 0 else replace(document, labels=()))
    choice = _choice(given, tmp_path / "e", _RUN)
    assert choice["query_classifier"] in QUERY_CLASSIFIERS
    assert choice["content_share"] in CONTENT_SHARES
    # Without the one text of a class, there is only the other class to search.
    assert bool(choice["trials"]) == (shown != (1, 1))


@given(
    n_labelled=st.integers(0, 60),
    n_others=st.integers(0, 60),
    number=st.integers(1, 40),
    seed=st.integers(0, 99),
)
def test_half_of_the_documents_drawn_are_labelled_if_there_are_so_many(
    n_labelled: int, n_others: int, number: int, seed: int
) -> None:
    number = min(number, n_labelled + n_others)
    tags = np.zeros((n_labelled + n_others, 2), dtype=np.bool_)
    tags[np.random.default_rng(seed).permutation(len(tags))[:n_labelled], seed % 2] = True
    drawn = draw_documents(tags, number, np.random.default_rng(seed))
    assert len(drawn) == number
    assert (np.diff(drawn) > 0).all()
    found = int(tags[drawn].any(axis=1).sum())
    assert found == min(n_labelled, max(number // 2, number - n_others))


def test_many_documents_are_chosen_by_some_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = topic_documents(400)
    whole = _choice(documents, tmp_path / "whole", _RUN)
    monkeypatch.setattr(class_codes, "_MAX_DOCUMENTS", 200)
    some = _choice(documents, tmp_path / "some", _RUN)
    assert some == _choice(documents, tmp_path / "again", _RUN)
    assert len(some["trials"]) == len(whole["trials"])
    assert some["trials"] != whole["trials"]
