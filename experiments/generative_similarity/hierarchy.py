"""Embeddings of news posts by the tree of their groups, beside embeddings by the groups alone.

After Marjieh et al. (2024), the experiment on semantic hierarchies, which uses images and
pretrained networks. Here the tree is that of 20 Newsgroups' dotted names, with 5 levels. The input
is TF-IDF reduced to 256 dimensions by a singular value decomposition; a perceptron with 128 hidden
units and an embedding of 32 is trained from scratch. All methods compare by cosine, at the same
temperature if they have one, except classification, which has a linear layer on the embedding.

The training posts are the database and the test posts the queries. The figures are nDCG@100 with
the number of shared levels as the gain, precision@100 of the same group, and at each level the
accuracy of a linear SVM on the embeddings, less the share of the largest class. The next figure is
the paper's: the sum of ln(accuracy / chance) over the levels, where chance is that share. The last
two are :func:`odd_one_out`, the measure of Figure 4D with the tree in the place of people.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
from torch import Tensor, nn
from torch.nn import functional

from experiments.drawings import new_drawing, save_drawing
from experiments.generative_similarity.contrastive_baselines import (
    OF_LIBRARY,
    class_triplet_loss,
    supervised_contrastive_loss,
)
from experiments.generative_similarity.models import TreeModel
from experiments.parts import need
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, load_or_compute
from experiments.splits import read_split
from hummingbit.training.data import Rows, TrainingData
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.objectives.generative_similarity import (
    kernel_triplet_loss,
    regression_loss,
)
from hummingbit.training.similarities import dotted_tree

INPUTS, HIDDEN, EMBEDDING = 256, 128, 32
TEMPERATURE = 0.2
_K = 100
_TRIPLETS = 10_000
_TITLES = {
    "ln_over_chance": "Σ ln(accuracy / chance)",
    "odd_boundary": "odd one, class boundary",
    "odd_coarse": "odd one, coarse",
}


class Network(nn.Module):
    """A network from vectors to embeddings, with a head from embeddings to classes."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, EMBEDDING)
        )
        self.head = nn.Linear(EMBEDDING, classes)


Loss = Callable[[Network, Tensor, Tensor, Tensor], Tensor]
"""Loss from a network, embeddings ``[N, D]``, classes ``[N]`` and s_gen of the classes ``[C, C]``.

For the regression, s_gen is equation 4 exactly as printed."""


def _generative_loss(
    _: Network, x_ND: Tensor, class_N: Tensor, s_CC: Tensor, contrast: str
) -> Tensor:
    unit_ND = functional.normalize(x_ND, dim=1)
    kernel_NN = s_CC[class_N][:, class_N]
    return kernel_triplet_loss(unit_ND @ unit_ND.T / TEMPERATURE, kernel_NN, contrast=contrast)


def _printed_loss(_: Network, x_ND: Tensor, class_N: Tensor, printed_CC: Tensor) -> Tensor:
    unit_ND = functional.normalize(x_ND, dim=1)
    distinct_NN = ~torch.eye(len(class_N), dtype=torch.bool)
    target_NN = printed_CC.log()[class_N][:, class_N]
    return regression_loss((unit_ND @ unit_ND.T)[distinct_NN], target_NN[distinct_NN])


_PRINTED = "generative-printed"
METHODS: Mapping[str, Loss] = {
    _PRINTED: _printed_loss,
    "generative": partial(_generative_loss, contrast="softmax"),
    "generative-softplus": partial(_generative_loss, contrast="softplus"),
    "sup-con": lambda _, x, c, __: supervised_contrastive_loss(x, c, TEMPERATURE),
    "class-triplets": lambda _, x, c, __: class_triplet_loss(x, c),
    "classification": lambda network, x, c, _: functional.cross_entropy(network.head(x), c),
}
"""By name: the paper's regression of cosines on ln s_gen, s_gen of the tree with either contrast,
and the baselines, which know only the groups."""


def configure(group: Any) -> None:
    """Add the options."""
    group.add_argument(
        "--dataset",
        default="20news-bydate",
        metavar="NAME",
        help="the data set (default: %(default)s)",
    )
    group.add_argument(
        "--tree-methods",
        nargs="+",
        default=list(METHODS),
        choices=METHODS,
        metavar="NAME",
        help=", ".join(METHODS),
    )
    group.add_argument(
        "--tree-epochs", type=int, default=20, metavar="N", help="epochs of each method"
    )


