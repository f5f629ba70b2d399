from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, code_to_hex, hamming_distance
from hummingbit.evaluation import result
from hummingbit.evaluation.evaluate import evaluate_codes, evaluate_encoder
from hummingbit.evaluation.metrics import DEFAULT_METRICS, MetricError
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.evaluation.relevance import Labelled
from hummingbit.evaluation.result import Evaluation, EvaluationError
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from tests.support.codes import clustered_codes, random_codes
from tests.support.collections import code_collection
from tests.support.encoders import random_texts, text_encoder
from tests.support.oracles.rankings import SLOW, distinct_lists, slow_expectation

LabelSets = list[tuple[str, ...]]


def random_labels(rng: np.random.Generator, n: int, most: int = 2) -> LabelSets:
    """Label sets of 1 to `most` tags out of five."""
    return [tuple(rng.choice(list("abcde"), rng.integers(1, most + 1), False)) for _ in range(n)]


def slow_ranking(
    query: Codes, wanted: Sequence[str], codes: Codes, labels: LabelSets
) -> list[bool]:
    """Which documents are relevant, by sorting the whole database."""
    order = sorted(range(len(codes)), key=lambda r: (hamming_distance(query, codes[r]), r))
    return [bool(set(wanted) & set(labels[row])) for row in order]


def slow_groups(
    query: Codes, wanted: Sequence[str], codes: Codes, labels: LabelSets
) -> list[tuple[int, int]]:
    """The number of documents, and of relevant ones, at each distance that occurs."""
    groups: dict[int, list[bool]] = {}
    for code, tags in zip(codes, labels, strict=True):
        distance = int(hamming_distance(query, code))
        groups.setdefault(distance, []).append(bool(set(wanted) & set(tags)))
    return [(len(groups[d]), sum(groups[d])) for d in sorted(groups)]


