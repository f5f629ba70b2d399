"""Finding the odd one of six quadrilaterals, and whether regular shapes make it easier.

Source: Marjieh, Kumar, Campbell et al. (2024) on the task of Sablé-Meyer et al. (PNAS 2021). Five
pictures show one quadrilateral in different sizes and rotations, and one shows another. The two are
a shape and a variant of it with a corner moved; either may be the odd one. People make more errors
the less regular the shape is; baboons hardly do. A network chooses the picture whose embedding is
farthest from the mean of the six.

Encoders are trained on pictures of the eleven shapes and their four variants each, or of the shapes
alone. By the generative similarity of the Beta–Bernoulli model with α = β, distances of embeddings
are fitted to the root of −ln s_gen, which is the distance of the 22 features, or triplets are drawn
(α = β = 1). The baselines are classification and SimCLR. The encoders are small and trained from
scratch, where the paper fine-tunes CorNet, so compare methods only within a run.

Regularity is the number of features that a shape has. The figures, over the eleven shapes, are
Spearman's correlations of a network's error rate with the missing regularity of a shape, and with
the error rates of groups of people and of baboons. Their intervals are over the trials of a group,
because the published rates are means over its people; those of Figure S2 are over people.

``--oddball-judgements FILE`` adds Figure 2D: Spearman's correlation of the cosines of two shapes,
by the mean embeddings of their pictures, with how similar people judge them. The judgements of the
paper are not published.
"""

from __future__ import annotations

import argparse
import csv
from functools import partial
from math import isfinite, nan, radians
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata, spearmanr
from torch import Tensor
from torch.nn import functional

from experiments.drawings import new_drawing, save_drawing
from experiments.generative_similarity.contrastive_baselines import OF_LIBRARY
from experiments.generative_similarity.picture_encoders import (
    METHODS,
    Pictures,
    embed,
    minus_distance,
    train_encoder,
)
from experiments.generative_similarity.quadrilateral_shapes import (
    N_FEATURES,
    SHAPES,
    draw,
    features,
    odd_variants,
    place_shape,
)
from experiments.parts import add_choices, need
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, load_or_compute
from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.named_sets import find_file
from hummingbit.training.generative_models import BetaBernoulli
from hummingbit.training.loop import Schedule

COMPARED_METHODS = tuple(method for method in METHODS if method != "supcon")
SIZE = 32
TURN = radians(25)
SCALES = (0.875, 1.125)
"""The largest rotation and the range of sizes, those of the published pictures."""

_TEST_PICTURES = 50
_TRIALS = 500
_PEOPLE = "french_adults_1"
_BABOONS = "baboons_target"


def configure(group: Any) -> None:
    """Add the options."""
    group.add_argument(
        "--oddball-train",
        choices=("all", "shapes"),
        default="all",
        help="train on the shapes and their variants, or on the shapes alone",
    )
    add_choices(group, "--oddball-methods", COMPARED_METHODS, "the methods to compare")
    group.add_argument(
        "--oddball-judgements",
        type=Path,
        metavar="FILE",
        help="judged similarities of shapes: a CSV with columns first, second and similarity",
    )
    group.add_argument(
        "--oddball-epochs", type=int, default=30, metavar="N", help="epochs of training"
    )
    group.add_argument(
        "--oddball-pictures",
        type=int,
        default=80,
        metavar="N",
        help="training pictures of each shape and variant",
    )


def run(args: argparse.Namespace) -> int:
    """Train every method and seed on the task, and compare their error rates."""
    need("pytorch_metric_learning", OF_LIBRARY.intersection(args.oddball_methods))
    judgements = read_judgements(args.oddball_judgements) if args.oddball_judgements else None
    rates, trials = read_error_rates(args.data_root), read_trials(args.data_root)
    pictures = _load_or_draw(args.work_dir, args.oddball_pictures)
    records: list[Record] = []
    for method in args.oddball_methods:
        for seed in range(args.seeds):
            schedule = Schedule(args.oddball_epochs, 64, 2e-3, seed, decay=True)
            sample = {"train": args.oddball_train, "pictures": args.oddball_pictures}
            settings = {"method": method, **sample, **vars(schedule)}
            name = f"oddball-{'-'.join(map(str, settings.values()))}.safetensors"
            path = args.work_dir / name
            compute = partial(error_rates, method, args.oddball_train, pictures, schedule)
            tensors = load_or_compute(path, settings, compute)
            errors = dict(zip(SHAPES, tensors["error_K"].tolist(), strict=True))
            record = {"train": args.oddball_train} | _record(method, seed, errors, rates)
            if judgements is not None:
                found = correlation_with_judgements(tensors["mean_KD"], judgements)
                record["spearman_judgements"] = found
            records.append(record)
    save_records(args, records)
    _print(records, rates)
    _print_intervals(records, rates, trials)
    if args.plot:
        _plot(args.plot, records, rates)
    return 0


