"""Encoders: lists and describes them, and encodes texts and vectors.

The operator installs encoders from a folder on the machine. No request uploads one, or names one by
a path.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Depends, Response

from corpus.document import parse_text, parse_vector
from encoder.artifact import ArtifactError
from encoder.codes import Codes, code_to_hex, unpack_codes
from encoder.encoder import Encoder
from encoder.features import TextFeatures
from index.data_folder import DataFolder
from index.errors import UnknownEncoder
from service.http.problems import ProblemError, invalid_field, without_path
from service.http.roles import READ
from service.http.routing import JSONRoute
from service.routes.dependencies import LONG_READ, Folder, Limits, render
from service.schemas.checks import check_text, pointing_at
from service.schemas.collections.collections import Unavailable
from service.schemas.common import EncoderName
from service.schemas.encoders import (
    CodeFormat,
    EncodedInputs,
    EncodeInput,
    EncoderDetail,
    EncoderInputs,
    Encoders,
    EncoderSummary,
)
from service.settings import Settings

router = APIRouter(prefix="/v1/encoders", route_class=JSONRoute)


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


@router.get("", response_model=Encoders, openapi_extra=READ, summary="List the encoders")
def get_encoders(folder: Folder) -> Response:
    """List the encoders of the data folder; those that cannot be loaded are listed separately."""
    encoders, unavailable = summarize_encoders(folder)
    return render(Encoders(encoders=encoders, unavailable=unavailable))


@router.get(
    "/{name}", response_model=EncoderDetail, openapi_extra=READ, summary="Describe an encoder"
)
def get_encoder(name: str, encoder: EncoderOf, folder: Folder) -> Response:
    """Describe what an encoder was trained on, how, and the figures that training measured."""
    features = encoder.features
    return render(
        EncoderDetail(
            **_summary(name, encoder).model_dump(),
            code_size=encoder.code_size,
            terms=len(features.vocabulary) if isinstance(features, TextFeatures) else None,
            layers=[len(encoder.layers[0].weight), *(len(layer.bias) for layer in encoder.layers)],
            metadata=dict(encoder.metadata),
            figures=folder.encoders.figures(name),
        )
    )


@router.post(
    "/{name}/encode",
    response_model=EncodedInputs,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Encode",
)
def post_encoder_encode(
    name: str, encoder: EncoderOf, body: EncoderInputs, limits: Limits
) -> Response:
    """Return the codes that an encoder gives texts or vectors as documents."""
    return render(
        EncodedInputs(
            codes=write_codes(_encode(encoder, body.inputs, limits), body.format),
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


def _encode(encoder: Encoder, inputs: Sequence[EncodeInput], limits: Settings) -> Codes:
    """Encode the `inputs` of a body.

    Raises:
        ProblemError: pointing to an input that the encoder does not take.
    """
    if encoder.kind == "text":
        return encoder.encode([_text(item, limits, place) for place, item in enumerate(inputs)])
    return encoder.encode(
        np.stack([_vector(item, encoder, place) for place, item in enumerate(inputs)])
    )


def _text(item: EncodeInput, limits: Settings, place: int) -> str:
    if item.text is None or item.vector is not None:
        raise invalid_field("must have a text and nothing else", "inputs", place)
    check_text(item.text, limits, "inputs", place)
    with pointing_at("inputs", place):
        return parse_text(item.text)


def _vector(item: EncodeInput, encoder: Encoder, place: int) -> np.ndarray:
    if item.vector is None or item.text is not None:
        raise invalid_field("must have a vector and nothing else", "inputs", place)
    with pointing_at("inputs", place):
        vector = parse_vector(item.vector)
        encoder.check_vector(vector)
    return vector
