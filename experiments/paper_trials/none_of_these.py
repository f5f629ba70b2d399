"""Does a Riemannian potato tell texts of no known class better than a classifier does?

Some classes are held out, class codes learn the others, and a text gets a score that should be low
if its class is one of those held out. Today's scores are the certainty of class codes, ln(p₁ / p₂),
and the largest class probability, p₁. Class codes learn from terms or, with ``--model``, vectors.

A class has a potato in a space: its reference is the mean of its documents, and log μ and log σ are
the geometric statistics of their distances d from it. Of a text, z = log(d / μ) / log σ. Its score
is −z in the nearest potato ("any"), −z in that of the likeliest class ("likeliest"), or the latter
and the logit of p₁, both standardized ("probability - z"). The same of d shows what the statistics
add. The spaces are the teacher's vectors, of length 1, and class scores, for documents by a
classifier that learned from the other half of them.

Settings are chosen with classes of one half of them, training documents being the queries, and
shown with classes of the other half, the queries being the test split.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from experiments.paper_trials.taught import read_taught
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from hummingbit.encoder.class_code import log_odds
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.arrays import unit_rows
from hummingbit.training.class_codes import fit_maps
from hummingbit.training.data import Tags
from hummingbit.training.objectives import riemannian_potato as potato
from hummingbit.training.text_features import fit_text_features

TODAY = ("certainty", "largest probability")
HALVES = ("chosen on", "shown on")
SAMPLES = 1000
Texts = tuple[Any, Floats]
"""What class codes learn from, and the teacher's vectors."""
Scores = dict[str, Any]


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the option of this part."""
    group.add_argument("--absent", type=int, default=10, metavar="N", help="classes held out")


def run(args: argparse.Namespace) -> int:
    """Measure every score on both halves of the classes; print AUROC and the differences."""
    corpus = read_taught("hwu64", args)
    data, queries = corpus.database, corpus.queries
    known, asked = unit_rows(corpus.teacher.vectors), unit_rows(corpus.query_vectors)
    rows: tuple[Any, Any] = known, asked
    if args.model is None:
        texts, asked_texts = ([str(text) for text in some.inputs] for some in (data, queries))
        features = fit_text_features(texts, max_terms=100_000)
        rows = features.transform(texts), features.transform(asked_texts)
    tags = np.zeros((len(queries), len(data.classes)), dtype=np.bool_)
    tags[:, [data.classes.index(name) for name in queries.classes]] = queries.tags
    halves = np.array_split(np.random.default_rng(0).permutation(len(data.classes)), 2)
    records: list[Record] = []
    shown: list[tuple[Scores, Any]] = []
    for seed in range(args.seeds):
        rng = np.random.default_rng(seed)
        held_out, kept = np.split(rng.permutation(len(data)), [len(data) // 6])
        of_documents = rows[0][held_out], known[held_out], data.tags[held_out]
        for half, classes, searched, (x, vectors, of_queries) in zip(
            HALVES,
            halves,
            (kept, np.arange(len(data))),
            (of_documents, (rows[1], asked, tags)),
            strict=True,
        ):
            absent = rng.permutation(classes)[: args.absent]
            is_known = ~of_queries[:, absent].any(axis=1)
            present = searched[~data.tags[searched][:, absent].any(axis=1)]
            learned = (rows[0][present], known[present]), data.tags[present]
            scores = score(*learned, (x, vectors), seed)
            for name, values in scores.items():
                about = {"half": half, "score": name, "seed": seed}
                records.append({**about, "auroc": auroc(values, is_known)})
        shown.append((scores, is_known))
        save_records(args, records)
    _print(records, shown)
    return 0


def score(documents: Texts, tags: Tags, queries: Texts, seed: int) -> Scores:
    """Return every score of the queries, by name, float64[Q]; a high one is of a known class."""
    tags = tags[:, tags.any(axis=0)]
    (x, vectors), (asked, asked_vectors) = documents, queries
    recipe = ClassCodeRecipe(seed=seed)
    classifier = fit_maps(x, tags.astype(np.float32), tags, recipe).of("both")
    of_queries, of_documents = classifier.scores(asked), np.zeros(tags.shape, np.float32)
    halves = np.array_split(np.random.default_rng(seed).permutation(len(tags)), 2)
    for rows, others in (halves, halves[::-1]):
        by_others = fit_maps(x[others], tags[others].astype(np.float32), tags[others], recipe)
        of_documents[rows] = by_others.of("both").scores(x[rows])
    spaces = {"teacher": (vectors, asked_vectors), "scores": (of_documents, of_queries)}
    p_Q = classifier.probabilities(asked).max(axis=1).astype(np.float64)
    logits, every = np.log(p_Q) - np.log(np.maximum(1 - p_Q, 1e-9)), np.arange(len(p_Q))
    scores: Scores = dict(zip(TODAY, (log_odds(of_queries), p_Q), strict=True))
    for space, of_texts in spaces.items():
        for what, values_QC in zip("zd", potatoes(of_texts[0], tags, of_texts[1]), strict=True):
            likeliest = values_QC[every, of_queries.argmax(axis=1)]
            scores[f"{space}, {what}, any"] = -values_QC.min(axis=1)
            scores[f"{space}, {what}, likeliest"] = -likeliest
            joined = logits / logits.std() - likeliest / likeliest.std()
            scores[f"{space}, probability - {what}"] = joined
    return scores


def potatoes(documents: Floats, tags: Tags, queries: Floats) -> tuple[Any, Any]:
    """Return z of the queries ``(Q, D)`` in the potato of each class, float64[Q, C], and d."""
    z, d = [], []
    x, asked = (torch.from_numpy(np.asarray(some, np.float64)) for some in (documents, queries))
    geometry = potato.EUCLIDEAN
    for of_class in torch.from_numpy(tags.T.copy()):
        reference = geometry.mean(x[of_class])
        mean, deviation = potato.geometric_statistics(geometry.distance(x[of_class], reference))
        d.append(geometry.distance(asked, reference))
        deviation = deviation.clamp(min=potato.MIN_LOG_DEVIATION)
        z.append(potato.geometric_z_score(d[-1], mean, deviation))
    return torch.stack(z, dim=1).numpy(), torch.stack(d, dim=1).numpy()


def auroc(values: Any, is_known: Any) -> float:
    """Return the probability that a known text scores above another; ties count half."""
    n = int(is_known.sum())
    above = rankdata(values)[is_known].sum() - n * (n + 1) / 2
    return float(above / (n * (len(values) - n)))


def _print(records: list[Record], shown: list[tuple[Scores, Any]]) -> None:
    runs = group(records, "score", "half")
    mean = {name: np.mean([run["auroc"] for run in runs[name, HALVES[0]]]) for name in shown[0][0]}
    today = max(TODAY, key=lambda name: mean[name])
    rows = []
    for name in mean:
        of_halves = [mean_and_deviation(runs[name, half], "auroc") for half in HALVES]
        gain, low, high = difference(shown, name, today)
        rows.append([name, *of_halves, f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]"])
    print_table(("AUROC", *HALVES, f"beside {today}"), rows)


def difference(shown: list[tuple[Scores, Any]], name: str, other: str) -> tuple[float, ...]:
    """Return the mean difference of AUROC over runs, and its interval over runs and queries."""

    def gain(number: int, rows: Any) -> float:
        scores, is_known = shown[number]
        ours, others = (auroc(scores[which][rows], is_known[rows]) for which in (name, other))
        return ours - others

    rng, n_runs, n = np.random.default_rng(0), len(shown), len(shown[0][1])
    means = [
        np.mean([gain(i, rng.integers(n, size=n)) for i in rng.integers(n_runs, size=n_runs)])
        for _ in range(SAMPLES)
    ]
    mean = np.mean([gain(i, slice(None)) for i in range(n_runs)])
    return (float(mean), *map(float, np.quantile(means, [0.025, 0.975])))
