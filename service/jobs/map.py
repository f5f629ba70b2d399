"""The job that lays out the distinct codes of a collection in the plane.

The layout runs in a process of its own with a low priority, because it computes for a minute or
more, and requests must not wait for it. ``GET /v1/maps/{id}`` reads the files that the job writes.
"""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.files import replace_file
from hummingbit.foundation.slices import available_cores
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.code_layout import Method, Places, best_method, send_layout
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.maps import DATE, CodeTable, CodeTimes, DistinctCodes, code_times, table_of
from hummingbit.index.records import labels_of
from hummingbit.service.jobs.work import Progress

MAP_FILE = "map.json"
POINTS_FILE = "points.bin"
MAX_POINTS = 250_000
MAX_LABELS = 200
PAGE = 1000
OTHER_LABEL = 65_534
NO_LABEL = 65_535
UNKNOWN_PURITY = 255
SECONDS_BETWEEN_CHECKS = 0.2
POINTS_OF_STEPS = {"principal components": (0, 2), "finding neighbours": (2, 30)}


@dataclass(frozen=True, slots=True)
class MapOptions:
    """The options of a map; without a `method`, the best one installed is used."""

    label_field: str = "label"
    time_field: str | None = None
    method: Method | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class MapColours:
    """What the points are coloured by, besides `table`, which has the labels of a payload field.

    `given_labels` has the labels that people agree on, with the same codes in the same order, or is
    None if nobody has given one; `times` has the values of the time field, if one is named.
    """

    table: CodeTable
    given_labels: CodeTable | None
    times: CodeTimes | None
    learned: npt.NDArray[np.int64] | None
    """How many documents of each code the encoder learned from, ``int64[D]``; None if its folder
    does not record them."""


