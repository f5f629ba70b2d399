"""The named data sets: public research data read from a folder, and the docstring corpus.

`--data-root` or the environment variable `HUMMINGBIT_DATA` names the folder. The data are not
part of hummingbit. Ids are unique over all splits of a data set.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from hummingbit.corpus.columns import Array, load_arrays
from hummingbit.corpus.docstrings import read_docstrings
from hummingbit.corpus.document import Document, DocumentError, parse_document
from hummingbit.corpus.json_rows import read_json_lines
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.lines import BadLine, ReadError, open_bytes
from hummingbit.corpus.matrices import upper_triangle
from hummingbit.corpus.qrels import Qrels, read_qrels

# Readers of named data sets that are arrays: vectors, images and covariances.


# The covariance of a sequence of few frames has low rank. To make it positive definite, this share
# of the mean variance is added to the diagonal.
HDM05_RIDGE = 1e-3


def read_tmc(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield vectors of 500 binary terms, each with all tags of the document."""
    (path,) = paths
    start, terms, tags = f"x_{split}_indptr", f"x_{split}_indices", f"y_{split}"
    arrays = load_arrays(path, (start, terms, tags, "feature_names", "label_names"))
    starts, names = arrays[start].tolist(), arrays["label_names"]
    _check_rows(path, tags, arrays[tags], len(starts) - 1)
    for position, has_tag in enumerate(arrays[tags]):
        vector = np.zeros(len(arrays["feature_names"]), dtype=np.float32)
        vector[arrays[terms][starts[position] : starts[position + 1]]] = 1.0
        labels = tuple(str(label) for label in names[np.flatnonzero(has_tag)])
        yield Document(id=f"{split}-{position:05d}", vector=vector, labels=labels)


