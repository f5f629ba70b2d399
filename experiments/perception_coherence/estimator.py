"""The mini-batch estimator of the coherence level, beside the level over all examples.

The teacher's vectors are a mixture of Gaussians; the students are random projections of them, from
faithful to poor. For B from 4 to 256, the level φ(x) of each held-out example is estimated from
random batches of B examples and compared with φ(x) over all N, as in the paper's Table 4. The paper
finds an error of O(1/√B), so an exponent is fitted to the root mean square error. The global level
is estimated from whole batches in two ways: ours leaves each example out of its own distribution,
the paper's Definition 4.1 does not.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from functools import partial
from statistics import mean

import numpy as np
import torch
from torch import Tensor

from experiments.perception_coherence.coherence_estimates import (
    estimate_coherence_levels,
    estimate_perception_coherence,
    global_perception_coherence,
)
from experiments.perception_coherence.figures import plot_estimator
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, load_or_compute
from hummingbit.training.objectives.dissimilarity import cosine_dissimilarity
from hummingbit.training.objectives.perception_coherence import coherence_levels

BATCH_SIZES = (4, 8, 16, 32, 64, 128, 256)
STUDENT_DIMS = (32, 8, 2)
HELD_OUT = 256
TEACHER_DIM = 64
CENTRES = 10


@dataclass(frozen=True)
class Estimation:
    """One teacher and one student, a random projection to `student_dim` numbers."""

    student_dim: int
    seed: int
    examples: int
    batches: int


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    group.add_argument(
        "--examples",
        type=int,
        default=4096,
        metavar="N",
        help="examples to draw the batches from (default: %(default)s)",
    )
    group.add_argument(
        "--batches", type=int, default=16, metavar="N", help="number of batches of each size"
    )


def run(args: argparse.Namespace) -> int:
    """Estimate the levels, fit the exponents and print both."""
    records: list[Record] = []
    for student_dim in STUDENT_DIMS:
        for seed in range(args.seeds):
            estimation = Estimation(student_dim, seed, args.examples, args.batches)
            path = args.work_dir / "gpcl" / f"{student_dim}-{seed}.safetensors"
            compute = partial(estimate, estimation)
            records += _records(estimation, load_or_compute(path, asdict(estimation), compute))
    save_records(args, records)
    _print_estimates(records)
    if args.plot:
        plot_estimator(args.plot, _curves(records))
    return 0


def embeddings(estimation: Estimation) -> tuple[Tensor, Tensor]:
    """Return the vectors of student and teacher, held-out examples first.

    Shapes: float64[256 + N, student_dim] and float64[256 + N, 64].
    """
    generator = torch.Generator().manual_seed(estimation.seed)
    centres = 1.5 * torch.randn(CENTRES, TEACHER_DIM, dtype=torch.float64, generator=generator)
    n = HELD_OUT + estimation.examples
    cluster = torch.randint(0, CENTRES, (n,), generator=generator)
    shape = (n, TEACHER_DIM)
    teacher = centres[cluster] + torch.randn(shape, dtype=torch.float64, generator=generator)
    projection = torch.randn(
        TEACHER_DIM, estimation.student_dim, dtype=torch.float64, generator=generator
    )
    return teacher @ projection, teacher


def estimate(estimation: Estimation) -> Tensors:
    """Return the estimates for each batch size.

    - ``full``, float64[256]: the levels of the held-out examples over all N
    - ``levels-B``, float64[batches, 256]: their estimates from batches of B
    - ``global-B``, float64[batches]: our estimates of the global level
    - ``defined-B``, float64[batches]: the estimates of Definition 4.1
    - ``defined-all``, float64[]: the global level over all examples
    """
    vectors = embeddings(estimation)
    student_QN, teacher_QN = (cosine_dissimilarity(x[:HELD_OUT], x[HELD_OUT:]) for x in vectors)
    generator = torch.Generator().manual_seed(estimation.seed)
    result = {"full": coherence_levels(student_QN, teacher_QN)}
    for size in BATCH_SIZES:
        levels = [
            estimate_coherence_levels(student_QN, teacher_QN, size, generator)
            for _ in range(estimation.batches)
        ]
        seed = int(torch.randint(1 << 31, (), generator=generator))
        batches, defined = (
            estimate_perception_coherence(
                *vectors, size, torch.Generator().manual_seed(seed), with_itself=with_itself
            )
            for with_itself in (False, True)
        )
        result[f"levels-{size}"] = torch.stack(levels)
        result[f"global-{size}"] = torch.tensor(batches, dtype=torch.float64)
        result[f"defined-{size}"] = torch.tensor(defined, dtype=torch.float64)
    result["defined-all"] = torch.tensor(global_perception_coherence(*vectors), dtype=torch.float64)
    return result


def fit_exponent(sizes: list[int], errors: list[float]) -> float:
    """Return b of the least-squares line ln error = a + b ln size."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def _records(estimation: Estimation, result: Tensors) -> list[Record]:
    full = result["full"]
    common = {
        "part": "gpcl",
        "method": "perception-coherence",
        "student_dim": estimation.student_dim,
        "seed": estimation.seed,
    }
    records: list[Record] = []
    for size in BATCH_SIZES:
        errors = result[f"levels-{size}"] - full
        batches = result[f"global-{size}"]
        estimates = {
            "coherence": float(result[f"levels-{size}"].mean()),
            "bias": float(errors.mean()),
            "error": float(errors.square().mean().sqrt()),
            "coherence_of_batches": float(batches.mean()),
            "deviation_of_batches": float(batches.std()),
            "coherence_as_defined": float(result[f"defined-{size}"].mean()),
        }
        records.append({**common, "batch_size": size, **estimates})
    exponent = fit_exponent(list(BATCH_SIZES), [record["error"] for record in records])
    over_all = {
        "batch_size": estimation.examples,
        "coherence": float(full.mean()),
        "coherence_as_defined": float(result["defined-all"]),
    }
    records.append({**common, **over_all, "exponent": exponent})
    return records


def _print_estimates(records: list[Record]) -> None:
    rows = []
    for (student_dim, size), runs in group(records, "student_dim", "batch_size").items():
        row = [f"{TEACHER_DIM} → {student_dim}", f"{size:,}", mean_and_deviation(runs, "coherence")]
        if "exponent" in runs[0]:
            row += ["", "", mean_and_deviation(runs, "exponent"), ""]
        else:
            figures = [mean(run[key] for run in runs) for key in ("bias", "error")]
            row += [f"{figures[0]:+.4f}", f"{figures[1]:.4f}", ""]
            row.append(mean_and_deviation(runs, "coherence_of_batches"))
        rows.append([*row, mean_and_deviation(runs, "coherence_as_defined")])
    header = ("student", "B", "level", "bias", "error", "exponent", "level of batches")
    print_table((*header, "Definition 4.1"), rows)


def _curves(records: list[Record]) -> dict[str, tuple[list[int], list[float]]]:
    curves = {}
    for (student_dim,), runs in group(records, "student_dim").items():
        sizes = group([run for run in runs if "error" in run], "batch_size")
        errors = [mean(run["error"] for run in cell) for cell in sizes.values()]
        level = mean(run["coherence"] for run in runs if "exponent" in run)
        curves[f"{TEACHER_DIM} → {student_dim}, level {level:.2f}"] = (
            [size for (size,) in sizes],
            errors,
        )
    return curves
