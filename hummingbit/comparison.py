"""What each ranking of a collection finds, measured on documents that its encoder never saw.

Two jobs are told apart. *The same label*: a whole document is the query, and what shares a label
with it is right. *The document itself*: a few words of one of its sentences are the query, and the
document they were taken from is right, as when a person looks for what they once read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corpus.document import Document
from encoder.scripts import is_spaceless
from evaluation.evaluation_input import RelevanceSettings
from evaluation.rankings import evaluate_rankings
from index.backend import CollectionBackend
from index.payload_labels import labels_of
from index.records import Query

DEPTH = 10
KNOWN_ITEMS = ("Success@10", "MRR@10")
LEAST_WORDS, MOST_WORDS = 2, 6
CLASSIFIER = "classifier baseline"


@dataclass(frozen=True)
class Figures:
    """How well one method does; each is a mean over queries, from 0 to 1, or None."""

    same_label: float | None = None
    """P@10: of the ten first documents, the share with a label of the query's."""
    found: float | None = None
    """Success@10: how often the document itself is among the ten first."""
    reciprocal_rank: float | None = None
    """MRR@10: one over its rank, 0 beyond the tenth."""


def precision_by_label(
    collection: CollectionBackend, queries: Sequence[Document], ranking: str
) -> float | None:
    """Return P@10 of `queries`, whole documents that `collection` does not hold.

    Returns None where none of them has a label.
    """
    labelled = [one for one in queries if one.labels]
    if not labelled:
        return None
    searches = [Query(text=one.text) for one in labelled]
    hits = collection.search(searches, DEPTH, ranking=ranking, with_payload=True).hits
    right = [
        sum(not {*labels_of(hit.payload or {})}.isdisjoint(one.labels) for hit in found)
        for one, found in zip(labelled, hits, strict=True)
    ]
    return float(np.mean(right)) / DEPTH


def words_of_sentences(documents: Sequence[Document], seed: int = 0) -> list[str]:
    """Return a query for each document: two to six words of one of its sentences, in their order.

    Text without spaces between words gives a run of twice as many characters, and a document
    without two words its whole text.
    """
    from training.queries import split_sentences  # noqa: PLC0415 - torch takes a second

    rng = np.random.default_rng(seed)
    texts = [document.text or "" for document in documents]
    return [_words_of(text, split_sentences(text), rng) for text in texts]


def _words_of(text: str, sentences: list[str], rng: np.random.Generator) -> str:
    if is_spaceless(text):
        sentence = sentences[rng.integers(len(sentences))] if sentences else text
        count = int(rng.integers(2 * LEAST_WORDS, 2 * MOST_WORDS + 1))
        start = int(rng.integers(max(1, len(sentence) - count + 1)))
        return sentence[start : start + count]
    longer = [words for one in sentences if len(words := one.split()) >= LEAST_WORDS]
    if not longer:
        return text
    words = longer[rng.integers(len(longer))]
    count = min(len(words), int(rng.integers(LEAST_WORDS, MOST_WORDS + 1)))
    places = np.sort(rng.permutation(len(words))[:count])
    return " ".join(words[place] for place in places)


def known_items(
    collection: CollectionBackend, queries: Mapping[str, str], rankings: Iterable[str]
) -> dict[str, tuple[float, float]]:
    """Return Success@10 and MRR@10 by ranking; `queries` are texts by the id of the answer."""
    searches = [Document(id=id_, text=text) for id_, text in queries.items()]
    settings = RelevanceSettings(qrels={id_: {id_: 1} for id_ in queries})
    found = evaluate_rankings(collection, searches, rankings, KNOWN_ITEMS, settings)
    return {
        ranking: (one.metrics["Success@10"], one.metrics["MRR@10"])
        for ranking, one in found.items()
    }


def verdict(figures: Mapping[str, Figures]) -> str:
    """Say in plain words which ranking to use, and whether codes pay on this corpus."""
    rankings = {name: one for name, one in figures.items() if one.reciprocal_rank is not None}
    best = max(rankings, key=lambda name: rankings[name].reciprocal_rank or 0.0)
    said = [f"Words from a document find it best by {best}."]
    codes = max(
        rankings[n].reciprocal_rank or 0 for n in ("hamming", "asymmetric") if n in rankings
    )
    words = rankings["bm25"].reciprocal_rank if "bm25" in rankings else None
    if words is not None and codes >= words:
        said.append("The codes alone find documents as well as a word index does.")
    elif words is not None:
        said.append(
            "The codes alone find fewer documents than a word index does, so keep the texts stored:"
            " hybrid ranks by both."
        )
    return " ".join([*said, *_by_label(figures)])


def _by_label(figures: Mapping[str, Figures]) -> list[str]:
    labelled = {name: one.same_label for name, one in figures.items() if one.same_label is not None}
    classifier = labelled.pop(CLASSIFIER, None)
    if not labelled or classifier is None:
        return []
    best = max(labelled, key=lambda name: labelled[name])
    if labelled[best] + 0.01 >= classifier:
        return [
            f"Documents of the same label are found best by {best}, no worse than by a classifier."
        ]
    return [
        f"A classifier finds more documents of the same label ({classifier:.3f}) than {best} does"
        f" ({labelled[best]:.3f}). If the label is all that matters, use one.",
        "More labels or more bits may close the gap.",
    ]
