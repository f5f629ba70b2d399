"""Reads what training learns from: the documents of a source, and vectors of words."""

from __future__ import annotations

import argparse
from pathlib import Path

from foundation.stages import begin_stage
from hummingbit.commands.options import read
from training.class_codes.word_vectors import WordVectors, read_word_vectors
from training.data import TrainingData, TrainingDataError, gather


def read_training_data(args: argparse.Namespace, source: str) -> TrainingData:
    """Return the documents of `source`, read by the options of ``add_reading``, as training data.

    Raises:
        ReadError, DocumentError: if the source cannot be read.
        TrainingDataError: if its documents cannot be trained on. The message names the source.
    """
    try:
        return gather(read(args, source, uses_payload=False))
    except TrainingDataError as error:
        raise TrainingDataError(f"{source}: {error}") from None


def add_word_vectors(parser: argparse._ActionsContainer, *, default: str | None = None) -> None:
    """Add the option for a file of word vectors."""
    parser.add_argument(
        "--word-vectors",
        type=Path,
        default=default,
        metavar="FILE",
        help="vectors of words, which help to classify texts whose words no labelled text has:"
        " .npz with ids (the words) and vectors, .parquet with id and vector, or lines of a word"
        " and its numbers (.txt, .vec), as those of GloVe",
    )


def add_model(parser: argparse._ActionsContainer, *, default: str | None = None) -> None:
    """Add the option for a language model."""
    parser.add_argument(
        "--model",
        default=default,
        metavar="FOLDER",
        help="a language model that reads the texts, as sentence-transformers saves it; needs"
        " the extra model",
    )


def word_vectors_of(args: argparse.Namespace) -> WordVectors | None:
    """Return the word vectors of the option of :func:`add_word_vectors`; None without it.

    Raises:
        WordVectorsError, ReadError: if the file cannot be used.
    """
    if args.word_vectors is None:
        return None
    begin_stage(f"reading {args.word_vectors}")
    return read_word_vectors(args.word_vectors)
