"""Models of how examples are generated, and the similarity of two examples under each.

Source: Marjieh, Kumar, Campbell et al., "Learning Human-Aligned Representations with Contrastive
Learning and Generative Similarity" (2024). A source θ is drawn from a prior p(θ), and an example
from p(x | θ). The similarity of two examples is

    s_gen(x, y) = p(x, y | same) / p(x, y | different)
                = ∫ p(x | θ) p(y | θ) p(θ) dθ / (p(x) p(y)),    p(x) = ∫ p(x | θ) p(θ) dθ.

"Different" means drawn independently, so the two sources may happen to be equal. s_gen is 0 or
more. It is 1 if one example says nothing about the other. Its logarithm is −∞ if the two cannot
have the same source.

A model computes ln s_gen in closed form, and samples triplets (x, y, z) with x and y from one
source and z from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

Numbers = npt.NDArray[np.float64]
Examples = npt.NDArray[Any]
"""Examples of a model: ``float64[..., D]`` points, ``uint8[..., F]`` features, or ``int64[...]``
numbers of categories, labels or programs, counted from 0."""


class Triplets(NamedTuple):
    """M triplets: `anchor` and `same` have one source, and `different` has a source of its own."""

    anchor: Examples
    same: Examples
    different: Examples


class GenerativeModel(Protocol):
    """A model of how examples are generated."""

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """Return ln s_gen of corresponding examples; leading axes broadcast."""

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """Draw `count` triplets, one for each row."""


class GaussianMixture:
    """Points around one of K means, with the same variance in all directions: x ~ N(μ_θ, σ² I).

    With r_k(x) = p(k | x) ∝ p_k exp(−‖x − μ_k‖² / 2σ²), Bayes' rule gives the closed form

        s_gen(x, y) = Σ_k r_k(x) r_k(y) / p_k                                     (the paper's H2).

    For two means of equal weight it is 1 + tanh(a(x)/2) tanh(a(y)/2), where a is the log odds of
    the first mean. It ranges from 0, certainly different, to 2, certainly the same.

    Args:
        means: ``[K, D]``.
        deviation: σ of all means.
        weights: p_k, ``[K]``, scaled to sum 1; equal by default.

    Raises:
        ValueError: unless there are two or more means, all finite, σ > 0, and each mean has a
            positive weight.
    """

    def __init__(
        self, means: Any, deviation: float = 1.0, weights: Sequence[float] | None = None
    ) -> None:
        self.means_KD: Numbers = np.asarray(means, dtype=np.float64)
        if (
            self.means_KD.ndim != 2
            or len(self.means_KD) < 2
            or not np.isfinite(self.means_KD).all()
        ):
            shape = list(self.means_KD.shape)
            raise ValueError(
                f"means: shape is {shape}; it must be [K, D], K ≥ 2, of finite numbers"
            )
        if not 0 < deviation < np.inf:
            raise ValueError(f"deviation is {deviation:g}; it must be above 0 and finite")
        self.deviation = deviation
        self.prior_K = _prior("weights", weights, len(self.means_KD))

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """See :class:`GenerativeModel`; examples are ``[..., D]``."""
        joint = self.log_responsibilities(first) + self.log_responsibilities(second)
        return _floats(logsumexp(joint - np.log(self.prior_K), axis=-1))

    def log_responsibilities(self, x: Examples) -> Numbers:
        """Return ln p(k | x) of points ``[..., D]``, ``float64[..., K]``."""
        squares = np.square(np.asarray(x)[..., None, :] - self.means_KD).sum(axis=-1)
        joint = np.log(self.prior_K) - squares / (2 * self.deviation**2)
        return _floats(joint - logsumexp(joint, axis=-1, keepdims=True))

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Numbers, npt.NDArray[np.int64]]:
        """Draw points, ``float64[count, D]``, and return the number of the mean of each too."""
        source = rng.choice(len(self.prior_K), size=count, p=self.prior_K)
        return self._around(source, rng), source

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """See :class:`GenerativeModel`; examples are ``float64[count, D]``."""
        first, second = rng.choice(len(self.prior_K), size=(2, count), p=self.prior_K)
        return Triplets(*(self._around(source, rng) for source in (first, first, second)))

    def _around(self, source: npt.NDArray[np.int64], rng: np.random.Generator) -> Numbers:
        shape = (len(source), self.means_KD.shape[1])
        return self.means_KD[source] + self.deviation * rng.standard_normal(shape)


class BetaBernoulli:
    """F binary features, each with a probability that depends on the source: θ_f ~ Beta(α, β).

    With n = f(x) + f(y), E[θ^n (1 − θ)^(2 − n)] / (E[θ]^n E[1 − θ]^(2 − n)) is, for one feature,

        both have it     (α + 1) (α + β) / (α (α + β + 1))
        neither has it   (β + 1) (α + β) / (β (α + β + 1))
        one of them      (α + β) / (α + β + 1)                                    (the paper's I3)

    and ln s_gen is the sum of the logarithms. With α = β it is a constant − ln(1 + 1/α) Σ (f(x) −
    f(y))². With any ratio α / β, as both tend to 0, it approaches that form with the factor
    |ln(α + β)|: in the limit, up to scale, it is minus the squared distance of the features.

    Raises:
        ValueError: unless there is a feature, and α and β are above 0 and finite.
    """

    def __init__(self, features: int, alpha: float = 1.0, beta: float = 1.0) -> None:
        if features < 1:
            raise ValueError(f"features is {features}; it must be at least 1")
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not 0 < value < np.inf:
                raise ValueError(f"{name} is {value:g}; it must be above 0 and finite")
        self.features, self.alpha, self.beta = features, alpha, beta
        total = alpha + beta
        apart = np.log(total) - np.log1p(total)
        # By the number of the two that have the feature.
        self._log_3 = apart + np.array([np.log1p(1 / beta), 0.0, np.log1p(1 / alpha)])

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """See :class:`GenerativeModel`; examples are 0/1, ``[..., F]``.

        Raises:
            ValueError: if the last axis does not have length F, or a value is not 0 or 1.
        """
        counts = self._check(first) + self._check(second)
        return _floats(self._log_3[counts].sum(axis=-1))

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """See :class:`GenerativeModel`; examples are ``uint8[count, F]``."""
        first, second = rng.beta(self.alpha, self.beta, size=(2, count, self.features))
        draws = (rng.random((count, self.features)) < theta for theta in (first, first, second))
        return Triplets(*(draw.astype(np.uint8) for draw in draws))

    def _check(self, examples: Examples) -> npt.NDArray[np.int64]:
        values = np.asarray(examples)
        if values.shape[-1:] != (self.features,) or not np.isin(values, (0, 1)).all():
            expected = f"[..., {self.features}] of 0 and 1"
            raise ValueError(f"features: have shape {list(values.shape)}; they must be {expected}")
        return values.astype(np.int64)


def _prior(name: str, weights: Sequence[float] | Numbers | None, count: int) -> Numbers:
    prior = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if prior.shape != (count,) or count < 2 or not ((prior > 0) & np.isfinite(prior)).all():
        found = np.array2string(prior, threshold=8)
        raise ValueError(f"{name}: are {found}; they must be {max(2, count)} numbers above 0")
    return _floats(prior / prior.sum())


def _floats(values: Any) -> Numbers:
    return np.asarray(values, dtype=np.float64)
