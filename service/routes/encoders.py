"""Encoders over REST: list, describe, encode; OpenAI's embeddings.

The operator installs encoders from a folder on the machine. No request uploads one, or names one by
a path.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Response

from hummingbit.corpus.document import parse_text, parse_vector
from hummingbit.encoder.artifact import ArtifactError
from hummingbit.encoder.codes import Codes, code_to_hex, pack_bits, unpack_codes
from hummingbit.encoder.encoder import Encoder, Inputs
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import UnknownEncoder
from hummingbit.service.http.keys import READ
from hummingbit.service.http.problems import ProblemError, invalid_field, without_path
from hummingbit.service.http.routing import Router
from hummingbit.service.routes.dependencies import (
    LONG_READ,
    Folder,
    Limits,
    render,
    render_long,
)
from hummingbit.service.schemas.common import check_length, check_text, pointing_at
from hummingbit.service.schemas.encoders import (
    EmbeddingFormat,
    EmbeddingsRequest,
    EncodeInput,
    EncoderInputs,
)
from hummingbit.service.schemas.responses import (
    CodeFormat,
    Embeddings,
    EncodedInputs,
    EncoderDetail,
    EncoderName,
    Encoders,
    EncoderSummary,
    Model,
    Models,
    Unavailable,
)
from hummingbit.service.settings import Settings

router = Router(prefix="/v1", tags=["encoders"])


def find_encoder(name: str, folder: Folder) -> Encoder:
    """Return the encoder of a name.

    Raises:
        ProblemError: 404 if there is none.
        ArtifactError: if it is damaged.
    """
    try:
        return folder.encoders.load(name)
    except UnknownEncoder as error:
        raise ProblemError(404, "unknown_encoder", str(error)) from None


EncoderOf = Annotated[Encoder, Depends(find_encoder)]


@router.get("/encoders", response_model=Encoders, **READ, summary="List the encoders")
def list_encoders(folder: Folder) -> Response:
    """List the encoders of the data folder; those that cannot be loaded are listed separately."""
    encoders, unavailable = summarize_encoders(folder)
    return render(Encoders(encoders=encoders, unavailable=unavailable))


@router.get("/encoders/{name}", response_model=EncoderDetail, **READ, summary="Describe an encoder")
def get_encoder(name: str, encoder: EncoderOf, folder: Folder) -> Response:
    """Describe what an encoder was trained on, how, and the figures that training measured."""
    terms = encoder.features if isinstance(encoder.features, TextFeatures) else encoder.words
    layers = encoder.layers
    inputs = [len(layers[0].weight)] if layers else []  # the signs of vectors have no network
    return render(
        EncoderDetail(
            **_summary(name, encoder),
            code_size=encoder.code_size,
            terms=None if terms is None else len(terms.vocabulary),
            layers=[*inputs, *(len(layer.bias) for layer in layers)],
            metadata=dict(encoder.metadata),
            figures=folder.encoders.figures(name),
        )
    )


@router.post("/encoders/{name}/encode", response_model=EncodedInputs, **LONG_READ, summary="Encode")
def encode_with_encoder(
    name: str, encoder: EncoderOf, body: EncoderInputs, limits: Limits
) -> Response:
    """Return the codes that an encoder gives texts or vectors as documents."""
    inputs = _inputs(encoder, body.inputs, limits)
    return render(
        EncodedInputs(
            codes=write_codes(encoder.encode(inputs), body.format),
            learned=encoder.learned.contain(inputs).tolist(),
            format=body.format,
            bit_order="most significant bit first",
            n_bits=encoder.n_bits,
            encoder=EncoderName(name=name, fingerprint=encoder.fingerprint),
        )
    )


def summarize_encoders(folder: DataFolder) -> tuple[list[EncoderSummary], list[Unavailable]]:
    """Load every encoder; return those that can be loaded and those that cannot."""
    summaries: list[EncoderSummary] = []
    unavailable: list[Unavailable] = []
    for name in folder.encoders.names():
        try:
            summaries.append(_summary(name, folder.encoders.load(name)))
        except (ArtifactError, UnknownEncoder) as error:
            unavailable.append(Unavailable(name=name, reason=without_path(error, folder)))
    return summaries, unavailable


def write_codes(codes: Codes, form: CodeFormat) -> list[str]:
    """Write packed codes, ``uint8[N, code_size]``, as N texts."""
    if form == "hex":
        return [code_to_hex(code) for code in codes]
    if form == "base64":
        return [base64.b64encode(code.tobytes()).decode() for code in codes]
    return [(row + ord("0")).tobytes().decode() for row in unpack_codes(codes)]


def _summary(name: str, encoder: Encoder) -> EncoderSummary:
    trained_on = encoder.metadata.get("trained_on")
    return EncoderSummary(
        name=name,
        fingerprint=encoder.fingerprint,
        n_bits=encoder.n_bits,
        kind=encoder.kind,
        dimension=encoder.dimension,
        trained_on=dict(trained_on) if isinstance(trained_on, Mapping) else trained_on,
    )


def _inputs(encoder: Encoder, inputs: Sequence[EncodeInput], limits: Settings) -> Inputs:
    """Return the texts, or the vectors float32[N, D], of a body.

    Raises:
        ProblemError: pointing to an input that the encoder does not take.
    """
    if encoder.kind == "text":
        return [_text(item, limits, position) for position, item in enumerate(inputs)]
    return np.stack([_vector(item, encoder, position) for position, item in enumerate(inputs)])


def _text(item: EncodeInput, limits: Settings, position: int) -> str:
    if item.text is None or item.vector is not None:
        raise invalid_field("must have a text and nothing else", "inputs", position)
    check_text(item.text, limits, "inputs", position)
    with pointing_at("inputs", position):
        return parse_text(item.text)


def _vector(item: EncodeInput, encoder: Encoder, position: int) -> np.ndarray:
    if item.vector is None or item.text is not None:
        raise invalid_field("must have a vector and nothing else", "inputs", position)
    with pointing_at("inputs", position):
        vector = parse_vector(item.vector)
        encoder.check_vector(vector)
    return vector


# OpenAI's embeddings.
#
# Source: https://platform.openai.com/docs/api-reference/embeddings. The number of a bit is
# ``logit - threshold``, positive if the bit is 1, so the signs of an embedding are its code. The
# format ``ubinary`` is that of sentence-transformers' ``quantize_embeddings`` and of Cohere's and
# Voyage's APIs: bytes of eight bits each, the most significant bit first. ``input_type`` is
# Voyage's, too: some encoders have a head of their own for queries.


ENCODED_AT_ONCE = 64


@router.post(
    "/embeddings",
    response_model=Embeddings,
    **LONG_READ,
    summary="Embed texts, as OpenAI's interface does",
)
def create_embeddings(body: EmbeddingsRequest, folder: Folder, limits: Limits) -> Response:
    """Return the real-valued or binary embeddings that an encoder gives documents or queries."""
    encoder = _encoder(body, folder)
    embed = encoder.query_weights if body.input_type == "query" else encoder.margins
    texts = _texts(body, limits)
    data: list[dict[str, Any]] = []
    for start in range(0, len(texts), ENCODED_AT_ONCE):
        check_cancelled()
        margins = embed(texts[start : start + ENCODED_AT_ONCE])
        embeddings = enumerate(_write(margins, body.encoding_format), start)
        data += [
            {"object": "embedding", "index": index, "embedding": embedding}
            for index, embedding in embeddings
        ]
    words = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": words, "total_tokens": words}
    answer = {"object": "list", "data": data, "model": body.model, "usage": usage}
    return render_long(answer, limits)


@router.get(
    "/models",
    response_model=Models,
    **READ,
    summary="List the encoders of texts, as OpenAI's interface lists models",
)
def list_models(folder: Folder) -> Response:
    """List the encoders whose names ``POST /v1/embeddings`` takes as a model."""
    encoders, _ = summarize_encoders(folder)
    models = [
        Model(id=encoder["name"], object="model", created=0, owned_by="hummingbit")
        for encoder in encoders
        if encoder["kind"] == "text"
    ]
    return render(Models(object="list", data=models))


def _encoder(body: EmbeddingsRequest, folder: DataFolder) -> Encoder:
    """Return the encoder that a body names.

    Raises:
        ProblemError: 404 if it does not exist, 422 if it takes vectors or has another number of
            bits than `dimensions`.
    """
    encoder = find_encoder(body.model, folder)
    if encoder.kind != "text":
        raise invalid_field(f"is {body.model!r}, which takes vectors; it must take texts", "model")
    if body.dimensions not in (None, encoder.n_bits):
        message = f"is {body.dimensions}; it must be {encoder.n_bits}, the encoder's number of bits"
        raise invalid_field(message, "dimensions")
    return encoder


def _texts(body: EmbeddingsRequest, limits: Settings) -> list[str]:
    texts = [body.input] if isinstance(body.input, str) else body.input
    for position, text in enumerate(texts):
        check_length(text, limits.max_text_length, "input", position)
        with pointing_at("input"):
            parse_text(text, str(position))
    return texts


def _write(margins: Floats, form: EmbeddingFormat) -> list[list[float] | list[int] | str]:
    if form == "base64":
        rows = margins.astype("<f4", copy=False)
        return [base64.b64encode(row.tobytes()).decode() for row in rows]
    if form == "ubinary":
        return [row.tolist() for row in pack_bits(margins > 0)]
    return [row.tolist() for row in margins]
