"""The JSON of encoders, of encoding, and of OpenAI's embeddings API."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from hummingbit.service.schemas.common import FIRST_ERROR, RequestModel, Strings, Text, Vector

# Encoders and encoding.


CodeFormat = Literal["hex", "base64", "bits"]


class EncodeInput(RequestModel):
    """Exactly one of text and vector."""

    text: Text = None
    vector: Vector = None


class EncodeRequest(RequestModel):
    """Inputs for the collection's encoder; nothing is stored."""

    inputs: Annotated[list[EncodeInput], FIRST_ERROR] = Field(min_length=1)


class EncoderInputs(EncodeRequest):
    """Inputs, and the format of the codes."""

    format: CodeFormat = Field(
        "hex",
        description="Packed bytes in hexadecimal or base64 (RFC 4648), or one digit for each bit.",
    )


# OpenAI's embeddings API, which many tools support.


NUMBERED_INPUT = (
    "holds ids of tokens, which only the model that made them can read; send texts"
    " (LangChain's OpenAIEmbeddings does with check_embedding_ctx_length=False)"
)
InputType = Literal["document", "query"]
EmbeddingFormat = Literal["float", "base64", "ubinary"]


class EmbeddingsRequest(RequestModel):
    """One or more texts, for the encoder that `model` names."""

    input: Annotated[str, Field(min_length=1)] | Annotated[Strings, Field(min_length=1)]
    model: str = Field(description="The name of an encoder of texts.")
    input_type: InputType = Field(
        "document",
        description="Whether the texts are documents or queries; as queries, unknown words are"
        " corrected as in a search.",
    )
    encoding_format: EmbeddingFormat = Field(
        "float",
        description="A number for each bit, positive where the bit is 1, as a list or as base64 of"
        " little-endian float32; or ubinary, the packed code as a list of bytes.",
    )
    dimensions: int | None = Field(None, description="If given, the number of the encoder's bits.")
    user: str | None = Field(None, description="Ignored.")

    @field_validator("input", mode="before")
    @classmethod
    def _check_input(cls, value: object) -> object:
        """Refuse no texts, and ids of tokens, which LangChain sends unless it is told not to."""
        if value == []:
            raise ValueError("is an empty list; it must have a text")
        first = value[0] if isinstance(value, list) and value else None
        while isinstance(first, list) and first:
            first = first[0]
        if isinstance(first, int):
            raise ValueError(NUMBERED_INPUT)  # noqa: TRY004 - pydantic reports it
        return value
