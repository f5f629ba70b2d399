from __future__ import annotations

import json
import os
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.nn import functional

from experiments.generative_similarity.geoclidean_concepts import (
    PRINTED_HELD_OUT,
    draw_concepts,
    held_out_concepts,
)
from experiments.generative_similarity.geoclidean_drawing import (
    Curve,
    NoDrawingError,
    construct,
    draw_program,
    intersections,
)
from experiments.generative_similarity.geoclidean_judgement import (
    prototype_accuracy,
    read_published,
    threshold_accuracy,
)
from experiments.generative_similarity.geoclidean_language import (
    Point,
    parse_program,
    parse_tree,
    read_concepts,
)
from experiments.generative_similarity.program_kernel import ParseTree, ProgramKernel
from hummingbit.cli import main
from hummingbit.corpus.lines import ReadError

SQUARE = """
l1* = line(p1(), p2())
c1* = circle(p1(), p2())
c2* = circle(p2(), p1())
l2* = line(p3(c1, c2), p4(c1, c2))
c3* = circle(p5(l1, l2), p1())
l3 = line(p1(), p6(l2, c3))
l4 = line(p6(l2, c3), p2())
l5 = line(p2(), p7(l2, c3))
l6 = line(p7(l2, c3), p1())
"""
TRIANGLE = "l1 = line(p1(), p2())\nl2 = line(p2(), p3())\nl3 = line(p3(), p1())"
QUADRILATERAL = f"{TRIANGLE[:-5]}p4())\nl4 = line(p4(), p1())"
RADII = "c1 = circle(p1(), p2())\nl1 = line(p1(), p3(c1))\nl2 = line(p1(), p4(c1))"


def program(text: str) -> Any:
    return parse_program(text.strip().splitlines())


@pytest.fixture
def published() -> Path:
    return Path(os.environ["HUMMINGBIT_DATA"], "geoclidean")


def test_a_program_is_read_statement_by_statement() -> None:
    first, *_, last = program(SQUARE)
    assert (first.name, first.kind, first.drawn) == ("l1", "line", False)
    assert first.points == (Point("p1", ()), Point("p2", ()))
    assert (last.name, last.drawn) == ("l6", True)
    assert last.points[0] == Point("p7", ("l2", "c3"))
    assert sum(statement.drawn for statement in program(SQUARE)) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("l1 = line(p1(), p2()))", r"'l1 = line\(p1\(\), p2\(\)\)\)' is not a statement such as"),
        ("line(p1(), p2())", "is not a statement"),
        ("", "program: nothing is drawn"),
        ("l1* = line(p1(), p2())", "program: nothing is drawn; at least one name must have no"),
        ("a = arc(p1(), p2())", "has the kind 'arc'; it must be line or circle"),
        ("l1 = line(p1(), p2())\nl1 = line(p1(), p3())", "defines 'l1' a second time"),
        ("l1 = line(p1(c1), p2())", "uses 'c1', which no earlier line defines"),
        ("l1 = line(p1(), p2(l1))", "uses 'l1', which no earlier line defines"),
        (
            f"{TRIANGLE}\nl4 = line(p4(l1, l2, l3), p5())",
            "puts 'p4' on 3 objects; it must be on at most 2",
        ),
    ],
)
def test_what_is_no_program_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        program(text)


def test_the_tree_of_a_program_is_what_is_written() -> None:
    circle, first, _ = parse_tree(program(RADII)).children
    assert circle == ParseTree("circle", (ParseTree("p1"), ParseTree("p2")))
    assert first.children[1] == ParseTree("p3", (ParseTree("c1"),))
    starred = parse_tree(program(RADII.replace("l1", "l1*"))).children
    assert [tree.label for tree in starred] == ["circle", "line*", "line"]
    trees = [parse_tree(program(text)) for text in (TRIANGLE, QUADRILATERAL, RADII)]
    kernel_33 = ProgramKernel(trees).kernel_NN
    assert kernel_33[0, 1] > 0.7 > kernel_33[0, 2] > kernel_33[1, 2] > 0


