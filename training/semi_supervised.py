"""Train an encoder from documents of which few are labelled: ``ssb-vae`` and ``ict``.

Source: Ñanculef, Mena, Macaluso, Lodi and Sartori, "Self-Supervised Bernoulli Autoencoders for
Semi-Supervised Hashing" (2020). These parts are ours:

- the input: TF-IDF rows of unit length instead of ln(1 + tf), over the terms that distinguish
  classes;
- word dropout on the input, so that the decoder must reconstruct words that the encoder does not
  see, and noise on vectors;
- idf in the target, so that informative words weigh more than frequent ones;
- soft labels of unlabelled documents, from linear classifiers;
- a second class head, on the bits;
- dropout of hidden units that increases with the share of labels;
- similarities of pairs from labels or soft labels, with a weight that increases;
- the inverse cloze task.

:func:`hummingbit.training.paper_weights.as_in_the_paper` turns them off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.artifact import WORD_BITS, check_destination
from hummingbit.encoder.encoder import Encoder, Features, Inputs
from hummingbit.encoder.recipes import AUTO_WORD_BITS, ICT, METHODS, STATIC, Recipe
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.foundation.slices import begin_stage
from hummingbit.training.batches import (
    SparseBatch,
    TrainingInputs,
    drop_words,
    share_of_terms,
    vector_scale,
)
from hummingbit.training.data import Rows, Tags, TrainingData, TrainingDataError
from hummingbit.training.loop import Schedule, choose_device, fit, fit_and_write
from hummingbit.training.networks import (
    Autoencoder,
    BernoulliAutoencoder,
    GaussianAutoencoder,
    LinearEncoderNetwork,
    Shape,
    TextDecoder,
    autoencoder_to_encoder,
    to_encoder,
)
from hummingbit.training.objectives.autoencoder import AutoencoderLoss
from hummingbit.training.pipeline import (
    Split,
    Trained,
    check_labels,
    choose_features,
    one_blas_thread,
    split,
)
from hummingbit.training.queries import ClozeTask
from hummingbit.training.soft_labels import estimate_soft_labels, term_weights
from hummingbit.training.static import static_start
from hummingbit.training.text_features import (
    MIN_DOCUMENTS,
    TermCounts,
    add_fixed_rows,
    add_word_bits,
    bits_for_words,
    keep_terms,
)

# Soft labels are estimated from this many times the terms that the encoder may have.
_CANDIDATES = 10


def choose_features_and_soft_labels(
    data: TrainingData, parts: Split, recipe: Recipe
) -> tuple[Features, Floats | None]:
    """Return the features of the training documents and their soft labels, ``[N, C]``.

    Classifiers can use rare words for which an encoder has no room. So soft labels are estimated
    from ten times the encoder's terms, and the encoder gets the terms that tell most about the soft
    labels, such as a name in a signature rather than a stop word. If the recipe has no soft labels,
    or documents have several classes, the encoder gets the most frequent terms, and the soft labels
    are None. Terms of a single text are used only by ict, which finds texts by their words alone.

    Raises:
        TrainingDataError: if no term occurs in two texts.
    """

    # A word that only one text has is the best word to find it by, and a word that a text repeats
    # is more often asked for than the others.
    is_linear = METHODS[recipe.method].is_linear
    min_documents = 1 if is_linear else MIN_DOCUMENTS
    weighting = "count-idf" if is_linear and recipe.features == "tf-idf" else recipe.features

    def choose(max_terms: int) -> Features:
        return choose_features(
            data,
            parts.training,
            max_terms,
            weighting,
            recipe.analyzer,
            min_documents=min_documents,
            summary_weight=recipe.summary_weight if is_linear else 0.0,
        )

    has_soft_labels = METHODS[recipe.method].pairs == "all" and recipe.soft_labels == "linear"
    if not has_soft_labels or data.is_multi_label:
        return choose(recipe.max_terms), None
    candidates = recipe.max_terms * (_CANDIDATES if recipe.terms == "telling" else 1)
    features = choose(candidates)
    rows = features.transform(data.take(parts.training))  # type: ignore[arg-type]
    begin_stage("estimating soft labels")
    soft_labels = estimate_soft_labels(rows, parts.visible_tags[parts.training], recipe.seed)
    if isinstance(features, TextFeatures) and features.dimension > recipe.max_terms:
        weights = term_weights(rows, soft_labels)
        heaviest = np.argsort(-weights, kind="stable")[: recipe.max_terms]
        features = keep_terms(features, heaviest)
    return features, soft_labels


# The documents that a linear method learns from. More take memory and time, and add little.
MAX_LEARNED = 100_000


@one_blas_thread()
def train(
    data: TrainingData,
    recipe: Recipe,
    out: Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
    device: str = "cpu",
    amp: bool = False,
    trials: Sequence[Mapping[str, Any]] = (),
    words: TermCounts | None = None,
) -> Trained:
    """Train on `data` with `recipe` and write the encoder to `out`.

    An interrupted run resumes from the checkpoint beside `out`. `device` is ``cpu`` or ``cuda``.
    With `amp`, the network computes in bfloat16 where that is safe. Both change how sums are
    rounded, and so the encoder slightly. `trials` chose the recipe; the artifact records them. A
    linear method learns from at most 100,000 documents, and its codes know the `words`, by default
    those of all documents, up to the `known_terms` of the recipe. Of very many short texts, most
    bits tell the words (:func:`hummingbit.training.text_features.bits_for_words`).

    Raises:
        DeviceError: if this machine has no such device.
        TrainingDataError: if there are too few documents or labelled documents.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    check_destination(out, overwrite=overwrite)
    torch_device = choose_device(device)
    parts = split(data, recipe)
    if METHODS[recipe.method].uses_labels:
        check_labels(data, parts, recipe.validation_share)
    elif METHODS[recipe.method].is_linear and not data.is_text:
        found = f"vector: {recipe.method} learns from the words of texts"
        raise TrainingDataError(f"{found}; use texts, or itq")
    words = _counted_words(data, parts, recipe, words)
    n_word_bits = _number_of_word_bits(recipe, words)
    learned = replace(recipe, n_bits=recipe.n_bits - n_word_bits, word_bits=0)
    parts = _sampled(parts, recipe)
    features: Features
    start = None
    if recipe.method == STATIC:
        start = static_start([str(text) for text in data.take(parts.training)], recipe)
        features, soft_labels = start.features, None
    else:
        features, soft_labels = choose_features_and_soft_labels(data, parts, recipe)
    inputs, tags = data.take(parts.training), parts.visible_tags[parts.training]
    scale = vector_scale(features, inputs) if recipe.scale_vectors else 1.0
    dropout = hidden_dropout(recipe, features, tags)
    model = build_model(
        learned,
        features,
        len(data.classes),
        vector_scale=scale,
        dropout=dropout,
        sparse_gradient=touches_few_terms(features, inputs, recipe.batch_size),
    ).to(torch_device)
    multi_label = data.is_multi_label and not recipe.softmax_classes
    loss = AutoencoderLoss(
        model,
        learned,
        features,
        inputs,
        tags,
        multi_label=multi_label,
        soft_labels=soft_labels,
        amp=amp,
        start=start,
    )
    if loss.cloze is not None:
        loss.cloze.start(model.encoder)
    method = METHODS[recipe.method]
    if method.reconstructs and not method.uses_labels:
        start_at_word_frequencies(model, loss.inputs)

    def encoder_of() -> Encoder:
        encoder = autoencoder_to_encoder(model, features, inputs)
        if words is None:
            return encoder
        if n_word_bits:
            begin_stage("giving bits to words")
            some = [str(text) for text in inputs]
            return add_word_bits(encoder, words, recipe.known_terms, n_word_bits, some)
        return add_fixed_rows(encoder, words, recipe.known_terms)

    about: dict[str, Any] = {"trials": list(trials)} if trials else {}
    if n_word_bits:
        about[WORD_BITS] = n_word_bits
    return fit_and_write(
        out,
        model,
        loss,
        rows=len(parts.training),
        schedule=schedule_for(recipe, len(parts.training)),
        data=data,
        parts=parts,
        recipe=recipe,
        encoder_of=encoder_of,
        run={"device": device, "amp": amp},
        about=(lambda _encoder: about) if about else None,
        soft_labels=soft_labels,
        overwrite=overwrite,
        progress=progress,
    )


