"""What ``hummingbit quickstart`` makes of files of many shapes, and how long it takes.

    python -m benchmarks.file_shapes --data-root DIR

writes 1,000 documents of public data sets in each shape to a temporary folder, runs the
command on each file, and prints a row of a table for it: what it found, or the last line of what it
said instead, and the seconds of processor time, which other load on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness.shaped_files import SHAPES
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents

COUNT = 1000


def main() -> None:
    """Run the command on every shape, or on those whose title has one of the words given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", type=Path, metavar="DIR", help="default: HUMMINGBIT_DATA")
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="shapes with these in the title")
    args = parser.parse_args()

    def documents(name: str) -> list[Document]:
        read = list(read_documents(name, data_root=args.data_root))
        return read[:: max(1, len(read) // COUNT)][:COUNT]

    print("| file | what it finds | time |\n|---|---|---|", flush=True)
    for title, write in SHAPES.items():
        if args.only is None or any(words in title for words in args.only):
            with TemporaryDirectory() as folder:
                source = write(documents, Path(folder))
                found, seconds = run_quickstart(source)
            print(f"| {title} | {found} | {seconds:.0f} s |", flush=True)


def run_quickstart(source: Path) -> tuple[str, float]:
    """Return what the command found in `source`, or its last words, and its processor time."""
    command = [sys.executable, "-m", "hummingbit", "quickstart", source.name, "--no-serve"]
    root = Path(__file__).parents[1]
    before = _seconds_of_children()
    done = subprocess.run(
        command,
        cwd=source.parent,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = _seconds_of_children() - before
    if done.returncode:
        return f"`{done.stderr.strip().splitlines()[-1]}`", seconds
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line[:2] == "  ")
    lines = [line for line in done.stderr.splitlines() if not line.endswith(" …")]  # stages
    notices = [line.partition(": ")[2] for line in lines]
    shown = [f"{name} {rows[name]}" for name in ("text", "label", "id", "repeats")]
    return "; ".join([*shown, *notices]), seconds


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
