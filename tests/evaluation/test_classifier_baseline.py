from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.commands.printed_figures import print_trained
from hummingbit.corpus.document import Document
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import (
    AutoencoderRecipe,
    BaseRecipe,
    ClassCodeRecipe,
    ClozeRecipe,
    DistillationRecipe,
    LinearRecipe,
    MetricRecipe,
    ModelRecipe,
)
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.evaluation.baselines import (
    ClassifierReference,
    TrainingLabels,
    bm25,
    classifier_baseline,
    classifier_warnings,
    collection_classifier_baseline,
    logistic_baseline,
    soft_class_scores,
)
from hummingbit.evaluation.metrics import DEFAULT_METRICS
from hummingbit.evaluation.relevance import Labelled
from hummingbit.index.records import StoredDocument
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import gather
from hummingbit.training.linear_codes import train_linear
from hummingbit.training.soft_labels import fit_classifier
from hummingbit.training.text_features import fit_text_features
from tests.support.corpora import topic_documents, topic_vectors
from tests.support.encoders import WORDS, class_encoder, random_texts, text_encoder, vector_encoder


def test_the_classifier_beside_an_encoder_finds_the_class(tmp_path: Path) -> None:
    data, asked = gather(topic_documents(300)), gather(topic_documents(60, seed=1))
    trained = train_linear(
        data, LinearRecipe("pca-sign", n_bits=8, label_fraction=0.2), tmp_path / "e"
    )
    assert trained.classifier is not None
    reference = ClassifierReference(trained.encoder, trained.classifier)
    shown = data.labelled(data.rows_of(trained.labelled_ids))
    found = classifier_baseline(reference, shown, data.labelled(), asked.labelled(), ["P@20"])
    assert found.distinct_codes == 3
    assert found.expected["P@20"] > 0.95


def test_vectors_have_a_classifier_too(tmp_path: Path) -> None:
    data, asked = gather(topic_vectors(300)), gather(topic_vectors(60, seed=1))
    recipe = LinearRecipe("pca-sign", n_bits=8, label_fraction=0.2)
    trained = train_linear(data, recipe, tmp_path / "e")
    reference = ClassifierReference(trained.encoder, trained.classifier)
    shown = data.labelled(data.rows_of(trained.labelled_ids))
    found = classifier_baseline(reference, shown, data.labelled(), asked.labelled(), ["P@20"])
    assert trained.classifier is not None
    assert found.expected["P@20"] > 0.95


def test_without_a_classifier_the_labels_shown_are_fitted(tmp_path: Path) -> None:
    data, asked = gather(topic_documents(200)), gather(topic_documents(40, seed=1))
    trained = train_linear(data, LinearRecipe("pca-sign", n_bits=8), tmp_path / "e")
    shown = data.labelled(data.rows_of(trained.labelled_ids))
    beside = ClassifierReference(trained.encoder)
    found = classifier_baseline(beside, shown, data.labelled(), asked.labelled())
    expected = logistic_baseline(shown, data.labelled(), asked.labelled())
    assert found.expected == expected.expected
    assert tuple(found.expected) == DEFAULT_METRICS


def test_with_one_label_a_collection_has_no_baseline() -> None:
    documents = [
        StoredDocument(str(at), at, "00", "text", None, {"label": "x" if at else "y"})
        for at in range(4)
    ]
    reference = ClassifierReference(text_encoder())
    queries = [Document(id="q", text="text", labels=("x",))]
    alone = TrainingLabels(["1", "2"], reference)
    assert collection_classifier_baseline(documents, alone, queries) is None
    both = TrainingLabels(["0", "1", "2"], reference)
    assert collection_classifier_baseline(documents, both, queries) is not None


def test_a_sentence_says_where_the_codes_lose_and_what_to_try() -> None:
    codes = {"P@100": 0.712, "mAP@100": 0.8}
    encoder = replace(text_encoder(), metadata={"recipe": {"word_dropout": 0.25}})
    (sentence,) = classifier_warnings(codes, {"P@100": 0.731, "mAP@100": 0.7}, encoder)
    assert "classifier baseline (P@100 0.712 against 0.731, tie-averaged)" in sentence
    assert "mAP" not in sentence
    assert "--word-dropout 0.1" in sentence
    assert classifier_warnings(codes, codes, encoder) == []
    assert classifier_warnings(codes, None, encoder) == []


@pytest.mark.parametrize(
    "encoder",
    [
        text_encoder(),
        replace(text_encoder(), metadata={"recipe": "none"}),
        replace(text_encoder(), metadata={"recipe": {"word_dropout": 0.1}}),
        replace(vector_encoder(), metadata={"recipe": {"word_dropout": 0.25}}),
    ],
    ids=["unknown", "foreign", "little", "vectors"],
)
def test_less_word_dropout_is_advice_only_where_words_are_left_out(encoder: Encoder) -> None:
    (sentence,) = classifier_warnings({"P@100": 0.7}, {"P@100": 0.8}, encoder)
    assert "--word-dropout" not in sentence
    assert sentence.endswith("more bits or the asymmetric ranking")


