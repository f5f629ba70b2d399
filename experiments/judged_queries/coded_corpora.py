"""The codes of the experiment: of texts, of a teacher's vectors, and of the teacher's students."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import trained_encoder
from experiments.judged_queries.compared_rankings import (
    CodedCorpus,
    CodedPassages,
    Scores,
    encode_by_lsa_itq,
    encode_corpus,
    encode_passages,
)
from experiments.judged_queries.judged_corpora import Corpus
from experiments.perception_coherence.rivals import RivalRecipe, distill_rival
from experiments.saved_encoders import load_or_train
from experiments.ssb_vae.variants import variant_recipe
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import (
    ICT,
    NEIGHBOURS,
    STATIC,
    BaseRecipe,
    ClozeRecipe,
    DistillationRecipe,
    LinearRecipe,
)
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.arrays import unit_rows
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.linear_codes import LINEAR_METHODS
from hummingbit.training.teachers import Teacher, read_teacher

METHODS_OF_VECTORS = ("itq", "pca-sign", "sne")


@dataclass(frozen=True, eq=False)
class TaughtCorpus:
    """The vectors of a corpus: `data` has those of the documents, `queries` those of the queries.

    All have length 1.
    """

    name: str
    teacher: Teacher
    data: TrainingData
    queries: Floats

    def cosines(self) -> Scores:
        """Return the cosine of each query and each document."""
        documents = np.asarray(self.data.inputs, dtype=np.float64)
        return np.asarray(self.queries.astype(np.float64) @ documents.T)


def read_vectors(corpus: Corpus, folder: Path) -> TaughtCorpus:
    """Read CORPUS-documents.npz and CORPUS-queries.npz of a folder, with `ids` and `vectors`.

    They are two files because a query and a document may have the same id.

    Raises:
        TeacherError: if a file lacks the vector of a document or a query.
        ReadError: if a file does not have the format of its suffix.
    """
    teacher = read_teacher(str(folder / f"{corpus.name}-documents.npz"), corpus.data)
    queries = read_teacher(str(folder / f"{corpus.name}-queries.npz"), gather(corpus.query_list))
    vectors = replace(corpus.data, inputs=unit_rows(teacher.vectors))
    return TaughtCorpus(f"{corpus.name}-vectors", teacher, vectors, unit_rows(queries.vectors))


def coded_corpora(
    corpus: Corpus, taught: TaughtCorpus | None, args: argparse.Namespace
) -> Iterator[tuple[str, CodedCorpus, CodedPassages | None]]:
    """Yield the name of each kind of codes, those of documents, and perhaps those of passages."""
    queries, documents = corpus.queries, corpus.documents
    for n_bits in args.bits:
        yield f"itq of lsa {n_bits}", encode_by_lsa_itq(queries, documents, n_bits, seed=0), None
    for run in _runs(args):
        for method in args.methods:
            encoder = _encoder(corpus.name, corpus.data, method, run)
            passages = None
            if args.passages:
                passages = encode_passages(encoder, queries, documents, args.passages)
            yield f"{method} {run.suffix}", encode_corpus(encoder, queries, documents), passages
        if taught is None:
            continue
        for method in METHODS_OF_VECTORS:
            encoder = _encoder(taught.name, taught.data, method, run)
            coded = encode_corpus(encoder, taught.queries, taught.data.inputs)
            yield f"{method} of vectors {run.suffix}", coded, None
        for objective in args.students:
            encoder = _student(corpus, taught.teacher, objective, run)
            coded = encode_corpus(encoder, queries, documents)
            yield f"student, {objective} {run.suffix}", coded, None


@dataclass(frozen=True)
class _Run:
    """The options of the experiment with one of its numbers of bits and one of its seeds."""

    n_bits: int
    seed: int
    args: argparse.Namespace

    @property
    def suffix(self) -> str:
        """What a run adds to the name of its ranking."""
        return f"{self.n_bits}" + (f", seed {self.seed}" if self.args.seeds > 1 else "")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that all recipes have."""
        return {
            "n_bits": self.n_bits,
            "seed": self.seed,
            "validation_share": 0.0,
            "analyzer": self.args.analyzer,
        }

    def folder(self, *parts: str) -> Path:
        """Return the folder of an encoder."""
        stems = self.args.analyzer.split("+")[1:]
        name = "-".join([*parts, str(self.n_bits), *stems, str(self.seed)])
        return Path(self.args.work_dir, name)


def _runs(args: argparse.Namespace) -> Iterator[_Run]:
    for n_bits in args.bits:
        for seed in range(args.seeds):
            yield _Run(n_bits, seed, args)


def _encoder(name: str, data: TrainingData, method: str, run: _Run) -> Encoder:
    recipe: BaseRecipe
    if method in LINEAR_METHODS:
        recipe = LinearRecipe(method, **run.settings)
        return trained_encoder(data, recipe, run.folder(name, method))
    supervision = run.args.supervision
    settings = {"method": method, "label_fraction": supervision, **run.settings}
    recipe = ClozeRecipe(**settings) if method in (ICT, STATIC) else variant_recipe(**settings)
    return trained_encoder(data, recipe, run.folder(name, method, f"{supervision:g}"))


def _student(corpus: Corpus, teacher: Teacher, objective: str, run: _Run) -> Encoder:
    kind = DistillationRecipe if objective == NEIGHBOURS else RivalRecipe
    recipe = kind(objective=objective, **run.settings)
    folder = run.folder(corpus.name, "student", objective)

    def train_anew() -> Encoder:
        return distill_rival(corpus.data, teacher, recipe, folder, overwrite=True).encoder

    return load_or_train(folder, corpus.data, recipe, train_anew, {"teacher": teacher.about()})
