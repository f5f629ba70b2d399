"""The options of a search, and what values they may have.

Help texts are made from them, so nothing here imports numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field
from dataclasses import fields as dataclass_fields
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from hummingbit.encoder.limits import MAX_HYBRID_WEIGHT, MIN_HYBRID_WEIGHT
from hummingbit.foundation.errors import InputError, abbreviate
from hummingbit.index.names import HAMMING, MAX_K, RANKING_SUMMARIES, RESCORERS, SUMMARIES, SYNTAXES

if TYPE_CHECKING:
    from hummingbit.index.facets import Facet
    from hummingbit.index.filters import Filter

# The options of a search, each declared once.
#
# The fields of a request, the flags of ``hummingbit search`` and the arguments of
# :meth:`hummingbit.Collection.search` are made from the fields of :class:`SearchOptions`,
# :class:`Hybrid` and :class:`Rescore`.


MAX_OFFSET = 100_000
FACET_DEPTH = 1_000
"""How many of the nearest documents facets count where codes alone rank."""
FacetsOver = Literal["words", "best", "found"]
"""Documents with a word of the query, the best `facet_depth`, or all that the search finds."""
MAX_OVERSAMPLE = 100
MAX_GROUP_SIZE = 100
DEFAULT_OVERSAMPLE = 4.0
MAX_DIVERSE = 1000
"""A search for diverse hits compares each with all before it, so it takes no more of them."""
MIN_DIVERSE = 100
DIVERSE_A_HIT = 4


def option(
    default: Any,
    help_text: str = "",
    *,
    name: str = "",
    flag: str = "",
    metavar: str = "N",
    choices: Iterable[str] = (),
    at_least: float | None = None,
    at_most: float | None = None,
    examples: Sequence[Any] = (),
    default_in_request: Any = MISSING,
    off: str = "",
    batch: Literal["each", "all", ""] = "",
) -> Any:
    """Return the field of an option.

    `name` is that of the field of a request, if another one. `flag` is the option's name on the
    command line, which has only options with one, and `metavar` stands for its value in the help.
    `choices` are the names that it can have. The bounds are those that every collection and service
    has. `default_in_request` is the default in requests, if another one. `off` is the help of the
    flag that turns off what is on by default. In a batch of searches,
    ``each`` can have its own value, or one is given for ``all``.
    """
    metadata = {
        "help": help_text,
        "name": name,
        "flag": flag,
        "metavar": metavar,
        "choices": tuple(choices),
        "at_least": at_least,
        "at_most": at_most,
        "examples": list(examples) or None,
        "default": default if default_in_request is MISSING else default_in_request,
        "off": off,
        "batch": batch,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Hybrid:
    """How the hybrid ranking combines codes and words."""

    codes: float | None = option(
        None,
        "The weight of codes beside words; by default the collection's.",
        at_least=MIN_HYBRID_WEIGHT,
        at_most=MAX_HYBRID_WEIGHT,
        flag="codes_weight",
        metavar="W",
    )


@dataclass(frozen=True, slots=True)
class Rescore:
    """Take more candidates from the ranking, and order them by another score."""

    by: str = option(
        MISSING,
        "What scores the candidates: bm25, their words; logits, the real values of the query;"
        " vectors, the cosine of the query's vector and those that the collection keeps.",
        choices=RESCORERS,
        flag="rescore",
    )
    oversample: float = option(
        DEFAULT_OVERSAMPLE,
        "Candidates to take for each hit to return, `offset` included.",
        at_least=1,
        at_most=MAX_OVERSAMPLE,
        flag="oversample",
        metavar="X",
    )

    def n_candidates(self, n_hits: int) -> int:
        """Return the number of documents to rescore for `n_hits` hits, offset included."""
        return math.ceil(self.oversample * n_hits)

    @classmethod
    def of(cls, value: Rescore | str | Mapping[str, Any] | None) -> Rescore | None:
        """Return how to rescore: by a name, or by a mapping with `by` and perhaps `oversample`.

        Raises:
            InputError: if it is neither.
        """
        if value is None or isinstance(value, Rescore):
            return value
        if isinstance(value, str):
            return cls(value)
        types = {name: type(member) for name, member in value.items()}
        if types.pop("oversample", int) not in {int, float} or types != {"by": str}:
            message = "it must be a name, or have by, a name, and oversample, a number"
            raise InputError("rescore", f"is {abbreviate(value)}; {message}")
        return cls(**value)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of a search; :meth:`check` validates them."""

    k: int = option(
        MISSING,
        "The number of hits to return.",
        name="limit",
        flag="limit",
        default_in_request=10,
        at_least=1,
        batch="each",
    )
    radius: int | None = option(
        None,
        "The largest distance of a hit, inclusive.",
        flag="radius",
        at_least=0,
        batch="each",
    )
    ranking: str | None = option(
        None,
        f"What orders the hits: {SUMMARIES}. By default, the collection's ranking, or hamming for a"
        " query by code or id, with a `radius` or with `rerank`.",
        flag="ranking",
        choices=RANKING_SUMMARIES,
        batch="all",
    )
    filter: Filter | None = option(  # noqa: RUF009 - it is a field
        None,
        "A condition: a field with eq, in, gt, gte, lt, lte, prefix, contains, exists, is_null,"
        " is_missing or is_single; has_id with ids; or other ones combined with and, or, not.",
        examples=[{"and": [{"field": "label", "in": ["a", "b"]}, {"field": "year", "gte": 1990}]}],
        batch="all",
    )
    offset: int = option(0, "The number of best hits to skip.", flag="offset", at_least=0)
    cursor: str | None = option(
        None,
        "The `next_cursor` of the previous page; omit it for the first.",
        flag="cursor",
        metavar="CURSOR",
    )
    with_payload: bool | tuple[str, ...] = option(
        False,
        "Return the payload of each hit, or only these fields of it.",
        examples=[True, ["title", "author.name"]],
        batch="each",
    )
    with_text: bool = option(
        False, "Return the text of each hit; null if it has none.", batch="each"
    )
    with_passage: bool = option(
        False,
        "Return the passage that ranked each hit; in collections with passages only.",
        flag="with_passage",
        batch="each",
    )
    with_code: bool = option(
        False, "Return the codes of the query and of the hits.", flag="with_code"
    )
    with_cursor: bool = option(
        True, "Return a `next_cursor`, null on the last page.", default_in_request=False
    )
    collapse_duplicates: int | None = option(
        None,
        "Leave out a hit whose code is within so many bits of that of a better hit; 0 leaves out"
        " equal codes only. There is no cursor.",
        at_least=0,
        flag="collapse_duplicates",
        metavar="BITS",
    )
    diversity: float | None = option(
        None,
        "How much hits should differ in their codes from better ones, from 0, not at all, to 1,"
        " above all (maximal marginal relevance). There is no cursor.",
        at_least=0,
        at_most=1,
        flag="diversity",
        metavar="D",
    )
    group_by: str | None = option(
        None,
        "A payload field: the hits come in `groups` of documents that share a value in it, `limit`"
        " groups by their best hits. A document without the field is in no group.",
        flag="group_by",
        metavar="FIELD",
    )
    group_size: int = option(
        3,
        "The most hits in a group.",
        flag="group_size",
        at_least=1,
        at_most=MAX_GROUP_SIZE,
    )
    facets: tuple[Facet, ...] | None = option(
        None,
        "Count values of payload fields, whatever the limit: over the documents that have a word"
        " of the query, or where codes alone rank, over the nearest `facet_depth`. With a radius or"
        " a threshold, all documents within it count. `facets_over` in the response says which.",
        examples=[[{"field": "label"}, {"field": "year", "interval": 10}]],
    )
    facet_depth: int | None = option(
        None,
        "Count the values of so many best hits only; where codes alone rank, 1,000 by default.",
        at_least=1,
        at_most=MAX_OFFSET,
    )
    rerank: bool = option(
        False,
        "Re-order the hits, and only them, by the query's probability of each bit against the"
        " stored bit; for texts and vectors.",
        flag="rerank",
    )
    hybrid: Hybrid | None = option(None)  # noqa: RUF009 - it is a field
    rescore: Rescore | None = option(None)  # noqa: RUF009 - it is a field
    highlight: bool = option(
        False, "Return a passage of each hit's text and the positions of the query's terms."
    )
    explain: bool = option(
        False, "Return the bits that differ, and the terms of a text that weigh most."
    )
    syntax: str | None = option(
        None,
        'How a text is read: query, the default, with "phrases", prefix*, -excluded words and'
        " field:value; or plain, as words alone.",
        choices=SYNTAXES,
        flag="syntax",
        batch="all",
    )
    expand: bool = option(
        True,
        "Whether a word also matches words of similar meaning (`expanded`), and an unknown one its"
        " correction (`corrected`). Without it, words match as they are written; so do those in"
        ' "quotes" and after a + in every search.',
        flag="expand",
        off="match words as they are written, not also words of similar meaning and corrections",
        batch="all",
    )
    score_threshold: float | None = option(
        None,
        "The least confidence of a hit, the probability that it answers the query, from 0 to 1.",
        flag="score_threshold",
        metavar="P",
        at_least=0,
        at_most=1,
        batch="all",
    )
    with_confidence: bool = option(
        False,
        "Return the confidence of each hit: the probability that it answers the query, comparable"
        " between queries and rankings.",
        batch="all",
    )

    @classmethod
    def of_request(cls, fields: Mapping[str, Any]) -> SearchOptions:
        """Return the options of a request's `fields`, which are JSON, with its defaults.

        A field that is None is left out. `filter`, `hybrid` and `rescore` may be given as the
        values of an option, too.

        Raises:
            TypeError: if there is no such option.
            InputError: if a filter, `hybrid` or `rescore` has another form.
        """
        values, readers = {**_DEFAULTS}, _readers()
        for name, value in fields.items():
            if name not in _OPTION_NAMES:
                raise TypeError(f"a search has no option {name!r}")
            if value is not None:
                read = readers.get(name)
                values[_OPTION_NAMES[name]] = value if read is None else read(value)
        return cls(**values)

    def check(self, n_bits: int, n_queries: int) -> None:
        """Raise InputError unless the options are valid for `n_queries` queries of `n_bits`."""
        check_all_within(
            ("limit", self.k, 1, MAX_K, ""),
            ("offset", self.offset, 0, MAX_OFFSET, "; to go further, use a cursor"),
            ("radius", self.radius, 0, n_bits, ""),
            ("collapse_duplicates", self.collapse_duplicates, 0, n_bits, ""),
            ("diversity", self.diversity, 0, 1, ""),
            ("group_size", self.group_size, 1, MAX_GROUP_SIZE, ""),
            ("facet_depth", self.facet_depth, 1, MAX_OFFSET, ""),
            ("score_threshold", self.score_threshold, 0, 1, ""),
        )
        if self.ranking is not None:
            check_ranking(self.ranking)
        if self.syntax is not None:
            check_choice("syntax", self.syntax, SYNTAXES)
        if self.radius is not None and self.ranking not in (None, HAMMING):
            reason = f"the ranking {self.ranking!r} has no radius, only {HAMMING!r}"
            raise InputError("radius", f"is {self.radius}; {reason}")
        if self.cursor is not None and n_queries != 1:
            raise InputError("cursor", f"continues a single query; this search has {n_queries}")
        if self.cursor is not None and self.offset:
            raise InputError("offset", f"is {self.offset}; with a cursor it must be left out")
        if self.group_by is not None:
            self._check_groups(self.group_by)
        if self.diversity is not None:
            self._check_diversity(self.diversity)
        if self.hybrid is not None:
            check_hybrid(self.hybrid)
        if self.rescore is not None:
            self._check_rescore(self.rescore)

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Raise InputError if one of these options is given."""
        for name in names:
            if getattr(self, name) != REQUEST_OPTIONS[name].default:
                raise InputError(name, reason)

    @property
    def n_candidates(self) -> int:
        """The number of documents to rescore for each query."""
        n_hits = self.offset + self.k
        return n_hits if self.rescore is None else self.rescore.n_candidates(n_hits)

    @property
    def most_hits(self) -> int:
        """The most hits of a query, in groups or not."""
        return self.k if self.group_by is None else self.k * self.group_size

    @property
    def is_thinned(self) -> bool:
        """Whether hits are left out, or come later, because of better ones."""
        return self.collapse_duplicates is not None or self.diversity is not None

    @property
    def has_confidences(self) -> bool:
        """Whether hits have a confidence."""
        return self.with_confidence or self.score_threshold is not None

    @property
    def n_diverse(self) -> int:
        """The number of documents among which diverse ones are chosen."""
        return max(MIN_DIVERSE, DIVERSE_A_HIT * (self.offset + self.k))

    @property
    def has_cursors(self) -> bool:
        """Whether pages have cursors, which need scores that do not depend on other hits."""
        return not self.without_cursor

    @property
    def without_cursor(self) -> str:
        """The option that pages with cursors cannot have; empty if there is none."""
        # What is added later could make a hit of an earlier page a duplicate.
        names = ("rescore", "group_by", "collapse_duplicates", "diversity")
        return next((name for name in names if getattr(self, name) is not None), "")

    def _check_diversity(self, diversity: float) -> None:
        if self.offset + self.k > MAX_DIVERSE:
            given = f"is {diversity:g}, and offset + limit {self.offset + self.k:,}"
            raise InputError("diversity", f"{given}; it takes at most {MAX_DIVERSE:,} hits")
        if self.rerank:
            raise InputError("rerank", "cannot be combined with diversity; use one of them")

    def _check_groups(self, group_by: str) -> None:
        from hummingbit.index.filters import check_field  # noqa: PLC0415 - it imports orjson

        check_field(group_by, "group_by")
        if self.k * self.group_size > MAX_K:
            message = f"times limit is {self.k * self.group_size:,}; it must be at most {MAX_K:,}"
            raise InputError("group_size", message)
        others = ("offset", "rerank", "rescore", "collapse_duplicates", "diversity")
        self.refuse(others, "cannot be combined with group_by; leave one of them out")

    def _check_rescore(self, rescore: Rescore) -> None:
        check_choice("rescore", rescore.by, RESCORERS, "by ")
        check_within("rescore", rescore.oversample, 1, MAX_OVERSAMPLE, name="oversample ")
        if self.n_candidates > MAX_OFFSET:
            value = f"oversample times (offset + limit) is {self.n_candidates:,}"
            raise InputError("rescore", f"{value}; it must be at most {MAX_OFFSET:,}")
        if self.rerank:
            raise InputError("rerank", "cannot be combined with rescore; use one of them")


def check_all_within(*options: tuple[str, float | None, float, float, str]) -> None:
    """Check options as :func:`check_within` does, in one call, since every search needs it."""
    for option in options:
        _, value, least, most, _ = option
        if value is not None and not least <= value <= most:
            check_within(*option)


def check_within(  # noqa: PLR0917
    field: str,
    value: float | None,
    least: float,
    most: float,
    hint: str = "",
    name: str = "",
) -> None:
    """Raise InputError for a `field` unless its value is None or within the bounds."""
    if value is not None and not least <= value <= most:
        shown = value if isinstance(value, int) else f"{value:g}"
        raise InputError(field, f"{name}is {shown}; it must be from {least:g} to {most:g}{hint}")


def check_choice(field: str, value: str, known: Iterable[str], name: str = "") -> None:
    """Raise InputError for a `field` unless its value is one of those that are known."""
    if value not in known:
        names = ", ".join(known)
        raise InputError(field, f"{name}is {value[:40]!r}; it must be one of {names}")


def _read_hybrid(value: Hybrid | Mapping[str, Any]) -> Hybrid:
    if isinstance(value, Hybrid):
        return value
    is_known = isinstance(value, Mapping) and value.keys() <= {"codes"}
    codes = value.get("codes") if is_known else None
    if not is_known or not (codes is None or isinstance(codes, Real)):
        raise InputError("hybrid", f"is {abbreviate(value)}; it may have codes, a number")
    return Hybrid(**value)


def request_name(declared: Field[Any]) -> str:
    """Return the name in requests of an option, given its field."""
    return declared.metadata["name"] or declared.name


REQUEST_OPTIONS = {
    request_name(declared): declared
    for declared in dataclass_fields(SearchOptions)
    if declared.metadata
}
"""The fields of :class:`SearchOptions` that a request can set, by their names in requests."""
_OPTION_NAMES = {name: declared.name for name, declared in REQUEST_OPTIONS.items()}
_DEFAULTS = {declared.name: declared.metadata["default"] for declared in REQUEST_OPTIONS.values()}


@cache
def _readers() -> Mapping[str, Callable[[Any], Any]]:
    """Return what reads the values of options that are not as JSON has them."""
    from hummingbit.index.facets import parse_facets  # noqa: PLC0415 - they import numpy
    from hummingbit.index.filters import as_filter  # noqa: PLC0415
    from hummingbit.index.payloads import parse_selection  # noqa: PLC0415

    return {
        "with_payload": parse_selection,
        "facets": parse_facets,
        "filter": as_filter,
        "hybrid": _read_hybrid,
        "rescore": Rescore.of,
    }


RECOMMENDATION_OPTIONS = (
    *("limit", "filter", "offset", "with_payload", "with_text", "with_passage", "with_code"),
    *("collapse_duplicates", "diversity"),
)
"""The options of a search that a recommendation has, too."""


def check_ranking(ranking: str) -> None:
    """Raise InputError unless a ranking has that name."""
    check_choice("ranking", ranking, RANKING_SUMMARIES)


def check_hybrid_weight(weight: float | None, field: str = "hybrid_weight", name: str = "") -> None:
    """Raise InputError for `field` unless `weight` is None or within the bounds."""
    check_within(field, weight, MIN_HYBRID_WEIGHT, MAX_HYBRID_WEIGHT, name=name)


def check_hybrid(hybrid: Hybrid) -> None:
    """Raise InputError unless the options of a hybrid ranking are valid."""
    check_hybrid_weight(hybrid.codes, "hybrid", "codes ")