def regularity(shape: str) -> int:
    """Return the number of the 22 features that a shape has."""
    return int(features(SHAPES[shape]).sum())


def error_rates(method: str, train: str, pictures: Tensors, schedule: Schedule) -> Tensors:
    """Train an encoder and return its error rate on each shape, ``error_K``, ``float64[11]``.

    ``mean_KD`` are the mean embeddings of the pictures of each shape.
    `train` is ``all`` or ``shapes``; `pictures` are those of :func:`draw_shapes`.
    """
    encoder = train_encoder(method, _training_pictures(train, pictures["train_KVNHW"]), schedule)
    tests_KVTHW = pictures["test_KVTHW"]
    embedding = embed(encoder, _floats(tests_KVTHW)).view(*tests_KVTHW.shape[:3], -1)
    errors_K = oddball_errors(embedding, np.random.default_rng(schedule.seed))
    return {"error_K": errors_K, "mean_KD": embedding[:, 0].mean(dim=1)}


def _training_pictures(train: str, pictures_KVNHW: Tensor) -> Pictures:
    kinds = [[corners, *odd_variants(corners)] for corners in SHAPES.values()]
    if train == "shapes":
        kinds, pictures_KVNHW = [kind[:1] for kind in kinds], pictures_KVNHW[:, :1]
    features_CF = np.array([features(each) for kind in kinds for each in kind], dtype=np.uint8)
    model = BetaBernoulli(N_FEATURES)
    log_CC = model.log_similarity(features_CF[:, None], features_CF)
    # With α = β = 1, ln s_gen is a constant minus ln 2 for each feature that differs.
    differing_CC = np.rint((log_CC.max() - log_CC) / np.log(2))
    return Pictures(
        x=_floats(pictures_KVNHW),
        classes=torch.arange(len(features_CF)).repeat_interleave(pictures_KVNHW.shape[2]),
        kernel=torch.from_numpy(np.exp(log_CC)),
        target=-torch.from_numpy(np.sqrt(differing_CC)).float(),
        similarity=minus_distance,
        turn=TURN,
    )


def oddball_errors(
    embedding_KVTD: Tensor, rng: np.random.Generator, trials: int = _TRIALS
) -> Tensor:
    """Return the share of trials on each shape in which the odd one is missed, ``float64[K]``.

    V = 0 is the shape itself and V > 0 are its variants, T pictures each. A trial shows five
    pictures of the shape and one of a variant, or five of a variant and one of the shape. The
    choice is the embedding farthest from the mean of the six, which is also the one farthest from
    the mean of the other five.
    """
    n_shapes, n_variants, n_pictures, _ = embedding_KVTD.shape
    errors = torch.empty(n_shapes, dtype=torch.float64)
    for k in range(n_shapes):
        chosen = rng.random((trials, n_pictures)).argsort(axis=1)[:, :5]
        odd = rng.integers(0, n_pictures, trials)
        variant = rng.integers(1, n_variants, trials)
        swapped = rng.integers(0, 2, trials)
        five = embedding_KVTD[k, (variant * swapped)[:, None], chosen]
        six = torch.cat([five, embedding_KVTD[k, variant * (1 - swapped), odd][:, None]], dim=1)
        distance = (six - six.mean(dim=1, keepdim=True)).norm(dim=2)
        errors[k] = (distance.argmax(dim=1) != 5).double().mean()
    return errors


def read_error_rates(data_root: Path | None) -> dict[str, dict[str, float]]:
    """Return the published error rates by group and shape.

    Raises:
        ReadError: if the file or a column is missing, a group lacks a shape, or a rate is not
            between 0 and 1.
    """
    path = find_file("quadrilaterals", "quadrilaterals/oddball_error_rates.csv", data_root)
    rates: dict[str, dict[str, float]] = {}
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                name, shape, rate = row["group"], row["shape"], float(row["error_rate"])
            except (KeyError, TypeError, ValueError):
                needed = "a row must have a group, a shape and a numeric error_rate"
                raise ReadError(f"{path}:{number}: {needed}") from None
            if not 0 <= rate <= 1:
                raise ReadError(f"{path}:{number}: error_rate is {rate:g}; it must be from 0 to 1")
            rates.setdefault(name, {})[shape] = rate
    for name, of_shape in rates.items():
        missing = ", ".join(sorted(set(SHAPES) - set(of_shape)))
        if missing:
            raise ReadError(f"{path}: group {name} has no rate for {missing}")
    return rates


