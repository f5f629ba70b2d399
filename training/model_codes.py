"""``hummingbit train model``: codes of what a language model knows.

The model reads every document once. A head, one linear map with a threshold for every bit, turns
the vectors into codes (:func:`fit_head`). Some documents are then searched for by sentences of
their own, which are left out of them, and the weight of codes in the hybrid ranking is the one that
finds the most (:func:`choose_hybrid_weight`). The encoder contains the model, its tokenizer and the
head, so it turns texts into codes with nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.artifact import check_destination
from hummingbit.encoder.codes import pack_bits
from hummingbit.encoder.encoder import Encoder, LanguageModel, Layer
from hummingbit.encoder.endpoint import (
    EndpointModel,
    check_url,
    embed,
    is_endpoint,
    probe_of,
)
from hummingbit.encoder.recipes import AUTO, ModelRecipe, RecipeError
from hummingbit.encoder.text_features import Floats, split_sentences, title_of
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage, checkpoint, count_in_stage
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.rankings import HybridRanking
from hummingbit.index.records import EncodedQueries
from hummingbit.training.data import TrainingData, TrainingDataError
from hummingbit.training.linear_codes import itq_rotation
from hummingbit.training.model_folders import ModelFolder, read_model
from hummingbit.training.pipeline import Trained, split, write_encoder
from hummingbit.training.teachers import Teacher, check_vectors_place, save_vectors

WIDTHS = (64, 128, 256)
"""The codes of these many bits are prefixes of one another, and of all longer codes."""
WEIGHTS = (0.4, 0.6, 1.0, 1.6, 2.5, 4.0, 6.0)
"""The weights of codes that are tried, beside 1 for words."""

_DOCUMENTS_AT_ONCE = 256
# The documents that are searched for, and those that they are searched among.
_SOUGHT, _SEARCHED = 400, 20_000
# A sentence of fewer words may be said of any document.
_LEAST_WORDS = 3


def train_model(
    data: TrainingData,
    recipe: ModelRecipe,
    out: Path,
    *,
    vectors_file: Path | None = None,
    overwrite: bool = False,
) -> Trained:
    """Learn codes of the texts of `data` from the language model of the `recipe`, and write them.

    The vectors of the documents are kept in a file beside `out` while they are computed, so a run
    that was interrupted goes on where it stopped. They are also written to `vectors_file`, an
    ``.npz`` with `ids` and `vectors`, if it is given.

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
    texts = [str(text) for text in data.inputs]
    saved = out.with_name(f"{out.name}.vectors")
    vectors, n_cut = read_documents(folder, texts, data.sha256, saved)
    if vectors_file is not None:
        save_vectors(vectors_file, Teacher(folder.name, "model", folder.sha256, vectors), data)
    if isinstance(model, EndpointModel):
        model = probe_of(model, texts, vectors)
    parts = split(data, recipe)
    begin_stage(f"fitting {recipe.n_bits} bits")
    layer, thresholds = fit_head(vectors[parts.training], recipe.n_bits, recipe.seed, recipe.head)
    weight = recipe.hybrid_weight or None
    curve: dict[str, float] = {}
    if weight is None:
        begin_stage("choosing the weight of codes beside words")
        sought = seek_documents(model, texts, vectors, recipe.seed)
        if sought is not None:
            weight, curve = choose_hybrid_weight(layer, thresholds, sought)
    trained = write_encoder(
        out,
        Encoder(model, [layer], thresholds, {}, hybrid_weight=weight),
        data,
        parts,
        settings={**asdict(recipe), "model": _where(folder)},
        vectors=vectors,
        about={
            "model": _about(folder),
            "longer_texts": n_cut,
            "hybrid_weight_trials": curve,
        },
        overwrite=overwrite,
    )
    saved.unlink(missing_ok=True)
    if not n_cut:
        return trained
    cut = f"{n_cut:,} of the {counted(len(texts), 'text')} ({n_cut / len(texts):.0%}) are longer"
    warning = f"{cut} than the {model.max_tokens} tokens that the model reads; it reads the first"
    return replace(trained, warnings=(*trained.warnings, warning))


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
        raise RecipeError("model is empty; it must be the folder of a language model (--model)")
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


