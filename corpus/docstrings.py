"""The docstring corpus: the docstrings of the public names of installed Python packages.

It needs no download and no folder: the packages of :data:`PACKAGES` that are installed are read at
run time. With numpy, scipy, scikit-learn and torch it has about five thousand documents. Packages
that are not installed are left out. Those of :data:`READ_AS_SOURCES` are not imported
(:mod:`hummingbit.corpus.docstring_sources`): importing torch takes three times as long as reading
its sources. The others have many docstrings in compiled parts, which no source has, and are
imported as quickly as they are read.

- The id is the shortest public name: `numpy.linalg.eigh`.
- The text is the object's own name, split into words, and the prose of its docstring
  without signatures, examples and markup. It leaves out the package's name, which gives away
  the label.
- The label is `package.subpackage` if that has at least :data:`MIN_MEMBERS` documents.
  Smaller subpackages share the label `package`, so that search still finds their names. A name at
  the top of a package counts to the public subpackage that defines the object, if there is one.
- The payload has the signature and the summary, which is the first sentence.

Several names of one object give one document, and so do several objects with one docstring.
Documents come in the order of their ids. A tenth of them, chosen by a hash of the id, is the
split `test`.
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
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from types import ModuleType

from hummingbit.corpus.docstring_sources import Member, written_members
from hummingbit.corpus.document import Document
from hummingbit.corpus.lines import ReadError

# The prose of a docstring.


# Enough for the description and the parameters. Notes and algorithms usually follow them.
MAX_LENGTH = 2000

DROPPED_SECTIONS = frozenset({"example", "examples", "references"})
DROPPED_BLOCKS = frozenset({"code", "code-block", "deprecated", "doctest", "image", "include"})
DROPPED_BLOCKS |= {"index", "literalinclude", "math", "plot", "testcode", "testoutput", "toctree"}
DROPPED_BLOCKS |= {"versionadded", "versionchanged", "warning"}

_CALL = re.compile(r"(?:\w+\.)*(\w+)\s*\(")
_UNDERLINE = re.compile(r"[-=~^*]{3,}\s*$")
_DIRECTIVE = re.compile(r"\.\.\s+([\w-]+)::\s*(.*)")
_COMMENT = re.compile(r"\.\.\s+(\[|_|\|)|:\w+:\s*$")
_GOOGLE_EXAMPLE = re.compile(r"(Examples?|References?)\s*(\(.*\))?\s*::?\s*$", re.IGNORECASE)
_FORMULA_OR_TARGET = re.compile(r":math:`[^`]*`|:ref:`[^`<]*`|\s\[\d+\]_?")
_ROLE = re.compile(r":[\w:+.-]+:`~?([^`<]*?)\s*(<[^`>]*>)?`")
# Begins with the signs, so that the search skips to them.
_MARKUP = re.compile(
    r"[`$|\\*:](?:(?<=`)`*_*|(?<=[$|\\])|(?<=\*)(?:(?<!\w\*)\**|\**(?!\w))|(?<=:):(?=\s|$))"
)
_MARKS = frozenset("`_$|\\*:")
_UNDERLINES = frozenset(3 * sign for sign in "-=~^*")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def docstring_prose(docstring: str, name: str) -> str:
    """Return the prose of the docstring of `name`: a paragraph a line, at most `MAX_LENGTH` long.

    It leaves out the signature at the head, examples, references, doctests, formulas and the markup
    of reStructuredText. It keeps the text of roles and literals.
    """
    lines = inspect.cleandoc(docstring).splitlines()
    prose_lines = _drop_blocks(_drop_sections(_drop_signature(lines, name)))
    paragraphs: list[str] = []
    length = -1
    for paragraph in _paragraphs(prose_lines):
        if stripped := _strip_markup(paragraph):
            paragraphs.append(stripped)
            length += len(stripped) + 1
            if length > MAX_LENGTH:  # what follows would be cut off
                break
    prose = "\n".join(paragraphs)
    if length <= MAX_LENGTH:
        return prose
    return prose[:MAX_LENGTH].rsplit(maxsplit=1)[0]


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paragraphs of a text, which empty lines separate."""
    paragraph: list[str] = []
    for line in lines:
        if line:
            paragraph.append(line)
        elif paragraph:
            yield "\n".join(paragraph)
            paragraph = []
    if paragraph:
        yield "\n".join(paragraph)


def name_words(name: str) -> str:
    """Return a Python name followed by the words in it: `eigvals_banded eigvals banded`."""
    words = " ".join(_WORD.findall(name))
    return name if words in ("", name) else f"{name} {words}"


