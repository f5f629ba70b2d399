from __future__ import annotations

import pytest
import torch

from experiments.generative_similarity.picture_encoders import (
    METHODS,
    Pictures,
    cosine,
    embed,
    minus_distance,
    minus_squared_distance,
    random_views,
    train_encoder,
)
from hummingbit.training.loop import Schedule


def bars(count: int) -> Pictures:
    """Upright and level bars at random places."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.arange(count) % 2
    places = torch.randint(2, 14, (count,), generator=generator)
    x = torch.zeros(count, 1, 16, 16)
    for picture, kind, place in zip(x[:, 0], classes, places, strict=True):
        (picture.T if kind else picture)[place - 1 : place + 1] = 1
    alike = torch.eye(2)
    return Pictures(x, classes, alike + 0.01, alike, cosine, 0.1)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_is_repeatable(method: str) -> None:
    # Two batches and two pictures more, which no triplet can be made of.
    pictures, schedule = bars(66), Schedule(20, 32, 3e-3, 0)
    first, second = (embed(train_encoder(method, pictures, schedule), pictures.x) for _ in "ab")
    assert first.shape == (66, 32)
    assert torch.equal(first, second)
    if method not in ("untrained", "simclr"):
        alike = cosine(first)
        same = pictures.classes[:, None] == pictures.classes
        assert alike[same].mean() > alike[~same].mean() + 0.5


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match="method is 'magic'; it must be one of generative-regress"):
        train_encoder("magic", bars(8), Schedule(1, 8, 1e-3, 0))


def test_views_are_turned_scaled_and_shifted_a_little() -> None:
    x = torch.zeros(200, 1, 32, 32)
    x[:, :, 8:24, 14:18] = 1
    seen = random_views(x, 0.4, torch.Generator().manual_seed(0))
    assert seen.shape == x.shape
    ink = seen.sum(dim=(1, 2, 3)) / x[0].sum()
    assert 1.125**-2 - 0.03 < ink.min() < 0.85
    assert 1.2 < ink.max() < 0.875**-2 + 0.03
    places = torch.arange(32.0) - 15.5
    across = (seen[:, 0].sum(dim=1) * places).sum(dim=1) / seen.sum(dim=(1, 2, 3))
    assert 1 < across.abs().max() < 0.05 * 32 * 1.3
    turned = random_views(x, 0.0, torch.Generator().manual_seed(0))
    assert (turned[:, 0, :, :8] < 1e-6).all()


def test_similarities_are_those_of_every_two_embeddings() -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    distance = torch.cdist(x, x)
    torch.testing.assert_close(minus_distance(x), -distance, atol=1e-4, rtol=0)
    torch.testing.assert_close(minus_squared_distance(x), -distance.square())
    expected = torch.cosine_similarity(x[:, None], x, dim=2)
    torch.testing.assert_close(cosine(x), expected)
