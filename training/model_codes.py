"""``hummingbit train model``: codes of what a language model knows.

The model reads every document once. A head, one linear map with a threshold for every bit, turns
the vectors into codes (:func:`fit_head`), or bits are chosen so that a linear map reconstructs the
vectors (:func:`fit_reconstruction`). It learns from the vectors and from queries that are made
of some documents (:func:`make_queries`). With labels, the head may be class codes instead
(:mod:`hummingbit.training.class_codes`). The encoder contains the model, its tokenizer and the
head, so it turns texts into codes with nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

import numpy as np

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.artifact import check_destination
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.encoder import Encoder, LanguageModel, Layer
from hummingbit.encoder.endpoint import (
    EndpointModel,
    check_url,
    embed,
    is_endpoint,
    probe_of,
)
from hummingbit.encoder.recipes import (
    AUTO,
    CLASS_CODES,
    RECONSTRUCTION,
    ClassCodeRecipe,
    ClassHeadRecipe,
    ModelRecipe,
    RecipeError,
)
from hummingbit.encoder.reconstruction import Reconstruction, descend, factors_of, signs
from hummingbit.encoder.text_features import Floats, split_sentences, summary_of
from hummingbit.encoder.text_model import ModelError, TextModel
from hummingbit.foundation.arrays import unit_rows
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage, count_in_stage
from hummingbit.training.data import TrainingData, TrainingDataError
from hummingbit.training.linear_codes import MadeQueries, itq_rotation
from hummingbit.training.model_folders import ModelFolder, in_8_bits, read_model
from hummingbit.training.pipeline import (
    Split,
    Trained,
    check_labels,
    one_blas_thread,
    split,
    write_encoder,
)
from hummingbit.training.teachers import Teacher, check_vectors_place, save_vectors
from hummingbit.training.text_features import have_more_terms

if TYPE_CHECKING:
    from hummingbit.training.class_codes import FittedClassCodes

Progress = Callable[[str], None]

WIDTHS = (64, 128, 256)
"""The codes of these many bits are prefixes of one another, and of all longer codes."""

_DOCUMENTS_AT_ONCE = 256
# The documents that queries are made of.
_ASKED = 4_000


@one_blas_thread()
def train_model(
    data: TrainingData,
    recipe: ModelRecipe,
    out: Path,
    *,
    vectors_file: Path | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _: None,
) -> Trained:
    """Learn codes of the texts of `data` from the language model of the `recipe`, and write them.

    The vectors of the documents are kept in a file beside `out` while they are computed, so a run
    that was interrupted goes on where it stopped. They are also written to `vectors_file`, an
    ``.npz`` with `ids` and `vectors`, if it is given. `progress` is called with a line for each
    trial of class codes.

    Raises:
        RecipeError: if the recipe names no model.
        TrainingDataError: if the documents are not texts, or fewer than bits.
        ModelError: if the model cannot be read.
        ArtifactError: if `out` exists and `overwrite` is false.
        TeacherError: if `vectors_file` exists or cannot be written.
    """
    check_destination(out, overwrite=overwrite)
    if vectors_file is not None:
        check_vectors_place(vectors_file)
    if not data.is_text:
        raise TrainingDataError("a language model reads texts, and the documents are vectors")
    if len(data) < recipe.n_bits:
        found = counted(len(data), "document")
        raise TrainingDataError(f"n_bits is {recipe.n_bits}, more than {found} can fill")
    begin_stage(f"reading {recipe.model}")
    folder = _read_model(recipe)
    model = folder.features
    if recipe.n_bits > model.dimension:
        found = f"the model's vectors have {counted(model.dimension, 'number')}"
        raise TrainingDataError(f"n_bits is {recipe.n_bits}; {found}, and a bit needs one")
    parts = split(data, recipe)
    _check_classes(data, parts, recipe)
    texts = [str(text) for text in data.inputs]
    saved = out.with_name(f"{out.name}.vectors")
    vectors, n_cut = read_documents(folder, texts, data.sha256, saved)
    if vectors_file is not None:
        save_vectors(vectors_file, Teacher(folder.name, "model", folder.sha256, vectors), data)
    if isinstance(model, EndpointModel):
        model = probe_of(model, texts, vectors)
    begin_stage(f"fitting {recipe.n_bits} bits")
    encoder, choice = _fit_encoder(model, data, vectors, parts, recipe=recipe, progress=progress)
    encoder, about_precision, precision_note = _with_precision(encoder, texts, vectors, recipe)
    weight = recipe.hybrid_weight or None
    trained = write_encoder(
        out,
        replace(encoder, hybrid_weight=weight),
        data,
        parts,
        settings={**asdict(recipe), "model": _where(folder)},
        vectors=vectors,
        about={
            "model": _about(folder) | about_precision,
            "longer_texts": n_cut,
            **({"chosen": choice} if choice else {}),
        },
        overwrite=overwrite,
    )
    saved.unlink(missing_ok=True)
    notes = [precision_note] if precision_note else []
    if "word_share" in choice:
        share = choice["word_share"]
        notes.append(f"share of words beside the model's vectors, in telling classes: {share:g}")
    trained = replace(trained, notes=tuple(notes))
    if not n_cut:
        return trained
    cut = f"{n_cut:,} of the {counted(len(texts), 'text')} ({n_cut / len(texts):.0%}) are longer"
    warning = f"{cut} than the {model.max_tokens} tokens that the model reads; it reads the first"
    return replace(trained, warnings=(*trained.warnings, warning))


def _check_classes(data: TrainingData, parts: Split, recipe: ModelRecipe) -> None:
    if recipe.head == CLASS_CODES:
        if data.is_multi_label:
            problem = "documents have several labels; the head class-codes takes one label each"
            raise TrainingDataError(f"label: {problem}")
        check_labels(data, parts, recipe.validation_share)


def _fit_classes(
    data: TrainingData, vectors: Floats, parts: Split, recipe: ModelRecipe, progress: Progress
) -> FittedClassCodes:
    """Return class codes over the vectors and, if these have a share, the words."""
    # It imports scikit-learn, which other heads do not need.
    from hummingbit.training.class_codes import fit_class_codes  # noqa: PLC0415

    texts = data.take(parts.training)
    common = {declared.name: getattr(recipe, declared.name) for declared in fields(ClassHeadRecipe)}
    classes = ClassCodeRecipe(**{**common, "method": CLASS_CODES})
    analyzer = Analyzer.from_name(recipe.analyzer)
    if recipe.word_share and have_more_terms(map(str, texts), 0, analyzer):
        share = recipe.word_share
        return fit_class_codes(
            data, parts, classes, vectors=vectors, word_share=share, progress=progress
        )
    return fit_class_codes(replace(data, inputs=vectors), parts, classes, progress=progress)


def _fit_encoder(
    model: LanguageModel,
    data: TrainingData,
    vectors: Floats,
    parts: Split,
    *,
    recipe: ModelRecipe,
    progress: Progress,
) -> tuple[Encoder, dict[str, Any]]:
    """Return the encoder of `model` with the head of the `recipe`, and what trials chose."""
    if recipe.head == CLASS_CODES:
        fitted = _fit_classes(data, vectors, parts, recipe, progress)
        return replace(fitted.encoder, features=model), fitted.chosen
    known = vectors[parts.training]
    if recipe.head == RECONSTRUCTION:
        blocks = fit_reconstruction(known, recipe.n_bits, recipe.seed)
        zeros: Floats = np.zeros(recipe.n_bits, dtype=np.float32)
        layer = Layer(blocks.decoder, zeros, "identity")
        return Encoder(model, [layer], zeros, {}, reconstruction=blocks), {}
    queries = None
    if recipe.head == "sne":
        queries = make_queries(model, [*map(str, data.take(parts.training))], recipe.seed)
    layer, thresholds = fit_head(known, recipe.n_bits, recipe.seed, recipe.head, queries)
    return Encoder(model, [layer], thresholds, {}), {}


@dataclass(frozen=True, eq=False)
class ModelAtEndpoint:
    """A model at an endpoint; `sha256`, of the URL and the name, stands for that of a file."""

    name: str
    sha256: str
    features: EndpointModel


ReadModel = ModelFolder | ModelAtEndpoint


def _where(folder: ReadModel) -> str:
    """Return what a recipe names a model by."""
    return folder.features.url if isinstance(folder.features, EndpointModel) else folder.name


def _about(folder: ReadModel) -> dict[str, str]:
    """Return what the metadata say about a model."""
    if isinstance(folder.features, EndpointModel):
        return {"name": folder.name, "endpoint": folder.features.url}
    return {"name": folder.name, "sha256": folder.sha256}


def _read_model(recipe: ModelRecipe) -> ReadModel:
    """Return the model in the folder, or at the endpoint, of the recipe.

    Raises:
        RecipeError: if no model is given, an endpoint's has no name, or a folder's has one.
        ModelError, EndpointError: if it cannot be read, or the endpoint fails.
    """
    if not recipe.model:
        raise RecipeError("model is empty; it must be the folder of a language model")
    if is_endpoint(recipe.model):
        return _read_endpoint(recipe)
    if recipe.model_name:
        raise RecipeError("model_name is that of an endpoint's model; model is a folder")
    return read_model(
        Path(recipe.model),
        max_tokens=recipe.max_tokens or None,
        dimension=recipe.dimension or None,
        query_prompt=_given(recipe.query_prompt),
        document_prompt=_given(recipe.document_prompt),
    )


def _read_endpoint(recipe: ModelRecipe) -> ModelAtEndpoint:
    if not recipe.model_name:
        raise RecipeError("model_name is empty; an endpoint needs the name of a model")
    url = check_url(recipe.model)
    n_numbers = embed(url, recipe.model_name, ["dimension"], attempts=2).shape[1]
    if recipe.dimension > n_numbers:
        found = f"dimension is {recipe.dimension}; {url} returns vectors of"
        raise RecipeError(f"{found} {counted(n_numbers, 'number')}")
    model = EndpointModel(
        url,
        recipe.model_name,
        recipe.dimension or n_numbers,
        query_prompt=_given(recipe.query_prompt) or "",
        document_prompt=_given(recipe.document_prompt) or "",
        max_tokens=recipe.max_tokens,
    )
    digest = sha256(f"{url}\n{model.name}".encode()).hexdigest()
    return ModelAtEndpoint(model.name, digest, model)


def _given(prompt: str) -> str | None:
    """Return a prompt of the recipe; None for that of the model."""
    return None if prompt == AUTO else prompt


def fit_head(
    vectors: Floats,
    n_bits: int,
    seed: int,
    method: str = "sne",
    queries: MadeQueries | None = None,
) -> tuple[Layer, Floats]:
    """Return the layer and the thresholds that turn `vectors` ``(N, D)`` into `n_bits` bits.

    The first 64 bits begin as those of iterative quantization (ITQ): the vectors are centred, and
    their first 64 principal directions are rotated to lose least when rounded to bits. The next 64
    bits are half of the 128 of ITQ on the first 128 directions, and so on for the :data:`WIDTHS`.
    Bits of the directions 65 to 128 alone would find less: a query differs from documents in these
    most. With the `method` ``sne``, the first 256 bits are then changed so that those of each width
    keep the nearest neighbours (:func:`hummingbit.training.networks.fit_neighbour_map`) of the
    `queries`, or without these of vectors with noise. So the first 64 bits of a longer code are the
    code of 64 bits.

    Source: Gong and Lazebnik, "Iterative Quantization" (2011); the rotation is faiss's.
    """
    if method == "sne":
        from hummingbit.training.networks import fit_neighbour_map  # noqa: PLC0415 - torch

        most = min(vectors.shape)
        widths = [width for width in WIDTHS if width <= most] if n_bits >= WIDTHS[0] else [n_bits]
        n_learned = min(max(widths), most)
        weight, thresholds = _nested_itq(vectors, max(n_learned, n_bits), seed)
        # All columns get one size, for the ranking by the query's real values.
        first = weight[:, :n_learned], thresholds[:n_learned]
        size = np.sqrt(np.square(vectors @ first[0] - first[1]).mean())
        weight, thresholds = weight / size, thresholds / size
        first = weight[:, :n_learned], thresholds[:n_learned]
        learned, learned_thresholds = fit_neighbour_map(
            vectors, *first, seed, widths, queries=queries
        )
        weight = np.hstack([learned, weight[:, n_learned:]])
        thresholds = np.concatenate([learned_thresholds, thresholds[n_learned:]])
    else:
        weight, thresholds = _nested_itq(vectors, n_bits, seed)
    bias = np.zeros(n_bits, dtype=np.float32)
    weight = np.ascontiguousarray(weight[:, :n_bits], dtype=np.float32)
    return Layer(weight, bias, "identity"), np.asarray(thresholds[:n_bits], dtype=np.float32)


def _nested_itq(vectors: Floats, n_bits: int, seed: int) -> tuple[Floats, Floats]:
    """Return weights ``(D, B)`` and thresholds ``(B,)``; see :func:`fit_head`."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    centred = vectors - mean
    variances, directions = np.linalg.eigh(centred.T @ centred)
    # The largest variance first. Of the two signs, eigh may return either; a rule chooses one.
    directions = directions[:, np.argsort(-variances, kind="stable")]
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(len(variances))])
    widths = [width for width in WIDTHS if width < n_bits]
    blocks = []
    for start, end in pairwise([0, *widths, n_bits]):
        # All codes longer than `start` take bits of the same rotation, whatever their length.
        whole = min((width for width in WIDTHS if width > start), default=len(variances))
        some = directions[:, : whole if start else end]
        rotation = itq_rotation(np.asarray(centred @ some, dtype=np.float32), seed)
        blocks.append((some @ rotation)[:, : end - start])
    weight = np.hstack(blocks)
    return weight.astype(np.float32), np.asarray(mean @ weight, dtype=np.float32)


