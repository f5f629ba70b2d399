"""Sentences from the middle of books: how many are found, with passages and without.

The books are synthetic. The vocabulary has Zipf's frequencies, and each book draws a third of its
words from a few topics of its own. A query is a sentence from the middle half of a book, in other
words a known item: it is found if the book is among the first ten hits. Words drop out of a query
with ``--dropped``. The encoder is ITQ of the latent semantics of passages in both cases, because
sixty books are too few to learn from. Bytes are those of the store, and the
milliseconds those of a search for ten hits, the median of all queries.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.harness.timing import options
from experiments.result_tables import print_table
from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import LinearRecipe
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.passages import Passages, passage_documents
from hummingbit.index.records import Query
from hummingbit.training.data import gather
from hummingbit.training.linear_codes import train_linear

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


def main() -> None:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument("--books", type=int, default=60)
    parser.add_argument("--words", type=int, default=50_000, help="words of a book")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--dropped", type=float, default=0.3, help="share of a query's words")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    books = [*make_books(rng, args.books, args.words)]
    questions = ask(rng, books, args.queries, args.dropped)
    rows = []
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
                figures = (f"{share:.3f}", f"{milliseconds:.1f}", f"{units:,}", f"{size:,.0f}")
                rows.append([name, ranking, *figures])
    header = ["searched by", "ranking", f"in {HITS}", "ms", "codes", "bytes a book"]
    print_table(header, rows)


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


if __name__ == "__main__":
    main()