Judgements = dict[tuple[str, str], float]
"""The mean similarity of pairs of shapes."""


def read_judgements(path: Path) -> Judgements:
    """Return the judged similarity of pairs of shapes; repeated pairs count as their mean.

    The file is a CSV with the columns first, second and similarity.

    Raises:
        ReadError: if the file cannot be read, a row does not name two different shapes and a finite
            similarity, or fewer than three pairs are judged.
    """
    judged: dict[tuple[str, str], list[float]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                pair = (row.get("first") or "", row.get("second") or "")
                if pair[0] == pair[1] or not set(pair) <= set(SHAPES):
                    named = f"first and second are {pair[0]!r:.30} and {pair[1]!r:.30}"
                    message = f"{named}; they must be two of {', '.join(SHAPES)}"
                    raise ReadError(f"{path}:{number}: {message}")
                judged.setdefault((min(pair), max(pair)), []).append(
                    _similarity(row.get("similarity"), f"{path}:{number}")
                )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from None
    if len(judged) < 3:
        raise ReadError(f"{path}: judges {len(judged)} pairs; there must be three or more")
    return {pair: sum(values) / len(values) for pair, values in judged.items()}


def _similarity(text: str | None, location: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = nan
    if not isfinite(value):
        raise ReadError(f"{location}: similarity is {text!r:.30}; it must be a finite number")
    return value


def correlation_with_judgements(mean_KD: Tensor, judgements: Judgements) -> float:
    """Return Spearman's correlation of the cosines of pairs of shapes with their judgements."""
    unit_KD = functional.normalize(mean_KD.double(), dim=1)
    number = {shape: i for i, shape in enumerate(SHAPES)}
    cosines = [float(unit_KD[number[a]] @ unit_KD[number[b]]) for a, b in judgements]
    return float(spearmanr(cosines, list(judgements.values())).statistic)


def read_trials(data_root: Path | None) -> dict[str, dict[str, int]]:
    """Return the number of trials by group and shape, of the file that has the error rates.

    Raises:
        ReadError: if a row has no whole number of trials above 0.
    """
    path = find_file("quadrilaterals", "quadrilaterals/oddball_error_rates.csv", data_root)
    trials: dict[str, dict[str, int]] = {}
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            text = row.get("trials") or ""
            if not text.isascii() or not text.isdigit() or int(text) == 0:
                message = f"trials is {text!r:.20}; it must be a whole number above 0"
                raise ReadError(f"{path}:{number}: {message}")
            trials.setdefault(row["group"], {})[row["shape"]] = int(text)
    return trials


def interval_over_trials(
    errors_K: npt.NDArray[np.float64],
    rate_K: npt.NDArray[np.float64],
    trials_K: npt.NDArray[np.int64],
    draws: int = 2000,
) -> tuple[float, float]:
    """Return the 95 % interval of Spearman's correlation of a network's errors with a group's.

    Each draw has a binomial number of errors of the group on each shape, from its trials and rate.
    """
    rng = np.random.default_rng(0)
    drawn_DK = rng.binomial(trials_K, rate_K, (draws, len(rate_K))) / trials_K
    ranks_K, ranks_DK = (rankdata(x, axis=-1) - (len(x.T) + 1) / 2 for x in (errors_K, drawn_DK))
    lengths_D = np.linalg.norm(ranks_K) * np.linalg.norm(ranks_DK, axis=1)
    values = (ranks_DK @ ranks_K) / np.where(lengths_D == 0, 1, lengths_D)
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _load_or_draw(folder: Path, count: int) -> Tensors:
    settings = {"pictures": count, "test": _TEST_PICTURES, "size": SIZE}
    path = folder / f"quadrilaterals-{count}.safetensors"
    return load_or_compute(path, settings, partial(draw_shapes, count, _TEST_PICTURES))


def draw_shapes(count: int, test_count: int) -> Tensors:
    """Return pictures for training, ``uint8[K, V, count, S, S]``, and for the test.

    V = 0 is the shape itself and V > 0 are its variants.
    """
    rng = np.random.default_rng(0)
    pictures_by_use: dict[str, list[Tensor]] = {"train_KVNHW": [], "test_KVTHW": []}
    for corners in SHAPES.values():
        kinds = [corners, *odd_variants(corners)]
        for name, n in (("train_KVNHW", count), ("test_KVTHW", test_count)):
            pictures = np.stack([_draw_pictures(kind, n, rng) for kind in kinds])
            pictures_by_use[name].append(torch.from_numpy(pictures))
    return {name: torch.stack(parts) for name, parts in pictures_by_use.items()}


def _draw_pictures(
    corners: npt.NDArray[np.float64], count: int, rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    scale, angle = rng.uniform(*SCALES, count), rng.uniform(-TURN, TURN, count)
    return draw(place_shape(corners, scale, angle), SIZE)


def _floats(pictures: Tensor) -> Tensor:
    return pictures.reshape(-1, 1, SIZE, SIZE).float() / 255


def _record(
    method: str, seed: int, errors: dict[str, float], rates: dict[str, dict[str, float]]
) -> Record:
    return {
        "part": "quadrilaterals",
        "method": method,
        "seed": seed,
        "error_rate": sum(errors.values()) / len(errors),
        **_correlations(errors, rates),
        **{f"error_{shape}": error for shape, error in errors.items()},
    }


def _correlations(errors: dict[str, float], rates: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return Spearman's correlations of errors with missing regularity and with every group."""
    references = {"regularity": {shape: -float(regularity(shape)) for shape in SHAPES}, **rates}
    return {
        f"spearman_{name}": float(
            spearmanr([errors[s] for s in SHAPES], [of_shape[s] for s in SHAPES]).statistic
        )
        for name, of_shape in references.items()
    }


def _print(records: list[Record], rates: dict[str, dict[str, float]]) -> None:
    figures = ["spearman_regularity", f"spearman_{_PEOPLE}", f"spearman_{_BABOONS}"]
    figures += ["spearman_judgements", "error_rate"]
    figures = [figure for figure in figures if figure in records[0]]
    rows = [
        [METHODS[method], str(len(runs)), *(mean_and_deviation(runs, figure) for figure in figures)]
        for (method,), runs in group(records, "method").items()
    ]
    print_table(["trained with", "seeds", *figures], rows)
    print("\nSpearman's correlation of the errors averaged over seeds (p):\n")
    rows = []
    for (method,), runs in group(records, "method").items():
        mean_errors = [np.mean([run[f"error_{shape}"] for run in runs]) for shape in SHAPES]
        references = [[-float(regularity(s)) for s in SHAPES]]
        references += [[of_shape[s] for s in SHAPES] for of_shape in rates.values()]
        rows.append([METHODS[method], *(_correlation(mean_errors, each) for each in references)])
    print_table(["trained with", "regularity", *rates], rows)


def _print_intervals(
    records: list[Record], rates: dict[str, dict[str, float]], trials: dict[str, dict[str, int]]
) -> None:
    """Print the correlations of the errors averaged over seeds with each group, with intervals."""
    print("\n95 % intervals of the same over the trials of each group:\n")
    rows = []
    for (method,), runs in group(records, "method").items():
        errors = np.array([np.mean([run[f"error_{shape}"] for run in runs]) for shape in SHAPES])
        row = [METHODS[method]]
        for name, of_shape in rates.items():
            rate, counts = ([each[s] for s in SHAPES] for each in (of_shape, trials[name]))
            low, high = interval_over_trials(errors, np.array(rate), np.array(counts))
            row.append(f"{low:.2f} to {high:.2f}")
        rows.append(row)
    print_table(["trained with", *rates], rows)


def _correlation(errors: list[Any], others: list[Any]) -> str:
    result = spearmanr(errors, others)
    return f"{result.statistic:.2f} ({result.pvalue:.2g})"


def _plot(path: Path, records: list[Record], rates: dict[str, dict[str, float]]) -> None:
    """Draw the error rates of methods and groups by shape, from regular to irregular."""
    drawing = new_drawing(12, 5)
    left, right = drawing.subplots(1, 2, sharey=True)
    order = sorted(SHAPES, key=regularity, reverse=True)
    for (method,), runs in group(records, "method").items():
        errors = np.array([[run[f"error_{shape}"] for shape in order] for run in runs])
        spread = errors.std(axis=0, ddof=1) if len(runs) > 1 else None
        label = METHODS[method]
        left.errorbar(order, errors.mean(axis=0), spread, marker="o", capsize=3, label=label)
    for name, of_shape in rates.items():
        right.plot(order, [of_shape[shape] for shape in order], marker="o", label=name)
    for axes, title in ((left, "networks"), (right, "people and baboons")):
        axes.set(ylabel="error rate", ylim=(0, None))
        axes.tick_params(axis="x", rotation=60)
        axes.grid(alpha=0.3)
        position = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
        axes.legend(title=title, fontsize="small", ncols=3, frameon=False, **position)
    save_drawing(drawing, path)