# The turns of a fit, and the documents that it learns from, at most.
_TURNS, _FITTED = 10, 50_000
# Least squares shrinks a decoder by this share of the documents, so that few documents suffice.
_RIDGE = 0.01


def fit_reconstruction(vectors: Floats, n_bits: int, seed: int) -> Reconstruction:
    """Learn codes of `n_bits` from which a linear map reconstructs `vectors`, ``float32[N, D]``.

    The bits of a block begin as iterative quantization of what the blocks before it leave. The
    decoder and the bits are then found in turns: the decoder by least squares, the bits one after
    the other. Blocks end at the :data:`WIDTHS`, so the first 64 bits of a longer code are the code
    of 64 bits.
    """
    if len(vectors) > _FITTED:
        vectors = vectors[np.random.default_rng(seed).permutation(len(vectors))[:_FITTED]]
    vectors = unit_rows(vectors)
    mean = vectors.mean(axis=0)
    decoded = np.tile(mean, (len(vectors), 1))
    scales: Floats = np.ones((len(vectors), 1), dtype=np.float32)
    ends = [*(width for width in WIDTHS if width < n_bits), n_bits]
    decoders, lengths = [], []
    for start, end in pairwise([0, *ends]):
        left = scales * vectors - decoded
        _, directions = np.linalg.eigh(left.T @ left)
        first = directions[:, ::-1][:, : end - start]
        rotation = itq_rotation(np.asarray(left @ first, dtype=np.float32), seed)
        bits: Floats = signs(left @ (first @ rotation))
        for _ in range(_TURNS):
            left = scales * vectors - decoded
            decoder = _least_squares(bits, left)
            descend(bits, (left - bits @ decoder) @ decoder.T, decoder @ decoder.T)
            now = decoded + bits @ decoder
            squares = np.square(now).sum(axis=1, keepdims=True)
            length = float(np.sqrt(squares).mean())
            scales *= factors_of(squares, length)
            scales /= scales.mean()
        decoded = now
        decoders.append(decoder)
        lengths.append(length)
    weight = np.ascontiguousarray(np.vstack(decoders).T)
    return Reconstruction(weight, mean, ends, np.array(lengths, dtype=np.float32))


