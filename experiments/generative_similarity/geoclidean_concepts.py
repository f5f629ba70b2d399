"""Classification of geometric concepts outside the training set, from five pictures of each.

Source: Marjieh, Kumar, Campbell et al. (2024) on Geoclidean (Hsu, Wu and Goodman 2022). Encoders
are trained on pictures of 30 concepts and evaluated on 7 others. A concept is a program, and the
similarity of concepts is the subtree kernel of their programs. That is the generative similarity,
learned by regression of cosines, on the normalized kernel or as printed on the logarithm of the
count, or by triplets. The baselines are supervised contrast and classification, which know only
which concept a picture shows, and SimCLR, which does not know that either. The encoders are small
and trained from scratch, where the paper fine-tunes a ResNet-50, so compare methods only within a
run. :mod:`experiments.generative_similarity.geoclidean_drawing` draws the pictures. Each seed holds
out 7 concepts of its own, or those of the paper.

The figure is the accuracy of choosing, among the 7 concepts, the one whose mean embedding of five
pictures is nearest by cosine. It is computed for our pictures, over 20 draws of the five, and for
the published ones, of which five are the references and five the queries. Another figure is the
study's own, on the published pictures of close and far variants
(:mod:`experiments.generative_similarity.geoclidean_judgement`).
"""

from __future__ import annotations

import argparse
from functools import partial
from math import pi
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from experiments.drawings import new_drawing, save_drawing
from experiments.generative_similarity.contrastive_baselines import OF_LIBRARY
from experiments.generative_similarity.geoclidean_drawing import draw_program
from experiments.generative_similarity.geoclidean_judgement import (
    REFERENCES,
    prototype_accuracy,
    read_published,
    threshold_accuracy,
)
from experiments.generative_similarity.geoclidean_language import Program, parse_tree, read_concepts
from experiments.generative_similarity.picture_encoders import (
    METHODS,
    Pictures,
    cosine,
    embed,
    train_encoder,
)
from experiments.generative_similarity.program_kernel import ProgramKernel
from experiments.parts import add_choices, need
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, content_sha256, load_or_compute
from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.named_sets import find_file
from hummingbit.training.loop import Schedule

PRINTED = "generative-printed"
CONCEPT_METHODS = {PRINTED: "generative similarity, as printed", **METHODS}
HELD_OUT = 7
PRINTED_HELD_OUT = ("ccc", "cccc", "clcc", "llcc", "perp_bisector", "quadrilateral", "triangle")
"""The concepts that the paper holds out."""

SIZE = 64
"""The width of a drawn picture in pixels; encoders see it at half the size."""

_TEST_PICTURES = 50
_DRAWS = 20

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Concepts(NamedTuple):
    """C concepts with their pictures.

    ``kernel_CC`` is the similarity of their programs, from 0 to 1, and ``log_count_CC`` the
    logarithm of the number of their equal subtrees. Pictures are uint8, black on white.
    ``train_CNHW`` and ``test_CTHW`` are ours; ``published_CTHW`` holds five references, five
    queries, five pictures of the close program and five of the far one. ``sha256`` is the hash of
    the files.
    """

    names: list[str]
    sha256: str
    kernel_CC: Tensor
    log_count_CC: Tensor
    train_CNHW: Tensor
    test_CTHW: Tensor
    published_CTHW: Tensor


def configure(group: Any) -> None:
    """Add the options."""
    add_choices(group, "--concept-methods", CONCEPT_METHODS, "the methods to compare")
    group.add_argument(
        "--concept-epochs",
        type=int,
        default=20,
        metavar="N",
        help="epochs of each method (default: %(default)s)",
    )
    group.add_argument(
        "--concept-pictures",
        type=int,
        default=60,
        metavar="N",
        help="training pictures of each concept",
    )
    group.add_argument(
        "--held-out",
        choices=("drawn", "printed"),
        default="drawn",
        help="hold out 7 concepts drawn for each seed, or the paper's 7",
    )


