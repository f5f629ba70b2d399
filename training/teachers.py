"""Teachers: they provide a vector for every document, which a student learns from.

A teacher is one of our encoders, a file of vectors, or a sentence-transformers model.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hummingbit.corpus.columns import load_arrays
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.artifact import MANIFEST, load_encoder
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import STATIC
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.errors import HummingbitError, install_command
from hummingbit.index.catalog import install_shipped, shipped_encoder
from hummingbit.training.data import TrainingData

SENTENCE_TRANSFORMERS = "sentence-transformers"
VECTOR_FILES = (".npy", ".npz", ".parquet")
_MAX_NAMED_IDS = 3


class TeacherError(HummingbitError, ValueError):
    """A teacher cannot be read or does not fit the corpus."""


@dataclass(frozen=True)
class Teacher:
    """A teacher's vectors of a corpus: row i of `vectors`, ``float32[N, E]``, is for document i.

    `kind` is ``encoder``, ``vectors`` or ``sentence-transformers``. `fingerprint` is that of an
    encoder, or the SHA-256 of a file or of a model's weights.
    """

    name: str
    kind: str
    fingerprint: str
    vectors: Floats

    def about(self) -> dict[str, Any]:
        """Return the description of the teacher that an artifact records."""
        return {
            "name": self.name,
            "kind": self.kind,
            "fingerprint": self.fingerprint,
            "dimension": self.vectors.shape[1],
        }


def read_teacher(source: str, data: TrainingData) -> Teacher:
    """Return the vectors of the teacher `source` for `data`.

    `source` is the first of these that applies:

    - a file ending in `.npy` (``[N, E]``, a row for each document in the corpus's order), `.npz`
      (`vectors`, and `ids` unless the rows are in that order) or `.parquet` (`id` and `vector`);
      ids that the corpus lacks are ignored;
    - the folder of an encoder, whose vectors are the relaxed bits 2σ(logit − threshold) − 1;
    - ``static``, the encoder that ships;
    - the name or folder of a sentence-transformers model; only safetensors weights are loaded.

    Raises:
        TeacherError: if it cannot be read, lacks the vector of a document, or a vector is not
            finite.
        ReadError: if a file does not have the format of its suffix.
        ArtifactError: if the encoder's folder is damaged.
        InputError: if the encoder does not accept the documents.
    """
    path = Path(source)
    if path.suffix.lower() in VECTOR_FILES:
        teacher = _read_file(path, data)
    elif (path / MANIFEST).is_file():
        teacher = _apply_encoder(path, load_encoder(path), data)
    elif source == STATIC:
        shipped = shipped_encoder()
        if shipped is None:
            missing = f"{STATIC} is the encoder that ships, which is not installed"
            raise TeacherError(f"{missing}; install it: {install_shipped()}")
        teacher = _apply_encoder(path, load_encoder(shipped), data)
    else:
        teacher = _apply_sentence_transformer(source, data)
    _check_vectors(teacher, data)
    return teacher


def check_directions(teacher: Teacher, data: TrainingData) -> None:
    """Check that every vector has a direction, which cosine dissimilarity needs.

    Raises:
        TeacherError: if a vector is zero. The message names some of the documents.
    """
    zero = np.flatnonzero(~teacher.vectors.any(axis=1))
    if len(zero):
        found = f"gives {len(zero):,} of the {len(data):,} documents a zero vector"
        names = _name_some([data.ids[row] for row in zero])
        raise TeacherError(
            f"{teacher.name} {found}, which has no direction for a cosine: {names}; leave them out"
        )


def save_vectors(path: Path, teacher: Teacher, data: TrainingData) -> None:
    """Write ids and vectors as an `.npz` archive, which can be used as a teacher.

    Raises:
        TeacherError: if `path` does not end in `.npz`, exists or cannot be written.
    """
    check_vectors_place(path)
    try:
        with path.open("xb") as file:
            np.savez(file, ids=np.array(data.ids), vectors=teacher.vectors)
    except OSError as error:
        raise TeacherError(f"{path}: {error.strerror or error}") from error


def check_vectors_place(path: Path) -> None:
    """Check that :func:`save_vectors` can write to `path`, before the vectors are computed.

    Raises:
        TeacherError: if `path` does not end in `.npz`, exists, or its folder does not.
    """
    if path.suffix != ".npz":
        raise TeacherError(f"{path}: a teacher's vectors are written as .npz; use that suffix")
    if path.exists():
        raise TeacherError(f"{path} already exists; choose another path")
    if not path.parent.is_dir():
        raise TeacherError(f"{path}: there is no folder {path.parent}")


def _read_file(path: Path, data: TrainingData) -> Teacher:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TeacherError(f"{path}: {error.strerror or error}") from error
    suffix = path.suffix.lower()
    if suffix == ".npy":
        vectors = _check_rows(path, _load_array(path), data)
    elif suffix == ".npz" and "ids" not in (arrays := load_arrays(path)):
        vectors = _check_rows(path, arrays.get("vectors"), data)
    else:
        vectors = _read_by_id(path, data)
    return Teacher(path.name, "vectors", digest, vectors)


def _load_array(path: Path) -> Any:
    try:
        # A file of Python objects would be a pickle; NumPy refuses it.
        return np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise TeacherError(f"{path}: cannot be read as an array: {error}") from error


def _check_rows(path: Path, array: Any, data: TrainingData) -> Floats:
    """Check that `array` has a row of numbers for each document, and return it as float32."""
    is_table = isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind in "fiu"
    if not is_table or not array.shape[1] or len(array) != len(data):
        found = (
            f"{array.dtype} of shape {list(array.shape)}"
            if isinstance(array, np.ndarray)
            else "not an array of vectors"
        )
        expected = f"numbers of shape [{len(data)}, E], a row for each document in order"
        raise TeacherError(f"{path}: is {found}; without ids it must be {expected}")
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype=np.float32)


def _read_by_id(path: Path, data: TrainingData) -> Floats:
    """Return the vectors of the documents of `data`, matched by id."""
    by_id = {
        document.id: document.vector
        for document in read_documents(path)
        if document.vector is not None
    }
    missing = [id_ for id_ in data.ids if id_ not in by_id]
    if missing:
        count = f"{len(missing):,} of the {len(data):,} documents"
        raise TeacherError(
            f"{path}: has no vector for {count}: {_name_some(missing)}; "
            f"it names {len(by_id):,} ids, such as {_name_some(list(by_id))}"
        )
    vectors = [by_id[id_] for id_ in data.ids]
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise TeacherError(f"{path}: vectors differ in length, from {lengths[0]} to {lengths[-1]}")
    return np.stack(vectors)


def _apply_encoder(path: Path, encoder: Encoder, data: TrainingData) -> Teacher:
    margins = encoder.margins(data.inputs)
    # tanh(m / 2) = 2σ(m) − 1.
    return Teacher(path.name, "encoder", encoder.fingerprint, np.tanh(margins / 2))


def _apply_sentence_transformer(source: str, data: TrainingData) -> Teacher:
    if isinstance(data.inputs, np.ndarray):
        raise TeacherError(
            f"{source!r} is neither a file of vectors ({', '.join(VECTOR_FILES)}) nor an encoder's "
            "folder; sentence-transformers models take texts, and the corpus holds vectors"
        )
    model = load_sentence_transformer(source)
    vectors = model.encode(
        [str(text) for text in data.inputs],
        convert_to_numpy=True,
        show_progress_bar=sys.stderr.isatty(),
    )
    name = Path(source).name if Path(source).is_dir() else source
    return Teacher(
        name,
        SENTENCE_TRANSFORMERS,
        hash_weights(model),
        np.asarray(vectors, dtype=np.float32),
    )


def load_sentence_transformer(source: str) -> Any:
    """Load a sentence-transformers model by its name or folder, on the CPU.

    Raises:
        TeacherError: if sentence-transformers is not installed, or there is no such model.
    """
    try:
        package = importlib.import_module("sentence_transformers")
    except ModuleNotFoundError as error:
        if error.name != "sentence_transformers":
            raise
        raise TeacherError(
            f"{source!r} is neither a file of vectors ({', '.join(VECTOR_FILES)}) nor an encoder's "
            f"folder; to load it as a model: {install_command('sentence-transformers')}"
        ) from None
    try:
        # Other formats of weights would be unpickled.
        return package.SentenceTransformer(
            source, device="cpu", model_kwargs={"use_safetensors": True}
        )
    except (OSError, ValueError) as error:
        raise TeacherError(f"{source}: cannot be loaded as a model: {error}") from error


def hash_weights(model: Any) -> str:
    """Return the SHA-256 of a model's weights, by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().float().numpy().tobytes())
    return digest.hexdigest()


def _check_vectors(teacher: Teacher, data: TrainingData) -> None:
    rows = np.flatnonzero(~np.isfinite(teacher.vectors).all(axis=1))
    if len(rows):
        found = f"gives {len(rows):,} of the {len(data):,} documents NaN or infinity"
        names = _name_some([data.ids[row] for row in rows])
        raise TeacherError(f"{teacher.name} {found}: {names}; every number must be finite")


def _name_some(ids: Sequence[str]) -> str:
    names = ", ".join(repr(id_)[:60] for id_ in ids[:_MAX_NAMED_IDS])
    more = len(ids) - _MAX_NAMED_IDS
    return f"{names} and {more:,} more" if more > 0 else names