def test_by_hand() -> None:
    codes = np.array([[0b0000], [0b0001], [0b0010], [0b1111]], dtype=np.uint8)
    labels: LabelSets = [("a",), ("b",), ("a",), ()]
    queries = np.array([[0b0000], [0b1111]], dtype=np.uint8)
    found = evaluate_codes(queries, [("a",), ("z",)], codes, labels, ["P@2", "mAP@2", "P@4"])
    # As served: a, b | b and the second a are tied, so half of the time the list is a, a.
    assert found.per_query["P@2"].tolist() == [0.5, 0]
    assert found.expected_per_query["P@2"].tolist() == [0.75, 0]
    assert found.per_query["mAP@2"].tolist() == [1, 0]
    assert found.expected_per_query["mAP@2"].tolist() == [1, 0]
    assert found.metrics == {"P@2": 0.25, "mAP@2": 0.5, "P@4": 0.25}
    assert found.expected == {"P@2": 0.375, "mAP@2": 0.5, "P@4": 0.25}
    assert (found.queries, found.documents, found.distinct_codes) == (2, 4, 4)
    assert found.queries_without_relevant == 1


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from([8, 16, 24, 32, 64, 128]),
    n=st.integers(1, 60),
    k=st.integers(1, 80),
    kind=st.sampled_from(["P", "mAP"]),
)
def test_served_values_equal_a_full_sort(seed: int, n_bits: int, n: int, k: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    codes = clustered_codes(rng, n + 5, n_bits, centres=3)
    labels = random_labels(rng, n + 5)
    found = evaluate_codes(codes[:5], labels[:5], codes[5:], labels[5:], [f"{kind}@{k}"])
    expected = [
        SLOW[kind](slow_ranking(query, wanted, codes[5:], labels[5:]), k)
        for query, wanted in zip(codes[:5], labels[:5], strict=True)
    ]
    assert found.per_query[f"{kind}@{k}"] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from([8, 24, 32, 64]),
    n=st.integers(1, 6),
    k=st.integers(1, 8),
    kind=st.sampled_from(["P", "mAP"]),
)
def test_expected_values_equal_the_mean_over_all_orders(
    seed: int, n_bits: int, n: int, k: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    codes = clustered_codes(rng, n + 3, n_bits, centres=1, flips=0.5 / n_bits)
    labels = random_labels(rng, n + 3)
    found = evaluate_codes(codes[:3], labels[:3], codes[3:], labels[3:], [f"{kind}@{k}"])
    expected = [
        slow_expectation(SLOW[kind], slow_groups(query, wanted, codes[3:], labels[3:]), k)
        for query, wanted in zip(codes[:3], labels[:3], strict=True)
    ]
    assert found.expected_per_query[f"{kind}@{k}"] == pytest.approx(expected, abs=1e-9)


EVERY = ["P", "Recall", "Success", "MRR", "nDCG", "mAP", "mAP-trec"]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from([8, 24, 64]),
    k=st.integers(1, 9),
    exclude=st.booleans(),
)
def test_every_metric_equals_enumeration_with_and_without_the_query_itself(
    seed: int, n_bits: int, k: int, exclude: bool
) -> None:
    rng = np.random.default_rng(seed)
    codes = clustered_codes(rng, 7, n_bits, centres=1, flips=0.5 / n_bits)
    labels = [(str(rng.choice(["x.a.1", "x.a.2", "x.b", "y"])),) for _ in range(7)]
    self_rows = np.array([0, 3, -1])
    asked = codes[[0, 3, 5]]
    asked_labels = [labels[0], labels[3], ("x.a.1",)]
    names = [f"{kind}@{k}" for kind in EVERY] + ["mAP-trec", "MRR", "mAP-11pt", "P@radius1"]
    found = evaluate_codes(
        asked, asked_labels, codes, labels, names,
        hierarchy=True, self_rows=self_rows if exclude else None,
    )  # fmt: skip
    for query, own in enumerate(self_rows if exclude else [-1, -1, -1]):
        rows = [row for row in range(7) if row != own]
        distances = [int(hamming_distance(asked[query], codes[row])) for row in rows]
        grades = [common_depth(asked_labels[query][0], labels[row][0]) for row in rows]
        order = sorted(range(len(rows)), key=lambda i: (distances[i], i))
        served = [grades[i] for i in order]
        groups = [
            [grades[i] for i in order if distances[i] == distance]
            for distance in sorted(set(distances))
        ]
        lists = distinct_lists(groups)
        for name in names[:-1]:
            kind = name.split("@")[0]
            values = [(SLOW[kind](item, k if "@" in name else 7), weight) for item, weight in lists]
            mean = sum(value * weight for value, weight in values)
            assert found.per_query[name][query] == pytest.approx(
                SLOW[kind](served, k if "@" in name else 7), abs=1e-12
            )
            assert found.expected_per_query[name][query] == pytest.approx(mean, abs=1e-9)
            assert found.best_per_query[name][query] == pytest.approx(max(values)[0], abs=1e-9)
            assert found.worst_per_query[name][query] == pytest.approx(min(values)[0], abs=1e-9)
        ball = [grade > 0 for grade, d in zip(grades, distances, strict=True) if d <= 1]
        share = fmean(ball) if ball else 0
        for values_of in (found.per_query, found.expected_per_query, found.worst_per_query):
            assert values_of["P@radius1"][query] == pytest.approx(share)


