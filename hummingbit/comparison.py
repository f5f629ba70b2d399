"""Compares the rankings of a collection on documents that its encoder was not trained on.

There are two tasks. *Same label*: the query is a whole document, and the documents that share a
label with it are relevant. *Known item*: the query is a few words of one sentence of a document,
and that document is relevant, as when a person looks for something read before. A person remembers
only some of the words, so every other word is replaced by its neighbour in latent semantics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.encoder.analyzers import VISIBLE, is_spaceless
from hummingbit.encoder.text_features import split_sentences
from hummingbit.evaluation.baselines import SOFT_CLASS_SCORES
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.evaluation.result import Evaluation, PerQuery
from hummingbit.evaluation.significance import format_probability, holm, permutation_test
from hummingbit.foundation.arrays import unit_rows
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.filters import Exists, Or
from hummingbit.index.rankings import ASYMMETRIC, BM25, HAMMING, HYBRID
from hummingbit.index.records import Query, labels_of

DEPTH = 10
KNOWN_ITEMS = ("Success@10", "MRR@10")
LEAST_WORDS, MOST_WORDS = 2, 6
CLASSIFIER = "classifier baseline"
CHANCE = "chance"
"""Documents in any order."""
LEAST_GAIN = 0.02
"""With less above chance, P@10 says nothing about a ranking."""
FEW_QUERIES = 100
LEAST_DOCUMENTS, MAX_TERMS, DIMENSIONS, NEIGHBOURS = 3, 20_000, 64, 10
"""Of latent semantics: terms are in so many texts, at most so many, in so many dimensions."""
_HAS_LABEL = Or((Exists("label"), Exists("labels")))


@dataclass(frozen=True)
class Figures:
    """The figures of one method: means over queries from 0 to 1, or None where not measured."""

    same_label: float | None = None
    """P@10: the share of the first ten documents with a label of the query."""
    found: float | None = None
    """Success@10: how often the known item is among the first ten."""
    reciprocal_rank: float | None = None
    """MRR@10: the mean of one over the known item's rank, 0 beyond the tenth."""


def precision_by_label(
    collection: CollectionBackend, queries: Sequence[Document], ranking: str
) -> float | None:
    """Return P@10 of `queries`, whole documents that are not in `collection`.

    Only documents with a label are ranked, since it is not known whether the others are relevant.
    Returns None if no query has a label.
    """
    labelled = [query for query in queries if query.labels]
    if not labelled:
        return None
    searches = [Query(text=query.text) for query in labelled]
    lists = collection.search(
        searches, DEPTH, ranking=ranking, filter=_HAS_LABEL, with_payload=True
    ).hits
    relevant = [
        sum(not {*labels_of(hit.payload or {})}.isdisjoint(query.labels) for hit in hits)
        for query, hits in zip(labelled, lists, strict=True)
    ]
    return float(np.mean(relevant)) / DEPTH


def chance_by_label(documents: Sequence[Document], queries: Sequence[Document]) -> float:
    """Return the expected P@10 of `queries` if labelled `documents` are ranked at random."""
    counts = Counter(frozenset(document.labels) for document in documents if document.labels)
    relevant = [
        sum(count for labels, count in counts.items() if not labels.isdisjoint(query.labels))
        for query in queries
    ]
    return float(np.mean(relevant)) / counts.total()


def words_of_sentences(documents: Sequence[Document], seed: int = 0) -> list[str]:
    """Return a query for each document: two to six words of one of its sentences, in order.

    If the text has no spaces between words, the query is a run of twice as many characters. If no
    sentence has two words, it is the whole text.
    """
    rng = np.random.default_rng(seed)
    texts = [document.text or "" for document in documents]
    return [_words_of(text, split_sentences(text), rng) for text in texts]


def _words_of(text: str, sentences: list[str], rng: np.random.Generator) -> str:
    if is_spaceless(text):
        sentence = sentences[rng.integers(len(sentences))] if sentences else text
        count = int(rng.integers(2 * LEAST_WORDS, 2 * MOST_WORDS + 1))
        start = int(rng.integers(max(1, len(sentence) - count + 1)))
        return sentence[start : start + count]
    candidates = [words for sentence in sentences if len(words := sentence.split()) >= LEAST_WORDS]
    if not candidates:
        return text
    words = candidates[rng.integers(len(candidates))]
    count = min(len(words), int(rng.integers(LEAST_WORDS, MOST_WORDS + 1)))
    positions = np.sort(rng.permutation(len(words))[:count])
    return " ".join(words[position] for position in positions)


def paraphrased(queries: Sequence[str], documents: Sequence[Document]) -> list[str]:
    """Return each query with every other word replaced by its neighbour in latent semantics.

    `documents` has the answer of each query, and texts from whose TF-IDF matrix X = U S Vᵀ the
    neighbours come: the terms of the nearest rows of V S, by cosine, that are not in the answer.
    Words that have no such neighbour stay. Source: Deerwester et al. 1990, "Indexing by Latent
    Semantic Analysis".
    """
    # These imports take a second.
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415

    texts = [document.text or "" for document in documents]
    vectorizer = TfidfVectorizer(
        analyzer=VISIBLE.terms, min_df=LEAST_DOCUMENTS, max_features=MAX_TERMS
    )
    try:
        matrix = vectorizer.fit_transform(texts)
    except ValueError:  # no term is in so many texts
        return list(queries)
    n_dimensions = min(DIMENSIONS, min(matrix.shape) - 1)
    if n_dimensions < 2:
        return list(queries)
    svd = TruncatedSVD(n_dimensions, random_state=0).fit(matrix)
    terms = unit_rows((svd.components_ * svd.singular_values_[:, None]).T)
    names, row_of = vectorizer.get_feature_names_out(), vectorizer.vocabulary_
    rng = np.random.default_rng(0)
    results = []
    for query, text in zip(queries, texts, strict=False):
        held, words = set(VISIBLE.terms(text)), query.split()
        for at in range(int(rng.integers(2)), len(words), 2):
            known = [term for term in VISIBLE.terms(words[at]) if term in row_of]
            if not known:
                continue
            nearest = np.argsort(-(terms @ terms[row_of[known[0]]]), kind="stable")[:NEIGHBOURS]
            others = [name for name in names[nearest] if name not in held]
            words[at] = others[0] if others else words[at]
        results.append(" ".join(words))
    return results


