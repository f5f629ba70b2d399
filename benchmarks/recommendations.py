"""What ``hummingbit quickstart`` recommends, beside the best ranking by judged queries.

For each data set with judged queries, ``hummingbit quickstart`` reads the documents alone, trains
and chooses a ranking. A service then serves that collection and evaluates every ranking and a grid
of weights of codes by the judged queries. A recommendation is right if no ranking is significantly
better by nDCG@10 (paired permutation test, Holm). "weight" is the weight of codes in ``hybrid`` and
its nDCG@10, "best" the best fixed weight of the grid and its nDCG@10.

Run as ``python -m benchmarks.recommendations --data-root DIR``. Collections are kept in
``build/benchmarks/recommendations`` and reused. Exit status: 1 if a recommendation is wrong or a
weight loses more than 0.01.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.processes import service_process
from hummingbit.comparison import choose_ranking
from hummingbit.corpus.document import Document
from hummingbit.corpus.named_sets import load_qrels
from hummingbit.corpus.readers import read_documents
from hummingbit.evaluation.fusion import JUDGED_METRIC, WEIGHTS
from hummingbit.evaluation.gate import by_ranking
from hummingbit.evaluation.report import Report
from hummingbit.index.rankings import HYBRID, RANKINGS
from hummingbit.remote import evaluate_remotely

OUT = Path("build/benchmarks/recommendations")
CORPORA = ("cranfield", "medline", "cacm", "cisi", "nfcorpus", "npl")
LARGEST_LOSS = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpora", nargs="+", default=CORPORA, metavar="NAME")
    parser.add_argument("--data-root", type=Path, metavar="DIR", help="the folder of the data sets")
    arguments = parser.parse_args()
    heads = ("corpus", "recommended", "nDCG@10", "best", "nDCG@10", "right", "weight", "best")
    print(f"{'':<11}{'by quickstart':<20}{'by judged queries':<27}{'weight of codes in hybrid'}")
    widths = (11, 12, 8, 12, 8, 7, 13, 13)
    print("".join(f"{head:<{width}}" for head, width in zip(heads, widths, strict=True)))
    failures = 0
    for name in arguments.corpora:
        report = _report(name, arguments.data_root)
        values = {
            ranking: evaluation.per_query[JUDGED_METRIC]
            for ranking, evaluation in by_ranking(report).items()
        }
        recommended = report.subject.ranking
        best = max(values, key=lambda ranking: float(values[ranking].mean()))
        is_right = choose_ranking(values, recommended).ranking == recommended
        curve = {
            weight.codes_weight: weight.metrics[JUDGED_METRIC]
            for weight in report.codes_weights or ()
        }
        fixed = max(curve, key=lambda weight: curve[weight])
        fitted = float(values[HYBRID].mean())
        failures += not is_right or fitted < curve[fixed] - LARGEST_LOSS
        cells = (
            *(name, recommended, f"{values[recommended].mean():.3f}"),
            *(best, f"{values[best].mean():.3f}", "yes" if is_right else "no"),
            *(f"{report.subject.codes_weight:g} {fitted:.4f}", f"{fixed:g} {curve[fixed]:.4f}"),
        )
        line = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        print("".join(line).rstrip(), flush=True)
    sys.exit(failures > 0)


def _report(name: str, data_root: Path | None) -> Report:
    """Return the evaluation of a data set's collection by its judged queries, at a service."""
    folder = OUT / name
    if not folder.exists():
        _quickstart(name, folder, data_root)
    queries = [
        {"id": query.id, "text": query.text} for query in _read(f"{name}:queries", data_root)
    ]
    body = {
        "queries": queries,
        "qrels": load_qrels(name, "queries", data_root),
        "metrics": [JUDGED_METRIC],
        "rankings": [*RANKINGS],
        "codes_weights": [*WEIGHTS],
    }
    with service_process(folder) as (_, address):
        return evaluate_remotely(address, name, body).report


def _quickstart(name: str, folder: Path, data_root: Path | None) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / f"{name}.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        for document in _read(f"{name}:documents", data_root):
            lines.write(json.dumps({"id": document.id, "text": document.text}) + "\n")
    command = [sys.executable, "-m", "hummingbit", "quickstart", str(file), "--no-serve"]
    with (OUT / f"{name}.log").open("w", encoding="utf-8") as log:
        options = ["--name", name, "--data-dir", str(folder)]
        subprocess.run([*command, *options], check=True, stdout=log, stderr=log)


def _read(source: str, data_root: Path | None) -> Iterator[Document]:
    return read_documents(source, data_root=data_root)


if __name__ == "__main__":
    main()
