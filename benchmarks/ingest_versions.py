"""Ingestion by this checkout beside an earlier one, in turns within one run.

Three corpora of JSON lines, each with an id, a label and a small payload: documents that bring
codes of 64 bits; vectors of 64 numbers; and texts of 22 words. The encoders are one layer, so that
reading, checking and writing take most of the time. Every turn is a process of its own, into an
empty data folder, with synchronous=FULL. CPU is of all processes, a document; where the machine
does other things as well, it says more than elapsed time. "floor" reads the same lines with this
checkout and puts them into a bare SQLite table; nothing is encoded, and nothing could be found.

Run as ``python -m benchmarks.ingest_versions --against DIR``, where DIR is another checkout, as
``git worktree add DIR COMMIT`` makes one. Without ``--against`` only this checkout is timed.
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

HERE = Path(__file__).parents[1]
CASES = ("codes", "vectors", "texts")
N_BITS = 64
DIMENSION = 64
FLOOR = "floor"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--one", nargs=3, metavar=("LINES", "FOLDER", "JOBS"), help="one turn")
    arguments = parser.parse_args()
    if arguments.one is not None:
        lines, folder, jobs = arguments.one
        print(json.dumps(one_turn(Path(lines), Path(folder), jobs)))
        return
    print(f"{arguments.documents:,} documents; medians of {arguments.rounds} rounds")
    for case in arguments.cases:
        with tempfile.TemporaryDirectory() as name:
            compare(case, Path(name), arguments)


def compare(case: str, folder: Path, arguments: argparse.Namespace) -> None:
    """Time every way of taking one corpus, in turns."""
    lines = folder / "corpus.jsonl"
    lines.write_text("".join(f"{line}\n" for line in corpus(case, arguments.documents)))
    ways = {"now, 1 process": (HERE, "1"), "now, 2 processes": (HERE, "2"), FLOOR: (HERE, FLOOR)}
    if arguments.against is not None:
        before = arguments.against.resolve()
        ways = {"before, 1 process": (before, "1"), "before, 2 processes": (before, "2")} | ways
    seconds: dict[str, list[tuple[float, float]]] = {}
    for turn in range(arguments.rounds):
        for name, (checkout, jobs) in ways.items():
            into = folder / f"{turn}-{name}"
            write_encoder(case, into)
            command = [sys.executable, __file__, "--one", str(lines), str(into), jobs]
            environment = {**os.environ, "PYTHONPATH": str(checkout)}
            done = subprocess.run(command, env=environment, check=True, capture_output=True)
            seconds.setdefault(name, []).append(tuple(json.loads(done.stdout)))
    print(f"\n{case:22}{'documents/s':>12}{'CPU us/doc':>12}{'x floor, CPU':>14}")
    n = arguments.documents
    floor = statistics.median(cpu for _, cpu in seconds[FLOOR])
    for name, found in seconds.items():
        elapsed = statistics.median(one for one, _ in found)
        cpu = statistics.median(one for _, one in found)
        print(f"  {name:20}{n / elapsed:12,.0f}{cpu / n * 1e6:12.1f}{cpu / floor:14.2f}")


def corpus(case: str, n: int) -> Iterator[str]:
    """Yield lines of documents."""
    import numpy as np  # noqa: PLC0415 - as below

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
    """Write what encodes the corpus to a data folder; documents with codes need nothing."""
    import numpy as np  # noqa: PLC0415

    from benchmarks.ingest import VOCABULARY, snippets  # noqa: PLC0415
    from encoder.artifact import write_artifact  # noqa: PLC0415
    from encoder.encoder import Encoder, Layer  # noqa: PLC0415
    from encoder.features import TextFeatures  # noqa: PLC0415
    from encoder.vector_features import VectorFeatures  # noqa: PLC0415

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


def one_turn(lines: Path, folder: Path, jobs: str) -> tuple[float, float]:
    """Ingest the lines; return the seconds that passed, and those of the processor."""
    # Imported from the checkout that is timed, and only from parts that have long been there.
    from corpus.readers import read_documents  # noqa: PLC0415
    from index.bulk.ingest import ingest  # noqa: PLC0415
    from index.data_folder import DataFolder  # noqa: PLC0415

    has_encoder = (folder / "encoders").exists()
    with DataFolder(folder, writable=True, indexed=False) as data:
        encoder, n_bits = ("e", None) if has_encoder else (None, N_BITS)
        collection = data.create_collection("c", encoder=encoder, n_bits=n_bits)
        began, before = time.perf_counter(), cpu_seconds()
        if jobs == FLOOR:
            from benchmarks.ingest import into_sqlite  # noqa: PLC0415

            into_sqlite(lines, folder)
        else:
            ingest(collection, read_documents(lines, unique_ids=False), jobs=int(jobs))
        return time.perf_counter() - began, cpu_seconds() - before


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
