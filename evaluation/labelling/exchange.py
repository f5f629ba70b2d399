"""Labels and judgements as text: JSON lines, and TREC's qrels.

Each line of JSON is a record; one with a ``query`` is a judgement, any other a label. In qrels the
id of a query is its text with white space and ``%`` percent-encoded. So the text can be restored,
and tools that read qrels see ids without spaces. Document ids are encoded in the same way.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hummingbit.corpus.json_rows import distinct_keys
from hummingbit.corpus.lines import LineError, ReadError
from hummingbit.corpus.qrels import parse_grade, parse_qrels
from hummingbit.evaluation.labelling.names import QRELS
from hummingbit.evaluation.trec import from_trec_id, to_trec_id
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.times import now
from hummingbit.index.collection import Collection
from hummingbit.index.store.annotations import (
    DocumentLabel,
    Judgement,
    judgement_to_json,
    label_to_json,
    parse_judgement,
    parse_label,
)

LINES_PER_CHECKPOINT = 500


def write_records(records: Iterable[DocumentLabel | Judgement]) -> Iterator[str]:
    """Yield a line of JSON for each record, without a newline."""
    for record in records:
        if isinstance(record, DocumentLabel):
            fields = label_to_json(record)
        else:
            fields = judgement_to_json(record)
        yield json.dumps(fields, ensure_ascii=False)


def read_records(
    lines: Iterable[str], source: str, who: str | None = None
) -> tuple[list[DocumentLabel], list[Judgement]]:
    """Read what :func:`write_records` wrote; `who` is the author of records that name none.

    Blank lines are skipped.

    Raises:
        InputError: if a line is not a valid record. The message names the line.
    """
    labels: list[DocumentLabel] = []
    judgements: list[Judgement] = []
    for number, line in enumerate(lines, start=1):
        if number % LINES_PER_CHECKPOINT == 0:
            check_cancelled()
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=distinct_keys)
            if isinstance(record, dict) and who is not None and record.get("who") is None:
                record["who"] = who
            if isinstance(record, dict) and "query" in record:
                judgements.append(parse_judgement(record))
            else:
                labels.append(parse_label(record))
        except (InputError, LineError) as error:
            raise InputError("line", f"{source}:{number}: {error}") from None
        except (ValueError, RecursionError) as error:  # including a number with too many digits
            raise InputError("line", f"{source}:{number}: is not valid JSON: {error}") from None
    return labels, judgements


def read_lines(
    lines: Iterable[str], form: str, source: str, who: str | None = None
) -> tuple[list[DocumentLabel], list[Judgement]]:
    """Read qrels if `form` is :data:`QRELS`, else records as :func:`read_records` does.

    Raises:
        InputError: if a line is not valid. The message names the line.
    """
    if form == QRELS:
        return [], read_qrels(lines, source, who)
    return read_records(lines, source, who)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """How many records were read, changed something, or named an unknown document."""

    labels: int
    judgements: int
    changed: int
    unknown: int
    generation: int

    def and_then(self, later: ImportReport) -> ImportReport:
        """Return the report of both imports."""
        return ImportReport(
            labels=self.labels + later.labels,
            judgements=self.judgements + later.judgements,
            changed=self.changed + later.changed,
            unknown=self.unknown + later.unknown,
            generation=later.generation,
        )


def import_records(
    collection: Collection, labels: Sequence[DocumentLabel], judgements: Sequence[Judgement]
) -> ImportReport:
    """Write records to a collection, all or none; those of unknown documents are skipped.

    Raises:
        StoreError: if the store cannot be written.
    """
    written, unknown = collection.annotations.import_records(labels, judgements)
    return ImportReport(
        labels=len(labels),
        judgements=len(judgements),
        changed=written.changed,
        unknown=unknown,
        generation=written.generation,
    )


def agreed_grades(judgements: Iterable[Judgement]) -> dict[tuple[str, str], int]:
    """Return the most frequent grade of each (query, document); of a tie, the latest grade.

    Of several judgements of a pair by one person, the latest counts.
    """
    latest: dict[tuple[str, ...], Judgement] = {}
    for judgement in judgements:
        earlier = latest.get(judgement.key)
        if earlier is None or earlier.when <= judgement.when:
            latest[judgement.key] = judgement
    by_pair: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in latest.values():
        by_pair.setdefault((judgement.query, judgement.id), []).append(judgement)
    grades = {}
    for pair, answers in by_pair.items():
        votes = Counter(answer.grade for answer in answers)
        grades[pair] = max(
            answers, key=lambda answer: (votes[answer.grade], answer.when, answer.who)
        ).grade
    return grades


def write_qrels(judgements: Iterable[Judgement]) -> Iterator[str]:
    """Yield ``query 0 document grade`` for each pair, sorted. Qrels do not say who judged."""
    for (query, id_), grade in sorted(agreed_grades(judgements).items()):
        yield f"{to_trec_id(query)} 0 {to_trec_id(id_)} {grade}"


def read_qrels(lines: Iterable[str], source: str, who: str | None = None) -> list[Judgement]:
    """Read judgements from qrels (:mod:`hummingbit.corpus.qrels`).

    The id of a query is its text, as it is or percent-encoded.

    Raises:
        InputError: if a line is not a line of qrels, or its values are not valid in a judgement.
    """
    moment = now()
    try:
        qrels = parse_qrels(lines, source)
    except ReadError as error:
        raise InputError("line", str(error)) from None
    return [
        Judgement(from_trec_id(query), from_trec_id(id_), grade, who or "qrels", moment)
        for query, graded in qrels.items()
        for id_, grade in graded.items()
    ]


SHEET_HEAD = ("grade", "question", "document", "text")


def write_sheet(pools: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> str:
    """Return a CSV with a row for each answer to judge; `pools` has ids and texts by question.

    A person fills in the column ``grade``: 0 for not relevant, 1 to 3 for how well it answers.
    """
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(SHEET_HEAD)
    for question, answers in pools:
        for id_, text in answers:
            writer.writerow(["", question, id_, " ".join(text.split())])
    return sheet.getvalue()


def read_sheet(text: str, source: str) -> list[Judgement]:
    """Read the rows of :func:`write_sheet` that have a grade.

    Raises:
        InputError: if a column is missing, a grade is not a whole number, or an answer has two
            grades; it names the line.
    """
    # Spreadsheets of several countries separate columns by semicolons.
    head = text.split("\n", 1)[0]
    rows = csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=head.count))
    missing = [name for name in SHEET_HEAD[:3] if name not in (rows.fieldnames or ())]
    if missing:
        raise InputError("file", f"{source}: has no column {missing[0]!r}; label pool writes it")
    moment, judgements = now(), dict[tuple[str, ...], Judgement]()
    for row in rows:
        if not (row["grade"] or "").strip():
            continue
        try:
            judgement = Judgement(
                row["question"], row["document"], parse_grade(row["grade"]), when=moment
            )
            if judgement.key in judgements:
                raise InputError("grade", "is the second of this answer; keep one of them")
        except InputError as error:
            raise InputError("grade", f"{source}: line {rows.line_num}: {error}") from None
        judgements[judgement.key] = judgement
    return [*judgements.values()]


def write_queries(judgements: Iterable[Judgement]) -> Iterator[str]:
    """Yield a JSON line of ``id`` and ``text`` for each query, with the ids of the qrels."""
    for query in sorted({judgement.query for judgement in judgements}):
        yield json.dumps({"id": to_trec_id(query), "text": query}, ensure_ascii=False)
