"""A search by the command line over a million documents, with and without the kept word index.

Builds a collection of texts with random codes, or takes the first texts of ``--texts``, a file of
JSON lines with ``text``. "open" maps the file of the word index and checks it against the store;
"build" indexes the texts anew. "command" is ``hummingbit search`` in a process of its own, the best
of three; its imports are a share of it that does not depend on the collection. BM25 is timed in
this process. Times are of the processor.

Run as ``python -m benchmarks.word_file``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from hummingbit.corpus.document import Document
from hummingbit.index import word_file
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.store.store import Store

NAME = "texts"
BATCH = 50_000
MAIN = "import sys; from hummingbit.cli import main; sys.exit(main())"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=float, default=1e6, help="documents (default: 1e6)")
    parser.add_argument("--bits", type=int, default=256)
    parser.add_argument("--texts", type=Path, help="JSON lines with text (default: made)")
    parser.add_argument("--queries", type=int, default=300)
    arguments = parser.parse_args()
    rng, size = np.random.default_rng(0), int(arguments.size)
    if arguments.texts is None:
        texts = zipfian_texts(rng, size, 12)
    else:
        with arguments.texts.open(encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in islice(lines, size)]
    queries = runs_of_words(rng, texts, arguments.queries)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        with closing(DataFolder(data, writable=True, indexed=False)) as folder:
            collection = folder.create_collection(NAME, n_bits=arguments.bits)
            for batch in _batches(rng, texts, arguments.bits):
                collection.upsert(batch)
        (store,) = data.glob("collections/*/store.sqlite")
        print(f"build    {_seconds(lambda: _open(store)):6.2f} s")
        print(f"file     {(store.parent / word_file.FILE).stat().st_size / 1e6:6.0f} MB")
        print(f"open     {min(_seconds(lambda: _open(store)) for _ in range(3)):6.2f} s")
        for ranking in ("hamming", "bm25"):
            given = [queries[0]] if ranking == "bm25" else ["--code", "00" * (arguments.bits // 8)]
            seconds = min(_command(data, [*given, "--ranking", ranking]) for _ in range(3))
            print(f"command  {seconds:6.2f} s, {ranking}")
        with closing(Collection(Store(store, writable=False), indexed=False)) as collection:
            lexical = collection._published_index.current_with_lexical().lexical  # noqa: SLF001
            assert lexical is not None  # noqa: S101 - for the type checker
            times = [1e3 * _seconds(partial(lexical.rank, text, 10)) for text in queries]
        p50, p99 = np.percentile(times, [50, 99])
        print(f"BM25     {p50:6.2f} ms p50, {p99:.2f} ms p99")


def _batches(rng: np.random.Generator, texts: list[str], n_bits: int) -> Iterator[list[Document]]:
    for start in range(0, len(texts), BATCH):
        some = texts[start : start + BATCH]
        codes = rng.integers(0, 256, (len(some), n_bits // 8), dtype=np.uint8)
        yield [
            Document(id=f"t{start + at}", text=text, code=code.tobytes().hex())
            for at, (text, code) in enumerate(zip(some, codes, strict=True))
        ]


def _open(store: Path) -> None:
    with closing(Collection(Store(store, writable=False), indexed=False)) as collection:
        collection._published_index.current_with_lexical()  # noqa: SLF001


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _command(data: Path, arguments: list[str]) -> float:
    """Return the time of the processor that a search by the command line takes."""
    before = os.times()
    command = [sys.executable, "-c", MAIN, "search", NAME, *arguments, "--data-dir", str(data)]
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    return (
        after.children_user
        + after.children_system
        - before.children_user
        - (before.children_system)
    )


if __name__ == "__main__":
    main()
