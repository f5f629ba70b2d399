import importlib.util
import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.named_sets import DATASETS, load_dataset, load_qrels, read_questions
from hummingbit.corpus.readers import ReadError, read_documents
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER
from tests.support.questions import shared_stems, unanswered

POST = "From: someone\nSubject: a thing\n\nThe body.\n\nIts end."


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    path.write_bytes(lzma.compress(lines.encode()))


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    """Return a folder with a few rows of every data set, laid out as the public files are."""
    for split, count in (("train", 12), ("test", 8)):
        snippets = [
            {"id": f"{split}-{i}", "text": f"words {i}", "label": "x"} for i in range(count)
        ]
        write_lines(tmp_path / f"snippets/{split}.jsonl.xz", snippets)
        posts = [{"id": f"g/{split}{i}", "text": POST, "label": "g"} for i in range(count)]
        write_lines(tmp_path / f"20ng/{split}.jsonl.xz", posts)
    for folder in ("tmc", "cifar10", "mnist", "hdm05", "eeg_erp"):
        (tmp_path / folder).mkdir()
    tmc = {
        f"{name}_{split}{part}": value
        for split in ("train", "test")
        for name, part, value in (
            ("x", "_indptr", np.array([0, 2, 2], dtype=np.int32)),
            ("x", "_indices", np.array([0, 3], dtype=np.uint16)),
            ("y", "", np.array([[1, 0, 1], [0, 1, 0]], dtype=np.uint8)),
        )
    }
    names = {"feature_names": np.array(list("abcd")), "label_names": np.array(["p", "q", "r"])}
    np.savez(tmp_path / "tmc/tmc2007-500.npz", **tmc, **names)  # type: ignore[arg-type]
    cifar10 = {
        "train": np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float16),
        "train_index": np.array([7, 5], dtype=np.int32),
        "y_train": np.array([9, 0], dtype=np.uint8),
        "test": np.ones((1, 2), dtype=np.float16),
        "test_index": np.array([0], dtype=np.int32),
        "y_test": np.array([1, 2], dtype=np.uint8),
    }
    np.savez(tmp_path / "cifar10/mobilenetv2_80px_pca256_f16.npz", **cifar10)  # type: ignore[arg-type]
    image = np.zeros((1, 28, 28), dtype=np.uint8)
    image[0, 0, 1], image[0, 27, 27] = 51, 255
    labels = np.array([4], dtype=np.uint8)
    np.savez(tmp_path / "mnist/mnist.npz", x_train=image, y_train=labels)
    motion = {
        "joints30": np.random.default_rng(0).normal(size=(9, 2, 3)).astype(np.float32),
        "offsets": np.array([0, 5, 9]),
        "label": np.array([3, 1], dtype=np.uint8),
        "split": np.array(["train", "test"]),
        "name": np.array(["jump", "walk"]),
    }
    np.savez(tmp_path / "hdm05/hdm05_11actions.npz", **motion)  # type: ignore[arg-type]
    covariances = np.array([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [2.0, 1.0]]])
    np.savez(tmp_path / "eeg_erp/erp_cov32.npz", cov=covariances, label=np.array([4, 1]))
    return tmp_path


def test_a_named_data_set_is_read_by_name_and_split(data_root: Path) -> None:
    for source, count in (("snippets", 12), ("snippets:train", 12), ("snippets:test", 8)):
        documents = list(read_documents(source, data_root=data_root))
        assert len(documents) == count
        assert documents[3].text == "words 3"
        assert documents[3].labels == ("x",)


def test_headers_go_up_to_the_first_blank_line(data_root: Path) -> None:
    (first, *rest) = load_dataset("20news-bydate", "test", data_root)
    assert first.text == "The body.\n\nIts end."
    assert len(rest) == 7
    texts = {document.text for document in load_dataset("20news", "train", data_root)}
    assert texts == {first.text}
    kept = {document.text for document in load_dataset("20news-headers", "train", data_root)}
    assert kept == {POST}