def run(args: argparse.Namespace) -> int:
    """Train every method and seed, and print their accuracy on the concepts held out."""
    need("pytorch_metric_learning", OF_LIBRARY.intersection(args.concept_methods))
    concepts = _read(args)
    records: list[Record] = []
    for method in args.concept_methods:
        for seed in range(args.seeds):
            schedule = Schedule(args.concept_epochs, 64, 2e-3, seed, decay=True)
            held_out = held_out_concepts(concepts.names, seed, args.held_out)
            settings = {"method": method, "pictures": args.concept_pictures, **vars(schedule)}
            settings["held_out"] = args.held_out
            name = f"concepts-{'-'.join(map(str, settings.values()))}.safetensors"
            settings["data"] = concepts.sha256
            compute = partial(train_and_classify, method, concepts, held_out, schedule)
            accuracies = load_or_compute(args.work_dir / name, settings, compute)
            records.append(_record(method, seed, concepts.names, accuracies))
    save_records(args, records)
    figures = ("accuracy", "accuracy_published", "accuracy_close", "accuracy_far")
    rows = [
        [
            CONCEPT_METHODS[method],
            str(len(runs)),
            *(mean_and_deviation(runs, figure) for figure in figures),
        ]
        for (method,), runs in group(records, "method").items()
    ]
    titles = ("accuracy", "on published pictures", "not the close one", "not the far one")
    print_table(("trained with", "seeds", *titles), rows)
    if args.plot:
        _plot(args.plot, concepts, records)
    return 0


def train_and_classify(
    method: str, concepts: Concepts, held_out: Numbers, schedule: Schedule
) -> Tensors:
    """Train on all concepts but those of these numbers, and return the accuracy on those.

    ``accuracy_C`` and ``accuracy_published_C`` come from :func:`prototype_accuracy`,
    ``accuracy_close_C`` and ``accuracy_far_C`` from :func:`threshold_accuracy`. All are NaN for
    concepts in the training set.
    """
    trained = np.setdiff1d(np.arange(len(concepts.names)), held_out)
    train_CNHW = concepts.train_CNHW[trained]
    target_CC = concepts.log_count_CC if method == PRINTED else concepts.kernel_CC
    pictures = Pictures(
        x=_ink(train_CNHW),
        classes=torch.arange(len(trained)).repeat_interleave(train_CNHW.shape[1]),
        kernel=concepts.kernel_CC[trained][:, trained],
        target=target_CC[trained][:, trained].float(),
        similarity=cosine,
        turn=pi,
    )
    regression = "generative-regression"
    encoder = train_encoder(regression if method == PRINTED else method, pictures, schedule)
    rng = np.random.default_rng(schedule.seed)
    ours_CTD, published_CTD = (
        embed(encoder, _ink(x_CTHW)).view(*x_CTHW.shape[:2], -1)
        for x_CTHW in (concepts.test_CTHW[held_out], concepts.published_CTHW[held_out])
    )
    reference_CRD, query_CTD, close_CTD, far_CTD = torch.split(published_CTD, REFERENCES, 1)
    accuracies = {
        "accuracy_C": prototype_accuracy(ours_CTD, rng, _DRAWS),
        "accuracy_published_C": prototype_accuracy(published_CTD[:, : 2 * REFERENCES], rng, 0),
        "accuracy_close_C": threshold_accuracy(reference_CRD, query_CTD, close_CTD),
        "accuracy_far_C": threshold_accuracy(reference_CRD, query_CTD, far_CTD),
    }
    for name, held_out_accuracy in accuracies.items():
        accuracies[name] = torch.full((len(concepts.names),), torch.nan, dtype=torch.float64)
        accuracies[name][held_out] = held_out_accuracy
    return accuracies


def held_out_concepts(names: list[str], seed: int, choice: str = "drawn") -> Numbers:
    """Return the numbers of the concepts held out, in ascending order.

    Raises:
        ReadError: if one of the printed concepts is not in `names`.
    """
    if choice == "drawn":
        return np.sort(np.random.default_rng(seed).permutation(len(names))[:HELD_OUT])
    missing = [name for name in PRINTED_HELD_OUT if f"concept_{name}" not in names]
    if missing:
        raise ReadError(f"concepts: {', '.join(missing)} of the paper's {HELD_OUT} are missing")
    return np.sort([names.index(f"concept_{name}") for name in PRINTED_HELD_OUT])