def _least_squares(bits: Floats, targets: Floats) -> Floats:
    """Return C for which bᵀC are nearest to the targets."""
    ridge = np.eye(bits.shape[1], dtype=np.float32) * (_RIDGE * len(bits))
    return np.linalg.solve(bits.T @ bits + ridge, bits.T @ targets).astype(np.float32)


MOST_LOST = 0.005
"""What a model in 8 bits may lose of nDCG@10."""
_COMPARED, _COMPARED_ASKED = 2_000, 250


def _with_precision(
    encoder: Encoder, texts: Sequence[str], vectors: Floats, recipe: ModelRecipe
) -> tuple[Encoder, dict[str, Any], str]:
    """Return the encoder with its model in the precision of the `recipe`.

    Also return what the metadata say of it, and a sentence.

    Raises:
        ModelError: if int8 is asked for and the model cannot be quantized.
    """
    model = encoder.features
    if not isinstance(model, TextModel) or model.precision == "int8":
        return encoder, {"precision": "int8"} if isinstance(model, TextModel) else {}, ""
    if recipe.precision == "float32":
        return encoder, {}, ""
    begin_stage("bringing the model to 8 bits")
    try:
        smaller = in_8_bits(model)
    except ModelError as error:
        if recipe.precision == "int8":
            raise
        return encoder, {}, f"the model has float32: {error}"
    in_8 = replace(encoder, features=smaller)
    sizes = f"{len(smaller.model) / 1e6:,.0f} MB in place of {len(model.model) / 1e6:,.0f}"
    if recipe.precision == "int8":
        return in_8, {"precision": "int8"}, f"the model has 8 bits: {sizes}"
    before, after, n_queries = compare_precisions(encoder, in_8, texts, vectors, recipe.seed)
    about = {"ndcg_at_10": {"float32": before, "int8": after, "queries": n_queries}}
    asked = counted(n_queries, "made query", "made queries")
    found = f"nDCG@10 of {asked} is {after:.3f} with 8 bits, {before:.3f} with float32"
    if before - after < MOST_LOST:
        return in_8, {"precision": "int8", **about}, f"the model has 8 bits ({sizes}): {found}"
    return encoder, about, f"the model has float32: {found}"


