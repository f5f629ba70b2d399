"""The Riemannian potato ranking loss beside other losses, on matrices of motion and brain waves.

Every method trains the same network of SPD layers, from the same initial weights and for the same
number of steps. It is evaluated by the distance it was trained with. For R@1 and R@3 the test
matrices are the queries and the training matrices the database; NMI and F1 compare k-means clusters
of the test matrices with their classes. The last figure is the mean distance of test matrices of
one class over that of two classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from experiments.drawings import new_drawing, save_drawing
from experiments.parts import add_choices, add_plot_option, add_run_options, need
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from hummingbit.encoder.recipes import RecipeError

if TYPE_CHECKING:
    from experiments.riemannian_potato.spd_corpora import SpdCorpus
    from experiments.saved_tensors import Tensors

SUMMARY = "Riemannian potato ranking loss, beside other losses on SPD matrices"
NEEDS = ", and the dependency group experiments for the losses triplet to ranked-list"

DATASETS = ("hdm05", "erp", "wishart")
METHODS = {
    "untrained": "the network as initialized",
    "rpl": "Riemannian potato ranking loss, affine-invariant",
    "rpl-log": "Riemannian potato ranking loss, log-Euclidean",
    "rpl-sphere": "Riemannian potato ranking loss, on vectors of unit length",
    "matrix-triplet": "triplet margin loss of matrices, affine-invariant",
    "triplet": "triplet margin loss",
    "triplet-semihard": "triplet margin loss of semi-hard triplets",
    "n-pair": "N-pair loss",
    "lifted-structure": "lifted structure loss",
    "proxy-nca": "proxy-NCA",
    "ranked-list": "ranked list loss",
}
POTATOES = ("rpl", "rpl-log", "rpl-sphere")
OF_LIBRARY = tuple(METHODS)[5:]
"""The losses of pytorch-metric-learning."""
AVERAGES = ("pairs", "anchors")
FIGURES = {"f1": "F1", "nmi": "NMI", "r1": "R@1", "r3": "R@3", "ratio": "within / between"}
LEARNING_RATE = 0.03


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--dataset", required=True, choices=DATASETS, help="the data set")
    add_choices(parser, "--methods", METHODS, "the losses to compare")
    parser.add_argument(
        "--epochs",
        type=int,
        default=30,
        metavar="N",
        help="passes over the matrices (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=48,
        metavar="N",
        help="matrices in a batch (default: %(default)s)",
    )
    parser.add_argument(
        "--order", type=int, default=8, metavar="N", help="rows of the learned matrices"
    )
    parser.add_argument(
        "--keep-lengths",
        action="store_true",
        help="give the losses of other papers vectors as they are, not of unit length",
    )
    potato = parser.add_argument_group("the Riemannian potato ranking loss")
    potato.add_argument("--threshold", type=float, default=-1.0, metavar="Z", help="z_th")
    potato.add_argument(
        "--margin", type=float, default=6.0, metavar="M", help="m (default: %(default)s)"
    )
    potato.add_argument(
        "--balance", type=float, default=1.0, metavar="LAMBDA", help="λ (default: %(default)s)"
    )
    potato.add_argument(
        "--average",
        choices=AVERAGES,
        default="pairs",
        help="mean over all pairs of a batch, or over the pairs of each anchor, as on the poster",
    )
    potato.add_argument(
        "--rate", type=float, default=0.5, metavar="BETA", help="β (default: %(default)s)"
    )
    add_run_options(parser, "results/riemannian-potato", seeds=5)
    add_plot_option(parser)
    parser.add_argument(
        "--effect",
        type=Path,
        metavar="FILE",
        help="draw the test matrices in the plane after the first run of each method (.svg, .png)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train every method and seed, then print and draw the figures."""
    from experiments.riemannian_potato.spd_corpora import read_corpus  # noqa: PLC0415 - takes seconds

    need("pytorch_metric_learning", [name for name in args.methods if name in OF_LIBRARY])
    records: list[Record] = []
    planes: dict[str, Any] = {}
    for seed in range(args.seeds):
        corpus = read_corpus(args.dataset, seed, args.data_root)
        for method in args.methods:
            tensors = _measure(args, method, seed, corpus)
            figures = {figure: float(tensors[figure]) for figure in FIGURES}
            records.append({"dataset": args.dataset, "method": method, "seed": seed, **figures})
            planes.setdefault(method, (tensors["plane"].numpy(), corpus.test_labels))
    records.sort(key=lambda record: args.methods.index(record["method"]))
    save_records(args, records)
    rows = [
        [METHODS[method], *(mean_and_deviation(runs, figure) for figure in FIGURES)]
        for (method,), runs in group(records, "method").items()
    ]
    print_table(("trained with", *FIGURES.values()), rows)
    if args.plot:
        _plot(args.plot, args.dataset, records)
    if args.effect:
        _plot_effect(args.effect, args.dataset, planes)
    return 0


