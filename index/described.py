"""What every collection is alike: its description, its encoder, and what it takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corpus.document import Document
from encoder.codes import Codes
from encoder.encoder import Encoder
from index.backend import MAX_K
from index.errors import InputError
from index.filters import Filter, filter_to_json
from index.queries import check_encoder
from index.schema import Description


class Described:
    """A collection of that description; `encoder` made its codes."""

    def __init__(self, description: Description, encoder: Encoder | None) -> None:
        """Raise EncoderMismatch if it was made with another encoder, or without one."""
        check_encoder(description, encoder)
        self.description = description
        self._encoder = encoder

    @property
    def name(self) -> str:
        """The collection's name."""
        return self.description.name

    @property
    def n_bits(self) -> int:
        """The length of every code."""
        return self.description.n_bits

    @property
    def encoder(self) -> Encoder | None:
        """What makes the codes; None where documents bring their own."""
        return self._encoder

    @property
    def encoder_name(self) -> str | None:
        """The encoder's name in the data folder, if the collection has one."""
        return self.description.encoder_name

    @property
    def encoder_fingerprint(self) -> str | None:
        """The encoder's fingerprint, if the collection has one."""
        return self.description.encoder_fingerprint

    @property
    def engine_setting(self) -> str:
        """The engine that it was made with; see :mod:`index.engines.setting`."""
        return self.description.engine

    def _last_of_each_id(
        self, documents: Sequence[Document], codes: Codes
    ) -> tuple[list[Document], Codes]:
        """Leave out documents whose id comes again, and their codes.

        Raises:
            InputError: unless there is a code of `n_bits` for each document.
        """
        shape = (len(documents), self.n_bits // 8)
        if codes.dtype != np.uint8 or codes.shape != shape:
            given = f"{codes.dtype}{list(codes.shape)}"
            raise InputError("codes", f"are {given}; they must be uint8{list(shape)}")
        places = sorted({document.id: at for at, document in enumerate(documents)}.values())
        return [documents[at] for at in places], codes[places]

    def _scroll(self, limit: int, filter_: Filter | None) -> tuple[str, str, str | None]:
        """Return what the cursors of a scroll belong to.

        Raises:
            InputError: if `limit` is not from 1 to :data:`MAX_K`.
        """
        if not 1 <= limit <= MAX_K:
            raise InputError("limit", f"is {limit}; it must be from 1 to {MAX_K}")
        return ("scroll", self.name, None if filter_ is None else filter_to_json(filter_))
