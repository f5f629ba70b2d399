"""Guesses the layout of a source from its first records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from hummingbit.corpus.dialects import NUMERIC_CELL, lacks_header
from hummingbit.corpus.layout import (
    IN_LIST,
    LABEL_NAMES,
    TEXT_NAMES,
    TITLE_NAMES,
    Layout,
    is_html,
    is_named_as_id,
    is_named_as_person,
    rank_of,
)
from hummingbit.corpus.lines import ReadError, suffixes_of
from hummingbit.corpus.readers import read_rows
from hummingbit.corpus.tables import separator_of, with_lists

SAMPLE = 2000
MOST = 0.9
"""A field that fewer of the documents have is not their id."""
MAX_LABELS = 1000
MAX_NAMES = 20
"""More names of fields are not listed in an error."""
MIN_WORDS = 4
"""A field with fewer words on average is no text beside another one."""
MIN_REPEATED_LENGTH = 12
"""Strings that are shorter on average and repeat are names of classes."""
MAX_NAME_LENGTH = 25
"""Strings that are no longer on average may be names of people."""
MAX_STATES = 4
"""A column of no more different values that repeat, such as yes and no, is for filters."""
MAX_RATINGS = 20
"""A column of numbers with more different values holds measures and no labels."""
MAX_COUNTED_RECORDS = 200
MAX_COUNTED_CHARACTERS = 200
"""Words are counted in so many records, and in so many characters of each."""
MAX_LONG_CHARACTERS = 2000
"""In so many where long texts are told from short ones."""
# Words of two letters or more and, in Thai, Lao, Myanmar, Khmer, Kana and Han, pairs of characters.
_WORDS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2}"
    r"|[^\W\d_]{2,}"
)
FIRST_COLUMN = "column1"
_KEY = re.compile(r"\d+|[^\W\d_]{1,8}[:_-]?\d[\w:-]*|[0-9a-f]{16,}", re.ASCII)
"""Keys of rows: ``17``, ``q17``, ``doc-17``."""
_COLUMN = re.compile(r"column\d+")
_MEASURE = re.compile(r"[-+]?[$€£¥]? ?\d[\d.,:/ eE+TZ'-]* ?[%$€£¥]?")
_INTEGER = re.compile(r"[-+]?\d+")
_YEAR = re.compile(r"(?:1[0-9]|20)\d\d")
MAX_DEPTH = 3
"""Objects inside objects are looked into so deep for a text."""


@dataclass(frozen=True, slots=True, eq=False)
class _Field:
    """One field: its values, and statistics of them."""

    name: str
    values: Sequence[Any]
    """Those that are not null."""
    count: int
    distinct: int
    mean_length: float
    """Characters of its strings; 0 unless most values are strings of words."""
    holds_objects: bool
    """Whether it holds objects, or lists of anything but strings and integers."""
    holds_lists: bool
    """Whether its values are lists; then `count` and `distinct` are of their entries."""

    @property
    def is_unique(self) -> bool:
        return self.distinct == self.count and not self.holds_lists

    @property
    def repeats(self) -> float:
        """How often each value occurs, on average."""
        return self.count / max(self.distinct, 1)

    @property
    def is_title(self) -> bool:
        """Whether it has the name of a title, which is no label though its values repeat."""
        rank = rank_of(self.name.rpartition(".")[2], TITLE_NAMES)
        return rank is not None and rank[0] == 0

    @property
    def differs(self) -> bool:
        """Whether documents have different values, as sets where these are lists."""
        sets = (frozenset(value if isinstance(value, list) else [value]) for value in self.values)
        return len(set(sets)) > 1

    @property
    def are_quantities(self) -> bool:
        """Whether it is a named column of numbers, such as years or ratings."""
        return not _COLUMN.fullmatch(self.name) and all(
            NUMERIC_CELL.fullmatch(str(value)) for value in self.values
        )

    @property
    def are_measures(self) -> bool:
        """Whether it holds prices, shares, dates or the like, and not integers alone."""
        values = [*map(str, self.values)]
        return all(map(_MEASURE.fullmatch, values)) and not all(map(_INTEGER.fullmatch, values))

    @property
    def can_be_labels(self) -> bool:
        """Whether its values can be labels: strings, integers, or lists of them."""
        kinds = set(map(type, self.values))
        if kinds == {list}:
            return all(map(_is_list_of_names, self.values))
        return kinds <= {str, int}

    @property
    def is_no_label(self) -> bool:
        """Whether it holds measures, years, ids, or numbers of more values than a scale."""
        if self.are_measures or is_named_as_id(self.name):
            return True
        is_year = all(map(_YEAR.fullmatch, {*map(str, self.values)}))
        return self.are_quantities and (self.distinct > MAX_RATINGS or is_year)


@dataclass(frozen=True, slots=True)
class Survey:
    """A layout that fits a source, its fields, and those that may be labels, numbers last."""

    layout: Layout
    names: tuple[str, ...]
    label_candidates: tuple[str, ...]
    repeated_id: str | None
    """A field that is named like an id but whose values repeat, or None."""
    unused_lists: Mapping[str, int]
    """Fields with lists of strings that are no labels, and how many different strings they hold.

    Those with the same list in all documents are left out.
    """
    separated_lists: Mapping[str, str]
    """Fields named as labels whose strings hold several values, and what separates these."""
    other_texts: tuple[str, ...]
    """Fields whose strings look like texts, too, but that are not part of the text."""
    words: tuple[str, ...]
    """Fields whose strings are words, and neither numbers, dates, addresses, ids nor states."""
    texts_in_lists: tuple[str, ...]
    """Paths of such strings inside lists of objects, such as ``paragraphs[].context``."""


class _Unchecked(Layout):
    """A layout that accepts any columns."""

    __slots__ = ()

    def check(self, names: Any, source: str) -> None:
        """Accept all columns."""


def survey(source: Path, settings: Layout) -> Survey:
    """Return the layout that the records of `source` suggest; what `settings` names is kept.

    The text is the field with a usual name, or else the one with the longest strings that hardly
    repeat. If no field is one, the fields of objects inside the records are looked through.
    If there is also a title, it is joined to the text. The label is a field with a usual
    name whose values repeat, or else the only field whose values repeat, unless these are numbers
    or it is named as a title.
    The id is a field with a usual name whose values do not repeat. The usual names are those of
    :mod:`hummingbit.corpus.layout`. If at least half of the texts have tags of HTML, they are
    HTML.

    Raises:
        ReadError: if the source cannot be read, or no field looks like text.
    """
    raw = _Unchecked(encoding=settings.encoding, has_header=settings.has_header)
    records, bad = _sample(source, raw)
    is_table = suffixes_of(source)[0] in (".csv", ".tsv")
    if settings.has_header and is_table and lacks_header(records):
        raw = replace(raw, has_header=False)
        records, bad = _sample(source, raw)
    if not records:
        raise ReadError(f"{source}: has no documents{bad}")
    if is_table:
        records = [with_lists(record) for record in records]
    names = dict.fromkeys(name for record in records for name in record)
    fields = [_describe(name, records) for name in names]
    texts = settings.text_fields or _find_texts(fields)
    if not settings.text_fields and (path := _find_text_in_list(records, texts)) is not None:
        texts = (*texts, path)
        in_list = Layout(text_fields=texts)
        records = [part for record in records for part in in_list.parts(record)]
        names = dict.fromkeys(name for record in records for name in record)
        fields = [_describe(name, records) for name in names]
    if not texts and len(records) > 1:
        records = [_with_paths(record) for record in records]
        paths = dict.fromkeys(name for record in records for name in record if name not in names)
        fields += [_describe(name, records) for name in paths]
        texts = _find_texts_at(paths, fields)
    if not texts:
        raise ReadError(f"{source}: {_explain_lack_of_text(fields, len(records))}")
    rest = [field for field in fields if field.name not in texts]
    label, candidates = _find_label(rest)
    layout = Layout(
        id_field=_find_id(rest, records) if settings.id_field is None else settings.id_field,
        text_fields=() if texts == ("text",) else texts,
        label_field=settings.label_field or (None if label in ("label", "labels") else label),
        payload_fields=settings.payload_fields,
        encoding=settings.encoding,
        has_header=raw.has_header,
        html=settings.html or is_html(_texts(records, texts)),
    )
    repeated = (field.name for field in rest if field.repeats > 1 and is_named_as_id(field.name))
    lists = {
        field.name: field.distinct
        for field in rest
        if field.holds_lists
        and field.name not in (*candidates, settings.label_field)
        and field.differs
    }
    used = {*texts, layout.label_field, layout.id_field, "id", "label", "labels"}
    others = [field for field in _other_texts(records, texts) if field not in used]
    label_names = [name for name in names if rank_of(name, LABEL_NAMES) is not None]
    separators = {name: separator_of(_cells(records, name)) for name in label_names}
    in_lists = [_with_lists_of_objects(record) for record in records[:MAX_COUNTED_RECORDS]]
    return Survey(
        layout=layout,
        names=tuple(names),
        label_candidates=candidates,
        repeated_id=next(repeated, None),
        unused_lists=lists,
        separated_lists={
            name: separator for name, separator in separators.items() if separator is not None
        },
        other_texts=tuple(others),
        words=tuple(field.name for field in fields if _holds_words(field, records)),
        texts_in_lists=tuple(path for path in _other_texts(in_lists, texts) if IN_LIST in path),
    )


def _holds_words(field: _Field, records: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a text could be joined with a field: most of its strings have a word.

    Those of a few states, such as yes and no, say nothing without the name of the field.
    """
    if not field.mean_length or is_named_as_id(field.name) or field.are_measures:
        return False
    states = {str(value).strip().casefold() for value in field.values}
    if len(states) <= min(MAX_STATES, field.count - 1):
        return False
    cells = _cells(records[:MAX_COUNTED_RECORDS], field.name)
    return 2 * sum(_WORDS.search(cell) is not None for cell in cells) > len(cells)


