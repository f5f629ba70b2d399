"""A first search is answered at once; what is learned beside it takes over if it finds more."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.evaluation.known_items import FOUND, SAME_LABEL
from hummingbit.evaluation.labelling.trial import DETECT
from hummingbit.evaluation.search_trial import Gain, SearchTrial, compare_by
from hummingbit.index.data_folder import DataFolder
from hummingbit.learning import Bar
from hummingbit.service.settings import Settings
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import gather
from tests.support.encoders import text_encoder
from tests.support.service import client_of, running_service, wait_for_job
from tests.support.trainers import external_trainer

N_WORDS = 60
"""Words of each label, of which a text has one, beside words that say nothing."""


def labelled_texts(count: int) -> list[tuple[str, str]]:
    """Return texts whose labels are told by words that hardly another text has."""
    rng = np.random.default_rng(0)
    rows = []
    for at in range(count):
        label = "abcd"[at % 4]
        own = f"{label}word{rng.integers(N_WORDS)}"
        noise = [f"noise{word}" for word in rng.choice(12, 6)]
        rows.append((" ".join(rng.permutation([own, *noise])), label))
    return rows


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that tells the labels."""
    rows = labelled_texts(400)
    ids = tuple(map(str, range(len(rows))))
    documents = (
        Document(id_, text, labels=(label,)) for id_, (text, label) in zip(ids, rows, strict=False)
    )
    recipe = ClassCodeRecipe(n_bits=32, content_share=0.5, validation_share=0.0, content="itq")
    folder = tmp_path_factory.mktemp("learned") / "encoder"
    train_class_codes(gather(documents), recipe, folder)
    return folder


def write_file(path: Path, count: int = 400) -> None:
    lines = [json.dumps({"text": text, "kind": label}) for text, label in labelled_texts(count)]
    path.write_text("\n".join(lines))


def fill(client: httpx.Client) -> None:
    client.put("/v1/collections/notes-1", json={"encoder": None}).raise_for_status()
    documents = [
        {"id": f"d{at}", "text": text, "payload": {"label": label}}
        for at, (text, label) in enumerate(labelled_texts(400))
    ]
    body = {"documents": documents}
    client.put("/v1/collections/notes-1/documents", json=body).raise_for_status()
    actions = {"actions": [{"add": {"alias": "notes", "collection": "notes-1"}}]}
    client.post("/v1/aliases", json=actions).raise_for_status()