def run(args: argparse.Namespace) -> int:
    """Train and measure every method and seed, then print the figures."""
    need("pytorch_metric_learning", OF_LIBRARY.intersection(args.tree_methods))
    data, queries = read_split(args.dataset, args.data_root)
    settings = {"data": data.sha256, "queries": queries.sha256}
    path = args.work_dir / f"hierarchy-vectors-{args.dataset}.safetensors"
    vectors = load_or_compute(path, settings, partial(reduce_texts, data, queries))
    records: list[Record] = []
    embeddings: dict[str, Tensors] = {}
    for seed in range(args.seeds):
        for method in args.tree_methods:
            schedule = Schedule(args.tree_epochs, 100, 1e-3, seed)
            file = f"hierarchy-{args.dataset}-{method}-{args.tree_epochs}-{seed}.safetensors"
            run_settings = {**settings, "method": method, **vars(schedule)}
            compute = partial(embed, method, vectors, data, schedule)
            tensors = load_or_compute(args.work_dir / file, run_settings, compute)
            embeddings.setdefault(method, tensors)
            figures = measure(tensors, data, queries)
            records.append({"part": "hierarchy", "method": method, "seed": seed, **figures})
    save_records(args, records)
    names = [key for key in records[0] if key not in {"part", "method", "seed"}]
    rows = [
        [method, *(mean_and_deviation(runs, name) for name in names)]
        for (method,), runs in group(records, "method").items()
    ]
    titles = [
        _TITLES.get(name, name.replace("svm_level", "SVM over chance, level ")) for name in names
    ]
    print_table(("trained with", *titles), rows)
    if args.plot:
        _plot(args.plot, embeddings, queries)
    return 0


def reduce_texts(data: TrainingData, queries: TrainingData) -> Tensors:
    """Return texts as unit vectors ``float32[N, D]``, reduced as fitted to `data`.

    Documents that are vectors already are only scaled.
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
    # Entries of unit vectors are about 1/√D; layers are initialized for entries of variance 1.
    scale = x_ND.shape[1] ** 0.5
    network = Network(x_ND.shape[1], len(data.classes))
    class_N = torch.from_numpy(data.tags.argmax(axis=1))
    tree = TreeModel(dotted_tree(data.classes), data.classes)
    table_CC = tree.printed_table() if method == _PRINTED else tree.table()
    s_CC = torch.from_numpy(table_CC).float()

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> dict[str, Tensor]:  # noqa: ARG001
        batch = torch.from_numpy(rows)
        embedding_ND = network.body(scale * x_ND[batch])
        return {"loss": METHODS[method](network, embedding_ND, class_N[batch], s_CC)}

    fit(network, loss, len(x_ND), schedule)
    with torch.no_grad():
        return {
            name: functional.normalize(network.body(scale * vectors[name]), dim=1)
            for name in ("document_ND", "query_QD")
        }


def measure(embeddings: Tensors, data: TrainingData, queries: TrainingData) -> Record:
    """Return nDCG@100 and precision@100, and the SVM's accuracy over chance by level."""
    document_ND, query_QD = embeddings["document_ND"].numpy(), embeddings["query_QD"].numpy()
    labels, query_labels = (
        [each.classes[i] for i in each.tags.argmax(axis=1)] for each in (data, queries)
    )
    record = graded_retrieval(document_ND, labels, query_QD, query_labels)
    over_chance = 0.0
    depth = max(label.count(".") + 1 for label in labels)
    for level in range(1, depth + 1):
        database_classes = _truncate(labels, level)
        query_classes = _truncate(query_labels, level)
        svm = LinearSVC(dual=False).fit(document_ND, database_classes)
        share = max(np.mean(query_classes == name) for name in set(query_classes))
        accuracy = float(np.mean(svm.predict(query_QD) == query_classes))
        record[f"svm_level{level}"] = accuracy - float(share)
        over_chance += log(accuracy / share)
        if len(set(database_classes)) == len(set(labels)):
            break  # deeper levels have the same classes
    record["ln_over_chance"] = over_chance
    return record | odd_one_out(query_QD, query_labels, np.random.default_rng(0))


