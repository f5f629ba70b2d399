"""Embeddings of news posts by the tree of their groups, beside embeddings by the groups as names.

After Marjieh et al. (2024), the experiment on semantic hierarchies, which has images and pretrained
networks. Here the tree is that of 20 Newsgroups' dotted names, of 5 levels, and the input TF-IDF
reduced to 256 dimensions by a singular value decomposition; on it a perceptron with 128 hidden
units and an embedding of 32 is trained from scratch. All methods compare by cosine, at one
temperature where they have one, but for classification, whose classes are read off the embedding by
a linear layer.

What is measured, with the training posts as the database and the test posts as queries: nDCG@100
with the number of shared levels as the gain, precision@100 of the same group, and at each level the
accuracy of a linear SVM that is trained on the embeddings, less the share of the largest class. The
paper sums ln(accuracy / chance) over the levels; that is the last figure, chance being that share.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
from torch import Tensor, nn
from torch.nn import functional

from experiments.drawings import new_drawing, save_drawing
from experiments.generative_similarity.contrastive_baselines import (
    class_triplet_loss,
    supervised_contrastive_loss,
)
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, load_or_compute
from experiments.splits import read_split
from training.data import Rows, TrainingData
from training.loop import Schedule, fit
from training.objectives.generative_similarity import kernel_triplet_loss, regression_loss
from training.similarities.label_tree import dotted_tree
from training.similarities.tree_hierarchy import TreeHierarchy

INPUTS, HIDDEN, EMBEDDING = 256, 128, 32
TEMPERATURE = 0.2
_K = 100


class Network(nn.Module):
    """From vectors to embeddings, and from these to classes where a method has such a head."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, EMBEDDING)
        )
        self.head = nn.Linear(EMBEDDING, classes)


Loss = Callable[[Network, Tensor, Tensor, Tensor], Tensor]
"""Of a network, embeddings ``[N, D]``, classes ``[N]`` and s_gen of the classes ``[C, C]``.

The s_gen of the regression is equation 4 to the letter."""


def _generative(_: Network, x_ND: Tensor, class_N: Tensor, s_CC: Tensor, contrast: str) -> Tensor:
    unit_ND = functional.normalize(x_ND, dim=1)
    kernel_NN = s_CC[class_N][:, class_N]
    return kernel_triplet_loss(unit_ND @ unit_ND.T / TEMPERATURE, kernel_NN, contrast=contrast)


def _printed(_: Network, x_ND: Tensor, class_N: Tensor, printed_CC: Tensor) -> Tensor:
    unit_ND = functional.normalize(x_ND, dim=1)
    apart_NN = ~torch.eye(len(class_N), dtype=torch.bool)
    target_NN = printed_CC.log()[class_N][:, class_N]
    return regression_loss((unit_ND @ unit_ND.T)[apart_NN], target_NN[apart_NN])


_PRINTED = "generative-printed"
METHODS: Mapping[str, Loss] = {
    _PRINTED: _printed,
    "generative": partial(_generative, contrast="softmax"),
    "generative-softplus": partial(_generative, contrast="softplus"),
    "sup-con": lambda _, x, c, __: supervised_contrastive_loss(x, c, TEMPERATURE),
    "class-triplets": lambda _, x, c, __: class_triplet_loss(x, c),
    "classification": lambda network, x, c, _: functional.cross_entropy(network.head(x), c),
}
"""By name: the paper's regression of cosines on ln s_gen, s_gen of the tree by either contrast, and
the baselines, which know names only."""


def configure(group: Any) -> None:
    """Add the options."""
    group.add_argument("--dataset", default="20news-bydate", metavar="NAME")
    group.add_argument(
        "--tree-methods",
        nargs="+",
        default=list(METHODS),
        choices=METHODS,
        metavar="NAME",
        help=", ".join(METHODS),
    )
    group.add_argument("--tree-epochs", type=int, default=20, metavar="N", help="of each method")


def run(args: argparse.Namespace) -> int:
    """Train and measure every method and seed, then print the figures."""
    data, queries = read_split(args.dataset, args.data_root)
    settings = {"data": data.sha256, "queries": queries.sha256}
    name = f"hierarchy-vectors-{args.dataset}.safetensors"
    vectors = load_or_compute(args.work_dir / name, settings, partial(reduce_texts, data, queries))
    records: list[Record] = []
    embeddings: dict[str, Tensors] = {}
    for seed in range(args.seeds):
        for method in args.tree_methods:
            schedule = Schedule(args.tree_epochs, 100, 1e-3, seed)
            name = f"hierarchy-{args.dataset}-{method}-{args.tree_epochs}-{seed}.safetensors"
            made_with = {**settings, "method": method, **vars(schedule)}
            compute = partial(embed, method, vectors, data, schedule)
            found = load_or_compute(args.work_dir / name, made_with, compute)
            embeddings.setdefault(method, found)
            measured = measure(found, data, queries)
            records.append({"part": "hierarchy", "method": method, "seed": seed, **measured})
    save_records(args, records)
    figures = [key for key in records[0] if key not in {"part", "method", "seed"}]
    rows = [
        [method, *(mean_and_deviation(runs, figure) for figure in figures)]
        for (method,), runs in group(records, "method").items()
    ]
    titles = [figure.replace("svm_level", "SVM over chance, level ") for figure in figures]
    titles[-1] = "Σ ln(accuracy / chance)"
    print_table(("trained with", *titles), rows)
    if args.plot:
        _plot(args.plot, embeddings, queries)
    return 0


