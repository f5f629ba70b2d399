from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from hummingbit.corpus.document import Document
from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.recipes import ClozeRecipe, RecipeError
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.training import cloze
from hummingbit.training.cloze import train_cloze
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.text_features import (
    TermCounts,
    add_word_bits,
    bits_for_words,
    fit_text_features,
    frequent_terms,
    keep_terms,
    quick_directions,
    summaries_tell,
)
from tests.support.encoders import WORDS, random_texts


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few documents be as many batches as the epochs have."""
    monkeypatch.setattr(cloze, "MIN_STEPS", 1)


def test_terms_come_by_count_and_then_alphabet() -> None:
    texts = ["bb aa cc", "aa bb", "bb", "only once", "cc"]
    assert [*frequent_terms(texts, 10)] == ["bb", "aa", "cc"]
    assert [*frequent_terms(texts, 2)] == ["bb", "aa"]
    assert [*frequent_terms(texts, 10, Analyzer.from_name("words"))] == ["bb", "aa", "cc"]


def test_terms_are_those_of_the_analyzer() -> None:
    texts = ["学生 searching", "大学生 searches"]
    assert [*frequent_terms(texts, 10)] == ["学生"]
    assert [*frequent_terms(texts, 10, Analyzer.from_name("unicode+english"))] == ["search", "学生"]


def test_a_term_of_one_text_is_left_out_however_often_it_occurs() -> None:
    texts = ["spam spam spam ham", "ham"]
    assert [*frequent_terms(texts, 10)] == ["ham"]
    assert [*frequent_terms(texts, 10, min_documents=1)] == ["spam", "ham"]


@pytest.mark.parametrize("texts", [[], [""], ["one", "two"]])
def test_texts_without_a_shared_term_are_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="no term occurs in two documents"):
        frequent_terms(texts, 10)


def test_texts_without_any_term_are_refused() -> None:
    with pytest.raises(ValueError, match="no term occurs in the documents"):
        frequent_terms(["", "?"], 10, min_documents=1)


def test_idf_equals_scikit_learns() -> None:
    texts = random_texts(100)
    features = fit_text_features(texts, len(WORDS))
    reference = TfidfVectorizer(vocabulary=features.vocabulary).fit(texts).idf_
    np.testing.assert_allclose(features.idf, reference, rtol=1e-6)  # type: ignore[arg-type]


def test_counts_times_idf_equal_scikit_learns() -> None:
    texts = random_texts(100)
    features = fit_text_features(texts, len(WORDS), "count-idf")
    reference = TfidfVectorizer(vocabulary=features.vocabulary).fit_transform(texts)
    np.testing.assert_allclose(features.transform(texts).toarray(), reference.toarray(), rtol=1e-5)


@pytest.mark.parametrize("analyzer", ["visible", "words", "visible+english", "visible+2-3grams"])
@given(st.lists(st.text("ab \u0131é学生s\u00ad.", max_size=12), min_size=2, max_size=12))
def test_terms_are_counted_in_as_many_texts_as_have_them(analyzer: str, texts: list[str]) -> None:
    split = Analyzer.from_name(analyzer)
    try:
        documents = frequent_terms(texts, 50, split, min_documents=1)
    except TrainingDataError:
        assume(False)
    counts = TextFeatures([*documents], analyzer=split).count_terms(texts)
    assert np.bincount(counts.indices).tolist() == [*documents.values()]


def test_pairs_of_words_are_terms_with_half_their_idf() -> None:
    texts = random_texts(100)
    features = fit_text_features(texts, 10_000, max_words=2)
    reference = TfidfVectorizer(ngram_range=(1, 2), min_df=2, norm=None, sublinear_tf=False)
    reference.fit(texts)
    assert sorted(features.vocabulary) == reference.get_feature_names_out().tolist()
    expected = {
        term: idf / 2 if " " in term else idf
        for term, idf in zip(reference.get_feature_names_out(), reference.idf_, strict=True)
    }
    found = dict(zip(features.vocabulary, features.idf, strict=True))  # type: ignore[arg-type]
    assert found == pytest.approx(expected, rel=1e-6)


def test_kept_terms_stay_in_order_with_their_idf() -> None:
    features = fit_text_features(["aa bb cc", "bb cc", "cc aa", "bb"], 10)
    kept = keep_terms(features, np.array([2, 0]))
    assert list(kept.vocabulary) == [features.vocabulary[0], features.vocabulary[2]]
    assert np.array_equal(kept.idf, features.idf[[0, 2]])  # type: ignore[arg-type, index]
    assert kept.transform(["bb aa"]).shape == (1, 2)
    assert (kept.weighting, kept.l2_normalize) == (features.weighting, features.l2_normalize)


def _posts(count: int, first_line: Callable[[int], str]) -> list[str]:
    """Posts of five sentences, each about ten words of its own, after a first line."""
    rng = np.random.default_rng(0)
    return [
        "\n".join([first_line(number), *(_sentence(number, rng) + "." for _ in range(5))])
        for number in range(count)
    ]


def _sentence(number: int, rng: np.random.Generator) -> str:
    return " ".join(f"own{number % 7}x{word}" for word in rng.choice(10, 5, replace=False))


@pytest.mark.parametrize(
    ("first_line", "weight"),
    [
        (lambda number: f"own{number % 7}x1 own{number % 7}x2", 1.0),
        (lambda number: f"user{number} writes in article{number}: hello", 0.0),
    ],
)
def test_summaries_count_if_their_texts_repeat_their_words(
    first_line: Callable[[int], str], weight: float
) -> None:
    # A title alone would be the summary: the sentence after it is, too.
    posts = _posts(60, lambda number: f"{first_line(number)}\n{first_line(number)}")
    features = fit_text_features(posts, 1000, min_documents=1, summary_weight=1.0)
    assert features.summary_weight == weight


def test_summaries_count_in_texts_that_are_few_or_short() -> None:
    def first_line(number: int) -> str:
        return f"user{number} writes:\nand says hello{number}"

    few = _posts(19, first_line)
    short = [post[: post.index(".")] for post in _posts(60, first_line)]
    for texts in (few, short):
        features = fit_text_features(texts, 1000, min_documents=1, summary_weight=0.5)
        assert features.summary_weight == 0.5


def test_summaries_without_a_known_word_do_not_count() -> None:
    lines = _posts(60, lambda _: "-----\n=====")
    features = fit_text_features(lines, 1000, min_documents=1, summary_weight=1.0)
    assert features.summary_weight == 0.0


@given(st.integers(0, 1000))
def test_summaries_tell_by_the_words_that_are_repeated(seed: int) -> None:
    """The shares, word by word, from texts whose sentences are lists."""
    rng = np.random.default_rng(seed)
    sentences = [
        [list(rng.choice(WORDS, rng.integers(1, 5))) for _ in range(rng.integers(5, 9))]
        for _ in range(25)
    ]
    texts = ["\n".join(" ".join(words) for words in text) for text in sentences]
    features = fit_text_features(texts, 1000, min_documents=1)
    assert features.idf is not None
    idf = dict(zip(features.vocabulary, map(float, features.idf), strict=True))

    def share(part: list[list[str]], rest: list[list[str]]) -> float:
        words, others = {w for item in part for w in item}, {w for item in rest for w in item}
        return sum(idf[w] for w in words & others) / sum(idf[w] for w in words)

    summaries = np.mean([share(text[:2], text[2:]) for text in sentences])
    middles = [2 + (len(text) - 2) // 2 for text in sentences]
    others = np.mean(
        [
            share([text[m]], [*text[:m], *text[m + 1 :]])
            for text, m in zip(sentences, middles, strict=True)
        ]
    )
    assume(abs(summaries - 0.75 * others) > 1e-5)
    assert summaries_tell(texts, features) == (summaries > 0.75 * others)


def test_counts_of_terms_forget_the_rarest() -> None:
    counts = TermCounts(2)
    for text in ("red green", "red blue", "red green", "red yellow pink"):
        counts.add(text)
    assert counts.terms() == {"red": 4, "green": 2}
    assert counts.n_texts == 4


def test_codes_of_short_texts_know_words_that_were_not_learned(tmp_path: Path) -> None:
    texts = [f"shared{i % 7} other{i % 5} rare{i}" for i in range(120)]
    data = gather([Document(id=str(i), text=text) for i, text in enumerate(texts)])
    recipe = ClozeRecipe(n_bits=16, epochs=1, max_terms=12)
    train_cloze(data, recipe, tmp_path / "e", progress=False)
    again = load_encoder(tmp_path / "e")
    assert again.features.dimension == 132
    scores = again.logits(["rare77"]) @ np.where(again.logits(texts) > again.thresholds, 1, -1).T
    assert 77 in np.argsort(-scores[0])[:3]


def test_words_of_documents_that_are_not_learned_from_are_known(tmp_path: Path) -> None:
    words = TermCounts(1000)
    for text in ("blue whale", "red fox", "grey heron"):
        words.add(text)
    data = gather([Document(id=str(i), text=f"red{i % 3} fox{i % 4}") for i in range(40)])
    recipe = ClozeRecipe(n_bits=8, epochs=1, max_terms=50)
    encoder = train_cloze(data, recipe, tmp_path / "e", progress=False, words=words).encoder
    features = encoder.features
    assert isinstance(features, TextFeatures)
    assert {"whale", "heron"} <= set(features.vocabulary)


def test_bits_of_words_find_a_text_by_its_words(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"word{n}" for n in rng.choice(300, 6, replace=False)) for _ in range(2000)]
    data = gather([Document(id=str(i), text=text) for i, text in enumerate(texts)])
    recipe = ClozeRecipe(n_bits=64, epochs=1, max_terms=50)
    queries = [" ".join(text.split()[2:5]) for text in texts[:200]]
    found = {}
    for word_bits in (0, 56):
        out = tmp_path / str(word_bits)
        train_cloze(data, replace(recipe, word_bits=word_bits), out, progress=False)
        encoder = load_encoder(out)
        assert (encoder.n_bits, encoder.features.dimension) == (64, 300)
        scores = encoder.query_weights(queries) @ np.where(encoder.margins(texts) > 0, 1, -1).T
        own = scores[np.arange(len(queries)), np.arange(len(queries))]
        found[word_bits] = np.mean((scores > own[:, None] + 1e-5).sum(axis=1) < 3)
    assert found[56] > 0.95
    assert found[56] > found[0] + 0.1


def test_bits_of_words_leave_room() -> None:
    with pytest.raises(RecipeError, match="word_bits is 64; it must be below n_bits, 64"):
        ClozeRecipe(n_bits=64, word_bits=64)


@pytest.mark.parametrize(
    ("n_texts", "text", "n_bits", "expected"),
    [
        (1_000_000, "five words of a text", 64, 48),
        (100_000, "five words of a text", 64, 0),
        (1_000_000, "five words of a text", 128, 0),
        (1_000_000, "five words of a text", 32, 0),
        (1_000_000, " ".join(f"word{n}" for n in range(40)), 64, 0),
    ],
)
def test_codes_of_many_short_texts_have_bits_for_words(
    n_texts: int, text: str, n_bits: int, expected: int
) -> None:
    counts = TermCounts(100)
    for _ in range(10):
        counts.add(text)
    counts.n_texts, counts.n_short = n_texts, n_texts * (counts.n_short // 10)
    assert bits_for_words(n_bits, counts) == expected


@given(st.integers(0, 1000), st.integers(1, 6))
def test_rare_words_have_more_bits(seed: int, n_rare: int) -> None:
    rng = np.random.default_rng(seed)
    counts = TermCounts(100)
    texts = [f"common{i % 4} rare{rng.integers(8)} rare{rng.integers(9)}" for i in range(80)]
    for text in texts:
        counts.add(text)
    features = fit_text_features(texts, n_rare + 1, min_documents=1)
    weight = rng.normal(size=(features.dimension, 8)).astype(np.float32)
    layer = Layer(weight, np.zeros(8, np.float32), "identity")
    encoder = Encoder(features, [layer], np.zeros(8, np.float32), {})
    whole = add_word_bits(encoder, counts, 100, 56, texts)
    assert isinstance(whole.features, TextFeatures)
    assert set(whole.features.vocabulary) == set(counts.terms())
    rows = whole.layers[0].weight[:, 8:]
    assert set(np.unique(rows)) <= {0.0, 1.0}
    order = np.argsort([counts.terms()[term] for term in whole.features.vocabulary])
    assert (np.diff(rows.sum(axis=1)[order]) <= 0).all()
    # A text has every bit of its words, and the learned bits as before.
    codes, before = whole.margins(texts) > 0, encoder.margins(texts)
    row_of = dict(zip(whole.features.vocabulary, rows > 0, strict=True))
    for code, text in zip(codes, texts, strict=True):
        expected = np.any([row_of[term] for term in text.split()], axis=0)
        assert (code[8:] == expected).all()
    if n_rare + 1 == whole.features.dimension:
        assert ((before > 0) == codes[:, :8]).all()


def test_long_texts_get_no_rows_of_rare_words(tmp_path: Path) -> None:
    long = [" ".join(f"word{(i * 7 + j) % 90}" for j in range(40)) for i in range(60)]
    data = gather([Document(id=str(i), text=f"{text} rare{i}") for i, text in enumerate(long)])
    recipe = ClozeRecipe(n_bits=8, epochs=1, max_terms=50)
    assert (
        train_cloze(data, recipe, tmp_path / "e", progress=False).encoder.features.dimension == 50
    )


@pytest.mark.parametrize("n_texts", [30, 200])
def test_quick_directions_span_nearly_what_principal_ones_do(n_texts: int) -> None:
    texts = random_texts(n_texts)
    rows = fit_text_features(texts, 60).transform(texts)
    components, coordinates = quick_directions(rows, 0, 12)
    assert components.shape == (12, rows.shape[1])
    np.testing.assert_allclose(components @ components.T, np.eye(12), atol=1e-4)
    np.testing.assert_allclose(coordinates, rows @ components.T, atol=1e-5)
    sizes = np.linalg.norm(coordinates, axis=0)
    expected = np.linalg.svd(rows.toarray(), compute_uv=False)[:12]
    np.testing.assert_allclose(sizes, expected, rtol=0.02)


def test_quick_directions_of_few_different_rows() -> None:
    texts = ["aa bb", "cc dd"] * 10
    rows = fit_text_features(texts, 60).transform(texts)
    components, coordinates = quick_directions(rows, 0, 3)
    # There are two directions; the third is one of zeros.
    np.testing.assert_allclose(coordinates @ components, rows.toarray(), atol=1e-5)
    assert np.isfinite(components).all()
