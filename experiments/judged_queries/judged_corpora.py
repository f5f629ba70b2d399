"""The corpora of the experiment, with judged queries or with titles as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpus.datasets import load_dataset, load_qrels
from corpus.document import Document
from corpus.named_sets.text_sets import Qrels
from evaluation.qrels import relevance_by_qrels
from evaluation.relevance import Relevance
from index.lexical.summaries import title_of
from training.data import TrainingData, gather

TITLES, N_TITLES = "titles", 200


@dataclass(frozen=True)
class Corpus:
    """Documents, judged queries, and the documents relevant to each query."""

    name: str
    data: TrainingData
    queries: list[str]
    relevance: Relevance

    @property
    def documents(self) -> list[str]:
        """The texts."""
        return list(self.data.inputs)


def read_corpus(name: str, split: str, data_root: Path | None) -> Corpus:
    """Read the documents and the judged queries of a data set.

    Raises:
        ReadError: if they cannot be read.
    """
    documents = list(load_dataset(name, "documents", data_root))
    queries, qrels = _draw_titles(documents) if split == TITLES else ([], {})
    if not queries:
        judged = load_qrels(name, split, data_root)
        used_split = "queries" if judged is None else split
        queries = list(load_dataset(name, used_split, data_root))
        qrels = judged or load_qrels(name, used_split, data_root) or {}
    relevance, _ = relevance_by_qrels(
        qrels, [query.id for query in queries], [document.id for document in documents]
    )
    return Corpus(name, gather(documents), [query.text or "" for query in queries], relevance)


def _draw_titles(documents: Sequence[Document]) -> tuple[list[Document], Qrels]:
    """Draw titles as queries, each with the documents that have it as its answers."""
    ids_of: dict[str, list[str]] = {}
    for document in documents:
        title = title_of(document.text or "")
        if title is not None:
            ids_of.setdefault(title, []).append(document.id)
    titles = sorted(ids_of)
    drawn = np.random.default_rng(0).permutation(len(titles))[:N_TITLES]
    queries = [Document(id=f"title-{number}", text=titles[number]) for number in drawn.tolist()]
    return queries, {query.id: dict.fromkeys(ids_of[query.text or ""], 1) for query in queries}