def odd_one_out(embedding_ND: Any, labels: Sequence[str], rng: np.random.Generator) -> Record:
    """Return the mean likelihood of the odd one of three posts by the tree; chance is 1/3.

    The likelihood that c is the odd one is that of (a, b) in softmax(s(a, b) / τ, s(a, c) / τ,
    s(b, c) / τ), where s is the inner product of rows of length 1, and τ is the one of a grid for
    which the mean is greatest, as the paper fits it to each person. At the *class boundary*, a and
    b are of one group and c of another. *Coarse* triplets are of three groups: those of a and b
    share a level, and that of c shares none with them. There are none if no two groups do.
    """
    names = sorted(set(labels))
    rows = {name: np.flatnonzero(np.array(labels) == name) for name in names}
    several = [name for name in names if len(rows[name]) > 1]
    boundary = [(a, a, c) for a in several for c in names if a != c]
    coarse = [
        (a, b, c)
        for a, b in combinations(names, 2)
        if _shared_levels(a, b)
        for c in names
        if not _shared_levels(a, c)
    ]
    record: Record = {}
    for kind, choices in (("odd_boundary", boundary), ("odd_coarse", coarse)):
        if choices:
            chosen = rng.integers(len(choices), size=_TRIPLETS)
            triplets = [_draw_triplet(choices[i], rows, rng) for i in chosen]
            a, b, c = (embedding_ND[list(each)] for each in zip(*triplets, strict=True))
            s_M3 = np.stack([(a * b).sum(1), (a * c).sum(1), (b * c).sum(1)], axis=1)
            record[kind] = max(
                float(softmax(s_M3 / t, axis=1)[:, 0].mean()) for t in np.geomspace(0.01, 10, 31)
            )
    return record


def _draw_triplet(
    groups: tuple[str, str, str], rows: Mapping[str, Any], rng: np.random.Generator
) -> tuple[int, int, int]:
    """Draw a post of each group, all different."""
    a, b, c = groups
    if a == b:
        first, second = rng.choice(rows[a], 2, replace=False)
    else:
        first, second = rng.choice(rows[a]), rng.choice(rows[b])
    return int(first), int(second), int(rng.choice(rows[c]))


def graded_retrieval(
    document_ND: Any, labels: Sequence[str], query_QD: Any, query_labels: Sequence[str]
) -> Record:
    """Return nDCG@100, the gain being the number of shared levels, and precision@100.

    Documents are ranked by inner product. Labels are dotted names; each query must have the label
    of some document.
    """
    names = sorted(set(labels))
    grade_CC = np.array([[_shared_levels(a, b) for b in names] for a in names], dtype=np.float64)
    number = {name: i for i, name in enumerate(names)}
    class_N = np.array([number[label] for label in labels])
    class_Q = np.array([number[label] for label in query_labels])
    k = min(_K, len(class_N))
    discount = 1 / np.log2(np.arange(2, k + 2))
    ideal_C = np.array([np.sort(grade_C[class_N])[::-1][:k] @ discount for grade_C in grade_CC])
    ndcg, precision = [], []
    for start in range(0, len(class_Q), 500):
        classes = class_Q[start : start + 500]
        order = np.argsort(-(query_QD[start : start + 500] @ document_ND.T), axis=1)[:, :k]
        grades = grade_CC[classes[:, None], class_N[order]]
        ndcg.append(grades @ discount / ideal_C[classes])
        precision.append((class_N[order] == classes[:, None]).mean(axis=1))
    return {
        "ndcg100": float(np.concatenate(ndcg).mean()),
        "p100": float(np.concatenate(precision).mean()),
    }


def _shared_levels(path: str, other: str) -> int:
    """Return the number of levels that two names share from the start."""
    pairs = zip(path.split("."), other.split("."), strict=False)
    differing = [level for level, (a, b) in enumerate(pairs) if a != b]
    return differing[0] if differing else min(path.count("."), other.count(".")) + 1


def _truncate(labels: Sequence[str], level: int) -> Any:
    return np.array([".".join(label.split(".")[:level]) for label in labels])


def _plot(path: Path, embeddings: dict[str, Tensors], queries: TrainingData) -> None:
    """Draw the cosines of the mean embeddings of groups, for the first seed of each method."""
    drawing = new_drawing(3 * len(embeddings) + 2, 4)
    grid = drawing.subplots(1, len(embeddings), squeeze=False, sharey=True)[0]
    tags_CQ = torch.from_numpy(queries.tags.T).float()
    for axes, (method, tensors) in zip(grid, embeddings.items(), strict=True):
        mean_CD = functional.normalize(tags_CQ @ tensors["query_QD"], dim=1)
        axes.imshow((mean_CD @ mean_CD.T).numpy(), vmin=-1, vmax=1, cmap="RdBu_r")
        axes.set_title(method, fontsize="small")
        axes.set_xticks([])
    grid[0].set_yticks(range(len(queries.classes)), queries.classes, fontsize="x-small")
    save_drawing(drawing, path)