def draw_map(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    """Lay out the codes of the job's collection and write the map into the job's folder.

    Raises:
        InputError: if the collection has no documents, the label field holds something that is no
            label, or the time field holds no numbers or dates.
    """
    options = MapOptions(**progress.job.spec)
    collection = folder.collection(progress.job.collection)
    progress.step = "reading"
    progress.advance(total=100)
    colours = read_colours(collection, options)
    table = colours.table
    drawn = np.sort(np.argsort(-table.documents, kind="stable")[:MAX_POINTS])
    method = options.method or best_method()
    places = _lay_out_in_process(table.codes[drawn], method, options.seed, progress)
    progress.step = "writing"
    replace_file(progress.folder / POINTS_FILE, _points(colours, drawn, places))
    description = _description(collection, colours, drawn, method, options)
    replace_file(progress.folder / MAP_FILE, json.dumps(description, ensure_ascii=False))
    progress.advance(100 - progress.done)
    return {"map": f"/v1/maps/{progress.job.id}", "points": len(drawn), "method": method}


def read_colours(collection: CollectionBackend, options: MapOptions) -> MapColours:
    """Read a collection, and group labels and times by the distinct codes.

    Raises:
        InputError: as :func:`draw_map`.
    """
    generation = collection.generation
    stored = collection.coded_payloads(with_given_labels=True)
    if not len(stored.codes):
        raise InputError("collection", f"{collection.name!r} has no documents to lay out")
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    labels_by_document = (labels_of(payload, options.label_field) for payload in stored.payloads)
    labels = [known.setdefault(names, names) for names in labels_by_document]
    distinct = DistinctCodes.of(stored.codes)
    given_labels, times = None, None
    if any(stored.given_labels):
        given_labels = table_of(distinct, stored.given_labels, generation)
    if options.time_field:
        times = code_times(distinct, stored.payloads, options.time_field)
    learned = _learned_documents(collection, distinct)
    return MapColours(table_of(distinct, labels, generation), given_labels, times, learned)


def _learned_documents(
    collection: CollectionBackend, distinct: DistinctCodes
) -> npt.NDArray[np.int64] | None:
    encoder = collection.encoder
    if encoder is None or not encoder.learned:
        return None
    is_text = encoder.kind == "text"
    by_id = not is_text or not len(encoder.learned.hashes)
    positions = {code.tobytes(): at for at, code in enumerate(distinct.codes)}
    learned = np.zeros(len(positions), dtype=np.int64)
    row = 0
    while page := collection.documents_after(row, PAGE):
        check_cancelled()
        contents = [document.text if is_text else document.vector for document in page]
        ids = [document.id for document in page]
        stored = zip(ids, contents, strict=True) if by_id else ()
        for document, is_learned in zip(
            page, encoder.learned.contain(contents, stored), strict=True
        ):
            # A code that is not among those was written since.
            at = positions.get(bytes.fromhex(document.code))
            if is_learned and at is not None:
                learned[at] += 1
        row = page[-1].row
    return np.minimum(learned, np.bincount(distinct.code_of, minlength=len(positions)))


def _lay_out_in_process(codes: Any, method: Method, seed: int, progress: Progress) -> Places:
    """Compute the layout in another process, which ends with the job."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    # As an argument, many codes would fill the pipe by which a process starts. The start would then
    # wait for the process, which fails with a traceback if the service is killed meanwhile.
    worker = context.Process(target=send_layout, args=(child,), daemon=True)
    worker.start()
    child.close()
    try:
        parent.send((codes, method, seed, available_cores()))
        while True:
            if not parent.poll(SECONDS_BETWEEN_CHECKS):
                progress.advance()
                continue
            message = parent.recv()
            if not isinstance(message, tuple):
                places: Places = message
                return places
            step, done, total = message
            begin, end = POINTS_OF_STEPS.get(step, (30, 98))
            progress.step = step
            percent = begin + (end - begin) * done // max(total, 1)
            progress.advance(max(0, percent - progress.done))
    except (EOFError, ConnectionError):
        raise RuntimeError("the process that computes the layout ended early") from None
    finally:
        worker.kill()
        worker.join()
        parent.close()


def _points(colours: MapColours, drawn: Any, places: Places) -> bytes:
    """Write the points column by column, little-endian; the description names the columns."""
    table = colours.table
    columns = [
        places[:, 0].astype("<f4"),
        places[:, 1].astype("<f4"),
        table.age[drawn].astype("<f4"),
        table.documents[drawn].astype("<u4"),
        *_label_columns(table, drawn),
        table.codes[drawn],
    ]
    if colours.times:
        columns.append(colours.times.position[drawn].astype("<f4"))
    if colours.given_labels:
        columns += _label_columns(colours.given_labels, drawn)
    if colours.learned is not None:
        share = colours.learned[drawn] / table.documents[drawn]
        columns.append(np.round(share * 254).astype("u1"))
    return b"".join(column.tobytes() for column in columns)


def _label_columns(table: CodeTable, drawn: Any) -> list[npt.NDArray[Any]]:
    label = table.label[drawn]
    label = np.where(label >= MAX_LABELS, OTHER_LABEL, np.where(label < 0, NO_LABEL, label))
    purity = np.nan_to_num(table.purity[drawn] * 254, nan=UNKNOWN_PURITY)
    return [label.astype("<u2"), np.round(purity).astype("u1")]


def _description(
    collection: CollectionBackend,
    colours: MapColours,
    drawn: Any,
    method: Method,
    options: MapOptions,
) -> dict[str, Any]:
    table, given = colours.table, colours.given_labels
    return {
        "collection": collection.name,
        "generation": table.generation,
        "n_bits": collection.n_bits,
        "method": method,
        "label_field": options.label_field,
        "seed": options.seed,
        "documents": int(table.documents.sum()),
        "distinct_codes": len(table.codes),
        "points": len(drawn),
        "labels": list(table.labels[:MAX_LABELS]),
        "label_documents": table.label_documents[:MAX_LABELS].tolist(),
        "given_labels": list(given.labels[:MAX_LABELS]) if given else [],
        "given_label_documents": given.label_documents[:MAX_LABELS].tolist() if given else [],
        "learned_documents": None if colours.learned is None else int(colours.learned.sum()),
        "time": _scale(colours.times, str(options.time_field)) if colours.times else None,
    }


def _scale(times: CodeTimes, field: str) -> dict[str, Any]:
    bounds = {name: getattr(times, name) for name in ("start", "end", "least", "most")}
    if times.kind == DATE:
        bounds = {
            name: datetime.fromtimestamp(value, UTC).isoformat() for name, value in bounds.items()
        }
    return {"field": field, "kind": times.kind, "documents": times.documents, **bounds}
