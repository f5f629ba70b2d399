from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import code_from_hex, hamming_distance, unpack_codes
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.evaluation.baselines import (
    ClassifierReference,
    TrainingLabels,
    bm25,
    soft_class_scores,
)
from hummingbit.evaluation.formats import to_markdown
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.evaluation.relevance import Labelled
from hummingbit.evaluation.report import (
    Job,
    ReportError,
    parse_report,
    read_report,
    run_job,
    write_report,
)
from hummingbit.evaluation.trec import parse_run
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.records import Query
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import gather
from tests.support.corpora import topic_documents
from tests.support.evaluations import LABELS, labelled_codes, make_collections

DOCUMENTS = labelled_codes(400, 0, "d")
QUERIES = labelled_codes(50, 1, "q")
METRICS = ["P@10", "mAP@50", "nDCG@10", "MRR"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectionBackend]:
    path = make_collections(tmp_path_factory.mktemp("data"), codes=DOCUMENTS)
    with DataFolder(path, writable=False) as folder:
        yield folder.collection("codes")


@pytest.fixture(scope="module")
def job(collection: CollectionBackend) -> Job:
    return run_job(collection, QUERIES, METRICS)


def test_a_report_has_the_figures_of_the_evaluation(
    collection: CollectionBackend, job: Job
) -> None:
    found = evaluate_rankings(collection, QUERIES, ["hamming"], METRICS)["hamming"]
    report = job.report
    assert [metric.name for metric in report.metrics] == METRICS == list(report.per_query)
    for metric in report.metrics:
        assert metric.served == found.metrics[metric.name]
        assert metric.expected == found.expected[metric.name]
        assert (metric.worst, metric.best) == (found.worst[metric.name], found.best[metric.name])
        assert metric.interval is not None
        assert metric.interval[0] <= metric.served <= metric.interval[1]
        assert report.per_query[metric.name].served == found.per_query[metric.name].tolist()
    assert report.query_ids == [query.id for query in QUERIES]
    assert (report.queries, report.subject.documents) == (50, 400)
    assert (report.subject.name, report.subject.generation) == ("codes", 1)
    assert report.classifier_baseline is None


def test_a_report_reads_its_collection_and_encodes_its_queries_once(
    collection: CollectionBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., object]:
        method = getattr(collection, name)

        def call(*given: object, **named: object) -> object:
            calls[name] += 1
            return method(*given, **named)

        return call

    for name in ("all_documents", "labelled_codes", "encode_queries"):
        monkeypatch.setattr(collection, name, counted(name))
    run_job(collection, QUERIES, METRICS)
    assert calls == {"all_documents": 1, "encode_queries": 1}


def test_what_is_plotted_is_counted_right(job: Job) -> None:
    codes = np.stack([code_from_hex(document.code or "", 16) for document in DOCUMENTS])
    relevant, others = Counter[int](), Counter[int]()
    for query in QUERIES:
        distances = hamming_distance(code_from_hex(query.code or "", 16), codes)
        for document, distance in zip(DOCUMENTS, distances.tolist(), strict=True):
            (relevant if document.labels == query.labels else others)[distance] += 1
    shape = job.report.shape
    assert shape.relevant == [relevant[d] for d in range(17)]
    assert shape.others == [others[d] for d in range(17)]
    assert shape.bit_balance == pytest.approx(unpack_codes(codes).mean(axis=0))
    sizes = Counter(Counter(document.code for document in DOCUMENTS).values())
    for bucket in shape.buckets:
        inside = {n: c for n, c in sizes.items() if bucket.smallest <= n <= bucket.largest}
        assert bucket.codes == sum(inside.values())
        assert bucket.documents == sum(n * c for n, c in inside.items())
    assert sum(bucket.documents for bucket in shape.buckets) == 400
    assert shape.precision.k == [1, 2, 5, 10, 20, 50, 100]


def test_classes_average_to_the_whole(job: Job) -> None:
    classes = job.report.classes
    assert [class_name.label for class_name in classes] == sorted(LABELS)
    for metric in job.report.metrics:
        total = sum(class_name.queries * class_name.expected[metric.name] for class_name in classes)
        assert total / 50 == pytest.approx(metric.expected)
    counted = Counter(document.labels[0] for document in DOCUMENTS)
    assert {class_name.label: class_name.documents for class_name in classes} == counted


def test_the_worst_queries_come_with_their_hits(collection: CollectionBackend, job: Job) -> None:
    values = dict(zip(job.report.query_ids, job.report.per_query["P@10"].expected, strict=True))
    worst = job.report.worst_queries
    assert [item.value for item in worst] == sorted(values.values())[:10]
    codes = {query.id: query.code for query in QUERIES}
    for document in worst:
        assert document.value == values[document.id]
        (hits,) = collection.search([Query(code=codes[document.id])], 5, with_payload=True).hits
        assert [(hit.id, hit.distance) for hit in document.hits] == [
            (hit.id, hit.distance) for hit in hits
        ]
        for hit in document.hits:
            assert hit.relevant == (hit.labels == document.labels)


def test_the_run_holds_what_a_search_finds(collection: CollectionBackend, job: Job) -> None:
    assert job.run is not None
    run = parse_run(job.run().splitlines())
    searches = [Query(code=query.code) for query in QUERIES]
    hits = collection.search(searches, 100).hits
    assert run == {
        query.id: {hit.id: -float(hit.distance or 0) for hit in found}
        for query, found in zip(QUERIES, hits, strict=True)
    }


