"""The JSON of encoders, and of encoding."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from service.schemas.collections.collections import Unavailable
from service.schemas.common import EncoderName, RequestModel, ResponseModel, Text, Vector

CodeFormat = Literal["hex", "base64", "bits"]


class EncodeInput(RequestModel):
    """Exactly one of text and vector."""

    text: Text = None
    vector: Vector = None


class EncodeRequest(RequestModel):
    """Inputs for the collection's encoder; nothing is stored."""

    inputs: list[EncodeInput] = Field(min_length=1)


class EncodeResponse(ResponseModel):
    """Packed codes in hexadecimal, in the order of the inputs."""

    codes: list[str]
    n_bits: int
    encoder: EncoderName


class EncoderInputs(RequestModel):
    """Inputs, and the format of the codes."""

    inputs: list[EncodeInput] = Field(min_length=1)
    format: CodeFormat = Field(
        "hex",
        description="Packed bytes in hexadecimal or base64 (RFC 4648), or one digit for each bit.",
    )


class EncoderSummary(ResponseModel):
    """An encoder; `dimension` is the length of its input vectors, `trained_on` its description."""

    name: str
    fingerprint: str
    n_bits: int
    kind: str = Field(json_schema_extra={"enum": ["text", "vector"]})
    dimension: int | None
    trained_on: Any


class EncoderDetail(EncoderSummary):
    """An encoder, all of its metadata, and the figures that training measured.

    `metadata` and `figures` are copied from the artifact; `layers` are the sizes of its network,
    `terms` is the size of its vocabulary.
    """

    code_size: int
    terms: int | None
    layers: list[int]
    metadata: dict[str, Any]
    figures: dict[str, Any]


class EncodedInputs(ResponseModel):
    """Codes in the order of the inputs.

    Bit 0 is the first digit of `bits` and the most significant bit of the first byte of `hex` and
    `base64`.
    """

    codes: list[str]
    format: CodeFormat
    bit_order: Literal["most significant bit first"]
    n_bits: int
    encoder: EncoderName


class Encoders(ResponseModel):
    """All encoders."""

    encoders: list[EncoderSummary]
    unavailable: list[Unavailable]
