import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from hummingbit.corpus.docstring_sources import written_members
from hummingbit.corpus.docstrings import (
    MAX_DEPTH,
    MAX_LENGTH,
    MIN_MEMBERS,
    SKIPPED_MODULES,
    _members_of,
    docstring_prose,
    name_words,
    read_docstrings,
)
from hummingbit.corpus.document import Document, parse_document
from hummingbit.corpus.readers import ReadError, read_documents

PACKAGES = ("numpy", "scipy")


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Document]]:
    return {split: list(read_docstrings(split, PACKAGES)) for split in ("train", "test")}


@pytest.fixture(scope="module")
def both(splits: dict[str, list[Document]]) -> dict[str, Document]:
    return {document.id: document for document in splits["train"] + splits["test"]}


def test_splits_are_a_partition_in_the_order_of_ids(splits: dict[str, list[Document]]) -> None:
    train, test = splits["train"], splits["test"]
    assert [document.id for document in train] == sorted(document.id for document in train)
    assert not {document.id for document in train} & {document.id for document in test}
    assert 0.07 < len(test) / (len(train) + len(test)) < 0.13
    for document in test:
        assert hashlib.sha256(document.id.encode()).digest()[0] % 10 == 0


def test_there_are_some_thousand_valid_and_distinct_documents(both: dict[str, Document]) -> None:
    assert len(both) > 1500
    assert len({document.text for document in both.values()}) > 0.99 * len(both)
    prose = {(document.text or "").partition("\n")[2] for document in both.values()}
    assert len(prose) == len(both)
    for document in both.values():
        record = {"id": document.id, "text": document.text, "payload": document.payload}
        assert parse_document(record).text == document.text
        assert set(document.payload) == {"signature", "summary"}


def test_ids_are_public_names_that_lead_to_the_object(both: dict[str, Document]) -> None:
    assert {"numpy.linalg.eigh", "scipy.linalg.eigh", "scipy.stats.norm", "numpy.add"} <= set(both)
    assert not [name for name in both if re.search(r"\._|\.tests?\.|\.conftest", name)]
    for name in ("numpy.linalg.eigh", "scipy.cluster.hierarchy.linkage", "numpy.random.Generator"):
        module, _, attribute = name.rpartition(".")
        assert callable(getattr(sys.modules[module], attribute))


def test_labels_are_subpackages_with_enough_members(both: dict[str, Document]) -> None:
    counts = Counter(document.labels for document in both.values())
    assert min(counts.values()) >= MIN_MEMBERS
    assert {("numpy",), ("numpy.linalg",), ("scipy.stats",), ("scipy.special",)} <= set(counts)
    for document in both.values():
        (label,) = document.labels
        assert document.id.startswith(label.partition(".")[0] + ".")
    assert both["numpy.linalg.eigh"].labels == ("numpy.linalg",)
    assert both["numpy.add"].labels == ("numpy",)


def test_the_payload_shows_the_call_and_the_summary(both: dict[str, Document]) -> None:
    payload = both["numpy.linalg.eigh"].payload
    assert payload["signature"] == "eigh(a, UPLO='L')"
    assert payload["summary"].startswith("Return the eigenvalues and eigenvectors of a complex")
    assert not [
        document.id for document in both.values() if " at 0x" in document.payload["signature"]
    ]


def test_texts_hold_prose_and_not_examples(both: dict[str, Document]) -> None:
    for document in both.values():
        assert document.text is not None
        assert ">>>" not in document.text
        assert len(document.text) < MAX_LENGTH + 200
    text = both["numpy.linalg.eigh"].text or ""
    assert text.startswith("eigh\nReturn the eigenvalues")
    assert "Broadcasting rules apply, see the numpy.linalg documentation for details." in text


def test_a_question_in_words_finds_the_function(both: dict[str, Document]) -> None:
    names = list(both)
    vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    corpus = vectorizer.fit_transform([both[name].text or "" for name in names])
    query = vectorizer.transform(["eigenvalues of a symmetric matrix"])
    scores = (corpus @ query.T).toarray().ravel()
    found = {names[place] for place in scores.argsort()[::-1][:10]}
    assert found & {"numpy.linalg.eigh", "numpy.linalg.eigvalsh", "scipy.linalg.eigvalsh"}


