"""Saved results of long computations, computed again only if settings or code have changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from experiments.code_version import code_version
from hummingbit.foundation.files import replace_file

Tensors = dict[str, torch.Tensor]
Array = npt.NDArray[Any]


def load_or_compute(
    path: Path, settings: Mapping[str, Any], compute: Callable[[], Tensors]
) -> Tensors:
    """Return the tensors saved in `path` if `settings` made them; else compute and save them.

    `settings` is everything besides the code that the result depends on, as JSON values. A file
    that is damaged, or was made with other settings or other code, is replaced atomically.
    """
    saved = load_saved(path, settings)
    if saved is not None:
        return saved
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in compute().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, save(tensors, {"settings": _canonical(settings)}))
    return tensors


def load_saved(path: Path, settings: Mapping[str, Any]) -> Tensors | None:
    """Return the tensors saved in `path`, or None unless `settings` and this code made them."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("settings") != _canonical(settings):
                return None
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError:
        return None


def content_sha256(*parts: bytes | Array | torch.Tensor) -> str:
    """Return the hash of the contents of files and of the shapes, types and values of arrays."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, bytes):
            array = np.frombuffer(part, np.uint8)
        else:
            array = part.cpu().numpy() if isinstance(part, torch.Tensor) else part
        digest.update(f"{array.dtype} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()


def _canonical(settings: Mapping[str, Any]) -> str:
    return json.dumps({**settings, "code": code_version()}, sort_keys=True)