def learn(data_dir: Path, encoder: Encoder | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Let a service compare an encoder with words alone; return its job, and the aliases then."""
    with (
        running_service(data_dir, Settings(training="elsewhere")) as client,
        external_trainer(data_dir, encoder),
    ):
        fill(client)
        body = {"compare": True, "label_field": "label"}
        job = wait_for_job(client, client.post("/v1/collections/notes/train", json=body))
        aliases = {
            entry["alias"]: entry["collection"]
            for entry in client.get("/v1/aliases").json()["aliases"]
        }
        return job, aliases


def test_codes_that_find_more_take_over(tmp_path: Path, learned: Path) -> None:
    job, aliases = learn(tmp_path, learned)
    result, trial = job["result"], job["result"]["trial"]
    assert (result["state"], aliases) == ("live", {"notes": "notes-2"})
    gains = {gain["metric"]: gain for gain in trial["gains"]}
    assert gains[SAME_LABEL]["after"] > gains[SAME_LABEL]["before"]
    assert gains[SAME_LABEL]["p_value"] < 0.05
    assert "of the first ten hits share the document's label" in trial["sentence"]
    assert (trial["documents"], trial["queries"]) == (400, 40)
    assert trial["chance"] == pytest.approx(0.25, abs=0.03)
    assert trial["after"].keys() == {"hamming", "asymmetric", "bm25", "hybrid"}
    assert {path.name for path in tmp_path.glob("jobs/*/*")} <= {"training.log"}


def test_codes_that_find_no_more_leave_nothing_behind(tmp_path: Path) -> None:
    job, aliases = learn(tmp_path, text_encoder(16))
    result = job["result"]
    assert (result["state"], result["encoder"]) == ("refused", None)
    assert aliases == {"notes": "notes-1"}
    with DataFolder(tmp_path, writable=False) as folder:
        assert [*folder.collections()] == ["notes-1"]
        assert folder.encoders.names() == []
    assert {path.name for path in tmp_path.glob("jobs/*/*")} <= {"training.log"}


def test_the_gate_needs_a_gain_by_a_test_and_no_loss() -> None:
    def trial(*gains: tuple[float, float, float]) -> SearchTrial:
        metrics = (FOUND, SAME_LABEL)
        return SearchTrial(
            [Gain(metric, 100, *gain) for metric, gain in zip(metrics, gains, strict=False)]
        )

    assert trial((0.5, 0.6, 0.01)).passed
    assert not trial((0.5, 0.6, 0.2)).passed
    assert not trial((0.5, 0.5, 1.0)).passed
    assert not trial((0.5, 0.54, 0.001)).passed
    assert not trial((0.5, 0.6, 0.001), (0.5, 0.51, 0.001)).passed
    assert trial((0.5, 0.49, 0.6), (0.5, 0.7, 0.01)).passed
    assert not trial((0.5, 0.49, 0.01), (0.5, 0.7, 0.01)).passed
    assert not trial((0.5, 0.49 - DETECT, 0.6), (0.5, 0.7, 0.01)).passed
    assert "(not significant)" in trial((0.5, 0.6, 0.2)).sentence
    assert "(p = 0.010)" in trial((0.5, 0.6, 0.01)).sentence


def test_queries_that_one_of_both_left_out_are_not_compared() -> None:
    before = {FOUND: {f"q{at}": float(at % 2) for at in range(50)}}
    after = {FOUND: {f"q{at}": 1.0 for at in range(2, 50)}}
    (gain,) = compare_by(before, after).gains
    assert (gain.queries, gain.before, gain.after) == (48, 0.5, 1.0)
    assert gain.is_shown


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def quickstart(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run the command in a folder; trainers elsewhere provide its encoder."""
    command = [sys.executable, "-m", "hummingbit", "quickstart", "notes.jsonl", "--port", str(port)]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "HUMMINGBIT_TRAINING": "elsewhere"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        watchdog = threading.Timer(300, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            if process.poll() is None:
                process.kill()


def read_until(process: subprocess.Popen[str], start: str) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(start):
            return "".join(lines)
    raise AssertionError("it ended early:\n" + "".join(lines))


def search(client: httpx.Client, text: str) -> dict[str, Any]:
    answer = client.post("/v1/collections/notes/search", json={"text": text})
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def test_searches_are_answered_while_codes_are_learned_which_then_take_over(
    tmp_path: Path, learned: Path
) -> None:
    write_file(tmp_path / "notes.jsonl")
    port = free_port()
    with quickstart(tmp_path, port) as process:
        printed = read_until(process, "In a browser: ")
        # Three answers come before the service.
        assert len(re.findall(r"^ 1  ", printed, re.MULTILINE)) == 3
        with client_of(f"http://127.0.0.1:{port}") as client:
            text = labelled_texts(1)[0][0]
            found = search(client, text)
            assert (found["ranking"], found["hits"][0]["id"]) == ("bm25", "notes:1")
            (job,) = client.get("/v1/jobs").json()["jobs"]
            assert job["kind"] == "train"
            assert job["state"] in {"queued", "running"}
            with external_trainer(tmp_path / "notes-data", learned):
                said = read_until(process, "notes is searched by the codes that were learned: ")
            assert re.search(r"^learned: hybrid +0\.\d+ +0\.\d+ +0\.\d+$", said, re.MULTILINE)
            found = search(client, text)
            assert (found["ranking"], found["n_bits"]) == ("hybrid", 32)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_an_interruption_keeps_what_is_served_and_leaves_nothing_of_learning(
    tmp_path: Path,
) -> None:
    write_file(tmp_path / "notes.jsonl")
    port = free_port()
    with quickstart(tmp_path, port) as process:
        read_until(process, "In a browser: ")
        with client_of(f"http://127.0.0.1:{port}") as client:
            while client.get("/v1/jobs").json()["jobs"][0]["state"] == "queued":
                pass
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert "stopped learning; notes is searched as before" in process.stdout.read()
        assert process.wait(60) == 0
    data = tmp_path / "notes-data"
    assert {path.name for path in data.glob("jobs/*/*")} <= {"training.log"}
    assert main(["search", "notes", "noise1", "--data-dir", str(data)]) == 0
    with running_service(data) as client:
        (job,) = client.get("/v1/jobs").json()["jobs"]
        assert job["state"] == "cancelled"


@pytest.mark.faults
def test_learning_survives_a_kill(tmp_path: Path, learned: Path) -> None:
    write_file(tmp_path / "notes.jsonl")
    with quickstart(tmp_path, free_port()) as process:
        read_until(process, "In a browser: ")
        process.kill()
        process.wait()
    data = tmp_path / "notes-data"
    with (
        running_service(data, Settings(training="elsewhere")) as client,
        external_trainer(data, learned),
    ):
        (job,) = client.get("/v1/jobs").json()["jobs"]
        while job["finished"] is None:
            job = client.get(f"/v1/jobs/{job['id']}").json()
        assert (job["result"] or {}).get("state") == "live", job
        assert search(client, "noise1")["ranking"] == "hybrid"


class Terminal:
    """Holds what is printed, as a terminal or as a file."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self.printed = ""

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> None:
        self.printed += text

    def flush(self) -> None:
        pass


def test_progress_is_one_line_on_a_terminal_and_one_a_step_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 30.0, 60.0])
    monkeypatch.setattr("hummingbit.learning.time.monotonic", lambda: next(clock))
    terminal = Terminal(is_terminal=True)
    bar = Bar(terminal)  # type: ignore[arg-type]
    bar.show("training", None)
    bar.show("training", 0.25)
    assert terminal.printed.count("\n") == 0
    assert terminal.printed.endswith(f"{'█' * 6}{'░' * 18} 25%, about 90 s left")
    bar.show("training", 0.5)
    assert terminal.printed.endswith("50%, about 60 s left")
    bar.close()
    assert terminal.printed.endswith("\r\x1b[K")
    monkeypatch.undo()
    file = Terminal(is_terminal=False)
    bar = Bar(file)  # type: ignore[arg-type]
    for share in (None, 0.1, 0.5):
        bar.show("training", share)
    bar.show("comparing", 0.5)
    bar.close()
    assert file.printed == "learning codes …\ncomparing searches by documents held out …\n"
