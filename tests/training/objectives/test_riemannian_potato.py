from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.artifact_detection import Potato
from scipy.stats import gmean, gstd, zscore
from torch import Tensor
from torch.autograd import gradcheck

from hummingbit.training.objectives.riemannian_potato import (
    EUCLIDEAN,
    MIN_LOG_DEVIATION,
    Ranking,
    RiemannianPotato,
    geometric_statistics,
    geometric_z_score,
    potato_ranking_loss,
)
from hummingbit.training.spd import AFFINE_INVARIANT
from tests.support.matrices import class_matrices, spd_matrices

PLAIN = Ranking(threshold=1.0, margin=2.0, balance=0.5)


def one_hot(*labels: int, classes: int = 2) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(labels), classes).bool()


def in_loops(z: Tensor, tags: Tensor, ranking: Ranking) -> float:
    """The loss as it is printed."""
    positive, negative = [], []
    for z_i, own in zip(z.tolist(), tags.tolist(), strict=True):
        for z_ic, is_own in zip(z_i, own, strict=True):
            if is_own and z_ic > ranking.threshold:
                positive.append(z_ic - ranking.threshold)
            if not is_own and z_ic < ranking.threshold + ranking.margin:
                negative.append(ranking.threshold + ranking.margin - z_ic)
    means = [sum(some) / len(some) if some else 0.0 for some in (positive, negative)]
    return means[0] + ranking.balance * means[1]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-2, 2), st.floats(0, 4), st.floats(0, 3))
def test_the_loss_equals_its_sums_in_loops(
    seed: int, threshold: float, margin: float, balance: float
) -> None:
    rng = np.random.default_rng(seed)
    z = torch.from_numpy(3 * rng.standard_normal((6, 3)))
    tags = torch.from_numpy(rng.random((6, 3)) < 0.4)
    ranking = Ranking(threshold, margin, balance)
    assert float(potato_ranking_loss(z, tags, ranking)) == pytest.approx(in_loops(z, tags, ranking))


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), threshold=st.floats(-2, 2), balance=st.sampled_from([0.5, 1.0])
)
def test_the_loss_of_anchors_equals_its_sums_in_loops(
    seed: int, threshold: float, balance: float
) -> None:
    """Each pair (i, c) of an example and its class has means of its own, without i itself."""
    rng = np.random.default_rng(seed)
    z = torch.from_numpy(3 * rng.standard_normal((7, 3)))
    tags = torch.from_numpy(rng.random((7, 3)) < 0.4)
    tags[0, 0] = True
    anchors = []
    for i in range(7):
        for c in range(3):
            if not tags[i, c]:
                continue
            others = [float(z[j, c]) - threshold for j in range(7) if tags[j, c] and j != i]
            strange = [threshold + 2.0 - float(z[j, c]) for j in range(7) if not tags[j, c]]
            near, far = ([x for x in of if x > 0] for of in (others, strange))
            one = sum(near) / len(near) if near else 0.0
            anchors.append(one + balance * (sum(far) / len(far) if far else 0.0))
    found = potato_ranking_loss(z, tags, Ranking(threshold, 2.0, balance, "anchors"))
    assert float(found) == pytest.approx(sum(anchors) / len(anchors))


def test_an_average_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="average is 'all'; it must be pairs or anchors"):
        Ranking(average="all")


def test_trivial_pairs_have_no_gradient() -> None:
    z = torch.tensor([[0.0, 4.0], [2.0, 2.5]], dtype=torch.float64).requires_grad_()
    potato_ranking_loss(z, one_hot(0, 0), PLAIN).backward()  # type: ignore[no-untyped-call]
    # Of the pairs, (1, 0) lies beyond the threshold and (1, 1) within the margin.
    assert z.grad is not None
    assert z.grad.tolist() == [[0, 0], [1, -0.5]]
    right = torch.tensor([[0.0, 4.0]], dtype=torch.float64)
    assert float(potato_ranking_loss(right, one_hot(0), PLAIN)) == 0


def test_z_scores_are_those_of_logarithms() -> None:
    d = torch.from_numpy(np.random.default_rng(0).lognormal(size=50))
    log_mean, log_deviation = geometric_statistics(d)
    assert float(log_mean.exp()) == pytest.approx(gmean(d.numpy()))
    assert float(log_deviation.exp()) == pytest.approx(gstd(d.numpy(), ddof=0))
    z = geometric_z_score(d[:, None], log_mean[None], log_deviation[None])
    assert np.allclose(z[:, 0], zscore(d.log().numpy()))


def test_a_potato_is_that_of_pyriemann_and_follows_one_example_as_it_does() -> None:
    x = spd_matrices(40, 4)
    ours = RiemannianPotato(2, (4, 4), AFFINE_INVARIANT, PLAIN, rate=0.2)
    theirs = Potato(threshold=100, n_iter_max=1).fit(x[:20])
    both = torch.from_numpy(x[:22])
    tags = one_hot(*[0] * 20, 1, 1)
    with torch.no_grad():
        ours._initialize(both, tags)
    assert np.allclose(ours.references[0], theirs.covmean_, atol=1e-5)
    for number in range(22, 26):
        theirs.partial_fit(x[[number]], alpha=0.2)
        ours(torch.from_numpy(x[[number, 0]]), one_hot(0, 1))
        assert np.allclose(ours.references[0], theirs.covmean_, atol=1e-5)
    d = ours.distances(torch.from_numpy(x[30:]), torch.tensor([True, False]))
    z = geometric_z_score(d, ours.log_mean_C[:1], ours.log_deviation_C[:1])
    assert np.allclose(z[:, 0], theirs.transform(x[30:]), atol=1e-4)


