"""``POST /v1/embeddings``: encodes texts for tools that support OpenAI's API.

Source: https://platform.openai.com/docs/api-reference/embeddings. The number of a bit is
``logit - threshold``, positive if the bit is 1, so the signs of an embedding are its code. The
format ``ubinary`` is that of sentence-transformers' ``quantize_embeddings`` and of Cohere's and
Voyage's APIs: bytes of eight bits each, the most significant bit first. ``input_type`` is Voyage's,
too: some encoders have a head of their own for queries.
"""

from __future__ import annotations

import base64
from typing import Any

from fastapi import APIRouter, Response

from corpus.document import parse_text
from encoder.codes import pack_bits
from encoder.encoder import Encoder
from encoder.features import Floats
from foundation.slices import checkpoint
from index.data_folder import DataFolder
from service.http.problems import invalid_field
from service.http.roles import READ
from service.http.routing import JSONRoute
from service.routes.dependencies import LONG_READ, Folder, Limits
from service.routes.encoders import find_encoder
from service.schemas.checks import check_length, pointing_at
from service.schemas.embeddings import EmbeddingFormat, Embeddings, EmbeddingsRequest
from service.schemas.results import JSONAnswer, answer_to_json
from service.settings import Settings

router = APIRouter(route_class=JSONRoute)
ENCODED_AT_ONCE = 64


@router.post(
    "/v1/embeddings",
    response_model=Embeddings,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Embed texts, as OpenAI's interface does",
)
def post_embeddings(body: EmbeddingsRequest, folder: Folder, limits: Limits) -> Response:
    """Return the real-valued or binary embeddings that an encoder gives documents or queries."""
    encoder = _encoder(body, folder)
    embed = encoder.query_weights if body.input_type == "query" else encoder.margins
    texts = _texts(body, limits)
    data: list[dict[str, Any]] = []
    for start in range(0, len(texts), ENCODED_AT_ONCE):
        checkpoint()
        margins = embed(texts[start : start + ENCODED_AT_ONCE])
        embeddings = enumerate(_write(margins, body.encoding_format), start)
        data += [
            {"object": "embedding", "index": index, "embedding": embedding}
            for index, embedding in embeddings
        ]
    words = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": words, "total_tokens": words}
    answer = {"object": "list", "data": data, "model": body.model, "usage": usage}
    return JSONAnswer(answer_to_json(answer, limits.max_response_bytes))


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
    for place, text in enumerate(texts):
        check_length(text, limits.max_text_length, "input", place)
        with pointing_at("input"):
            parse_text(text, str(place))
    return texts


def _write(margins: Floats, form: EmbeddingFormat) -> list[list[float] | list[int] | str]:
    if form == "base64":
        rows = margins.astype("<f4", copy=False)
        return [base64.b64encode(row.tobytes()).decode() for row in rows]
    if form == "ubinary":
        return [row.tolist() for row in pack_bits(margins > 0)]
    return [row.tolist() for row in margins]
