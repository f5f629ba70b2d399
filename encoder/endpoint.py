"""Vectors of texts from an embeddings endpoint that speaks OpenAI's protocol.

``POST {url}/embeddings`` with ``{"model": …, "input": [texts]}`` returns the vectors. Ollama, vLLM,
text-embeddings-inference and OpenAI all answer it. The operator names the endpoint: its URL is in
the encoder, which training writes, and never comes from a request. Environment variables set the
rest:

- :data:`KEY`: the key that is sent as a bearer token; for OpenAI's host, ``OPENAI_API_KEY``
  serves, too;
- :data:`TIMEOUT`: seconds that one request may take, by default 30;
- :data:`BATCH`: texts in one request, by default 32;
- :data:`ALLOWED`: URLs, separated by spaces, that encoders may name. Without it, encoders may name
  any URL, but those of snapshots none.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from hummingbit.encoder.spelling import QueryTerms
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import HummingbitError, InputError, abbreviate, counted

if TYPE_CHECKING:
    import httpx

KEY, TIMEOUT = "HUMMINGBIT_ENDPOINT_KEY", "HUMMINGBIT_ENDPOINT_TIMEOUT"
BATCH, ALLOWED = "HUMMINGBIT_ENDPOINT_BATCH", "HUMMINGBIT_ENDPOINTS"

LEAST_COSINE = 0.999
"""Vectors of one text by the same model are at least this alike, whatever computed them."""
CHARACTERS_A_TOKEN = 4
"""A text is cut by characters, because the endpoint keeps its tokenizer to itself."""
_SECONDS, _TEXTS = 30.0, 32
_CHARACTERS_AT_ONCE = 200_000
# A query waits for one more attempt, training for several; each wait doubles.
_ATTEMPTS_OF_QUERIES, _ATTEMPTS_OF_DOCUMENTS = 2, 6
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})
# The golden inputs are asked again after so many seconds: another model may run by then.
_TRUSTED_SECONDS = 600.0
_MAX_ANSWER_BYTES = 256 << 20


class EndpointError(HummingbitError):
    """An embeddings endpoint cannot be reached, refuses, or answers otherwise than it must."""


def is_endpoint(model: str) -> bool:
    """Return whether `model` is the URL of an endpoint, not the folder of a model."""
    return model.startswith(("http://", "https://"))


def check_url(url: str) -> str:
    """Return the URL of an endpoint without a slash at its end.

    Raises:
        EndpointError: if it is not an http or https URL, holds a password, a query or a fragment,
            or is not among those of :data:`ALLOWED`.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise EndpointError(f"{url[:200]!r} is not the URL of an endpoint, such as http://host/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise EndpointError(
            f"{parts.scheme}://{parts.hostname}: the URL must have no password, query or fragment;"
            f" the key is read from {KEY}"
        )
    url = url.rstrip("/")
    if os.environ.get(ALLOWED, "").split() and not is_listed(url):
        raise EndpointError(f"{url} is not among the endpoints of {ALLOWED}")
    return url


def is_listed(url: str) -> bool:
    """Return whether :data:`ALLOWED` names the URL."""
    return url in {allowed.rstrip("/") for allowed in os.environ.get(ALLOWED, "").split()}


class _Trust:
    """Until when the endpoint need not be compared with the probe again."""

    def __init__(self) -> None:
        self.lock, self.until = threading.Lock(), 0.0