def _counted_words(
    data: TrainingData, parts: Split, recipe: Recipe, words: TermCounts | None
) -> TermCounts | None:
    """Return the words that get fixed rows: `words`, by default those of the documents, or None."""
    if recipe.method != ICT or not recipe.known_terms:
        return None
    if words is None or words.analyzer.name != recipe.analyzer:
        words = TermCounts(recipe.known_terms, Analyzer.from_name(recipe.analyzer))
        for text in data.take(parts.training):
            words.add(str(text))
    return words


def _number_of_word_bits(recipe: Recipe, words: TermCounts | None) -> int:
    """Return how many bits of codes tell which words a text has: those of the recipe, if set."""
    if words is None:
        return 0
    if recipe.word_bits != AUTO_WORD_BITS:
        return recipe.word_bits
    return bits_for_words(recipe.n_bits, words)


def _sampled(parts: Split, recipe: Recipe) -> Split:
    """Return the split with at most :data:`MAX_LEARNED` training rows of a linear method."""
    if not METHODS[recipe.method].is_linear or len(parts.training) <= MAX_LEARNED:
        return parts
    rng = np.random.default_rng(recipe.seed)
    return replace(parts, training=np.sort(rng.permutation(parts.training)[:MAX_LEARNED]))


def schedule_for(recipe: Recipe, n_documents: int) -> Schedule:
    """Return the schedule of a run with `n_documents` to train on."""
    return Schedule(
        recipe.epochs_for(n_documents),
        recipe.batch_size,
        recipe.learning_rate_for(n_documents),
        recipe.seed,
        decay=recipe.learning_rate_decay,
    )