def test_the_random_split_is_a_partition_that_both_variants_share(data_root: Path) -> None:
    splits = {
        name: [
            [post.id for post in load_dataset(name, split, data_root)] for split in DATASETS[name]
        ]
        for name in ("20news", "20news-headers")
    }
    assert splits["20news"] == splits["20news-headers"]
    assert [len(split) for split in splits["20news"]] == [12, 4, 4]
    every = [f"g/train{i}" for i in range(12)] + [f"g/test{i}" for i in range(8)]
    assert sorted(id_ for split in splits["20news"] for id_ in split) == sorted(every)
    assert splits["20news"] != [every[:12], every[12:16], every[16:]]


def test_tmc_gives_binary_vectors_and_every_tag(data_root: Path) -> None:
    first, second = load_dataset("tmc", "train", data_root)
    assert first.vector is not None
    assert second.vector is not None
    assert first.vector.dtype == np.float32
    assert (first.vector.tolist(), second.vector.tolist()) == ([1, 0, 0, 1], [0, 0, 0, 0])
    assert (first.labels, second.labels) == (("p", "r"), ("q",))
    assert first.id == "train-00000"


def test_cifar10_keeps_its_own_row_numbers(data_root: Path) -> None:
    first, second = load_dataset("cifar10", "train", data_root)
    assert (first.id, first.labels) == ("train-00007", ("9",))
    assert second.vector is not None
    assert second.vector.dtype == np.float32
    assert second.vector.tolist() == [3.0, 4.0]


def test_mnist_is_scaled_to_the_unit_interval(data_root: Path) -> None:
    (document,) = load_dataset("mnist", "train", data_root)
    assert document.vector is not None
    assert document.vector.shape == (784,)
    assert {int(i): float(document.vector[i]) for i in np.flatnonzero(document.vector)} == {
        1: pytest.approx(0.2),
        783: 1.0,
    }
    assert document.labels == ("4",)


def test_what_is_not_there_is_named_at_once(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ReadError, match=r"^'imagenet' is not a data set; the data sets are docstrings"
    ):
        load_dataset("imagenet", "train", data_root)
    with pytest.raises(ReadError, match=r"^tmc has no split 'validation'; it has train, test$"):
        read_documents("tmc:validation", data_root=data_root)
    with pytest.raises(ReadError, match=r"^snippets: there is no file .*train.jsonl.xz; is "):
        read_documents("snippets", data_root=tmp_path / "elsewhere")
    monkeypatch.delenv("HUMMINGBIT_DATA", raising=False)
    with pytest.raises(ReadError, match=r"pass --data-root FOLDER or set HUMMINGBIT_DATA to"):
        read_documents("mnist")
    monkeypatch.setenv("HUMMINGBIT_DATA", str(data_root))
    assert len(list(read_documents("mnist"))) == 1


def test_a_data_set_with_something_else_in_its_file_is_an_error(data_root: Path) -> None:
    with pytest.raises(ReadError, match=r"mnist.npz: has no array x_test$"):
        list(load_dataset("mnist", "test", data_root))
    with pytest.raises(ReadError, match=r"y_test has shape \[2\]; it must have 1 rows"):
        list(load_dataset("cifar10", "test", data_root))
    write_lines(data_root / "snippets/train.jsonl.xz", [{"id": "a", "text": "t"}, {"id": "b"}])
    with pytest.raises(ReadError, match=r"train.jsonl.xz:2: document: must have at least one"):
        list(load_dataset("snippets", "train", data_root))
    whole = (data_root / "20ng/test.jsonl.xz").read_bytes()
    (data_root / "20ng/test.jsonl.xz").write_bytes(whole[:-20])
    with pytest.raises(ReadError, match=r"test.jsonl.xz:[0-9]+: cannot be read"):
        list(load_dataset("20news-bydate", "test", data_root))


def test_motion_is_the_covariance_of_joints_about_the_root(data_root: Path) -> None:
    (document,) = load_dataset("hdm05", "test", data_root)
    assert (document.id, document.labels, document.is_matrix) == ("walk", ("1",), True)
    joints = np.random.default_rng(0).normal(size=(9, 2, 3)).astype(np.float32)[5:].astype(float)
    about_root = np.concatenate([np.zeros((4, 3)), joints[:, 1] - joints[:, 0]], axis=1)
    centred = about_root - about_root.mean(axis=0)
    covariance = centred.T @ centred / 3
    covariance += 1e-3 * covariance.trace() / 6 * np.eye(6)
    assert document.vector is not None
    np.testing.assert_allclose(document.vector, covariance[np.triu_indices(6)], rtol=1e-5)


