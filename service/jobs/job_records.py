"""Records of jobs: what each has to do, how far it is, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foundation.times import now

State = Literal["queued", "running", "done", "failed", "cancelled"]
FINISHED: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, and its progress then, None if it never started."""

    state: State
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    done: int | None = None
    total: int | None = None
    finished: str = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job. Times are UTC, ISO 8601.

    `attempts` counts how often it was started, `owner` identifies the key that submitted it, and
    `bytes` is the size of its files. `recorded` is what an attempt saved for the next one. Once
    `no_return` is true, the job can only be completed. `step` is the current step; it is not on
    disk, so it is None for a job that is not running.
    """

    id: str
    kind: str
    collection: str
    spec: dict[str, Any]
    state: State
    done: int
    total: int | None
    attempts: int
    created: str
    started: str | None
    finished: str | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    idempotency_key: str | None
    digest: str | None
    owner: str
    bytes: int
    recorded: dict[str, Any] | None
    no_return: bool
    step: str | None = None

    def with_outcome(self, outcome: Outcome) -> JobRecord:
        """Return the job as it is after `outcome`."""
        return replace(
            self,
            state=outcome.state,
            finished=outcome.finished,
            result=outcome.result,
            error=outcome.error,
            done=self.done if outcome.done is None else outcome.done,
            total=self.total if outcome.total is None else outcome.total,
        )


@dataclass(frozen=True, slots=True)
class Idempotency:
    """An idempotency key, a digest of the request that came with it, and whose key it is.

    Each owner has keys of its own. Keys of the owner ``""`` are common to all.
    """

    key: str
    digest: str
    owner: str = ""

    @property
    def recorded(self) -> str:
        """The key as records have it. No header can hold a line break, so it is unambiguous."""
        return f"{self.owner}\n{self.key}" if self.owner else self.key


@dataclass(frozen=True, slots=True)
class NewJob:
    """What a job has to do, and for whom."""

    kind: str
    collection: str
    spec: dict[str, Any] = field(default_factory=dict)
    owner: str = ""
    idempotency: Idempotency | None = None
