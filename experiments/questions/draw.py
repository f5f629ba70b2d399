"""Draw the documents that the questions were written for, and print them for reading.

No ranking runs here. ``python -m experiments.questions.draw docstrings 0 60`` prints the first 60
documents of the order in which they were read, each with documents near in name: the same name in
another module, or names that begin alike.
"""

from __future__ import annotations

import argparse
import re

import numpy as np

from experiments.questions.families import CORPORA, read_documents
from hummingbit.corpus.document import Document
from hummingbit.corpus.named_sets import load_qrels

_SEED = 20
_MAX_LENGTH, _MAX_NEAR = 360, 8


def draw(documents: list[Document], corpus: str) -> list[Document]:
    """Return the documents in the order of reading, without the answers to the demo's questions."""
    judged = load_qrels(corpus, "queries") if corpus == "docstrings" else None
    taken = {id_ for answers in (judged or {}).values() for id_ in answers}
    order = np.random.default_rng(_SEED).permutation(len(documents)).tolist()
    return [documents[position] for position in order if documents[position].id not in taken]


def near_in_name(document: Document, documents: list[Document]) -> list[str]:
    """Return ids that share the last part of this one's, or begin with its first parts."""
    own = document.id.rpartition(".")[2]
    stem = re.split(r"[-_]|(?<=[a-z])(?=[A-Z])", own)[0]
    module = document.id[: len(document.id) - len(own)]
    same = [d.id for d in documents if d.id.rpartition(".")[2].lower() == own.lower()]
    alike = [d.id for d in documents if d.id.startswith(module + stem)]
    return [id_ for id_ in dict.fromkeys([*same, *alike]) if id_ != document.id]


def main() -> None:
    """Print drawn documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("start", type=int)
    parser.add_argument("stop", type=int)
    arguments = parser.parse_args()
    documents = read_documents(arguments.corpus)
    drawn = draw(documents, arguments.corpus)
    for position in range(arguments.start, arguments.stop):
        document = drawn[position]
        text = (document.text or "")[:_MAX_LENGTH].replace("\n", " / ")
        print(f"{position} [{document.id}] {text}")
        if arguments.corpus != "dbpedia" and (near := near_in_name(document, documents)):
            print("    near:", *near[:_MAX_NEAR])


if __name__ == "__main__":
    main()
