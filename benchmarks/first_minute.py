"""The first minute of a user: what starts, imports and first answers take beside ``import numpy``.

Run as ``python -m benchmarks.first_minute``. Each command runs in a process of its own, in turns
with the others, for ``--rounds`` rounds; the table has the medians of the processor time (user and
system, of all its processes) and of the wall clock, and multiples of ``import numpy`` in the same
rounds. ``--busy`` keeps another process computing meanwhile. Before the rounds, the docstrings of
the packages installed here are indexed by ``demo`` and ``--documents`` sentences of them by
``quickstart``, each until the first answers.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.timing import options

HUMMINGBIT = [sys.executable, "-m", "hummingbit"]
BASE = "import numpy"


class Times(NamedTuple):
    """What a command took, in seconds."""

    cpu: float
    wall: float


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--busy", action="store_true", help="keep another process computing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, _busy(arguments.busy):
        folder = Path(name)
        sentences = folder / "sentences.jsonl"
        write_sentences(sentences, arguments.documents)
        once = {
            "demo, to its answers": [*HUMMINGBIT, "demo", "--data-dir", "demo-data"],
            f"quickstart of {arguments.documents:,} sentences, to its answers": [
                *HUMMINGBIT,
                "quickstart",
                sentences.name,
            ],
        }
        first = {
            title: run([*command, "--no-train", "--no-serve"], folder)
            for title, command in once.items()
        }
        commands = commands_of_rounds()
        taken: dict[str, list[Times]] = {title: [] for title in commands}
        for _ in range(arguments.rounds):
            for title, command in commands.items():
                taken[title].append(run(command, folder))
    medians = {
        title: Times(*(statistics.median(part) for part in zip(*times, strict=True)))
        for title, times in taken.items()
    }
    print_table({**medians, **first}, medians[BASE])


def commands_of_rounds() -> dict[str, Sequence[str]]:
    """Return the commands to time, by what the table calls them."""
    commands: dict[str, Sequence[str]] = {BASE: [sys.executable, "-c", BASE]}
    for command in ("", "search", "quickstart", "index", "serve", "train"):
        words = [command] if command else []
        commands[" ".join(["hummingbit", *words, "--help"])] = [*HUMMINGBIT, *words, "--help"]
    for name in ("Client", "Collection", "SemanticHasher"):
        statement = f"from hummingbit import {name}"
        commands[statement] = [sys.executable, "-c", statement]
    for name, folder in (("docstrings", "demo-data"), ("sentences", "sentences-data")):
        search = ["search", name, "read numbers from a text file", "--data-dir", folder]
        commands[f"hummingbit search {name} …"] = [*HUMMINGBIT, *search]
    return commands


def run(command: Sequence[str], folder: Path) -> Times:
    """Run a command in `folder` until it ends, and return what it took.

    Raises:
        CalledProcessError: if it fails.
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Times(cpu, wall)


def write_sentences(path: Path, count: int) -> None:
    """Write sentences of the docstrings of the packages installed here as JSON lines."""
    command = [sys.executable, "-c", _WRITE_SENTENCES, str(path), str(count)]
    subprocess.run(command, check=True)


_WRITE_SENTENCES = """
import json, re, sys
from hummingbit.corpus.readers import read_documents
sentences = dict.fromkeys(
    sentence.strip()
    for document in read_documents("docstrings:documents")
    for sentence in re.split(r"(?<=[.!?])\\s", document.text)
    if len(sentence.split()) > 5
)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    for sentence in list(sentences)[: int(sys.argv[2])]:
        print(json.dumps({"text": sentence}), file=file)
"""


@contextmanager
def _busy(is_busy: bool) -> Iterator[None]:
    """Keep another process computing while the block runs, if `is_busy`."""
    if not is_busy:
        yield
        return
    process = multiprocessing.Process(target=_compute, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _compute() -> None:
    number = 1
    while True:
        number = number * 3 % 1_000_003


def print_table(taken: dict[str, Times], base: Times) -> None:
    """Print the seconds of each command, and their multiples of those of `base`."""
    print(f"{'':<54}{'CPU s':>8}{'wall s':>8}{'× numpy':>9}")
    for title, times in taken.items():
        multiple = f"{times.cpu / base.cpu:.1f}"
        print(f"{title:<54}{times.cpu:>8.2f}{times.wall:>8.2f}{multiple:>9}")


if __name__ == "__main__":
    main()
