from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from experiments.ssb_vae.measures import nearest, subject_lines, unseen_classes
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.training.data import gather
from tests.support.corpora import dotted_topic_documents, topic_documents, write_snippets


def test_the_nearest_are_those_of_tfidf_cosine() -> None:
    documents, queries = gather(topic_documents(60)), gather(topic_documents(8, seed=1, prefix="q"))
    found = nearest(documents, queries)
    vectorizer = TfidfVectorizer(analyzer=VISIBLE.terms)
    rows = vectorizer.fit_transform(documents.inputs)
    cosines = (vectorizer.transform(queries.inputs) @ rows.T).toarray()
    for position, scores in enumerate(cosines):
        taken = [row for row, names in enumerate(found) if f"query {position}" in names]
        assert len(taken) == 10
        # Those at the edge may be tied.
        edge = np.sort(scores)[-10]
        assert set(np.flatnonzero(scores > edge + 1e-6)) <= set(taken)
        assert (scores[taken] > edge - 1e-6).all()


def test_subjects_name_threads() -> None:
    posts = [
        "From: a@b\nSubject: Re: RE:  Tea  or coffee\n\nText of Subject: nothing",
        "Subject: tea or Coffee\nFrom: c@d\n\nMore",
        "no head",
    ]
    documents = [Document(id=str(i), text=post, labels=("a",)) for i, post in enumerate(posts)]
    lines, threads = subject_lines(gather(documents))
    assert lines == ["Tea  or coffee", "tea or Coffee", ""]
    assert threads == ["tea or coffee", "tea or coffee", ""]


def test_every_second_class_is_unseen() -> None:
    assert unseen_classes(gather(topic_documents(50))).tolist() == [False, True, False]


def test_the_table_holds_codes_and_the_class_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = dotted_topic_documents(300)
    queries = dotted_topic_documents(60, seed=1, prefix="test")
    # Two unseen classes of four, so that there are two to learn from and two to tell apart.
    documents = [replace(document, labels=(_halved(document),)) for document in documents]
    queries = [replace(query, labels=(_halved(query),)) for query in queries]
    write_snippets(tmp_path, documents, queries)
    command = ["reproduce", "ssb-vae", "--measures", "--methods", "class-codes", "itq"]
    options = ["--supervision", "0.5", "--bits", "16", "--seeds", "1", "--data-root", tmp_path]
    files = ["--work-dir", tmp_path / "w", "--json", tmp_path / "records.json"]
    assert main([*command, *map(str, [*options, *files])]) == 0
    records = {
        record["method"]: record for record in json.loads((tmp_path / "records.json").read_text())
    }
    assert set(records) == {"class-codes", "class code alone", "itq"}
    for record in records.values():
        assert all(0 <= record[name] <= 1 for name in ("p@100", "nDCG@100", "unseen", "nearest"))
    assert records["class-codes"]["nearest"] > records["class code alone"]["nearest"]
    first = capsys.readouterr()
    assert "| snippets | 16   | 0.5 | class code alone |" in first.out
    assert "16 bits, ρ = 0.5: class-codes and the best of the others" in first.out
    assert re.search(
        r"^  nearest: class-codes is ahead of .* by 0\.\d{3} \(", first.out, re.MULTILINE
    )
    assert main([*command, *map(str, [*options, *files])]) == 0
    again = capsys.readouterr()
    assert again.out.endswith(first.out[first.out.index("| data set") :])
    assert "measuring" not in again.err
    # The same documents with one query less.
    write_snippets(tmp_path / "other", documents, queries[1:])
    options[options.index(tmp_path)] = tmp_path / "other"
    assert main([*command, *map(str, [*options, *files])]) == 0
    changed = capsys.readouterr().err
    assert changed.count("measuring") == 2
    assert "training" not in changed


def _halved(document: Document) -> str:
    """Part the topic of food in two classes."""
    (label,) = document.labels
    if not label.endswith("food"):
        return label
    return f"{label}.{'sweet' if 'honey' in str(document.text) else 'plain'}"
