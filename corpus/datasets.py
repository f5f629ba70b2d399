"""The named data sets: public research data read from a folder, and the docstring corpus.

The folder is what `--data-root` or the variable `HUMMINGBIT_DATA` names; none is shipped.
A single-label document has one label, an id that is unique over all splits, and no payload.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from corpus.columns import Array, load_arrays
from corpus.docstrings import read_docstrings
from corpus.document import Document, DocumentError, parse_document
from corpus.lines import open_bytes, read_json_lines
from corpus.matrices import upper_triangle
from corpus.rows import BadLine, ReadError

VARIABLE = "HUMMINGBIT_DATA"
TRAIN_TEST = ("train", "test")
TRAIN_VALIDATION_TEST = ("train", "validation", "test")

DATASETS: Mapping[str, tuple[str, ...]] = {
    "docstrings": TRAIN_TEST,
    "snippets": TRAIN_TEST,
    "20news-bydate": TRAIN_TEST,
    "20news": TRAIN_VALIDATION_TEST,
    "20news-headers": TRAIN_VALIDATION_TEST,
    "tmc": TRAIN_TEST,
    "cifar10": TRAIN_TEST,
    "mnist": TRAIN_TEST,
    "hdm05": TRAIN_TEST,
    "eeg-erp": ("train",),
}
"""The splits of every named data set; :func:`load_dataset` says what each one is."""

SNIPPETS = "snippets/{split}.jsonl.xz"
NEWS = "20ng/{split}.jsonl.xz"
TMC = "tmc/tmc2007-500.npz"
CIFAR10 = "cifar10/mobilenetv2_80px_pca256_f16.npz"
MNIST = "mnist/mnist.npz"
HDM05 = "hdm05/hdm05_11actions.npz"
EEG_ERP = "eeg_erp/erp_cov32.npz"

NEWS_SEED = 0

# A sequence of few frames has a covariance of low rank: so much of the mean variance is added.
HDM05_RIDGE = 1e-3


def load_dataset(name: str, split: str, data_root: Path | None = None) -> Iterator[Document]:
    """Yield the documents of one split of a named data set, always in the same order.

    - `docstrings`: the docstrings of the installed packages (:mod:`corpus.docstrings`); no folder.
    - `snippets`: Google web snippets in 8 classes (Phan et al. 2008), the official split.
    - `20news-bydate`: 20 Newsgroups, the split by date, headers stripped: everything up to the
      first blank line goes, as in scikit-learn's ``strip_newsgroup_header``.
    - `20news`, `20news-headers`: all 18,846 posts, headers stripped or kept, split 60/20/20 at
      random with a fixed seed: posts are ranked by the SHA-256 of ``"0:" + id``, the first
      11,307 are train, the next 3,769 validation, the last 3,770 test.
    - `tmc`: SIAM 2007 text mining, vectors of 500 binary terms, several of 22 tags a document.
    - `cifar10`: CIFAR-10 as 256 principal components of MobileNetV2 features; labels 0 to 9.
    - `mnist`: MNIST as 784 grey values from 0 to 1; labels 0 to 9.
    - `hdm05`: motion capture (Müller et al. 2007), 11 actions; of each sequence the 93 × 93
      covariance of the coordinates of 31 joints relative to the root, with a thousandth of the mean
      variance added to the diagonal. Other people act in train than in test.
    - `eeg-erp`: event-related potentials as 32 × 32 covariances of 4 classes, without a split.

    Raises:
        ReadError: at once if there is no such data set, split or file, or no folder is named;
            while reading if the file is not what it should be.
    """
    if name not in DATASETS:
        raise ReadError(f"{name!a} is not a data set; they are {', '.join(DATASETS)}")
    if split not in DATASETS[name]:
        raise ReadError(f"{name} has no split {split!a}; it has {', '.join(DATASETS[name])}")
    if name == "docstrings":
        return read_docstrings(split)
    read, pattern = _SOURCES[name]
    both = "{split}" in pattern and DATASETS[name] == TRAIN_VALIDATION_TEST
    needed = TRAIN_TEST if both else (split,)
    paths = [find_file(name, pattern.format(split=part), data_root) for part in needed]
    return read(paths, split)


def find_file(name: str, file: str, data_root: Path | None) -> Path:
    """Return where `file` of the data set `name` lies, by default in the folder of `VARIABLE`.

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


def _read_text(paths: list[Path], _split: str) -> Iterator[Document]:
    for path in paths:
        yield from _json_documents(path)


def _read_news_by_date(paths: list[Path], _split: str) -> Iterator[Document]:
    for path in paths:
        yield from map(_strip_header, _json_documents(path))


def _read_news(paths: list[Path], split: str) -> Iterator[Document]:
    return map(_strip_header, _read_news_with_headers(paths, split))


