"""Every path of the compiled kernel against the oracle; how it is built and switched off."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.encoder.codes import Codes
from hummingbit.index.engines import compiled, kernel
from hummingbit.index.engines.choice import Choice, build
from hummingbit.index.engines.compiled import CompiledIndex, LookupIndex, MultiIndex, ScanIndex
from hummingbit.index.engines.protocol import After, Neighbours, Rows, max_bit_weight
from tests.index.engines.conftest import PATHS
from tests.support.codes import assert_same, clustered_codes, random_codes, random_rows
from tests.support.oracles.brute_force import BruteForceIndex

ROOT = Path(__file__).parents[4]
WIDTHS = [8, 16, 24, 40, 64, 72, 104, 128, 136, 256, 1024, 1984, 2000, 3072, 4096]

pytestmark = pytest.mark.parametrize("way", ["kernel"], indirect=True)


@pytest.fixture(params=PATHS or ["none"])
def path(request: pytest.FixtureRequest, way: str) -> Iterator[str]:
    """Make the kernel use each path that this processor has, in turn."""
    kernel.built.use(request.param)
    yield request.param
    kernel.built.use(PATHS[0])


@pytest.fixture(autouse=True)
def few_rows_soon_get_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "WORDS_PER_ROW", 15.0)
    monkeypatch.setattr(compiled, "FEWEST_IN_TABLES", 1)


def engines(n_bits: int) -> list[type[CompiledIndex]]:
    """Return the engines that take codes of so many bits."""
    fitting: list[type[CompiledIndex]] = [ScanIndex]
    fitting += [LookupIndex] * (n_bits <= 64)
    return fitting + [MultiIndex] * (16 <= n_bits <= 128)


def distance_of_some_hit(rng: np.random.Generator, found: list[Neighbours]) -> int:
    """Return a distance at which a page may end."""
    return int(
        rng.choice(np.concatenate([[0, 3], *(neighbours.distances for neighbours in found)]))
    )


def check(rng: np.random.Generator, *, n: int, n_bits: int, k: int, flips: float) -> None:
    """Hold every engine to the oracle: radius, tombstones, allowed rows, weights, batches."""
    codes = clustered_codes(rng, n + 12, n_bits, centres=4, flips=flips)
    codes, queries = codes[:n], codes[n:]
    rows, gone = random_rows(rng, n), rng.random(n) < rng.choice([0, 0.2, 1])
    allowed_rows = np.flatnonzero(rng.random(3 * n + 3) < rng.choice([0, 0.02, 0.5, 1]))
    allowed_rows.setflags(write=False)
    radius = int(rng.integers(0, n_bits + 1))
    last_row = int(rng.integers(-1, 3 * n + 3))
    most = max_bit_weight(n_bits)
    weights = rng.integers(-most, most + 1, (4, n_bits)) * (rng.random(n_bits) < 0.7)
    weights[0] = most  # the largest sum of all
    oracle = BruteForceIndex(codes[~gone], rows[~gone])
    for engine in engines(n_bits):
        index = engine(codes, rows).without(rows[gone])
        for limit, some in [
            (None, None),
            (radius, None),
            (None, allowed_rows),
            (radius, allowed_rows),
        ]:
            expected = oracle.search(queries, k, limit, some)
            assert_same(index.search(queries, k, limit, some), expected)
            assert_same(index.search(queries[:1], k, limit, some), expected[:1])
            after = After(distance_of_some_hit(rng, expected), last_row)
            expected = oracle.search(queries, k, limit, some, after)
            assert_same(index.search(queries, k, limit, some, after), expected)
        for some in (None, allowed_rows):
            expected = oracle.search_weighted(weights, k, some)
            assert_same(index.search_weighted(weights, k, some), expected)
            assert_same(index.search_weighted(weights[:1], k, some), expected[:1])
            after = After(distance_of_some_hit(rng, expected), last_row)
            expected = oracle.search_weighted(weights, k, some, after)
            assert_same(index.search_weighted(weights, k, some, after), expected)
            assert_same(index.search_weighted(weights[1:2], k, some, after), expected[1:2])
        assert np.array_equal(index.live_codes()[0], codes[~gone])
        held, counts = index.counted_codes()
        assert len(held) <= (counts > 0).sum()
        assert counts.sum() == len(oracle)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 7, 8, 9, 33, 127, 128, 129, 300, 900]),
    n_bits=st.sampled_from(WIDTHS),
    k=st.sampled_from([1, 2, 10, 255, 256, 257, 2000]),
    flips=st.sampled_from([0.0, 0.01, 0.05, 0.5]),
)
def test_every_path_finds_what_the_oracle_finds(
    *, path: str, seed: int, n: int, n_bits: int, k: int, flips: float
) -> None:
    check(np.random.default_rng(seed), n=n, n_bits=n_bits, k=k, flips=flips)


@pytest.mark.fuzz
def test_every_path_finds_what_the_oracle_finds_for_long(path: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        n_bits = 8 * int(rng.integers(1, 24)) if rng.random() < 0.9 else 1024
        k = int(rng.choice([1, 10, 256, 257, 3000]))
        flips = float(rng.choice([0, 0.01, 0.03, 0.1, 0.5]))
        check(rng, n=int(rng.integers(0, 3000)), n_bits=n_bits, k=k, flips=flips)


class Weighted(NamedTuple):
    """Searches by weights, and for each `k` what the oracle finds, and then after the last hit."""

    codes: Codes
    gone: Rows
    weights: np.ndarray
    allowed_rows: Rows
    expected: dict[int, tuple[list[Neighbours], After, list[Neighbours]]]


@cache
def weighted_searches(n_bits: int) -> Weighted:
    rng = np.random.default_rng(0)
    n = 20_000
    codes, rows, most = random_codes(rng, n, n_bits), np.arange(n), max_bit_weight(n_bits)
    normal = np.clip(rng.normal(size=(4, n_bits)) * most / 4, -most, most).astype(np.int64)
    few_large = np.where(rng.random((1, n_bits)) < 0.05, most, 1)
    small = rng.integers(-3, 4, (1, n_bits))
    weights = np.concatenate([normal, few_large, small, np.zeros((1, n_bits), dtype=np.int64)])
    gone = rng.random(n) < 0.2
    allowed_rows = np.flatnonzero(rng.random(n) < 0.3)
    oracle, expected = BruteForceIndex(codes[~gone], rows[~gone]), {}
    for k in (1, 10, 600):
        found = oracle.search_weighted(weights, k)
        after = After(int(found[0].distances[-1]), int(found[0].rows[-1]))
        expected[k] = found, after, oracle.search_weighted(weights, k, allowed_rows, after)
    return Weighted(codes, rows[gone], weights, allowed_rows, expected)


@pytest.mark.parametrize("n_bits", [64, 136, 384])
def test_bounds_of_weighted_distances_exclude_no_result(path: str, n_bits: int) -> None:
    case = weighted_searches(n_bits)
    for engine in engines(n_bits):
        index = engine(case.codes, np.arange(len(case.codes))).without(case.gone)
        for k, (found, after, later) in case.expected.items():
            assert_same(index.search_weighted(case.weights, k), found)
            assert_same(index.search_weighted(case.weights, k, case.allowed_rows, after), later)
            for i, weights in enumerate(case.weights[:, None]):
                assert_same(index.search_weighted(weights, k), found[i : i + 1])


@pytest.mark.parametrize("n_bits", [40, 256])
def test_weighted_searches_in_large_batches_find_what_the_oracle_finds(
    path: str, n_bits: int
) -> None:
    rng = np.random.default_rng(2)
    # Copies of few codes, so that many are equally far away where the pages end.
    codes = random_codes(rng, 60, n_bits)[rng.integers(0, 60, 2500)]
    rows, weights = np.arange(len(codes)), rng.integers(-50, 51, (150, n_bits))
    oracle, after = BruteForceIndex(codes, rows), After(20 * n_bits // 2, 1200)
    for k in (1, 30, 300):
        expected = (
            oracle.search_weighted(weights, k),
            oracle.search_weighted(weights, k, None, after),
        )
        for engine in engines(n_bits):
            index = engine(codes, rows)
            assert_same(index.search_weighted(weights, k), expected[0])
            assert_same(index.search_weighted(weights, k, None, after), expected[1])


def test_codes_that_share_a_cell_of_the_directory_are_found() -> None:
    # The inverse of the multiplier makes numbers of which the highest bits of the hashes agree.
    back = pow(0x9E3779B97F4A7C15, -1, 2**64)
    words = np.array([hash_ * back % 2**64 for hash_ in range(2000)], dtype="<u8")
    codes = np.random.default_rng(0).permutation(words)[:, None].view(np.uint8)
    index, oracle = LookupIndex(codes, np.arange(2000)), BruteForceIndex(codes, np.arange(2000))
    assert_same(index.search(codes[:50], 3), oracle.search(codes[:50], 3))


def test_a_list_of_allowed_rows_is_remembered_while_it_cannot_change() -> None:
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 2000, 64)
    index, oracle = ScanIndex(codes, np.arange(2000)), BruteForceIndex(codes, np.arange(2000))
    allowed_rows = np.arange(0, 2000, 2)
    assert_same(
        index.search(codes[:3], 5, None, allowed_rows),
        oracle.search(codes[:3], 5, None, allowed_rows),
    )
    allowed_rows += 1
    assert_same(
        index.search(codes[:3], 5, None, allowed_rows),
        oracle.search(codes[:3], 5, None, allowed_rows),
    )
    addresses = []
    for start in range(20):
        # Lists that are gone leave their addresses to others.
        some = np.arange(start, 2000, 3)
        some.setflags(write=False)
        addresses.append(id(some))
        for _ in range(2):
            found = index.search(codes[:3], 5, None, some)
            assert_same(found, oracle.search(codes[:3], 5, None, some))
        del some
    assert len(set(addresses)) < len(addresses)


@pytest.mark.parametrize("engine", [ScanIndex, LookupIndex, MultiIndex])
def test_few_rows_that_are_often_allowed_get_an_index_of_the_same_kind(
    engine: type[CompiledIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    codes, rows = clustered_codes(rng, 2000, 64, centres=4, flips=0.05), np.arange(2000) * 3
    index, oracle = engine(codes, rows).without(rows[:40]), BruteForceIndex(codes[40:], rows[40:])
    made: list[int] = []
    make = engine.__init__

    def count_rows(self: CompiledIndex, codes: Codes, rows: Rows) -> None:
        made.append(len(rows))
        make(self, codes, rows)

    monkeypatch.setattr(engine, "__init__", count_rows)
    allowed_rows = rows[::20].copy()
    allowed_rows.setflags(write=False)
    for _ in range(4):
        found = index.search(codes[:7], 5, None, allowed_rows)
        assert_same(found, oracle.search(codes[:7], 5, None, allowed_rows))
    # Tables follow a scan; a scan follows none.
    assert made == [98]


@pytest.mark.parametrize(("n_bits", "tables"), [(64, LookupIndex), (128, MultiIndex)])
def test_tables_that_spare_no_scan_are_gone_before_the_scan_is_made(
    n_bits: int, tables: type[CompiledIndex]
) -> None:
    rng = np.random.default_rng(0)
    codes, rows = random_codes(rng, 50_000, n_bits), np.arange(50_000)
    peaks = {}
    for make in (tables, build):
        tracemalloc.start()
        made = make(codes, rows)
        peaks[make] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert isinstance(made, Choice)
    assert made.code_index.name == "scan"
    assert peaks[build] < 1.04 * peaks[tables]


def test_threads_search_and_strike_out_at_once(path: str) -> None:
    rng = np.random.default_rng(0)
    codes = clustered_codes(rng, 4040, 128)
    index = MultiIndex(codes[:4000], np.arange(4000))
    allowed_rows = np.arange(0, 4000, 3)
    allowed_rows.setflags(write=False)
    expected = index.search(codes[4000:], 20, None, allowed_rows)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(
            lambda _: index.search(codes[4000:], 20, None, allowed_rows), range(40)
        ):
            assert_same(found, expected)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("scan", (), "expected 12 arguments, not 0"),
        ("mark", (9, bytearray(1), 0, b"", 1), "argument 2 is too short"),
        ("mark", (8, b"a", 0, b"", 1), "not writable"),
        ("mark", (8, bytearray(1), 1, (8).to_bytes(8, "little"), 1), "not below the number"),
        ("mark", (8, bytearray(1), 0, b"", 2), "argument 5 is 2; it must be from 0 to 1"),
        ("order", (-1, b"", b""), "negative|can't convert"),
        (
            "order",
            (2**40, bytearray(1), bytearray(1)),
            "argument 1 is 1099511627776; it must be from 0 to",
        ),
        ("group", (1, 65, bytearray(8), bytearray(4), bytearray(8), None), "argument 2"),
        ("pairs", (1, 1, bytes(72), bytes(8), 3, 1, 1, 8, None, None, None), "bytes-like|buffer"),
        ("place", (1, 1, bytes(64), bytes([8] + [0] * 7), 1, 9, bytearray(512)), "out of bounds"),
        ("place", (1, 1, bytes(64), bytes(8), 1, 9, bytearray(511)), "argument 7 is too short"),
        ("place", (1, 1, b"\xff" * 63 + b"\x7f", bytes(8), 1, 9, bytearray(512)), "within"),
        ("round", (1, 1, np.full(1, np.inf, np.float32), 20, bytearray(8), bytearray(8)), "finite"),
        ("round", (1, 1, np.full(1, np.nan, np.float32), 20, bytearray(8), bytearray(8)), "finite"),
        ("use", ("quantum",), "does not support 'quantum'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    name: str, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError, BufferError), match=message):
        getattr(kernel.built, name)(*arguments)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_variable_switches_it_off_or_chooses_a_path() -> None:
    show = "from hummingbit.index.engines.compiled import kernel; print(kernel.native is None)"
    assert run(show, HUMMINGBIT_KERNEL="off").stdout == "True\n"
    assert run(show, HUMMINGBIT_KERNEL="scalar").stdout == "False\n"
    assert "must be one of off, " in run(show, HUMMINGBIT_KERNEL="fast").stderr


SMALL = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "small"
version = "1"
"""


