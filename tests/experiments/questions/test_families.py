from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from experiments.questions.debian import draw_packages
from experiments.questions.draw import draw
from experiments.questions.families import (
    CORPORA,
    DEBIAN,
    HALVES,
    load_family,
    read_documents,
    read_questions,
)
from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.named_sets import load_dataset, load_qrels
from tests.support.questions import content_stems, shared_stems, unanswered

needs_debian = pytest.mark.skipif(
    DEBIAN not in os.environ, reason=f"{DEBIAN} names no file of package descriptions"
)
CORPORA_OF_FILES = [
    pytest.param("debian", marks=needs_debian),
    pytest.param("dbpedia", marks=pytest.mark.public_data),
]


@pytest.mark.parametrize("name", CORPORA)
def test_the_halves_are_equal_and_share_no_question(name: str) -> None:
    halves = {half: read_questions(name, half) for half in HALVES}
    questions = [question for half in HALVES for question in halves[half]]
    assert len(questions) >= 120
    assert abs(len(halves["choose"]) - len(halves["report"])) <= 2
    for of_each in (
        [question.id for question in questions],
        [question.query.lower() for question in questions],
        [question.relevant[0] for question in questions],
    ):
        assert len(set(of_each)) == len(of_each)
    for half in HALVES:
        styles = Counter(question.style for question in halves[half])
        assert styles.keys() == {"natural", "reworded"}
        assert 0.3 < styles["reworded"] / len(halves[half]) < 0.4
    assert all(content_stems(question.query) for question in questions)


def test_no_question_is_one_of_the_demos_or_was_written_for_an_answer_of_its() -> None:
    queries = {
        (document.text or "").lower()
        for split in ("queries", "queries-simple", "queries-reworded")
        for document in load_dataset("docstrings", split)
    }
    answers = {id_ for of_one in (load_qrels("docstrings") or {}).values() for id_ in of_one}
    for half in HALVES:
        for question in read_questions("docstrings", half):
            assert question.query.lower() not in queries
            assert question.relevant[0] not in answers


@pytest.mark.parametrize("name", CORPORA_OF_FILES)
def test_every_question_has_an_answer_and_reworded_ones_no_word_of_it(name: str) -> None:
    texts = {document.id: document.text or "" for document in read_documents(name)}
    assert not unanswered(name, texts)
    assert not shared_stems(name, texts)


@pytest.mark.public_data
def test_questions_were_written_in_the_order_of_the_draw() -> None:
    place = {
        document.id: number
        for number, document in enumerate(draw(read_documents("dbpedia"), "dbpedia"))
    }
    questions = sorted(
        (question for half in HALVES for question in read_questions("dbpedia", half)),
        key=lambda question: question.id,
    )
    places = [place[question.relevant[0]] for question in questions]
    assert places == sorted(places)
    assert places[-1] < 231


@pytest.mark.public_data
def test_people_ask_other_questions_in_each_half_about_the_same_documents() -> None:
    families = [load_family("quora", half) for half in HALVES]
    choose, report = families
    texts = {document.id: document.text for document in choose.documents}
    assert texts == {document.id: document.text for document in report.documents}
    queries = [question.query for family in families for question in family.questions]
    assert len(queries) == len(set(queries)) == 600
    assert not set(queries) & set(texts.values())
    for family in families:
        assert family.qrels.keys() == {query.id for query in family.queries}
        assert all(answers and answers.keys() <= texts.keys() for answers in family.qrels.values())


def test_what_is_not_here_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReadError, match="no family 'news'; the families are docstrings, debian"):
        load_family("news", "choose")
    with pytest.raises(ReadError, match="no half 'test'; the halves are choose, report"):
        load_family("dbpedia", "test")
    monkeypatch.delenv(DEBIAN, raising=False)
    with pytest.raises(ReadError, match=f"set {DEBIAN} to the file"):
        load_family("debian", "choose")
    monkeypatch.setenv(DEBIAN, str(tmp_path / "missing.jsonl"))
    with pytest.raises(ReadError, match=r"missing\.jsonl: No such file"):
        load_family("debian", "choose")
    with pytest.raises(ReadError, match="no English descriptions of packages"):
        draw_packages(tmp_path)


LIST = """\
Package: zap
Description-md5: 1
Description-en: Zap things
 Zaps one thing
 after another.
 .
 Features:
  * fast
  * small

Package: libzap1
Description-md5: 2
Description-en: Zap things - library
 The library.

Package: azap
Description-md5: 3
Description-en: Zap from afar
 Zaps at a distance.

Package: bzap
Description-md5: 4
Description-en: Zap from afar, again
 Zaps at a distance.

Package: oldzap
Description-md5: 5
Description-en: transitional package
 Installs zap.

"""


@pytest.mark.skipif(not Path("/usr/lib/apt/apt-helper").exists(), reason="apt is not installed")
def test_packages_are_products_with_descriptions_of_their_own(tmp_path: Path) -> None:
    name = "debian.example_debian_dists_{}_main_i18n_Translation-en"
    (tmp_path / name.format("bookworm")).write_text(LIST)
    updates = "Package: update\nDescription-md5: 6\nDescription-en: Update\n Updates.\n\n"
    (tmp_path / name.format("bookworm-updates")).write_text(updates)
    assert draw_packages(tmp_path, 2) == [
        {"id": "azap", "text": "azap: Zap from afar\nZaps at a distance."},
        {
            "id": "zap",
            "text": "zap: Zap things\nZaps one thing after another.\nFeatures:\n* fast\n* small",
        },
    ]
    with pytest.raises(ReadError, match="2 packages with descriptions, and 3 are needed"):
        draw_packages(tmp_path, 3)
