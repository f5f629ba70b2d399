"""The settings of every training method, each declared once.

A recipe is a frozen dataclass. The field of a setting holds its default, help text, choices, bounds
and former names. Flags of the command line, settings of :class:`hummingbit.SemanticHasher`, the
record in an encoder's manifest and the arguments of a retraining are all made from the fields.
This module needs no torch, so the service reads recipes, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any

from hummingbit.encoder.analyzers import VISIBLE, Analyzer, AnalyzerError
from hummingbit.encoder.limits import (
    MAX_HYBRID_WEIGHT,
    MAX_SUMMARY_WEIGHT,
    MAX_TOKENS,
    MIN_HYBRID_WEIGHT,
    PRECISIONS,
    check_n_bits,
)
from hummingbit.foundation.errors import HummingbitError

SSB_VAE, ICT, STATIC, ITQ = "ssb-vae", "ict", "static", "itq"
STATIC_BITS = 256
"""The bits of the encoder that ships, which static has at most."""

_TYPES: Mapping[type, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a string"),
}


class RecipeError(HummingbitError, ValueError):
    """A setting is out of its range; the message names it."""


def setting(
    default: Any,
    help_text: str,
    *choices: str,
    flag: str = "",
    former: str = "",
    objectives: tuple[str, ...] = (),
    within: str = "",
    before: Any = None,
) -> Any:
    """Return the field of a setting.

    `choices` are its values, if these are names. `within` is the interval of a number, such as
    ``(0, 1]``: above 0 and at most 1. `flag` is the name of its option, if that is not the field's.
    `former` is the name that an earlier release gave to the setting: flags, manifests and
    checkpoints with it are understood.
    `objectives` are those that use the setting, if not all of a recipe's objectives do. `before` is
    the value that corresponds to releases without the setting, if that is not the default.
    """
    metadata = {
        "help": help_text,
        "choices": choices or None,
        "flag": flag,
        "former": former,
        "objectives": objectives,
        "within": within,
        "before": default if before is None else before,
    }
    return field(default=default, metadata=metadata)


def flag_of(declared: Field[Any]) -> str:
    """Return the option of the command line that sets a recipe's field."""
    return "--" + (declared.metadata["flag"] or declared.name).replace("_", "-")


def _summary_weight(learned_by: str, **options: Any) -> Any:
    return setting(
        1.0,
        "weight of a document's title and first sentence, beside 1 for its text (bits learned by"
        f" {learned_by}); it is 0 if the rest of the texts repeats few of these words, as in posts"
        " that begin with a quotation",
        within=f"[0, {MAX_SUMMARY_WEIGHT}]",
        before=0.0,
        **options,
    )


DEFAULT_BITS = 64
"""The bits of a code unless a run names others, but for those of language models."""


@dataclass(frozen=True)
class BaseRecipe:
    """The settings that every method has.

    With the documents, the settings of a recipe determine the outcome of a run.

    Raises:
        RecipeError: if a setting has another type, is not one of its choices or out of its bounds.
    """

    method: str = setting(MISSING, "what is trained")
    n_bits: int = setting(DEFAULT_BITS, "bits in a code, a multiple of 8", flag="bits")
    seed: int = setting(0, "random seed", within=f"[0, {2**63 - 1}]")
    max_terms: int = setting(10_000, "terms in the vocabulary", within="[1, 10_000_000]")
    analyzer: str = setting(
        VISIBLE.name,
        "how texts are split into terms: visible (earlier versions: unicode, words);"
        " +LANGUAGE adds stemming, as in visible+english; +3-5grams adds runs of 3 to 5 characters",
        before="words",
    )
    validation_share: float = setting(
        0.1, "share of the labelled documents held out", within="[0, 1)"
    )

    def __post_init__(self) -> None:
        _check_all(self)
        try:
            check_n_bits(self.n_bits)
            Analyzer.from_name(self.analyzer)
        except AnalyzerError as error:
            raise RecipeError(f"analyzer: {error}") from None
        except ValueError as error:
            raise RecipeError(str(error)) from None


