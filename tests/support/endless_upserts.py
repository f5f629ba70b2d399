"""Upsert until killed, telling on standard output what has been acknowledged.

Run as ``python -m tests.support.endless_upserts FOLDER ROUND``. Document N of a round is
``rROUND-N``, with a code made of N; its number is printed once its upsert has returned.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from corpus.document import Document
from index.data_folder import DataFolder


def code_of(number: int) -> str:
    """Return the 32-bit code of document `number`."""
    return f"{number * 2654435761 % 2**32:08x}"


def main() -> None:
    """Upsert one to three documents at a time; every fifth upsert replaces document 0."""
    folder, turn = Path(sys.argv[1]), sys.argv[2]
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("words", n_bits=32)
        number = 0
        for step in itertools.count():
            numbers = range(number, number + 1 + step % 3)
            documents = [Document(id=f"r{turn}-{n}", code=code_of(n)) for n in numbers]
            if step % 5 == 0:
                documents.append(Document(id="counter", code=f"{step:08x}"))
            collection.upsert(documents)
            number = numbers.stop
            print(number, flush=True)


if __name__ == "__main__":
    main()
