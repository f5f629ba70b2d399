"""Encoders as repositories of the Hugging Face Hub.

A repository holds the files of the encoder's folder and a model card, ``README.md``, which is
generated from the encoder's metadata. A pulled encoder is checked like any other before it is
installed: hashes, shapes and golden inputs.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hummingbit.encoder.artifact import (
    MANIFEST,
    METRICS,
    ArtifactError,
    install_artifact,
    load_encoder,
    read_listed_names,
    read_metrics,
)
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.endpoint import EndpointModel
from hummingbit.foundation.errors import HummingbitError, install_command
from hummingbit.foundation.files import replace_folder

CARD = "README.md"
LIBRARY = "hummingbit"
_TASK = "feature-extraction"
_TRANSPORTS = {"httpx", "httpx2", "requests"}


class HubError(HummingbitError, RuntimeError):
    """The Hub refuses a request or cannot be reached, or huggingface_hub is not installed."""


def push(folder: Path, repository: str, *, private: bool, card: str) -> str:
    """Upload the encoder in `folder` with its `card`; return the address of the commit.

    The repository ``NAMESPACE/NAME`` is created if it is missing. The token is that of
    huggingface_hub (``hf auth login`` or ``HF_TOKEN``).

    Raises:
        HubError: if the Hub refuses or cannot be reached.
        ArtifactError: if `folder` is not an intact encoder.
        OSError: if a file of this machine cannot be read or written.
    """
    hub = _library()
    with TemporaryDirectory(prefix="hummingbit-push-") as parent, _hub_errors():
        target = Path(parent) / "encoder"
        fingerprint = install_artifact(folder, target).fingerprint
        (target / CARD).write_text(card, encoding="utf-8")
        api = hub.HfApi()
        api.create_repo(repository, private=private or None, exist_ok=True)
        message = f"hummingbit encoder {fingerprint[:12]}"
        commit = api.upload_folder(repo_id=repository, folder_path=target, commit_message=message)
    return str(commit.commit_url)


def push_to_folder(folder: Path, target: Path, card: str) -> None:
    """Write the files of a repository for the encoder in `folder` to `target`, which is created.

    Raises:
        ArtifactError: if `folder` is not an intact encoder, or `target` exists.
        OSError: if `target` cannot be written.
    """
    with TemporaryDirectory(prefix="hummingbit-push-") as parent:
        scratch = Path(parent) / "encoder"
        install_artifact(folder, scratch)
        contents = {path.name: path.read_bytes() for path in scratch.iterdir()}
    replace_folder(target, {**contents, CARD: card.encode()})


def pull(repository: str, target: Path, *, revision: str | None = None) -> Encoder:
    """Install the encoder of a repository, or of a local folder, in `target`, which is created.

    The manifest of a repository is downloaded first, and then only the files that it lists.

    Raises:
        HubError: if the Hub refuses or cannot be reached.
        ArtifactError: if it is not an intact encoder, or `target` exists.
        OSError: if a file of this machine cannot be read or written.
    """
    if Path(repository).is_dir():
        return install_artifact(Path(repository), target)
    hub = _library()
    with TemporaryDirectory(prefix="hummingbit-pull-") as scratch, _hub_errors():
        where = {"revision": revision, "local_dir": scratch}
        hub.snapshot_download(repository, allow_patterns=[MANIFEST], **where)
        listed = [escape(name) for name in read_listed_names(Path(scratch))]
        hub.snapshot_download(repository, allow_patterns=listed, **where)
        return install_artifact(Path(scratch), target)


def model_card(folder: Path, name: str, *, license_name: str | None, language: str | None) -> str:
    """Return the model card of the encoder in `folder`: YAML for the Hub, and a page for people.

    Raises:
        ArtifactError: if `folder` is not an intact encoder, or its metrics are malformed.
        HubError: if huggingface_hub is not installed.
    """
    hub = _library()
    encoder = load_encoder(folder)
    figures = read_metrics(folder, encoder).get("validation") or {}
    try:
        results, page = _results(hub, figures), _page(encoder, name, figures)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = "holds other figures than training writes, so there is no model card of them"
        raise ArtifactError(f"{folder / METRICS}: {reason}") from error
    data = hub.ModelCardData(
        model_name=name,
        library_name=LIBRARY,
        license=license_name,
        language=language,
        tags=["semantic-hashing", "binary-codes", f"{encoder.n_bits}-bit"],
        pipeline_tag=_TASK,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---\n\n{page}"


def _results(hub: Any, figures: Mapping[str, Any]) -> list[Any]:
    """Return the figures on the documents held out, as the Hub lists them."""
    return [
        hub.EvalResult(
            task_type="retrieval",
            dataset_type="held-out-documents",
            dataset_name="documents held out of the training data",
            metric_type=metric,
            metric_name=f"{metric}, tie-averaged",
            metric_value=round(value, 4),
        )
        for metric, value in (figures.get("expected") or {}).items()
    ]


def _page(encoder: Encoder, name: str, figures: Mapping[str, Any]) -> str:
    made_of = "texts" if encoder.kind == "text" else f"vectors of {encoder.dimension} numbers"
    method = encoder.metadata.get("method", "unknown")
    example = "interest rates" if encoder.kind == "text" else None
    lines = [
        f"# {name}",
        "",
        f"An encoder of {made_of} to binary codes of {encoder.n_bits} bits"
        f" ({encoder.code_size} bytes), made by [hummingbit](https://pypi.org/project/hummingbit/).",
        "",
        f"- method: `{method}`",
        f"- fingerprint: `{encoder.fingerprint}`",
        *_lines_of_model(encoder),
        "",
        "## Use",
        "",
        f"    hummingbit encoder pull NAMESPACE/{name}",
        f"    hummingbit index build documents documents.jsonl --encoder {name}",
    ]
    if example:
        lines += [f'    hummingbit search documents "{example}"']
    return "\n".join([*lines, "", "## Figures", "", *_table(figures), ""])


def _lines_of_model(encoder: Encoder) -> list[str]:
    """Return what a reader must know of the language model, if there is one."""
    model = encoder.metadata.get("model")
    if not isinstance(model, Mapping):
        return []
    if isinstance(encoder.features, EndpointModel):
        return [f"- language model: `{model.get('name')}`, at an embeddings endpoint"]
    return [
        f"- language model: `{model.get('name')}`, part of this encoder; its own license applies",
        "- needs onnxruntime and tokenizers, which the extra `model` of hummingbit installs",
    ]


def _table(figures: Mapping[str, Any]) -> Iterator[str]:
    if not figures.get("queries"):
        yield "No labelled documents were held out, so there are none."
        return
    yield f"{figures['queries']:,} documents were held out and searched for by their labels."
    yield ""
    classifier = figures.get("classifier_baseline") or figures.get("class_code") or {}
    others = {"soft class scores": figures.get("soft_class_scores"), "bm25": figures.get("bm25")}
    baselines = {"classifier baseline": classifier} | {
        name: baseline for name, baseline in others.items() if baseline
    }
    heads = "".join(f" {name}, tie-averaged |" for name in baselines)
    yield f"| metric | as served | tie-averaged |{heads}"
    yield "|---|---|---|" + "---|" * len(baselines)
    for metric, served in figures["metrics"].items():
        cells = [served, figures["expected"][metric]]
        cells += [(baseline.get("expected") or {}).get(metric) for baseline in baselines.values()]
        row = " | ".join("–" if cell is None else f"{cell:.3f}" for cell in cells)
        yield f"| {metric} | {row} |"


@contextmanager
def _hub_errors() -> Iterator[None]:
    """Turn errors of the Hub and of the network into HubError; let errors of files through."""
    errors = importlib.import_module("huggingface_hub.errors")
    refusals = (errors.HfHubHTTPError, errors.HFValidationError, errors.LocalTokenNotFoundError)
    try:
        yield
    except refusals as error:
        raise HubError(f"the Hugging Face Hub: {_first_line(error)}") from error
    except Exception as error:
        # The library does not wrap errors of its HTTP client, which depends on its version.
        is_transport = type(error).__module__.partition(".")[0] in _TRANSPORTS
        if not is_transport and (not isinstance(error, OSError) or _is_of_a_file(error)):
            raise
        raise HubError(f"the Hugging Face Hub cannot be reached: {_first_line(error)}") from error


def _is_of_a_file(error: OSError) -> bool:
    """Return whether an error is about a local file. The library's own errors have no errno."""
    is_of_network = isinstance(error, ConnectionError | TimeoutError | socket.gaierror)
    return error.errno is not None and not is_of_network


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _library() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        hint = f"install it with: {install_command('hub')}"
        raise HubError(f"repositories need huggingface_hub; {hint}") from None