def compare_precisions(
    encoder: Encoder, other: Encoder, texts: Sequence[str], vectors: Floats, seed: int
) -> tuple[float, float, int]:
    """Return the nDCG@10 of two encoders of one head, and the number of queries.

    Queries are made of some documents (:func:`make_queries`), and each must find its document among
    up to 2,000, by its real values. `vectors`, ``float32[N, D]``, are those of the documents by the
    model of `encoder`; the model of `other` reads the documents.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(texts))[:_COMPARED]
    queries = _queries_of([texts[row] for row in rows[:_COMPARED_ASKED]], rng)
    asked = np.repeat(np.arange(len(queries) // 4), 4)
    figures = []
    for part in (encoder, other):
        model = cast("TextModel", part.features)
        some = [texts[row] for row in rows]
        known = vectors[rows] if part is encoder else _read(model.transform, some)
        signs = unpack_codes(part.encode_features(known, some)).astype(np.float32) * 2 - 1
        weights = part.query_weights_of_vectors(_read_queries(model, queries), queries)
        scores = weights @ signs.T
        own = scores[np.arange(len(queries)), asked]
        # Documents of equal score come before and after in turns.
        before = (scores > own[:, None]).sum(axis=1)
        ranks = 1 + before + ((scores == own[:, None]).sum(axis=1) - 1) / 2
        figures.append(float(np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0).mean()))
    return figures[0], figures[1], len(queries)


def _read(transform: Callable[[list[str]], Floats], texts: Sequence[str]) -> Floats:
    starts = range(0, len(texts), _DOCUMENTS_AT_ONCE)
    return np.vstack([transform([*texts[start : start + _DOCUMENTS_AT_ONCE]]) for start in starts])


def _read_queries(model: LanguageModel, texts: Sequence[str]) -> Floats:
    return _read(lambda some: model.transform_queries(some)[0], texts)


def make_queries(model: LanguageModel, texts: Sequence[str], seed: int) -> MadeQueries:
    """Return four queries of each of up to 4,000 `texts`, as the model reads queries.

    They are a sentence, the title with the first sentence, and some words of each of these.
    """
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(texts))[:_ASKED])
    begin_stage(f"reading queries made of {counted(len(rows), 'document')}")
    queries = _queries_of([texts[row] for row in rows], rng)
    vectors = _read_queries(model, queries)
    return MadeQueries(np.repeat(rows, 4), vectors)


def _queries_of(texts: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return four queries of each text, one text after another."""
    queries = []
    for text in texts:
        sentences = [sentence for sentence in split_sentences(text) if len(sentence.split()) > 2]
        drawn = [str(rng.choice(sentences)) if sentences else text for _ in range(2)]
        summary = summary_of(text)
        queries += [drawn[0], summary, _some_words(drawn[1], rng), _some_words(summary, rng)]
    return queries


