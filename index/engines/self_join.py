"""All pairs of codes within a radius of each other, exactly.

If codes are cut into r + s parts, two codes that differ in at most r bits agree in at least s of
the parts. So the codes are sorted by each choice of s parts in turn, and those that agree in all of
them are compared with each other. These are few if s parts have enough bits. The work is done in
slices, see :mod:`hummingbit.foundation.slices`. Source: Norouzi, Punjani and Fleet, "Fast exact
search in Hamming space with multi-index hashing" (2014), for s = 1; Manku, Jain and Das Sarma,
"Detecting near-duplicates for web crawling" (2007), section 3, for several.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.engines import kernel

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MAX_PARTS_AGREEING = 6
MAX_KEY_BITS = 62
# The cost of sorting a code by one choice of parts, in comparisons of two codes.
SORT_COST = 60
SORT_COST_OF_KERNEL = 40
# Limits the memory of the pairs that are yielded at once.
PAIRS_AT_ONCE = 1 << 20


class Pairs(NamedTuple):
    """Pairs of positions ``first[i] < second[i]``, and the Hamming distances of their codes."""

    first: Integers
    second: Integers
    distances: npt.NDArray[np.uint16]


def compares_all_pairs(n_codes: int, n_bits: int, radius: int) -> bool:
    """Tell whether :func:`pairs_within` would compare every code with every other one."""
    return not _parts_agreeing(n_codes, n_bits, radius)


def pairs_within(
    codes: Codes, radius: int, tell: Callable[[int, int], object] | None = None
) -> Iterator[Pairs]:
    """Yield every pair of `codes`, ``uint8[N, C]``, that differ in at most `radius` bits, once.

    `tell` is called with the number of sorted lists that are done, and that of all.

    Raises:
        ValueError: if `radius` is negative.
    """
    if radius < 0:
        raise ValueError(f"radius is {radius}; it must be 0 or more")
    n_bits = codes.shape[1] * 8
    words = kernel.words_of(codes)
    agreeing = _parts_agreeing(len(codes), n_bits, radius)
    if not agreeing:
        yield from _all_pairs(words, radius)
        return
    lengths = [len(part) for part in np.array_split(np.arange(n_bits), radius + agreeing)]
    keys = _keys(words, lengths)
    total = math.comb(len(keys), agreeing)
    for done, chosen in enumerate(itertools.combinations(range(len(keys)), agreeing)):
        check_cancelled()
        if tell is not None:
            tell(done, total)
        key = np.zeros(len(codes), dtype=np.int64)
        for part in chosen:
            key = key << lengths[part] | keys[part]
        for pairs in _agreeing_pairs(words, key, radius):
            # A pair that agrees in more parts is found again by other choices; the first counts.
            yield _first_seen(pairs, keys, chosen)


def _parts_agreeing(n_codes: int, n_bits: int, radius: int) -> int:
    """Return the cheapest s for evenly spread codes; 0 if comparing all pairs is cheapest."""
    sort_cost = SORT_COST if kernel.native is None else SORT_COST_OF_KERNEL
    costs = {0: n_codes**2 / 2}
    for agreeing in range(1, MAX_PARTS_AGREEING + 1):
        parts = radius + agreeing
        key_bits = n_bits * agreeing // parts
        if parts <= n_bits and key_bits <= MAX_KEY_BITS:
            compared = n_codes**2 / 2 ** (key_bits + 1)
            costs[agreeing] = math.comb(parts, agreeing) * (n_codes * sort_cost + compared)
    return min(costs, key=costs.__getitem__)


def _agreeing_pairs(words: Words, key: Integers, radius: int) -> Iterator[Pairs]:
    """Yield the pairs of codes with equal keys that lie within `radius`."""
    if kernel.native is not None:
        keys, order = kernel.order_of(key.view(np.uint64))
        yield from _pairs_of_kernel(words[order], keys, order, radius)
        return
    order = np.argsort(key)
    key = key[order]
    last = np.append(np.flatnonzero(key[1:] != key[:-1]), len(key) - 1)
    ends = np.repeat(last + 1, np.diff(last, prepend=-1))
    columns = [column[order] for column in words.T]
    # Each code is compared with the one `step` positions on, while that has the same key.
    left = np.arange(len(order))
    step = 1
    while len(left := left[left + step < ends[left]]):
        for start in range(0, len(left), PAIRS_AT_ONCE):
            some = left[start : start + PAIRS_AT_ONCE]
            yield from _near(columns, some, some + step, order, radius)
        step += 1


def _all_pairs(words: Words, radius: int) -> Iterator[Pairs]:
    """Yield the pairs within `radius` by comparing every code with every later one."""
    if kernel.native is not None:
        keys = np.zeros(len(words), dtype=np.uint64)
        yield from _pairs_of_kernel(words, keys, np.arange(len(words)), radius)
        return
    columns, order = list(words.T), np.arange(len(words))
    for step in range(1, len(words)):
        yield from _near(columns, order[:-step], order[step:], order, radius)


def _pairs_of_kernel(words: Words, keys: Words, order: Integers, radius: int) -> Iterator[Pairs]:
    """Yield the pairs of codes with equal `keys`, which ascend, that lie within `radius`."""
    # Word by word; the padding at the end is there because whole registers are read.
    columns = np.append(words.T, np.zeros(kernel.LANES, dtype=np.uint64))
    firsts = np.empty(PAIRS_AT_ONCE, dtype=np.int64)
    seconds, distances = np.empty_like(firsts), np.empty(PAIRS_AT_ONCE, dtype=np.uint16)
    i, j = 0, 1
    while i < len(words):
        check_cancelled()
        n, i, j = kernel.native.pairs(
            *(len(words), words.shape[1], columns, keys, radius),
            *(i, j, PAIRS_AT_ONCE, firsts, seconds, distances),
        )
        if n:
            left, right = order[firsts[:n]], order[seconds[:n]]
            yield Pairs(np.minimum(left, right), np.maximum(left, right), distances[:n].copy())


def _near(
    columns: list[Words], left: Integers, right: Integers, order: Integers, radius: int
) -> Iterator[Pairs]:
    """Yield the pairs of positions within `radius`, translated by `order`."""
    check_cancelled()
    first, *others = columns
    distances = np.bitwise_count(first[left] ^ first[right]).astype(np.uint16)
    for column in others:
        distances += np.bitwise_count(column[left] ^ column[right])
    near = np.flatnonzero(distances <= radius)
    if len(near):
        firsts, seconds = order[left[near]], order[right[near]]
        yield Pairs(np.minimum(firsts, seconds), np.maximum(firsts, seconds), distances[near])


def _first_seen(pairs: Pairs, keys: list[Integers], chosen: tuple[int, ...]) -> Pairs:
    """Leave out pairs that an earlier choice of parts has found.

    Choices come in lexicographic order, so the first one that finds a pair consists of the first
    parts that agree: before its last part, no part outside of the choice agrees.
    """
    new = np.ones(len(pairs.first), dtype=np.bool_)
    for part in range(chosen[-1]):
        if part not in chosen:
            new &= keys[part][pairs.first] != keys[part][pairs.second]
    return pairs if new.all() else Pairs(pairs.first[new], pairs.second[new], pairs.distances[new])


def _keys(words: Words, lengths: list[int]) -> list[Integers]:
    """Return consecutive runs of bits of each code, of the given lengths, as numbers."""
    keys, start = [], 0
    for length in lengths:
        key = np.zeros(len(words), dtype=np.uint64)
        for bit in range(start, start + length):
            word, position = divmod(bit, 64)
            key = key << np.uint64(1) | words[:, word] >> np.uint64(position) & np.uint64(1)
        keys.append(key.astype(np.int64))
        start += length
    return keys
