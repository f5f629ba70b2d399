"""The public names of a Python package and their docstrings, read from its sources.

Nothing of the package is imported, so a package of compiled parts takes as long as its text. What
a module defines, and what it imports from modules of its package, is found in its syntax tree. A
docstring that is attached by a call, as PyTorch does with ``add_docstr(torch.abs, "…")``, counts as
that of the name. Names that a program makes while it runs are not found.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hummingbit.foundation.slices import rare_collections

_ATTACHING = frozenset({"_add_docstr", "add_docstr"})
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_ARGUMENTS = re.compile(r"\n {4}(?! )")
_SPACED = r"\1 = "
_DEFAULT = re.compile(r"(: [^,=()]+)=")
# An import leads to the module that defines a name in a few steps, or in a circle.
_MAX_STEPS = 10


class Member(NamedTuple):
    """A documented function or class: a public name of it, and where it is defined."""

    name: str
    docstring: str
    signature: str | None
    """Its arguments in brackets; None if they are not known."""
    origin: str | None
    """The name of the module that defines it."""
    key: object
    """The same for all names of one object."""
    value: object = None
    """The object, if it was imported."""


class _Defined(NamedTuple):
    """What a module defines under a name."""

    docstring: str
    signature: str | None
    of: str | None = None
    """The dotted name of what the docstring was attached to."""


class _Imported(NamedTuple):
    """What a module takes from another one, under a name."""

    module: str
    name: str


class _Module:
    """The names of one module by its syntax tree."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.listed: set[str] | None = None
        """The names of ``__all__``, if there is one."""
        self.lists_others = False
        """Whether ``__all__`` also has names that are not written there, such as another's."""
        self.names: dict[str, _Defined | _Imported] = {}
        self.attached: dict[str, _Defined] = {}
        """Docstrings that the module attaches to names of any module, by dotted name."""
        self.phrases: dict[str, str] = {}
        """What placeholders of docstrings stand for."""
        self.stars: list[str] = []
        """Modules of which it takes all public names."""
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return
        self._read(tree.body)

    def _read(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._define(node)
            elif isinstance(node, ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                self._assign(node)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._call(node.value)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                self._read(node.body)
                for other in getattr(node, "orelse", []):
                    self._read([other])
                for handler in getattr(node, "handlers", []):
                    self._read(handler.body)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        docstring = self._docstring_of(node)
        if docstring is not None:
            self.names[node.name] = _Defined(docstring, _signature(node))
        else:
            # Another definition of the name, such as an overload, may have the docstring.
            self.names.setdefault(node.name, _Defined("", None))

    def _import(self, node: ast.ImportFrom) -> None:
        source = node.module or ""
        if node.level:
            is_package = self.path.name == "__init__.py"
            parts = self.name.split(".")
            above = parts[: len(parts) - node.level + is_package]
            source = ".".join([*above, *filter(None, [source])])
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(source)
            else:
                self.names.setdefault(alias.asname or alias.name, _Imported(source, alias.name))

    def _assign(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                self._assign_name(target.id, node.value)
            elif isinstance(target, ast.Attribute) and target.attr == "__doc__":
                self._attach(ast.unparse(target.value), node.value)

    def _assign_name(self, name: str, value: ast.expr | None) -> None:
        if name == "__all__":
            self._list(value)
        elif isinstance(value, ast.Name | ast.Attribute):
            if (source := self._source(value)) is not None:
                self.names.setdefault(name, source)
        elif isinstance(value, ast.Call) and _attaches(value):
            docstring = self._text_of(value.args[1]) if len(value.args) > 1 else None
            if docstring is not None:
                self.names[name] = _Defined(docstring, None, ast.unparse(value.args[0]))
        elif isinstance(value, ast.Call):
            self._read_phrases(value)
            # What chooses between documented functions does what the first of them does.
            for keyword in value.keywords:
                found = self.names.get(getattr(keyword.value, "id", ""))
                if isinstance(found, _Defined) and found.docstring:
                    self.names.setdefault(name, found._replace(signature=None))
                    break

    def _read_phrases(self, value: ast.Call) -> None:
        """Read the descriptions of arguments in the strings and dictionaries of a call."""
        for node in ast.walk(value):
            if isinstance(node, ast.Dict):
                for key, text in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(text, ast.Constant):
                        self.phrases[str(key.value)] = str(text.value)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                for phrase in _ARGUMENTS.split(node.value):
                    self.phrases.setdefault(phrase.strip().partition(" ")[0], phrase.strip())

    def _source(self, value: ast.Name | ast.Attribute) -> _Imported | None:
        """Return where a name is defined, or an attribute of an imported module."""
        if isinstance(value, ast.Name):
            return _Imported(self.name, value.id)
        head, _, path = ast.unparse(value.value).partition(".")
        module = self.names.get(head)
        if not isinstance(module, _Imported):
            return None
        return _Imported(".".join(filter(None, [*module, path])), value.attr)

    def _call(self, call: ast.Call) -> None:
        if _attaches(call) and len(call.args) > 1:
            self._attach(ast.unparse(call.args[0]), call.args[1])
        elif isinstance(call.func, ast.Attribute) and call.args:
            listed = call.func.value
            if isinstance(listed, ast.Name) and listed.id == "__all__":
                self._list(call.args[0])

    def _attach(self, name: str, value: ast.expr | None) -> None:
        docstring = None if value is None else self._text_of(value)
        if docstring is None:
            return
        if "." in name:
            self.attached[name] = _Defined(docstring, None)
        elif isinstance(known := self.names.get(name), _Defined):
            self.names[name] = known._replace(docstring=docstring)

    def _list(self, value: ast.expr | None) -> None:
        if value is None:
            return
        texts = {
            node.value
            for node in ast.walk(value)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        self.listed = (self.listed or set()) | texts
        self.lists_others |= any(isinstance(node, ast.Name) for node in ast.walk(value))

    def _docstring_of(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> str | None:
        """Return the docstring of a definition, or what a decorator or ``__doc__`` sets."""
        docstring = ast.get_docstring(node, clean=False)
        if docstring is not None:
            return docstring
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _attaches(decorator):
                return "".join(filter(None, map(self._text_of, decorator.args)))
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == "__doc__":
                return self._text_of(inner.value)
        return None

    def _text_of(self, node: ast.expr) -> str | None:
        """Return the text of a literal, of a sum of literals, or of ``literal.format(…)``."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.JoinedStr):
            return "".join(filter(None, map(self._text_of, node.values)))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [*filter(None, map(self._text_of, (node.left, node.right)))]
            return "".join(parts) if parts else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            text = self._text_of(node.func.value) if node.func.attr == "format" else None
            if text is not None:
                filled = _PLACEHOLDER.sub(lambda found: self.phrases.get(found[1], ""), text)
                return filled.replace("{{", "{").replace("}}", "}")
        return None


def _attaches(call: ast.Call) -> bool:
    """Return whether a call attaches a docstring."""
    called = call.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _ATTACHING


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str | None:
    """Return the arguments of a function, or those that create an object of a class."""
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                arguments = inner.args
                for kind in (arguments.posonlyargs, arguments.args):
                    if kind:
                        del kind[0]
                        break
                return f"({_DEFAULT.sub(_SPACED, ast.unparse(arguments))})"
        return None
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"({_DEFAULT.sub(_SPACED, ast.unparse(node.args))}){returns}"


def _is_below(name: str, module: str) -> bool:
    """Return whether a module is `module` or below it."""
    return f"{name}.".startswith(f"{module}.")


class _Package:
    """The modules of a package, each read once."""

    def __init__(self, name: str) -> None:
        self.name = name
        spec = importlib.util.find_spec(name)
        locations = (spec and spec.submodule_search_locations) or ()
        self._root = next((Path(location) for location in locations), None)
        self.module = cache(self._module)
        self.resolve = cache(self._resolve)

    def _module(self, name: str) -> _Module | None:
        if self._root is None or name.partition(".")[0] != self.name:
            return None
        path = self._root.joinpath(*name.split(".")[1:])
        for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if file.is_file():
                return _Module(name, file)
        return None

    def submodules(self, name: str) -> Iterator[str]:
        """Yield the names of the modules right below a module, sorted."""
        if self._root is not None:
            path = self._root.joinpath(*name.split(".")[1:])
            for found in pkgutil.iter_modules([str(path)]):
                yield f"{name}.{found.name}"

    def attached(self) -> Iterator[tuple[str, _Defined]]:
        """Yield the names to which a module of docstrings attaches one, and what it attaches."""
        for file in sorted(self._root.glob("*_docs.py")) if self._root is not None else ():
            module = self.module(f"{self.name}.{file.stem}")
            yield from module.attached.items() if module is not None else ()

    def public_names(self, module: _Module) -> set[str]:
        """Return the names that may be public in a module.

        They are those in its ``__all__``. If it has none, or one with names that are not written
        there, they are also those that the module, or a module below it, may define.
        """
        listed = module.listed or set()
        if module.listed is not None and not module.lists_others:
            return {name for name in listed if not name.startswith("_")}
        own = {
            name
            for name, found in module.names.items()
            if isinstance(found, _Defined) or _is_below(found.module, module.name)
        }
        for star in module.stars:
            other = self.module(star) if _is_below(star, module.name) else None
            if other is not None and other is not module:
                own |= other.listed if other.listed is not None else set(other.names)
        return {name for name in own | listed if not name.startswith("_")}

    def _resolve(self, module_name: str, name: str) -> tuple[str, str, _Defined] | None:
        """Return the module that defines a name, its name there, and what it is."""
        seen: set[tuple[str, str]] = set()
        waiting = [(module_name, name)]
        while waiting and len(seen) < _MAX_STEPS:
            at = waiting.pop(0)
            module = None if at in seen else self.module(at[0])
            seen.add(at)
            if module is None:
                continue
            found = module.names.get(at[1])
            if isinstance(found, _Defined):
                return (*at, found)
            if found is not None:
                waiting.append((found.module, found.name))
            waiting += [(star, at[1]) for star in module.stars]
        return None


@rare_collections()  # syntax trees are many objects, and none of them cycles
def written_members(package: str, skipped: Collection[str], max_depth: int) -> list[Member]:
    """Return the documented public names of a package and of its public modules.

    A name is public in a module whose ``__all__`` has it, or without ``__all__``, in one that
    defines it or has the module below it that does. Modules with a name in `skipped` are left out,
    and so are those whose names have more than `max_depth` parts.
    """
    return list(_written_members(package, skipped, max_depth))


def _written_members(package: str, skipped: Collection[str], max_depth: int) -> Iterator[Member]:
    sources = _Package(package)
    modules = list(_public_modules(sources, package, skipped, max_depth))
    for module in modules:
        for name in sorted(sources.public_names(module)):
            found = sources.resolve(module.name, name)
            if found is None or not found[2].docstring:
                continue
            origin, own_name, defined = found
            if name not in (module.listed or ()) and not _is_below(origin, module.name):
                continue
            docstring, key = inspect.cleandoc(defined.docstring), (origin, own_name)
            yield Member(f"{module.name}.{name}", docstring, defined.signature, origin, key)
            if defined.of is not None and defined.of.rpartition(".")[0] == package:
                yield Member(defined.of, docstring, defined.signature, package, key)
    public = {module.name for module in modules}
    for name, defined in sources.attached():
        origin, _, own_name = name.rpartition(".")
        if origin in public and not own_name.startswith("_"):
            yield Member(name, inspect.cleandoc(defined.docstring), None, origin, name)


def _public_modules(
    sources: _Package, name: str, skipped: Collection[str], depth: int
) -> Iterator[_Module]:
    module = sources.module(name)
    if module is None:
        return
    yield module
    if depth > 1:
        for below in sources.submodules(name):
            own_name = below.rpartition(".")[2]
            if not own_name.startswith("_") and own_name not in skipped:
                yield from _public_modules(sources, below, skipped, depth - 1)
