"""Image students trained with the settings of appendices E.2 and E.3, on few images.

Table 2 has 30 classes of about 30 images each of CUB-200, and Table 3 has CIFAR-100; here both have
a few images of each class of CIFAR-10. The teacher is that of ``--part cifar10 --scale small``: it
has learned from 500 images of a class. The student is that of Figure 9.

- *Retrieval* (Table 2, E.2): the student learns without labels. Perception coherence has the
  printed SGD, the others Adam, since they come from another paper; `perception-coherence-adam` has
  what the others have. Test images search the training images: mAP and the precision of the first
  10.
- *Classification* (Table 3, E.3): cross-entropy plus a weight times the transfer, by the printed
  SGD. For perception coherence the weight is 5, on the embedding and on the logits. The weights of
  the others are those of the code of CRD's authors (Tian, Krishnan and Isola 2020), divided by what
  our losses are sums over and theirs are means over. For so few images they are too high, and some
  runs diverge. So each method has the share of its weight, of :data:`SHARES`, with which a student
  of four fifths of the images is best on the other fifth. The figure is the accuracy on test
  images.

Each image is cropped and mirrored at random, in a number of draws that all epochs choose from.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.parts import add_choices
from experiments.perception_coherence.cifar_images import Images, read_images
from experiments.perception_coherence.image_networks import SmallStudent, features_in_batches
from experiments.perception_coherence.image_retrieval import retrieval_figures
from experiments.perception_coherence.image_settings import COHERENCE, SCALES
from experiments.perception_coherence.image_training import (
    SOFT_LABELS,
    Deadline,
    TaughtImages,
    TeacherRun,
    Transfer,
    batches_of_equal_size,
    make_objective,
    random_views,
    step,
    taught_by,
    train_teacher,
    transfer,
    transfer_loss,
)
from experiments.perception_coherence.transfer_baselines import soft_label_loss
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, content_sha256, load_or_compute
from hummingbit.training.objectives.perception_coherence import perception_coherence_embedding_loss

WITH_ADAM = "perception-coherence-adam"
RETRIEVAL = (COHERENCE, WITH_ADAM, SOFT_LABELS, "fitnet", "mkt", "pkt")
"""The methods of Table 2 of one layer."""

ALONE = "labels"
CLASSIFICATION: Mapping[str, float] = {
    ALONE: 0.0,
    SOFT_LABELS: 0.9,
    "fitnet": 100 / 32,
    "vid": 1 / 64,
    "rkd": 25.0,
    "pkt": 30_000 / 64,
    "crd": 0.8,
    COHERENCE: 5.0,
}
"""The methods of Table 3 and the weight of each beside the cross-entropy.