def fit_head(vectors: Floats, n_bits: int, seed: int, method: str = "sne") -> tuple[Layer, Floats]:
    """Return the layer and the thresholds that turn `vectors` ``(N, D)`` into `n_bits` bits.

    The first 64 bits begin as those of iterative quantization (ITQ): the vectors are centred, and
    their first 64 principal directions are rotated to lose least when rounded to bits. The next 64
    bits are half of the 128 of ITQ on the first 128 directions, and so on for the :data:`WIDTHS`.
    Bits of the directions 65 to 128 alone would find less: a query differs from documents in these
    most. With the `method` ``sne``, the first 256 bits are then changed so that those of each width
    keep the nearest neighbours (:func:`hummingbit.training.networks.fit_neighbour_map`). So the
    first 64 bits of a longer code are the code of 64 bits.

    Source: Gong and Lazebnik, "Iterative Quantization" (2011); the rotation is faiss's.
    """
    most = min(vectors.shape)
    widths = [width for width in WIDTHS if width <= most] if n_bits >= WIDTHS[0] else [n_bits]
    n_learned = min(max(widths), most)
    weight, thresholds = _nested_itq(vectors, max(n_learned, n_bits), seed)
    if method == "sne":
        from hummingbit.training.networks import fit_neighbour_map  # noqa: PLC0415 - torch

        # All columns get one size, for the ranking by the query's real values.
        first = weight[:, :n_learned], thresholds[:n_learned]
        size = np.sqrt(np.square(vectors @ first[0] - first[1]).mean())
        weight, thresholds = weight / size, thresholds / size
        first = weight[:, :n_learned], thresholds[:n_learned]
        learned, learned_thresholds = fit_neighbour_map(vectors, *first, seed, widths)
        weight = np.hstack([learned, weight[:, n_learned:]])
        thresholds = np.concatenate([learned_thresholds, thresholds[n_learned:]])
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


@dataclass(frozen=True, eq=False)
class SoughtDocuments:
    """Documents that queries made from some of them search; see :func:`seek_documents`."""

    documents: Sequence[str]
    vectors: Floats
    """``float32[N, D]``, of the documents"""
    queries: Sequence[str]
    query_vectors: Floats
    """``float32[Q, D]``"""
    sought: Sequence[int]
    """The place of the right document of each query."""


def seek_documents(
    model: LanguageModel, texts: Sequence[str], vectors: Floats, seed: int
) -> SoughtDocuments | None:
    """Make queries from up to 400 of at most 20,000 `texts`, whose `vectors` are known.

    Of each of the 400 a sentence is taken out, which is the query; the rest stays as a document.
    People ask in other words than documents use, so half of the words that the query shares with
    the rest are left out of it. Returns None if no text has two sentences, or six words.
    """
    rng = np.random.default_rng(seed)
    searched = np.sort(rng.permutation(len(texts))[:_SEARCHED])
    sought: list[int] = []
    queries, rests = [], []
    for place in rng.permutation(len(searched)).tolist():
        parts = _take_out_a_sentence(texts[searched[place]], rng)
        if parts is not None:
            sought.append(place)
            queries.append(parts[0])
            rests.append(parts[1])
        if len(sought) == _SOUGHT:
            break
    if not sought:
        return None
    some, documents = vectors[searched], [texts[row] for row in searched]
    some[sought] = model.transform(rests)
    for place, rest in zip(sought, rests, strict=True):
        documents[place] = rest
    return SoughtDocuments(documents, some, queries, model.transform_queries(queries)[0], sought)


