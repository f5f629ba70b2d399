"""What training costs, and what codes find, over many short texts or over few documents.

The default trains on a million texts of 3 to 12 words: runs of words of the documents of
``--data``, then texts drawn by Zipf's law. It prints the CPU seconds and the peak memory of the
process, the size of the encoder, and how often three words of a text find it among the first ten by
its codes (Hamming and asymmetric). The method is ``ict``, or that of ``--method``; ``--word-bits
0`` has none that tell which words a text has.

``--documents N`` trains on N documents of each of three corpora, for each of ``--seeds``, and
prints CPU seconds and how often some words of a sentence find their document in ten by asymmetric
distance, for documents that were learned from and for a hundred that were not.

Run as ``python -m benchmarks.short_texts``.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.harness.timing import options, peak_bytes, print_machine
from benchmarks.harness.zipfian_texts import zipfian_texts
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import (
    AUTO_WORD_BITS,
    ICT,
    SIGNATURE,
    BaseRecipe,
    ClozeRecipe,
    LinearRecipe,
)
from hummingbit.encoder.text_features import split_sentences
from hummingbit.evaluation.known_items import words_of_sentences
from hummingbit.training.data import gather
from hummingbit.training_methods import train_by

BITS, DEPTH, N_QUERIES, N_WORDS, N_HELD_OUT = 64, 10, 300, 3, 100
LEAST_WORDS, MOST_WORDS, MEAN_WORDS = 3, 12, 8.0
TEXTS_AT_ONCE = 20_000
CORPORA = ("reuters", "20news", "nfcorpus")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--texts", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--data", nargs="*", default=[], metavar="SOURCE")
    parser.add_argument("--data-root", type=Path, metavar="DIR")
    parser.add_argument("--method", choices=(ICT, SIGNATURE), default=ICT)
    parser.add_argument("--word-bits", type=int, default=AUTO_WORD_BITS, metavar="N")
    parser.add_argument("--documents", type=int, metavar="N", help="compare few documents instead")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    args = parser.parse_args()
    print_machine()
    if args.documents:
        for name in args.data or CORPORA:
            report_few(name, args.documents, args.seeds, args.data_root)
        return
    texts = short_texts(args.data, args.texts, args.data_root)
    recipe: BaseRecipe = ClozeRecipe(n_bits=BITS, word_bits=args.word_bits)
    if args.method == SIGNATURE:
        recipe = LinearRecipe(method=SIGNATURE, n_bits=BITS)
    report_many(texts, recipe)


def short_texts(sources: list[str], number: int, data_root: Path | None) -> list[str]:
    """Return different runs of 3 to 12 words of the documents, then others by Zipf's law."""
    texts: dict[str, None] = {}
    for source in sources:
        for document in read_documents(source, data_root=data_root):
            for sentence in split_sentences(document.text or ""):
                words = sentence.split()
                for start in range(0, len(words), MOST_WORDS):
                    run = words[start : start + MOST_WORDS]
                    if len(run) >= LEAST_WORDS:
                        texts[" ".join(run)] = None
    if len(texts) >= number:
        return list(texts)[:number]
    return [*texts, *zipfian_texts(np.random.default_rng(0), number - len(texts), MEAN_WORDS)]


def report_many(texts: list[str], recipe: BaseRecipe) -> None:
    data = gather(Document(id=str(number), text=text) for number, text in enumerate(texts))
    before, began = peak_bytes(), time.process_time()
    with TemporaryDirectory() as folder:
        encoder = train_by(data, recipe, Path(folder, "encoder")).encoder
        size = sum(file.stat().st_size for file in Path(folder, "encoder").iterdir())
    print(
        f"{len(texts):,} texts: {time.process_time() - began:,.0f} CPU s, peak memory"
        f" {peak_bytes() / 2**30:.2f} GiB ({before / 2**30:.2f} before training),"
        f" encoder {size / 2**20:.0f} MiB,"
        f" {encoder.features.dimension:,} terms",
        flush=True,
    )
    rng = np.random.default_rng(0)
    rows: list[int] = []
    queries: list[str] = []
    for row in rng.permutation(len(texts)):
        words = [*dict.fromkeys(VISIBLE.terms(texts[row]))]
        if len(words) >= N_WORDS and len(rows) < N_QUERIES:
            rows.append(row)
            queries.append(" ".join(rng.choice(words, N_WORDS, replace=False)))
    for ranking, found in successes(encoder, texts, queries, np.array(rows)).items():
        print(f"{N_WORDS} words find the text in {DEPTH}, {ranking}: {found:.3f}")


def report_few(name: str, number: int, seeds: int, data_root: Path | None) -> None:
    documents = [
        document for document in read_documents(name, data_root=data_root) if document.text
    ]
    figures = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(documents))[: number + N_HELD_OUT]
        drawn = [documents[position] for position in order]
        began = time.process_time()
        with TemporaryDirectory() as folder:
            recipe = ClozeRecipe(n_bits=BITS, seed=seed)
            learned = gather(drawn[:number])
            encoder = train_by(learned, recipe, Path(folder, "e"), progress=False).encoder
        seconds = time.process_time() - began
        queries = words_of_sentences(drawn, seed)
        texts = [document.text or "" for document in drawn]
        rows = np.arange(len(drawn))
        at = (slice(number), slice(number, None))
        found = [successes(encoder, texts, queries[of], rows[of])["asymmetric"] for of in at]
        figures.append((seconds, *found))
    means, spread = np.mean(figures, axis=0), np.std(figures, axis=0)
    cells = [f"{mean:.3f} ± {sd:.3f}" for mean, sd in zip(means, spread, strict=True)]
    print(f"{name}, {number:,}: {cells[0]} CPU s; learned from {cells[1]}, held out {cells[2]}")


def successes(
    encoder: Encoder, texts: list[str], queries: list[str], rows: np.ndarray
) -> dict[str, float]:
    """Return how often a query finds its text, in `rows`, in ten; ties count as half before it."""
    bits = np.concatenate(
        [
            encoder.margins(texts[start : start + TEXTS_AT_ONCE]) > 0
            for start in range(0, len(texts), TEXTS_AT_ONCE)
        ]
    )
    logits = encoder.margins(queries)
    found = {}
    for ranking, of_queries in (("hamming", np.sign(logits)), ("asymmetric", logits)):
        own = np.einsum("qb,qb->q", of_queries, np.where(bits[rows], 1, -1))
        before, equal = np.zeros(len(rows)), np.zeros(len(rows))
        for start in range(0, len(bits), TEXTS_AT_ONCE):
            scores = of_queries @ np.where(bits[start : start + TEXTS_AT_ONCE], 1, -1).T
            before += (scores > own[:, None] + 1e-4).sum(axis=1)
            equal += (np.abs(scores - own[:, None]) <= 1e-4).sum(axis=1)
        found[ranking] = float(np.mean(before + (equal - 1) / 2 < DEPTH))
    return found


if __name__ == "__main__":
    main()
