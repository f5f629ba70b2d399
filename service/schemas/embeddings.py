"""The JSON of OpenAI's embeddings API, which many tools support."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from service.schemas.common import RequestModel, ResponseModel, Strings

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


class Embedding(ResponseModel):
    """The embedding of the input at `index`."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | list[int] | str


class Usage(ResponseModel):
    """The number of words in the input, separated by white space; nothing is charged."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(ResponseModel):
    """The embeddings, in the order of the input."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage
