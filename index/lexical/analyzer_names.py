"""The analyzers of lexical indexes, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from encoder.analyzers import WORDS, Analyzer

ANALYZERS: Mapping[str, Analyzer] = MappingProxyType(
    {"words": WORDS, "english": Analyzer("visible", "english")}
)
DEFAULT_ANALYZER = "english"
