from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.training.data import gather
from hummingbit.training.loop import DeviceError, choose_device
from hummingbit.training.semi_supervised import train
from tests.support.corpora import topic_documents

RECIPE = AutoencoderRecipe(
    n_bits=16, label_fraction=0.5, epochs=12, batch_size=32, hidden=24, max_terms=100
)


def test_devices_that_are_not_there_are_named() -> None:
    with pytest.raises(DeviceError, match="device is 'tpu'; it must be one of cpu, cuda"):
        choose_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="torch finds no GPU"):
            choose_device("cuda")


def test_bfloat16_trains_to_codes_as_good(tmp_path: Path) -> None:
    data = gather(topic_documents(400))
    half = train(data, RECIPE, tmp_path / "half", progress=False, amp=True)
    assert half.validation["expected"]["P@100"] > 0.8
