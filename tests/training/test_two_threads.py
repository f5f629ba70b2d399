from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

import pytest
import torch

from hummingbit.training.layers import HalvedLinear, both, each_on_one_core, log_partition


def halved_product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    layer = HalvedLinear(8, len(bias))
    arguments = {"weight": weight, "bias": bias}
    product: torch.Tensor = torch.func.functional_call(layer, arguments, (x,))
    return product


@pytest.fixture
def two_cores() -> Iterator[None]:
    """Let torch use two cores, as on a machine that has them."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_cores")
def test_two_parts_compute_at_the_same_time_without_gradients() -> None:
    met = threading.Barrier(2)

    def part() -> tuple[int, bool, int]:
        met.wait(10)
        return threading.get_ident(), torch.is_grad_enabled(), torch.get_num_threads()

    with each_on_one_core(second_thread=True), torch.no_grad():
        one, other = both(part, part)
    assert one[0] != other[0]
    assert one[1:] == other[1:] == (False, 1)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_cores")
def test_the_calling_thread_computes_what_the_second_has_no_time_for() -> None:
    held: Future[None] = Future()
    with each_on_one_core(second_thread=True):
        # The second part of a first call keeps the thread busy during another call.
        found = both(lambda: both(int, partial(held.set_result, None)), held.result)
    assert found == ((0, None), None)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    ("compute", "spread"),
    [(log_partition, 1.0), (log_partition, 200.0), (halved_product, 1.0)],
)
def test_the_number_of_threads_changes_no_bit(
    compute: Callable[..., torch.Tensor], spread: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=generator) for shape in ((9, 8), (301, 8), (301,))]
    inputs[2] *= spread
    found = []
    for second_thread in (False, True):
        parts = [tensor.clone().requires_grad_() for tensor in inputs]
        with each_on_one_core(second_thread=second_thread):
            compute(*parts).square().sum().backward()  # type: ignore[no-untyped-call]
        found.append([part.grad for part in parts])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.usefixtures("two_cores")
def test_an_error_of_either_part_is_raised() -> None:
    def fails() -> None:
        raise ZeroDivisionError

    with each_on_one_core(second_thread=True):
        for parts in ((fails, int), (int, fails)):
            with pytest.raises(ZeroDivisionError):
                both(*parts)
    assert torch.get_num_threads() == 2