def _cells(records: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    """Return the strings of a field, in lists or not."""
    values = [record.get(name) for record in records]
    entries = [
        entry for value in values for entry in (value if isinstance(value, list) else [value])
    ]
    return [entry for entry in entries if isinstance(entry, str)]


def _sample(source: Path, layout: Layout) -> tuple[list[Mapping[str, Any]], str]:
    """Return the first records, and what is wrong with the first row that is none, or nothing."""
    rows = list(islice(read_rows(source, layout), SAMPLE))
    bad = [row for row in rows if not isinstance(row.record, Mapping)]
    rule = 'is no object such as {"text": "…"}'
    reasons = [f"; line {row.line} {row.reason or rule}" for row in bad[:1]]
    return [row.record for row in rows if isinstance(row.record, Mapping)], "".join(reasons)


def _describe(name: str, records: Iterable[Mapping[str, Any]]) -> _Field:
    values = [record[name] for record in records if record.get(name) is not None]
    strings = [value for value in values if isinstance(value, str)]
    texts = [
        text
        for text in strings
        if not NUMERIC_CELL.fullmatch(text)
        and not _MEASURE.fullmatch(text)
        and "://" not in text[:12]
    ]
    mean = sum(map(len, texts)) / len(texts) if len(texts) * 2 > len(values) else 0.0
    if values and all(map(_is_list_of_names, values)):
        entries = [entry for value in values for entry in value]
        return _Field(name, values, len(entries), len(set(entries)), 0.0, False, True)
    objects = any(isinstance(value, Mapping | list) for value in values)
    distinct = len(set(map(repr, values)))
    return _Field(name, values, len(values), distinct, mean, objects, False)


def _is_key(value: object) -> bool:
    return _KEY.fullmatch(str(value)) is not None


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str | int) for entry in value)