def known_items(
    collection: CollectionBackend, queries: Mapping[str, str], rankings: Iterable[str]
) -> dict[str, Evaluation]:
    """Return Success@10 and MRR@10 by ranking; `queries` are texts by the id of the known item."""
    searches = [Document(id=id_, text=text) for id_, text in queries.items()]
    settings = RelevanceSettings(qrels={id_: {id_: 1} for id_ in queries})
    return evaluate_rankings(collection, searches, rankings, KNOWN_ITEMS, settings)


@dataclass(frozen=True)
class Choice:
    """The ranking to use, by a test.

    It is the default unless another ranking is significantly better by the two-sided paired
    permutation test on each query, with Holm's correction over all others. `rival` is the ranking
    with the highest mean where it differs from the default, `lead` how far it is ahead, and
    `p_value` that of the test. `metric` names the values.
    """

    ranking: str
    rival: str | None = None
    lead: float = 0.0
    p_value: float = 1.0
    metric: str = "nDCG@10"

    def advice(self) -> str:
        """Return which ranking to use, and why by the test, as the end of a sentence."""
        if self.rival is None:
            return f"use {self.ranking}: on these queries it is the best, and searches use it."
        by = f"by {self.lead:.3f} in {self.metric} ({format_probability(self.p_value)})"
        if self.ranking == self.rival:
            return f"use {self.rival}: it beats {HYBRID} {by}, and searches use it."
        return (
            f"use {self.ranking}, as searches do: no ranking is significantly better, although"
            f" {self.rival} is ahead {by}."
        )


def choose_ranking(
    values: Mapping[str, PerQuery],
    default: str = HYBRID,
    alpha: float = 0.05,
    metric: str = "nDCG@10",
) -> Choice:
    """Choose among rankings by their values for each query, float64[Q]."""
    means = {name: float(per_query.mean()) for name, per_query in values.items()}
    best = max(means, key=lambda name: (means[name], name == default))
    if best == default or default not in values:
        return Choice(best, metric=metric)
    others = [name for name in values if name != default]
    p_values = holm([permutation_test(values[name], values[default]) for name in others])
    p_value = p_values[others.index(best)]
    chosen = best if p_value <= alpha else default
    return Choice(chosen, best, means[best] - means[default], p_value, metric)


def verdict(
    figures: Mapping[str, Figures],
    choice: Choice,
    need: str,
    n_queries: int,
) -> str:
    """Return sentences that say which ranking to use, and whether codes pay off on this corpus.

    The `choice` is that of :func:`choose_ranking`, and `need` begins the sentence that says what it
    is for. If there are fewer than :data:`FEW_QUERIES`, the last sentence says which differences
    are not significant: those below two standard errors of a share of one half, 2 · √(½ · ½ / n).
    """
    sentences = [f"{need}, {choice.advice()}"]
    shares = {name: measured.found or 0.0 for name, measured in figures.items()}
    codes = max(shares.get(name, 0.0) for name in (HAMMING, ASYMMETRIC))
    if BM25 in shares and codes >= shares[BM25]:
        sentences.append("The codes alone find documents as well as a word index does.")
    elif BM25 in shares:
        both = f": {HYBRID} ranks by both" if choice.ranking == HYBRID else ""
        sentences.append(
            "The codes alone find fewer documents than a word index does, so keep the texts stored"
            f"{both}."
        )
    sentences += _label_sentences(figures)
    if n_queries < FEW_QUERIES:
        chance = n_queries**-0.5
        few = f"With only {n_queries} documents held out"
        sentences.append(f"{few}, differences below {chance:.2f} are not significant.")
    return " ".join(sentences)


def _label_sentences(figures: Mapping[str, Figures]) -> list[str]:
    labelled = {
        name: measured.same_label
        for name, measured in figures.items()
        if measured.same_label is not None
    }
    classifiers = {CLASSIFIER: "A classifier finds", SOFT_CLASS_SCORES: "Soft class scores find"}
    known = {name: labelled.pop(name) for name in classifiers if name in labelled}
    chance = labelled.pop(CHANCE, 0.0)
    if not labelled or not known:
        return []
    strongest = max(known, key=lambda name: known[name])
    classifier = known[strongest]
    best = max(labelled, key=lambda name: labelled[name])
    if max(labelled[best], classifier) < chance + LEAST_GAIN:
        return [
            f"No ranking finds more documents with the same label than chance does ({chance:.3f}):"
            " nearly all documents have one label, each label is on a few documents only, or the"
            " texts do not tell the labels."
        ]
    if labelled[best] + 0.01 >= classifier:
        is_better = labelled[best] > classifier + 0.01
        does = "finds more of them than" if is_better else "does as well as"
        return [f"To find documents with the same label, use {best}: it {does} a classifier."]
    ours = f"than {best} does ({labelled[best]:.3f})"
    return [
        f"{classifiers[strongest]} more documents of the same label ({classifier:.3f}) {ours}."
        " If only the label matters, use a classifier.",
        "More labels or more bits may close the gap.",
    ]
