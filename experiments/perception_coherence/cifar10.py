"""Transfer between image networks: a three-convolution student learns from a teacher, unlabelled.

The teacher is trained on the labels of CIFAR-10. Each method then trains the student on the
teacher's features, or on its logits for soft labels, and never on a label. The test images are the
queries and the training images the database, compared by cosine of the student's 64-d embeddings.
The figures are 11-point interpolated mAP and the precision of the first 100, as in the paper's
Tables 2, 5 and 6.

Each method has four candidate settings. The choice is by mAP on training images held out of its
transfer; test images play no part. There are two scales: `full` is the paper's, ResNet-18 and all
images, and needs an accelerator; `small` runs on a processor in minutes. The images are JPEG,
slightly lossy, unlike the paper's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from experiments.perception_coherence.cifar_images import Images, read_images
from experiments.perception_coherence.figures import plot_methods
from experiments.perception_coherence.image_networks import SmallStudent, apply_in_batches
from experiments.perception_coherence.image_retrieval import retrieval_figures
from experiments.perception_coherence.image_training import (
    Deadline,
    OutOfTimeError,
    TaughtImages,
    TeacherRun,
    Transfer,
    add_teacher_outputs,
    train_teacher,
    transfer,
)
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, load_or_compute
from training.objectives.perception_coherence import global_perception_coherence

COHERENCE = "perception-coherence"
FIGURES = ("map11", "top100", "coherence")
OUT_OF_TIME = 75
"""The exit status of a run that ended before its work was complete, EX_TEMPFAIL."""

Setting = tuple[float, Mapping[str, Any]]
"""A learning rate and the settings of the objective."""

_TEMPERATURES = tuple(
    {"teacher_temperature": teacher, "student_temperature": student}
    for teacher, student in ((0.1, 0.3), (0.05, 0.1))
)
_RATES = (5e-3, 1e-2)
_RATES_ALONE = (1e-3, 5e-3, 1e-2, 2e-2)
SETTINGS: Mapping[str, tuple[Setting, ...]] = {
    COHERENCE: tuple((rate, t) for rate in _RATES for t in _TEMPERATURES),
    "kd": tuple((rate, {"temperature": t}) for rate in _RATES for t in (2.0, 4.0)),
    "fitnet": tuple((rate, {}) for rate in _RATES_ALONE),
    "vid": tuple((rate, {}) for rate in _RATES_ALONE),
    "mkt": tuple((rate, {"dissimilarity": d}) for rate in _RATES for d in ("cosine", "euclidean")),
    "pkt": tuple((rate, {}) for rate in _RATES_ALONE),
    "rkd": tuple((rate, {"angle_weight": w}) for rate in _RATES for w in (0.0, 2.0)),
    "crd": tuple((rate, {"temperature": t}) for rate in _RATES for t in (0.07, 0.2)),
}
"""Four candidate settings by method; validation chooses among them."""

ABLATED_TEMPERATURES = (0.05, 0.1, 0.3)
ABLATED_WIDTHS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Scale:
    """The size of a run: `teacher` is widths, blocks, epochs; images are per class, None: all."""

    teacher: tuple[tuple[int, ...], int, int]
    train: int | None
    test: int | None
    validation: int
    epochs: int
    tuning_epochs: int


SCALES = {
    "full": Scale(((64, 128, 256, 512), 2, 30), None, None, 500, 50, 10),
    "small": Scale(((16, 32, 64), 1, 25), 500, 100, 50, 20, 8),
}


@dataclass(frozen=True)
class Bench:
    """The data and settings that all transfers share."""

    taught: TaughtImages
    test: Images
    test_features: torch.Tensor
    scale: Scale
    folder: Path
    deadline: Deadline


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    group.add_argument("--scale", default="small", choices=SCALES)
    group.add_argument("--device", default="cpu", help="such as cuda")
    group.add_argument(
        "--minutes", type=float, metavar="X",
        help=f"stop after about X minutes with status {OUT_OF_TIME}; to resume, run it again",
    )  # fmt: skip
    group.add_argument("--methods", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    group.add_argument(
        "--ablations", nargs="*", default=[], choices=("temperature", "size"),
        help="ablations of perception coherence, after the comparison",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train the teacher, choose settings, train every student and print the tables."""
    records: list[Record] = []
    deadline = Deadline.after(args.minutes)
    try:
        for record in _all_records(args, deadline):
            records.append(record)
            save_records(args, records)
    except OutOfTimeError:
        print(
            f"stopped after {args.minutes:g} minutes; to resume, run the command again",
            file=sys.stderr,
        )
        return OUT_OF_TIME
    _print(records)
    if args.plot:
        plot_methods(args.plot, _bars(records))
    return 0