def _with_paths(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the values inside its objects, too, by paths such as ``meta.body``."""
    found, level = dict(record), dict(record)
    for _ in range(MAX_DEPTH):
        objects = {at: value for at, value in level.items() if isinstance(value, Mapping)}
        level = {
            f"{at}.{name}": value for at, held in objects.items() for name, value in held.items()
        }
        found = level | found
    return found


def _with_lists_of_objects(record: Mapping[str, Any], depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return a record with the strings in its lists of objects, too, by paths such as ``a[].b``."""
    found = dict(record)
    for name, value in record.items():
        entries = value if isinstance(value, list) and depth else []
        objects = [object_ for object_ in entries if isinstance(object_, Mapping)]
        inside = [_with_lists_of_objects(object_, depth - 1) for object_ in objects]
        for path in dict.fromkeys(path for object_ in inside for path in object_):
            texts = [object_[path] for object_ in inside if isinstance(object_.get(path), str)]
            found[f"{name}{IN_LIST}{path}"] = " ".join(texts)
    return found


def _find_text_in_list(records: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> str | None:
    """Return the path of the longest text in lists of objects, if records have but a title else.

    The longest text of a single object counts: many short questions are no long text.
    """
    if any(rank_of(name, TITLE_NAMES) is None for name in texts):
        return None
    few = records[:MAX_COUNTED_RECORDS]
    held: dict[str, list[int]] = {}
    for record in few:
        for path, text in _texts_in_lists(record):
            held.setdefault(path, []).append(_count_words(text, MAX_LONG_CHARACTERS))
    titles = sum(_count_words(record.get(name)) for record in few for name in texts)
    least = max(3 * titles, MIN_WORDS * len(few))
    long = [path for path, counts in held.items() if sum(counts) >= least]
    return max(long, key=lambda path: sum(held[path]) / len(held[path]), default=None)


def _texts_in_lists(
    record: Mapping[str, Any], above: str = "", depth: int = MAX_DEPTH
) -> Iterator[tuple[str, str]]:
    """Yield each string in lists of objects, after its path."""
    for name, value in record.items():
        for entry in value if isinstance(value, list) and depth else []:
            if isinstance(entry, Mapping):
                path = f"{above}{name}{IN_LIST}"
                strings = ((key, text) for key, text in entry.items() if isinstance(text, str))
                yield from ((path + key, text) for key, text in strings)
                yield from _texts_in_lists(entry, path, depth - 1)


def _find_texts_at(paths: Iterable[str], fields: Sequence[_Field]) -> tuple[str, ...]:
    """Return the paths of the text inside objects, and of the title in the same object."""
    inside = [field for field in fields if field.name in paths]
    text = _find_texts(inside)[-1:]
    above = [name.rpartition(".")[0] for name in text]
    return _find_texts([field for field in inside if [field.name.rpartition(".")[0]] == above])


def _find_texts(fields: Sequence[_Field]) -> tuple[str, ...]:
    """Return the field of the text, after that of the title if there is one, or no fields."""
    varied = [field for field in fields if field.mean_length and field.repeats < 3]
    usual = _usual(varied, TEXT_NAMES)
    named = [field for field in varied if not is_named_as_person(field.name)]
    # Names of products and subjects of tickets are read though they repeat; "Mrs" is not.
    repeated = [field for field in fields if field.mean_length and field.distinct > 1]
    phrases = [field for field in repeated if field.mean_length >= MIN_REPEATED_LENGTH]
    titles = _usual(named, TITLE_NAMES) or _usual(
        [field for field in phrases if field.is_title], TITLE_NAMES
    )
    long = [field for field in fields if field.mean_length >= 8 and field.repeats < 1.5]
    if usual and (longer := _longer_than_names(usual[0], long)) is not None:
        usual = [longer]
    others = sorted(long, key=lambda field: -field.mean_length)[:1] or titles[:1]
    canned = _usual(repeated, TEXT_NAMES)
    if canned and others and canned[0].mean_length > others[0].mean_length:
        others = canned  # what many tickets share says more than their titles or dates
    texts = (usual or others)[:1]
    if not texts:  # several documents have one text, as the sizes of a product have its name
        longest = sorted(phrases, key=lambda field: -field.mean_length)
        texts = (canned or _usual(phrases, TITLE_NAMES) or longest)[:1]
    title = [field for field in titles[:1] if texts and field.name != texts[0].name]
    return tuple(field.name for field in (*title, *texts))


def _longer_than_names(text: _Field, others: Sequence[_Field]) -> _Field | None:
    """Return the longest field, if `text` is only as long as a name and its own name is a guess.

    Such are ``comment_author`` and ``message to`` beside a field of whole sentences.
    """
    guessed = (rank_of(text.name, TEXT_NAMES) or (0,))[0] > 0
    longest = max(others, key=lambda field: field.mean_length, default=text)
    is_name = text.mean_length <= MAX_NAME_LENGTH and longest.mean_length >= 3 * text.mean_length
    return longest if guessed and is_name else None


def _explain_lack_of_text(fields: Sequence[_Field], n_records: int) -> str:
    for field in fields:
        if field.mean_length and field.distinct == 1 and field.count > 1:
            return f"{field.name!r} is the same in every document"
    names = _names(fields, ", ")
    message = f"no field looks like text; it has {names}. Name one with --text-field"
    objects = [field for field in fields if field.holds_objects or field.holds_lists]
    if not objects:
        return message
    if n_records == 1:
        return f"{message}; one object is one document: write one on each line, or an array of them"
    return f"{message}; copy a text that is inside {_names(objects, ' or ')} to a field of its own"


def _names(fields: Sequence[_Field], separator: str) -> str:
    """Return the names of the first fields, and how many more there are."""
    names = [repr(field.name) for field in fields[:MAX_NAMES]]
    more = [f"{len(fields) - MAX_NAMES:,} more"] if len(fields) > MAX_NAMES else []
    return separator.join([*names, *more])


def _other_texts(records: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> list[str]:
    """Return the fields that have at least half as many words as the text on average."""
    few = records[:MAX_COUNTED_RECORDS]
    names = dict.fromkeys(name for record in few for name in record)
    words = {name: sum(_count_words(record.get(name)) for record in few) for name in names}
    least = max(max(words.get(name, 0) for name in texts) / 2, MIN_WORDS * len(few))
    return [name for name in names if name not in texts and words[name] >= least]


def _texts(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Return the texts of the first records."""
    cells = ([record.get(name) for name in names] for record in records[:MAX_COUNTED_RECORDS])
    return ["\n".join(cell for cell in some if isinstance(cell, str)) for some in cells]


def _count_words(value: object, characters: int = MAX_COUNTED_CHARACTERS) -> int:
    return len(_WORDS.findall(value[:characters])) if isinstance(value, str) else 0


def _usual(fields: Sequence[_Field], names: Sequence[str]) -> list[_Field]:
    """Return the fields with a name like those in `names`, the most usual first."""
    ranks = {field: rank for field in fields if (rank := rank_of(field.name, names)) is not None}
    return sorted(ranks, key=lambda field: ranks[field])


def _find_label(fields: Sequence[_Field]) -> tuple[str | None, tuple[str, ...]]:
    """Return the field that holds labels, or None, and all fields that may hold them."""
    possible = [
        field
        for field in fields
        if 2 <= field.distinct <= MAX_LABELS
        and field.repeats >= 3
        and field.can_be_labels
        and field.differs
    ]
    usual = _usual(possible, LABEL_NAMES)
    candidates = sorted(
        (field for field in possible if field in usual or not field.is_no_label),
        key=lambda field: (field.is_title, field.are_quantities),
    )
    names = tuple(field.name for field in candidates)
    if usual:
        return usual[0].name, names
    others = [field for field in candidates if not field.is_title]
    is_clear = len(others) == 1 and not others[0].are_quantities
    return others[0].name if is_clear else None, names


def _find_id(fields: Sequence[_Field], records: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the field with the id: by its name, or else a first column without names above."""
    first = fields[0] if fields else None
    if first and first.name == FIRST_COLUMN and first.count == len(records) and first.is_unique:
        return first.name if all(map(_is_key, first.values)) else None
    names = [
        field.name
        for field in fields
        if field.is_unique
        and field.count > MOST * len(records)
        and is_named_as_id(field.name)
        and field.can_be_labels
    ]
    return None if "id" in names or not names else names[0]
