"""The forward pass of one row, compiled and in numpy, against sums of single numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.encoder import text_features
from hummingbit.encoder.analyzers import PIECE_LENGTH
from hummingbit.encoder.encoder import Integers, Layer, forward_row
from hummingbit.encoder.text_features import Floats, TextFeatures
from tests.support.commands import run
from tests.support.encoders import random_layers, random_texts, text_encoder

ROOT = Path(__file__).parents[3]
needs_compiled = pytest.mark.skipif(text_features.built is None, reason="it was not built")
Forward = Callable[[Sequence[Layer], Integers, Floats], Floats]


def compiled_row(layers: Sequence[Layer], columns: Integers, values: Floats) -> Floats:
    out = np.full(len(layers[-1].bias), np.nan, dtype=np.float32)
    flat = [
        item for layer in layers for item in (layer.weight, layer.bias, layer.activation == "relu")
    ]
    text_features.built.forward(out, columns, values, np.zeros_like(out), *flat)
    return out


def reference_row(layers: Sequence[Layer], columns: Integers, values: Floats) -> Floats:
    """Add one product of two numbers after the other, each rounded to float32."""
    x = dict(zip(columns.tolist(), values, strict=True))
    outputs: list[np.float32] = []
    for layer in layers:
        outputs = []
        for j in range(len(layer.bias)):
            total = np.float32(0)
            for i, value in x.items():
                total = np.float32(total + np.float32(value * layer.weight[i, j]))
            total = np.float32(total + layer.bias[j])
            outputs.append(max(total, np.float32(0)) if layer.activation == "relu" else total)
        x = dict(enumerate(outputs))
    return np.array(outputs, dtype=np.float32)


@pytest.mark.parametrize("forward", [forward_row, pytest.param(compiled_row, marks=needs_compiled)])
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_products_are_rounded_and_added_in_order(
    forward: Forward, data: st.DataObject, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sizes = [data.draw(st.integers(1, 150)), *data.draw(st.lists(st.integers(2, 20), max_size=2))]
    layers = random_layers(rng, *sizes, 8 * data.draw(st.integers(1, 3)))
    # Sums of numbers of different sizes depend on their order most.
    scales = [10.0 ** rng.integers(-4, 4, (len(layer.weight), 1)) for layer in layers]
    layers = [
        Layer((layer.weight * scale).astype(np.float32), layer.bias, layer.activation)
        for layer, scale in zip(layers, scales, strict=True)
    ]
    columns = np.flatnonzero(rng.random(sizes[0]) < rng.random())
    values = rng.normal(size=len(columns)).astype(np.float32)
    found = forward(layers, columns, values)
    assert found.dtype == np.float32
    assert np.array_equal(found, reference_row(layers, columns, values))


@needs_compiled
def test_both_give_the_same_weights_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = text_encoder(64)
    wide = TextFeatures([f"w{number}" for number in range(300)], weighting="log")
    rng = np.random.default_rng(3)
    long_encoder = replace(encoder, features=wide, layers=random_layers(rng, 300, 500, 500, 64))
    sizes = (1, 63, 65, 400, PIECE_LENGTH)
    long_texts = [" ".join(rng.choice(wide.vocabulary, size=size)) for size in sizes]
    cases = [(encoder, ["", "unheard of", *random_texts(14)]), (long_encoder, long_texts)]
    for item, texts in cases:
        monkeypatch.setattr("hummingbit.encoder.encoder.native", None)
        by_numpy = item.read_queries(texts).weights
        monkeypatch.setattr("hummingbit.encoder.encoder.native", text_features.built)
        together = item.read_queries(texts).weights
        assert np.array_equal(by_numpy, together)
        alone = [item.read_queries([text]).weights[0] for text in texts]
        assert np.array_equal(alone, together)


@needs_compiled
def test_arguments_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(0)
    first, last = random_layers(rng, 6, 5, 8)
    thresholds = np.zeros(8, dtype=np.float32)
    layers = (thresholds, first.weight, first.bias, True, last.weight, last.bias, False)
    columns, values = np.array([0, 5]), np.ones(2, dtype=np.float32)
    out = np.empty(8, dtype=np.float32)
    forward = text_features.built.forward
    forward(out, columns, values, *layers)
    misfits: list[tuple[object, ...]] = [
        (out[:7], columns, values, *layers),
        (out, columns[:1], values, *layers),
        (out, np.array([0, 6]), values, *layers),
        (out, np.array([-1, 5]), values, *layers),
        (out, columns, values, thresholds[:7], *layers[1:]),
        (out, columns, values, thresholds, first.weight, first.bias[:4], True, *layers[4:]),
        (out, columns, values, *layers[:4], last.weight[:4], last.bias, False),
        (out, columns, values, *layers[:5], last.bias[:0], False),
    ]
    for arguments in misfits:
        with pytest.raises(ValueError, match="fit"):
            forward(*arguments)
    read_only = out.copy()
    read_only.flags.writeable = False
    mistakes: list[tuple[object, ...]] = [
        (read_only, columns, values, *layers),
        (out, columns, values, thresholds, first.weight.T, *layers[2:]),
        (out, columns, values, *layers[:6]),
        (out, columns, values),
        (out, None, values, *layers),
    ]
    for arguments in mistakes:
        with pytest.raises((TypeError, ValueError, BufferError)):
            forward(*arguments)


@needs_compiled
@given(data=st.data())
def test_terms_are_weighed_as_a_matrix_of_them_is(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, 30), max_size=80))
    idf_list = data.draw(st.none() | st.lists(st.floats(0, 10, width=32), min_size=31, max_size=31))
    features = TextFeatures(
        [f"w{number}" for number in range(31)],
        weighting=data.draw(st.sampled_from(["count", "log", "binary"])),
        idf=None if idf_list is None else np.array(idf_list, dtype=np.float32),
        l2_normalize=data.draw(st.booleans()),
    )
    text = " ".join(f"w{number}" for number in numbers)
    expected = features.transform([text])
    with pytest.MonkeyPatch.context() as patch:
        for native in (None, text_features.built):
            patch.setattr("hummingbit.encoder.text_features.native", native)
            row, terms = features.read_query(text)
            assert np.array_equal(row.columns, expected.indices)
            assert np.array_equal(row.values, expected.data)
            assert row.values.dtype == np.float32
            assert terms.recognized_terms == len(set(numbers))


@needs_compiled
def test_terms_that_do_not_fit_are_refused() -> None:
    rows, values = np.empty(3, dtype=np.int64), np.empty(3, dtype=np.float32)
    gains, idf = np.arange(4, dtype=np.float32), np.ones(5, dtype=np.float32)
    weigh = text_features.built.weigh
    assert weigh(rows, values, [4, 0, 4], gains, idf, False) == 2
    assert (rows[:2].tolist(), values[:2].tolist()) == ([0, 4], [1.0, 2.0])
    misfits: list[tuple[object, ...]] = [
        (rows[:2], values, [4, 0, 4], gains, idf, False),
        (rows, values[:2], [4, 0, 4], gains, idf, False),
        (rows, values, [4, 0, 4], gains[:3], idf, False),
        (
            np.empty(70, np.int64),
            np.empty(70, np.float32),
            [0] * 70,
            np.empty(80, np.float32),
            idf,
            False,
        ),
        (rows, values, [5], gains, idf, False),
        (rows, values, [-1], gains, idf, False),
    ]
    for arguments in misfits:
        with pytest.raises(ValueError, match="column"):
            weigh(*arguments)
    mistakes: list[tuple[object, ...]] = [
        (rows, values, (1, 2), gains, idf, False),
        (rows, values, [1, 2], gains, idf),
        (rows, values, ["1"], gains, idf, False),
        (rows, values, [2**70], gains, idf, False),
        (rows, values, [1], gains, None, False),
    ]
    for arguments in mistakes:
        with pytest.raises((TypeError, OverflowError)):
            weigh(*arguments)


@needs_compiled
def test_a_variable_switches_it_off() -> None:
    show = "from hummingbit.encoder import text_features; print(text_features.native is None)"
    for setting, is_off in (("off", "True\n"), ("", "False\n")):
        assert run(sys.executable, "-c", show, cwd=ROOT, HUMMINGBIT_KERNEL=setting) == is_off
