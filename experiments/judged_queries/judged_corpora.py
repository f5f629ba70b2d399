"""The corpora of the experiment, with judged queries, titles or paraphrases as queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hummingbit.corpus.document import Document, DocumentError
from hummingbit.corpus.named_sets import (
    find_file,
    load_dataset,
    load_qrels,
    read_json_records,
)
from hummingbit.corpus.qrels import Qrels
from hummingbit.encoder.text_features import title_of
from hummingbit.evaluation.relevance import Relevance, relevance_by_qrels
from hummingbit.training.data import TrainingData, gather

TITLES, N_TITLES = "titles", 200
DEVELOPMENT = "queries-development"
# The files of pairs for development and for the test.
PAIRS: Mapping[str, tuple[str, str]] = {
    "qqp": ("qqp_pairs/dev.pairs.jsonl.xz", "qqp_pairs/test.pairs.jsonl.xz"),
    "mrpc": ("mrpc_pairs/train.pairs.jsonl.xz", "mrpc_pairs/test.pairs.jsonl.xz"),
}
N_PARAPHRASES = 1000


class Pair(NamedTuple):
    """Two texts, and whether a person said that they mean the same."""

    first: str
    second: str
    is_paraphrase: bool


def parse_pair(record: object) -> Pair:
    """Return a pair of JSON with `text1`, `text2` and a `label`, 1 for paraphrases.

    Raises:
        DocumentError: if a field is something else.
    """
    fields = record if isinstance(record, Mapping) else {}
    for name in ("text1", "text2"):
        if not isinstance(fields.get(name), str):
            raise DocumentError(name, f"must be a text, not {fields.get(name)!r}")
    if fields.get("label") not in {0, 1}:
        raise DocumentError("label", f"must be 0 or 1, not {fields.get('label')!r}")
    return Pair(fields["text1"], fields["text2"], fields["label"] == 1)


@dataclass(frozen=True)
class Corpus:
    """Documents, judged queries, and the documents relevant to each query."""

    name: str
    data: TrainingData
    query_list: list[Document]
    relevance: Relevance

    @property
    def documents(self) -> list[str]:
        """The texts."""
        return list(self.data.inputs)

    @property
    def queries(self) -> list[str]:
        """The texts of the queries."""
        return [query.text or "" for query in self.query_list]


def read_corpus(name: str, split: str, data_root: Path | None) -> Corpus:
    """Read the documents and the judged queries of a data set.

    Raises:
        ReadError: if they cannot be read.
    """
    read = _read_paraphrases if name in PAIRS else _read_judged
    documents, queries, qrels = read(name, split, data_root)
    relevance, _ = relevance_by_qrels(
        qrels, [query.id for query in queries], [document.id for document in documents]
    )
    return Corpus(name, gather(documents), queries, relevance)


def _read_judged(
    name: str, split: str, data_root: Path | None
) -> tuple[list[Document], list[Document], Qrels]:
    documents = list(load_dataset(name, "documents", data_root))
    queries, qrels = _draw_titles(documents) if split == TITLES else ([], {})
    if not queries:
        judged = load_qrels(name, split, data_root)
        used_split = "queries" if judged is None else split
        queries = list(load_dataset(name, used_split, data_root))
        qrels = judged or load_qrels(name, used_split, data_root) or {}
    return documents, queries, qrels


def _read_paraphrases(
    name: str, split: str, data_root: Path | None
) -> tuple[list[Document], list[Document], Qrels]:
    """Return the second texts of all pairs, and first texts that search for their paraphrases.

    The queries are first texts of the test's or of the development's pairs. None of them is a
    document, and each has a paraphrase.
    """
    development, test = (
        list(read_json_records(find_file(name, file, data_root), parse_pair))
        for file in PAIRS[name]
    )
    ids = {
        text: f"document-{number}"
        for number, text in enumerate(dict.fromkeys(pair.second for pair in (*development, *test)))
    }
    answers: dict[str, dict[str, int]] = {}
    for pair in development if split == DEVELOPMENT else test:
        if pair.is_paraphrase and pair.first not in ids:
            answers.setdefault(pair.first, {})[ids[pair.second]] = 1
    searched = list(answers)[:N_PARAPHRASES]
    documents = [Document(id=id_, text=text) for text, id_ in ids.items()]
    queries = [Document(id=f"query-{number}", text=text) for number, text in enumerate(searched)]
    return documents, queries, {query.id: answers[query.text or ""] for query in queries}


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
