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
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev

import torch

from experiments.parts import add_choices
from experiments.perception_coherence.cifar_images import Images, read_images
from experiments.perception_coherence.coherence_estimates import global_perception_coherence
from experiments.perception_coherence.figures import plot_methods
from experiments.perception_coherence.image_networks import SmallStudent, features_in_batches
from experiments.perception_coherence.image_retrieval import retrieval_figures
from experiments.perception_coherence.image_settings import (
    ABLATED_DEPTHS,
    ABLATED_TEMPERATURES,
    COHERENCE,
    SCALES,
    SETTINGS,
    TEACHER_TEMPERATURE,
    Scale,
    Setting,
)
from experiments.perception_coherence.image_training import (
    AUXILIARY,
    HKD,
    Deadline,
    OutOfTimeError,
    TaughtImages,
    TeacherRun,
    Transfer,
    taught_by,
    train_teacher,
    transfer,
    two_views,
)
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, content_sha256, load_or_compute

FIGURES = ("map11", "top100", "coherence")
OUT_OF_TIME = 75
"""The exit status of a run that ended before its work was complete, EX_TEMPFAIL."""


@dataclass(frozen=True)
class Bench:
    """The data and settings that all transfers share."""

    taught: TaughtImages
    test: Images
    data: str
    """The hash of all images and labels."""
    test_features: torch.Tensor
    scale: Scale
    folder: Path
    deadline: Deadline


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    group.add_argument(
        "--scale",
        default="small",
        choices=SCALES,
        help="the size of the experiment; full needs a GPU (default: %(default)s)",
    )
    group.add_argument("--device", default="cpu", help="such as cuda")
    group.add_argument(
        "--minutes", type=float, metavar="X",
        help=f"stop after about X minutes with status {OUT_OF_TIME}; to resume, run it again",
    )  # fmt: skip
    add_choices(group, "--methods", SETTINGS, "the methods to compare")
    group.add_argument(
        "--ablations", nargs="*", default=[], choices=("temperature", "size"),
        help="ablations of perception coherence, after the comparison: the student's temperature"
        " and its depth, as in the paper's Tables 6 and 5",
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
    data = content_sha256(images.x, images.labels, test.x, test.labels)
    folder = args.work_dir / f"cifar10-{args.scale}"
    teacher_run = TeacherRun(*scale.teacher, len(images), data)
    teacher = train_teacher(teacher_run, images, folder / "teacher.safetensors", deadline)
    taught = taught_by(teacher, two_views(images), images.labels)
    features = features_in_batches(teacher, test.x)
    bench = Bench(taught, test, data, features, scale, folder, deadline)
    map11, top100 = retrieval_figures(features, test.labels, taught.features[0], images.labels)
    with torch.no_grad():
        logits = teacher.logits(features)
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
    return Transfer(method, seed, bench.scale.epochs, n, bench.data, rate, settings)


def _ablation_runs(bench: Bench, ablation: str, setting: Setting, seeds: int) -> Iterator[Transfer]:
    """Yield the runs of an ablation: all depths of the student, or all of its temperatures."""
    rate, _ = setting
    for seed in range(seeds):
        if ablation == "size":
            base = _make_run(bench, COHERENCE, setting, seed)
            yield from (replace(base, depth=depth) for depth in ABLATED_DEPTHS)
            continue
        for student in ABLATED_TEMPERATURES:
            temperatures = {
                "teacher_temperature": TEACHER_TEMPERATURE,
                "student_temperature": student,
            }
            yield _make_run(bench, COHERENCE, (rate, temperatures), seed)


def _measure(bench: Bench, run: Transfer) -> Record:
    """Return the record of a run, from saved figures or by training the student."""
    name = _run_name(run)

    def train_and_measure() -> Tensors:
        student = _train_student(bench, run, bench.taught, name)
        figures = _figures(bench, student)
        return {key: torch.tensor(value, dtype=torch.float64) for key, value in figures.items()}

    tensors = load_or_compute(bench.folder / f"{name}.safetensors", asdict(run), train_and_measure)
    return {
        "method": run.method,
        "seed": run.seed,
        **{key: float(tensors[key]) for key in FIGURES},
        "learning_rate": run.learning_rate,
        **run.settings,
        "depth": run.depth,
        "ablation": None,
    }


def _train_student(bench: Bench, run: Transfer, taught: TaughtImages, name: str) -> SmallStudent:
    """Train a student; that of HKD learns from an auxiliary teacher, which is trained first."""
    if run.method == HKD:
        auxiliary_run = replace(run, method=AUXILIARY, width=2.0)
        auxiliary = SmallStudent(auxiliary_run.width).to(taught.x.device)

        def train_auxiliary() -> Tensors:
            student = _train_student(bench, auxiliary_run, taught, f"{name}-auxiliary")
            return {key: value.contiguous() for key, value in student.state_dict().items()}

        path = bench.folder / f"{name}-auxiliary.safetensors"
        auxiliary.load_state_dict(load_or_compute(path, asdict(auxiliary_run), train_auxiliary))
        taught = taught_by(auxiliary, taught.x, taught.labels)
    path = bench.folder / f"{name}.checkpoint.safetensors"
    student = transfer(run, taught, path, bench.deadline)
    path.unlink(missing_ok=True)
    return student


def _figures(bench: Bench, student: SmallStudent) -> dict[str, float]:
    database = features_in_batches(student, bench.taught.x[0])
    queries = features_in_batches(student, bench.test.x)
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
        run = Transfer(method, 0, bench.scale.tuning_epochs, n, bench.data, rate, settings)
        name = f"tuning-{_run_name(run)}"

        def validate(run: Transfer = run, name: str = name) -> Tensors:
            student = _train_student(bench, run, rest, name)
            query_features, database = (
                features_in_batches(student, part.x[0]) for part in (queries, rest)
            )
            map11, _ = retrieval_figures(query_features, queries.labels, database, rest.labels)
            return {"map11": torch.tensor(map11, dtype=torch.float64)}

        score = load_or_compute(bench.folder / f"{name}.safetensors", asdict(run), validate)[
            "map11"
        ]
        print(f"{method} at {rate:g} {dict(settings)}: {score:.4f}", file=sys.stderr, flush=True)
        best = max(best, (float(score), -number))
    return SETTINGS[method][-best[1]]


def _run_name(run: Transfer) -> str:
    settings = "-".join(f"{value}" for value in run.settings.values())
    return f"{run.method}-{run.learning_rate:g}-{settings}-{run.depth}-{run.seed}"


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
        varied = "student_temperature" if ablation == "temperature" else "depth"
        rows = [
            [str(value), *(mean_and_deviation(own, key) for key in FIGURES)]
            for (value,), own in group(runs, varied).items()
        ]
        print()
        print_table((varied, "mAP", "top-100", "coherence"), rows)


def _format_setting(record: Record) -> str:
    omitted = {"part", "scale", "method", "seed", "depth", "ablation", "accuracy", *FIGURES}
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