def _read_news_with_headers(paths: list[Path], split: str) -> Iterator[Document]:
    posts = {post.id: post for path in paths for post in _json_documents(path)}
    # Ranked by a hash, because a library's random numbers may change between its releases.
    ranked = sorted(posts, key=lambda id_: hashlib.sha256(f"{NEWS_SEED}:{id_}".encode()).digest())
    train, validation = len(ranked) * 6 // 10, len(ranked) * 2 // 10
    start, stop = {
        "train": (0, train),
        "validation": (train, train + validation),
        "test": (train + validation, len(ranked)),
    }[split]
    chosen = set(ranked[start:stop])
    for post in posts.values():
        if post.id in chosen:
            yield post


def _strip_header(post: Document) -> Document:
    _, _, body = (post.text or "").partition("\n\n")
    return Document(id=post.id, text=body, labels=post.labels)


def _json_documents(path: Path) -> Iterator[Document]:
    try:
        with open_bytes(path) as stream:
            for row in read_json_lines(stream, str(path)):
                if row.reason is not None:
                    raise ReadError(str(BadLine(str(path), row.line, row.reason)))
                try:
                    document = parse_document(row.record)
                except DocumentError as error:
                    raise ReadError(str(BadLine(str(path), row.line, str(error)))) from None
                yield document
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None


def _read_tmc(paths: list[Path], split: str) -> Iterator[Document]:
    (path,) = paths
    start, terms, tags = f"x_{split}_indptr", f"x_{split}_indices", f"y_{split}"
    arrays = load_arrays(path, (start, terms, tags, "feature_names", "label_names"))
    starts, names = arrays[start].tolist(), arrays["label_names"]
    _check_rows(path, tags, arrays[tags], len(starts) - 1)
    for place, tagged in enumerate(arrays[tags]):
        vector = np.zeros(len(arrays["feature_names"]), dtype=np.float32)
        vector[arrays[terms][starts[place] : starts[place + 1]]] = 1.0
        labels = tuple(str(label) for label in names[np.flatnonzero(tagged)])
        yield Document(id=f"{split}-{place:05d}", vector=vector, labels=labels)


def _read_cifar10(paths: list[Path], split: str) -> Iterator[Document]:
    (path,) = paths
    arrays = load_arrays(path, (split, f"{split}_index", f"y_{split}"))
    ids = [f"{split}-{index:05d}" for index in arrays[f"{split}_index"].tolist()]
    labels = arrays[f"y_{split}"]
    _check_rows(path, f"y_{split}", labels, len(ids))
    _check_rows(path, split, arrays[split], len(ids))
    for id_, vector, label in zip(ids, arrays[split], labels.tolist(), strict=True):
        yield Document(id=id_, vector=vector.astype(np.float32), labels=(str(label),))


def _read_mnist(paths: list[Path], split: str) -> Iterator[Document]:
    (path,) = paths
    arrays = load_arrays(path, (f"x_{split}", f"y_{split}"))
    images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
    _check_rows(path, f"y_{split}", labels, len(images))
    for place, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        vector = image.reshape(-1).astype(np.float32) / np.float32(255)
        yield Document(id=f"{split}-{place:05d}", vector=vector, labels=(str(label),))


def _read_hdm05(paths: list[Path], split: str) -> Iterator[Document]:
    (path,) = paths
    arrays = load_arrays(path, ("joints30", "offsets", "label", "split", "name"))
    starts = arrays["offsets"].tolist()
    for name in ("label", "split", "name"):
        _check_rows(path, name, arrays[name], len(starts) - 1)
    for place in np.flatnonzero(arrays["split"] == split).tolist():
        joints = arrays["joints30"][starts[place] : starts[place + 1]].astype(np.float64)
        moved = (joints - joints[:, :1]).reshape(len(joints), -1)
        covariance = np.cov(moved, rowvar=False)
        covariance += HDM05_RIDGE * covariance.trace() / len(covariance) * np.eye(len(covariance))
        label, name = str(arrays["label"][place]), str(arrays["name"][place])
        yield _matrix_document(path, name, covariance, label)


def _read_eeg_erp(paths: list[Path], _split: str) -> Iterator[Document]:
    (path,) = paths
    arrays = load_arrays(path, ("cov", "label"))
    _check_rows(path, "label", arrays["label"], len(arrays["cov"]))
    for place, covariance in enumerate(arrays["cov"]):
        label = str(arrays["label"][place])
        yield _matrix_document(path, f"trial-{place:03d}", covariance, label)


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


_Reader = Callable[[list[Path], str], Iterator[Document]]

_SOURCES: dict[str, tuple[_Reader, str]] = {
    "snippets": (_read_text, SNIPPETS),
    "20news-bydate": (_read_news_by_date, NEWS),
    "20news": (_read_news, NEWS),
    "20news-headers": (_read_news_with_headers, NEWS),
    "tmc": (_read_tmc, TMC),
    "cifar10": (_read_cifar10, CIFAR10),
    "mnist": (_read_mnist, MNIST),
    "hdm05": (_read_hdm05, HDM05),
    "eeg-erp": (_read_eeg_erp, EEG_ERP),
}