def test_the_corpus_is_the_same_in_another_process_and_reading_it_prints_nothing(
    both: dict[str, Document],
) -> None:
    program = f"""
        import hashlib, scipy.io, numpy.polynomial.chebyshev
        from corpus.docstrings import read_docstrings
        documents = read_docstrings(None, {PACKAGES})
        shown = [(d.id, d.text, d.labels, sorted(d.payload.items())) for d in documents]
        print(hashlib.sha256(repr(shown).encode()).hexdigest())
    """
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    shown = sorted((d.id, d.text, d.labels, sorted(d.payload.items())) for d in both.values())
    assert result.stdout.split() == [hashlib.sha256(repr(shown).encode()).hexdigest()]
    assert result.stderr == ""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of an installed package with everything that a walk can trip over."""
    root = tmp_path / "oddpackage"
    (root / "sub").mkdir(parents=True)
    (root / "tests").mkdir()
    documented = [f"def f{i}():\n    'Do the thing that number {i} does.'\n" for i in range(40)]
    alias = "from ._private import hidden as shown\n__all__ = ['shown', 'absent']\n"
    (root / "__init__.py").write_text(alias)
    (root / "_private.py").write_text("def hidden():\n    'Say what is hidden from all of us.'\n")
    (root / "sub" / "__init__.py").write_text(
        "import warnings\nfrom json import dumps\nprint('noise')\nwarnings.warn('noise')\n"
        + "".join(documented)
        + "same = f0\ndef twin():\n    'Do the thing that number 0 does.'\n"
        + "def bare():\n    pass\nconstant = 3\n"
    )
    (root / "broken.py").write_text("import no_such_module_anywhere\n")
    (root / "odd.py").write_text("raise RuntimeError('no such device')\n")
    (root / "__main__.py").write_text("raise SystemExit(3)\n")
    (root / "conftest.py").write_text("raise SystemExit(3)\n")
    (root / "tests" / "__init__.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "oddpackage"
    for name in [name for name in sys.modules if name.partition(".")[0] == "oddpackage"]:
        del sys.modules[name]


def test_a_package_with_broken_and_noisy_modules_is_read_in_silence(
    package: str, capfd: pytest.CaptureFixture[str]
) -> None:
    documents = [
        docstring for split in ("train", "test") for docstring in read_docstrings(split, [package])
    ]
    assert capfd.readouterr() == ("", "")
    assert sorted(document.id for document in documents) == sorted(
        f"oddpackage.sub.f{i}" for i in range(40)
    )
    assert {document.labels for document in documents} == {("oddpackage.sub",)}
    assert documents[0].payload["signature"] == "f0()"


def test_packages_that_are_missing_are_left_out(package: str) -> None:
    several = list(read_docstrings("train", ["no_such_package", package]))
    assert several[0].id == "oddpackage.sub.f0"
    with pytest.raises(ReadError, match="none of the packages no_such_package is installed"):
        read_docstrings("train", ["no_such_package"])


def test_the_corpus_is_a_named_data_set_that_needs_no_folder() -> None:
    documents = read_documents("docstrings:test")
    first = next(documents)
    assert first.id.startswith("numpy.")
    json.dumps(first.payload_with_labels)


NUMPY_STYLE = """
    solve(a, b, /,
          out=None)

    Solve ``a x = b`` for *x*, see :func:`~numpy.linalg.inv` and `Wikipedia`_.

    .. versionadded:: 1.2
       Something.

    Parameters
    ----------
    a : (M, M) array_like
        Coefficients [1]_.

    Notes
    -----
    .. note:: Beware of :math:`A^{-1}` noise.

    .. math::

        x = A^{-1} b

    References
    ----------
    .. [1] Somebody, 1980.

    Examples
    --------
    >>> solve(1, 2)
    2.0

    That was easy.

    See Also
    --------
    inv : Invert.
"""

TORCH_STYLE = """
    relu(input) -> Tensor

    Clips ``input`` at zero::

    Args:
        input (Tensor): the input

    Example::

        >>> relu(x)
        tensor([0.])

    Last words.
    >>> relu(1)
    1
