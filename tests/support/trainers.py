"""Trainers of retraining jobs that provide a ready encoder instead of training one."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hummingbit.encoder.artifact import ArtifactError, install_artifact, write_artifact
from hummingbit.encoder.encoder import Encoder
from hummingbit.service.jobs.training_process import (
    ENCODER_FOLDER,
    TRAINING_FILE,
    hold_lock,
    needs_training,
)
from tests.support.encoders import random_texts


@contextmanager
def external_trainer(data_dir: Path, encoder: Encoder | Path) -> Iterator[None]:
    """Give `encoder` to every job that waits for training, like a trainer on another machine."""
    ending = threading.Event()

    def poll() -> None:
        while not ending.wait(0.005):
            provide_encoder(data_dir, encoder)

    thread = threading.Thread(target=poll, name="trainer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def provide_encoder(data_dir: Path, encoder: Encoder | Path) -> None:
    """Write `encoder`, or copy its folder, to the folder of every job that waits for one."""
    for request in data_dir.glob(f"jobs/*/{TRAINING_FILE}"):
        folder = request.parent
        try:
            with hold_lock(folder) as lock:
                if lock is not None and needs_training(folder):
                    if isinstance(encoder, Path):
                        install_artifact(encoder, folder / ENCODER_FOLDER)
                    else:
                        write_artifact(folder / ENCODER_FOLDER, encoder, random_texts(40))
        except (OSError, ArtifactError):
            shutil.rmtree(folder / ENCODER_FOLDER, ignore_errors=True)  # the job was finished