@dataclass(frozen=True)
class LabelledRecipe(BaseRecipe):
    """The settings of methods that split labelled documents: `label_fraction` (ρ) are shown."""

    label_fraction: float = setting(
        1.0,
        "share of the labelled documents whose labels are shown",
        within="(0, 1]",
        flag="supervision",
        former="supervision",
    )


SIGNATURE = "signature"
"""The method of superimposed codes; see ``linear_codes``."""
LINEAR_SUMMARIES: Mapping[str, str] = {
    "sne": "ITQ, changed to keep the nearest neighbours of each document",
    "itq": "PCA, rotated to lose least when rounded to bits (iterative quantization)",
    "pca-sign": "the signs of the first principal components",
    "lsh": "the sides of random hyperplanes",
    SIGNATURE: "a few bits for each word, by which any words of a short text find it; no meanings",
}
"""The summary of each linear method by name (:mod:`hummingbit.training.linear_codes`)."""


@dataclass(frozen=True)
class LinearRecipe(LabelledRecipe):
    """The settings of a linear method. Labels affect only the classifier baseline."""

    method: str = setting(MISSING, "what is trained", *LINEAR_SUMMARIES)


METHODS: Mapping[str, str] = {
    SSB_VAE: "a Bernoulli autoencoder that learns from soft labels; --paper: the self-supervised"
    " Bernoulli autoencoder of Ñanculef et al. 2020",
    ICT: "learns, without labels, to find a text by a few of its words (inverse cloze task)",
    STATIC: "ict that starts at the encoder that ships, so queries may use words of no document",
}
"""The summary of each method that learns a network from documents and labels, by name."""


@dataclass(frozen=True)
class AutoencoderRecipe(LabelledRecipe):
    """The settings of ssb-vae (:mod:`hummingbit.training.semi_supervised`)."""

    method: str = setting(SSB_VAE, "what is trained", SSB_VAE)
    epochs: int = setting(15, "passes over the documents", within="[1, 100_000]")
    batch_size: int = setting(200, "documents in a batch", within="[2, 1_000_000]")
    learning_rate: float = setting(4e-3, "step size of Adam", within="(0, 1]")
    hidden: int = setting(500, "units in each of the two hidden layers", within="[1, 65_536]")
    content_share: float = setting(
        0.0,
        "share of the bits that find a text by its words; the others tell classes",
        within="[0, 1)",
    )
    word_dropout: float = setting(
        0.5, "mean share of a document's words left out of the input", within="[0, 0.5]"
    )
    paper: bool = setting(
        False,
        "train as the authors of SSB-VAE did, with their pair loss (Equation 5), and their settings"
        " for Snippets in place of those above",
    )

    @property
    def content_bits(self) -> int:
        """The number of bits that find a text by its words; the others are for its class."""
        return int(self.n_bits * self.content_share)


MAX_KNOWN_TERMS = 300_000
"""The terms that codes of ict know. More are not counted: the rows of so many take 77 MB of an
encoder of 64 bits."""

AUTO_WORD_BITS = -1
"""The number of bits for words is chosen by that of the texts."""


