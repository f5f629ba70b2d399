"""What is known of a job: what it is to do, how far it is, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foundation.times import now

State = Literal["queued", "running", "done", "failed", "cancelled"]
FINISHED: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, and how far it was then, where it was begun."""

    state: State
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    done: int | None = None
    total: int | None = None
    finished: str = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job; times are UTC, ISO 8601. `attempts` counts how often it was begun.

    `owner` tells whose job it is and `bytes` what its files take. `recorded` is what its work noted
    for the attempt after this one; after `no_return` the job can only be completed. `step` is what
    it is at; it is not on disk, so it is None of a job that does not run.
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
        """Return the job as it is once it ended so."""
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
class NewJob:
    """What a job is to do, and for whom.

    `idempotency` is the key that a client gave and a digest of the request that it gave it for.
    """

    kind: str
    collection: str
    spec: dict[str, Any] = field(default_factory=dict)
    owner: str = ""
    idempotency: tuple[str, str] | None = None