@pytest.mark.public_data
def test_the_published_concepts_can_be_read_and_drawn(published: Path) -> None:
    concepts = read_concepts(published / "concepts.json")
    assert len(concepts) == 37
    assert read_published(published / "images64.npz", list(concepts)).shape == (37, 20, 64, 64)
    drawn = draw_concepts(list(concepts.values()), 1, 1)
    assert drawn["train_CNHW"].shape == (37, 1, 64, 64)
    # As dark as the published pictures, which have the same lines.
    ours = 255 - drawn["train_CNHW"].double().mean()
    theirs = 255 - read_published(published / "images64.npz", list(concepts)).double().mean()
    assert float(ours / theirs) == pytest.approx(1, abs=0.15)


places = st.builds(complex, st.floats(0, 16), st.floats(0, 16))
curves = st.builds(Curve, st.sampled_from(["line", "circle"]), places, places)


def off(curve: Curve, place: complex) -> float:
    """How far a place is from an object."""
    if curve.kind == "circle":
        return abs(abs(place - curve.a) - abs(curve.b - curve.a))
    along = (place - curve.a) / (curve.b - curve.a)
    return float(abs(along - min(max(along.real, 0), 1)) * abs(curve.b - curve.a))


@given(curves, curves)
def test_where_objects_meet_lies_on_both(one: Curve, other: Curve) -> None:
    assume(min(abs(one.b - one.a), abs(other.b - other.a)) > 0.1)
    meeting = intersections(one, other)
    assert len(meeting) <= 2
    for place in meeting:
        assert off(one, place) < 1e-4
        assert off(other, place) < 1e-4
    assert len(intersections(other, one)) == len(meeting)


@given(curves, curves)
def test_objects_that_change_sides_meet(one: Curve, other: Curve) -> None:
    """An object whose ends lie on different sides of a circle crosses it."""
    assume(min(abs(one.b - one.a), abs(other.b - other.a)) > 0.1)
    circle, line = one._replace(kind="circle"), other._replace(kind="line")
    radius = abs(circle.b - circle.a)
    sides = [abs(end - circle.a) - radius for end in (line.a, line.b)]
    assume(min(map(abs, sides)) > 1e-6)
    if sides[0] * sides[1] < 0:
        assert len(intersections(circle, line)) == 1


def drawn_lines(text: str, seed: int) -> list[complex]:
    """The directions of the lines of one construction."""
    rng = np.random.default_rng(seed)
    while (found := construct(program(text), rng)) is None:
        pass
    return [curve.b - curve.a for curve in found]


@pytest.mark.parametrize("seed", range(5))
def test_a_square_is_square(seed: int) -> None:
    sides = drawn_lines(SQUARE, seed)
    assert sum(sides) == pytest.approx(0)
    for item, next_one in pairwise(sides):
        assert next_one / item == pytest.approx(sides[1] / sides[0])
    assert (sides[1] / sides[0]) ** 2 == pytest.approx(-1)


@pytest.mark.parametrize("seed", range(5))
def test_radii_have_one_length(seed: int) -> None:
    circle, *radii = drawn_lines(RADII, seed)
    assert [abs(radius) for radius in radii] == pytest.approx([abs(circle)] * 2)


def test_a_picture_is_filled_to_seven_tenths_and_repeatable() -> None:
    pictures = [draw_program(program(RADII), np.random.default_rng(seed), 64) for seed in (0, 0, 1)]
    assert (pictures[0] == pictures[1]).all()
    assert (pictures[0] != pictures[2]).any()
    for picture in pictures:
        assert picture.max() == 255
        inked = np.flatnonzero((picture < 128).any(axis=0))
        assert inked[-1] - inked[0] + 1 == pytest.approx(0.7 * 64, abs=2)
        assert inked[0] + inked[-1] == pytest.approx(63, abs=2)


