"""Text hashing methods compared in one protocol, on several data sets, at 32 and 64 bits.

A cell is a method on a data set with a number of bits and a seed. Its record is saved in
``--work-dir`` and reused until its code changes. A cell without a record is empty in the table.
On data sets with judged queries, the figure is nDCG@10, and BM25 stands in the first row.

``--tune`` tries the settings of each method's grid on held-out documents, and prints the best.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from experiments.judged_queries.compared_rankings import STEMS, bm25_scores, build_index
from experiments.judged_queries.judged_corpora import read_corpus
from experiments.leaderboard.cells import (
    JUDGED,
    Cell,
    compute,
    save_sentence_vectors,
    saved_record,
    tune,
)
from experiments.leaderboard.measuring import JUDGED_METRIC
from experiments.leaderboard.methods import METHODS
from experiments.parts import add_bits, add_run_options
from experiments.result_tables import Record, mean_and_deviation, print_table, save_records
from experiments.ssb_vae.printed_tables import printed_p100
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.foundation.errors import HummingbitError
from hummingbit.foundation.files import replace_file
from hummingbit.training.model_folders import read_model

SUMMARY = "text hashing methods compared in one protocol"
LABELLED = ("20news", "snippets", "reuters", "ag-news", "dbpedia14")
DATASETS = (*LABELLED, *JUDGED)
TUNED_ON, TUNED_DOCUMENTS = ("snippets", "ag-news"), 2000

PRINTED = {"vdsh-s": "vdsh-s", "psh-gs": "psh-gs", "ssb-vae-paper": "ssb-vae"}
"""The methods with a figure in SSB-VAE's Table I, which has the same protocol for Snippets.

Other papers use other splits and samples of these corpora, so their figures are not comparable.
"""


class LeaderboardError(HummingbitError, ValueError):
    """An option of the leaderboard is invalid."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--datasets",
        nargs="+",
        default=list(DATASETS),
        choices=DATASETS,
        metavar="NAME",
        help=f"of {', '.join(DATASETS)} (default: all)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(METHODS),
        choices=METHODS,
        metavar="NAME",
        help=f"of {', '.join(METHODS)} (default: all)",
    )
    add_bits(parser, [32, 64])
    parser.add_argument(
        "--supervision",
        type=float,
        default=0.1,
        metavar="X",
        help="share of the labels for the methods that learn from labels",
    )
    for name, split in (("documents", "training"), ("queries", "test")):
        parser.add_argument(
            f"--{name}", type=int, metavar="N", help=f"number of {split} documents (default: all)"
        )
    parser.add_argument(
        "--no-unseen", action="store_true", help="leave out the cells with unseen classes"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="X",
        help="start no further cell after X minutes; 0 prints the saved cells",
    )
    parser.add_argument(
        "--vectors",
        nargs="+",
        default=[],
        metavar="DATA-SET=FILE",
        help="sentence vectors by id (.npz, .parquet), for the methods that take them",
    )
    parser.add_argument(
        "--model",
        type=Path,
        metavar="FOLDER",
        help="a sentence model, whose vectors the methods take that take vectors; they are computed"
        " once",
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help=f"instead, try the settings of each method on held-out documents of {TUNED_ON[0]} and"
        f" {TUNED_ON[1]}, with 32 bits, and print them",
    )
    add_run_options(parser, "results/leaderboard")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compute the missing cells, then print a table for each data set and number of bits.

    For several data sets, tables of the tie-averaged figure in all of them follow.
    """
    vectors = _vectors(args)
    if args.tune:
        return _tune(args, vectors)
    records = _records(args, vectors)
    save_records(args, records)
    labelled = [name for name in args.datasets if name in LABELLED]
    for dataset in labelled:
        for n_bits in args.bits:
            print(f"\n{dataset}, {n_bits} bits\n")
            _print(args, dataset, n_bits, records)
    if len(labelled) > 1:
        _print_overviews(args, labelled, records)
    judged = [name for name in args.datasets if name in JUDGED]
    if judged:
        _print_judged(args, judged, records)
    return 0


def _vectors(args: argparse.Namespace) -> dict[str, Path]:
    """Return the files of sentence vectors by data set, those of ``--model`` where others lack."""
    vectors = _parse_vectors(args.vectors)
    if args.model is None or not any(METHODS[method].takes_vectors for method in args.methods):
        return vectors
    folder = read_model(args.model)
    others = [dataset for dataset in args.datasets if dataset not in vectors]
    return vectors | {
        dataset: save_sentence_vectors(folder, dataset, args.work_dir, args.data_root)
        for dataset in others
    }


def _records(args: argparse.Namespace, vectors: Mapping[str, Path]) -> list[Record]:
    """Compute the missing cells in the time that there is, and return all that are known."""
    began = time.monotonic()
    records: list[Record] = []
    for cell in _cells(args):
        vectors_file = vectors.get(cell.dataset) if METHODS[cell.method].takes_vectors else None
        if vectors_file is None and METHODS[cell.method].takes_vectors:
            continue
        record = saved_record(cell, args.work_dir, args.data_root, vectors_file)
        in_time = args.minutes is None or time.monotonic() - began < 60 * args.minutes
        if record is None and in_time:
            print(cell.name, file=sys.stderr, flush=True)
            record = compute(cell, args.work_dir, args.data_root, vectors_file)
        if record is not None:
            records.append(record)
    return records


def _tune(args: argparse.Namespace, vectors: Mapping[str, Path]) -> int:
    """Measure every combination of settings of each method, and print them, the best first.

    A method has the same number of combinations as the others. The figure is the mean tie-averaged
    P@100 on the two data sets, of one run each.
    """
    args.work_dir.mkdir(parents=True, exist_ok=True)
    rows = []
    for method in args.methods:
        entry = METHODS[method]
        tried = []
        for settings in entry.combinations() if entry.grid else ():
            name = "-".join(f"{key}-{value:g}" for key, value in settings.items())
            path = args.work_dir / f"tuning-{method}-{name}.json"
            if not path.exists() and entry.takes_vectors and not set(TUNED_ON) <= set(vectors):
                continue
            if not path.exists():
                print(path.stem, file=sys.stderr, flush=True)
                figures = [
                    tune(
                        method,
                        dataset,
                        settings,
                        TUNED_DOCUMENTS,
                        (args.data_root, vectors.get(dataset) if entry.takes_vectors else None),
                    )
                    for dataset in TUNED_ON
                ]
                replace_file(path, json.dumps([figure["p100_expected"] for figure in figures]))
            values = json.loads(path.read_text())
            tried.append((sum(values) / len(values), settings, values))
        for _, settings, values in sorted(tried, key=lambda trial: -trial[0]):
            told = ", ".join(f"{key} {value:g}" for key, value in settings.items())
            rows.append([method, told, *(f"{value:.3f}" for value in values)])
    print_table(("method", "settings", *TUNED_ON), rows)
    return 0


def _cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells, all of the first seed before any of the second."""
    for seed in range(args.seeds):
        for unseen in (False,) if args.no_unseen else (False, True):
            for n_bits in args.bits:
                for dataset in args.datasets:
                    for method in args.methods:
                        if dataset in JUDGED and (unseen or METHODS[method].reads_labels):
                            continue
                        counts = (None, None)
                        if dataset in LABELLED:
                            counts = (args.documents, args.queries)
                        yield Cell(dataset, method, n_bits, seed, args.supervision, unseen, *counts)