def test_gradients_of_embeddings_equal_finite_differences() -> None:
    x, labels = class_matrices(8, seed=1)
    tags = one_hot(*("abc".index(label) for label in labels), classes=3)
    for shape, geometry, points in (
        ((6, 6), AFFINE_INVARIANT, torch.from_numpy(x)),
        ((36,), EUCLIDEAN, torch.from_numpy(x).flatten(1)),
    ):
        potato = RiemannianPotato(3, shape, geometry, Ranking(-1, 4))
        potato(points, tags)
        kept = {name: value.clone() for name, value in potato.state_dict().items()}

        def loss(
            moved: Tensor, potato: RiemannianPotato = potato, kept: dict[str, Tensor] = kept
        ) -> Tensor:
            potato.load_state_dict(kept)
            symmetric = (moved + moved.mT) / 2 if moved.ndim == 3 else moved
            found: Tensor = potato(symmetric, tags)
            return found

        assert gradcheck(loss, points.clone().requires_grad_(), eps=1e-6, fast_mode=True)


def test_descent_gathers_classes_and_parts_them() -> None:
    x, labels = class_matrices(60)
    places = torch.tensor(["abc".index(label) for label in labels])
    tags = one_hot(*places.tolist(), classes=3)
    moving = torch.from_numpy(x).flatten(1).float().requires_grad_()
    potato = RiemannianPotato(3, (36,), EUCLIDEAN, Ranking(), softness=0.1)
    optimizer = torch.optim.Adam([moving], lr=0.1)

    def ratio() -> float:
        """How far the members of a class are apart, over how far others are."""
        d = torch.cdist(moving, moving).detach()
        same = places[:, None] == places
        return float(d[same].mean() / d[~same].mean())

    before = ratio()
    for _ in range(60):
        optimizer.zero_grad()
        potato(moving, tags).backward()
        optimizer.step()
    assert ratio() < before / 3


def test_a_class_of_one_example_waits_for_another() -> None:
    potato = RiemannianPotato(3, (2,), EUCLIDEAN, PLAIN)
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    potato(x, one_hot(0, 0, 1, classes=3))
    assert potato.known_C.tolist() == [1, 0, 0]
    alone = RiemannianPotato(3, (2,), EUCLIDEAN, PLAIN)
    assert float(alone(x, one_hot(0, 1, 2, classes=3))) == 0
    # Two examples are equally far from their mean.
    assert potato.log_deviation_C[0] == MIN_LOG_DEVIATION


def test_statistics_are_kept_in_the_state() -> None:
    x, labels = class_matrices(30)
    tags = one_hot(*("abc".index(label) for label in labels), classes=3)
    first, second = (RiemannianPotato(3, (6, 6), AFFINE_INVARIANT, PLAIN) for _ in range(2))
    first(torch.from_numpy(x), tags)
    second.load_state_dict(first.state_dict())
    later = torch.from_numpy(class_matrices(30, seed=1)[0])
    assert float(first(later, tags)) == float(second(later, tags))


@pytest.mark.parametrize(
    ("embeddings", "tags", "message"),
    [
        (
            torch.zeros(3, 2),
            one_hot(0, 0, 0),
            "^label: the number of classes of the 3 examples in the batch is 1",
        ),
        (torch.zeros(3, 2), one_hot(0, 1), "^tags: there are 3 embeddings and 2 rows of tags"),
        (
            torch.tensor([[0.0, 0.0], [0.0, torch.nan]]),
            one_hot(0, 1),
            "^embedding: row 1 contains NaN",
        ),
        (
            torch.tensor([[torch.inf, 0.0], [0.0, 0.0]]),
            one_hot(0, 1),
            "^embedding: row 0 contains NaN",
        ),
    ],
)
def test_a_batch_that_is_not_right_is_an_error(
    embeddings: Tensor, tags: Tensor, message: str
) -> None:
    potato = RiemannianPotato(2, (2,), EUCLIDEAN, PLAIN)
    with pytest.raises(ValueError, match=message):
        potato(embeddings, tags)
    assert float(potato.known_C.sum()) == 0


def test_settings_out_of_their_range_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"^margin is -1; it must be 0 or more"):
        Ranking(margin=-1)
    with pytest.raises(ValueError, match=r"^balance is nan; it must be 0 or more"):
        Ranking(balance=float("nan"))
    with pytest.raises(ValueError, match=r"^rate is 0; it must be above 0 and at most 1"):
        RiemannianPotato(2, (2,), EUCLIDEAN, PLAIN, rate=0)
    with pytest.raises(ValueError, match=r"^z and tags have shapes \[2, 3\] and \[2, 2\]"):
        potato_ranking_loss(torch.zeros(2, 3), one_hot(0, 1), PLAIN)
    with pytest.raises(ValueError, match=r"^z: contains NaN"):
        potato_ranking_loss(torch.full((2, 2), torch.nan), one_hot(0, 1), PLAIN)