def _drop_signature(lines: list[str], name: str) -> list[str]:
    """Drop the lines of a leading ``name(…)``, up to and with the line of its closing bracket.

    Several signatures may follow one another, as in NumPy's random functions and in PyTorch.
    """
    while lines and (called := _CALL.match(lines[0])) and called[1] == name:
        lines = lines[_signature_length(lines) :]
        while lines and not lines[0].strip():
            lines = lines[1:]
    return lines


def _signature_length(lines: list[str]) -> int:
    depth = 0
    for position, line in enumerate(lines):
        depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        if depth <= 0 or not line.strip():
            return position + 1
    return len(lines)


def _drop_sections(lines: list[str]) -> Iterator[str]:
    """Yield the lines outside :data:`DROPPED_SECTIONS`, without the titles of all others."""
    dropping = False
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
        if below[:3] in _UNDERLINES and _UNDERLINE.match(below) and not line[:1].isspace() and line:
            dropping = line.strip().lower().rstrip(":") in DROPPED_SECTIONS
        elif not dropping and not (line[:3] in _UNDERLINES and _UNDERLINE.match(line)):
            yield line


def _drop_blocks(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that are no doctests, their output, or directives without prose.

    The lines indented below such a directive are left out as well.
    """
    block: int | None = None
    doctest = False
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if block is not None and (not text or indent > block):
            continue
        block = None
        doctest = bool(text) and (doctest or text.startswith(">>>"))
        if doctest:
            continue
        is_example = text.startswith(("E", "e", "R", "r")) and _GOOGLE_EXAMPLE.match(text)
        directive = _DIRECTIVE.match(text) if text.startswith("..") else None
        if is_example or (directive and directive[1] in DROPPED_BLOCKS):
            block = indent
        elif directive:
            yield directive[2]
        elif not (text.startswith((".", ":")) and _COMMENT.match(text)):
            yield text


def _strip_markup(paragraph: str) -> str:
    # Most paragraphs have neither, and the patterns would be tried at every letter.
    if "`" in paragraph or "[" in paragraph:
        paragraph = _ROLE.sub(r"\1", _FORMULA_OR_TARGET.sub("", paragraph))
    if not _MARKS.isdisjoint(paragraph):
        paragraph = _MARKUP.sub("", paragraph)
    return " ".join(paragraph.split())


# The corpus.


PACKAGES = ("numpy", "scipy", "sklearn", "torch")
READ_AS_SOURCES = frozenset({"torch"})
MIN_MEMBERS = 30
MIN_WORDS = 5
MAX_DEPTH = 3
MAX_SIGNATURE_LENGTH = 300

# Tests, build tools, vendored copies, aliases of other names, and modules with effects on import.
SKIPPED_MODULES = frozenset({"conftest", "setup", "test", "testing", "tests", "this"})
SKIPPED_MODULES |= {"cython_special", "distutils", "experimental", "externals", "f2py"}

# Exceptions that optional or broken submodules raise when they are imported.
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


def read_docstrings(
    split: str | None = "train", packages: Sequence[str] = PACKAGES
) -> Iterator[Document]:
    """Yield the documents of one split, `train` (nine tenths) or `test`, in the order of their ids.

    With None, yield those of both. Labels depend on which packages are installed. The split of a
    document does not.

    Raises:
        ReadError: if none of `packages` is installed.
    """
    installed = [name for name in packages if importlib.util.find_spec(name) is not None]
    if not installed:
        raise ReadError(f"docstrings: none of the packages {', '.join(packages)} is installed")
    return (
        document for document in _documents(installed) if split in (None, _split_of(document.id))
    )


def _documents(packages: Sequence[str]) -> Iterator[Document]:
    prose_of: dict[str, str] = {}
    members = _public_members(packages)
    seen: set[str] = set()
    for name in sorted(members, key=_rank):
        prose = docstring_prose(members[name].docstring, _own_name(name))
        if len(prose.split()) >= MIN_WORDS and prose not in seen:
            seen.add(prose)
            prose_of[name] = prose
    labels = _labels({name: _subpackage(name, members[name].origin) for name in prose_of})
    for name in sorted(labels):
        yield Document(
            id=name,
            text=f"{name_words(_own_name(name))}\n{prose_of[name]}",
            labels=(labels[name],),
            payload={
                "signature": _signature(members[name]),
                "summary": _summary(prose_of[name]),
            },
        )


def _public_members(packages: Sequence[str]) -> dict[str, Member]:
    """Return every documented public function, class and callable by its shortest public name."""
    shortest: dict[object, Member] = {}
    for member in _members_of(packages):
        known = shortest.get(member.key)
        if known is None or _rank(member.name) < _rank(known.name):
            shortest[member.key] = member
    return {member.name: member for member in shortest.values()}


def _members_of(packages: Sequence[str]) -> list[Member]:
    with _silence():
        # All are imported before any is read: scipy changes docstrings of numpy.
        modules = [
            module
            for package in packages
            if package not in READ_AS_SOURCES
            for module in _public_modules(package, 1)
        ]
        members = [member for module in modules for member in _members(module)]
    for package in packages:
        if package in READ_AS_SOURCES:
            members += written_members(package, SKIPPED_MODULES, MAX_DEPTH)
    return members


def _public_modules(name: str, depth: int) -> Iterator[ModuleType]:
    module = _import(name)
    if module is None:
        return
    yield module
    if depth == MAX_DEPTH:
        return
    for submodule in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if not submodule.name.startswith("_") and submodule.name not in SKIPPED_MODULES:
            yield from _public_modules(f"{name}.{submodule.name}", depth + 1)


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except IMPORT_FAILURES as error:
        _logger.info("skipped the module %s, which cannot be imported: %s", name, error)
        return None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard the output and the warnings of modules that are imported and inspected."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def _members(module: ModuleType) -> Iterator[Member]:
    """Yield the documented public names of a module.

    They are the names in ``__all__``; without ``__all__``, those that the module or a module below
    it defines. Values are read from the module's dictionary, because attribute access would import
    deprecated aliases.
    """
    listed = getattr(module, "__all__", None)
    package = module.__name__.partition(".")[0]
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, ModuleType) or not callable(value):
            continue
        origin = _defining_module(value)
        is_below = origin is not None and f"{origin}.".startswith(f"{module.__name__}.")
        is_foreign = origin is not None and origin.partition(".")[0] != package
        is_public = is_below if listed is None else name in listed and not is_foreign
        if is_public and _has_own_docstring(value):
            # The object is kept with its key, so that no other gets its number.
            docstring = str(value.__doc__)
            yield Member(f"{module.__name__}.{name}", docstring, None, origin, id(value), value)


def _defining_module(value: object) -> str | None:
    origin = getattr(value, "__module__", None)
    return origin if isinstance(origin, str) else None


def _has_own_docstring(value: object) -> bool:
    docstring = getattr(value, "__doc__", None)
    return isinstance(docstring, str) and docstring != type(value).__doc__


def _rank(name: str) -> tuple[int, int, str]:
    return name.count("."), len(name), name


def _own_name(name: str) -> str:
    return name.rpartition(".")[2]


def _subpackage(name: str, defining_module: str | None) -> str:
    """Return the package and subpackage of a public name.

    A name at the top of a package counts to the module that defines the object.
    """
    parts = name.split(".")[:-1]
    origin = (defining_module or "").split(".")
    if len(parts) == 1 and origin[0] == parts[0]:
        parts = origin
    private = [position for position, part in enumerate(parts) if part.startswith("_")]
    return ".".join(parts[: min(private, default=2)][:2])


def _labels(subpackages: dict[str, str]) -> dict[str, str]:
    """Return the label of every name; names whose package has too few documents are left out."""
    members = Counter(subpackages.values())
    labels = {
        name: subpackage if members[subpackage] >= MIN_MEMBERS else subpackage.partition(".")[0]
        for name, subpackage in subpackages.items()
    }
    counts = Counter(labels.values())
    return {name: label for name, label in labels.items() if counts[label] >= MIN_MEMBERS}


def _signature(member: Member) -> str:
    """Return the signature of an object, or else the one that its docstring begins with."""
    own_name = _own_name(member.name)
    arguments = member.signature
    if member.value is not None:
        with contextlib.suppress(TypeError, ValueError, NameError):
            arguments = str(inspect.signature(member.value))  # type: ignore[arg-type]
    if arguments is None:
        first = member.docstring.strip().partition("\n")[0]
        arguments = first.removeprefix(own_name) if first.startswith(f"{own_name}(") else ""
    # Default values may print an address in memory, which differs from run to run.
    arguments = re.sub(r" at 0x[0-9a-f]+", "", arguments)
    if len(arguments) > MAX_SIGNATURE_LENGTH:
        arguments = "(...)"
    return f"{own_name}{arguments}"


def _summary(prose: str) -> str:
    """Return the first sentence of the first paragraph; each line of `prose` is a paragraph."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", prose.partition("\n")[0], maxsplit=1)[0]


def _split_of(name: str) -> str:
    return "test" if hashlib.sha256(name.encode()).digest()[0] % 10 == 0 else "train"
