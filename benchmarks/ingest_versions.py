"""Ingestion by this checkout beside an earlier one, interleaved in one run.

There are three corpora of JSON lines: documents with codes of 64 bits, with vectors of 64 numbers,
and with texts of 22 words. Each document also has an id, a label and a small payload. The encoders
have one layer, so that reading, checking and writing take most of the time. Every turn is a
separate process that ingests into an empty data folder with synchronous=FULL. CPU is the processor
time of all processes per document; on a busy machine it tells more than elapsed time. "floor" reads
the same lines with this checkout and inserts them into a bare SQLite table, without codes or index,
and "all stored" ingests them a second time.

Run as ``python -m benchmarks.ingest_versions --against DIR``, where DIR is another checkout, for
example from ``git worktree add DIR COMMIT``. Without ``--against`` only this checkout is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CASES = ("codes", "vectors", "texts")
N_BITS = 64
DIMENSION = 64
FLOOR, AGAIN = "floor", "again"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument(
        "--one", nargs=3, metavar=("LINES", "FOLDER", "JOBS"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.one is not None:
        lines, folder, jobs = arguments.one
        print(json.dumps(run_turn(Path(lines), Path(folder), jobs)))
        return
    print(f"{arguments.documents:,} documents; medians of {arguments.rounds} rounds")
    for case in arguments.cases:
        with tempfile.TemporaryDirectory() as name:
            compare(case, Path(name), arguments)


def compare(case: str, folder: Path, arguments: argparse.Namespace) -> None:
    """Time every way to ingest one corpus, interleaved."""
    lines = folder / "corpus.jsonl"
    lines.write_text("".join(f"{line}\n" for line in corpus(case, arguments.documents)))
    ways = {"now, 1 process": (ROOT, "1"), "now, 2 processes": (ROOT, "2")}
    ways |= {"now, all stored": (ROOT, AGAIN), FLOOR: (ROOT, FLOOR)}
    if arguments.against is not None:
        earlier = arguments.against.resolve()
        ways = {"before, 1 process": (earlier, "1"), "before, 2 processes": (earlier, "2")} | ways
    seconds: dict[str, list[tuple[float, float]]] = {}
    for turn in range(arguments.rounds):
        for name, (checkout, jobs) in ways.items():
            data_folder = folder / f"{turn}-{name}"
            write_encoder(case, data_folder)
            command = [sys.executable, __file__, "--one", str(lines), str(data_folder), jobs]
            environment = {**os.environ, "PYTHONPATH": str(checkout)}
            done = subprocess.run(command, env=environment, check=True, capture_output=True)
            seconds.setdefault(name, []).append(tuple(json.loads(done.stdout)))
    print(f"\n{case:22}{'documents/s':>12}{'CPU us/doc':>12}{'x floor, CPU':>14}")
    n = arguments.documents
    floor = statistics.median(cpu for _, cpu in seconds[FLOOR])
    for name, pairs in seconds.items():
        elapsed, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"  {name:20}{n / elapsed:12,.0f}{cpu / n * 1e6:12.1f}{cpu / floor:14.2f}")


def corpus(case: str, n: int) -> Iterator[str]:
    """Yield the documents of a corpus as JSON lines."""
    import numpy as np  # noqa: PLC0415 - from the checkout that is timed

    from benchmarks.ingest import snippets  # noqa: PLC0415

    rng = np.random.default_rng(0)
    for i, text in enumerate(snippets(n)):
        content: dict[str, object] = {"text": text}
        if case == "codes":
            content = {"code": rng.bytes(N_BITS // 8).hex()}
        elif case == "vectors":
            content = {"vector": rng.normal(size=DIMENSION).round(6).tolist()}
        payload = {"year": 1990 + i % 30, "source": f"s{i % 7}"}
        yield json.dumps({"id": f"doc-{i}", "label": f"l{i % 8}", "payload": payload, **content})


def write_encoder(case: str, folder: Path) -> None:
    """Write the encoder of a corpus to a data folder; documents with codes need none."""
    import numpy as np  # noqa: PLC0415

    from benchmarks.ingest import VOCABULARY, snippets  # noqa: PLC0415
    from hummingbit.encoder.artifact import write_artifact  # noqa: PLC0415
    from hummingbit.encoder.encoder import Encoder, Layer  # noqa: PLC0415
    from hummingbit.encoder.text_features import TextFeatures  # noqa: PLC0415
    from hummingbit.encoder.vector_features import VectorFeatures  # noqa: PLC0415

    folder.mkdir(parents=True)
    if case == "codes":
        return
    rng = np.random.default_rng(0)
    texts = case == "texts"
    features = TextFeatures(VOCABULARY) if texts else VectorFeatures(DIMENSION)
    weight = rng.normal(size=(features.dimension, N_BITS)).astype(np.float32)
    layer = Layer(weight, np.zeros(N_BITS, dtype=np.float32), "identity")
    encoder = Encoder(features, [layer], np.zeros(N_BITS, dtype=np.float32), {})
    inputs = list(snippets(50)) if texts else rng.normal(size=(50, DIMENSION)).astype(np.float32)
    write_artifact(folder / "encoders" / "e", encoder, inputs)


def run_turn(lines: Path, folder: Path, jobs: str) -> tuple[float, float]:
    """Ingest the lines; return the elapsed seconds and those of the processor."""
    # From the checkout that is timed, so only modules that earlier versions have, too.
    from hummingbit.corpus.readers import read_documents  # noqa: PLC0415
    from hummingbit.index.data_folder import DataFolder  # noqa: PLC0415
    from hummingbit.index.ingestion import ingest  # noqa: PLC0415

    has_encoder = (folder / "encoders").exists()
    with DataFolder(folder, writable=True, indexed=False) as data:
        encoder, n_bits = ("e", None) if has_encoder else (None, N_BITS)
        collection = data.create_collection("c", encoder=encoder, n_bits=n_bits)
        if jobs == AGAIN:
            ingest(collection, read_documents(lines, unique_ids=False))
        began, before = time.perf_counter(), cpu_seconds()
        if jobs == FLOOR:
            from benchmarks.ingest import insert_lines  # noqa: PLC0415

            insert_lines(lines, folder)
        else:
            n_jobs = 1 if jobs == AGAIN else int(jobs)
            ingest(collection, read_documents(lines, unique_ids=False), jobs=n_jobs)
        return time.perf_counter() - began, cpu_seconds() - before


def cpu_seconds() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(who) for who in whose]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