def _all_records(args: argparse.Namespace, deadline: Deadline) -> Iterator[Record]:
    bench, teacher_record = _prepare(args, deadline)
    common = {"part": "cifar10", "scale": args.scale}
    yield {**common, **teacher_record}
    yield {**common, **_untrained_record(bench)}
    settings: dict[str, Setting] = {}
    for method in args.methods:
        settings[method] = _choose(bench, method)
        for seed in range(args.seeds):
            yield {**common, **_measure(bench, _make_run(bench, method, settings[method], seed))}
    for ablation in args.ablations:
        setting = settings.get(COHERENCE) or _choose(bench, COHERENCE)
        for transfer_run in _ablation_runs(bench, ablation, setting, args.seeds):
            yield {**common, **_measure(bench, transfer_run), "ablation": ablation}


def _prepare(args: argparse.Namespace, deadline: Deadline) -> tuple[Bench, Record]:
    scale, device = SCALES[args.scale], torch.device(args.device)
    images = read_images("train", args.data_root, scale.train).to(device)
    test = read_images("test", args.data_root, scale.test).to(device)
    folder = args.work_dir / f"cifar10-{args.scale}"
    teacher_run = TeacherRun(*scale.teacher, len(images))
    teacher = train_teacher(teacher_run, images, folder / "teacher.safetensors", deadline)
    taught, features = (
        add_teacher_outputs(teacher, images),
        apply_in_batches(teacher, "features", test.x),
    )
    bench = Bench(taught, test, features, scale, folder, deadline)
    map11, top100 = retrieval_figures(features, test.labels, taught.features[0], images.labels)
    logits = apply_in_batches(teacher, "forward", test.x)
    accuracy = float((logits.argmax(dim=1) == test.labels).to(torch.float32).mean())
    figures = {"map11": map11, "top100": top100, "coherence": 1.0, "accuracy": accuracy}
    return bench, {"method": "teacher", "seed": 0, **figures, "ablation": None}


def _untrained_record(bench: Bench) -> Record:
    torch.manual_seed(0)
    student = SmallStudent().to(bench.taught.x.device)
    return {"method": "untrained", "seed": 0, **_figures(bench, student), "ablation": None}


def _make_run(bench: Bench, method: str, setting: Setting, seed: int) -> Transfer:
    rate, settings = setting
    n = len(bench.taught.labels)
    return Transfer(method, seed, bench.scale.epochs, n, rate, settings)


def _ablation_runs(bench: Bench, ablation: str, setting: Setting, seeds: int) -> Iterator[Transfer]:
    """Yield the runs of an ablation: all pairs of temperatures, or all widths of the student."""
    rate, _ = setting
    for seed in range(seeds):
        if ablation == "size":
            base = _make_run(bench, COHERENCE, setting, seed)
            yield from (replace(base, width=width) for width in ABLATED_WIDTHS)
            continue
        for teacher in ABLATED_TEMPERATURES:
            for student in ABLATED_TEMPERATURES:
                temperatures = {"teacher_temperature": teacher, "student_temperature": student}
                yield _make_run(bench, COHERENCE, (rate, temperatures), seed)


