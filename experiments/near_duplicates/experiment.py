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
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from experiments.parts import add_data_root
from experiments.result_tables import Record, print_table, save_records
from hummingbit.commands.printing import add_json_or_former_file
from hummingbit.corpus.named_sets import find_file
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.index.duplicates import DuplicateCriteria, near_codes, near_texts
from hummingbit.index.engines.self_join import Integers
from hummingbit.training.linear_codes import fit_itq
from hummingbit.training.text_features import fit_text_features

SUMMARY = "near-duplicates: recall and precision on two corpora with known pairs"
RADII = (0, 3, 6)
CONFIRMED = 0.5
"""The least Jaccard similarity of texts."""

Pairs = set[tuple[int, int]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_root(parser)
    add_json_or_former_file(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print recall and precision of the clusters of two corpora with known pairs."""
    records: list[Record] = []
    for name, read in (("gnad10-de-neardup", _articles), ("reuters-neardup", _reuters)):
        texts, known = read(args.data_root)
        codes = _codes_of(texts)
        print(f"{name}: {len(texts):,} texts, {len(known):,} pairs")
        for radius in RADII:
            clusters = near_codes(codes, radius)
            criteria = DuplicateCriteria(radius, CONFIRMED)
            confirmed = [
                cluster[members]
                for cluster in clusters
                for members in near_texts([texts[i] for i in cluster], codes[cluster], criteria)
            ]
            for by, found in (("codes", clusters), (f"--confirm {CONFIRMED:g}", confirmed)):
                recall, precision = _recall_and_precision(found, known)
                record = {"dataset": name, "radius": radius, "by": by}
                records.append({**record, "recall": recall, "precision": precision})
    rows = [
        [f"{value:.3f}" if isinstance(value, float) else str(value) for value in record.values()]
        for record in records
    ]
    print_table([*records[0]], rows)
    save_records(args, records)
    return 0


def _articles(root: Path | None) -> tuple[list[str], Pairs]:
    with lzma.open(
        find_file("gnad10-de-neardup", "gnad10_de_neardup/pairs.jsonl.xz", root)
    ) as file:
        rows = [json.loads(line) for line in file]
    texts = [row[f"text{number}"] for number in (1, 2) for row in rows]
    return texts, {(number, number + len(rows)) for number in range(len(rows))}


def _reuters(root: Path | None) -> tuple[list[str], Pairs]:
    splits = (read_documents(f"reuters:{split}", data_root=root) for split in ("train", "test"))
    documents = list(itertools.chain.from_iterable(splits))
    number_of = {document.id: number for number, document in enumerate(documents)}
    path = find_file("reuters-neardup", "reuters_neardup/pairs.tsv.xz", root)
    with lzma.open(path, "rt") as file:
        ids = [line.split("\t")[:2] for line in file]
    pairs = (
        sorted(number_of[id_] for id_ in pair) for pair in ids if number_of.keys() >= set(pair)
    )
    return [document.text or "" for document in documents], {(a, b) for a, b in pairs}


def _codes_of(texts: Sequence[str]) -> Codes:
    rows = fit_text_features(texts, 10_000).transform(texts)
    weight, thresholds = fit_itq(rows, 64, 0)
    return pack_bits(np.asarray(rows @ weight) > thresholds)


def _recall_and_precision(clusters: Iterable[Integers], known: Pairs) -> tuple[float, float]:
    found = correct = 0
    for cluster in clusters:
        found += len(cluster) * (len(cluster) - 1) // 2
        members = set(cluster.tolist())
        correct += sum(a in members and b in members for a, b in known)
    return correct / len(known), correct / max(1, found)
