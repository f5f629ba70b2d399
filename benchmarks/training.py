"""The first layer of training: sparse rows beside dense ones, in one run.

The same network is trained on the same batches with the first layer that training would choose for
these texts, with each of its two gradients (see hummingbit.training.layers.SparseLinear), and with
a dense layer on dense rows. Epochs alternate, so that other load slows all alike; figures are
medians over the rounds, in CPU seconds. "floor" multiplies the batches of an epoch by every matrix
of the network, forward and backward, and does nothing else.

Then steps of our SparseAdam alternate with steps of torch's on the same gradients of a first layer,
and must end with the same weights up to rounding. ``--synthetic N`` instead chooses terms,
estimates soft labels and trains for one epoch on N random documents over 50,000 terms. With
``--class-codes``, it trains class codes on them instead, as ``hummingbit train`` does by default.
It prints the processor time and the peak memory of the process after each.

``--commands static ict`` runs ``hummingbit train`` by these methods instead, in processes of their
own, and prints the processor seconds of each stage with those of the whole command, the elapsed
seconds and the peak memory. The documents are the docstrings to train on, as a file, or with
``--synthetic N`` so many short texts without labels, of ten words with the frequencies of a natural
language. With ``--busy N``, N processes compute beside them, and commands that may use as many
threads as they like take turns with commands of one thread.

Run as ``python -m benchmarks.training``.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.harness.processes import busy_processes
from benchmarks.harness.timing import in_turn, options, peak_bytes, print_machine
from benchmarks.harness.zipfian_texts import zipfian_texts
from hummingbit.corpus.readers import ReadError, read_documents
from hummingbit.encoder.recipes import AutoencoderRecipe, ClassCodeRecipe
from hummingbit.encoder.text_features import SparseRows
from hummingbit.training.batches import SparseBatch, shuffled_batches, touches_few_terms
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.layers import SparseLinear, weighted_sum
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.objectives.autoencoder import AutoencoderLoss, AutoencoderSettings
from hummingbit.training.optimizers import SparseAdam
from hummingbit.training.semi_supervised import Design, build_model, hidden_dropout
from hummingbit.training.soft_labels import estimate_soft_labels
from hummingbit.training.text_features import fit_text_features

Epoch = Callable[[int], object]
"""Trains for another epoch, whose number is ignored."""

FLOOR = "floor"
LAYERS = ("as trained", "sparse gradient", "dense gradient", "dense", FLOOR)

DOCUMENTS = "documents.jsonl"
SHORT_TEXT_WORDS = 10
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

SYNTHETIC_TERMS = 50_000
SYNTHETIC_WORDS = 20


class DenseLinear(nn.Module):
    """The layer of a :class:`SparseLinear` as a product of dense matrices."""

    def __init__(self, layer: SparseLinear) -> None:
        super().__init__()
        self.scale = layer.scale
        self.weight = nn.Parameter(layer.weight.detach().clone())
        self.bias = nn.Parameter(layer.bias.detach().clone())

    def forward(self, x: SparseBatch) -> Tensor:
        """Return ``(N, outputs)``."""
        rows = torch.repeat_interleave(torch.arange(len(x.lengths)), x.lengths)
        dense = torch.zeros(len(x.lengths), len(self.weight))
        dense[rows, x.columns] = x.values
        return self.scale * dense @ self.weight + self.bias


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--data", default="snippets", help="texts (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--synthetic", type=int, metavar="N", help="documents of random words")
    parser.add_argument(
        "--class-codes", action="store_true", help="with --synthetic: a whole run of class codes"
    )
    parser.add_argument("--commands", nargs="+", metavar="METHOD", help="whole commands by these")
    parser.add_argument(
        "--busy", type=int, metavar="N", help="with --commands: beside so many busy processes"
    )
    args = parser.parse_args()
    print_machine()
    if args.commands:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_documents(folder / DOCUMENTS, args.synthetic)
            if args.busy is None:
                report_commands(args.commands, folder, args.rounds)
            else:
                compare_threads(args.commands, folder, args.rounds, args.busy)
    elif args.synthetic and args.class_codes:
        report_class_codes(args.synthetic)
    elif args.synthetic:
        report_memory(args.synthetic)
    else:
        data = read(args.data)
        compare(data, args.rounds)
        compare_optimizers(data, args.rounds)


def compare(data: TrainingData, rounds: int) -> None:
    epochs = {layer: make_epoch(data, AutoencoderRecipe(n_bits=32), layer) for layer in LAYERS}
    times = in_turn(epochs, range(rounds))
    print(f"{len(data):,} documents, medians of {rounds} epochs")
    for layer, epoch_seconds in times.items():
        seconds = median(epoch_seconds)
        of_dense, of_floor = (
            median(np.divide(times[other], epoch_seconds)) for other in ("dense", FLOOR)
        )
        cost = f"{seconds:6.2f} CPU s an epoch, {len(data) / seconds:>7,.0f} documents/s"
        ratios = f"{of_dense:.1f} times as fast as dense, {1 / of_floor:.1f} × floor"
        print(f"{layer:<16} {cost}, {ratios}")


def compare_optimizers(data: TrainingData, rounds: int) -> None:
    """Time steps on the sparse gradients of the first layer, an epoch of batches for each round."""
    torch.set_num_threads(1)  # as in training
    recipe = AutoencoderRecipe(n_bits=32)
    texts = [str(text) for text in data.inputs]
    features = fit_text_features(texts, recipe.max_terms)
    rows = features.transform(texts)
    start = torch.randn(features.dimension, recipe.hidden)
    weights = {kind: nn.Parameter(start.clone()) for kind in (SparseAdam, torch.optim.SparseAdam)}
    optimizers = [kind([weight], lr=recipe.learning_rate) for kind, weight in weights.items()]
    times: list[list[float]] = [[] for _ in optimizers]
    for seed in range(rounds):
        for batch in shuffled_batches(len(texts), recipe.batch_size, np.random.default_rng(seed)):
            x = SparseBatch.of_rows(rows, batch)
            for weight, optimizer, of_one in zip(weights.values(), optimizers, times, strict=True):
                optimizer.zero_grad()
                weighted_sum(x, weight, sparse=True).square().mean().backward()  # type: ignore[no-untyped-call]
                began = time.process_time()
                optimizer.step()
                of_one.append(time.process_time() - began)
    if not torch.allclose(weights[SparseAdam], weights[torch.optim.SparseAdam], 1e-3, 1e-4):
        raise SystemExit("the two optimizers ended with different weights")
    ours, torchs = (1000 * median(of_one) for of_one in times)
    print(
        f"{len(times[0])} steps with the same weights at the end, medians: SparseAdam {ours:.1f}",
        end="",
    )
    print(f" CPU ms, torch.optim.SparseAdam {torchs:.1f} CPU ms, ratio {torchs / ours:.2f}")


def report_memory(documents: int) -> None:
    data = synthetic(documents)
    began = time.process_time()
    epoch = make_epoch(data, AutoencoderRecipe(n_bits=32, max_terms=SYNTHETIC_TERMS), "as trained")
    print_cost(f"{documents:,} documents, terms and soft labels", began)
    began = time.process_time()
    epoch(0)
    print_cost(f"{documents:,} documents, an epoch", began)


def report_class_codes(documents: int) -> None:
    data = synthetic(documents)
    began = time.process_time()
    recipe = ClassCodeRecipe(n_bits=64, max_terms=SYNTHETIC_TERMS)
    with tempfile.TemporaryDirectory() as folder:
        train_class_codes(data, recipe, Path(folder, "encoder"), progress=print)
    print_cost(f"{documents:,} documents, a whole run of class codes", began)


def print_cost(work: str, began: float) -> None:
    """Print the processor time since `began`, and the peak memory so far."""
    seconds = time.process_time() - began
    print(f"{work}: {seconds:,.0f} CPU s, peak memory {peak_bytes() / 2**30:.2f} GiB", flush=True)


class Taken(NamedTuple):
    """What a command took."""

    elapsed: float
    seconds: float
    """Of the processor."""
    peak: int
    stages: Mapping[str, float]
    """The processor seconds of each stage."""


def write_documents(path: Path, n_texts: int | None) -> None:
    """Write the docstrings to train on, or so many short texts, as JSON lines."""
    documents: Iterable[dict[str, object]]
    if n_texts:
        texts = zipfian_texts(np.random.default_rng(0), n_texts, SHORT_TEXT_WORDS)
        documents = ({"id": str(number), "text": text} for number, text in enumerate(texts))
    else:
        documents = (
            {"id": document.id, "text": document.text, "label": document.labels[0]}
            for document in read_documents("docstrings:train")
        )
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(document) + "\n" for document in documents)


def report_commands(methods: Sequence[str], folder: Path, rounds: int) -> None:
    """Print the medians of the figures of each method's command; the commands take turns."""
    taken: dict[str, list[Taken]] = {method: [] for method in methods}
    for _ in range(rounds):
        for method in methods:
            taken[method].append(run_command(method, folder))
    for method, runs in taken.items():
        elapsed, seconds, peak = (
            median(getattr(run, field) for run in runs) for field in ("elapsed", "seconds", "peak")
        )
        print(
            f"train {method}: {seconds:.1f} CPU s (least {min(run.seconds for run in runs):.1f}),"
            f" {elapsed:.1f} s elapsed, peak memory {peak / 2**30:.2f} GiB"
        )
        for stage in runs[0].stages:
            print(f"  {median(run.stages.get(stage, 0.0) for run in runs):6.1f} CPU s  {stage}")