def _some_words(text: str, rng: np.random.Generator) -> str:
    """Return three to eight words of `text` in their order; short words only if it has no other."""
    words = [word for word in text.split() if len(word) > 2] or text.split()
    count = min(len(words), int(rng.integers(3, 9)))
    return " ".join(words[i] for i in np.sort(rng.permutation(len(words))[:count]))


def read_documents(
    folder: ReadModel, texts: Sequence[str], digest: str, saved: Path
) -> tuple[Floats, int]:
    """Return the vectors of the documents, and how many are longer than what the model reads.

    The vectors are appended to the file `saved` as they are computed. If the same run was
    interrupted, those that it has are read from there.
    """
    model = folder.features
    settings = {
        name: getattr(model, name)
        for name in ("dimension", "pooling", "max_tokens", "document_prompt", "l2_normalize")
        if hasattr(model, name)
    }
    run = json.dumps({"model": folder.sha256, "data": digest, **settings}, sort_keys=True)
    vectors = np.zeros((len(texts), model.dimension), dtype=np.float32)
    n_cut = 0
    title = f"reading {counted(len(texts), 'document')} with the model"
    with _VectorFile(saved, run, vectors) as file, count_in_stage(title, len(texts)) as count:
        for start in range(0, len(texts), _DOCUMENTS_AT_ONCE):
            some = slice(start, min(start + _DOCUMENTS_AT_ONCE, len(texts)))
            is_done = some.stop <= file.n_done
            if isinstance(model, EndpointModel):
                n_cut += sum(map(model.is_cut, texts[some]))
                if not is_done:
                    vectors[some] = model.transform(texts[some])
            else:
                tokenized = model.tokenize(texts[some], model.document_prompt)
                n_cut += sum(text.is_cut for text in tokenized)
                if not is_done:
                    vectors[some] = model.vectors([text.ids for text in tokenized])
            if not is_done:
                file.append(some)
            count(some.stop - start)
    return vectors, n_cut


