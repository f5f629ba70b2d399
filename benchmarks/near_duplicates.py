"""How well ``index duplicates`` finds known near-duplicates, by radius, with texts and without.

Codes are 64 bits of ITQ over TF-IDF, fitted to all documents. Recall and precision count the pairs
within clusters. The known pairs are public: 878 German articles in two releases, and pairs of
Reuters-21578 whose sets of five-word runs have a Jaccard similarity of at least one half.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.index.duplicates import DuplicateCriteria, near_codes, near_texts
from hummingbit.index.engines.self_join import Integers
from hummingbit.training.linear_codes import fit_itq
from hummingbit.training.text_features import fit_text_features

Pairs = set[tuple[int, int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", type=Path, default=os.environ.get("HUMMINGBIT_DATA"))
    parser.add_argument("--radii", type=int, nargs="+", default=[0, 3, 6])
    parser.add_argument("--confirm", type=float, default=0.5)
    args = parser.parse_args()
    if args.data_root is None:
        parser.error("name the folder of the data with --data-root or HUMMINGBIT_DATA")
    for name, read in (("gnad10-de-neardup", _articles), ("reuters-neardup", _reuters)):
        texts, known = read(Path(args.data_root))
        codes = _codes(texts)
        print(f"{name}: {len(texts):,} texts, {len(known):,} pairs")
        for radius in args.radii:
            clusters = near_codes(codes, radius)
            criteria = DuplicateCriteria(radius, args.confirm)
            confirmed = [
                cluster[members]
                for cluster in clusters
                for members in near_texts([texts[i] for i in cluster], codes[cluster], criteria)
            ]
            by_codes, by_texts = (
                _recall_and_precision(clusters, known),
                _recall_and_precision(confirmed, known),
            )
            print(f"  radius {radius}: {by_codes}; with --confirm {args.confirm:g}: {by_texts}")


def _articles(root: Path) -> tuple[list[str], Pairs]:
    with lzma.open(root / "gnad10_de_neardup" / "pairs.jsonl.xz") as file:
        rows = [json.loads(line) for line in file]
    texts = [row[f"text{number}"] for number in (1, 2) for row in rows]
    return texts, {(number, number + len(rows)) for number in range(len(rows))}


def _reuters(root: Path) -> tuple[list[str], Pairs]:
    splits = (read_documents(f"reuters:{split}", data_root=root) for split in ("train", "test"))
    documents = list(itertools.chain.from_iterable(splits))
    number_of = {document.id: number for number, document in enumerate(documents)}
    with lzma.open(root / "reuters_neardup" / "pairs.tsv.xz", "rt") as file:
        ids = [line.split("\t")[:2] for line in file]
    pairs = (
        sorted(number_of[id_] for id_ in pair) for pair in ids if number_of.keys() >= set(pair)
    )
    return [document.text or "" for document in documents], {(a, b) for a, b in pairs}


def _codes(texts: Sequence[str]) -> Codes:
    rows = fit_text_features(texts, 10_000).transform(texts)
    weight, thresholds = fit_itq(rows, 64, 0)
    return pack_bits(np.asarray(rows @ weight) > thresholds)


def _recall_and_precision(clusters: Iterable[Integers], known: Pairs) -> str:
    found = correct = 0
    for cluster in clusters:
        found += len(cluster) * (len(cluster) - 1) // 2
        members = set(cluster.tolist())
        correct += sum(a in members and b in members for a, b in known)
    return f"recall {correct / len(known):.3f}, precision {correct / max(1, found):.3f}"


if __name__ == "__main__":
    main()