def test_an_outline_does_not_cross_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.generative_similarity import geoclidean_drawing  # noqa: PLC0415 - watched

    seen: list[list[Curve]] = []
    fitted = geoclidean_drawing._scale_to_picture

    def watch(found: list[Curve], size: int) -> list[Curve]:
        seen.append(found)
        return fitted(found, size)

    monkeypatch.setattr(geoclidean_drawing, "_scale_to_picture", watch)
    rng = np.random.default_rng(0)
    for _ in range(20):
        draw_program(program(QUADRILATERAL), rng, 32)
    for found in seen:
        opposite = [(found[0], found[2]), (found[1], found[3])]
        assert all(not intersections(item, other) for item, other in opposite)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(NoDrawingError, match="program of l1: no drawing after 20,000 attempts"):
        draw_program(program("l1 = line(p1(), p1())"), np.random.default_rng(0), 16)


def test_prototypes_are_means_of_five() -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(4, 9, 3)))
    unit = functional.normalize(x, dim=2)
    right = np.zeros(4)
    means = [sum(unit[c, i] for i in range(5)) for c in range(4)]
    for c in range(4):
        for i in range(5, 9):
            cosines = [float(unit[c, i] @ mean / mean.norm()) for mean in means]  # type: ignore[union-attr]
            right[c] += int(np.argmax(cosines)) == c
    np.testing.assert_allclose(prototype_accuracy(x, rng, 0), right / 4)
    apart = x + 100 * torch.eye(4, 3, dtype=torch.float64)[:, None] - 50
    assert prototype_accuracy(apart, rng, 3).tolist() == [1, 1, 1, 1]


def test_the_best_threshold_is_found_by_trying_all() -> None:
    rng = np.random.default_rng(1)
    reference, own, other = (torch.from_numpy(rng.normal(size=(6, n, 3))) for n in (5, 5, 4))
    other[0] = -reference[0, :4].mean(dim=0)
    own[0] = reference[0]
    found = threshold_accuracy(reference, own, other)
    for c in range(6):
        unit = [[x / x.norm() for x in of[c]] for of in (reference, own, other)]
        prototype = sum(unit[0]) / 5
        near, far = ([float((x - prototype).abs().sum()) for x in of] for of in unit[1:])
        shares = [
            (sum(d <= t for d in near) + sum(d > t for d in far)) / 9 for t in (*near, *far, -1.0)
        ]
        assert float(found[c]) == pytest.approx(max(shares))
    assert found[0] == 1


def test_which_concepts_are_held_out_depends_on_the_seed_alone() -> None:
    names = [f"concept_{number}" for number in range(30)]
    names += [f"concept_{name}" for name in PRINTED_HELD_OUT]
    held = [tuple(held_out_concepts(names, seed)) for seed in (0, 0, 1)]
    assert held[0] == held[1] != held[2]
    assert all(len(set(item)) == 7 for item in held)
    for seed in (0, 1):
        assert held_out_concepts(names, seed, "printed").tolist() == list(range(30, 37))
    with pytest.raises(ReadError, match="concepts: triangle of the paper's 7 are missing"):
        held_out_concepts(names[:-1], 0, "printed")