def _parse_vectors(options: list[str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for option in options:
        dataset, _, file = option.partition("=")
        if dataset not in LABELLED or not file:
            form = f"DATA-SET=FILE, where DATA-SET is one of {', '.join(LABELLED)}"
            raise LeaderboardError(f"vectors is {option!r}; it must be {form}")
        files[dataset] = Path(file)
    return files


def _print(args: argparse.Namespace, dataset: str, n_bits: int, records: list[Record]) -> None:
    header = ("method", "p@100", "tie-averaged", "mAP@100", "unseen", "codes", "CPU s", "printed")
    rows = []
    for method in args.methods:
        own = [
            record
            for record in records
            if (record["dataset"], record["method"], record["n_bits"]) == (dataset, method, n_bits)
        ]
        seen = [record for record in own if not record["unseen"]]
        unseen = [record for record in own if record["unseen"]]
        figures = ("p100", "p100_expected", "map100_expected")
        row = [method, *(_mean(seen, name) for name in figures), _mean(unseen, "p100_expected")]
        row += [_whole_mean(seen, "distinct_codes"), _whole_mean(seen, "cpu_seconds")]
        printed = printed_p100(dataset, n_bits, args.supervision) if dataset == "snippets" else {}
        rows.append(
            [*row, f"{printed[PRINTED[method]]:.3f}" if _is_printed(printed, method) else ""]
        )
    print_table(header, rows)


def _print_judged(args: argparse.Namespace, judged: list[str], records: list[Record]) -> None:
    """Print the tie-averaged nDCG@10 of the methods without labels, and that of BM25."""
    by_words = []
    for dataset in judged:
        corpus = read_corpus(dataset, "queries", args.data_root)
        scores = bm25_scores(corpus.queries, build_index(corpus.documents, STEMS))
        found = evaluate_by_score([scores], corpus.relevance, [JUDGED_METRIC])
        by_words.append(f"{found.expected[JUDGED_METRIC]:.3f}")
    methods = [method for method in args.methods if not METHODS[method].reads_labels]
    for n_bits in args.bits:
        print(f"\n{JUDGED_METRIC} of judged queries, {n_bits} bits\n")
        rows = [["bm25", *by_words, ""]]
        for method in methods:
            own = [
                record
                for record in records
                if (record["method"], record["n_bits"]) == (method, n_bits)
                and record["dataset"] in judged
            ]
            figures = [
                _mean([cell for cell in own if cell["dataset"] == dataset], "ndcg10_expected")
                for dataset in judged
            ]
            rows.append([method, *figures, _whole_mean(own, "cpu_seconds")])
        print_table(("method", *judged, "CPU s"), rows)


def _print_overviews(args: argparse.Namespace, datasets: list[str], records: list[Record]) -> None:
    """Print the tie-averaged P@100 of each method on each data set, a table for each width."""
    for n_bits in args.bits:
        for unseen in (False,) if args.no_unseen else (False, True):
            queries = "queries of unseen classes" if unseen else "all queries"
            print(f"\ntie-averaged p@100, {n_bits} bits, {queries}\n")
            rows = [
                [
                    method,
                    *(
                        _expected(records, dataset, method, n_bits, unseen=unseen)
                        for dataset in datasets
                    ),
                ]
                for method in args.methods
            ]
            print_table(("method", *datasets), rows)


def _expected(
    records: list[Record], dataset: str, method: str, n_bits: int, *, unseen: bool
) -> str:
    wanted = (dataset, method, n_bits, unseen)
    keys = ("dataset", "method", "n_bits", "unseen")
    own = [record for record in records if tuple(record[key] for key in keys) == wanted]
    return _mean(own, "p100_expected")


def _is_printed(printed: Mapping[str, float], method: str) -> bool:
    return PRINTED.get(method) in printed


def _mean(records: list[Record], figure: str) -> str:
    return mean_and_deviation(records, figure) if records else ""


def _whole_mean(records: list[Record], figure: str) -> str:
    if not records:
        return ""
    return f"{sum(record[figure] for record in records) / len(records):,.0f}"
