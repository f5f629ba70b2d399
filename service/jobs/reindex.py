"""The job that encodes a collection's documents with another encoder, into another collection.

The target is a draft (:mod:`hummingbit.index.folders`), so nobody writes to it before it is
complete, and an attempt that ends before then leaves nothing behind. With writers kept out, the job

1. records its point of no return, with the incarnation of the source and the current generations
   of source and target,
2. publishes the target under its name,
3. moves the alias, and writes its own id into the file of aliases in the same step.

From then on writes go to the target. A later attempt that finds the job's id there has nothing left
to do, and must not copy anything, because that would undo later writes. If the target was published
and the alias was not moved, the attempt moves it, unless source or target were written to since.
"""

from __future__ import annotations

from typing import Any

from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import AddAlias
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.folders import Draft
from hummingbit.index.ingestion import (
    carry_annotations,
    carry_most_annotations,
    copy_following,
    copy_payloads,
    delete_missing,
)
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.jobs.work import Progress

BATCH = 1000


def reindex(folder: DataFolder, gate: WriteGate, progress: Progress) -> dict[str, Any]:
    """Do the job, or the rest of it after an earlier attempt, and return its result."""
    if (progress.recorded or {}).get("target") is not None:
        with gate.closed():
            result = _complete(folder, progress)
        if result is not None:
            return result
        # Nothing of the earlier attempt is left, so this one can be stopped again.
        progress.no_return = False
        progress.record({})
    return _begin(folder, gate, progress)


def _begin(folder: DataFolder, gate: WriteGate, progress: Progress) -> dict[str, Any]:
    spec = progress.job.spec
    source = folder.collection(spec["source"])
    draft = folder.draft_like(source, spec["into"], spec["encoder"], spec["engine"])
    try:
        began = source.generation
        row = _copy(source, draft.collection, progress)
        copied = carry_most_annotations(source, draft.collection)
        with gate.closed(), source.holding_writes():
            copy_following(source, draft.collection, row)
            delete_missing(source, draft.collection)
            copy_payloads(source, draft.collection, began)
            carry_annotations(source, draft.collection, copied)
            generation = draft.collection.generation
            _publish(folder, draft, source, progress)
    finally:
        draft.discard()  # unless it was published
    target = folder.collection(spec["into"])
    return _result(progress, len(target), generation)


def _copy(source: CollectionBackend, target: CollectionBackend, progress: Progress) -> int:
    """Copy while others write, until less than a batch is left; return the last row copied."""
    progress.step = "encoding"
    progress.advance(total=len(source))
    row = copy_following(source, target, 0, progress.advance)
    progress.step = "catching up"
    # Each round copies what was written during the one before, so the rounds get shorter.
    while source.documents_after(row, BATCH)[BATCH - 1 :]:
        row = copy_following(source, target, row, progress.advance)
    return row


def _publish(
    folder: DataFolder, draft: Draft, source: CollectionBackend, progress: Progress
) -> None:
    """Publish the target and move the alias to it. Writers must be kept out."""
    spec = progress.job.spec
    progress.advance()
    progress.pass_no_return(
        {
            "target": draft.id,
            "target_generation": draft.collection.generation,
            "source": source.incarnation,
            "source_generation": source.generation,
        }
    )
    draft.publish()
    if spec["alias"] is None:
        return
    try:
        folder.change_aliases([AddAlias(spec["alias"], spec["into"])], progress.job.id)
    except BaseException:
        folder.drop_collection(spec["into"])
        raise


def _complete(folder: DataFolder, progress: Progress) -> dict[str, Any] | None:
    """Complete a job past its point of no return; return None if it must start again.

    Writers must be kept out.
    """
    spec, recorded = progress.job.spec, progress.recorded or {}
    alias, target = spec["alias"], folder.published_draft(recorded["target"])
    generation = recorded["target_generation"]
    if alias is not None and folder.aliases_changed_by(progress.job.id):
        return _result(progress, 0 if target is None else len(target), generation)
    if target is None:
        return None
    if alias is None:
        return _result(progress, len(target), generation)
    if target.generation != generation:
        message = (
            f"collection {spec['into']!r} was written to before alias {alias!r} moved to it; both"
            " collections stay as they are: move the alias, or reindex into another collection"
        )
        raise ProblemError(409, "collection_exists", message)
    source = folder.collections().get(spec["source"])
    if source is not None and not (
        is_same_source(source, recorded) and source.generation == recorded["source_generation"]
    ):
        folder.drop_collection(spec["into"])
        return None
    folder.change_aliases([AddAlias(alias, spec["into"])], progress.job.id)
    return _result(progress, len(target), generation)


def is_same_source(source: CollectionBackend, recorded: dict[str, Any]) -> bool:
    """Tell whether `source` is the collection that a job copied, not a later one of its name.

    `recorded` is the job's; records of earlier versions do not say, and count as the same.
    """
    return source.incarnation == str(recorded.get("source", source.incarnation))


def _result(progress: Progress, documents: int, generation: int) -> dict[str, Any]:
    """Return the job's result; `generation` is the target's when the alias moved to it."""
    progress.done = progress.total = documents
    spec = progress.job.spec
    return {
        "collection": spec["into"],
        "documents": documents,
        "alias": spec["alias"],
        "generation": generation,
    }
