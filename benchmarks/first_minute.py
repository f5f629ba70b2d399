"""The first minute of a user: what an installation, first answers, starts and imports take.

Run as ``python -m benchmarks.first_minute``. With ``--fresh``, ``make install`` first makes an
environment of its own, as README says; otherwise this one is used. ``demo`` indexes the docstrings
of the packages in it and ``quickstart`` ``--documents`` sentences of them, each until the first
answers. Then each command runs in a process of its own, in turns with the others, for ``--rounds``
rounds; the table has the medians of the processor time (user and system, of all its processes) and
of the wall clock, and multiples of ``import numpy`` in the same rounds. Everything is measured
twice: alone, and beside a process that computes.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.processes import busy_processes
from benchmarks.harness.timing import options, print_machine

BASE = "import numpy"
ROOT = Path(__file__).parents[1]


class Times(NamedTuple):
    """What a command took, in seconds."""

    cpu: float
    wall: float


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--fresh", action="store_true", help="install into an environment first")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=10_000)
    arguments = parser.parse_args()
    print_machine()
    taken = {}
    for n_busy, title in enumerate(("alone", "beside another process")):
        with tempfile.TemporaryDirectory() as name, busy_processes(n_busy):
            taken[title] = measure(
                Path(name), arguments.rounds, arguments.documents, is_fresh=arguments.fresh
            )
    print_table(taken)


def measure(folder: Path, rounds: int, n_documents: int, *, is_fresh: bool) -> dict[str, Times]:
    """Return what each step of the first minute takes in an empty `folder`."""
    python, first = sys.executable, {}
    if is_fresh:
        install = ["make", "--silent", f"--directory={ROOT}", "install", f"VENV={folder / 'venv'}"]
        first["make install"] = run(install, folder)
        python = str(folder / "venv" / "bin" / "python")
    sentences = folder / "sentences.jsonl"
    write_sentences(python, sentences, n_documents)
    until_answers = ["--no-train", "--no-serve"]
    hummingbit = [python, "-m", "hummingbit"]
    demo = [*hummingbit, "demo", "--data-dir", "demo-data", *until_answers]
    first["demo, to its answers"] = run(demo, folder)
    quickstart = [*hummingbit, "quickstart", sentences.name, *until_answers]
    title = f"quickstart of {n_documents:,} sentences, to its answers"
    first[title] = run(quickstart, folder)
    commands = commands_of_rounds(python)
    taken: dict[str, list[Times]] = {title: [] for title in commands}
    for _ in range(rounds):
        for title, command in commands.items():
            taken[title].append(run(command, folder))
    medians = {
        title: Times(*(statistics.median(part) for part in zip(*times, strict=True)))
        for title, times in taken.items()
    }
    return {**first, **medians}


def commands_of_rounds(python: str) -> dict[str, Sequence[str]]:
    """Return the commands to time, by what the table calls them."""
    hummingbit = [python, "-m", "hummingbit"]
    commands: dict[str, Sequence[str]] = {BASE: [python, "-c", BASE]}
    for command in ("", "search", "index", "train", "evaluate", "serve", "reproduce"):
        words = [command] if command else []
        commands[" ".join(["hummingbit", *words, "--help"])] = [*hummingbit, *words, "--help"]
    for name in ("Client", "Collection", "SemanticHasher"):
        statement = f"from hummingbit import {name}"
        commands[statement] = [python, "-c", statement]
    for name, folder in (("docstrings", "demo-data"), ("sentences", "sentences-data")):
        search = ["search", name, "read numbers from a text file", "--data-dir", folder]
        commands[f"hummingbit search {name} …"] = [*hummingbit, *search]
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


def write_sentences(python: str, path: Path, count: int) -> None:
    """Write sentences of the docstrings of the packages of an environment as JSON lines."""
    command = [python, "-c", _WRITE_SENTENCES, str(path), str(count)]
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


def print_table(taken: dict[str, dict[str, Times]]) -> None:
    """Print the seconds of each command, and the multiples of :data:`BASE`, in each condition."""
    print(" " * 54 + "".join(f"{condition:>28}" for condition in taken))
    print(" " * 54 + f"{'CPU s':>10}{'wall s':>9}{'× numpy':>9}" * len(taken))
    for title in next(iter(taken.values())):
        figures = ""
        for times in taken.values():
            multiple = f"{times[title].cpu / times[BASE].cpu:.1f}"
            figures += f"{times[title].cpu:>10.2f}{times[title].wall:>9.2f}{multiple:>9}"
        print(f"{title:<54}{figures}")


if __name__ == "__main__":
    main()
