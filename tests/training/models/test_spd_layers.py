from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from hummingbit.foundation.errors import InputError
from hummingbit.training.data import Rows
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.spd import FLOOR, SpdNetwork, matrices_of, spd_network, whitening
from tests.support.matrices import class_matrices, spd_matrices


def test_centring_takes_the_mean_to_the_identity_whatever_the_unit() -> None:
    matrices = spd_matrices(20, 5)
    for unit in (1.0, 1e-27):
        center = whitening(matrices * unit)
        assert np.allclose(whitening(center @ (matrices * unit) @ center), np.eye(5), atol=1e-5)


def test_the_forward_pass_in_numpy_is_that_of_torch() -> None:
    matrices = spd_matrices(12, 7)
    torch.manual_seed(0)
    network = SpdNetwork(whitening(matrices), (5, 3))
    rows, columns = np.triu_indices(7)
    vectors = matrices[:, rows, columns].astype(np.float32)
    found = network.features().transform(vectors)
    expected = network.vectors(torch.from_numpy(matrices_of(vectors)))
    assert found.shape == (12, 6)
    assert np.allclose(found, expected.detach().numpy(), atol=1e-5)


def test_eigenvalues_are_rectified_between_the_maps() -> None:
    torch.manual_seed(0)
    network = SpdNetwork(np.eye(4), (3, 3))
    tiny = torch.eye(4, dtype=torch.float64).expand(1, 4, 4) * FLOOR / 100
    torch.testing.assert_close(network(tiny)[0], FLOOR * torch.eye(3, dtype=torch.float64))
    logarithm = np.log(FLOOR) * np.eye(3)[np.triu_indices(3)]
    assert np.allclose(network.vectors(tiny).detach().numpy(), logarithm)


def test_maps_stay_on_the_stiefel_manifold_while_they_are_trained() -> None:
    matrices, labels = class_matrices(40)
    torch.manual_seed(0)
    network = spd_network(whitening(matrices), 2)
    before = [weight.copy() for weight in network.features().weights]
    x_Nnn, own_N = torch.from_numpy(matrices), torch.tensor([label == "a" for label in labels])

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> dict[str, Tensor]:
        taken = torch.from_numpy(rows)
        traces_N = network(x_Nnn[taken]).diagonal(dim1=1, dim2=2).sum(dim=1)
        return {"loss": torch.where(own_N[taken], -traces_N, traces_N).mean()}

    history = fit(network, loss, 40, Schedule(10, 20, 0.05, 0), progress=False)
    assert history[-1]["loss"] < history[0]["loss"] - 0.5
    after = network.features().weights
    assert not np.allclose(after[0], before[0], atol=0.1)
    for weight in (network.maps[0].weight, network.maps[1].weight):
        assert isinstance(weight, Tensor)
        torch.testing.assert_close(weight.mT @ weight, torch.eye(len(weight.T)).double())


@pytest.mark.parametrize(("widths", "given"), [((8,), 8), ((3, 4), 4), ((0,), 0)])
def test_a_width_beyond_the_one_before_is_an_error(widths: tuple[int, ...], given: int) -> None:
    with pytest.raises(ValueError, match=f"^a width is {given}; it must be from 1 to"):
        SpdNetwork(np.eye(5), widths)


def test_small_matrices_keep_their_size() -> None:
    assert [len(weight.T) for weight in spd_network(np.eye(3), 8).features().weights] == [3, 3]
    assert [len(weight.T) for weight in spd_network(np.eye(40), 8).features().weights] == [16, 8]


def test_vectors_that_hold_no_matrix_are_an_error() -> None:
    with pytest.raises(InputError, match=r"^vector: has 5 numbers"):
        matrices_of(np.ones((2, 5), dtype=np.float32))
    with pytest.raises(
        InputError, match=r"least eigenvalue is -1; every eigenvalue must be above 0"
    ):
        matrices_of(np.array([[1, 2, 1]], dtype=np.float32))
