from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from hummingbit.training.optimizers import Adam


def _gradients(step: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(4, 3, generator=generator), torch.randn(3, generator=generator)]


def _parameters() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.ones(4, 3)), torch.nn.Parameter(torch.zeros(3))]


def test_the_weights_are_those_of_torch() -> None:
    ours, theirs = _parameters(), _parameters()
    adam = Adam(ours, lr=0.01)
    expected = torch.optim.Adam(theirs, lr=0.01, fused=True)
    for step in range(5):
        for parameters in (ours, theirs):
            for parameter, gradient in zip(parameters, _gradients(step), strict=True):
                parameter.grad = gradient
        for optimizer in (adam, expected):
            optimizer.param_groups[0]["lr"] = 0.01 / (1 + step)
            optimizer.step()
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)


def test_a_saved_state_continues_where_it_was_saved() -> None:
    parameters = _parameters()
    adam = Adam(parameters, lr=0.01)

    def step(optimizer: Adam, number: int) -> None:
        for parameter, gradient in zip(parameters, _gradients(number), strict=True):
            parameter.grad = gradient
        optimizer.step()

    step(adam, 0)
    weights = [parameter.detach().clone() for parameter in parameters]
    saved = {
        "state": {
            number: {name: value.clone() for name, value in state.items()}
            for number, state in adam.state_dict()["state"].items()
        }
    }
    step(adam, 1)
    expected = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(weight)
    resumed = Adam(parameters, lr=0.01)
    resumed.load_state_dict(saved)
    step(resumed, 1)
    for one, other in zip(parameters, expected, strict=True):
        assert torch.equal(one, other)


def test_a_state_of_other_parameters_is_refused() -> None:
    adam = Adam(_parameters(), lr=0.01)
    with pytest.raises(ValueError, match="there is no parameter 2"):
        adam.load_state_dict({"state": {2: {}}})
    with pytest.raises(ValueError, match="another shape"):
        adam.load_state_dict({"state": {0: {"exp_avg": torch.zeros(2)}}})


def test_a_step_does_not_import_the_compiler_of_torch() -> None:
    program = """
import sys, torch
from hummingbit.training.optimizers import Adam
weight = torch.nn.Parameter(torch.ones(2))
weight.grad = torch.ones(2)
Adam([weight], lr=0.1).step()
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