def compare_threads(methods: Sequence[str], folder: Path, rounds: int, busy: int) -> None:
    """Print what commands take beside busy processes, by default and with one thread."""
    with busy_processes(busy):
        for method in methods:
            runs = [
                (run_command(method, folder), run_command(method, folder, ONE_THREAD))
                for _ in range(rounds)
            ]
            ratio = median(one.elapsed / other.elapsed for one, other in runs)
            for title, of_kind in zip(
                ("by default", "one thread"), zip(*runs, strict=True), strict=True
            ):
                elapsed = median(run.elapsed for run in of_kind)
                seconds = median(run.seconds for run in of_kind)
                print(f"train {method}, {title}: {elapsed:.1f} s elapsed, {seconds:.1f} CPU s")
            print(f"train {method}, beside {busy} busy processes: {ratio:.2f} × one thread")


def run_command(method: str, folder: Path, environment: Mapping[str, str] = {}) -> Taken:
    """Run the command once."""
    stages = folder / "stages.json"
    arguments = ["train", method, "--data", str(folder / DOCUMENTS), "--overwrite"]
    arguments += ["--out", str(folder / "encoder")]
    command = [sys.executable, "-c", MEASURED, str(stages), *arguments]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
    elapsed, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = json.loads(stages.read_text(encoding="utf-8"))
    return Taken(elapsed, seconds, found["peak"], found["stages"])