def reduce_texts(data: TrainingData, queries: TrainingData) -> Tensors:
    """Return texts as vectors ``float32[N, D]`` of unit length; the reduction is that of `data`.

    Where documents are vectors already they are taken as they are.
    """
    if not data.is_text:
        parts = np.asarray(data.inputs), np.asarray(queries.inputs)
    else:
        weights = TfidfVectorizer(sublinear_tf=True, max_features=10_000, stop_words="english")
        words = weights.fit_transform(data.inputs)
        reduce = TruncatedSVD(min(INPUTS, words.shape[1] - 1), random_state=0)
        parts = reduce.fit_transform(words), reduce.transform(weights.transform(queries.inputs))
    document_ND, query_QD = (
        functional.normalize(torch.from_numpy(x).float(), dim=1) for x in parts
    )
    return {"document_ND": document_ND, "query_QD": query_QD}


def embed(method: str, vectors: Tensors, data: TrainingData, schedule: Schedule) -> Tensors:
    """Return the embeddings of documents and queries by a network trained on the documents."""
    torch.manual_seed(schedule.seed)
    x_ND = vectors["document_ND"]
    # Inputs of unit length have entries of 1/√D: scaled to the variance that layers start from.
    scale = x_ND.shape[1] ** 0.5
    network = Network(x_ND.shape[1], len(data.classes))
    class_N = torch.from_numpy(data.tags.argmax(axis=1))
    tree = TreeHierarchy(dotted_tree(data.classes), data.classes)
    table_CC = tree.printed_table() if method == _PRINTED else tree.table()
    s_CC = torch.from_numpy(table_CC).float()

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> dict[str, Tensor]:  # noqa: ARG001
        chosen = torch.from_numpy(rows)
        embedded_ND = network.body(scale * x_ND[chosen])
        return {"loss": METHODS[method](network, embedded_ND, class_N[chosen], s_CC)}

    fit(network, loss, len(x_ND), schedule)
    with torch.no_grad():
        return {
            name: functional.normalize(network.body(scale * vectors[name]), dim=1)
            for name in ("document_ND", "query_QD")
        }


def measure(found: Tensors, data: TrainingData, queries: TrainingData) -> Record:
    """Return nDCG@100 and precision@100, and the SVM's accuracy over chance by level."""
    document_ND, query_QD = found["document_ND"].numpy(), found["query_QD"].numpy()
    labels, query_labels = (
        [one.classes[i] for i in one.tags.argmax(axis=1)] for one in (data, queries)
    )
    record = graded_retrieval(document_ND, labels, query_QD, query_labels)
    over_chance = 0.0
    depth = max(label.count(".") + 1 for label in labels)
    for level in range(1, depth + 1):
        truth, expected = _cut(labels, level), _cut(query_labels, level)
        svm = LinearSVC(dual=False).fit(document_ND, truth)
        share = max(np.mean(expected == one) for one in set(expected))
        accuracy = float(np.mean(svm.predict(query_QD) == expected))
        record[f"svm_level{level}"] = accuracy - float(share)
        over_chance += log(accuracy / share)
        if len(set(truth)) == len(set(labels)):
            break  # levels below tell the same groups apart
    record["ln_over_chance"] = over_chance
    return record


def graded_retrieval(
    document_ND: Any, labels: Sequence[str], query_QD: Any, query_labels: Sequence[str]
) -> Record:
    """Return nDCG@100, the gain being the number of shared levels, and precision@100.

    Documents are ranked by inner product. Labels are dotted names; that of a query must be one of
    the documents'.
    """
    names = sorted(set(labels))
    grade_CC = np.array([[_shared(a, b) for b in names] for a in names], dtype=np.float64)
    number = {name: i for i, name in enumerate(names)}
    class_N = np.array([number[label] for label in labels])
    class_Q = np.array([number[label] for label in query_labels])
    k = min(_K, len(class_N))
    discount = 1 / np.log2(np.arange(2, k + 2))
    ideal_C = np.array([np.sort(grade_C[class_N])[::-1][:k] @ discount for grade_C in grade_CC])
    ndcg, precision = [], []
    for start in range(0, len(class_Q), 500):
        wanted = class_Q[start : start + 500]
        order = np.argsort(-(query_QD[start : start + 500] @ document_ND.T), axis=1)[:, :k]
        grades = grade_CC[wanted[:, None], class_N[order]]
        ndcg.append(grades @ discount / ideal_C[wanted])
        precision.append((class_N[order] == wanted[:, None]).mean(axis=1))
    return {
        "ndcg100": float(np.concatenate(ndcg).mean()),
        "p100": float(np.concatenate(precision).mean()),
    }


def _shared(one: str, other: str) -> int:
    """Count the levels with which both names begin."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    differing = [level for level, (a, b) in enumerate(pairs) if a != b]
    return differing[0] if differing else min(one.count("."), other.count(".")) + 1


def _cut(labels: Sequence[str], level: int) -> Any:
    return np.array([".".join(label.split(".")[:level]) for label in labels])


def _plot(path: Path, embeddings: dict[str, Tensors], queries: TrainingData) -> None:
    """Draw the cosines of the groups' mean embeddings, for the first seed of each method."""
    drawing = new_drawing(3 * len(embeddings) + 2, 4)
    grid = drawing.subplots(1, len(embeddings), squeeze=False, sharey=True)[0]
    tags_CQ = torch.from_numpy(queries.tags.T).float()
    for axes, (method, found) in zip(grid, embeddings.items(), strict=True):
        mean_CD = functional.normalize(tags_CQ @ found["query_QD"], dim=1)
        axes.imshow((mean_CD @ mean_CD.T).numpy(), vmin=-1, vmax=1, cmap="RdBu_r")
        axes.set_title(method, fontsize="small")
        axes.set_xticks([])
    grid[0].set_yticks(range(len(queries.classes)), queries.classes, fontsize="x-small")
    save_drawing(drawing, path)
