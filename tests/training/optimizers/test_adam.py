from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hummingbit.training.optimizers import Adam

SHAPES = ((3, 5), (7,), (40, 33))


def _drawn(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def _step(optimizer: Any, gradients: list[Tensor], number_without: int | None = None) -> None:
    parameters = optimizer.param_groups[0]["params"]
    optimizer.zero_grad()
    for number, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        parameter.grad = None if number == number_without else gradient
    optimizer.step()


def _made(optimizer: Callable[..., Any], **options: Any) -> Any:
    return optimizer([nn.Parameter(start) for start in _drawn(0)], **options)


def _tensors(optimizer: Any) -> list[Tensor]:
    parameters = optimizer.param_groups[0]["params"]
    states = [optimizer.state[one] for one in parameters if one in optimizer.state]
    return [*parameters, *(tensor for state in states for tensor in state.values())]


def _are_equal(one: Any, other: Any) -> bool:
    pairs = zip(_tensors(one), _tensors(other), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@settings(max_examples=25)
@given(
    steps=st.lists(st.none() | st.integers(0, len(SHAPES) - 1), max_size=6),
    learning_rate=st.sampled_from([0.004, 1.0]),
)
def test_parameters_are_updated_as_by_torch(steps: list[int | None], learning_rate: float) -> None:
    ours = _made(Adam, lr=learning_rate)
    torchs = _made(torch.optim.Adam, lr=learning_rate, fused=True)
    for number, without in enumerate(steps):
        for group in (*ours.param_groups, *torchs.param_groups):
            group["lr"] = learning_rate / (1 + number)
        for optimizer in (ours, torchs):
            _step(optimizer, _drawn(1 + number), without)
    assert _are_equal(ours, torchs)


def test_a_state_that_torch_saved_goes_on_to_the_same_weights() -> None:
    ours, torchs = _made(Adam, lr=0.1), _made(torch.optim.Adam, lr=0.1, fused=True)
    _step(torchs, _drawn(1), number_without=1)
    _step(ours, _drawn(1), number_without=1)
    ours.load_state_dict(deepcopy(torchs.state_dict()))
    for optimizer in (ours, torchs):
        _step(optimizer, _drawn(2))
    assert _are_equal(ours, torchs)
    assert ours.state_dict()["state"].keys() == torchs.state_dict()["state"].keys()


def test_training_does_not_import_the_compiler_of_torch() -> None:
    program = """
import sys
import torch
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.batches import SparseBatch
from hummingbit.training.layers import SparseLinear, log_partition

model = torch.nn.Sequential(SparseLinear(9, 3), torch.nn.Linear(3, 4))

def loss(rows, generator, progress):
    one = torch.arange(len(rows))
    x = SparseBatch(torch.from_numpy(rows), torch.ones(len(rows)), one, torch.ones_like(one))
    return {"loss": log_partition(model[0](x), model[1].weight, model[1].bias).mean()}

fit(model, loss, 9, Schedule(2, 4, 0.1, 0), progress=False)
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