def draw_concepts(programs: list[Program], count: int, test_count: int) -> Tensors:
    """Return pictures for training, ``uint8[C, count, 64, 64]``, and for the test."""
    rng = np.random.default_rng(0)
    pictures_by_use: dict[str, list[Tensor]] = {"train_CNHW": [], "test_CTHW": []}
    for program in programs:
        for name, n in (("train_CNHW", count), ("test_CTHW", test_count)):
            pictures = np.stack([draw_program(program, rng, SIZE) for _ in range(n)])
            pictures_by_use[name].append(torch.from_numpy(pictures))
    return {name: torch.stack(parts) for name, parts in pictures_by_use.items()}


def _read(args: argparse.Namespace) -> Concepts:
    path = find_file("geoclidean", "geoclidean/concepts.json", args.data_root)
    programs = read_concepts(path)
    if len(programs) <= HELD_OUT + 1:
        raise ReadError(
            f"{path} has {len(programs)} concepts; there must be more than {HELD_OUT + 1}"
        )
    published = find_file("geoclidean", "geoclidean/images64.npz", args.data_root)
    kernel = ProgramKernel([parse_tree(program) for program in programs.values()])
    count = args.concept_pictures
    settings = {
        "concepts": content_sha256(path.read_bytes()),
        "pictures": count,
        "test": _TEST_PICTURES,
    }
    pictures = load_or_compute(
        args.work_dir / f"geoclidean-{count}.safetensors",
        settings,
        partial(draw_concepts, list(programs.values()), count, _TEST_PICTURES),
    )
    return Concepts(
        names=list(programs),
        sha256=content_sha256(path.read_bytes(), published.read_bytes()),
        kernel_CC=torch.from_numpy(kernel.kernel_NN),
        log_count_CC=torch.from_numpy(kernel.count_NN).log(),
        published_CTHW=read_published(published, list(programs)),
        **pictures,
    )


def _ink(pictures: Tensor) -> Tensor:
    """Return the darkness of pictures, 0 to 1, at half their size, ``float32[N, 1, 32, 32]``."""
    dark = 1 - pictures.reshape(-1, 1, SIZE, SIZE).float() / 255
    return functional.avg_pool2d(dark, 2)


def _record(method: str, seed: int, names: list[str], accuracies: Tensors) -> Record:
    ours_C = accuracies["accuracy_C"]
    return {
        "part": "geoclidean",
        "method": method,
        "seed": seed,
        **{
            name.removesuffix("_C"): float(value_C.nanmean())
            for name, value_C in accuracies.items()
        },
        "held_out": [name for name, value in zip(names, ours_C, strict=True) if value >= 0],
    }


def _plot(path: Path, concepts: Concepts, records: list[Record]) -> None:
    """Draw a picture of every concept, published and ours, and the accuracy of the methods."""
    drawing = new_drawing(13, 7)
    above, below = drawing.subfigures(2, 1, squeeze=False, height_ratios=(3, 2))[:, 0]
    columns = -(-len(concepts.names) // 3)
    grid = above.subplots(6, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for i, name in enumerate(concepts.names):
        row, column = divmod(i, columns)
        pictures = (concepts.published_CTHW[i, 0], concepts.test_CTHW[i, 0])
        for axes, picture in zip(grid[2 * row : 2 * row + 2, column], pictures, strict=True):
            axes.imshow(picture.numpy(), cmap="gray", vmin=0, vmax=255)
        grid[2 * row, column].set_title(name.removeprefix("concept_"), fontsize="x-small", pad=1)
    axes = below.subplots()
    for i, ((method,), runs) in enumerate(group(records, "method").items()):
        axes.plot([run["accuracy"] for run in runs], [-i] * len(runs), "o", color="C0", alpha=0.6)
        axes.text(0.01, -i, CONCEPT_METHODS[method], fontsize="small", va="center")
    axes.axvline(1 / HELD_OUT, ls=":", color="grey")
    axes.set(xlabel=f"accuracy on the {HELD_OUT} concepts held out", xlim=(0, 1))
    axes.set_yticks([])
    axes.margins(y=0.1)
    save_drawing(drawing, path)