def choose_hybrid_weight(
    layer: Layer, thresholds: Floats, found: SoughtDocuments
) -> tuple[float, dict[str, float]]:
    """Return the weight of codes beside words that finds documents best, and what each finds.

    The codes are those of the `layer` and `thresholds`. The measure is the mean reciprocal rank of
    the right document by the hybrid ranking (:mod:`hummingbit.index.rankings`) without feedback.
    The weights tried are :data:`WEIGHTS`, by whose names the measures are returned.
    """
    codes = pack_bits(layer(found.vectors) > thresholds)
    words = LexicalIndex.build(0, ANALYZERS[DEFAULT_ANALYZER], enumerate(found.documents))
    weights = np.asarray(layer(found.query_vectors) - thresholds, dtype=np.float32)
    n_queries = len(found.queries)
    encoded = EncodedQueries(
        pack_bits(weights > 0),
        weights,
        found.queries,
        np.ones(n_queries, dtype=np.bool_),
        [None] * n_queries,
    )
    generation = IndexSnapshot.build(0, codes, np.arange(len(codes)))
    moments = CodeMoments.of_codes(codes)
    ranks = np.array(
        [
            _reciprocal_ranks(
                HybridRanking(generation, moments, words, weight, n_feedback=0),
                encoded,
                found.sought,
                len(codes),
            )
            for weight in WEIGHTS
        ]
    )
    measured = zip(WEIGHTS, ranks.mean(axis=1).tolist(), strict=True)
    return _likely_best(ranks), {f"{weight:g}": round(one, 4) for weight, one in measured}


def _likely_best(found: npt.NDArray[np.float64]) -> float:
    """Return the geometric mean of the weights, each by how likely it is as good as the best.

    `found`, ``float64[W, Q]``, are the reciprocal ranks. A weight that is d below the best in the
    mean, with the standard error s of this difference, counts exp(−d² / 2s²). So a few documents,
    which tell weights hardly apart, give one in the middle.
    """
    lower = found[found.mean(axis=1).argmax()] - found
    errors = lower.std(axis=1) / np.sqrt(found.shape[1])
    ratios = np.divide(lower.mean(axis=1), errors, out=np.zeros(len(lower)), where=errors > 0)
    likely = np.exp(-np.square(ratios) / 2)
    logarithm = float(likely @ np.log(WEIGHTS) / likely.sum())
    return float(f"{np.exp(logarithm):.2g}")


def _reciprocal_ranks(
    ranking: HybridRanking, queries: EncodedQueries, sought: Sequence[int], n_documents: int
) -> list[float]:
    """Return the reciprocal ranks of the documents `sought`, tie-averaged."""
    found, rows = [], np.arange(n_documents)
    for place, document in enumerate(sought):
        checkpoint()
        (scores,) = ranking.score(queries[place : place + 1], [rows])
        right = scores[document]
        before, tied = int((scores > right).sum()), int((scores == right).sum())
        found.append(float(np.mean(1 / np.arange(before + 1, before + tied + 1))))
    return found


def _take_out_a_sentence(text: str, rng: np.random.Generator) -> tuple[str, str] | None:
    """Return a query made of a sentence of a text, and the text without it; None if too short.

    A text of one sentence is cut in two halves.
    """
    sentences = split_sentences(text)
    places = [i for i, one in enumerate(sentences) if len(one.split()) >= _LEAST_WORDS]
    if len(sentences) > 1 and places:
        chosen = int(rng.choice(places))
        sentence = sentences.pop(chosen)
        # The first line stays a title.
        is_titled = title_of(text) is not None and chosen > 0
        first = sentences[:1] if is_titled else []
        rest = "\n".join([*first, ". ".join(sentences[len(first) :])])
    else:
        words = text.split()
        if len(words) < 2 * _LEAST_WORDS:
            return None
        middle = len(words) // 2
        sentence, rest = " ".join(words[middle:]), " ".join(words[:middle])
    terms_of = ANALYZERS[DEFAULT_ANALYZER].terms
    shared = set(terms_of(rest))
    kept = [
        word for word in sentence.split() if shared.isdisjoint(terms_of(word)) or rng.random() < 0.5
    ]
    return " ".join(kept) if len(kept) > 1 else sentence, rest


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
                n_cut += sum(one.is_cut for one in tokenized)
                if not is_done:
                    vectors[some] = model.vectors([one.ids for one in tokenized])
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
