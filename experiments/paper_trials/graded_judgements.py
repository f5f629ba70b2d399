"""Do codes learn more of graded judgements by continuous histogram loss than by cross-entropy?

The judgements of nfcorpus have the grades 1 and 2. Queries of the training split teach the last
layer of codes of the teacher's vectors, from ITQ, in two ways:

- ``train judged`` as it is (`hummingbit.training.judgements.learn`), whose loss is a cross-entropy;
- continuous histogram loss of the queries of a batch with some documents that are relevant to them
  and random ones, as many as ``train judged`` draws. The similarity of a pair is its grade, divided
  by the highest, and its distance the share of bits that differ, of signs for the Hamming ranking
  and of tanh of the query's values for the asymmetric one. Histograms are of the pairs of a batch
  or of each query alone, and the mean of both distances' losses is minimized.

The weight of each grade (`balance`), and what a histogram is of, are chosen by the development
queries, with a seed of its own. Both ways hold a fifth of the queries out to choose the step. The
test queries are shown by nDCG@10, tie-averaged.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.judged_queries.judged_corpora import Corpus, read_corpus
from experiments.paired_runs import format_difference
from experiments.paper_trials.taught import read_vectors
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from hummingbit.corpus.named_sets import load_qrels
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import JudgementRecipe
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.evaluation.relevance import Relevance, relevance_by_qrels
from hummingbit.training.data import Rows, gather
from hummingbit.training.judgements import METRIC, Read, grades_of, learn
from hummingbit.training.layers import each_on_one_core, straight_through_signs
from hummingbit.training.model_codes import fit_head
from hummingbit.training.objectives.continuous_histogram import continuous_histogram_loss
from hummingbit.training.pipeline import one_blas_thread

CORPUS, N_BITS, CHOICE_SEED = "nfcorpus", 128, 1000
SPLITS = ("queries-train", "queries-development", "queries")
START, TODAY, HISTOGRAM = "start", "train judged", "histogram"
CHECK_EVERY, MOST_HELD_OUT, DEGREES = 40, 300, 3
RELEVANT, RANDOM = 4, 1_024
BATCHES = {False: 64, True: 16}
"""Queries in a batch, by whether each has a histogram of its own."""
SETTINGS = [(False, 0.0), (False, 1.0), (True, 1.0)]
"""Whether each query has a histogram of its own, and the balance."""
Head = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class Asked:
    """Judged queries: their vectors, and their grades, a CSR matrix ``(Q, N)``."""

    vectors: Floats
    grades: Any

    def take(self, rows: Rows) -> Asked:
        """Return some of the queries."""
        return Asked(self.vectors[rows], self.grades[rows])

    @cached_property
    def relevance(self) -> Relevance:
        """The grades as evaluations take them."""
        names = [str(row) for row in range(self.grades.shape[0])]
        qrels = {
            name: {
                str(column): int(grade) for column, grade in zip(of.indices, of.data, strict=True)
            }
            for name, of in ((name, self.grades[[int(name)]]) for name in names)
        }
        columns = [str(column) for column in range(self.grades.shape[1])]
        return relevance_by_qrels(qrels, names, columns)[0]


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    group.add_argument("--steps", type=int, default=120, metavar="N", help="batches, at most")


@one_blas_thread()
@each_on_one_core(second_thread=False)
def run(args: argparse.Namespace) -> int:
    """Choose the settings, learn with every seed, and print nDCG@10 of the test queries."""
    corpora = {split: read_corpus(CORPUS, split, args.data_root) for split in SPLITS}
    documents = read_vectors(CORPUS, corpora[SPLITS[0]].data, args)
    taught, development, test = (_asked(corpora[split], split, args) for split in SPLITS)
    (n_bits,) = args.bits or [N_BITS]
    layer, thresholds = fit_head(documents, n_bits, 0, "itq")
    start = Encoder(VectorFeatures(documents.shape[1]), [layer], thresholds, {})
    judged = taught.take(np.flatnonzero(np.diff(taught.grades.indptr)))
    chosen, most = SETTINGS[0], -1.0
    for settings in SETTINGS:
        head = learn_grades(start, judged, documents, settings, steps=args.steps, seed=CHOICE_SEED)
        found = float(np.mean([*measure(head, documents, development).values()]))
        print(f"by query {settings[0]}, balance {settings[1]:g}: {found:.4f}", flush=True)
        if found > most:
            chosen, most = settings, found
    values: dict[tuple[str, str], list[Any]] = {}
    records: list[Record] = []
    for seed in range(args.seeds):
        heads = {
            START: (layer.weight, thresholds),
            TODAY: _learn_today(start, judged, documents, args.steps, seed),
            HISTOGRAM: learn_grades(start, judged, documents, chosen, steps=args.steps, seed=seed),
        }
        for way, learned in heads.items():
            for ranking, values_Q in measure(learned, documents, test).items():
                values.setdefault((ranking, way), []).append(values_Q)
                about = {"ranking": ranking, "way": way, "seed": seed}
                records.append({**about, METRIC: float(values_Q.mean())})
        save_records(args, records)
    rows = []
    for (ranking, way), runs in group(records, "ranking", "way").items():
        against = format_difference(values[ranking, way], values[ranking, TODAY])
        rows.append([ranking, way, mean_and_deviation(runs, METRIC), against])
    print_table(("ranking", "way", METRIC, f"beside {TODAY}"), sorted(rows))
    return 0


def _asked(corpus: Corpus, split: str, args: argparse.Namespace) -> Asked:
    ids = [query.id for query in corpus.query_list]
    grades = grades_of(load_qrels(CORPUS, split, args.data_root) or {}, ids, corpus.data.ids)
    return Asked(read_vectors(f"{CORPUS}-{split}", gather(corpus.query_list), args), grades)


def measure(head: Head, documents: Floats, asked: Asked) -> dict[str, Any]:
    """Return the tie-averaged nDCG@10 of each query by ranking, float64[Q]."""
    weight, cut = head
    bits, values = (rows @ weight - cut for rows in (documents, asked.vectors))
    bits = np.where(bits > 0, 1.0, -1.0)
    rankings = {"hamming": np.where(values > 0, 1.0, -1.0), "asymmetric": values}
    return {
        name: evaluate_by_score([queries @ bits.T], asked.relevance, [METRIC]).expected_per_query[
            METRIC
        ]
        for name, queries in rankings.items()
    }


def _learn_today(start: Encoder, judged: Asked, documents: Floats, steps: int, seed: int) -> Head:
    read = [
        Read(rows, np.empty((len(rows), 0), np.float32)) for rows in (judged.vectors, documents)
    ]
    recipe, rng = JudgementRecipe(seed=seed, steps=steps), np.random.default_rng(seed)
    found = learn(start, read[0], read[1], judged.grades, recipe=recipe, rng=rng)
    return found.layers(start)[-1].weight, found.cut


def learn_grades(
    start: Encoder,
    judged: Asked,
    documents: Floats,
    settings: tuple[bool, float],
    *,
    steps: int,
    seed: int,
) -> Head:
    """Return the weight and the thresholds that continuous histogram loss teaches.

    `settings` are whether each query has a histogram of its own, and the balance.
    """
    rng, recipe = np.random.default_rng(seed), JudgementRecipe(seed=seed)
    order = rng.permutation(len(judged.vectors))
    held_out, training = np.split(order, [max(1, round(recipe.held_out * len(order)))])
    check = judged.take(held_out[:MOST_HELD_OUT])
    first = start.layers[0].weight, start.thresholds
    size = np.sqrt(np.square(documents @ first[0] - first[1]).mean())
    weight, cut = (torch.tensor(part / size, requires_grad=True) for part in first)
    optimizer = torch.optim.Adam([weight, cut], recipe.learning_rate)
    x_NF, degrees = torch.from_numpy(documents), float(judged.grades.max())
    best, most = first, _mean(measure(first, documents, check))
    for step in range(1, steps + 1):
        rows = rng.permutation(training)[: BATCHES[settings[0]]]
        columns = _draw(judged.grades[rows], rng)
        similarity_QN = torch.from_numpy(judged.grades[rows][:, columns].toarray() / degrees)
        bits_NB = straight_through_signs(x_NF[columns] @ weight - cut)
        queries_QB = torch.from_numpy(judged.vectors[rows]) @ weight - cut
        optimizer.zero_grad()
        loss(queries_QB, bits_NB, similarity_QN, *settings).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % CHECK_EVERY == 0:
            head = weight.detach().numpy().copy(), cut.detach().numpy().copy()
            found = _mean(measure(head, documents, check))
            if found > most:
                best, most = head, found
    return best


def _draw(grades_QN: Any, rng: np.random.Generator) -> Rows:
    """Return random documents, and some that are relevant to each query, as `learn` does."""
    relevant = [
        rng.permutation(row.indices)[:RELEVANT]
        for row in (grades_QN[[q]] for q in range(grades_QN.shape[0]))
    ]
    return np.unique(np.concatenate([rng.permutation(grades_QN.shape[1])[:RANDOM], *relevant]))


def loss(
    queries_QB: Tensor, bits_NB: Tensor, similarity_QN: Tensor, by_query: bool, balance: float
) -> Tensor:
    """Return the mean continuous histogram loss of both distances, a scalar."""
    total = queries_QB.new_zeros(())
    for signs_QB in (straight_through_signs(queries_QB), torch.tanh(queries_QB)):
        distance_QN = ((1 - signs_QB @ bits_NB.T / bits_NB.shape[1]) / 2).clamp(0, 1)
        pairs = [(distance_QN.flatten(), similarity_QN.flatten())]
        if by_query:
            pairs = list(zip(distance_QN, similarity_QN, strict=True))
        losses = [
            continuous_histogram_loss(d, s, similarity_bins=DEGREES, balance=balance)
            for d, s in pairs
        ]
        total = total + torch.stack(losses).mean()
    return total / 2


def _mean(values: dict[str, Any]) -> float:
    return float(np.mean([*values.values()]))