@pytest.mark.parametrize("has_compiler", [False, True])
def test_a_source_install_needs_no_compiler(tmp_path: Path, has_compiler: bool) -> None:
    compiler = sysconfig.get_config_var("CC").split()[0]
    if has_compiler and shutil.which(compiler) is None:
        pytest.skip("there is no compiler here")
    quick = tmp_path / "quick-compiler"
    quick.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O1\n')
    quick.chmod(0o755)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    begin = project.index("[[tool.setuptools.ext-modules]]")
    extensions = project[begin : project.index("\n[tool.setuptools.package-data]", begin)]
    names = ["", ".encoder", ".index", ".index.engines", ".training"]
    packages = f"\n[tool.setuptools]\npackages = {[f'hummingbit{name}' for name in names]}\n"
    (tmp_path / "pyproject.toml").write_text(SMALL + packages + extensions, encoding="utf-8")
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    (tmp_path / "hummingbit").mkdir()
    (tmp_path / "hummingbit" / "__init__.py").touch()
    for folder in ("encoder", "index", "training"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
        (tmp_path / "hummingbit" / folder).symlink_to(f"../{folder}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", str(tmp_path / "to"), str(tmp_path)]
    environment = os.environ | {"CC": str(quick) if has_compiler else "false"}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    installed = tmp_path / "to" / "hummingbit"
    assert (installed / "index/engines/kernel.py").is_file()
    for name in ("encoder/_layers*.so", "index/engines/_kernel*.so", "training/_adam_rows*.so"):
        assert len(list(installed.glob(name))) == has_compiler