"""


def test_prose_of_a_numpy_docstring() -> None:
    assert docstring_prose(NUMPY_STYLE, "solve").splitlines() == [
        "Solve a x = b for x, see numpy.linalg.inv and Wikipedia.",
        "a : (M, M) array_like Coefficients.",
        "Beware of noise.",
        "inv : Invert.",
    ]


def test_prose_of_a_torch_docstring() -> None:
    assert docstring_prose(TORCH_STYLE, "relu").splitlines() == [
        "Clips input at zero",
        "Args: input (Tensor): the input",
        "Last words.",
    ]


def test_prose_of_odd_docstrings_is_short_and_plain() -> None:
    assert docstring_prose("", "f") == ""
    assert docstring_prose("f(x", "f") == ""
    assert docstring_prose("f(x)\ng(y)", "f") == "g(y)"
    assert docstring_prose("Multiplies a * b and a_ by add_.", "f") == (
        "Multiplies a b and a_ by add_."
    )
    long = docstring_prose("word " * 1000, "f")
    assert MAX_LENGTH - 10 < len(long) <= MAX_LENGTH
    assert long.endswith("word")
    assert inspect.cleandoc(long) == long


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("eigh", "eigh"),
        ("eigvals_banded", "eigvals_banded eigvals banded"),
        ("LinearRegression", "LinearRegression Linear Regression"),
        ("SGDClassifier", "SGDClassifier SGD Classifier"),
        ("MT19937", "MT19937 MT 19937"),
        ("größe", "größe gr e"),
    ],
)
def test_names_are_split_into_their_words(name: str, words: str) -> None:
    assert name_words(name) == words


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of an installed package that cannot be imported."""
    root = tmp_path / "sourcepackage"
    (root / "sub" / "deep" / "deeper").mkdir(parents=True)
    (root / "tests").mkdir()
    texts = {
        "__init__.py": """
            raise RuntimeError("imported")
            from ._made import hidden as shown, undocumented
            from .sub import *
            from json import dumps
            __all__ = ["shown", "absent"]
            from . import sub as _sub
            __all__.extend(_sub.__all__)
            """,
        "_made.py": """
            def hidden(one, /, two: int = 2, *rest, key=None) -> str:
                '''Say what is hidden from all of us.'''
            def undocumented():
                pass
            """,
        "sub/__init__.py": """
            from sourcepackage.sub._base import Base, _chosen, either
            __all__ = ["Base", "fast"]
            __all__ += ["either"]
            fast = _add_docstr(_compiled.fast, r'''
            fast(input) -> Tensor

            Computes it by the {input} quickly.
            '''.format(**arguments))
            def unlisted():
                '''Is public in name only.'''
            """,
        "sub/_base.py": """
            try:
                import fcntl
            except ImportError:
                fcntl = None
            class Base:
                __doc__ = "Base of all" + " that follow."
                def __init__(self, size: int = 3, **options):
                    pass
            def _one():
                '''Choose the one or the other.'''
            either = dispatch(if_true=_one, if_false=_other)
            """,
        "sub/deep/__init__.py": """
            from sourcepackage._made import hidden
            from . import deeper
            name = deeper.far.found
            @_add_docstr("Has a docstring ", "from its decorator.")
            def decorated(a):
                pass
            """,
        "sub/deep/deeper/__init__.py": "",
        "sub/deep/deeper/far.py": "def found(): 'Found by an attribute.'\n",
        "_docs.py": """
            shared = parse_kwargs('''
                input (Tensor): the input tensor.
            ''')
            add_docstr(sourcepackage.sub.written, '''
            written(input)

            Written elsewhere, of {input} and {{}}.
            '''.format(**shared))
            add_docstr(sourcepackage._made.private, "Not public at all.")
            """,
        "broken.py": "def f(:\n",
        "tests/__init__.py": "def checked(): 'Checks a thing or two.'\n",
    }
    for name, text in texts.items():
        (root / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    return "sourcepackage"


def test_public_names_are_found_in_sources_without_importing_them(sources: str) -> None:
    members = written_members(sources, {"tests"}, 3)
    found = {member.name: member for member in members}
    assert set(found) == {
        "sourcepackage.shown",
        "sourcepackage.Base",
        "sourcepackage.either",
        "sourcepackage.fast",
        "sourcepackage.sub.Base",
        "sourcepackage.sub.either",
        "sourcepackage.sub.fast",
        "sourcepackage.sub.written",
        "sourcepackage.sub.deep.name",
        "sourcepackage.sub.deep.decorated",
    }
    assert sources not in sys.modules
    assert found["sourcepackage.Base"].key == found["sourcepackage.sub.Base"].key
    shown = found["sourcepackage.shown"]
    assert shown.signature == "(one, /, two: int = 2, *rest, key=None) -> str"
    assert shown.origin == "sourcepackage._made"
    assert found["sourcepackage.Base"].signature == "(size: int = 3, **options)"
    prose = {
        name.rpartition(".")[2]: docstring_prose(member.docstring, name.rpartition(".")[2])
        for name, member in found.items()
    }
    assert prose == {
        "shown": "Say what is hidden from all of us.",
        "Base": "Base of all that follow.",
        "either": "Choose the one or the other.",
        "fast": "Computes it by the quickly.",
        "written": "Written elsewhere, of input (Tensor): the input tensor. and {}.",
        "name": "Found by an attribute.",
        "decorated": "Has a docstring from its decorator.",
    }


def test_a_package_read_as_sources_agrees_with_the_package_imported() -> None:
    # sklearn has hardly anything in compiled modules, so both readers find the same.
    names = {member.name: member for member in _members_of(["sklearn"])}
    written = {
        member.name: member for member in written_members("sklearn", SKIPPED_MODULES, MAX_DEPTH)
    }
    both = names.keys() & written.keys()
    assert len(both) > 0.95 * len(names)
    assert len(both) > 0.95 * len(written)
    same = [
        name
        for name in both
        if inspect.cleandoc(names[name].docstring) == inspect.cleandoc(written[name].docstring)
    ]
    assert len(same) > 0.99 * len(both)