def read_cifar10(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield 256 principal components of each image's MobileNetV2 features."""
    (path,) = paths
    arrays = load_arrays(path, (split, f"{split}_index", f"y_{split}"))
    ids = [f"{split}-{index:05d}" for index in arrays[f"{split}_index"].tolist()]
    labels = arrays[f"y_{split}"]
    _check_rows(path, f"y_{split}", labels, len(ids))
    _check_rows(path, split, arrays[split], len(ids))
    for id_, vector, label in zip(ids, arrays[split], labels.tolist(), strict=True):
        yield Document(id=id_, vector=vector.astype(np.float32), labels=(str(label),))


def read_mnist(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the 784 grey values of each image, from 0 to 1."""
    (path,) = paths
    arrays = load_arrays(path, (f"x_{split}", f"y_{split}"))
    images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
    _check_rows(path, f"y_{split}", labels, len(images))
    for position, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        vector = image.reshape(-1).astype(np.float32) / np.float32(255)
        yield Document(id=f"{split}-{position:05d}", vector=vector, labels=(str(label),))


def read_hdm05(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the covariance of the joints' coordinates in each sequence of a split."""
    (path,) = paths
    arrays = load_arrays(path, ("joints30", "offsets", "label", "split", "name"))
    starts = arrays["offsets"].tolist()
    for name in ("label", "split", "name"):
        _check_rows(path, name, arrays[name], len(starts) - 1)
    for position in np.flatnonzero(arrays["split"] == split).tolist():
        joints = arrays["joints30"][starts[position] : starts[position + 1]].astype(np.float64)
        relative = (joints - joints[:, :1]).reshape(len(joints), -1)
        covariance = np.cov(relative, rowvar=False)
        covariance += HDM05_RIDGE * covariance.trace() / len(covariance) * np.eye(len(covariance))
        label, name = str(arrays["label"][position]), str(arrays["name"][position])
        yield _matrix_document(path, name, covariance, label)


def read_eeg_erp(paths: list[Path], _split: str) -> Iterator[Document]:
    """Yield the covariance of each trial."""
    (path,) = paths
    arrays = load_arrays(path, ("cov", "label"))
    _check_rows(path, "label", arrays["label"], len(arrays["cov"]))
    for position, covariance in enumerate(arrays["cov"]):
        label = str(arrays["label"][position])
        yield _matrix_document(path, f"trial-{position:03d}", covariance, label)


def _matrix_document(path: Path, id_: str, matrix: Array, label: str) -> Document:
    try:
        vector = upper_triangle(matrix)
    except ValueError as error:
        raise ReadError(f"{path}: {id_}: {error}") from None
    return Document(id=id_, vector=vector, labels=(label,), is_matrix=True)


def _check_rows(path: Path, name: str, array: Array, length: int) -> None:
    if array.ndim == 0 or len(array) != length:
        found = f"{name} has shape {list(array.shape)}"
        raise ReadError(f"{path}: {found}; it must have {length:,} rows")


# Readers of named data sets that are texts: labelled documents, judged queries and pairs.


NEWS_SEED = 0

Parsed = TypeVar("Parsed")
QUESTION_SPLITS: Mapping[str, tuple[str, ...]] = {
    "queries": ("development", "test"),
    "queries-development": ("development",),
    "queries-test": ("test",),
    "queries-simple": ("simple",),
    "queries-reworded": ("reworded",),
}
"""The splits of the questions about the docstring corpus, and the parts that make up each."""


def read_labelled(paths: list[Path], _split: str) -> Iterator[Document]:
    """Yield the documents of JSON lines; a `label` can be a list of several labels."""
    for path in paths:
        yield from read_json_records(path, _parse_labelled)


def read_news_by_date(paths: list[Path], _split: str) -> Iterator[Document]:
    """Yield the posts of 20 Newsgroups without their headers."""
    return map(_strip_header, read_labelled(paths, _split))


def read_news(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the posts of 20 Newsgroups in one split of our own, without their headers."""
    return map(_strip_header, read_news_with_headers(paths, split))


def read_news_with_headers(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the posts of 20 Newsgroups in one split of our own, which a hash of the id decides."""
    posts = {post.id: post for post in read_labelled(paths, split)}
    # Posts are ranked by a hash, because random numbers may change between releases of a library.
    shuffled = sorted(posts, key=lambda id_: hashlib.sha256(f"{NEWS_SEED}:{id_}".encode()).digest())
    train, validation = len(shuffled) * 6 // 10, len(shuffled) * 2 // 10
    start, stop = {
        "train": (0, train),
        "validation": (train, train + validation),
        "test": (train + validation, len(shuffled)),
    }[split]
    ids = set(shuffled[start:stop])
    for post in posts.values():
        if post.id in ids:
            yield post


def read_judged(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the documents of a judged collection, or its queries with a relevant document.

    The text of a document begins with its title, if it has one. `paths` are the file of the
    documents, or the files of the queries and of the judgements.
    """
    if split == "documents":
        yield from read_json_records(paths[0], _parse_titled)
        return
    qrels = read_qrels(paths[1])
    for query in read_json_records(paths[0], parse_document):
        if any(grade > 0 for grade in qrels.get(query.id, {}).values()):
            yield query


def read_questions(split: str) -> tuple[list[Document], Qrels]:
    """Return everyday questions about the docstring corpus, and the judgements of their answers.

    The questions are in ``docstring_questions.jsonl`` beside this module: 120, half of them for
    development and half for the test, 40 simple ones, such as "matrix inverse", and 30 in words
    that no answer has, such as "biggest whole number that goes evenly into both". The answers are
    names of functions and classes that a fair person would accept, all of grade 1. They were chosen
    by reading the corpus, not by looking at what a system finds; for the simple ones alone, some
    results had been seen. Some may name packages that are not installed.

    `split` is `queries` for the 120 questions, `queries-development` or `queries-test` for one half
    of them, `queries-simple` or `queries-reworded`.

    Raises:
        ReadError: if there is no such split.
    """
    if split not in QUESTION_SPLITS:
        splits = ", ".join(QUESTION_SPLITS)
        raise ReadError(f"docstrings has no questions {split!r}; the splits are {splits}")
    parts = QUESTION_SPLITS[split]
    lines = Path(__file__).with_name("docstring_questions.jsonl").read_text(encoding="utf-8")
    questions = [
        record for record in map(json.loads, lines.splitlines()) if record["split"] in parts
    ]
    queries = [Document(id=record["id"], text=record["text"]) for record in questions]
    return queries, {record["id"]: dict.fromkeys(record["answers"], 1) for record in questions}


def read_json_records(path: Path, parse: Callable[[object], Parsed]) -> Iterator[Parsed]:
    """Yield what `parse` makes of each of the JSON lines in a file.

    Raises:
        ReadError: if the file cannot be read, or `parse` raises DocumentError for a line.
    """
    try:
        with open_bytes(path) as stream:
            for row in read_json_lines(stream, str(path)):
                if row.reason is not None:
                    raise ReadError(str(BadLine(str(path), row.line, row.reason)))
                try:
                    parsed = parse(row.record)
                except DocumentError as error:
                    raise ReadError(str(BadLine(str(path), row.line, str(error)))) from None
                yield parsed
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None


def _parse_labelled(record: object) -> Document:
    if isinstance(record, Mapping):
        record = Layout().document_record(record, None)
    return parse_document(record)


def _parse_titled(record: object) -> Document:
    if isinstance(record, Mapping) and isinstance(record.get("title"), str):
        text = "\n".join(part for part in (record["title"], record.get("text")) if part)
        record = {key: value for key, value in record.items() if key != "title"} | {"text": text}
    return parse_document(record)


def _strip_header(post: Document) -> Document:
    _, _, body = (post.text or "").partition("\n\n")
    return Document(id=post.id, text=body, labels=post.labels)


# The data sets by name.


VARIABLE = "HUMMINGBIT_DATA"
TRAIN_TEST = ("train", "test")
TRAIN_VALIDATION_TEST = ("train", "validation", "test")
DOCUMENTS_QUERIES = ("documents", "queries")

DATASETS: Mapping[str, tuple[str, ...]] = {
    "docstrings": (*TRAIN_TEST, "documents", *QUESTION_SPLITS),
    "snippets": TRAIN_TEST,
    "20news-bydate": TRAIN_TEST,
    "20news": TRAIN_VALIDATION_TEST,
    "20news-headers": TRAIN_VALIDATION_TEST,
    "hwu64": TRAIN_TEST,
    "googlenews": TRAIN_TEST,
    "reuters": TRAIN_TEST,
    "ag-news": TRAIN_TEST,
    "dbpedia14": TRAIN_TEST,
    "thucnews-titles": TRAIN_VALIDATION_TEST,
    "germeval2019": ("train",),
    "cranfield": DOCUMENTS_QUERIES,
    "cisi": DOCUMENTS_QUERIES,
    "medline": DOCUMENTS_QUERIES,
    "cacm": DOCUMENTS_QUERIES,
    "npl": DOCUMENTS_QUERIES,
    "nfcorpus": (*DOCUMENTS_QUERIES, "queries-development", "queries-train"),
    "tmc": TRAIN_TEST,
    "cifar10": TRAIN_TEST,
    "mnist": TRAIN_TEST,
    "hdm05": TRAIN_TEST,
    "eeg-erp": ("train",),
}
"""The splits of every named data set, the default first; :func:`load_dataset` says what each is."""

JUDGED = tuple(name for name, splits in DATASETS.items() if "queries" in splits)
"""The data sets that have queries with relevance judgements."""


def load_dataset(name: str, split: str, data_root: Path | None = None) -> Iterator[Document]:
    """Yield the documents of one split of a named data set, always in the same order.

    - `docstrings`: the docstrings of installed packages (:mod:`hummingbit.corpus.docstrings`),
      which need no folder. `documents` is all of them; `queries`, `queries-development`,
      `queries-test`, `queries-simple` and `queries-reworded` are everyday questions
      (:func:`hummingbit.corpus.named_sets.read_questions`).
    - `snippets`: Google web snippets in 8 classes (Phan et al. 2008), the official split.
    - `20news-bydate`: 20 Newsgroups, split by date, without headers: everything up to the first
      blank line is removed, as by scikit-learn's ``strip_newsgroup_header``.
    - `20news`, `20news-headers`: all 18,846 posts, without and with headers, split 60/20/20 at
      random with a fixed seed: posts are ranked by the SHA-256 of ``"0:" + id``, the first
      11,307 are train, the next 3,769 validation, the last 3,770 test.
    - `hwu64`: requests to a home robot, 64 intents (Liu et al. 2019, fold 1).
    - `googlenews`: news titles of 152 stories.
    - `reuters`: Reuters-21578, ModApte, 90 topics; a document can have several.
    - `ag-news`: news in 4 classes, a subset of train and the official test.
    - `dbpedia14`: abstracts in 14 classes, a subset.
    - `thucnews-titles`: titles of Chinese news in 10 classes.
    - `germeval2019`: German book blurbs in 8 genres, all of them in `train`.
    - `cranfield`, `cisi`, `medline`, `cacm`, `npl`, `nfcorpus`: abstracts with judged queries. The
      splits are `documents` and `queries`; queries without a relevant document are left out.
    - `tmc`: SIAM 2007 text mining, vectors of 500 binary terms; a document can have several of 22
      tags.
    - `cifar10`: CIFAR-10 as 256 principal components of MobileNetV2 features; labels 0 to 9.
    - `mnist`: MNIST as 784 grey values from 0 to 1; labels 0 to 9.
    - `hdm05`: motion capture (Müller et al. 2007), 11 actions. Each sequence is the 93 × 93
      covariance of the coordinates of 31 joints relative to the root, with a thousandth of the mean
      variance added to the diagonal. The actors in train are not those in test.
    - `eeg-erp`: event-related potentials as 32 × 32 covariances of 4 classes, in one split.

    Raises:
        ReadError: at once if there is no such data set, split or file, or no folder is named;
            while reading if a file is malformed.
    """
    if name not in DATASETS:
        raise ReadError(f"{name!r} is not a data set; the data sets are {', '.join(DATASETS)}")
    if split not in DATASETS[name]:
        raise ReadError(f"{name} has no split {split!r}; it has {', '.join(DATASETS[name])}")
    if name == "docstrings":
        return _docstrings(split)
    if name in JUDGED:
        return read_judged(_judged_files(name, split, data_root), split)
    read, pattern = _SOURCES[name]
    # Our own split of 20 Newsgroups is drawn from both files.
    is_own_split = pattern == NEWS and DATASETS[name] == TRAIN_VALIDATION_TEST
    parts = TRAIN_TEST if is_own_split else (_FILE_NAMES.get((name, split), split),)
    return read([find_file(name, pattern.format(split=part), data_root) for part in parts], split)


def is_judged(name: str, split: str) -> bool:
    """Return whether a split holds queries with relevance judgements."""
    return name in JUDGED and split in DATASETS[name] and split.startswith("queries")


def load_qrels(name: str, split: str = "queries", data_root: Path | None = None) -> Qrels | None:
    """Return the grades of the queries in a split, by query id and document id.

    Returns None if the split does not hold judged queries.

    Raises:
        ReadError: as for :func:`load_dataset`.
    """
    if not is_judged(name, split):
        return None
    if name == "docstrings":
        return read_questions(split)[1]
    return read_qrels(_judged_files(name, split, data_root)[1])


def find_file(name: str, file: str, data_root: Path | None) -> Path:
    """Return the path of `file` of the data set `name`.

    The folder is `data_root`, or else that which the environment variable :data:`VARIABLE` names.

    Raises:
        ReadError: if no data folder is named, or it has no such file.
    """
    root = data_root or os.environ.get(VARIABLE)
    if not root:
        message = f"pass --data-root FOLDER or set {VARIABLE} to the folder that holds {file}"
        raise ReadError(f"{name}: no data folder is named; {message}")
    path = Path(root, file)
    if not path.is_file():
        raise ReadError(f"{name}: there is no file {path}; is {root} the right data folder?")
    return path


def _docstrings(split: str) -> Iterator[Document]:
    if split == "documents":
        return read_docstrings(None)
    if split in TRAIN_TEST:
        return read_docstrings(split)
    return iter(read_questions(split)[0])


def _judged_files(name: str, split: str, data_root: Path | None) -> list[Path]:
    files = {
        "documents": ["corpus.jsonl.xz"],
        "queries": ["queries.jsonl.xz", "qrels.tsv"],
        "queries-development": ["dev.queries.jsonl.xz", "dev.qrels.tsv"],
        "queries-train": ["train.queries.jsonl.xz", "train.qrels.tsv.xz"],
    }[split]
    return [find_file(name, f"{name}/{file}", data_root) for file in files]


_Reader = Callable[[list[Path], str], Iterator[Document]]

NEWS = "20ng/{split}.jsonl.xz"

_FILE_NAMES = {("ag-news", "train"): "train_subset", ("thucnews-titles", "validation"): "dev"}
"""The names of files that are not named after their splits."""

_SOURCES: dict[str, tuple[_Reader, str]] = {
    "snippets": (read_labelled, "snippets/{split}.jsonl.xz"),
    "20news-bydate": (read_news_by_date, NEWS),
    "20news": (read_news, NEWS),
    "20news-headers": (read_news_with_headers, NEWS),
    "hwu64": (read_labelled, "hwu64/{split}.jsonl.xz"),
    "googlenews": (read_labelled, "googlenews/{split}.jsonl.xz"),
    "reuters": (read_labelled, "reuters_modapte90/{split}.jsonl.xz"),
    "ag-news": (read_labelled, "ag_news/{split}.jsonl.xz"),
    "dbpedia14": (read_labelled, "dbpedia14_subset/{split}.jsonl.xz"),
    "thucnews-titles": (read_labelled, "thucnews_titles/{split}.jsonl.xz"),
    "germeval2019": (read_labelled, "germeval2019_blurbs_de/dev_labelled.jsonl.xz"),
    "tmc": (read_tmc, "tmc/tmc2007-500.npz"),
    "cifar10": (read_cifar10, "cifar10/mobilenetv2_80px_pca256_f16.npz"),
    "mnist": (read_mnist, "mnist/mnist.npz"),
    "hdm05": (read_hdm05, "hdm05/hdm05_11actions.npz"),
    "eeg-erp": (read_eeg_erp, "eeg_erp/erp_cov32.npz"),
}
