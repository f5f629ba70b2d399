"""Does perception coherence keep more of the nearest documents if errors there weigh more?

Equation 4 of the paper weighs the squared errors of all ranks alike. Here the error of the document
with the teacher's rank r among N, the nearest having r = 1, has the weight

    w(r) = (1 + r / c)⁻², divided by its mean over r.

With c = ∞ it is Equation 4. Students of 64 bits are

- ``coherence``: the network of ``distill --objective perception-coherence``, random batches;
- ``ranks``: that of ``--objective neighbours``, whose batches have two of the ten nearest of each
  text, with weighted coherence in the place of the stochastic neighbour loss;
- ``neighbours``: as it is;

"start" is the codes that the last two start from, ITQ of the vectors as ridge regression predicts
them from terms, and "vectors, itq" that of the vectors themselves. "Kept" is the share of the
teacher's hundred nearest documents among the hundred nearest by codes. c is chosen by what held-out
documents of the first corpus keep, beside c = ∞; test queries are shown.

With ``--questions``, students of c = 16 learn from the documents of these families of questions, at
most ``--documents``, and the part prints what searches by their codes alone and by words and codes
find.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from experiments.paired_runs import format_difference
from experiments.paper_trials.taught import read_taught, read_vectors
from experiments.parts import add_choices
from experiments.perception_coherence.text_corpora import TaughtCorpus
from experiments.questions.families import FAMILIES, HALVES
from experiments.questions.table import HYBRID, RANKINGS, Asked, find, load
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_encoders import load_or_train
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, pack_bits, unpack_codes
from hummingbit.encoder.recipes import NEIGHBOURS, DistillationRecipe, setting
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.foundation.arrays import unit_rows
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.ingestion import ingest
from hummingbit.index.names import HAMMING
from hummingbit.index.options import SearchOptions
from hummingbit.training.data import Rows, TrainingData, gather
from hummingbit.training.distillation import (
    LEARNING_RATE,
    STUDENT_TEMPERATURE,
    TEACHER_TEMPERATURE,
    CoherenceLoss,
    NeighbourLoss,
    codes_of_terms,
    distill,
)
from hummingbit.training.layers import relaxed_hamming
from hummingbit.training.linear_codes import fit_itq
from hummingbit.training.loop import Schedule
from hummingbit.training.objectives.dissimilarity import cosine_dissimilarity
from hummingbit.training.objectives.perception_coherence import soft_ranks
from hummingbit.training.pipeline import Split, choose_features
from hummingbit.training.teachers import Teacher

CORPORA = ("hwu64", "snippets")
N_BITS, NEAREST, CHOICE_SEED = 64, 100, 1000
RANKS, COHERENCE, START, ITQ = "ranks", "coherence", "start", "vectors, itq"
TOPS = (math.inf, 16.0, 4.0)
"""c."""
CHOSEN_TOP = 16.0
"""What held-out documents of hwu64 choose for both losses."""
SEARCHES: Mapping[str, SearchOptions] = {
    HAMMING: replace(RANKINGS[HYBRID], ranking=HAMMING),
    HYBRID: RANKINGS[HYBRID],
}


@dataclass(frozen=True)
class TopRecipe(DistillationRecipe):
    """The settings of a student by weighted coherence; `top` is c."""

    top: float = setting(math.inf, "ranks from which errors weigh less", within="(0, inf]")

    def loss(self, student_QN: Tensor, teacher_QN: Tensor) -> Tensor:
        """Return (1/QN²) Σ_ij w(r_ij) (R̃¹_ij − R̃²_ij)²; Equation 4 if `top` is ∞ and Q = N."""
        ranks_QN = teacher_QN.argsort(dim=1).argsort(dim=1) + 1.0
        w_QN = (1 + ranks_QN / self.top) ** -2
        error_QN = soft_ranks(student_QN, STUDENT_TEMPERATURE)
        error_QN = error_QN - soft_ranks(teacher_QN, TEACHER_TEMPERATURE)
        weighted_QN = w_QN / w_QN.mean(dim=1, keepdim=True) * error_QN.square()
        return weighted_QN.mean() / teacher_QN.shape[1]


class TopCoherence(CoherenceLoss):
    """Weighted coherence of random batches."""

    def transfer_terms(
        self,
        logits_NB: Tensor,
        teacher_NE: Tensor,
        generator: torch.Generator,  # noqa: ARG002 - of the method it replaces
    ) -> dict[str, Tensor]:
        """Return the term of the loss."""
        student_NN = relaxed_hamming(torch.tanh(logits_NB), torch.tanh(logits_NB))
        teacher_NN = cosine_dissimilarity(teacher_NE, teacher_NE)
        return {"transfer_loss": cast(TopRecipe, self._recipe).loss(student_NN, teacher_NN)}


class TopRanks(NeighbourLoss):
    """Weighted coherence of batches with near documents, beside the inverse cloze task."""

    def __init__(
        self,
        data: TrainingData,
        teacher: Teacher,
        recipe: TopRecipe,
        _features: object,
        parts: Split,
    ) -> None:
        super().__init__(data, teacher.vectors[parts.training], recipe, parts.training)
        self._top = recipe

    def schedule(self) -> Schedule:
        """Return the schedule; with the near documents, batches are about as large as others."""
        return Schedule(self._top.epochs, 64, LEARNING_RATE, self._top.seed, decay=True)

    def __call__(
        self,
        rows: Rows,
        generator: torch.Generator,
        progress: float,  # noqa: ARG002
    ) -> Mapping[str, Tensor]:
        """See :class:`hummingbit.training.loop.BatchLoss`."""
        searched, network = self._add_nearest(rows, generator), self.network
        logits_MB = network(self._drop_words(searched, generator))[1]
        queries_NB = network(self._drop_words(rows, generator))[1]
        student_NM = relaxed_hamming(torch.tanh(queries_NB), torch.tanh(logits_MB))
        teacher_NM = 1 - self._unit_NE[torch.from_numpy(rows)] @ self._unit_NE[searched].T
        return {
            "transfer_loss": self._top.loss(student_NM, teacher_NM),
            "cloze_loss": self._cloze.loss(network, logits_MB[: len(rows)], rows, generator),
        }


LOSSES: Mapping[str, Any] = {COHERENCE: TopCoherence, RANKS: TopRanks}


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    add_choices(group, "--top-corpora", CORPORA, "the corpora")
    group.add_argument("--top-epochs", type=int, default=6, metavar="N", help="passes (6)")
    group.add_argument(
        "--questions", nargs="+", choices=FAMILIES, metavar="FAMILY", help="ask these families"
    )
    group.add_argument("--half", choices=HALVES, default="choose", help="of the questions (choose)")


def run(args: argparse.Namespace) -> int:
    """Choose the weights on the first corpus, and print what every student keeps."""
    (n_bits,) = args.bits or [N_BITS]
    if args.questions:
        return _ask(n_bits, args)
    corpora = [read_taught(name, args) for name in args.top_corpora]
    chosen = {kind: _choose(kind, corpora[0], n_bits, args) for kind in LOSSES}
    records: list[Record] = []
    kept: dict[tuple[str, str], list[Any]] = {}
    for corpus in corpora:
        for seed in range(args.seeds):
            for name, some in _codes(corpus, chosen, n_bits, seed, args).items():
                kept_Q, p100 = measure(corpus, *some)
                kept.setdefault((corpus.name, name), []).append(kept_Q)
                about = {"corpus": corpus.name, "student": name, "seed": seed}
                records.append({**about, "kept": float(kept_Q.mean()), "p100": p100})
            save_records(args, records)
    rows = []
    for (corpus_name, student), runs in group(records, "corpus", "student").items():
        figures = [mean_and_deviation(runs, figure) for figure in ("kept", "p100")]
        against = format_difference(*(kept[corpus_name, name] for name in (student, NEIGHBOURS)))
        rows.append([corpus_name, student, *figures, against])
    print_table(("corpus", "student", "kept", "p@100", "kept, beside neighbours"), rows)
    return 0


def _codes(
    corpus: TaughtCorpus,
    chosen: Mapping[str, TopRecipe],
    n_bits: int,
    seed: int,
    args: argparse.Namespace,
) -> dict[str, tuple[Codes, Codes]]:
    """Return the codes of the queries and of the documents by each student, by name."""
    neighbours = DistillationRecipe(n_bits=n_bits, objective=NEIGHBOURS, seed=seed)
    plain = TopRecipe(n_bits=n_bits, epochs=args.top_epochs, seed=seed)
    students: dict[str, tuple[str, DistillationRecipe]] = {
        NEIGHBOURS: (NEIGHBOURS, neighbours),
        COHERENCE: (COHERENCE, plain),
    }
    for kind, recipe in chosen.items():
        students[f"{kind}, weighted"] = kind, replace(recipe, seed=seed)
    codes = {name: student_codes(corpus, *student, args) for name, student in students.items()}
    return codes | untrained_codes(corpus, n_bits, seed)


def _ask(n_bits: int, args: argparse.Namespace) -> int:
    """Print what searches by the codes of each student find of questions."""
    weighted = TopRecipe(n_bits=n_bits, epochs=args.top_epochs, top=CHOSEN_TOP)
    records: list[Record] = []
    found: dict[tuple[str, str, str], list[Any]] = {}
    for family in args.questions:
        asked = load(family, args.half, args.data_root)
        asked = asked._replace(documents=_some(asked, args.documents))
        data, questions = gather(asked.documents), gather(asked.questions)
        vectors = read_vectors(family, data, args)
        teacher = Teacher("the model", "vectors", "", vectors)
        of_questions = read_vectors(f"{family}-{args.half}", questions, args)
        corpus = TaughtCorpus(family, data, questions, teacher, of_questions)
        for seed in range(args.seeds):
            codes = _codes(corpus, dict.fromkeys(LOSSES, weighted), n_bits, seed, args)
            for name, some in codes.items():
                for ranking, (in_ten, reciprocal) in _search(asked, *some, n_bits).items():
                    found.setdefault((family, ranking, name), []).append((in_ten + reciprocal) / 2)
                    about = {"family": family, "ranking": ranking, "student": name, "seed": seed}
                    means = {"in_ten": float(in_ten.mean()), "mrr": float(reciprocal.mean())}
                    records.append({**about, **means})
            save_records(args, records)
    rows = []
    for (family, ranking, name), runs in group(records, "family", "ranking", "student").items():
        figures = [mean_and_deviation(runs, figure) for figure in ("in_ten", "mrr")]
        others = (found[family, ranking, other] for other in (name, NEIGHBOURS))
        rows.append([family, ranking, name, *figures, format_difference(*others)])
    heads = ("family", "ranking", "student", "in ten", "MRR", "mean of both, beside neighbours")
    print_table(heads, rows)
    return 0


def _some(asked: Asked, most: int) -> list[Document]:
    """Return the documents with a text that answer a question, and of the others up to `most`."""
    documents = [one for one in asked.documents if one.text]
    answers = {id_ for grades in asked.qrels.values() for id_ in grades}
    ranks = np.random.default_rng(0).permutation(len(documents))
    ranks[[at for at, one in enumerate(documents) if one.id in answers]] = -1
    return [documents[at] for at in np.sort(np.argsort(ranks, kind="stable")[:most])]


def _search(asked: Asked, of_questions: Codes, codes: Codes, n_bits: int) -> dict[str, Any]:
    """Return `in_ten` and `reciprocal`, ``float64[Q]`` each, of each search by codes."""
    documents, questions = (
        [replace(one, code=code.tobytes().hex()) for one, code in zip(some, of, strict=True)]
        for some, of in ((asked.documents, codes), (asked.questions, of_questions))
    )
    with (
        tempfile.TemporaryDirectory() as place,
        DataFolder(Path(place), writable=True) as folder,
    ):
        collection = folder.create_collection("asked", n_bits=n_bits)
        ingest(collection, documents)
        searches = {
            ranking: find(collection, asked._replace(questions=questions), options)[1]
            for ranking, options in SEARCHES.items()
        }
    return {name: (found.in_ten, found.reciprocal) for name, found in searches.items()}


def untrained_codes(corpus: TaughtCorpus, n_bits: int, seed: int) -> dict[str, tuple[Codes, Codes]]:
    """Return ITQ codes of queries and documents, of the vectors and as terms predict them."""
    vectors, of_queries = corpus.teacher.vectors, corpus.query_vectors
    texts, asked = ([str(text) for text in of.inputs] for of in (corpus.database, corpus.queries))
    every = np.arange(len(texts))
    features: Any = choose_features(corpus.database, every, 10_000, "count-idf", min_documents=1)
    terms = features.transform(texts)
    predicted = codes_of_terms(terms, vectors, n_bits, seed)
    assert predicted is not None  # noqa: S101 - there are more documents and numbers than bits
    found = {
        START: (predicted, features.transform(asked), terms),
        ITQ: (fit_itq(vectors, n_bits, seed), of_queries, vectors),
    }
    return {
        name: (pack_bits(rows @ weight > cut), pack_bits(others @ weight > cut))
        for name, ((weight, cut), rows, others) in found.items()
    }


def _choose(kind: str, corpus: TaughtCorpus, n_bits: int, args: argparse.Namespace) -> TopRecipe:
    """Return the settings by which held-out documents keep most neighbours."""
    order = np.random.default_rng(CHOICE_SEED).permutation(len(corpus.database))
    held_out, rows = np.split(order, [len(order) // 6])
    vectors = corpus.teacher.vectors
    part = TaughtCorpus(
        f"{corpus.name}-choice",
        corpus.database.select(rows),
        corpus.database.select(held_out),
        replace(corpus.teacher, vectors=vectors[rows]),
        vectors[held_out],
    )
    found = {}
    for top in TOPS:
        recipe = TopRecipe(n_bits=n_bits, epochs=args.top_epochs, seed=CHOICE_SEED, top=top)
        found[recipe] = float(measure(part, *student_codes(part, kind, recipe, args))[0].mean())
        print(f"{kind}, c {top:g}: {found[recipe]:.3f}", flush=True)
    weighted = [recipe for recipe in found if recipe.top < math.inf]
    return max(weighted, key=lambda recipe: found[recipe])


def student_codes(
    corpus: TaughtCorpus, kind: str, recipe: DistillationRecipe, args: argparse.Namespace
) -> tuple[Codes, Codes]:
    """Return the codes of the queries and of the documents by a student, trained once."""
    settings = f"{recipe.n_bits}-{recipe.epochs}-{getattr(recipe, 'top', 0):g}-{recipe.seed}"
    name = f"{corpus.name}-{kind}-{settings}"
    folder, data = args.work_dir / "top-of-list" / name, corpus.database
    options: Any = {"loss_of": LOSSES.get(kind), "overwrite": True, "progress": False}
    encoder = load_or_train(
        folder,
        data,
        recipe,
        lambda: distill(data, corpus.teacher, recipe, folder, **options).encoder,
        {"teacher": corpus.teacher.about()},
    )
    queries = encoder.encode_uncorrected_queries(corpus.queries.inputs)
    return queries, encoder.encode(data.inputs)


def measure(corpus: TaughtCorpus, asked: Codes, codes: Codes) -> tuple[Any, float]:
    """Return the share of the nearest that each query keeps, float64[Q], and the mean p@100."""
    of_queries, of_documents = (unpack_codes(some) * 2.0 - 1 for some in (asked, codes))
    cosines = unit_rows(corpus.query_vectors) @ unit_rows(corpus.teacher.vectors).T
    found, expected = (
        np.argsort(-scores, axis=1, kind="stable")[:, :NEAREST]
        for scores in (of_queries @ of_documents.T, cosines)
    )
    kept = [np.isin(a, b).mean() for a, b in zip(expected, found, strict=True)]
    labels = (some.labelled().labels for some in (corpus.queries, corpus.database))
    of_asked, of_database = labels
    evaluation = evaluate_codes(asked, of_asked, codes, of_database, ["P@100"])
    return np.array(kept), evaluation.expected["P@100"]