def _measure(args: argparse.Namespace, method: str, seed: int, corpus: SpdCorpus) -> Tensors:
    """Return the figures of one run and its plane, saved ones if there are any."""
    from experiments.riemannian_potato.spd_training import Potato, train_and_evaluate  # noqa: PLC0415
    from experiments.saved_tensors import load_or_compute  # noqa: PLC0415 - torch takes a second
    from hummingbit.training.loop import Schedule  # noqa: PLC0415
    from hummingbit.training.objectives.riemannian_potato import Ranking  # noqa: PLC0415

    schedule = Schedule(args.epochs, args.batch_size, LEARNING_RATE, seed)
    try:
        potato = Potato(Ranking(args.threshold, args.margin, args.balance, args.average), args.rate)
    except ValueError as error:
        raise RecipeError(str(error)) from None
    settings = {
        "dataset": args.dataset,
        "data": corpus.sha256,
        "order": args.order,
        "method": method,
        **asdict(schedule),
        **(asdict(potato) if method in POTATOES else {"keep_lengths": args.keep_lengths}),
    }
    name = f"{args.dataset}-{method}-{seed}.safetensors"
    compute = partial(
        train_and_evaluate,
        method,
        corpus,
        args.order,
        schedule,
        potato,
        keep_lengths=args.keep_lengths,
    )
    return load_or_compute(args.work_dir / name, settings, compute)


def _plot(path: Path, dataset: str, records: list[Record]) -> None:
    """Draw the mean and the deviation of every figure, with the methods side by side."""
    drawing = new_drawing(9, 4)
    axes: Any = drawing.subplots()
    groups = group(records, "method")
    width = 0.8 / len(groups)
    for number, ((method,), runs) in enumerate(groups.items()):
        means = [mean(run[figure] for run in runs) for figure in FIGURES]
        spread = [
            stdev([run[figure] for run in runs] + [means[i]]) for i, figure in enumerate(FIGURES)
        ]
        left = [position + number * width for position in range(len(FIGURES))]
        axes.bar(left, means, width, yerr=spread, label=method)
    axes.set_xticks(
        [position + 0.4 - width / 2 for position in range(len(FIGURES))], FIGURES.values()
    )
    axes.set(title=dataset, ylim=(0, 1))
    axes.legend(fontsize="small", ncols=4, loc="lower center")
    save_drawing(drawing, path)


def _plot_effect(path: Path, dataset: str, planes: Mapping[str, Any]) -> None:
    """Draw the test matrices of each method in a plane, with a colour for each class."""
    columns = min(len(planes), 4)
    rows = -(-len(planes) // columns)
    drawing = new_drawing(3 * columns, 3 * rows)
    axes: Any = drawing.subplots(rows, columns, squeeze=False)
    for axis, (method, (plane_Q2, labels_Q)) in zip(axes.flat, planes.items(), strict=False):
        axis.scatter(*plane_Q2.T, c=labels_Q, cmap="tab20", s=9)
        axis.set(title=method, xticks=[], yticks=[], aspect="equal")
    for axis in axes.flat[len(planes) :]:
        axis.set_axis_off()
    drawing.suptitle(dataset)
    save_drawing(drawing, path)