@dataclass(frozen=True)
class ClozeRecipe(LabelledRecipe):
    """The settings of ict and static, which learn no labels (:mod:`hummingbit.training.cloze`)."""

    method: str = setting(ICT, "what is trained", ICT, STATIC)
    word_bits: int = setting(
        AUTO_WORD_BITS,
        "bits that tell which words a short text has, beside those that tell what it is about;"
        " -1: 48 of 64 if the other 16 are not enough to tell so many texts apart, else none (ict)",
        within="[-1, 65_536]",
    )
    epochs: int = setting(
        15, "passes over the documents; few documents get more", within="[1, 100_000]"
    )
    cloze_shared: float = setting(
        0.9,
        "share of a query's target that goes to all texts by similarity; the right one gets the"
        " rest",
        within="[0, 1]",
    )
    summary_weight: float = _summary_weight(ICT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word_bits > 0 and not self.word_bits < self.n_bits:
            found = f"word_bits is {self.word_bits}"
            raise RecipeError(f"{found}; it must be below n_bits, {self.n_bits}")


CLASS_CODES = "class-codes"
CONTENT_SHARES = (0.5, 0.375, 0.25, 0.125)
"""The shares of content bits that the search tries."""
CHOSEN = "chosen"
QUERY_CLASSIFIERS = ("both", "bayes", "ridge", "svm")
WORD_VECTOR_CLASSIFIERS = ("words", "bayes-words", "svm-words")
"""The query classifiers that need word vectors."""
WORDS_AND_CLASSES: Mapping[str, Any] = {
    "content": ICT,
    "content_share": 0.625,
    "certainty_share": 0.0625,
}
"""Settings of codes that find the class of a text and the text itself: of 64 bits, 20 for the
class, 4 for its certainty and 40 for words. With more bits for words, texts are found better and
fewer documents of the same label are found."""


@dataclass(frozen=True)
class ClassHeadRecipe(LabelledRecipe):
    """The settings of codes of class, certainty and content that texts and vectors have alike.

    A query classifier of "chosen" and a content share of 0 are replaced by a choice on held-out
    clusters.
    """

    max_terms: int = setting(100_000, "terms in the vocabulary", within="[1, 10_000_000]")
    max_words: int = setting(
        1,
        "words in a term: 1, or 2 for pairs of neighbouring words, too, with half the weight of a"
        " word",
        within="[1, 2]",
    )
    query_classifier: str = setting(
        CHOSEN,
        "classifier of texts that are queries: two kinds of naive Bayes (bayes), ridge regression"
        " (ridge), ridge regression and naive Bayes (both), support vector machines and naive Bayes"
        " (svm); with word vectors, these and naive Bayes (words), these and bayes (bayes-words) or"
        " these and svm (svm-words); or the one chosen by trials",
        *(CHOSEN, *QUERY_CLASSIFIERS, *WORD_VECTOR_CLASSIFIERS),
    )
    content_share: float = setting(
        0.0,
        "share of the bits for content, which tell documents of a class apart; 0: chosen by trials",
        within="[0, 0.75]",
    )
    certainty_share: float = setting(
        0.125, "share of the bits for the certainty of a document's class", within="[0, 0.25]"
    )
    label_weight: int = setting(
        1,
        "times that a text counts whose label is shown, beside texts of soft labels, in the"
        " classifier of documents; with more, the surest documents of a class are those of shown"
        " labels",
        within="[1, 100]",
    )


@dataclass(frozen=True)
class ClassCodeRecipe(ClassHeadRecipe):
    """The settings of class codes."""

    method: str = setting(CLASS_CODES, "what is trained", CLASS_CODES)
    seed: int = setting(0, "random seed", within=f"[0, {2**32 - 1}]")
    content: str = setting(
        ITQ,
        "how the bits of content are learned: latent semantics rounded to bits (itq), or finding a"
        " text by a few of its words (ict)",
        *(ITQ, ICT),
    )
    summary_weight: float = _summary_weight(ICT)

    def widths(self, content_share: float) -> tuple[int, int, int]:
        """Return the numbers of bits for the class, its certainty and the content."""
        content = max(1, round(self.n_bits * content_share))
        certainty = round(self.n_bits * self.certainty_share)
        return self.n_bits - content - certainty, certainty, content

    def can_hold(self, n_classes: int, content_share: float = CONTENT_SHARES[-1]) -> bool:
        """Return whether there are as many codewords as classes, with this share of content."""
        return n_classes <= 1 << self.widths(content_share)[0]


MODEL = "model"
"""The method of codes of what a language model knows; see ``model_codes``."""
MODEL_BITS = 128
"""The bits of codes of a language model by default."""
AUTO = "auto"
"""The value of a prompt for that of the model."""
AUTO_WORD_SHARE = -1.0
"""The share of words beside a language model is chosen by trials, as by all values below 0."""
WORD_SHARES = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8)
"""The shares of words that trials compare."""
RECONSTRUCTION = "reconstruction"
"""The head by which a linear map of the bits reconstructs the vectors."""


