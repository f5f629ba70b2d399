"""The docstring corpus: what the installed Python packages say about their public names.

It needs no download and no folder: the packages of :data:`PACKAGES` that are installed are
imported and read at run time. About five thousand documents with numpy, scipy, scikit-learn and
torch; a package that is missing is left out.

- The id is the shortest public name: `numpy.linalg.eigh`.
- The text is the object's own name, split into words, and the prose of its docstring
  (:mod:`corpus.prose`). The package's name is left out: it is the label, and would give it away.
- The label is `package.subpackage` where that has at least :data:`MIN_MEMBERS` documents; smaller
  subpackages fall together under `package`, so that none of their names is lost to search. What
  is public at the top of a package counts to the subpackage that defines it, if that is public.
- The payload has the signature and the summary, the first sentence.

Names for one object, and objects with one docstring, give one document. Documents come in the
order of their ids; a tenth of them, chosen by a hash of the id, is the split `test`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import io
import logging
import pkgutil
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from types import ModuleType

from corpus.document import Document
from corpus.prose import docstring_prose, name_words
from corpus.rows import ReadError

PACKAGES = ("numpy", "scipy", "sklearn", "torch")
MIN_MEMBERS = 30
MIN_WORDS = 5
MAX_DEPTH = 3
MAX_SIGNATURE_LENGTH = 300

# Tests, build tools, vendored copies, pointers to other names, and what acts on being imported.
SKIPPED_MODULES = frozenset({"conftest", "setup", "test", "testing", "tests", "this"})
SKIPPED_MODULES |= {"cython_special", "distutils", "experimental", "externals", "f2py"}

# What the import of an optional or broken submodule has been seen to raise.
IMPORT_FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)

_logger = logging.getLogger(__name__)


def read_docstrings(split: str = "train", packages: Sequence[str] = PACKAGES) -> Iterator[Document]:
    """Yield the documents of one split, `train` (nine tenths) or `test`, in the order of their ids.

    Labels depend on the packages that are installed; which split a document is in does not.

    Raises:
        ReadError: if none of `packages` is installed.
    """
    installed = [name for name in packages if importlib.util.find_spec(name) is not None]
    if not installed:
        raise ReadError(f"docstrings: none of the packages {', '.join(packages)} is installed")
    return (document for document in _documents(installed) if _split_of(document.id) == split)


def _documents(packages: Sequence[str]) -> Iterator[Document]:
    prose_of: dict[str, str] = {}
    objects = _public_objects(packages)
    seen: set[str] = set()
    for name in sorted(objects, key=_rank):
        prose = docstring_prose(objects[name].__doc__ or "", _last(name))
        if len(prose.split()) >= MIN_WORDS and prose not in seen:
            seen.add(prose)
            prose_of[name] = prose
    labels = _labels({name: _subpackage(name, objects[name]) for name in prose_of})
    for name in sorted(labels):
        yield Document(
            id=name,
            text=f"{name_words(_last(name))}\n{prose_of[name]}",
            labels=(labels[name],),
            payload={
                "signature": _signature(name, objects[name]),
                "summary": _summary(prose_of[name]),
            },
        )


def _public_objects(packages: Sequence[str]) -> dict[str, object]:
    """Return every documented public function, class and callable by its shortest public name."""
    names: dict[int, str] = {}
    objects: dict[int, object] = {}
    with _silence():
        modules = [module for package in packages for module in _public_modules(package, 1)]
        members = [member for module in modules for member in _members(module)]
    for name, value in members:
        objects[id(value)] = value
        names[id(value)] = min(name, names.get(id(value), name), key=_rank)
    return {name: objects[key] for key, name in names.items()}


def _public_modules(name: str, depth: int) -> Iterator[ModuleType]:
    module = _import(name)
    if module is None:
        return
    yield module
    if depth == MAX_DEPTH:
        return
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if not found.name.startswith("_") and found.name not in SKIPPED_MODULES:
            yield from _public_modules(f"{name}.{found.name}", depth + 1)


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except IMPORT_FAILURES as error:
        _logger.info("left out %s, which cannot be imported: %s", name, error)
        return None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep what modules print and warn of on being imported and looked at from the user."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def _members(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the public names of a module with what they stand for.

    They are those of ``__all__``; without one, those that the module or what lies below it defines.
    Values are read from the module's dictionary: attribute access would wake deprecated aliases.
    """
    listed = getattr(module, "__all__", None)
    package = module.__name__.partition(".")[0]
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, ModuleType) or not callable(value):
            continue
        home = _home(value)
        below = home is not None and f"{home}.".startswith(f"{module.__name__}.")
        foreign = home is not None and home.partition(".")[0] != package
        public = below if listed is None else name in listed and not foreign
        if public and _has_own_docstring(value):
            yield f"{module.__name__}.{name}", value


def _home(value: object) -> str | None:
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) else None


def _has_own_docstring(value: object) -> bool:
    docstring = getattr(value, "__doc__", None)
    return isinstance(docstring, str) and docstring != type(value).__doc__


def _rank(name: str) -> tuple[int, int, str]:
    return name.count("."), len(name), name


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _subpackage(name: str, value: object) -> str:
    """Return the first two parts of where a name is public, or of where its object is defined."""
    parts = name.split(".")[:-1]
    home = (_home(value) or "").split(".")
    if len(parts) == 1 and home[0] == parts[0]:
        parts = home
    private = [place for place, part in enumerate(parts) if part.startswith("_")]
    return ".".join(parts[: min(private, default=2)][:2])


def _labels(subpackages: dict[str, str]) -> dict[str, str]:
    """Return the label of every name; a name whose package has too few others is left out."""
    members = Counter(subpackages.values())
    labels = {
        name: subpackage if members[subpackage] >= MIN_MEMBERS else subpackage.partition(".")[0]
        for name, subpackage in subpackages.items()
    }
    counts = Counter(labels.values())
    return {name: label for name, label in labels.items() if counts[label] >= MIN_MEMBERS}


def _signature(name: str, value: object) -> str:
    """Return the call as a reader would write it, from the object or else from its docstring."""
    try:
        arguments = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, NameError):
        first = (value.__doc__ or "").strip().partition("\n")[0]
        arguments = first.removeprefix(_last(name)) if first.startswith(f"{_last(name)}(") else ""
    # Default values may show the address they lie at, which differs from run to run.
    arguments = re.sub(r" at 0x[0-9a-f]+", "", arguments)
    if len(arguments) > MAX_SIGNATURE_LENGTH:
        arguments = "(...)"
    return f"{_last(name)}{arguments}"


def _summary(prose: str) -> str:
    """Return the first sentence of the first line, which a paragraph makes."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", prose.partition("\n")[0], maxsplit=1)[0]


def _split_of(name: str) -> str:
    return "test" if hashlib.sha256(name.encode()).digest()[0] % 10 == 0 else "train"
