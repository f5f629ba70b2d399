"""Where a network is trained."""

from __future__ import annotations

import torch

DEVICES = ("cpu", "cuda")


class DeviceError(ValueError):
    """This machine has no such device."""


def choose_device(name: str) -> torch.device:
    """Return the device of that name.

    Raises:
        DeviceError: unless it is ``cpu``, or ``cuda`` where torch finds a GPU that it can use.
    """
    if name not in DEVICES:
        raise DeviceError(f"device is {name!r}; it must be one of {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError("device is 'cuda', and torch finds no GPU that it can use; use 'cpu'")
    return torch.device(name)