Soft labels have T = 4, and the cross-entropy then has a weight of 0.1.
"""

SHARES = (1.0, 1 / 4, 1 / 16, 1 / 64)
"""The shares of the printed weight that are tried."""

TABLES = {"2": "retrieval", "3": "classification"}

_VIEWS = 8
_ADAM_RATE = 5e-3
_TOP = 10


@dataclass(frozen=True)
class Steps:
    """SGD with momentum 0.9 and weight decay 5e-4; the rate falls to a tenth at each milestone.

    The milestones are shares of the epochs.
    """

    learning_rate: float
    nesterov: bool
    milestones: tuple[float, ...]

    def rate(self, progress: float) -> float:
        """Return the rate after a share `progress` of the epochs."""
        return self.learning_rate * 0.1 ** sum(progress >= at for at in self.milestones)


E2 = Steps(0.05, nesterov=True, milestones=(50 / 150, 100 / 150))
E3 = Steps(0.01, nesterov=False, milestones=(150 / 240, 180 / 240, 210 / 240))


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    add_choices(group, "--tables", TABLES, "Table 2, by retrieval, or Table 3, by classification")
    add_choices(group, "--retrieval", RETRIEVAL, "the methods of Table 2")
    add_choices(group, "--classification", CLASSIFICATION, "the methods of Table 3")
    group.add_argument(
        "--images", type=int, default=100, metavar="N", help="training images of each class"
    )
    group.add_argument(
        "--student-epochs", type=int, default=150, metavar="N", help="epochs of both tables"
    )


def run(args: argparse.Namespace) -> int:
    """Train the teacher and every student, and print both tables."""
    taught, test = _prepare(args)
    data = content_sha256(taught.x, taught.logits, test.x, test.labels)
    records: list[Record] = []
    n, epochs = len(taught.labels), args.student_epochs
    for task in (TABLES[table] for table in args.tables):
        for method in getattr(args, task):
            share = _choose_share(args, taught, method, data) if task != "retrieval" else 1.0
            for seed in range(args.seeds):
                run = _run_of(method, seed, epochs, n, data)
                name = f"{task}-{method}-{n}-{epochs}-{seed}"
                path = args.work_dir / "printed-settings" / f"{name}.safetensors"
                if task == "retrieval":
                    checkpoint = path.with_suffix(".checkpoint")
                    compute = partial(retrieve, taught, test, method, run, checkpoint)
                else:
                    compute = partial(classify, taught, test, method, run, share)
                made_by = {**asdict(run), "method": method, "share": share}
                figures = load_or_compute(path, made_by, compute)
                settings = {"method": method, "seed": seed, "epochs": epochs, "share": share}
                found = {key: float(value) for key, value in figures.items()}
                records.append({"part": "printed-settings", "task": task, **settings, **found})
                save_records(args, records)
    _print(records)
    return 0


def _run_of(method: str, seed: int, epochs: int, n_images: int, data: str) -> Transfer:
    objective = {WITH_ADAM: COHERENCE, ALONE: SOFT_LABELS}.get(method, method)
    return Transfer(objective, seed, epochs, n_images, data, _ADAM_RATE, batch_size=64)


def _choose_share(args: argparse.Namespace, taught: TaughtImages, method: str, data: str) -> float:
    """Return the best of :data:`SHARES` on a fifth of the images, the largest of equal ones."""
    if method == ALONE:
        return 1.0
    held_out, rest = taught.split(args.images // 5)
    test = Images(held_out.x[0], held_out.labels)
    accuracies = []
    for share in SHARES:
        run = _run_of(method, 0, args.student_epochs, len(rest.labels), data)
        name = f"share-{method}-{len(rest.labels)}-{args.student_epochs}-{share:g}.safetensors"
        figures = load_or_compute(
            args.work_dir / "printed-settings" / name,
            {**asdict(run), "method": method, "share": share},
            partial(classify, rest, test, method, run, share),
        )
        accuracies.append(float(figures["accuracy"]))
    return SHARES[accuracies.index(max(accuracies))]


def _prepare(args: argparse.Namespace) -> tuple[TaughtImages, Images]:
    scale = SCALES["small"]
    everything = read_images("train", args.data_root, scale.train)
    test = read_images("test", args.data_root, scale.test)
    hashed = content_sha256(everything.x, everything.labels, test.x, test.labels)
    teacher_run = TeacherRun(*scale.teacher, len(everything), hashed)
    path = args.work_dir / "cifar10-small" / "teacher.safetensors"
    teacher = train_teacher(teacher_run, everything, path, Deadline())
    few = read_images("train", args.data_root, args.images)
    return taught_by(teacher, random_views(few, _VIEWS, 0), few.labels), test


def retrieve(
    taught: TaughtImages, test: Images, method: str, run: Transfer, checkpoint: Path
) -> Tensors:
    """Return mAP and the precision of the first 10 of a student that saw no label."""
    if method == COHERENCE:
        student = train_by_steps(taught, partial(transfer_loss, run), run, E2)
    else:
        student = transfer(run, taught, checkpoint, Deadline())
        checkpoint.unlink(missing_ok=True)
    database = features_in_batches(student, taught.x[0])
    queries = features_in_batches(student, test.x)
    map11, top = retrieval_figures(queries, test.labels, database, taught.labels, top=_TOP)
    return {"map11": torch.tensor(map11), "top10": torch.tensor(top)}


def classify(
    taught: TaughtImages, test: Images, method: str, run: Transfer, share: float
) -> Tensors:
    """Return the accuracy of a student that learned from the labels and the teacher."""
    loss = partial(classification_loss, method, share=share)
    student = train_by_steps(taught, loss, run, E3)
    with torch.no_grad():
        predicted = student.logits(features_in_batches(student, test.x)).argmax(dim=1)
    return {"accuracy": (predicted == test.labels).double().mean()}


def classification_loss(
    method: str,
    modules: nn.ModuleList,
    taught: TaughtImages,
    rows: tuple[Tensor, Tensor],
    *_: int,
    share: float = 1.0,
) -> Tensor:
    """Return cross-entropy + share · weight · transfer of a batch; see :data:`CLASSIFICATION`.

    `modules` are the student and the objective, and `rows` the views and images of the batch.
    """
    student, weight = modules[0], share * CLASSIFICATION[method]
    assert isinstance(student, SmallStudent)  # noqa: S101 - for the type checker
    features_BD = student.features(taught.x[rows])
    logits_BC = student.logits(features_BD)
    by_labels = functional.cross_entropy(logits_BC, taught.labels[rows[1]])
    if method == ALONE:
        return by_labels
    if method == SOFT_LABELS:
        soft = soft_label_loss(logits_BC, taught.logits[rows], temperature=4.0)
        return (1 - weight) * by_labels + weight * soft
    if method == COHERENCE:
        pairs = ((features_BD, taught.features[rows]), (logits_BC, taught.logits[rows]))
        terms = [
            perception_coherence_embedding_loss(
                own, theirs, teacher_temperature=0.2, student_temperature=0.3
            )
            for own, theirs in pairs
        ]
        return by_labels + weight * (terms[0] + terms[1])
    by_features: Tensor = modules[1](features_BD, taught.features[rows])
    return by_labels + weight * by_features


def train_by_steps(
    taught: TaughtImages, loss: Callable[..., Tensor], run: Transfer, steps: Steps
) -> SmallStudent:
    """Train a student by SGD on random views, and return it."""
    torch.manual_seed(run.seed)
    student = SmallStudent()
    modules = nn.ModuleList([student, make_objective(run, student, taught)])
    optimizer = torch.optim.SGD(
        modules.parameters(), momentum=0.9, weight_decay=5e-4, nesterov=steps.nesterov,
        lr=steps.learning_rate,
    )  # fmt: skip
    for epoch in range(run.epochs):
        generator = torch.Generator().manual_seed(1_000_003 * run.seed + epoch)
        for parameters in optimizer.param_groups:
            parameters["lr"] = steps.rate(epoch / run.epochs)
        modules.train()
        for batch in batches_of_equal_size(run.images, run.batch_size, generator):
            view = torch.randint(1, len(taught.x), (len(batch),), generator=generator)
            step(loss(modules, taught, (view, batch), epoch), optimizer)
    return student


def _print(records: list[Record]) -> None:
    tables = {
        "retrieval": {"map11": "mAP", "top10": "top-10"},
        "classification": {"accuracy": "accuracy"},
    }
    for task, figures in tables.items():
        own = [record for record in records if record["task"] == task]
        if not own:
            continue
        print(f"\n{task}\n")
        rows = [
            [method, *(mean_and_deviation(runs, key) for key in figures), f"{runs[0]['share']:g}"]
            for (method,), runs in group(own, "method").items()
        ]
        print_table(("method", *figures.values(), "share of the weight"), rows)
