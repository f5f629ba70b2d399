from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.recipes import (
    CONTENT_SHARES,
    QUERY_CLASSIFIERS,
    ClassCodeRecipe,
    RecipeError,
)
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training import cloze
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import TrainingDataError, gather
from tests.support.corpora import topic_documents, topic_vectors


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few documents be few batches where content is learned by ict."""
    monkeypatch.setattr(cloze, "MIN_STEPS", 40)


@pytest.mark.parametrize("documents", [topic_documents, topic_vectors])
def test_class_codes_find_documents_of_the_class(documents: object, tmp_path: Path) -> None:
    data, queries = gather(documents(400)), gather(documents(80, seed=1))  # type: ignore[operator]
    recipe = ClassCodeRecipe(n_bits=16, label_fraction=0.3)
    heard: list[str] = []
    trained = train_class_codes(data, recipe, tmp_path / "e", progress=heard.append)
    encoder = load_encoder(tmp_path / "e")
    assert encoder.fingerprint == trained.encoder.fingerprint
    found = evaluate_encoder(encoder, data.labelled(), queries.labelled(), ["P@50"])
    assert found.expected["P@50"] > 0.9
    # More is told apart than the three classes.
    assert (found.distinct_codes or 0) > 20
    chosen = encoder.metadata["chosen"]
    assert chosen["query_classifier"] in QUERY_CLASSIFIERS
    assert chosen["content_share"] in CONTENT_SHARES
    assert len(heard) == len(chosen["trials"]) + 1
    again = train_class_codes(data, recipe, tmp_path / "again")
    assert again.encoder.fingerprint == encoder.fingerprint


def test_a_part_of_the_documents_has_each_certainty_bit(tmp_path: Path) -> None:
    data = gather(topic_documents(500))
    recipe = ClassCodeRecipe(
        n_bits=32,
        query_classifier="both",
        content_share=0.25,
        certainty_share=0.125,
        validation_share=0,
    )
    encoder = train_class_codes(data, recipe, tmp_path / "e").encoder
    bits = unpack_codes(encoder.encode(data.inputs))[:, 20:24]
    np.testing.assert_allclose(bits.mean(axis=0), [0.2, 0.4, 0.6, 0.8], atol=0.02)
    # A thermometer: a document that has one bit has all after it.
    assert (np.diff(bits.astype(int), axis=1) >= 0).all()


def test_the_surest_documents_are_those_whose_label_is_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"{topic}{number}" for topic in ("sea", "sky") for number in range(300)]
    # Both topics have all words, but not as often.
    likely = rng.dirichlet(np.ones(300), size=2)
    documents = [
        Document(
            id=str(number),
            text=" ".join(rng.choice(words, 12, p=likely[[topic, 1 - topic]].ravel() / 2)),
            labels=(("water", "air")[topic],),
        )
        for number, topic in enumerate(rng.integers(2, size=300))
    ]
    data = gather(documents)
    shares = []
    for label_weight in (1, 20):
        recipe = ClassCodeRecipe(
            n_bits=32,
            label_fraction=0.1,
            query_classifier="both",
            content_share=0.25,
            label_weight=label_weight,
            validation_share=0,
        )
        trained = train_class_codes(data, recipe, tmp_path / str(label_weight))
        bits = unpack_codes(trained.encoder.encode(data.inputs))
        shares.append(bits[data.rows_of(trained.labelled_ids), 20].mean())
    assert shares[0] < 0.6
    assert shares[1] > 0.9


def test_pairs_of_words_tell_classes_apart_that_have_the_same_words(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    others = [f"word{number}" for number in range(20)]
    documents = [
        Document(
            id=str(number),
            text=" ".join(
                [*rng.choice(others, 3), *("north wind", "wind north")[number % 2].split()]
            ),
            labels=(("weather", "place")[number % 2],),
        )
        for number in range(200)
    ]
    data, queries = gather(documents[:160]), gather(documents[160:])
    precision = {}
    for max_words in (1, 2):
        recipe = ClassCodeRecipe(
            max_words=max_words, query_classifier="both", content_share=0.125, validation_share=0
        )
        train_class_codes(data, recipe, tmp_path / str(max_words))
        encoder = load_encoder(tmp_path / str(max_words))
        found = evaluate_encoder(encoder, data.labelled(), queries.labelled(), ["P@50"])
        precision[max_words] = found.expected["P@50"]
    assert precision[1] < 0.7
    assert precision[2] > 0.95


def test_content_learned_by_ict_finds_texts_by_their_words(tmp_path: Path) -> None:
    documents = [
        replace(document, text=f"{document.text}. mark{number} sign{number}")
        for number, document in enumerate(topic_documents(120))
    ]
    data = gather(documents)
    recipe = ClassCodeRecipe(
        n_bits=32,
        label_fraction=0.5,
        query_classifier="both",
        content="ict",
        content_share=0.625,
        validation_share=0,
    )
    encoder = train_class_codes(data, recipe, tmp_path / "e").encoder
    # Words of a single text are in the vocabulary.
    assert "mark7" in encoder.features.vocabulary  # type: ignore[union-attr]
    weights = encoder.query_weights([f"mark{number} sign{number}" for number in range(120)])
    bits = unpack_codes(encoder.encode(data.inputs)).astype(np.float64) * 2 - 1
    # Without the words' class: a document with a mark must beat 119 others by its content.
    content = slice(32 - 20, None)
    ranks = _ranks(weights[:, content].astype(np.float64) @ bits[:, content].T)
    assert np.mean(ranks < 10) > 0.5
    found = evaluate_encoder(encoder, data.labelled(), data.labelled(), ["P@20"])
    assert found.expected["P@20"] > 0.8
    again = train_class_codes(data, recipe, tmp_path / "again").encoder
    assert again.fingerprint == encoder.fingerprint


@pytest.mark.parametrize(
    ("words", "few_terms", "half_terms"), [(5, 0, 2), (24, 4, 2), (42, 7, 2.8), (90, 10, 4)]
)
def test_a_question_has_fewer_terms_than_a_sixth_of_a_document(
    tmp_path: Path, words: int, few_terms: int, half_terms: float
) -> None:
    rng = np.random.default_rng(0)
    documents = [
        Document(
            id=str(number),
            text=" ".join(f"{topic}{word}" for word in rng.choice(200, words, replace=False)),
            labels=(topic,),
        )
        for number, topic in enumerate(["north", "south"] * 30)
    ]
    recipe = ClassCodeRecipe(
        query_classifier="both",
        content="ict",
        content_share=0.5,
        validation_share=0,
    )
    code = train_class_codes(gather(documents), recipe, tmp_path / "e").encoder.class_code
    assert code is not None
    assert code.few_terms == few_terms
    assert code.half_terms == pytest.approx(half_terms)


def _ranks(scores: Any) -> Any:
    """The number of documents that score higher than the one with the query's own number."""
    return (scores > np.diag(scores)[:, None]).sum(axis=1)