def test_class_codes_are_advice_for_texts_whose_codes_are_others(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(n_bits=16, query_classifier="both", content_share=0.125)
    by_class = train_class_codes(gather(topic_documents(60)), recipe, tmp_path / "e").encoder
    advice = "try hummingbit train class-codes"
    for encoder, is_advised in (
        (text_encoder(), True),
        (by_class, False),
        (vector_encoder(), False),
    ):
        (sentence,) = classifier_warnings({"P@100": 0.7}, {"P@100": 0.8}, encoder)
        assert (advice in sentence) is is_advised


@pytest.mark.parametrize(
    ("recipe", "learned"),
    [
        (ClozeRecipe(), False),
        (AutoencoderRecipe(), True),
        (LinearRecipe(method="itq"), False),
        (ModelRecipe(head="reconstruction"), False),
        (ModelRecipe(head="class-codes"), True),
        (MetricRecipe(similarity="pairs"), False),
        (MetricRecipe(similarity="graded"), True),
        (DistillationRecipe(), False),
        (DistillationRecipe(label_fraction=0.1), True),
        (ClassCodeRecipe(), True),
    ],
)
def test_only_codes_that_learned_labels_are_to_tell_them(recipe: BaseRecipe, learned: bool) -> None:
    encoder = replace(text_encoder(), metadata={"recipe": asdict(recipe)})
    assert bool(classifier_warnings({"P@100": 0.7}, {"P@100": 0.8}, encoder)) is learned


def test_codes_are_not_behind_by_less_than_is_shown() -> None:
    assert classifier_warnings({"P@100": 0.8511}, {"P@100": 0.8513}, text_encoder()) == []


@pytest.mark.parametrize("make", [topic_documents, topic_vectors])
@pytest.mark.parametrize("labels", [1, 2])
def test_only_vectors_of_several_labels_have_no_fair_classifier(
    make: Any, labels: int, tmp_path: Path
) -> None:
    documents = make(60)
    if labels == 2:
        documents[-1] = replace(documents[-1], labels=("food", "sea"))
    trained = train_linear(gather(documents), LinearRecipe("pca-sign", n_bits=8), tmp_path / "e")
    assert (trained.classifier is None) == (labels == 2 and make is topic_vectors)


def test_texts_of_several_labels_are_classified_by_each_of_them() -> None:
    """The classifier learns the second label of a text as well as the first."""
    documents = [
        replace(document, labels=("all", *document.labels) if number % 2 else (*document.labels,))
        for number, document in enumerate(topic_documents(200))
    ]
    data = gather(documents)
    features = fit_text_features([str(text) for text in data.inputs], 1000)
    classifier = fit_classifier(features, data.inputs, data.tags, None, seed=0)
    assert classifier is not None
    predicted = classifier.predict(features.transform([str(text) for text in data.inputs]))
    assert data.tags[np.arange(200), predicted].mean() > 0.9


def test_soft_class_scores_rank_by_the_dot_product_of_class_probabilities() -> None:
    encoder = class_encoder()
    code = encoder.class_code
    assert code is not None
    texts, asked = random_texts(30, seed=1), random_texts(5, seed=2)
    labels = [("ab"[row % 2],) for row in range(30)]
    queries = Labelled(asked, labels[:5])
    found = soft_class_scores(encoder, Labelled(texts, labels), queries, ["P@10"])
    assert found is not None
    rows = TextFeatures(vocabulary=WORDS).transform
    shares = []
    for text, (label,) in zip(asked, labels, strict=False):
        q = code.queries.probabilities(rows([text]))[0].astype(np.float64)
        p = code.documents.probabilities(rows(texts)).astype(np.float64)
        first = np.argsort(-(p @ q), kind="stable")[:10]
        shares.append(np.mean([labels[row] == (label,) for row in first]))
    assert found.metrics["P@10"] == pytest.approx(np.mean(shares))
    assert soft_class_scores(text_encoder(), Labelled(texts, labels), queries) is None


def test_training_prints_soft_class_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = ClassCodeRecipe(n_bits=16, content_share=0.5, content="itq", query_classifier="ridge")
    trained = train_class_codes(gather(topic_documents(200)), recipe, tmp_path / "e")
    print_trained(tmp_path / "e", trained)
    lines = capsys.readouterr().out.splitlines()
    (row,) = (line for line in lines if "soft class scores  " in line)
    value = trained.validation["soft_class_scores"]["expected"]["P@100"]
    assert f"P@100 {value:.3f}" in row


def test_training_says_whether_words_or_codes_are_ahead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each document has words that say nothing of its label, so a word index is behind."""
    rng = np.random.default_rng(0)
    documents = [
        replace(
            document,
            text=f"{document.text} {' '.join(f'rare{n}' for n in rng.integers(0, 60, 12))}",
        )
        for document in topic_documents(300)
    ]
    data = gather(documents)
    recipe = ClassCodeRecipe(n_bits=16, content_share=0.25, content="itq", query_classifier="ridge")
    trained = train_class_codes(data, recipe, tmp_path / "e")
    print_trained(tmp_path / "e", trained)
    printed = capsys.readouterr().out
    learned = trained.encoder.learned.contain([document.text or "" for document in documents])
    held_out, others = (
        gather(
            [document for document, known in zip(documents, learned, strict=True) if known == kind]
        )
        for kind in (False, True)
    )
    found = bm25(others.labelled(), held_out.labelled(), ["P@10"]).expected["P@10"]
    assert trained.validation["queries"] == len(held_out) == 30
    assert trained.validation["bm25"]["expected"]["P@10"] == pytest.approx(found)
    assert f"bm25                 P@10 {found:.3f}" in printed
    ours = trained.validation["expected"]["P@10"]
    assert ours > found + 0.1
    assert f"codes against bm25: ahead in P@10 ({ours:.3f} to {found:.3f}, p" in printed


def test_training_prints_the_cosine_of_vectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = gather(topic_vectors(200))
    trained = train_linear(data, LinearRecipe("lsh", n_bits=8), tmp_path / "e")
    print_trained(tmp_path / "e", trained)
    printed = capsys.readouterr().out
    assert "bm25" not in printed
    value = trained.validation["vectors"]["expected"]["P@10"]
    assert f"vectors              P@10 {value:.3f}" in printed
    assert "codes against vectors: " in printed