def test_chance_of_the_best_threshold_is_above_a_half() -> None:
    """All orders of five pictures of a concept and five others are equally likely."""
    own = list(combinations(range(10), 5))
    accuracies = threshold_accuracy(
        torch.tensor([[[1.0, 0.0]]]).expand(252, 1, 2),
        *(
            torch.tensor([[[np.cos(i / 10), np.sin(i / 10)] for i in row] for row in rows])
            for rows in (own, [[i for i in range(10) if i not in row] for row in own])
        ),
    )
    assert len(accuracies) == 252
    assert float(accuracies.mean()) == pytest.approx(0.653, abs=5e-4)


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    """Ten small concepts, and our pictures in place of the published ones."""
    names = [f"concept_{letter}" for letter in "abcdefghij"]
    texts = [TRIANGLE, RADII, QUADRILATERAL]
    for first, second in combinations(("line", "circle"), 2):
        for on in ("", "x1"):
            texts.append(f"x1 = {first}(p1(), p2())\nx2 = {second}(p3({on}), p4())")
            texts.append(f"x1 = {second}(p1(), p2())\nx2 = {first}(p3({on}), p4())")
            texts.append(f"x1 = {second}(p1(), p2())\nx2 = {second}(p3({on}), p4({on}))")
    texts.append("x1 = circle(p1(), p2())")
    groups: dict[str, Any] = {"constraints": {}, "elements": {}}
    images, meta = [], []
    rng = np.random.default_rng(0)
    for i, (name, text) in enumerate(zip(names, texts, strict=True)):
        kind = "constraints" if i % 2 else "elements"
        groups[kind][name] = {"concept": [f"'{line}'," for line in text.splitlines()]}
        files = [("train", "{}_fin.png"), ("test", "in_{}_fin.png")]
        files += [("test", "out_close_{}_fin.png"), ("test", "out_far_{}_fin.png")]
        for split, file in files:
            for number in range(1, 6):
                images.append(draw_program(program(text), rng, 64))
                meta.append([kind, name, split, file.format(number)])
    folder = tmp_path / "geoclidean"
    folder.mkdir()
    (folder / "concepts.json").write_text(json.dumps(groups))
    np.savez(folder / "images64.npz", images=np.stack(images), meta=np.array(meta))
    return tmp_path


def test_every_method_tells_concepts_apart(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, picture = data_root / "r.json", data_root / "concepts.svg"
    command = ["reproduce", "generative-similarity", "--part", "geoclidean", "--seeds", "2"]
    command += ["--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    command += ["--concept-epochs", "1", "--concept-pictures", "10"]
    assert main([*command, "--json", str(out), "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    records = json.loads(out.read_text())
    assert len(records) == 14
    for first, second in zip(records[::2], records[1::2], strict=True):
        assert (first["method"], first["seed"], second["seed"]) == (second["method"], 0, 1)
        assert first["held_out"] == records[0]["held_out"] != second["held_out"]
        assert len(first["held_out"]) == 7
        assert 0 < first["accuracy"] < 1
        assert 0 <= first["accuracy_published"] <= 1
        assert 0.5 <= first["accuracy_close"] <= 1
        assert 0.5 <= first["accuracy_far"] <= 1
    assert "| generative similarity, triplets" in printed
    assert "<svg" in picture.read_text()
    kept = {path: path.stat().st_mtime_ns for path in (data_root / "w").iterdir()}
    assert len(kept) == 15
    assert main(command) == 0
    assert capsys.readouterr().out == printed
    assert {path: path.stat().st_mtime_ns for path in (data_root / "w").iterdir()} == kept


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a JSON object of concepts by group"),
        (
            '{"elements": {"concept_a": {"far": []}}}',
            "not a JSON object of concepts by group: KeyError",
        ),
        (
            '{"elements": {"concept_a": {"concept": ["\'a = arc(p1(), p2())\',"]}}}',
            "concept_a: program: .* has the kind 'arc'; it must be line or circle",
        ),
    ],
)
def test_wrong_concepts_are_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "concepts.json").write_text(content)
    with pytest.raises(ReadError, match=message):
        read_concepts(tmp_path / "concepts.json")


def test_a_concept_without_its_pictures_is_refused(data_root: Path) -> None:
    with pytest.raises(ReadError, match="pictures of concept_z: 0 training, 0 test, 0 cl"):
        read_published(data_root / "geoclidean" / "images64.npz", ["concept_z"])


def test_too_few_concepts_are_refused(data_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data_root / "geoclidean" / "concepts.json"
    groups = json.loads(path.read_text())
    path.write_text(json.dumps({"elements": groups["elements"]}))
    command = ["reproduce", "generative-similarity", "--part", "geoclidean"]
    work = ["--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    assert main([*command, *work]) == 2
    assert "has 5 concepts; there must be more than 8" in capsys.readouterr().err
    assert not (data_root / "w").exists()