def test_codes_are_measured_among_documents_whose_labels_are_known(tmp_path: Path) -> None:
    documents = [
        document if number % 5 == 0 else replace(document, labels=())
        for number, document in enumerate(topic_documents(300))
    ]
    recipe = ClassCodeRecipe(query_classifier="both", content_share=0.25, validation_share=0.2)
    figures = train_class_codes(gather(documents), recipe, tmp_path / "e").validation
    assert (figures["queries"], figures["documents"]) == (12, 48)
    assert figures["classifier_baseline"]["documents"] == 48


def test_settings_that_are_given_are_not_searched_for(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(query_classifier="svm", content_share=0.375)
    heard: list[str] = []
    trained = train_class_codes(
        gather(topic_documents(200)), recipe, tmp_path / "e", progress=heard.append
    )
    assert heard == []
    chosen = trained.encoder.metadata["chosen"]
    assert (chosen["query_classifier"], chosen["content_share"]) == ("svm", 0.375)


def test_texts_of_several_labels_are_found_by_each_of_them(tmp_path: Path) -> None:
    """Half of the texts are two of one topic each, joined, with the labels of both."""
    data, queries = (gather(_documents_of_two_topics(seed)) for seed in (0, 1))
    assert data.is_multi_label
    recipe = ClassCodeRecipe(n_bits=32, label_fraction=0.3, validation_share=0)
    encoder = train_class_codes(data, recipe, tmp_path / "e").encoder
    found = evaluate_encoder(encoder, data.labelled(), queries.labelled(), ["P@50"])
    by_chance = _share_of_relevant(data.labelled().labels, queries.labelled().labels)
    assert by_chance < 0.65
    assert found.expected["P@50"] > 0.85


def _documents_of_two_topics(seed: int) -> list[Document]:
    one, other = topic_documents(300, seed=2 * seed), topic_documents(300, seed=2 * seed + 1)
    return [
        replace(first, text=f"{first.text} {second.text}", labels=first.labels + second.labels)
        if number % 2 and first.labels != second.labels
        else first
        for number, (first, second) in enumerate(zip(one, reversed(other), strict=True))
    ]


def _share_of_relevant(documents: Any, queries: Any) -> float:
    return float(
        np.mean([[bool({*document} & {*other}) for document in documents] for other in queries])
    )


def test_a_vector_that_queries_has_the_codeword_of_its_likeliest_class(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(n_bits=16, content_share=0.25, validation_share=0)
    data = gather(topic_vectors(200))
    code = train_class_codes(data, recipe, tmp_path / "e").encoder.class_code
    assert code is not None
    rows: Any = data.inputs
    # Vectors on the way from the mean of a class to that of another are between the two.
    steps = np.repeat(np.linspace(0, 1, 20, dtype=np.float32), 10)[:, None]
    between = (1 - steps) * rows + steps * rows[::-1]
    likeliest = code.codewords[code.queries.predict(between)] > 0
    has_codeword = (code.query_weights(between)[:, : code.codewords.shape[1]] > 0) == likeliest
    assert has_codeword.all(axis=1).mean() > 0.97
    np.testing.assert_array_equal(code.queries.predict(rows), code.documents.predict(rows))


def test_vectors_of_several_labels_are_refused(tmp_path: Path) -> None:
    documents = [replace(vector, labels=("a", *vector.labels)) for vector in topic_vectors(100)]
    with pytest.raises(TrainingDataError, match="label: vectors have several labels"):
        train_class_codes(gather(documents), ClassCodeRecipe(), tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_content_of_vectors_is_not_learned_by_ict(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(content="ict")
    with pytest.raises(TrainingDataError, match="content: ict learns from the words of texts"):
        train_class_codes(gather(topic_vectors(100)), recipe, tmp_path / "e")


def test_one_label_is_not_enough(tmp_path: Path) -> None:
    documents = [replace(document, labels=("a",)) for document in topic_documents(100)]
    with pytest.raises(TrainingDataError, match="at least two"):
        train_class_codes(gather(documents), ClassCodeRecipe(), tmp_path / "e")


def test_content_that_the_documents_cannot_fill_is_refused(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(n_bits=256, content_share=0.5, query_classifier="both")
    with pytest.raises(TrainingDataError, match="128 bits for content are more than"):
        train_class_codes(gather(topic_documents(100)), recipe, tmp_path / "e")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"n_bits": 12}, "n_bits is 12"),
        ({"content_share": 0.9}, "content_share is 0.9; it must be from 0 to 0.75"),
        ({"certainty_share": -1}, "certainty_share is -1; it must be from 0 to 0.25"),
        ({"query_classifier": "knn"}, "query_classifier is 'knn'"),
        ({"max_words": 3}, "max_words is 3; it must be from 1 to 2"),
        ({"label_weight": 0}, "label_weight is 0; it must be from 1 to 100"),
        ({"content": "lsa"}, "content is 'lsa'; it must be one of itq, ict"),
    ],
)
def test_settings_out_of_their_range_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecipeError, match=reason):
        ClassCodeRecipe(**settings)


@pytest.mark.parametrize("n_bits", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("share", CONTENT_SHARES)
def test_every_width_has_bits_for_the_class(n_bits: int, share: float) -> None:
    widths = ClassCodeRecipe(n_bits=n_bits).widths(share)
    assert sum(widths) == n_bits
    assert widths[0] >= 3
    assert widths[2] >= 1
