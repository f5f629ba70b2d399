"""The unmodified client of OpenAI, against a service."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import numpy as np
import openai
import pytest

from hummingbit import SemanticHasher
from hummingbit.encoder.encoder import Encoder
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.http.keys import create_key
from tests.support.service import running_service, service_with_keys

TEXTS = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"]


@pytest.fixture(scope="module")
def encoder() -> SemanticHasher:
    return SemanticHasher(n_bits=64, method="lsh").fit(TEXTS * 5)


@pytest.fixture(scope="module", params=["open", "keys and workers"])
def client(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    encoder: SemanticHasher,
) -> Iterator[openai.OpenAI]:
    data = tmp_path_factory.mktemp("data")
    encoder.save(data / "encoders" / "notes")
    if request.param == "keys and workers":
        with service_with_keys(data) as (url, _):
            key = create_key(data / "keys.json", "reader", "read")
            yield openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        return
    with DataFolder(data, writable=True) as folder, running_service(folder) as http:
        address = str(http.base_url).rstrip("/")
        yield openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)


def margins(encoder: Encoder) -> np.ndarray:
    return encoder.logits(TEXTS) - encoder.thresholds


@pytest.mark.parametrize("form", ["float", "base64", None])
def test_embeddings_come_as_the_client_asks(
    client: openai.OpenAI, encoder: SemanticHasher, form: str | None
) -> None:
    asked = {} if form is None else {"encoding_format": form}
    found = client.embeddings.create(model="notes", input=TEXTS, dimensions=64, **asked)
    given = [item.embedding for item in found.data]
    if form == "base64":
        given = [np.frombuffer(base64.b64decode(item), dtype="<f4") for item in given]
    np.testing.assert_array_equal(np.array(given, dtype=np.float32), margins(encoder.encoder_))
    bits = np.packbits(np.array(given) > 0, axis=1)
    np.testing.assert_array_equal(bits, encoder.transform(TEXTS))


def test_an_error_is_the_client_s_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.embeddings.create(model="gpt", input="a cat")
    assert "there is no encoder 'gpt'" in missing.value.response.json()["detail"]
    with pytest.raises(openai.UnprocessableEntityError) as wrong:
        client.embeddings.create(model="notes", input="a cat", dimensions=12)
    assert wrong.value.response.json()["errors"][0]["pointer"] == "/dimensions"


def test_models_are_the_encoders_of_texts(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["notes"]


def test_an_error_says_what_is_wrong_where_the_client_looks(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.embeddings.create(model="gpt", input="a cat")
    assert isinstance(missing.value.body, dict)
    assert "there is no encoder 'gpt'" in missing.value.body["message"]
    assert missing.value.code == "unknown_encoder"


@pytest.mark.parametrize("ids", [[1, 2, 3], [[1, 2], [3]]])
def test_ids_of_tokens_are_refused_with_what_to_do(
    client: openai.OpenAI, ids: list[int] | list[list[int]]
) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.embeddings.create(model="notes", input=ids)
    assert isinstance(refused.value.body, dict)
    message = refused.value.body["message"]
    assert message.startswith("/input: holds ids of tokens")
    assert "check_embedding_ctx_length=False" in message


def test_no_texts_are_refused_in_a_sentence(client: openai.OpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="/input: is an empty list; it must"):
        client.embeddings.create(model="notes", input=[])


def test_as_many_inputs_are_taken_as_by_openai(client: openai.OpenAI) -> None:
    assert len(client.embeddings.create(model="notes", input=["a cat"] * 2048).data) == 2048
    with pytest.raises(openai.UnprocessableEntityError, match="2,048"):
        client.embeddings.create(model="notes", input=["a cat"] * 2049)
