"""A family of questions: a corpus, the questions of one half, and their relevant documents."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.judged_queries.judged_corpora import PAIRS, Pair, parse_pair
from hummingbit.corpus.docstrings import read_docstrings
from hummingbit.corpus.document import Document
from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.named_sets import find_file, load_dataset, read_json_records
from hummingbit.corpus.qrels import Qrels

HALVES = ("choose", "report")
FOLDER = Path(__file__).parent
DEBIAN = "HUMMINGBIT_DEBIAN"
"""The environment variable that names the file that `experiments.questions.debian` writes."""

N_PARAPHRASES = 300
_SEED = 0


@dataclass(frozen=True)
class Question:
    """A query, the ids of the documents that answer it, and how it was written.

    The first relevant document is the one that the question was written for. The style is
    `natural`; `reworded`, without a content word of a relevant document; or `people`.
    """

    id: str
    query: str
    relevant: tuple[str, ...]
    style: str


@dataclass(frozen=True)
class Family:
    """Documents, questions, and the documents relevant to each question."""

    name: str
    documents: list[Document]
    questions: list[Question]

    @property
    def queries(self) -> list[Document]:
        """The questions as queries."""
        return [Document(id=question.id, text=question.query) for question in self.questions]

    @property
    def qrels(self) -> Qrels:
        """The relevant documents by the id of a question, all of grade 1."""
        return {question.id: dict.fromkeys(question.relevant, 1) for question in self.questions}


def load_family(name: str, half: str, data_root: Path | None = None) -> Family:
    """Load the corpus and the questions of one half, `choose` or `report`.

    `data_root` is the folder of research data; without it, `HUMMINGBIT_DATA` names it. Relevant
    documents that this corpus lacks are left out, and so are questions that have no others, as
    where a package is not installed.

    Raises:
        ReadError: if there is no such family or half, or its corpus is not here.
    """
    if name not in FAMILIES:
        raise ReadError(f"there is no family {name!r}; the families are {', '.join(FAMILIES)}")
    if half not in HALVES:
        raise ReadError(f"there is no half {half!r}; the halves are {', '.join(HALVES)}")
    if name == "quora":
        return _read_paraphrases(half, data_root)
    documents = read_documents(name, data_root)
    ids = {document.id for document in documents}
    questions = [
        Question(question.id, question.query, relevant, question.style)
        for question in read_questions(name, half)
        if (relevant := tuple(id_ for id_ in question.relevant if id_ in ids))
    ]
    return Family(name, documents, questions)


def read_questions(name: str, half: str) -> list[Question]:
    """Return all questions of a half, without their corpus."""
    lines = (FOLDER / f"{name}.{half}.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [
        Question(record["id"], record["query"], tuple(record["relevant"]), record["style"])
        for record in records
    ]


def read_documents(name: str, data_root: Path | None = None) -> list[Document]:
    """Return the documents of a corpus that questions were written for, in a fixed order.

    Raises:
        ReadError: if it is not here.
    """
    return list(CORPORA[name](data_root))


def _read_docstrings(_: Path | None) -> Iterable[Document]:
    return read_docstrings(None)


def _read_debian(_: Path | None) -> Iterable[Document]:
    path = os.environ.get(DEBIAN)
    if not path:
        writer = "python -m experiments.questions.debian FILE"
        raise ReadError(f"debian: set {DEBIAN} to the file that {writer} writes")
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ReadError(f"debian: {path}: {error.strerror or error}") from None
    return [Document(**json.loads(line)) for line in lines if line]


def _read_dbpedia(data_root: Path | None) -> Iterable[Document]:
    for split in ("train", "test"):
        yield from load_dataset("dbpedia14", split, data_root)


CORPORA: Mapping[str, Callable[[Path | None], Iterable[Document]]] = {
    "docstrings": _read_docstrings,
    "debian": _read_debian,
    "dbpedia": _read_dbpedia,
}
FAMILIES = (*CORPORA, "quora")


def _read_paraphrases(half: str, data_root: Path | None) -> Family:
    """Return questions of people, and the second questions of all of Quora's pairs as documents.

    Relevant are the second questions that a person called duplicates of the first. Questions to
    choose with are drawn from the pairs for development, those to report with from the test's. None
    of them is a document itself, or in both files.
    """
    pairs: dict[str, list[Pair]] = {
        half_: list(read_json_records(find_file("qqp", file, data_root), parse_pair))
        for half_, file in zip(HALVES, PAIRS["qqp"], strict=True)
    }
    everything = [pair for half_ in HALVES for pair in pairs[half_]]
    seconds = dict.fromkeys(pair.second for pair in everything)
    ids = {text: f"quora-{number}" for number, text in enumerate(seconds)}
    answers: dict[str, dict[str, None]] = {}
    for pair in everything:
        if pair.is_paraphrase and pair.first not in ids:
            answers.setdefault(pair.first, {})[ids[pair.second]] = None
    firsts = {half_: {pair.first for pair in pairs[half_]} for half_ in HALVES}
    elsewhere = set.union(*(firsts[half_] for half_ in HALVES if half_ != half))
    candidates = sorted((firsts[half] - elsewhere) & answers.keys())
    drawn = np.random.default_rng(_SEED).permutation(len(candidates))[:N_PARAPHRASES]
    questions = [
        Question(f"quora-{half}-{number:03d}", text, tuple(answers[text]), "people")
        for number, text in enumerate(candidates[position] for position in sorted(drawn.tolist()))
    ]
    documents = [Document(id=id_, text=text) for text, id_ in ids.items()]
    return Family("quora", documents, questions)