def test_a_covariance_that_is_none_is_named(data_root: Path) -> None:
    documents = load_dataset("eeg-erp", "train", data_root)
    first = next(documents)
    assert first.vector is not None
    assert (first.id, first.vector.tolist()) == ("trial-000", [2, 1, 3])
    with pytest.raises(ReadError, match=r"erp_cov32.npz: trial-001: is not positive definite: its"):
        next(documents)


REAL = {
    "snippets": (10_060, 2_280),
    "20news-bydate": (11_314, 7_532),
    "20news": (11_307, 3_769, 3_770),
    "20news-headers": (11_307, 3_769, 3_770),
    "hwu64": (9_960, 1_076),
    "googlenews": (8_886, 2_222),
    "reuters": (7_770, 3_019),
    "ag-news": (5_014, 7_600),
    "dbpedia14": (11_200, 2_800),
    "thucnews-titles": (40_000, 10_000, 10_000),
    "germeval2019": (2_079,),
    "tmc": (21_519, 7_077),
    "cifar10": (50_000, 10_000),
    "mnist": (60_000, 10_000),
    "hdm05": (189, 99),
    "eeg-erp": (216,),
}
SHAPES = {
    "tmc": (500, 22),
    "cifar10": (256, 10),
    "mnist": (784, 10),
    "hdm05": (93 * 94 // 2, 11),
    "eeg-erp": (32 * 33 // 2, 4),
}
CLASSES = {
    "snippets": 8,
    "20news-bydate": 20,
    "20news": 20,
    "20news-headers": 20,
    "hwu64": 64,
    "googlenews": 152,
    "reuters": 90,
    "ag-news": 4,
    "dbpedia14": 14,
    "thucnews-titles": 10,
    "germeval2019": 8,
}


@pytest.mark.public_data
@pytest.mark.parametrize("name", REAL)
def test_the_public_data_has_the_counts_it_is_known_by(name: str) -> None:
    seen: set[str] = set()
    labels: Counter[str] = Counter()
    for split, count in zip(DATASETS[name], REAL[name], strict=True):
        before = len(seen)
        for document in load_dataset(name, split):
            seen.add(document.id)
            labels.update(document.labels)
            if document.vector is not None:
                assert document.vector.shape == (SHAPES[name][0],)
        assert len(seen) - before == count
    assert len(labels) == (SHAPES[name][1] if name in SHAPES else CLASSES[name])


JUDGED_COUNTS = {
    "cranfield": (1_400, 225),
    "cisi": (1_460, 76),
    "medline": (1_033, 30),
    "cacm": (3_204, 52),
    "npl": (11_429, 93),
    "nfcorpus": (3_395, 323),
}


@pytest.mark.public_data
@pytest.mark.parametrize("name", JUDGED_COUNTS)
def test_judged_collections_have_the_queries_that_were_judged(name: str) -> None:
    documents = {document.id for document in read_documents(name)}
    queries = list(load_dataset(name, "queries"))
    qrels = load_qrels(name)
    assert (len(documents), len(queries)) == JUDGED_COUNTS[name]
    assert qrels is not None
    assert {query.id for query in queries} <= set(qrels)
    assert {document for judged in qrels.values() for document in judged} <= documents


@pytest.fixture
def judged_root(tmp_path: Path) -> Path:
    corpus = [
        {"id": "d1", "title": "A title", "text": "and a text"},
        {"id": "d2", "title": "", "text": "text alone"},
        {"id": "d3", "title": "title alone", "text": ""},
    ]
    write_lines(tmp_path / "cisi/corpus.jsonl.xz", corpus)
    queries = [{"id": id_, "text": f"what is {id_}"} for id_ in ("q1", "q2", "q3")]
    write_lines(tmp_path / "cisi/queries.jsonl.xz", queries)
    (tmp_path / "cisi/qrels.tsv").write_text("q1\td1\t1\nq1\td2\t0\nq3\td2\t0\n")
    return tmp_path


def test_a_judged_document_is_its_title_and_its_text(judged_root: Path) -> None:
    documents = list(read_documents("cisi", data_root=judged_root))
    assert [document.text for document in documents] == [
        "A title\nand a text",
        "text alone",
        "title alone",
    ]


def test_only_queries_with_a_relevant_document_are_given(judged_root: Path) -> None:
    assert [document.id for document in load_dataset("cisi", "queries", judged_root)] == ["q1"]
    assert load_qrels("cisi", "queries", judged_root) == {"q1": {"d1": 1, "d2": 0}, "q3": {"d2": 0}}
    assert load_qrels("cisi", "documents", judged_root) is None


def test_a_judgement_that_is_none_is_named_by_its_line(judged_root: Path) -> None:
    (judged_root / "cisi/qrels.tsv").write_text("q1\td1\t1\nq1 d2 1\n")
    with pytest.raises(ReadError, match=r"qrels.tsv:2: has 1 cell; there must be 3"):
        load_qrels("cisi", "queries", judged_root)


def test_a_list_of_labels_gives_several(tmp_path: Path) -> None:
    line = {"id": "a", "text": "t", "label": ["grain", "wheat"]}
    write_lines(tmp_path / "reuters_modapte90/train.jsonl.xz", [line])
    (document,) = load_dataset("reuters", "train", tmp_path)
    assert document.labels == ("grain", "wheat")


def test_questions_of_an_unknown_split_are_refused() -> None:
    with pytest.raises(ReadError, match="no questions 'queries-tests'; the splits are queries, "):
        read_questions("queries-tests")


def test_questions_about_docstrings_are_split_in_halves_and_have_answers() -> None:
    ids = {
        split: [document.id for document in load_dataset("docstrings", split)]
        for split in ("queries", "queries-development", "queries-test", "queries-simple")
    }
    development, test = ids["queries-development"], ids["queries-test"]
    assert len(development) == len(test) == 60
    assert sorted(development + test) == ids["queries"] == sorted(set(ids["queries"]))
    assert len(set(ids["queries-simple"])) == len(ids["queries-simple"]) == 40
    qrels = load_qrels("docstrings", "queries-test")
    assert qrels is not None
    assert list(qrels) == test
    assert all(set(answers.values()) == {1} for answers in qrels.values())


@pytest.fixture(scope="module")
def docstrings() -> dict[str, str]:
    """The text of every documented name of all four packages."""
    for package in ("numpy", "scipy", "sklearn", "torch"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    documents = load_dataset("docstrings", "documents")
    return {document.id: document.text or "" for document in documents}


def test_every_question_has_an_answer_where_all_four_packages_are_installed(
    docstrings: dict[str, str],
) -> None:
    splits = ("queries", "queries-simple", "queries-reworded")
    qrels = {
        query: answers
        for split in splits
        for query, answers in (load_qrels("docstrings", split) or {}).items()
    }
    assert len(qrels) == 190
    assert not [query for query, answers in qrels.items() if not docstrings.keys() & set(answers)]


def test_reworded_questions_share_only_function_words_with_their_answers(
    docstrings: dict[str, str],
) -> None:
    terms = ANALYZERS[DEFAULT_ANALYZER].terms
    qrels = load_qrels("docstrings", "queries-reworded") or {}
    queries = list(load_dataset("docstrings", "queries-reworded"))
    frequencies = Counter(term for text in docstrings.values() for term in set(terms(text)))
    for query in queries:
        rare = {
            term for term in terms(query.text or "") if frequencies[term] < len(docstrings) / 100
        }
        answers = [set(terms(docstrings[name])) for name in qrels[query.id] if name in docstrings]
        assert not rare & set().union(*answers)


def test_the_held_out_questions_about_docstrings_have_answers_and_reworded_ones_no_word_of_them(
    docstrings: dict[str, str],
) -> None:
    assert not unanswered("docstrings", docstrings)
    assert not shared_stems("docstrings", docstrings)
