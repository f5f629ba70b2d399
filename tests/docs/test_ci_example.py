"""The CI job of docs/evaluation.md, run in a repository of a user's own.

The noise is what such a job meets: documents that come and go, and other queries. The regressions
are planted in what the two measures of the gate depend on: the weight of codes for ``hybrid``, and
the encoder, which is replaced by one that learned from wrong labels.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from hummingbit.cli import main
from hummingbit.evaluation.gate import apply_gate, parse_gate, to_evaluation
from hummingbit.evaluation.report import Report, read_report
from tests.support.docs.doc_blocks import blocks_of, commands_of

N_DOCUMENTS, CHANGED, N_QUERIES = 800, 16, 1000
# Shares of the weight of codes, and of the labels.
WORSE_WEIGHT, WRONG_LABELS = 0.7, 0.22
SYLLABLES = "ba ce di fo gu ha ki lo mu ne pa ri so tu ve wa".split()
MEASURES = ("hybrid nDCG@10", "P@100")
BLOCKS = list(blocks_of("docs/evaluation.md"))


def block_with(words: str) -> str:
    (text,) = [block.text for block in BLOCKS if words in block.text]
    return text


GATE = block_with('[metrics."P@100"]\nmax_drop')
JOB: list[str] = yaml.safe_load(block_with("retrieval-evaluation:"))["retrieval-evaluation"][
    "script"
]
((*BASELINE,),) = [
    words
    for block in BLOCKS
    if block.text.startswith("hummingbit evaluate articles") and "--out baseline" in block.text
    for words in commands_of(block)
]


def lines(count: int, seed: int, prefix: str) -> list[dict[str, str]]:
    """Texts of which half the words are of one of six topics, which share many."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(SYLLABLES, size=4)) for _ in range(600)])
    topics = [rng.permutation(600)[:60] for _ in range(6)]
    rng = np.random.default_rng(seed)
    made = []
    for at in range(count):
        topic, length = int(rng.integers(6)), int(rng.integers(8, 16))
        is_own = rng.random(length) < 0.5
        of_topic, others = rng.choice(topics[topic], length), rng.integers(0, 600, length)
        text = " ".join(words[np.where(is_own, of_topic, others)])
        made.append({"id": f"{prefix}{at}", "text": text, "label": f"topic-{topic}"})
    return made


def write(path: str, records: list[dict[str, str]]) -> None:
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records))


def commands(job: list[str]) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in job if line.startswith("hummingbit ")]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A corpus, queries, an encoder, the page's gate, and the baseline of the page's command."""
    folder = tmp_path_factory.mktemp("repository")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write("corpus.jsonl", lines(N_DOCUMENTS, 1, "d"))
        write("labelled.jsonl", lines(N_QUERIES, 2, "q"))
        Path("gate.toml").write_text(GATE)
        train("corpus.jsonl", "mine")
        for command in [*commands(JOB)[:-1], BASELINE]:
            assert main(command) == 0
        yield folder


def train(corpus: str, encoder: str) -> None:
    command = ["train", "class-codes", "--data", corpus, "--out", f"encoders/{encoder}"]
    command += ["--bits", "32"]
    assert main(command) == 0


def build_and_gate(name: str, **replaced: str) -> int:
    """Run the job with another collection and report of this name; return its last status."""
    words = {"articles": name, "report": name} | replaced
    for command in commands(JOB):
        status = main([words.get(word, word) for word in command])
    return status


def read(name: str) -> Report:
    return read_report(Path(name, "report.json"))


@pytest.mark.long
def test_the_job_gates_both_rankings_in_one_command(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [rule.metric for rule in parse_gate(GATE)] == list(MEASURES)

    # A commit removes some documents and adds others. The job is run by a shell, as CI does.
    for name in ("labelled.jsonl", "gate.toml", "baseline", "encoders"):
        (tmp_path / name).symlink_to(repository / name)
    documents = lines(N_DOCUMENTS, 1, "d")
    changed = [*documents[CHANGED:], *lines(CHANGED, 3, "new")]
    write(str(tmp_path / "corpus.jsonl"), changed)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "hummingbit"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hummingbit "$@"\n')
    program.chmod(0o755)
    script = "\n".join(line for line in JOB if not line.startswith("pip "))
    path = f"{program.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=os.environ | {"PATH": path}, check=False
    )
    assert done.returncode == 0
    noise = read(str(tmp_path / "report"))
    assert [(check.metric, check.status) for check in noise.gate or ()] == [
        (name, "passed") for name in MEASURES
    ]
    assert (tmp_path / "report" / "junit.xml").exists()

    # A weight that suits the codes less: hybrid loses .03, the codes nothing.
    weight = (read("baseline").subject.codes_weight or 0.0) * WORSE_WEIGHT
    assert main(["index", "rank", "articles", "--weight", str(weight)]) == 0
    capsys.readouterr()
    *_, gate = commands(JOB)
    assert main([{"report": "by-weight"}.get(word, word) for word in gate]) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split(" went")[0] for line in said if line.startswith("gate")] == [
        "gate: hybrid nDCG@10"
    ]
    assert -0.04 < change(read("by-weight"), "hybrid nDCG@10") < -0.02
    assert change(read("by-weight"), "P@100") == 0

    # An encoder that learned from wrong labels: the codes lose .03.
    rng = np.random.default_rng(0)
    for document in documents:
        if rng.random() < WRONG_LABELS:
            document["label"] = f"topic-{rng.integers(6)}"
    write("mislabelled.jsonl", documents)
    train("mislabelled.jsonl", "worse")
    capsys.readouterr()
    assert build_and_gate("worse", mine="worse") == 1
    assert "gate: P@100 went from" in capsys.readouterr().err
    assert -0.045 < change(read("worse"), "P@100") < -0.02

    # With few queries nothing is known, and the gate says so.
    write("few.jsonl", lines(N_QUERIES, 2, "q")[:60])
    few = {"articles": "worse", "report": "few", "labelled.jsonl": "few.jsonl"}
    assert main([few.get(word, word) for word in gate]) == 1
    assert "cannot tell; 60 queries would not show a drop of 0.03" in capsys.readouterr().err

    check_simulated_runs(read("baseline"), noise, [read("by-weight"), read("worse")])


def change(report: Report, measure: str) -> float:
    changes = report.changes or ()
    return next(change.difference for change in changes if change.metric == measure)


def check_simulated_runs(baseline: Report, noise: Report, worse: list[Report]) -> None:
    """Draw the queries of forty further runs: at most two results of the gate are wrong."""
    rules, rng, wrong = parse_gate(GATE), np.random.default_rng(3), []
    before = to_evaluation(baseline).per_query
    for number in range(40):
        is_worse = number % 2 == 1
        now = to_evaluation(worse[number // 2 % 2] if is_worse else noise)
        rows = rng.integers(0, N_QUERIES, N_QUERIES)
        drawn = {name: now.per_query[name][rows] for name in MEASURES}
        checks = apply_gate(
            rules,
            replace(now, per_query=drawn),
            {name: before[name][rows] for name in MEASURES},
        )
        if any(check.status == "failed" for check in checks) != is_worse:
            wrong.append((number, [check.sentence for check in checks]))
    assert len(wrong) <= 2, wrong
