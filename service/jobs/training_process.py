"""The process that trains an encoder for a job: this service never imports torch.

The job's folder holds what is to be trained (``training.json``), and the trainer writes the encoder
there. A trainer holds a lock on a file in the folder as long as it lives, whoever started it. So an
attempt that begins while the trainer of an earlier one still runs waits for that one, and a trainer
elsewhere, which shares the folder with the service, takes the same lock.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from encoder.artifact import ArtifactError, load_encoder
from foundation.files import replace_file
from service.http.problems import ProblemError
from service.jobs.work import Progress

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TRAINING_FILE = "training.json"
DATA_FILE = "training.jsonl"
LOG_FILE = "training.log"
LOCK_FILE = "training.lock"
FAILED_FILE = "training.failed"
ENCODER_FOLDER = "encoder"
SECONDS_BETWEEN_LOOKS = 0.1
LOWER_PRIORITY = 10


def can_train() -> bool:
    """Tell whether files can be locked, and the training extra is installed; nothing imports it."""
    return fcntl is not None and importlib.util.find_spec("torch") is not None


def train_in(progress: Progress, *, elsewhere: bool) -> Path:
    """Have what the job's folder asks for trained, and return the folder of the encoder.

    Raises:
        ProblemError: if training fails.
    """
    folder = progress.folder
    encoder = folder / ENCODER_FOLDER
    while True:
        failure = folder / FAILED_FILE
        if failure.exists():
            raise ProblemError(422, "training_failed", failure.read_text(encoding="utf-8"))
        with locked(folder) as lock:
            if lock is not None and is_trained(encoder):
                # Its trainer is done with the folder, and no longer writes there.
                return encoder
            if lock is not None and not elsewhere:
                run_training(folder, lock, progress)
                continue
        _look_again(progress, None)  # a trainer still runs, or is yet to come


def run_training(folder: Path, lock: int, progress: Progress | None = None) -> None:
    """Run the training that a folder asks for; a failure is written into the folder.

    `lock` is the descriptor that :func:`locked` lent; the trainer holds it on.
    """
    arguments = json.loads((folder / TRAINING_FILE).read_bytes())
    command = [sys.executable, "-m", "hummingbit", "train", *arguments]
    command += ["--data", str(folder / DATA_FILE), "--out", str(folder / ENCODER_FOLDER)]
    # The keys of the service are none of the trainer's business.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("HUMMINGBIT_")
    }
    with (folder / LOG_FILE).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - this Python, and arguments of our own
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=[lock],
            start_new_session=True,
        )
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, LOWER_PRIORITY)
    try:
        while process.poll() is None:
            _look_again(progress, process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if not (folder / TRAINING_FILE).exists():  # the job was cancelled meanwhile
        shutil.rmtree(folder / ENCODER_FOLDER, ignore_errors=True)
    elif process.returncode != 0 and not is_trained(folder / ENCODER_FOLDER):
        replace_file(folder / FAILED_FILE, _reason(folder, process.returncode))


def is_trained(encoder: Path) -> bool:
    """Tell whether a whole encoder is there."""
    try:
        load_encoder(encoder)
    except ArtifactError:
        return False
    return True


def is_wanted(folder: Path) -> bool:
    """Tell whether a folder asks for training that has not ended, well or not."""
    ended = (folder / FAILED_FILE).exists() or is_trained(folder / ENCODER_FOLDER)
    return (folder / TRAINING_FILE).exists() and not ended


@contextmanager
def locked(folder: Path) -> Iterator[int | None]:
    """Lend the descriptor of the lock of a folder; None where a trainer holds it, or it is gone."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # the job was finished
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield descriptor
    finally:
        os.close(descriptor)


def _look_again(progress: Progress | None, process: subprocess.Popen[Any] | None) -> None:
    if progress is not None:
        progress.advance()
    if process is None:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        return
    with suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS_BETWEEN_LOOKS)


def _reason(folder: Path, status: int) -> str:
    """Return the sentence that the trainer ended with, without the places of files."""
    lines = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line.startswith("hummingbit: ")]
    if not said:
        return f"training ended with status {status}; the log of the training says why"
    return said[-1].removeprefix("hummingbit: ").replace(f"{folder}/", "")[:1000]
