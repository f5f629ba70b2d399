from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.generative_similarity.program_kernel import tree_kernel
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import MetricRecipe
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.metric_learning import train_metric
from hummingbit.training.programs import ParseTree, program_pairs, read_programs, subtree_counts

trees = st.recursive(
    st.sampled_from("ab").map(ParseTree),
    lambda inner: st.builds(
        lambda label, children: ParseTree(label, tuple(children)),
        st.sampled_from("ab"),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)
PROGRAMS: dict[str, Any] = {
    "line": ["program", ["line", "p1", "p2"]],
    "both": ["program", ["line", "p1", "p2"], ["circle", "p1", "p2"]],
    "other": ["drawing", ["arc", "q1", "q2"]],
}


def save_programs(path: Path, programs: dict[str, Any]) -> Path:
    lines = [json.dumps({"id": id_, "program": tree}) for id_, tree in programs.items()]
    path.write_text("\n".join(lines))
    return path


def test_the_similarity_of_programs_by_hand(tmp_path: Path) -> None:
    """`line` has 4 subtrees; `both` has p1 and p2 twice and 3 others, 4 + 4 + 3 equal pairs.

    Of these `line` has p1 and p2 twice each and the line, 5 pairs.
    """
    programs = read_programs(save_programs(tmp_path / "p.jsonl", PROGRAMS), ["other", *PROGRAMS])
    pairs = program_pairs(np.arange(4), programs).batch(np.arange(4))[1]
    found = dict(zip(zip(pairs.first, pairs.second, strict=True), pairs.similarity, strict=True))
    assert found == pytest.approx(
        {(0, 1): 0, (0, 2): 0, (0, 3): 1, (1, 2): 5 / sqrt(4 * 11), (1, 3): 0, (2, 3): 0}
    )


@settings(deadline=None, max_examples=50)
@given(st.lists(trees, min_size=1, max_size=5))
def test_counts_of_subtrees_give_the_kernel_of_trees(programs: list[ParseTree]) -> None:
    counts = subtree_counts(programs)
    expected = [[tree_kernel(a, b) for b in programs] for a in programs]
    np.testing.assert_array_equal((counts @ counts.T).toarray(), expected)


@settings(deadline=None, max_examples=50)
@given(st.lists(trees, min_size=2, max_size=6, unique=True))
def test_similarities_are_those_of_the_normalized_kernel(programs: list[ParseTree]) -> None:
    rows = np.arange(len(programs))
    pairs = program_pairs(rows, programs).batch(rows)[1]
    expected = [
        tree_kernel(a, b) / sqrt(tree_kernel(a, a) * tree_kernel(b, b))
        for a, b in combinations(programs, 2)
    ]
    np.testing.assert_allclose(pairs.similarity, expected, rtol=1e-6)
    assert pairs.similarity.min() >= 0
    assert pairs.similarity.max() <= 1


def drawn_documents(count: int, seed: int = 0) -> list[Document]:
    """Noisy points whose place says which of three programs drew them."""
    rng = np.random.default_rng(seed)
    return [
        Document(f"d{row}", vector=(4 * np.eye(3)[row % 3] + rng.normal(size=3)).astype(np.float32),
                 labels=(str(row % 3),))
        for row in range(count)
    ]  # fmt: skip


def test_codes_follow_programs_that_queries_do_not_have(tmp_path: Path) -> None:
    documents = drawn_documents(240)
    programs = {document.id: list(PROGRAMS.values())[i % 3] for i, document in enumerate(documents)}
    path = save_programs(tmp_path / "programs.jsonl", programs)
    recipe = MetricRecipe(
        objective="generative-similarity", similarity="programs", n_bits=16, epochs=10, hidden=32
    )
    encoder = train_metric(
        gather(documents), recipe, tmp_path / "e", similarity_file=path, progress=False
    ).encoder
    queries = gather(drawn_documents(60, seed=1)).labelled()
    found = evaluate_encoder(encoder, gather(documents).labelled(), queries, ["P@10"])
    assert found.expected["P@10"] > 0.85


def deep(levels: int) -> Any:
    tree: Any = "p1"
    for _ in range(levels):
        tree = ["line", tree]
    return tree


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "d0"}', ":1: must be an object with fields id and program"),
        ('{"id": 3, "program": "p"}', ":1: id is 3; it must be a string"),
        (
            '{"id": "d0", "program": []}',
            r":1: program has \[\]; a tree must be a label or an array",
        ),
        ('{"id": "d0", "program": ["a", 4]}', ":1: program has 4; a tree must be a label"),
        ('{"id": "d0", "program": [["a"], "b"]}', r":1: program has \[\['a'\], 'b'\]; a tree must"),
        (json.dumps({"id": "d0", "program": deep(500)}), ":1: program has more than 200 levels"),
        ('{"id": "d0", "program": "a"}\n{"id": "d0", "program": "b"}', ":2: the id 'd0' has a pro"),
        ('{"id": "d1", "program": "a"}', "'d0' has none, nor have 0 others; every document must"),
        ('{"id": "d0", "program": ', ":1: "),
        ("", "'d0' has none"),
    ],
)
def test_files_that_do_not_fit_are_refused(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "programs.jsonl"
    path.write_text(line)
    with pytest.raises(TrainingDataError, match=message):
        read_programs(path, ["d0"])


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "programs.jsonl"
    path.write_text('{"id": "d0", "program": ' + '["a",' * 100_000 + '"p"' + "]" * 100_000 + "}")
    with pytest.raises(TrainingDataError, match=r"programs\.jsonl:1: "):
        read_programs(path, ["d0"])


def test_one_program_for_all_is_refused(tmp_path: Path) -> None:
    documents = drawn_documents(60)
    path = save_programs(tmp_path / "p.jsonl", {document.id: "p1" for document in documents})
    recipe = replace(MetricRecipe(), similarity="programs", n_bits=16)
    with pytest.raises(TrainingDataError, match="all documents have the same program"):
        train_metric(gather(documents), recipe, tmp_path / "e", similarity_file=path)
    with pytest.raises(TrainingDataError, match="similarity by programs needs a file of programs"):
        train_metric(gather(documents), recipe, tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_the_command_line_takes_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = drawn_documents(60)
    lines = [
        json.dumps({"id": document.id, "vector": np.asarray(document.vector).tolist()})
        for document in documents
    ]
    (tmp_path / "points.jsonl").write_text("\n".join(lines))
    programs = {document.id: list(PROGRAMS.values())[i % 3] for i, document in enumerate(documents)}
    save_programs(tmp_path / "programs.jsonl", programs)
    monkeypatch.chdir(tmp_path)
    command = "train metric --data points.jsonl --bits 16 --epochs 1 --similarity programs --out e"
    assert main(command.split()) == 2
    assert "needs a file of programs" in capsys.readouterr().err
    assert main([*command.split(), "--similarity-file", "programs.jsonl"]) == 0
