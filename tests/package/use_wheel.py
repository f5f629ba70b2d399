"""What a wheel must do where it was installed: train, index, search and evaluate, in a folder.

Every wheel of a release runs this on its own system. ``--without-kernel`` is for wheels without
compiled modules.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hummingbit import Collection, SemanticHasher
from hummingbit.encoder import text_features
from hummingbit.index.engines import kernel

TEXTS = [
    f"{subject} {verb} number {number}"
    for number in range(20)
    for subject, verb in (("apple", "ripens"), ("engine", "starts"), ("river", "floods"))
]


def main() -> None:
    """Fail unless documents are found again by their words and by their codes."""
    compiled = [kernel.native is not None, text_features.native is not None]
    expected = "--without-kernel" not in sys.argv
    assert compiled == [expected, expected], compiled
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(TEXTS)
    assert hasher.transform(TEXTS[:3]).shape == (3, 8)
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with Collection.create(data, "texts", encoder=hasher) as collection:
            collection.add(TEXTS, ids=[f"t{row}" for row in range(len(TEXTS))])
        with Collection.open(data, "texts") as collection:
            for ranking in ("hamming", "asymmetric", "bm25", "hybrid"):
                (found,) = collection.search(TEXTS[7], limit=1, ranking=ranking).ids
                assert int(found[1:]) % 3 == 7 % 3, ranking
    print("the wheel trains, indexes and searches")


if __name__ == "__main__":
    main()