def test_judgements_in_place_of_labels(collection: CollectionBackend, job: Job) -> None:
    qrels = {
        query.id: {document.id: 1 for document in DOCUMENTS if document.labels == query.labels}
        for query in QUERIES
    }
    judged = run_job(collection, QUERIES, METRICS, RelevanceSettings(qrels=qrels)).report
    assert judged.metrics == job.report.metrics
    assert judged.shape == job.report.shape
    assert "judged" in judged.relevance
    qrels["q0"]["gone"] = 2
    noted = run_job(collection, QUERIES, METRICS, RelevanceSettings(qrels=qrels)).report
    assert any("gone" in note for note in noted.notes)


def test_a_query_that_is_stored_can_be_left_out_of_what_it_finds(
    collection: CollectionBackend,
) -> None:
    own = DOCUMENTS[:20]
    job = run_job(collection, own, ["P@10"], RelevanceSettings(exclude_self=True))
    assert job.run is not None
    run = parse_run(job.run().splitlines())
    assert all(id_ not in found and len(found) == 100 for id_, found in run.items())
    assert sum(job.report.shape.relevant) + sum(job.report.shape.others) == 20 * 399
    settings = RelevanceSettings(exclude_self=True)
    found = evaluate_rankings(collection, own, ["hamming"], ["P@10"], settings)["hamming"]
    assert job.report.metrics[0].served == found.metrics["P@10"]


def test_ids_that_trec_cannot_hold_are_told_of(tmp_path: Path) -> None:
    spaced = [replace(DOCUMENTS[0], id="two words"), *DOCUMENTS[1:20]]
    with DataFolder(make_collections(tmp_path, codes=spaced), writable=False) as folder:
        job = run_job(folder.collection("codes"), QUERIES[:5], ["P@5"])
    assert job.run is None
    assert not job.report.has_run
    assert any("two words" in note for note in job.report.notes)


def test_queries_without_relevant_documents_are_named(collection: CollectionBackend) -> None:
    lost = Document(id="lost", code="0000", labels=("unheard",))
    report = run_job(collection, [*QUERIES, lost], ["P@10"]).report
    assert report.queries_without_relevant == 1
    assert any("lost" in note for note in report.notes)


def test_a_report_reads_back_to_the_last_digit(job: Job, tmp_path: Path) -> None:
    text = write_report(job.report)
    assert parse_report(text) == job.report
    (tmp_path / "report.json").write_text(text)
    assert read_report(tmp_path / "report.json") == job.report


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (str.upper, "is not a report"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 9'), "version is 9"),
        (lambda text: text.replace('"queries": 50', '"queries": 49'), "query_ids has 50 entries"),
        (lambda text: text.replace('"relevance"', '"relevanz"'), "relevan"),
        (lambda text: text.replace('"confidence": 0.95', '"confidence": NaN'), "confidence"),
    ],
)
def test_what_is_no_report_is_refused(
    job: Job, tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    path = tmp_path / "report.json"
    path.write_text(change(write_report(job.report)))
    with pytest.raises(ReportError, match=message) as refused:
        read_report(path)
    assert str(refused.value).startswith(str(path))


def test_a_report_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="No such file"):
        read_report(tmp_path / "absent.json")


def test_a_report_has_baselines_and_says_who_is_ahead(tmp_path: Path) -> None:
    """Class codes stand beside soft class scores and BM25, and the sentences name the winner."""
    documents, queries = topic_documents(200), topic_documents(60, seed=1)
    queries = [replace(query, id=f"q{query.id}", text=f"{query.text} new") for query in queries]
    recipe = ClassCodeRecipe(n_bits=32, content="itq", query_classifier="ridge")
    trained = train_class_codes(gather(documents), recipe, tmp_path / "encoders" / "e")
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("topics", encoder="e")
        collection.upsert(documents)
        labels = TrainingLabels(trained.labelled_ids, ClassifierReference(trained.encoder))
        report = run_job(
            collection, queries, ["P@10", "P@20"], None, labels, rankings=["hamming"]
        ).report
        by_words = run_job(collection, queries, ["P@10"], rankings=["hamming", "bm25"]).report
    names = [(baseline.ranking, baseline.name) for baseline in report.baselines]
    assert names == list(itertools.product(["soft class scores", "bm25"], ["P@10", "P@20"]))
    database = Labelled(
        [document.text or "" for document in documents], [document.labels for document in documents]
    )
    asked = Labelled([query.text or "" for query in queries], [query.labels for query in queries])
    soft = soft_class_scores(trained.encoder, database, asked, ["P@10", "P@20"])
    assert soft is not None
    assert [baseline.expected for baseline in report.baselines[:2]] == pytest.approx(
        [*soft.expected.values()]
    )
    assert report.baselines[2].expected == bm25(database, asked, ["P@10"]).expected["P@10"]
    for name in ("soft class scores", "bm25"):
        (sentence,) = (note for note in report.notes if note.startswith(f"hamming against {name}"))
        assert "P@10 " in sentence
    assert "soft class scores" in to_markdown(report)
    assert parse_report(write_report(report)) == report
    assert by_words.baselines == []
    assert any(note.startswith("hamming against bm25: ") for note in by_words.notes)
