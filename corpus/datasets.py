"""The named data sets: public research data read from a folder, and the docstring corpus.

`--data-root` or the environment variable `HUMMINGBIT_DATA` names the folder. The data are not part
of hummingbit. Ids are unique over all splits of a data set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from corpus.docstrings import read_docstrings
from corpus.document import Document
from corpus.named_sets.array_sets import (
    read_cifar10,
    read_eeg_erp,
    read_hdm05,
    read_mnist,
    read_tmc,
)
from corpus.named_sets.text_sets import (
    QUESTION_SPLITS,
    Qrels,
    read_judged,
    read_labelled,
    read_news,
    read_news_by_date,
    read_news_with_headers,
    read_qrels,
    read_questions,
)
from corpus.rows import ReadError

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

    - `docstrings`: the docstrings of installed packages (:mod:`corpus.docstrings`), which need no
      folder. `documents` is all of them; `queries`, `queries-development`, `queries-test` and
      `queries-simple` are everyday questions (:func:`corpus.named_sets.text_sets.read_questions`).
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