def start_at_word_frequencies(model: Autoencoder, inputs: TrainingInputs) -> None:
    """Initialize a text decoder with the frequencies of terms.

    Without labels, nothing else keeps bits from freezing early; see :class:`TextDecoder`.
    """
    if isinstance(model.decoder, TextDecoder):
        model.decoder.start_at(torch.from_numpy(share_of_terms(inputs.targets)))


def hidden_dropout(recipe: Recipe, features: Features, tags: Tags) -> float:
    """Return the rate at which hidden units drop out.

    It is proportional to the share of documents with visible labels. A network memorizes labels,
    which are certain; it cannot memorize soft labels.
    """
    if METHODS[recipe.method].pairs != "all" or not isinstance(features, TextFeatures):
        return 0.0
    return recipe.hidden_dropout * float(tags.any(axis=1).mean())


def touches_few_terms(features: Features, inputs: Inputs, batch_size: int) -> bool:
    """Return whether a batch of texts has at most half as many words as the vocabulary has terms.

    The gradient of the first layer is then sparse, and rows of other terms are not touched. With
    more words, summing those of the same term costs more than processing all rows. The number of
    words in a text is estimated from the first thousand texts.
    """
    if not isinstance(features, TextFeatures):
        return False
    first = [str(text) for text in inputs[:1000]]
    words = features.count_terms(first).nnz / len(first)
    return bool(batch_size * words <= features.dimension / 2)


def build_model(
    recipe: Recipe,
    features: Features,
    classes: int,
    *,
    vector_scale: float = 1.0,
    dropout: float = 0.0,
    sparse_gradient: bool = True,
) -> Autoencoder:
    """Return the network of a recipe, with weights drawn with the recipe's seed.

    `vector_scale` multiplies the vectors that enter the first layer. `dropout` is the rate at which
    hidden units drop out. `sparse_gradient` is that of the first layer for texts.
    """
    content_bits = recipe.content_bits if isinstance(features, TextFeatures) else 0
    shape = Shape.of(
        features,
        recipe.hidden,
        recipe.n_bits - content_bits,
        # A class head needs at least one output; without classes it is not used.
        classes=max(1, classes),
        batch_norm=recipe.batch_norm,
        dropout=dropout,
        input_scale=vector_scale,
        sparse_gradient=sparse_gradient,
        linear=METHODS[recipe.method].is_linear,
        content_bits=content_bits,
    )
    torch.manual_seed(recipe.seed)
    if METHODS[recipe.method].latent == "gaussian":
        return GaussianAutoencoder(shape)
    return BernoulliAutoencoder(shape, recipe.temperature)


def fit_cloze(
    features: TextFeatures, texts: Sequence[str], x: Any, n_bits: int, recipe: Recipe
) -> tuple[Floats, Floats]:
    """Return weights ``(V, B)`` and thresholds ``(B,)`` of bits that find the `texts`.

    `x` are the `features` of the texts, ``(N, V)``, with more texts and terms than bits. The
    `recipe` is one of the method ict; its `n_bits` is not used, as B may be any number.
    """
    torch.manual_seed(recipe.seed)
    is_sparse = touches_few_terms(features, texts, recipe.batch_size)
    network = LinearEncoderNetwork(
        Shape.of(features, recipe.hidden, n_bits, sparse_gradient=is_sparse)
    )
    task = ClozeTask(recipe, features, texts, x, beside_classes=True)
    task.start(network)

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> Mapping[str, Tensor]:  # noqa: ARG001
        dropped = drop_words(SparseBatch.of_rows(x, rows), recipe.word_dropout, generator)
        return {"cloze_loss": task.loss(network, network(dropped)[1], rows, generator)}

    fit(network, loss, len(texts), schedule_for(recipe, len(texts)))
    layer = to_encoder(network, features).layers[0]
    return layer.weight, -layer.bias
