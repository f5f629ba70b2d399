"""Corpora with the vectors of a language model, or of the encoder that ships, as the teacher's."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from experiments.parts import need
from experiments.perception_coherence.text_corpora import TaughtCorpus
from experiments.splits import read_split
from hummingbit.commands.options import OptionError
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.arrays import unit_rows
from hummingbit.index.catalog import shipped_encoder
from hummingbit.training.data import TrainingData
from hummingbit.training.model_codes import read_documents
from hummingbit.training.model_folders import read_model
from hummingbit.training.teachers import Teacher

MOST_QUERIES = 1000


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the teacher."""
    parser.add_argument(
        "--model",
        type=Path,
        metavar="FOLDER",
        help="the folder of the language model that teaches (default: the encoder that ships)",
    )
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", help="tokens of a text that the model reads"
    )
    parser.add_argument(
        "--bits", type=int, nargs="+", metavar="N", help="bits in a code (default: by part)"
    )
    parser.add_argument(
        "--documents", type=int, default=3000, metavar="N", help="of a corpus (default: 3000)"
    )


def read_taught(name: str, args: argparse.Namespace) -> TaughtCorpus:
    """Return some documents of a corpus, a thousand test queries at most, and their vectors."""
    rng = np.random.default_rng(0)
    data, queries = (
        some.select(np.sort(rng.permutation(len(some))[:most]))
        for some, most in zip(
            read_split(name, args.data_root), (args.documents, MOST_QUERIES), strict=True
        )
    )
    vectors, asked = (read_vectors(name, some, args) for some in (data, queries))
    teacher = "the encoder that ships" if args.model is None else args.model.name
    return TaughtCorpus(name, data, queries, Teacher(teacher, "vectors", "", vectors), asked)


def read_vectors(name: str, data: TrainingData, args: argparse.Namespace) -> Floats:
    """Return the vectors of texts; those of a model are saved and computed once."""
    texts = [str(text) for text in data.inputs]
    if args.model is None:
        shipped = shipped_encoder()
        if shipped is None:
            raise OptionError("hummingbit-models is not installed; name a --model")
        # Sums of the words' rows: short texts would be on one side of all thresholds.
        return unit_rows(load_encoder(shipped).query_weights(texts))
    need("onnxruntime", ["--model"])
    folder = read_model(args.model, max_tokens=args.max_tokens)
    args.work_dir.mkdir(parents=True, exist_ok=True)
    saved = args.work_dir / f"{name}-{len(texts)}-{data.sha256[:16]}.vectors"
    return read_documents(folder, texts, data.sha256, saved)[0]