def common_depth(one: str, other: str) -> int:
    """How many levels two paths share from the root."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_expectation_does_not_depend_on_the_order_of_the_database(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes, labels = clustered_codes(rng, 210, 16, centres=4), random_labels(rng, 210)
    order = 10 + rng.permutation(200)
    one = evaluate_codes(codes[:10], labels[:10], codes[10:], labels[10:], ["P@30", "mAP@30"])
    other = evaluate_codes(
        codes[:10], labels[:10], codes[order], [labels[row] for row in order], ["P@30", "mAP@30"]
    )
    for name, values in one.expected_per_query.items():
        assert other.expected_per_query[name] == pytest.approx(values, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 12))
def test_where_nothing_is_tied_expected_is_served(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    # Document i has i bits set, so from the code of no bits every distance is another.
    bits = np.tril(np.ones((9, 8), dtype=np.uint8), -1)[rng.permutation(9)]
    codes, labels = np.packbits(bits, axis=1), random_labels(rng, 10)
    query = np.zeros((1, 1), dtype=np.uint8)
    found = evaluate_codes(query, labels[:1], codes, labels[1:], [f"P@{k}", f"mAP@{k}"])
    assert found.metrics == pytest.approx(found.expected, abs=1e-12)


def test_mean_over_shuffled_databases_approaches_the_expectation() -> None:
    rng = np.random.default_rng(3)
    codes, labels = clustered_codes(rng, 340, 8, centres=3), random_labels(rng, 340, most=1)
    queries, query_labels = codes[:40], labels[:40]
    served = []
    for _ in range(200):
        order = 40 + rng.permutation(300)
        shuffled = [labels[row] for row in order]
        found = evaluate_codes(queries, query_labels, codes[order], shuffled, ["P@50", "mAP@50"])
        served.append(found.metrics)
    for name, value in found.expected.items():
        assert fmean(item[name] for item in served) == pytest.approx(value, abs=0.005)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    codes, labels = clustered_codes(rng, 330, 32), random_labels(rng, 330)
    names = ["P@20", "mAP@20", "MRR", "Success@1", "mAP-trec", "mAP-11pt"]
    parts = (codes[:30], labels[:30], codes[30:], labels[30:], names)
    whole = evaluate_codes(*parts)
    monkeypatch.setattr(result, "BLOCK_ENTRIES", 700)
    cut = evaluate_codes(*parts)
    for name in whole.metrics:
        assert cut.per_query[name].tolist() == whole.per_query[name].tolist()
        assert cut.expected_per_query[name] == pytest.approx(
            whole.expected_per_query[name], abs=1e-12
        )
        assert cut.best_per_query[name].tolist() == whole.best_per_query[name].tolist()
        assert cut.worst_per_query[name].tolist() == whole.worst_per_query[name].tolist()


def test_documents_without_labels_are_ranked_and_relevant_to_nothing() -> None:
    codes = np.zeros((3, 1), dtype=np.uint8)
    found = evaluate_codes(codes[:1], [("a",)], codes, [(), (), ("a",)], ["P@2"])
    assert found.metrics == {"P@2": 0.0}
    assert found.expected == {"P@2": pytest.approx(1 / 3)}
    assert found.distinct_codes == 1


def test_it_can_be_written_as_json() -> None:
    rng = np.random.default_rng(0)
    found = evaluate_codes(
        random_codes(rng, 3, 16), [("a",)] * 3, random_codes(rng, 9, 16), [("a",)] * 9
    )
    written = json.loads(json.dumps(found.to_dict()))
    assert list(written["metrics"]) == list(written["expected"]) == ["P@100", "mAP@100"]
    assert written["metrics"]["P@100"] == pytest.approx(0.09)
    assert (written["queries"], written["documents"]) == (3, 9)


def test_bad_input_is_refused() -> None:
    codes, labels = np.zeros((2, 2), dtype=np.uint8), [("a",), ("b",)]
    with pytest.raises(EvaluationError, match="query: there are 2 codes and 1 label sets"):
        evaluate_codes(codes, labels[:1], codes, labels)
    with pytest.raises(EvaluationError, match="database codes are int64"):
        evaluate_codes(codes, labels, codes.astype(np.int64), labels)
    with pytest.raises(EvaluationError, match="query codes have 16 bits and database codes 8"):
        evaluate_codes(codes, labels, codes[:, :1], labels)
    with pytest.raises(EvaluationError, match="there are no queries"):
        evaluate_codes(codes[:0], [], codes, labels)
    with pytest.raises(MetricError, match="'R@5' is not a metric"):
        evaluate_codes(codes, labels, codes, labels, ["R@5"])


def test_what_else_is_refused() -> None:
    codes, labels = np.zeros((2, 1), dtype=np.uint8), [("a",), ("b",)]
    with pytest.raises(EvaluationError, match="self_rows must hold a row"):
        evaluate_codes(codes, labels, codes, labels, self_rows=np.array([0, 2]))
    with pytest.raises(EvaluationError, match="self_rows must hold a row"):
        evaluate_codes(codes, labels, codes, labels, self_rows=np.array([0]))
    with pytest.raises(EvaluationError, match="relevant_from is 2; without a hierarchy"):
        evaluate_codes(codes, labels, codes, labels, relevant_from=2)


def test_queries_without_relevant_documents_are_named() -> None:
    codes = np.zeros((3, 1), dtype=np.uint8)
    found = evaluate_codes(codes, [("a",), ("y",), ("z",)], codes[:1], [("a",)], ["P@1"])
    assert found.queries_without_relevant == 2
    assert found.notes == ("2 queries without a relevant document, scored as 0: 1, 2",)
    # The only document of its class is the query itself.
    found = evaluate_codes(
        codes[:1], [("a",)], codes, [("a",), ("b",), ("b",)], ["P@1"], self_rows=np.array([0])
    )
    assert (found.metrics["P@1"], found.queries_without_relevant) == (0, 1)


def labelled_documents(codes: Codes, labels: LabelSets, prefix: str) -> list[Document]:
    """Documents that come with codes."""
    return [
        Document(id=f"{prefix}{i}", code=code_to_hex(code), labels=tags)
        for i, (code, tags) in enumerate(zip(codes, labels, strict=True))
    ]


def by_hamming(
    collection: CollectionBackend,
    queries: Sequence[Document],
    metrics: Sequence[str] = DEFAULT_METRICS,
    **how: Any,
) -> Evaluation:
    settings = RelevanceSettings(**how)
    return evaluate_rankings(collection, queries, ["hamming"], metrics, settings)["hamming"]


def test_a_collection_scores_what_its_codes_score(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    codes, labels = clustered_codes(rng, 220, 16), random_labels(rng, 220)
    collection = code_collection(tmp_path)
    collection.upsert(labelled_documents(codes[20:], labels[20:], "d"))
    queries = labelled_documents(codes[:20], labels[:20], "q")
    found = by_hamming(collection, queries, ["P@10", "mAP@10"])
    direct = evaluate_codes(codes[:20], labels[:20], codes[20:], labels[20:], ["P@10", "mAP@10"])
    collection.close()
    assert found.to_dict() == direct.to_dict()
    assert found.query_ids == tuple(f"q{i}" for i in range(20))


def test_a_collection_by_qrels_scores_what_its_labels_would(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    codes, labels = clustered_codes(rng, 120, 16), random_labels(rng, 120)
    collection = code_collection(tmp_path)
    collection.upsert(labelled_documents(codes[20:], labels[20:], "d"))
    queries = labelled_documents(codes[:20], labels[:20], "q")
    qrels = {
        f"q{i}": {f"d{j - 20}": int(bool(set(labels[i]) & set(labels[j]))) for j in range(20, 120)}
        for i in range(20)
    }
    names = ["P@10", "mAP@10", "nDCG@10", "mAP-trec"]
    judged = by_hamming(collection, queries, names, qrels=qrels)
    labelled = by_hamming(collection, queries, names)
    assert judged.to_dict() == labelled.to_dict()
    bare = [Document(id=query.id, code=query.code) for query in queries]
    qrels["q0"], qrels["gone"] = {"d0": 1, "elsewhere": 1}, {"d0": 1}
    found = by_hamming(collection, bare, names, qrels=qrels)
    assert found.notes == (
        "1 query of the qrels not among the queries, ignored: gone",
        "1 document of the qrels not stored, ignored: elsewhere",
    )
    with pytest.raises(EvaluationError, match="occur more than once: q0"):
        by_hamming(collection, [*bare, bare[0]], names, qrels=qrels)
    with pytest.raises(EvaluationError, match="hierarchy and qrels are both set"):
        by_hamming(collection, bare, names, qrels=qrels, hierarchy=True)
    collection.close()


def test_a_stored_query_may_leave_itself_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    codes, labels = clustered_codes(rng, 60, 16), random_labels(rng, 60)
    collection = code_collection(tmp_path)
    documents = labelled_documents(codes, labels, "d")
    collection.upsert(documents)
    stranger = Document(id="q", code=documents[7].code, labels=documents[7].labels)
    queries = [documents[3], stranger, documents[50]]
    names = ["P@10", "mAP-trec", "MRR"]
    found = by_hamming(collection, queries, names, exclude_self=True)
    kept = by_hamming(collection, queries, names)
    direct = evaluate_codes(
        codes[[3, 7, 50]], [labels[3], labels[7], labels[50]], codes, labels, names,
        self_rows=np.array([3, -1, 50]),
    )  # fmt: skip
    assert found.to_dict() == direct.to_dict()
    assert found.per_query["P@10"][1] == kept.per_query["P@10"][1]
    assert (kept.expected_per_query["mAP-trec"] >= found.expected_per_query["mAP-trec"]).all()
    twice = by_hamming(collection, [stranger, stranger], names)
    assert twice.notes == ("1 query ids occur more than once: q",)
    collection.close()


def test_documents_without_a_label_are_said_to_count_as_not_relevant(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    codes, labels = clustered_codes(rng, 60, 16), random_labels(rng, 60)
    documents = labelled_documents(codes, labels, "d")
    collection = code_collection(tmp_path)
    collection.upsert([replace(document, labels=(), payload={}) for document in documents[:25]])
    collection.upsert(documents[25:])
    (note,) = by_hamming(collection, documents[30:40], ["P@10"]).notes
    assert note.startswith(
        "25 of 60 documents have no label, so they count as relevant to no query"
    )
    qrels = {"d30": {"d31": 1}}
    assert by_hamming(collection, [documents[30]], ["P@10"], qrels=qrels).notes == ()
    collection.close()


def test_labels_may_stand_in_another_field_of_the_payload(tmp_path: Path) -> None:
    collection = code_collection(tmp_path)
    collection.upsert(
        [
            Document(id="x", code="0000", payload={"topic": "a"}),
            Document(id="y", code="ffff", payload={"topic": ["b", "c"]}),
        ]
    )
    queries = [
        Document(id="q", code="0000", payload={"topic": "a"}),
        Document(id="r", code="0000", labels=("c",)),
    ]
    found = by_hamming(collection, queries, ["P@1"], label_field="topic")
    assert found.per_query["P@1"].tolist() == [1, 0]
    with pytest.raises(EvaluationError, match="1 of 1 queries have no label"):
        by_hamming(collection, queries[:1], ["P@1"])
    with pytest.raises(EvaluationError, match="has 2 documents, and none has a label"):
        by_hamming(collection, queries, ["P@1"])
    collection.close()


def test_a_collection_refuses_what_cannot_be_evaluated(tmp_path: Path) -> None:
    collection = code_collection(tmp_path)
    query = Document(id="q", code="0000", labels=("a",))
    with pytest.raises(EvaluationError, match="the database is empty"):
        by_hamming(collection, [query])
    collection.upsert([Document(id="x", code="0000", labels=("a",), payload={"odd": {"a": 1}})])
    with pytest.raises(EvaluationError, match="there are no queries"):
        by_hamming(collection, [])
    with pytest.raises(InputError, match="text"):
        by_hamming(collection, [Document(id="q", text="words", labels=("a",))])
    with pytest.raises(InputError, match="label_field"):
        by_hamming(collection, [query], label_field="odd")
    collection.close()


def test_an_encoder_scores_what_its_codes_score() -> None:
    encoder = text_encoder()
    rng = np.random.default_rng(2)
    texts, labels = random_texts(120), random_labels(rng, 120)
    found = evaluate_encoder(
        encoder, Labelled(texts[20:], labels[20:]), Labelled(texts[:20], labels[:20]), ["P@10"]
    )
    codes = encoder.encode(texts)
    direct = evaluate_codes(codes[:20], labels[:20], codes[20:], labels[20:], ["P@10"])
    assert found.to_dict() == direct.to_dict()