@dataclass(frozen=True, eq=False)
class EndpointModel:
    """Vectors of texts by the model `name` of the endpoint at `url`, ``float32[N, dimension]``.

    Vectors are cut to their first `dimension` numbers, which Matryoshka models allow, and with
    `l2_normalize` scaled to length 1. The prompts precede queries and documents. Of a text, so many
    characters are sent as `max_tokens` tokens usually have; 0 sends all. An empty text has the
    vector of zeros. `probe_texts` are documents, and `probe_vectors`, ``float32[P, dimension]``,
    what the endpoint returned for them in training: an endpoint that answers otherwise is refused.

    Raises:
        EndpointError: if the URL is invalid.
    """

    url: str
    name: str
    dimension: int
    query_prompt: str = ""
    document_prompt: str = ""
    l2_normalize: bool = True
    max_tokens: int = 0
    probe_texts: tuple[str, ...] = ()
    probe_vectors: Floats = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    _trust: _Trust = field(default_factory=_Trust, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", check_url(self.url))

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the lock, and the time of the last probe."""
        return EndpointModel, tuple(
            getattr(self, setting.name) for setting in fields(self) if setting.init
        )

    def __repr__(self) -> str:
        """Return a line without the probe."""
        return f"<EndpointModel {self.name} of {self.dimension} numbers at {self.url}>"

    def knows(self, word: str) -> bool:  # noqa: ARG002
        """Return False: an endpoint does not tell which words it knows."""
        return False

    def prepare(self) -> None:
        """Do nothing: the first text is preceded by the probe, and the endpoint may be down now."""

    def transform(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of `texts` as documents, ``float32[N, dimension]``.

        Raises:
            InputError: if `texts` is not a sequence of strings.
            EndpointError: if the endpoint fails.
        """
        self._probe(_ATTEMPTS_OF_DOCUMENTS)
        return self._vectors(self.document_prompt, texts, _ATTEMPTS_OF_DOCUMENTS)

    def transform_queries(self, texts: Sequence[str]) -> tuple[Floats, list[QueryTerms]]:
        """Return the vectors of `texts` as queries, and how many words each has.

        Raises:
            InputError: if `texts` is not a sequence of strings.
            EndpointError: if the endpoint fails.
        """
        self._probe(_ATTEMPTS_OF_QUERIES)
        vectors = self._vectors(self.query_prompt, texts, _ATTEMPTS_OF_QUERIES)
        return vectors, [QueryTerms(len(text.split()), ()) for text in texts]

    def is_cut(self, text: str) -> bool:
        """Return whether a text is longer than what is sent of it."""
        return 0 < self.max_tokens * CHARACTERS_A_TOKEN < len(text)

    def _probe(self, attempts: int) -> None:
        """Compare the endpoint's vectors of the probe with those of training, now and then."""
        if not self.probe_texts or time.monotonic() < self._trust.until:
            return
        with self._trust.lock:
            if time.monotonic() < self._trust.until:
                return
            vectors = self._vectors(self.document_prompt, self.probe_texts, attempts)
            norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(self.probe_vectors, axis=1)
            products = np.einsum("pd,pd->p", vectors, self.probe_vectors)
            least = float(np.min(products / np.maximum(norms, 1e-12)))
            if not least >= LEAST_COSINE:
                raise EndpointError(
                    f"{self.url} answers otherwise than when the encoder was trained: its vector of"
                    f" a golden input has the cosine {least:.3f} with that of {self.name!r} then;"
                    " run the same model there, or train again"
                )
            self._trust.until = time.monotonic() + _TRUSTED_SECONDS

    def _vectors(self, prompt: str, texts: Sequence[str], attempts: int) -> Floats:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError("text", "must be a sequence of strings")
        most = self.max_tokens * CHARACTERS_A_TOKEN or None
        result = np.zeros((len(texts), self.dimension), dtype=np.float32)
        sent = [(row, prompt + text[:most]) for row, text in enumerate(texts) if text.strip()]
        for batch in _batches(sent):
            check_cancelled()
            vectors = embed(self.url, self.name, [text for _, text in batch], attempts)
            if vectors.shape[1] < self.dimension:
                found = f"vectors of {counted(vectors.shape[1], 'number')}"
                message = f"returns {found}; the encoder was made of {self.dimension}"
                raise EndpointError(f"{self.url} {message}")
            vectors = vectors[:, : self.dimension]
            if self.l2_normalize:
                norms = np.linalg.norm(vectors, axis=1, keepdims=True)
                vectors = vectors / np.maximum(norms, np.float32(1e-12))
            result[[row for row, _ in batch]] = vectors
        return result


def probe_of(model: EndpointModel, texts: Sequence[str], vectors: Floats) -> EndpointModel:
    """Return `model` with the probe of `texts`, whose `vectors` the endpoint has returned."""
    rows = [row for row, text in enumerate(texts) if text.strip()][:8]
    probe = np.ascontiguousarray(vectors[rows], dtype=np.float32)
    return replace(model, probe_texts=tuple(texts[row] for row in rows), probe_vectors=probe)


def embed(url: str, model: str, texts: Sequence[str], attempts: int) -> Floats:
    """Return the vectors of `texts`, none of them empty, in one request: ``float32[N, D]``.

    A request that fails for a while, by 429 or 5xx or without an answer, is sent again up to
    `attempts` times in all, after waits that double or that the endpoint names.

    Raises:
        EndpointError: if it fails; one sentence with the URL and what to do.
    """
    import httpx  # noqa: PLC0415 - takes a tenth of a second, and other encoders do without

    seconds = _number(TIMEOUT, _SECONDS)
    wait = _FIRST_WAIT
    for attempt in range(1, attempts + 1):
        problem, named_wait, is_final = "", 0.0, False
        try:
            answer = _post(url, {"model": model, "input": [*texts]}, seconds)
        except httpx.TimeoutException:
            problem = f"did not answer within {seconds:g} s; {TIMEOUT} sets another limit"
        except httpx.InvalidURL as error:
            raise EndpointError(f"{url}: {error}") from None
        except httpx.HTTPError as error:
            problem = f"cannot be reached: {error or type(error).__name__}; is it running?"
        else:
            if answer.status_code == 200:
                return _read_vectors(url, answer, len(texts))
            problem = _refusal(answer, model)
            named_wait = _retry_after(answer)
            is_final = answer.status_code not in _RETRIED
        if is_final or attempt == attempts:
            times = "" if attempt == 1 else f" (after {attempt} attempts)"
            raise EndpointError(f"{url} {problem}{times}")
        _sleep(min(max(wait, named_wait), _LONGEST_WAIT))
        wait *= 2
    raise ValueError("attempts must be at least 1")


def _post(url: str, body: Mapping[str, Any], seconds: float) -> httpx.Response:
    import httpx  # noqa: PLC0415 - as above

    key = _key(KEY)
    if not key and urlsplit(url).hostname == "api.openai.com":
        key = _key("OPENAI_API_KEY")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    # No redirect is followed: the key would go where the operator did not send it.
    with _client().stream(
        "POST", f"{url}/embeddings", json=body, headers=headers, timeout=seconds
    ) as response:
        received, began = bytearray(), time.monotonic()
        for chunk in response.iter_bytes():
            received += chunk
            if time.monotonic() - began > seconds:
                raise httpx.ReadTimeout("the answer is too slow")
            if len(received) > _MAX_ANSWER_BYTES:
                raise EndpointError(f"{url} returned more than {_MAX_ANSWER_BYTES >> 20} MB")
        return httpx.Response(
            response.status_code, headers=_plain_headers(response), content=bytes(received)
        )


def _key(variable: str) -> str:
    """Return the key of a variable, without the white space that files leave behind it.

    Raises:
        EndpointError: if it holds a character that headers do not; the key is not shown.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and (key.isprintable() or not key)):
        raise EndpointError(f"{variable} holds characters that no header can; copy the key again")
    return key


def _plain_headers(response: httpx.Response) -> dict[str, str]:
    names = ("content-type", "retry-after")
    return {name: response.headers[name] for name in names if name in response.headers}


_local = threading.local()


def _client() -> httpx.Client:
    """Return this thread's client, which keeps its connections."""
    import httpx  # noqa: PLC0415 - as above

    # A forked process must not use the connections of its parent.
    if getattr(_local, "process", None) != os.getpid():
        try:
            client = httpx.Client(follow_redirects=False)
        except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
            names = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY"
            if isinstance(error, OSError):
                names = "SSL_CERT_FILE"
            raise EndpointError(f"{names} of the environment cannot be used: {error}") from None
        _local.client, _local.process = client, os.getpid()
    opened: httpx.Client = _local.client
    return opened


def _read_vectors(url: str, answer: httpx.Response, n_texts: int) -> Floats:
    try:
        data = answer.json()["data"]
        rows = sorted(data, key=lambda row: row["index"])
        positions = [row["index"] for row in rows]
        vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        found = abbreviate(answer.text[:200])
        message = f"returned {found}; it must return data, each with index and embedding"
        raise EndpointError(f"{url} {message}") from None
    if positions != [*range(n_texts)] or vectors.ndim != 2 or not vectors.shape[1]:
        found = f"{len(positions)} vectors of shape {vectors.shape[1:]}"
        raise EndpointError(f"{url} returned {found} for {counted(n_texts, 'text')}")
    if not np.isfinite(vectors).all():
        raise EndpointError(f"{url} returned a vector that holds NaN or infinity")
    return vectors


def _refusal(answer: httpx.Response, model: str) -> str:
    """Return what an answer that is not 200 says, and what to do."""
    status, detail = answer.status_code, _detail(answer)
    if status in {401, 403}:
        return f"refuses the key ({status}{detail}); {KEY} must hold one"
    if status == 404:
        return f"has no embeddings of model {model!r} ({status}{detail})"
    if status == 429:
        return f"answers no more requests for now ({status}{detail})"
    if status in {400, 413, 422}:
        hint = f"if the texts are too long, --max-tokens cuts them, and {BATCH} sends fewer at once"
        return f"refuses the texts ({status}{detail}); {hint}"
    return f"failed ({status}{detail})"


def _detail(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return ""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    message = message or (body.get("detail") if isinstance(body, dict) else None)
    return f": {' '.join(message.split())[:200]}" if isinstance(message, str) else ""


def _retry_after(answer: httpx.Response) -> float:
    try:
        return max(0.0, float(answer.headers.get("retry-after", "0")))
    except ValueError:  # a date
        return 0.0


def _batches(sent: Sequence[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    batch: list[tuple[int, str]] = []
    n_characters, most = 0, int(_number(BATCH, _TEXTS))
    for row, text in sent:
        n_characters += len(text)
        if batch and (len(batch) >= most or n_characters > _CHARACTERS_AT_ONCE):
            yield batch
            batch, n_characters = [], len(text)
        batch.append((row, text))
    if batch:
        yield batch


def _number(variable: str, default: float) -> float:
    """Return the number in an environment variable.

    Raises:
        EndpointError: if it is not a number from 1 to 3,600.
    """
    value = os.environ.get(variable, "")
    if not value:
        return default
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 1 <= number <= 3600:
        raise EndpointError(f"{variable} is {value[:40]!r}; it must be a number from 1 to 3,600")
    return number


_sleep: Callable[[float], None] = time.sleep