def _measure(bench: Bench, run: Transfer) -> Record:
    """Return the record of a run, from saved figures or by training the student."""
    name = _run_name(run)

    def train_and_measure() -> Tensors:
        path = bench.folder / f"{name}.checkpoint.safetensors"
        student = transfer(run, bench.taught, path, bench.deadline)
        figures = _figures(bench, student)
        path.unlink(missing_ok=True)
        return {key: torch.tensor(value, dtype=torch.float64) for key, value in figures.items()}

    tensors = load_or_compute(bench.folder / f"{name}.safetensors", asdict(run), train_and_measure)
    return {
        "method": run.method,
        "seed": run.seed,
        **{key: float(tensors[key]) for key in FIGURES},
        "learning_rate": run.learning_rate,
        **run.settings,
        "width": run.width,
        "ablation": None,
    }


def _figures(bench: Bench, student: SmallStudent) -> dict[str, float]:
    database = apply_in_batches(student, "features", bench.taught.x[0])
    queries = apply_in_batches(student, "features", bench.test.x)
    labels = (bench.test.labels, bench.taught.labels)
    map11, top100 = retrieval_figures(queries, labels[0], database, labels[1])
    level = global_perception_coherence(queries, bench.test_features)
    return {"map11": map11, "top100": top100, "coherence": level}


def _choose(bench: Bench, method: str) -> Setting:
    """Return the setting with the highest mAP for queries held out of the training images."""
    queries, rest = bench.taught.split(bench.scale.validation)
    best: tuple[float, int] = (-1.0, 0)
    for number, (rate, settings) in enumerate(SETTINGS[method]):
        n = len(rest.labels)
        run = Transfer(method, 0, bench.scale.tuning_epochs, n, rate, settings)
        name = f"tuning-{_run_name(run)}"

        def validate(run: Transfer = run, name: str = name) -> Tensors:
            path = bench.folder / f"{name}.checkpoint.safetensors"
            student = transfer(run, rest, path, bench.deadline)
            query_features, database = (
                apply_in_batches(student, "features", part.x[0]) for part in (queries, rest)
            )
            map11, _ = retrieval_figures(query_features, queries.labels, database, rest.labels)
            path.unlink(missing_ok=True)
            return {"map11": torch.tensor(map11, dtype=torch.float64)}

        score = load_or_compute(bench.folder / f"{name}.safetensors", asdict(run), validate)[
            "map11"
        ]
        print(f"{method} at {rate:g} {dict(settings)}: {score:.4f}", file=sys.stderr, flush=True)
        best = max(best, (float(score), -number))
    return SETTINGS[method][-best[1]]


def _run_name(run: Transfer) -> str:
    settings = "-".join(f"{value}" for value in run.settings.values())
    return f"{run.method}-{run.learning_rate:g}-{settings}-{run.width:g}-{run.seed}"


def _print(records: list[Record]) -> None:
    compared = [record for record in records if record["ablation"] is None]
    rows = [
        [method, *(mean_and_deviation(runs, key) for key in FIGURES), _format_setting(runs[0])]
        for (method,), runs in group(compared, "method").items()
    ]
    print_table(("method", "mAP", "top-100", "coherence", "chosen on validation"), rows)
    for (ablation,), runs in group(records, "ablation").items():
        if ablation is None:
            continue
        temperatures = "teacher_temperature", "student_temperature"
        keys = temperatures if ablation == "temperature" else ("width",)
        rows = [
            [*map(str, cell), *(mean_and_deviation(own, key) for key in FIGURES)]
            for cell, own in group(runs, *keys).items()
        ]
        print()
        print_table((*keys, "mAP", "top-100", "coherence"), rows)


def _format_setting(record: Record) -> str:
    omitted = {"part", "scale", "method", "seed", "width", "ablation", "accuracy", *FIGURES}
    return ", ".join(f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
                     for key, value in record.items() if key not in omitted)  # fmt: skip


def _bars(records: list[Record]) -> dict[str, dict[str, tuple[float, float]]]:
    compared = [run for run in records if run["ablation"] is None and run["method"] != "teacher"]
    bars: dict[str, dict[str, tuple[float, float]]] = {}
    for figure in FIGURES:
        for (method,), runs in group(compared, "method").items():
            values = [run[figure] for run in runs]
            spread = stdev(values) if len(values) > 1 else 0.0
            bars.setdefault(figure, {})[method] = (mean(values), spread)
    return bars
