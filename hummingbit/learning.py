"""Learns codes from a collection while a service searches it, and says what came of it.

Training is a job of the service (:mod:`hummingbit.service.jobs.train`), so another process trains,
and if this one is killed, the next start of the service goes on. If the service is stopped in
order, as by Ctrl-C, the job is cancelled and leaves nothing behind.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from hummingbit.evaluation.known_items import FOUND, RECIPROCAL_RANK, SAME_LABEL
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.jobs.runner import Jobs
from hummingbit.service.jobs.store import FINISHED, JobRecord, NewJob

SECONDS_BETWEEN_LOOKS = 0.25
BAR = 24
MIN_SHARE = 0.05
"""With less of a step done, its time is not estimated."""


@dataclass(frozen=True)
class Learning:
    """What is learned from, where its codes go, and how they are trained."""

    source: str
    alias: str
    into: str
    settings: Mapping[str, Any]
    arguments: Sequence[str] = ()
    """Further arguments of ``hummingbit train``, which no request to a service can give."""

    def job(self) -> NewJob:
        """Return the job that learns, compares, and moves the alias if more is found."""
        spec = {
            "method": None,
            "for_search": True,
            "compare": True,
            "settings": dict(self.settings),
            "arguments": list(self.arguments),
            "encoder": self.into,
            "source": self.source,
            "into": self.into,
            "alias": self.alias,
            "engine": None,
            "label_field": "label",
        }
        return NewJob("train", self.source, spec)

    @contextmanager
    def beside(self, jobs: Jobs) -> Iterator[None]:
        """Learn while the block runs; at its end, cancel what is not done."""
        job = jobs.submit(jobs.files.draft(), self.job())
        stopping = threading.Event()
        follower = threading.Thread(
            target=self._follow, args=(jobs, job.id, stopping), name="learning", daemon=True
        )
        follower.start()
        try:
            yield
        finally:
            stopping.set()
            follower.join()
            cancel(jobs, job.id)

    def run(self, jobs: Jobs) -> None:
        """Learn, and return when it is done; if it is interrupted, leave nothing behind."""
        job = jobs.submit(jobs.files.draft(), self.job())
        try:
            self._follow(jobs, job.id, threading.Event())
        except BaseException:
            cancel(jobs, job.id)
            raise

    def _follow(self, jobs: Jobs, id_: str, stopping: threading.Event) -> None:
        """Show the progress of the job, and its outcome, until it ends or the service stops."""
        bar = Bar(sys.stderr)
        while True:
            job = jobs.get(id_)
            if job.state in FINISHED:
                bar.close()
                self._print_outcome(job)
                return
            if stopping.wait(SECONDS_BETWEEN_LOOKS):
                bar.close()
                print(f"stopped learning; {self.alias} is searched as before", flush=True)
                return
            bar.show(job.step or "waiting", job.done / job.total if job.total else None)

    def _print_outcome(self, job: JobRecord) -> None:
        result = job.result or {}
        if "trial" in result:
            print_trial(result["trial"])
        if job.state == "failed":
            reason = (job.error or {}).get("detail", "the log says why")
            print(f"learning failed: {reason}; {self.alias} is searched as before", flush=True)
        elif job.state == "cancelled":
            print(f"learning was cancelled; {self.alias} is searched as before", flush=True)
        elif result["state"] == "live":
            print(f"{self.alias} is searched by the codes that were learned: ", end="")
            print(f"{result['trial']['sentence']}.", flush=True)
        else:
            print(
                f"{self.alias} keeps its codes, as learned ones do not find enough more: ",
                end="",
            )
            print(f"{result['trial']['sentence']}.", flush=True)


def cancel(jobs: Jobs, id_: str) -> None:
    """Cancel a job unless it is done, and wait until its files are gone."""
    try:
        jobs.cancel(id_)
        while jobs.get(id_).state not in FINISHED:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    except ProblemError:  # it has ended, or is about to
        return


def print_trial(trial: Mapping[str, Any]) -> None:
    """Print what searches for the documents held out found, before and after."""
    served = trial["served"]
    rows = {f"before: {name}": values for name, values in trial["before"].items()}
    rows |= {f"learned: {name}": trial["after"][name] for name in [served]}
    rows |= {name: values for name, values in trial["after"].items() if name != served}
    if trial["chance"] is not None:
        rows["chance"] = {SAME_LABEL: trial["chance"]}
    columns = {SAME_LABEL: "same label", FOUND: "in first ten", RECIPROCAL_RANK: "MRR"}
    shown = [metric for metric in columns if any(metric in values for values in rows.values())]
    print(f"\n{'':<22}" + "".join(f"{columns[metric]:>14}" for metric in shown))
    for name, values in rows.items():
        cells = [f"{values[metric]:.3f}" if metric in values else "–" for metric in shown]
        print(f"{name:<22}" + "".join(f"{cell:>14}" for cell in cells))
    queries, documents = trial["queries"], trial["documents"]
    print(f"Measured with {queries:,} documents held out of {documents:,}.\n")


class Bar:
    """A line with the current step of a job, how much of it is done, and how long it will take.

    On a terminal the line changes; elsewhere each step has one.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._changes = stream.isatty()
        self._step = ""
        self._began = 0.0

    def show(self, step: str, share: float | None) -> None:
        """Show that a `share` of the step is done, None if that is not known."""
        now = time.monotonic()
        if step != self._step:
            self._step, self._began = step, now
            if not self._changes:
                print(f"{_NAMES.get(step, step)} …", file=self._stream, flush=True)
        if not self._changes:
            return
        seconds = now - self._began
        if share is None or share < MIN_SHARE:
            told = f"{seconds:.0f} s"
            done = round(BAR * (share or 0))
        else:
            told = f"{share:.0%}, about {_rounded(seconds * (1 - share) / share)} s left"
            done = round(BAR * share)
        line = f"{_NAMES.get(step, step)} {'█' * done}{'░' * (BAR - done)} {told}"
        print(f"\r\x1b[K{line}", end="", file=self._stream, flush=True)

    def close(self) -> None:
        """Remove the line."""
        if self._changes and self._step:
            print("\r\x1b[K", end="", file=self._stream, flush=True)


_NAMES = {
    "waiting": "waiting to learn",
    "reading": "choosing documents to learn from",
    "training": "learning codes",
    "comparing": "comparing searches by documents held out",
    "encoding": "encoding the documents",
}


def _rounded(seconds: float) -> int:
    """Return seconds as a person would say them."""
    return round(seconds) if seconds < 10 else round(seconds / 5) * 5
