"""Reads the documents of a source as training data."""

from __future__ import annotations

import argparse

from hummingbit.commands.options import read
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
