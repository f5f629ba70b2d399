"""Trains an encoder for a job in another process: the service never imports torch.

The job's folder holds the arguments of the training (``training.json``), and the trainer writes the
encoder there. Every trainer holds a lock on a file of the folder while it lives, also one elsewhere
that shares the folder with the service. A trainer ends with whoever started it, and once the
arguments are gone, because the job was cancelled.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hummingbit.encoder.artifact import ArtifactError, load_encoder
from hummingbit.foundation.files import replace_file
from hummingbit.foundation.slices import STAGES_VARIABLE, read_stage
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.records import StoredDocument
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.jobs.work import Progress

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TRAINING_FILE = "training.json"
DATA_FILE = "training.jsonl"
LOG_FILE = "training.log"
LOCK_FILE = "training.lock"
STAGES_FILE = "training.stage"
FAILED_FILE = "training.failed"
ENCODER_FOLDER = "encoder"
MODEL_FOLDER = "model"
"""An encoder whose language model reads the documents, where training needs one."""
Learned = tuple[StoredDocument, Sequence[str]]
"""A document, and its labels."""
SECONDS_BETWEEN_CHECKS = 0.1
LOWER_PRIORITY = 10
COMPANION = "hummingbit.foundation.companion"
OPEN_VARIABLES = ("HUMMINGBIT_ENDPOINT", "HUMMINGBIT_MODEL")
"""The beginnings of the variables that a training reads."""


def can_train() -> bool:
    """Tell whether this system can lock files and the extra ``train`` is installed."""
    return fcntl is not None and importlib.util.find_spec("torch") is not None


def write_training_files(
    folder: Path, documents: Iterable[Learned], arguments: Sequence[str]
) -> None:
    """Write what a training needs into its folder: documents with their labels, and arguments."""
    write_documents(folder / DATA_FILE, documents)
    (folder / LOCK_FILE).touch()
    replace_file(folder / TRAINING_FILE, json.dumps(arguments))


def write_documents(path: Path, documents: Iterable[Learned]) -> None:
    """Write documents with their labels as JSON lines, each with its vector or its text."""
    with path.open("w", encoding="utf-8") as file:
        for document, labels in documents:
            record: dict[str, Any] = {"id": document.id, "text": document.text}
            if document.vector is not None:
                record = {"id": document.id, "vector": document.vector.tolist()}
            if labels:
                record["labels"] = list(labels)
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def do_training(progress: Progress, write: Callable[[], object], *, elsewhere: bool) -> Path:
    """Run the training of a job, or wait for a trainer `elsewhere`.

    `write` calls :func:`write_training_files`, unless an earlier attempt did. Returns the folder
    of the trained encoder.

    Raises:
        ProblemError: 422 if training fails.
    """
    folder = progress.folder
    if not (folder / TRAINING_FILE).exists():
        progress.step = "reading"
        write()
    progress.step = "training"
    progress.advance()
    encoder = folder / ENCODER_FOLDER
    while True:
        failure = folder / FAILED_FILE
        if failure.exists():
            raise ProblemError(422, "training_failed", failure.read_text(encoding="utf-8"))
        with hold_lock(folder) as lock:
            if lock is not None and is_trained(encoder):
                # The lock is free, so no trainer writes there any more.
                return encoder
            if lock is not None and not elsewhere:
                run_training(folder, lock, progress)
                continue
        wait_for_process(progress)  # a trainer is running, or has not started yet


def wait_for_process(progress: Progress) -> None:
    """Wait for a moment for a process that was started elsewhere, or by an earlier attempt."""
    _wait(progress, None)


def install(folder: DataFolder, progress: Progress) -> None:
    """Copy the trained encoder of a job to the data folder, unless an earlier attempt did."""
    progress.step = "installing"
    progress.advance()
    artifact, name = progress.folder / ENCODER_FOLDER, progress.job.spec["encoder"]
    if name not in folder.encoders.with_fingerprint(load_encoder(artifact).fingerprint):
        folder.encoders.install(artifact, name)


def run_training(folder: Path, lock: int, progress: Progress | None = None) -> None:
    """Run the training of a folder; write the reason of a failure into the folder.

    The trainer inherits `lock`, the descriptor from :func:`hold_lock`.
    """
    arguments = json.loads((folder / TRAINING_FILE).read_bytes())
    command = ["hummingbit", "train", *arguments]
    command += ["--data", str(folder / DATA_FILE), "--out", str(folder / ENCODER_FOLDER)]
    if (folder / MODEL_FOLDER).is_dir():
        command += ["--model", str(folder / MODEL_FOLDER)]
    status = run_beside(command, folder, lock, progress)
    if not (folder / TRAINING_FILE).exists():  # the job was cancelled meanwhile
        shutil.rmtree(folder / ENCODER_FOLDER, ignore_errors=True)
    elif status != 0 and not is_trained(folder / ENCODER_FOLDER):
        replace_file(folder / FAILED_FILE, _reason(folder, status))


def run_beside(
    module_and_arguments: Sequence[str], folder: Path, lock: int, progress: Progress | None
) -> int:
    """Run a module in a process of low priority, which ends with this one; return its status.

    The process inherits `lock`, so whoever waits for it knows that it still runs. What it prints is
    in the folder's log. The job shows how much of its current stage is done.
    """
    # The process must not see the service's keys, only that of an embeddings endpoint.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HUMMINGBIT_") or name.startswith(OPEN_VARIABLES)
    }
    stages = folder / STAGES_FILE
    environment[STAGES_VARIABLE] = str(stages)
    with (folder / LOG_FILE).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - this Python, and arguments of our own
            [sys.executable, "-m", COMPANION, str(folder / TRAINING_FILE), *module_and_arguments],
            stdin=subprocess.PIPE,
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
            _wait(progress, process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        stages.unlink(missing_ok=True)
    return process.returncode


def is_trained(encoder: Path) -> bool:
    """Tell whether the folder holds a complete encoder."""
    try:
        load_encoder(encoder)
    except ArtifactError:
        return False
    return True


def needs_training(folder: Path) -> bool:
    """Tell whether a folder has a training that has neither succeeded nor failed."""
    has_ended = (folder / FAILED_FILE).exists() or is_trained(folder / ENCODER_FOLDER)
    return (folder / TRAINING_FILE).exists() and not has_ended


@contextmanager
def hold_lock(folder: Path) -> Iterator[int | None]:
    """Hold a folder's lock and yield its descriptor; None if a trainer holds it or it is gone."""
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


def _wait(progress: Progress | None, process: subprocess.Popen[Any] | None) -> None:
    if progress is not None:
        stage = read_stage(progress.folder / STAGES_FILE)
        if stage is not None:
            progress.show_percent(str(progress.step), stage.done, stage.total)
        progress.advance()
    if process is None:
        time.sleep(SECONDS_BETWEEN_CHECKS)
        return
    with suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS_BETWEEN_CHECKS)


def _reason(folder: Path, status: int) -> str:
    """Return the trainer's last error message, without paths."""
    lines = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith("hummingbit: ")]
    if not errors:
        log = f"jobs/{folder.name}/{LOG_FILE}"
        return f"training ended with status {status}; {log} in the data folder says why"
    return errors[-1].removeprefix("hummingbit: ").replace(f"{folder}/", "")[:1000]
