"""The optional compiled kernel, and the tables that it searches.

It is written in C, in ``native/``, and pip builds it if there is a compiler. Without it, FAISS
scans the codes and finds the same. ``HUMMINGBIT_KERNEL=off`` switches it off. The name of a code
path (``scalar``, ``avx2``, ``avx512bw``, ``vpopcntdq`` or ``neon``) selects that one instead of the
fastest one of the processor.
"""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes
from hummingbit.encoder.text_features import OFF, VARIABLE, Floats
from hummingbit.foundation.errors import InputError
from hummingbit.index.engines.protocol import Weights, max_bit_weight

try:
    from hummingbit.index.engines import _kernel
except ImportError:  # it was not built
    built: Any = None
else:
    built = _kernel

LANES = 8
LINE = 64
"""The number of codes in a group; a search may read that many codes beyond the last."""
TABLE_BITS = 64
"""The longest codes that a table can hold."""

Keys = npt.NDArray[np.uint64]
Bitmap = npt.NDArray[np.uint8]
"""A bit for each position, the lowest of a byte first."""

# The filter has 2**FILTER_BITS bits for each cell of the directory.
FILTER_BITS = 3
MAX_CELL_BITS = 28


def _choose_kernel() -> Any:
    """Return the kernel, or None if it was not built or is switched off.

    Raises:
        InputError: if the variable names a path that this processor does not support.
    """
    setting = os.environ.get(VARIABLE, "")
    if built is None or setting == OFF:
        return None
    if setting:
        try:
            built.use(setting)
        except ValueError:
            known = ", ".join((OFF, *built.paths()))
            raise InputError(VARIABLE, f"is {setting!r}; it must be one of {known}") from None
    return built


native: Any = _choose_kernel()
"""The kernel's functions, or None."""


def path() -> str | None:
    """Return the name of the code path that searches, or None without the kernel."""
    return None if native is None else os.environ.get(VARIABLE) or native.paths()[0]


def missing() -> str | None:
    """Return why there is no kernel, and what that costs, in one sentence; None if there is one."""
    if native is not None:
        return None
    why = "was not built; install a C compiler, and install hummingbit again"
    if built is not None:
        why = f"is switched off by {VARIABLE}={OFF}"
    return f"FAISS scans all codes, at a fraction of the speed: the compiled kernel {why}"


class Table(NamedTuple):
    """The distinct codes of at most 64 bits, by hash, and the positions of each."""

    keys: Keys
    """The distinct codes, followed by zeros."""
    starts: npt.NDArray[np.uint32]
    """``uint32[D + 1]``: code c is at ``positions[starts[c]:starts[c + 1]]``."""
    positions: npt.NDArray[np.int32]
    arguments: tuple[Any, ...]
    """The table as arguments of the kernel."""

    @classmethod
    def of(cls, words: Keys, bits: int, code_of: npt.NDArray[np.int32] | None = None) -> Table:
        """Make the table of codes of `bits` bits; `code_of` receives the code of each position."""
        n = len(words)
        keys = words.copy()
        positions = np.empty(n, dtype=np.int32)
        starts = np.empty(n + 1, dtype=np.uint32)
        n_keys = native.group(n, bits, keys, positions, starts, code_of)
        starts = starts[: n_keys + 1].copy()
        keys = np.append(keys[:n_keys], np.zeros(LANES, dtype=np.uint64))
        cell_bits = min(bits, MAX_CELL_BITS, max(1, n_keys.bit_length()))
        filter_bits = max(6, min(bits, cell_bits + FILTER_BITS))
        directory = np.zeros(2**cell_bits + 1, dtype=np.uint32)
        filter_ = np.zeros(2 ** (filter_bits - 6), dtype=np.uint64)
        native.index(bits, cell_bits, filter_bits, n_keys, keys, directory, filter_)
        sizes = (bits, cell_bits, filter_bits, n_keys)
        return cls(keys, starts, positions, (*sizes, keys, starts, positions, directory, filter_))

    @property
    def n_keys(self) -> int:
        """The number of distinct codes."""
        return len(self.starts) - 1