MEASURED = """
import json, logging, sys, time
from pathlib import Path
begun, out = [("starting", 0.0)], Path(sys.argv.pop(1))

class Stages(logging.Handler):
    def emit(self, record):
        if not hasattr(record, "part_done") and record.getMessage():
            name = record.getMessage().replace(f"{out.parent}/", "")
            begun.append((name, time.process_time()))

from hummingbit.cli import main
from benchmarks.harness.timing import peak_bytes
log = logging.getLogger("hummingbit.stages")
log.addHandler(Stages())
status = main()
ends = [at for _, at in begun[1:]] + [time.process_time()]
stages = {}
for (name, start), end in zip(begun, ends):
    stages[name] = stages.get(name, 0.0) + end - start
out.write_text(json.dumps({"peak": peak_bytes(), "stages": stages}))
sys.exit(status)
"""
"""Runs a command and writes the processor seconds of its stages and its peak memory to a file."""


def make_epoch(data: TrainingData, recipe: AutoencoderRecipe, layer: str) -> Epoch:
    """Return a function that trains for another epoch; `layer` is one of :data:`LAYERS`."""
    texts = [str(text) for text in data.inputs]
    features = fit_text_features(texts, recipe.max_terms)
    few_terms = touches_few_terms(features, texts, recipe.batch_size)
    settings = AutoencoderSettings()
    model = build_model(
        recipe,
        Design(settings),
        features,
        len(data.classes),
        dropout=hidden_dropout(settings, features, data.tags),
        sparse_gradient=few_terms if layer == "as trained" else layer == "sparse gradient",
    )
    if layer == FLOOR:
        rows = features.transform(texts)
        return lambda _: multiply(model, rows, recipe.batch_size)
    if layer == "dense" and isinstance(model.encoder.first, SparseLinear):
        model.encoder.add_module("first", DenseLinear(model.encoder.first))
    soft_labels = estimate_soft_labels(features.transform(texts), data.tags, recipe.seed)
    loss = AutoencoderLoss(
        model,
        recipe,
        features,
        texts,
        data.tags,
        settings=settings,
        multi_label=False,
        soft_labels=soft_labels,
    )
    schedule = Schedule(1, recipe.batch_size, recipe.learning_rate, recipe.seed)
    return lambda _: fit(model, loss, len(data), schedule, progress=False)


def multiply(model: nn.Module, rows: SparseRows, batch_size: int) -> None:
    """Multiply the batches of an epoch by the matrices of `model`, forward and backward."""
    torch.set_num_threads(1)  # as in training
    layers = [module for module in model.modules() if isinstance(module, SparseLinear)]
    sparse = {layer.weight for layer in layers}
    dense = [weight for weight in model.parameters() if weight.ndim == 2 and weight not in sparse]
    for batch in shuffled_batches(rows.shape[0], batch_size, np.random.default_rng(0)):
        x = SparseBatch.of_rows(rows, batch)
        for weight in sparse:
            product = weighted_sum(x, weight, sparse=True)
            product.backward(product)  # type: ignore[no-untyped-call]
            weight.grad = None
        for weight in dense:
            inputs = torch.ones(len(batch), weight.shape[1])
            with torch.no_grad():
                outputs = inputs @ weight.T
                outputs @ weight
                outputs.T @ inputs


def read(source: str) -> TrainingData:
    try:
        return gather(read_documents(source))
    except ReadError as error:
        print(f"{error}\nusing the docstring corpus instead")
        return gather(read_documents("docstrings"))


def synthetic(documents: int) -> TrainingData:
    """Return documents of random words, frequent ones and rare ones, a tenth of them labelled."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(SYNTHETIC_TERMS)])
    draws = (SYNTHETIC_TERMS * rng.random((documents, SYNTHETIC_WORDS)) ** 3).astype(np.int64)
    tags = np.eye(10, dtype=np.bool_)[rng.integers(0, 10, documents)]
    tags[rng.random(documents) > 0.1] = False
    return TrainingData(
        ids=tuple(map(str, range(documents))),
        inputs=[" ".join(words[row]) for row in draws],
        classes=tuple(map(str, range(10))),
        tags=tags,
    )


if __name__ == "__main__":
    main()
