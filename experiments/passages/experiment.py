"""Sentences from the middle of books: how many are found, with passages and without.

The books are synthetic. The vocabulary has Zipf's frequencies, and each book draws a third of its
words from a few topics of its own. A query is a sentence from the middle half of a book, in other
words a known item: it is found if the book is among the first ten hits. Words drop out of a query
with ``--dropped``. The encoder is ITQ of the latent semantics of passages in both cases, because
sixty books are too few to learn from. Bytes are those of the store, and the
milliseconds those of a search for ten hits, the median of all queries.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from experiments.result_tables import Record, print_table, save_records
from hummingbit.commands.printing import add_json_or_former_file
from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import LinearRecipe
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.passages import Passages, passage_documents
from hummingbit.index.records import Query
from hummingbit.training.data import gather
from hummingbit.training.linear_codes import train_linear

SUMMARY = "sentences from the middle of long texts, found with passages and without"
HITS = 10
RANKINGS = ("bm25", "hybrid", "asymmetric", "hamming")
VOCABULARY, TOPICS, WORDS_OF_TOPIC = 30_000, 40, 600
TRAINED_ON = 10_000
"""The most passages that an encoder learns from."""


@dataclass(frozen=True)
class Question:
    """A sentence of a book."""

    text: str
    id: str


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    for name, default, help_text in (
        ("--books", 60, "books"),
        ("--words", 50_000, "words of a book"),
        ("--queries", 300, "sentences to find"),
        ("--bits", 64, "bits in a code"),
        ("--seed", 0, "seed of the books and sentences"),
    ):
        parser.add_argument(
            name, type=int, default=default, metavar="N", help=f"{help_text} (default: {default})"
        )
    parser.add_argument(
        "--dropped",
        type=float,
        default=0.3,
        metavar="SHARE",
        help="share of the words of a query that are left out (default: 0.3)",
    )
    add_json_or_former_file(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print how many sentences each ranking finds, with passages and without."""
    rng = np.random.default_rng(args.seed)
    books = [*make_books(rng, args.books, args.words)]
    questions = ask(rng, books, args.queries, args.dropped)
    records: list[Record] = []
    for passages in (None, Passages()):
        with TemporaryDirectory() as path, DataFolder(Path(path), writable=True) as folder:
            train(folder, books, args.bits)
            name = "documents" if passages is None else "passages"
            collection = folder.create_collection(name, encoder="itq", passages=passages)
            collection.upsert(books)
            size = collection.bytes_on_disk() / len(books)
            units = collection.stats()["n_passages"] or len(books)
            for ranking in RANKINGS:
                share, milliseconds = measure(collection, questions, ranking)
                found = {"searched by": name, "ranking": ranking, f"in {HITS}": share}
                records.append({**found, "ms": milliseconds, "codes": units, "bytes a book": size})
    rows = [
        [*list(record.values())[:2], f"{share:.3f}", f"{ms:.1f}", f"{codes:,}", f"{size:,.0f}"]
        for record in records
        for share, ms, codes, size in [list(record.values())[2:]]
    ]
    print_table([*records[0]], rows)
    save_records(args, records)
    return 0


def make_books(rng: np.random.Generator, count: int, n_words: int) -> Iterator[Document]:
    """Yield books of sentences of 6 to 24 words, in paragraphs."""
    letters = np.array(list("abcdefghilmnoprstuvz"))
    vocabulary = np.unique(
        ["".join(rng.choice(letters, rng.integers(3, 10))) for _ in range(VOCABULARY)]
    )
    rng.shuffle(vocabulary)
    zipf = 1 / np.arange(1, len(vocabulary) + 1)
    common = zipf / zipf.sum()
    topics = [rng.choice(len(vocabulary), WORDS_OF_TOPIC, replace=False) for _ in range(TOPICS)]
    for number in range(count):
        own = np.concatenate([topics[at] for at in rng.choice(TOPICS, 3, replace=False)])
        words = rng.choice(len(vocabulary), n_words, p=common)
        is_own = rng.random(n_words) < 1 / 3
        words[is_own] = rng.choice(own, int(is_own.sum()))
        ends = np.cumsum(rng.integers(6, 25, n_words // 6))
        sentences = [" ".join(part) for part in np.split(vocabulary[words], ends) if len(part)]
        text = "".join(
            f"{sentence.capitalize()}.{chr(10) if at % 8 == 7 else ' '}"
            for at, sentence in enumerate(sentences)
        )
        yield Document(f"book-{number}", text)


def ask(
    rng: np.random.Generator, books: list[Document], count: int, dropped: float
) -> list[Question]:
    """Return sentences from the middle halves of books, without a share of their words."""
    questions = []
    for _ in range(count):
        book = books[rng.integers(len(books))]
        sentences = (book.text or "").replace("\n", " ").split(". ")
        middle = sentences[len(sentences) // 4 : -len(sentences) // 4]
        words = middle[rng.integers(len(middle))].split()
        kept = [word for word in words if rng.random() >= dropped] or words
        questions.append(Question(" ".join(kept), book.id))
    return questions


def train(folder: DataFolder, books: list[Document], bits: int) -> None:
    """Train an encoder on a sample of the passages of the books."""
    documents = passage_documents(books, Passages())
    step = -(-len(documents) // TRAINED_ON)
    recipe = LinearRecipe(method="itq", n_bits=bits)
    train_linear(gather(documents[::step]), recipe, folder.path / "encoders" / "itq")


def measure(
    collection: CollectionBackend, questions: list[Question], ranking: str
) -> tuple[float, float]:
    """Return the share of questions whose book is among the first hits, and the median time."""
    found, times = 0, []
    for question in questions:
        began = time.perf_counter()
        result = collection.search([Query(text=question.text)], HITS, ranking=ranking)
        times.append(time.perf_counter() - began)
        found += question.id in {hit.id for hit in result.hits[0]}
    return found / len(questions), 1000 * median(times)
