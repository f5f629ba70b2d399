"""The corpora of the distillation experiments, with a teacher's vectors."""

from __future__ import annotations

import argparse
import hashlib
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from experiments.code_version import version_of
from experiments.saved_encoders import load_or_train
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.arrays import unit_rows
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.semi_supervised import train
from hummingbit.training.teachers import Teacher, read_teacher, save_vectors

CORPORA = ("snippets", "20news")
MORE_CORPORA = ("ag-news", "dbpedia14", "googlenews", "hwu64")
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
WIDE_BITS = 256


@dataclass(frozen=True)
class TaughtCorpus:
    """A corpus and its teacher: `database` is trained on and searched by `queries`.

    `teacher` holds the vectors of `database`; `query_vectors` are those of `queries`.
    """

    name: str
    database: TrainingData
    queries: TrainingData
    teacher: Teacher
    query_vectors: Floats


def add_teacher_options(group: argparse._ArgumentGroup) -> None:
    """Add the options for the corpora and the teacher."""
    group.add_argument(
        "--corpora",
        nargs="+",
        default=list(CORPORA),
        choices=(*CORPORA, *MORE_CORPORA),
        metavar="NAME",
        help=f"of {', '.join((*CORPORA, *MORE_CORPORA))} (default: {' '.join(CORPORA)})",
    )
    group.add_argument(
        "--teacher-vectors",
        type=Path,
        metavar="DIR",
        help="a folder with the teacher's vectors of every document, CORPUS.npz (ids, vectors)",
    )
    group.add_argument(
        "--teacher-model",
        default=MODEL,
        metavar="T",
        help="the sentence-transformers model that computes missing vectors; without"
        f" sentence-transformers, the teacher is a {WIDE_BITS}-bit SSB-VAE (default: %(default)s)",
    )


def read_taught(name: str, args: argparse.Namespace) -> TaughtCorpus:
    """Return a corpus with the teacher that the options name.

    The training split is the database, the test split the queries; 20news's validation split is
    not used.

    Raises:
        ReadError, TeacherError: if the corpus or the teacher's vectors cannot be read.
    """
    splits = [
        list(read_documents(f"{name}:{split}", data_root=args.data_root)) for split in _SPLITS
    ]
    database, queries = map(gather, splits)
    if not set(queries.classes) <= set(database.classes):
        raise ValueError(f"{name}: the test split has classes that the training split lacks")
    source = _teacher_source(name, splits, database, args)
    teacher, query_teacher = read_teacher(source, database), read_teacher(source, queries)
    return TaughtCorpus(name, database, queries, teacher, query_teacher.vectors)


_SPLITS = ("train", "test")


def _teacher_source(
    name: str, splits: list[list[Document]], database: TrainingData, args: argparse.Namespace
) -> str:
    """Return the source for ``read_teacher``; a model computes its vectors once and saves them."""
    if args.teacher_vectors:
        return str(args.teacher_vectors / f"{name}.npz")
    folder = args.work_dir / "teachers"
    if find_spec("sentence_transformers") is None:
        return str(_wide_autoencoder(folder / f"{name}-ssb-vae-{WIDE_BITS}", database))
    all_documents = gather(document for split in splits for document in split)
    path = vectors_file(folder, name, args.teacher_model, all_documents)
    if not path.exists():
        print(f"encoding {name} with {args.teacher_model}", file=sys.stderr, flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        save_vectors(path, read_teacher(args.teacher_model, all_documents), all_documents)
    return str(path)


def vectors_file(folder: Path, name: str, model: str, documents: TrainingData) -> Path:
    """Return the file of a model's vectors; another model, corpus or code has another file."""
    made_by = f"{model} {documents.sha256} {version_of(read_teacher.__module__)}"
    return folder / f"{name}-{hashlib.sha256(made_by.encode()).hexdigest()[:16]}.npz"


def _wide_autoencoder(folder: Path, database: TrainingData) -> Path:
    recipe = AutoencoderRecipe(n_bits=WIDE_BITS, hidden=1000)
    load_or_train(
        folder, database, recipe, lambda: train(database, recipe, folder, overwrite=True).encoder
    )
    return folder


def cosine_blocks(corpus: TaughtCorpus, rows: int = 1000) -> list[Floats]:
    """Return the cosines of the teacher's vectors, ``float32[q, N]`` for `rows` queries each."""
    database = unit_rows(corpus.teacher.vectors)
    queries = unit_rows(corpus.query_vectors)
    return [queries[start : start + rows] @ database.T for start in range(0, len(queries), rows)]
