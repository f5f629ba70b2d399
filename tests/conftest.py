from __future__ import annotations

# First, since the numerical libraries read the environment when they are imported. The tests run in
# as many processes as there are cores; more threads would wait for each other in busy loops.
import hummingbit.threads  # noqa: F401  # isort: skip

import gc
import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from hummingbit.encoder.recipes import BaseRecipe, JudgementRecipe
from hummingbit.foundation import slices
from tests.support import postgres
from tests.support.postgres import Server

ROOT = Path(__file__).parents[1]
POSTGRES = "postgres"
"""It is in the ids of all tests that need a PostgreSQL server, and of no more than a few others."""

# How long an example takes says more about the machine than about the code. The examples are the
# same in every run, so that a change alone can break the suite; the other profile draws others,
# and twice as many.
settings.register_profile(
    "same-examples",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
settings.register_profile(
    "other-examples",
    settings.get_profile("same-examples"),
    max_examples=100,
    derandomize=False,
)
settings.load_profile("same-examples")


# Garbage collections during the imports of all tests would go through more and more that stays.
gc.disable()

# A language model that a developer has installed changes what commands do; processes inherit this.
os.environ["HUMMINGBIT_MODEL"] = "none"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--training-seed",
        type=int,
        default=0,
        metavar="N",
        help="add N to the seed of every training: what one seed finds is no property",
    )


def pytest_configure(config: pytest.Config) -> None:
    if shift := config.getoption("--training-seed"):
        recipes: list[Any] = [BaseRecipe, JudgementRecipe]
        for recipe in recipes:
            recipe.__post_init__ = _shifting(recipe.__post_init__, shift)


def _shifting(check: Callable[[Any], None], shift: int) -> Callable[[Any], None]:
    def check_and_shift(recipe: Any) -> None:
        check(recipe)
        object.__setattr__(recipe, "seed", recipe.seed + shift)

    return check_and_shift


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give one worker what shares a server or a module's fixtures, so that they are made once.

    Marks of ``xdist_group`` do not do it: what pytest-xdist appends to the id of a test by them is
    lost with pytest 9.2.
    """
    return SharedTogether(config, log)


class SharedTogether(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """One worker runs all tests that need a server, those of a module that has fixtures for all its
    tests, and those of a function; a large group comes before a small one.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if POSTGRES in nodeid:
            return POSTGRES
        return module if has_module_fixtures(ROOT / module) else nodeid.partition("[")[0]


@cache
def has_module_fixtures(path: Path) -> bool:
    return 'scope="module"' in path.read_text(encoding="utf-8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that need PostgreSQL one after the other, and long ones early.

    Of groups of the same size, pytest-xdist begins with the first; a long test that comes last
    would leave processors without work.
    """
    items.sort(key=lambda item: (POSTGRES not in item.nodeid, not item.get_closest_marker("long")))


def pytest_collection_finish() -> None:
    """Exempt the tests and all that they import, a million objects, from garbage collection."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def only_short_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print no stage of a command that takes long only because the machine is busy."""
    monkeypatch.setattr(slices, "SECONDS", 3600.0)


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Undo what ``hummingbit serve`` changes in the logging of this process.

    Else every later request to a service in this process would be logged, to a closed stream.
    """
    loggers = [logging.getLogger(name) for name in (None, "uvicorn", "httpx")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    root = loggers[0]
    # Those of pytest have types of their own.
    added = [handler for handler in root.handlers if type(handler) is logging.StreamHandler]
    root.handlers[:] = [handler for handler in root.handlers if handler not in added]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server that tests share."""
    if reason := postgres.reason_unavailable():
        pytest.skip(reason)
    with postgres.postgres_server() as server:
        yield server


@pytest.fixture
def postgres_uri(postgres_server: Server) -> str:
    """The address of an empty database."""
    return postgres_server.new_database()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the sums of the numbers that tests recorded as properties."""
    totals: Counter[str] = Counter()
    for report in itertools.chain(*terminalreporter.stats.values()):
        if getattr(report, "when", None) == "call":
            totals.update(dict(report.user_properties))
    if totals:
        found = ", ".join(f"{count:,} {what}" for what, count in totals.items())
        failed = len(terminalreporter.stats.get("failed", ()))
        terminalreporter.write_line(f"in all: {found}; {failed} tests failed")