class _VectorFile:
    """Vectors on disk while they are computed: a line that names the run, then the rows.

    At first it fills `vectors` with the whole batches that an earlier run of the same name wrote.
    """

    def __init__(self, path: Path, run: str, vectors: Floats) -> None:
        self._path, self._vectors = path, vectors
        self._header = f"{run}\n".encode()
        self.n_done = 0

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        row = self._vectors[:1].nbytes
        with suppress(FileNotFoundError):
            contents = self._path.read_bytes()
            if contents.startswith(self._header):
                n_rows = (len(contents) - len(self._header)) // row
                n_rows -= n_rows % _DOCUMENTS_AT_ONCE if n_rows < len(self._vectors) else 0
                self.n_done = min(n_rows, len(self._vectors))
                rows = np.frombuffer(
                    contents, np.float32, self.n_done * self._vectors.shape[1], len(self._header)
                )
                self._vectors[: self.n_done] = rows.reshape(-1, self._vectors.shape[1])
        self._file: BinaryIO = self._path.open("r+b" if self.n_done else "w+b")
        if self.n_done:
            self._file.truncate(len(self._header) + self.n_done * row)
            self._file.seek(0, os.SEEK_END)
        else:
            self._file.write(self._header)
        return self

    def append(self, some: slice) -> None:
        """Write these rows, which follow those that are written, and sync them."""
        self._file.write(self._vectors[some].tobytes())
        self._file.flush()
        os.fsync(self._file.fileno())

    def __exit__(self, *_: object) -> None:
        self._file.close()
