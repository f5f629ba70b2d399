"""SSB-VAE's retrieval experiment: p@100 and mAP@100 against supervision, the share of labels.

Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
(2020), Tables I and II. The methods train on all training documents, which with their true labels
are also the database; the queries are the test documents. The baselines are the classifier
baseline, fitted to the same labels, and TF-IDF cosine, which uses none.

The paper's data differ in part. Its version of 20 Newsgroups is none of those here; its TMC has
10,000 tf-idf terms and ours 500 binary ones; its CIFAR-10 has VGG features and ours MobileNetV2's.
On those, compare the methods with each other, not with the printed figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np

from experiments.cells import Cell, ReadFiles, documents_name, run_cell, run_tfidf
from experiments.parts import add_bits, add_run_options, need
from experiments.processes import map_runs
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.splits import read_split
from experiments.ssb_vae.ablation import CHANGES, ablate
from experiments.ssb_vae.curves import plot_curves
from experiments.ssb_vae.measures import print_measures
from experiments.ssb_vae.paper_weights import in_the_paper
from experiments.ssb_vae.presets import SHIPPED, read_preset
from experiments.ssb_vae.printed_tables import printed_p100
from experiments.ssb_vae.significance import print_significance, print_tests_over_shares
from experiments.ssb_vae.tuning import GRID, tune
from experiments.ssb_vae.variants import METHODS, variant_recipe
from hummingbit.commands.options import OptionError
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.recipes import (
    CLASS_CODES,
    ICT,
    MODEL,
    ClassCodeRecipe,
    ClozeRecipe,
    LabelledRecipe,
    LinearRecipe,
    ModelRecipe,
)
from hummingbit.training.linear_codes import LINEAR_METHODS
from hummingbit.training.model_codes import read_documents
from hummingbit.training.model_folders import read_model

SUMMARY = "SSB-VAE: retrieval from few labels, ours beside the paper's Table I"
NEEDS = ", and model for --model"
DATASETS = ("snippets", "20news", "20news-headers", "20news-bydate", "hwu64", "tmc", "cifar10")

OTHER_FEATURES = ("tmc", "cifar10")
"""The data sets with other features than the paper's, so that only an order can be compared."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    methods = [*METHODS, ICT, CLASS_CODES, MODEL, *LINEAR_METHODS]
    parser.add_argument(
        "--dataset",
        default="snippets",
        choices=DATASETS,
        help="the data set (default: %(default)s)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=["ssb-vae"],
        choices=methods,
        help="the methods (default: ssb-vae); model: class codes of --model's vectors and of words",
    )
    add_bits(parser, [32])
    parser.add_argument(
        "--supervision",
        type=float,
        nargs="+",
        default=[0.1, 1.0],
        metavar="X",
        help="shares of the labels to train with (default: 0.1 1.0)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="number of runs in parallel"
    )
    parser.add_argument("--paper", action="store_true", help="use the authors' settings")
    parser.add_argument(
        "--analyzer",
        default=VISIBLE.name,
        metavar="NAME",
        help="the analyzer of class-codes (default: %(default)s)",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw mAP@100 against supervision (.svg, .png)"
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--vectors",
        type=Path,
        metavar="FILE",
        help="vectors by id (.npz, .parquet) to use instead of the documents' own content",
    )
    source.add_argument(
        "--model",
        type=Path,
        metavar="FOLDER",
        help="the folder of a language model whose vectors of the texts are used in their place",
    )
    parser.add_argument(
        "--word-vectors",
        type=Path,
        metavar="FILE",
        help="vectors of words for class-codes (.npz, .parquet, .txt, .vec)",
    )
    add_run_options(parser, "results/ssb-vae")
    tuning = parser.add_argument_group("tuning")
    exclusive = tuning.add_mutually_exclusive_group()
    exclusive.add_argument(
        "--ablate",
        nargs="*",
        choices=CHANGES,
        metavar="CHANGE",
        help="score the recipe and changes of it on held-out clusters of training documents"
        f" (default: all of {', '.join(CHANGES)})",
    )
    exclusive.add_argument(
        "--tune",
        action="store_true",
        help="choose settings on held-out clusters of training documents and write them to"
        " --presets",
    )
    exclusive.add_argument(
        "--measures",
        action="store_true",
        help="print p@100 beside measures that a code of the class alone fails: the tree of"
        " classes, unseen classes, the nearest documents, known items",
    )
    tuning.add_argument(
        "--tuned",
        nargs="+",
        choices=GRID,
        metavar="NAME",
        help="the settings to try (default: all)",
    )
    tuning.add_argument(
        "--presets",
        type=Path,
        default=SHIPPED,
        metavar="FILE",
        help="settings by data set and method (default: the ones found here)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train and measure every cell and print the tables; or run --tune, --ablate or --measures."""
    if MODEL in args.methods and args.model is None:
        raise OptionError(f"--methods {MODEL} needs the folder of a language model (--model)")
    args.read = None
    if args.model is not None:
        need("onnxruntime", ["--model"])
        args.read = _vectors_of_model(args)
        args.vectors = args.read.by_id
    if args.tune:
        return tune(args)
    if args.ablate is not None:
        return ablate(args)
    cells = list(_cells(args))
    if args.measures:
        return print_measures(args, cells)
    results = list(map_runs(run_cell, cells, args.jobs))
    records = [record for result in results for record in result.records]
    tfidf = run_tfidf(args.dataset, args.data_root)
    records += [tfidf] if tfidf else []
    save_records(args, records)
    _print_figures(records)
    print_significance(cells, results)
    print_tests_over_shares(records)
    if args.plot:
        plot_curves(args.plot, records, "map100", "mAP@100")
    return 0


def _vectors_of_model(args: argparse.Namespace) -> ReadFiles:
    """Write the model's vectors of documents and queries, once, and return the files."""
    folder = read_model(args.model)
    file: Path = args.work_dir / f"{args.dataset}-{folder.sha256[:12]}.npz"
    both = read_split(args.dataset, args.data_root)
    saved = [file.with_name(f"{file.stem}-{data.sha256[:12]}.vectors") for data in both]
    read = ReadFiles(file, saved[0])
    if file.exists():
        return read
    vectors = []
    for data, of_data in zip(both, saved, strict=True):
        if not data.is_text:
            raise OptionError(f"--model reads texts, and the documents of {args.dataset} are none")
        texts = [str(text) for text in data.inputs]
        vectors.append(read_documents(folder, texts, data.sha256, of_data)[0])
    ids = [id_ for data in both for id_ in data.ids]
    np.savez(file, ids=np.array(ids), vectors=np.vstack(vectors))
    return read


def _cells(args: argparse.Namespace) -> Iterator[Cell]:
    for n_bits in args.bits:
        for supervision in args.supervision:
            for seed in range(args.seeds):
                for method in args.methods:
                    recipe = _recipe(args, method, n_bits, supervision, seed)
                    vectors = None if method == MODEL else args.vectors
                    documents = documents_name(args.dataset, vectors)
                    variant = f"{method}-paper" if args.paper else method
                    if method == "class-codes" and args.analyzer != VISIBLE.name:
                        variant = f"{method}-{args.analyzer}"
                    if method == "class-codes" and args.word_vectors:
                        variant += f"-{args.word_vectors.stem}"
                    name = f"{documents}-{variant}-{n_bits}-{supervision:g}-{seed}"
                    folder = args.work_dir / name
                    yield Cell(
                        args.dataset,
                        recipe,
                        folder,
                        args.data_root,
                        vectors,
                        args.word_vectors if method == "class-codes" else None,
                        args.read if method == MODEL else None,
                    )


def _recipe(
    args: argparse.Namespace, method: str, n_bits: int, supervision: float, seed: int
) -> LabelledRecipe:
    # Presets were chosen before, and class-codes holds out clusters itself, so no other document is
    # held out.
    common = {
        "n_bits": n_bits,
        "label_fraction": supervision,
        "seed": seed,
        "validation_share": 0.0,
    }
    if method in LINEAR_METHODS:
        return LinearRecipe(method, **common)  # type: ignore[arg-type]
    if method == MODEL:
        # The vectors that were read have float32.
        preset = read_preset(args.presets, args.dataset, MODEL)
        return ModelRecipe(
            **{"analyzer": args.analyzer, **preset, **common},
            model=str(args.model),
            head=CLASS_CODES,
            precision="float32",
        )
    documents = documents_name(args.dataset, args.vectors)
    preset = {} if args.paper else read_preset(args.presets, documents, method)
    if method == "class-codes":
        return ClassCodeRecipe(**{"analyzer": args.analyzer, **preset, **common})
    if method == ICT:
        return ClozeRecipe(**{**preset, **common})
    recipe = variant_recipe(method, **{**preset, **common})
    return in_the_paper(recipe, args.dataset.split("-")[0]) if args.paper else recipe


def _print_figures(records: list[Record]) -> None:
    header = ("data set", "bits", "ρ", "method", "p@100", "tie-averaged", "mAP@100")
    rows = []
    for cell, runs in group(records, "dataset", "n_bits", "supervision", "method").items():
        dataset, n_bits, supervision, method = cell
        name = "20news" if dataset in DATASETS and dataset.startswith("20news") else dataset
        printed = printed_p100(name, n_bits, supervision) if n_bits and supervision else {}
        figures = (mean_and_deviation(runs, key) for key in ("p100", "p100_expected", "map100"))
        setting = (dataset, str(n_bits or "–"), str(supervision or "–"), method)
        paper = f"{printed[method]:.3f}" if method in printed else "–"
        best = f"{max(printed.values()):.3f}" if printed else "–"
        rows.append([*setting, *figures, *_code_statistics(runs), paper, best])
    print_table((*header, "codes", "bits set", "paper", "paper's best"), rows)
    for dataset in OTHER_FEATURES:
        if any(record["dataset"] == dataset for record in records):
            print(f"\n{dataset} has other features than the paper's: compare the order, not values")


def _code_statistics(runs: list[Record]) -> tuple[str, str]:
    """Return the mean number of distinct codes, and the range of the shares of ones by bit."""
    if runs[0]["distinct_codes"] is None:
        return "–", "–"
    codes = f"{mean(run['distinct_codes'] for run in runs):,.0f}"
    if "bit_balance_least" not in runs[0]:
        return codes, "–"
    least = min(run["bit_balance_least"] for run in runs)
    most = max(run["bit_balance_most"] for run in runs)
    return codes, f"{least:.2f}–{most:.2f}"