@dataclass(frozen=True)
class ModelRecipe(ClassHeadRecipe):
    """The settings of codes from a language model, which is in the folder `model`.

    The head class-codes learns from labels, and reads the terms of the documents beside the
    vectors. Elsewhere labels affect only the classifier baseline, and `analyzer` and the settings
    of a :class:`ClassHeadRecipe` have no effect: the model splits texts into tokens of its own.
    """

    method: str = setting(MODEL, "what is trained", MODEL)
    n_bits: int = setting(
        MODEL_BITS, "bits in a code, a multiple of 8, at most a vector's numbers", flag="bits"
    )
    head: str = setting(
        "sne",
        "how vectors become bits: so that nearest neighbours are kept, which needs torch (sne), by"
        " iterative quantization (itq), so that a linear map reconstructs the vectors, for the"
        " rankings asymmetric and hybrid (reconstruction), or into class, certainty and content,"
        " from labels (class-codes)",
        *("sne", ITQ, RECONSTRUCTION, CLASS_CODES),
    )
    word_share: float = setting(
        AUTO_WORD_SHARE,
        "share of the documents' own words, beside the vectors of the model, in telling classes;"
        " 0: vectors alone; below 0: chosen by trials on held-out documents (class-codes)",
        within="[-1, 1]",
    )
    model: str = setting(
        "",
        "the folder of the model, as sentence-transformers saves it, that of an encoder that"
        " contains one, or the URL of an endpoint",
    )
    model_name: str = setting("", "the name of the model at the endpoint")
    max_tokens: int = setting(
        0,
        "tokens of a text that are read, of four characters at an endpoint; 0: as many as the"
        " model says",
        within=f"[0, {MAX_TOKENS}]",
    )
    dimension: int = setting(
        0,
        "numbers of a vector that are kept, the first ones, for Matryoshka models; 0: all",
        within="[0, 1_000_000]",
    )
    query_prompt: str = setting(AUTO, "what precedes a query; auto: what the model says")
    document_prompt: str = setting(AUTO, "what precedes a document; auto: what the model says")
    precision: str = setting(
        AUTO,
        "numbers of the model in the encoder: float32, or 8 bits (int8), which is twice as fast and"
        " a quarter of the size; auto: int8 if queries made of documents then lose less than .005"
        " of nDCG@10",
        *(AUTO, *PRECISIONS),
    )
    hybrid_weight: float = setting(
        0.0,
        "weight of the codes beside words in the hybrid ranking; 0: the default of models, .85",
        within=f"[0, {MAX_HYBRID_WEIGHT}]",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_tokens == 1:
            raise RecipeError(f"max_tokens is 1; it must be 0, or from 2 to {MAX_TOKENS:,}")
        if 0 < self.hybrid_weight < MIN_HYBRID_WEIGHT:
            found = f"hybrid_weight is {self.hybrid_weight:g}"
            raise RecipeError(f"{found}; it must be 0, or at least {MIN_HYBRID_WEIGHT:g}")


METRIC = "metric"
METRIC_OBJECTIVES: Mapping[str, str] = {
    "continuous-histogram": "pairs ordered by similarity, by histograms",
    "generative-similarity": "pairs as near as they are likely to share a source",
    "riemannian-potato": "classes within a number of deviations of their means, others beyond",
}
"""The summary of each objective by name (:mod:`hummingbit.training.metric_learning`)."""

PAIRS = "pairs"
BETA_BERNOULLI, GAUSSIAN_MIXTURE, FUNCTION = "beta-bernoulli", "gaussian-mixture", "function"
SIMILARITIES: Mapping[str, str] = {
    "hierarchy": "by the levels that labels share, in their dotted names or a parent-child file",
    "labels": "1 with a label in common, else 0",
    "graded": "by the difference of numeric labels",
    PAIRS: "from a file of pairs",
    BETA_BERNOULLI: "generative similarity of features that are 0 or 1",
    GAUSSIAN_MIXTURE: "generative similarity of points in clusters",
    FUNCTION: "by a function of one's own",
}
"""The definitions of similarity, by name."""
WITHOUT_LABELS = (PAIRS, BETA_BERNOULLI, GAUSSIAN_MIXTURE, FUNCTION)
"""The similarities that use no label."""


REGRESSION = "regression"
CODES, AFFINE_INVARIANT, LOG_EUCLIDEAN = "codes", "affine-invariant", "log-euclidean"
POTATO_GEOMETRIES = (CODES, AFFINE_INVARIANT, LOG_EUCLIDEAN)


@dataclass(frozen=True)
class MetricRecipe(LabelledRecipe):
    """The settings of metric learning (:mod:`hummingbit.training.metric_learning`).

    `balance` is for continuous-histogram, `contrast` for generative-similarity, `alpha`, `beta` and
    `components` for similarities of these models, and the `potato` settings for riemannian-potato,
    which uses labels and not similarities. `spd_order` is for documents that are matrices.
    """

    method: str = setting(METRIC, "what is trained", METRIC)
    objective: str = setting("continuous-histogram", "the loss", *METRIC_OBJECTIVES)
    similarity: str = setting("hierarchy", "what makes documents similar", *SIMILARITIES)
    epochs: int = setting(
        30, "passes over the documents, or over the pairs of a file", within="[1, 100_000]"
    )
    batch_size: int = setting(
        100, "documents in a batch, or pairs of a file", within="[3, 1_000_000]"
    )
    hidden: int = setting(500, "units in each of the two hidden layers", within="[1, 65_536]")
    balance: float = setting(
        0.5, "from 0, all pairs weigh the same, to 1, all degrees of similarity do", within="[0, 1]"
    )
    contrast: str = setting(
        "softmax",
        "how pairs are compared; regression fits the similarity of codes to that of the documents",
        *("softmax", REGRESSION),
    )
    alpha: float = setting(
        1.0, "α of beta-bernoulli: expected ones of a feature", within="(0, 1_000_000]"
    )
    beta: float = setting(
        1.0, "β of beta-bernoulli: expected zeros of a feature", within="(0, 1_000_000]"
    )
    components: int = setting(10, "clusters of gaussian-mixture", within="[2, 10_000]")
    potato_balance: float = setting(
        1.0, "λ, weight of the pairs of other classes beside those of the class", within="[0, 1000]"
    )
    potato_geometry: str = setting(
        CODES,
        "distances of the potatoes: of the codes; or, for documents that are matrices, also of the"
        " matrices of the last SPD layer, affine-invariant or log-Euclidean",
        *POTATO_GEOMETRIES,
    )
    spd_order: int = setting(
        16, "rows to which SPD layers reduce larger matrices", within="[1, 512]"
    )


DISTILLATION = "distillation"
PERCEPTION_COHERENCE, NEIGHBOURS = "perception-coherence", "neighbours"


@dataclass(frozen=True)
class DistillationRecipe(BaseRecipe):
    """The settings of a student that imitates a teacher (:mod:`hummingbit.training.distillation`).

    With labels, the loss is the cross-entropy of a class head on the codes plus the objective, of
    the codes and of the class scores.
    """

    method: str = setting(DISTILLATION, "what is trained", DISTILLATION)
    objective: str = setting(
        PERCEPTION_COHERENCE,
        "what the student imitates: which documents are nearest, of texts (neighbours), or the"
        " order of all (perception-coherence)",
        *(NEIGHBOURS, PERCEPTION_COHERENCE),
    )
    epochs: int = setting(30, "passes over the documents", within="[1, 100_000]")
    hidden: int = setting(
        256,
        "units in each of the two hidden layers (neighbours has none)",
        within="[1, 65_536]",
        objectives=(PERCEPTION_COHERENCE,),
    )
    summary_weight: float = _summary_weight(NEIGHBOURS, objectives=(NEIGHBOURS,))
    label_fraction: float = setting(
        0.0,
        "share of the labelled documents whose labels are shown",
        within="[0, 1]",
        flag="supervision",
        former="supervision",
        objectives=(PERCEPTION_COHERENCE,),
    )
    validation_share: float = setting(0.1, "share of the documents held out", within="[0, 1)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective == NEIGHBOURS and self.label_fraction:
            found = f"label_fraction is {self.label_fraction:g}; it must be 0"
            needed = f"{PERCEPTION_COHERENCE} learns from labels too"
            raise RecipeError(f"{found} with the objective {self.objective}; {needed}")

    def without_effect(self) -> list[str]:
        """Return the names of the settings that only other objectives use."""
        uses = {declared.name: declared.metadata["objectives"] for declared in fields(self)}
        return [name for name, used_by in uses.items() if used_by and self.objective not in used_by]


def default_objective(*, is_text: bool) -> str:
    """Return the objective where none is named: neighbours for texts, whose words it learns."""
    return NEIGHBOURS if is_text else PERCEPTION_COHERENCE


JUDGED = "judged"


@dataclass(frozen=True)
class JudgementRecipe:
    """The settings of learning from judgements (:mod:`hummingbit.training.judgements`).

    All others are those of the encoder that it starts from.

    Raises:
        RecipeError: if a setting has another type or is out of its bounds.
    """

    seed: int = setting(0, "random seed", within=f"[0, {2**63 - 1}]")
    steps: int = setting(600, "batches, at most", within="[1, 1_000_000]")
    batch_size: int = setting(64, "queries in a batch", within="[1, 65_536]")
    learning_rate: float = setting(3e-3, "step size of Adam, of logits of size 1", within="(0, 1]")
    hard_negatives: int = setting(
        5,
        "documents that the codes find for a query of a batch, though they are not relevant",
        within="[0, 200]",
    )
    held_out: float = setting(
        0.2,
        "share of the judged queries held out; training stops when nDCG@10 of these falls",
        within="(0, 0.9]",
    )

    def __post_init__(self) -> None:
        _check_all(self)


RECIPES: dict[str, type[BaseRecipe]] = {
    SSB_VAE: AutoencoderRecipe,
    ICT: ClozeRecipe,
    STATIC: ClozeRecipe,
    CLASS_CODES: ClassCodeRecipe,
    **dict.fromkeys(LINEAR_SUMMARIES, LinearRecipe),
    MODEL: ModelRecipe,
    METRIC: MetricRecipe,
    DISTILLATION: DistillationRecipe,
}
"""The type of the recipe of every method, by name."""

FORMER_METHODS: dict[str, type[BaseRecipe]] = dict.fromkeys(
    ("psh-gs", "vdsh-s", "b-vae"), AutoencoderRecipe
)
"""Methods of earlier releases that experiments have, and the recipe that has their settings."""

DOCUMENT_METHODS = (*METHODS, CLASS_CODES, *LINEAR_SUMMARIES)
"""The methods that need nothing beside documents and their labels."""

TEXT_SETTINGS = ("analyzer", "max_terms", "summary_weight")
"""The settings that mean the same in every recipe that has them."""


def former_names(kind: type[BaseRecipe]) -> dict[str, str]:
    """Return the current name of each setting of `kind` that earlier releases named otherwise."""
    return {
        former: declared.name
        for declared in fields(kind)
        if (former := declared.metadata["former"])
    }


ANY: Any = object()
"""The value of what a method never used, so that any recorded value stands for the same."""

_FIXED_OF_SSB_VAE: Mapping[str, Any] = {
    "temperature": 0.67,
    "reconstruction_weight": 1.0,
    "kl_weight": 1 / 64,
    "pointwise_weight": 1.0,
    "code_class_weight": 1.0,
    "pairwise_weight": 1.5e-3,
    "pairwise_warmup": 0.5,
    "pair_similarity": "probable",
    "likeness": "probable",
    "soft_labels": "linear",
    "guesses": "linear",
    "terms": "telling",
    "features": "tf-idf",
    "idf_target": True,
    "hidden_dropout": 0.5,
    "vector_noise": 1.0,
    "scale_vectors": True,
    "batch_norm": False,
    "learning_rate_decay": True,
    "softmax_classes": False,
    "cloze_weight": 1.0,
    "cloze_scale": 20.0,
    "cloze_temperature": 0.05,
    "threshold": "zero",
}

FIXED: Mapping[type[BaseRecipe], Mapping[str, Any]] = {
    AutoencoderRecipe: {
        **_FIXED_OF_SSB_VAE,
        "cloze_shared": 0.9,
        **dict.fromkeys(
            ("known_terms", "word_bits", "min_steps", "least_batches", "summary_weight"), ANY
        ),
        "unlabelled_differ": ANY,
    },
    ClozeRecipe: {
        **dict.fromkeys(_FIXED_OF_SSB_VAE, ANY),
        **dict.fromkeys(("hidden", "content_share", "unlabelled_differ"), ANY),
        "min_steps": 2000,
        "known_terms": MAX_KNOWN_TERMS,
        "batch_size": 200,
        "learning_rate": 4e-3,
        "word_dropout": 0.5,
        "features": "tf-idf",
        "cloze_weight": 1.0,
        "cloze_scale": 20.0,
        "cloze_temperature": 0.05,
        "threshold": "zero",
    },
    ClassCodeRecipe: {"epochs": ANY, "min_steps": ANY, "least_batches": ANY},
    MetricRecipe: {
        "distance": "cosine",
        "learning_rate": 1e-3,
        "bins": 100,
        "similarity_bins": 100,
        "temperature": 0.1,
        "potato_threshold": -1.0,
        "potato_margin": 6.0,
        "potato_rate": 0.2,
        "potato_average": "pairs",
        "word_dropout": 0.25,
        "features": "tf-idf",
        "threshold": "zero",
    },
    DistillationRecipe: {
        "min_steps": 2000,
        "batch_size": 128,
        "learning_rate": 3e-3,
        "word_dropout": 0.25,
        "relaxation": "tanh",
        "temperature": 1.0,
        "teacher_temperature": 0.1,
        "student_temperature": 0.3,
        "hint_weight": 0.0,
        "coherence_weight": 5.0,
        "threshold": "zero",
    },
}
"""What earlier releases recorded as settings and this one always does, by the values of these.

A pair loss of the weight 1.5e-3 stands for none: codes without it find as much.
"""


def lost_settings(kind: type[BaseRecipe], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a manifest recorded and a training by `kind` no longer has, by name.

    They are those of :data:`FIXED` with another value, and those whose choice has gone.
    """
    current, fixed = former_names(kind), FIXED.get(kind, {})
    declared = {one.name: one.metadata for one in fields(kind) if one.name != "method"}
    lost = {}
    for former, value in recorded.items():
        name = current.get(former, former)
        if name in declared:
            choices = declared[name]["choices"]
            if choices and value not in choices:
                lost[name] = value
        elif fixed.get(name, ANY) is not ANY and fixed[name] != value:
            lost[name] = value
    return lost


def values_before(kind: type[BaseRecipe]) -> dict[str, Any]:
    """Return the value of each setting of `kind` that corresponds to releases without it."""
    return {declared.name: declared.metadata["before"] for declared in fields(kind)}


def recorded_settings(kind: type[BaseRecipe], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `kind` that a manifest recorded, by their current names and values.

    What is not a setting of `kind`, or no longer a choice of one, is left out.
    """
    current = former_names(kind)
    values = {current.get(name, name): value for name, value in recorded.items()}
    lost = lost_settings(kind, recorded)
    return {
        declared.name: value
        for declared in fields(kind)
        if declared.name not in lost
        and isinstance(value := values.get(declared.name), bool | int | float | str)
    }


def retraining_settings(recorded: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Return the settings that a training by `method` keeps of the recipe that a manifest recorded.

    The same method keeps all of them. Another keeps those that differ from the defaults and mean
    the same to it: all if both methods have one type of recipe, else :data:`TEXT_SETTINGS`.
    """
    former = (RECIPES | FORMER_METHODS).get(str(recorded.get("method")))
    if former is None:
        return {}
    settings = recorded_settings(former, recorded)
    if settings.pop("method") == method:
        return settings
    names = {declared.name for declared in fields(RECIPES[method])}
    return {
        declared.name: settings[declared.name]
        for declared in fields(former)
        if settings.get(declared.name, declared.default) != declared.default
        and (former is RECIPES[method] or declared.name in TEXT_SETTINGS)
        and declared.name in names
    }


def learns_labels(recorded: Mapping[str, Any]) -> bool:
    """Return whether codes by the recipe that a manifest recorded learned labels.

    Those of a method that is not known are taken to have.
    """
    method = str(recorded.get("method"))
    if method in (ICT, STATIC, "b-vae"):
        return False
    if method == MODEL:
        return recorded.get("head") == CLASS_CODES
    if method == METRIC:
        return recorded.get("similarity") not in WITHOUT_LABELS
    if method == DISTILLATION:
        return bool(recorded_settings(DistillationRecipe, recorded).get("label_fraction"))
    return method not in LINEAR_SUMMARIES


def train_arguments(kind: type[BaseRecipe], settings: Mapping[str, Any]) -> list[str]:
    """Return the options of ``hummingbit train METHOD`` that set the `settings` of `kind`."""
    arguments = []
    for declared in fields(kind):
        if declared.name == "method" or declared.name not in settings:
            continue
        value, flag = settings[declared.name], flag_of(declared)
        if isinstance(value, bool):
            arguments.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            arguments.append(f"{flag}={value}")
    return arguments


def _check_all(recipe: BaseRecipe | JudgementRecipe) -> None:
    """Check every setting; numbers of numpy, as a grid of settings has them, become Python's."""
    for declared in fields(recipe):
        value = getattr(recipe, declared.name)
        plain = value.item() if getattr(value, "shape", None) == () else value
        _check(declared, plain)
        object.__setattr__(recipe, declared.name, plain)


def _check(declared: Field[Any], value: Any) -> None:
    """Raise RecipeError unless `value` has the type, and is in the bounds, of a setting."""
    name = declared.name
    if choices := declared.metadata["choices"]:
        if value not in choices:
            raise RecipeError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
        return
    kind, expected = _TYPES[type(declared.default)]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RecipeError(f"{name} is {value!r}; it must be {expected}")
    if within := declared.metadata["within"]:
        _check_interval(name, value, within)


def _check_interval(name: str, value: float, interval: str) -> None:
    """Raise RecipeError, naming the setting, unless `value` is in `interval`."""
    low, high = (_number(bound) for bound in interval[1:-1].split(","))
    is_open_below, is_open_above = interval[0] == "(", interval[-1] == ")"
    is_above = value > low if is_open_below else value >= low
    is_below = value < high if is_open_above else value <= high
    if not (is_above and is_below):
        expected = f"{'above' if is_open_below else 'at least'} {low:,}"
        if not is_open_below and not is_open_above:
            expected = f"from {low:,} to {high:,}"
        elif high < math.inf:
            expected += f" and {'below' if is_open_above else 'at most'} {high:,}"
        raise RecipeError(f"{name} is {value:g}; it must be {expected}")


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)
