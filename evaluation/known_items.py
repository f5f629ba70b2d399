"""Queries made of documents, whose right answers are therefore known.

*Same label*: the query is a whole document, and the documents that share a label with it are
relevant. *Known item*: the query is a few words of one sentence of a document, and that document is
relevant, as when a person looks for something read before. A person remembers only some of the
words, so every other word is replaced by a related one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.encoder.analyzers import VISIBLE, is_spaceless
from hummingbit.encoder.text_features import split_sentences
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.evaluation.result import Evaluation
from hummingbit.foundation.arrays import unit_rows
from hummingbit.index.backend import CollectionBackend

SAME_LABEL = "P@10"
"""How many of the first ten hits share a label with the query."""
FOUND, RECIPROCAL_RANK = "Success@10", "MRR@10"
"""Whether the known item is among the first ten hits, and one over its rank."""
LEAST_WORDS, MOST_WORDS = 2, 6
LEAST_DOCUMENTS, MAX_TERMS, DIMENSIONS, NEIGHBOURS = 3, 20_000, 64, 10
"""Of latent semantics: terms are in so many texts, at most so many, in so many dimensions."""


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


def paraphrased(
    queries: Sequence[str],
    documents: Sequence[Document],
    near: Callable[[str], Iterable[str]] | None = None,
) -> list[str]:
    """Return each query with every other word replaced by a term of documents that is related.

    `documents` has the answer of each query, and texts from whose TF-IDF matrix X = U S Vᵀ related
    terms come: those of the nearest rows of V S, by cosine, that are not in the answer. Words that
    have no such term stay. Source: Deerwester et al. 1990, "Indexing by Latent Semantic Analysis".

    Codes that were learned from the corpus know its latent semantics. So every second query takes
    the terms that `near` returns of a term, nearest first, if it is given: what other codes know.
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
    for number, (query, text) in enumerate(zip(queries, texts, strict=False)):
        held, words = set(VISIBLE.terms(text)), query.split()
        for at in range(int(rng.integers(2)), len(words), 2):
            known = [term for term in VISIBLE.terms(words[at]) if term in row_of]
            if not known:
                continue
            if near is not None and number % 2:
                related = [term for term in near(known[0]) if term in row_of]
            else:
                nearest = np.argsort(-(terms @ terms[row_of[known[0]]]), kind="stable")
                related = names[nearest[:NEIGHBOURS]].tolist()
            others = [name for name in related if name not in held]
            words[at] = others[0] if others else words[at]
        results.append(" ".join(words))
    return results


def known_items(
    collection: CollectionBackend, queries: Mapping[str, str], rankings: Iterable[str]
) -> dict[str, Evaluation]:
    """Return whether and where each ranking finds the known items, by :data:`FOUND` and
    :data:`RECIPROCAL_RANK`; `queries` are texts by the id of the item.
    """
    searches = [Document(id=id_, text=text) for id_, text in queries.items()]
    settings = RelevanceSettings(qrels={id_: {id_: 1} for id_ in queries})
    return evaluate_rankings(collection, searches, rankings, [FOUND, RECIPROCAL_RANK], settings)


def same_label(
    collection: CollectionBackend, queries: Sequence[Document], rankings: Iterable[str]
) -> dict[str, Evaluation]:
    """Return :data:`SAME_LABEL` by ranking; `queries` are stored documents, each with a label.

    Only documents with a label are ranked, since it is not known whether the others are relevant.
    """
    settings = RelevanceSettings(exclude_self=True, only_labelled=True)
    return evaluate_rankings(collection, queries, rankings, [SAME_LABEL], settings)
