"""Do class codes rank better if the distances of their codewords follow the tree of the labels?

The codewords of class codes are far from each other (`far_codewords`). Here they are those whose
Hamming distances have the least squared error, by flips of single bits, beside

    t_cd = ½ W (1 − γ ln(1 + s_cd) / ln(1 + s_max))

where W is the number of bits, s_cd the generative similarity of two labels in the tree of their
dotted names (`TreeHierarchy.table`), s_max that of the nearest two labels, and γ how near those
should be. Labels without a common level have s = 0, so ln s would be −∞. All else of a code is the
same.

γ is chosen by nDCG@100 of a held-out sixth of the training posts. The test posts are the queries.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.paired_runs import format_difference
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.splits import read_split
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.encoder.text_features import Floats
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training.class_codes import far_codewords, fit_class_codes
from hummingbit.training.data import TrainingData
from hummingbit.training.pipeline import split
from hummingbit.training.similarities import TreeHierarchy, dotted_tree

PLAIN, GAMMAS, BITS = 0.0, (0.2, 0.4, 0.6, 0.8), (32,)
METRICS = ("nDCG@100", "P@100")
CHOICE_SEED = 1000


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    group.add_argument(
        "--tree-dataset",
        default="20news-bydate",
        metavar="NAME",
        help="the data set whose labels are a tree (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Choose γ for each number of bits, and print the figures of both kinds of codewords."""
    data, queries = read_split(args.tree_dataset, args.data_root)
    records: list[Record] = []
    rows = []
    for n_bits in args.bits or BITS:
        gamma = _choose(data, n_bits)
        values: dict[tuple[str, float], list[Any]] = {}
        for seed in range(args.seeds):
            encoder = fit(data, n_bits, seed)
            for some in (PLAIN, gamma):
                measured = measure(encoder, some, data, queries)
                means = {name: float(each.mean()) for name, each in measured.items()}
                records.append({"bits": n_bits, "gamma": some, "seed": seed, **means})
                for name, each in measured.items():
                    values.setdefault((name, some), []).append(each)
        save_records(args, records)
        for name in METRICS:
            runs = group(records, "bits", "gamma")
            figures = [mean_and_deviation(runs[n_bits, some], name) for some in (PLAIN, gamma)]
            against = format_difference(values[name, gamma], values[name, PLAIN])
            rows.append([str(n_bits), name, figures[0], f"{gamma:g}", figures[1], against])
    print_table(("bits", "metric", "plain", "γ", "tree", "gain"), rows)
    return 0


def _choose(data: TrainingData, n_bits: int) -> float:
    order = np.random.default_rng(CHOICE_SEED).permutation(len(data))
    held_out, rows = np.split(order, [len(order) // 6])
    kept, queries = data.select(np.sort(rows)), data.select(np.sort(held_out))
    encoder = fit(kept, n_bits, CHOICE_SEED)
    found = {}
    for gamma in (PLAIN, *GAMMAS):
        measured = measure(encoder, gamma, kept, queries)
        means = {name: float(each.mean()) for name, each in measured.items()}
        print(f"{n_bits} bits, γ {gamma:g}: {means}", flush=True)
        found[gamma] = means[METRICS[0]]
    return max(GAMMAS, key=lambda gamma: found[gamma])


def fit(data: TrainingData, n_bits: int, seed: int) -> Encoder:
    """Return an encoder of class codes without trials."""
    recipe = ClassCodeRecipe(
        n_bits=n_bits, content_share=0.25, query_classifier="both", max_terms=20_000, seed=seed
    )
    return fit_class_codes(data, split(data, recipe), recipe).encoder


def measure(
    encoder: Encoder, gamma: float, data: TrainingData, queries: TrainingData
) -> dict[str, Any]:
    """Return the tie-averaged metrics of each query by codewords of γ; 0 keeps the encoder's."""
    code = encoder.class_code
    assert code is not None  # noqa: S101 - of class codes
    if gamma:
        words = tree_codewords(data.classes, code.codewords.shape[1], gamma)
        encoder = replace(encoder, class_code=replace(code, codewords=words))
    database, asked = data.labelled(), queries.labelled()
    return {
        name: evaluate_encoder(
            encoder, database, asked, [name], hierarchy=name == METRICS[0], keep_learned=True
        ).expected_per_query[name]
        for name in METRICS
    }


def tree_codewords(labels: tuple[str, ...], n_bits: int, gamma: float, seed: int = 0) -> Floats:
    """Return codewords of −1 and 1, float32[C, W], whose distances follow the tree of `labels`."""
    wanted = wanted_distances(labels, n_bits, gamma)
    words = far_codewords(len(labels), n_bits, seed).astype(np.int64)
    distances = (words[:, None] != words[None]).sum(axis=2)
    rng = np.random.default_rng(seed)
    for _ in range(200 * words.size):
        word, bit = int(rng.integers(len(words))), int(rng.integers(n_bits))
        flipped = distances[word] + words[:, bit] * words[word, bit]
        flipped[word] = 0
        errors = ((each - wanted[word]) ** 2 for each in (flipped, distances[word]))
        others = np.delete(flipped, word)
        if next(errors).sum() <= next(errors).sum() and others.all():
            words[word, bit] *= -1
            distances[word] = distances[:, word] = flipped
    return words.astype(np.float32)


def wanted_distances(labels: tuple[str, ...], n_bits: int, gamma: float) -> npt.NDArray[np.float64]:
    """Return t, float64[C, C], with 0 on the diagonal."""
    similarity = TreeHierarchy(dotted_tree(labels), labels).table()
    logs = np.log1p(similarity)
    np.fill_diagonal(logs, 0)
    wanted = n_bits / 2 * (1 - gamma * logs / (logs.max() or 1.0))
    np.fill_diagonal(wanted, 0)
    return np.asarray(wanted)