def words_of(codes: Codes) -> Keys:
    """Return codes as numbers of 64 bits, ``uint64[N, W]``, padded with zero bytes."""
    size = codes.shape[1]
    if size % 8 == 0:
        return np.ascontiguousarray(codes).view("<u8")
    padded = np.zeros((len(codes), -(-size // 8) * 8), dtype=np.uint8)
    padded[:, :size] = codes
    return padded.view("<u8")


def group_codes(words: Keys) -> Keys:
    """Return codes, ``uint64[N, W]``, in the layout of the kernel: ``[N / 8, W, 8]``, zero-padded.

    Each group of eight codes is stored word by word, so a register holds one word of eight codes,
    and begins a cache line: a register across two lines takes twice as long to load.
    """
    n_groups = -(-len(words) // LANES)
    whole = np.zeros((n_groups * LANES, words.shape[1]), dtype=np.uint64)
    whole[: len(words)] = words
    by_word = whole.reshape(n_groups, LANES, words.shape[1]).transpose(0, 2, 1)
    groups = _empty_in_lines(by_word.shape)
    groups[:] = by_word
    return groups


def _empty_in_lines(shape: tuple[int, ...]) -> Keys:
    """Return an empty array that begins at a cache line."""
    n = math.prod(shape)
    memory = np.empty(n + LINE // 8 - 1, dtype=np.uint64)
    start = -memory.ctypes.data % LINE // 8
    return memory[start : start + n].reshape(shape)


def bitmap_of(n: int, positions: npt.NDArray[np.int64]) -> Bitmap:
    """Return the bitmap of `n` positions in which `positions` are set."""
    bits = np.zeros((n + 7) // 8, dtype=np.uint8)
    native.mark(n, bits, len(positions), positions, 1)
    return bits


def without_positions(n: int, bits: Bitmap | None, positions: npt.NDArray[np.int64]) -> Bitmap:
    """Return a copy of a bitmap with `positions` cleared; None means that all bits are set."""
    copy = np.full((n + 7) // 8, 255, dtype=np.uint8) if bits is None else bits.copy()
    native.mark(n, copy, len(positions), positions, 0)
    return copy


def are_set(bits: Bitmap | None, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell which of `positions` are set; None means that all bits are set."""
    if bits is None:
        return np.ones(len(positions), dtype=np.bool_)
    is_set: npt.NDArray[np.bool_] = (
        bits[positions >> 3] >> (positions & 7).astype(np.uint8) & 1
    ) != 0
    return is_set


def order_of(keys: Keys) -> tuple[Keys, npt.NDArray[np.int64]]:
    """Return the sorted `keys` and the position of each before; equal keys keep their order."""
    ordered = keys.copy()
    order = np.empty(len(keys), dtype=np.uint32)
    native.order(len(keys), ordered, order)
    return ordered, order.astype(np.int64)


def place_weights(weights: Weights, bytes_: npt.NDArray[np.intp], n_words: int) -> Weights:
    """Return the weights in the bit order of the words, lowest first: ``int64[Q, 64 * n_words]``.

    `bytes_` is the position of each byte of a code in its words.

    Raises:
        ValueError: if a weight is beyond
            :func:`~hummingbit.index.engines.protocol.max_bit_weight`.
    """
    n_queries, n_bits = weights.shape
    placed = np.empty((n_queries, 64 * n_words), dtype=np.int64)
    weights = np.ascontiguousarray(weights)
    most = max_bit_weight(n_bits)
    native.place(n_queries, n_bits // 8, weights, bytes_, n_words, most, placed)
    return placed


def round_weights(weights: Floats, max_bits: int) -> tuple[Weights, npt.NDArray[np.int64]]:
    """See :func:`hummingbit.index.rankings.quantize_weights`."""
    n_queries, n_bits = weights.shape
    whole = np.empty((n_queries, n_bits), dtype=np.int64)
    totals = np.empty(n_queries, dtype=np.int64)
    weights = np.ascontiguousarray(weights, dtype=np.float32)
    native.round(n_queries, n_bits, weights, max_bits, whole, totals)
    return whole, totals
