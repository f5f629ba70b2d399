"""Prepares a checkout for a release: its tag must be its version, and its address becomes known.

    python distributions/prepare.py v0.1.1 https://github.com/OWNER/NAME
    python distributions/prepare.py models-v0.1.1 https://github.com/OWNER/NAME

The repository does not say where it is published, so ``project.urls`` is written here. The READMEs
become the descriptions on PyPI: their links then lead to the files of the tag, and they install by
name what a checkout installs from its folders.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
CLIENT = "distributions/hummingbit-client"
NAMES = {"./models": "hummingbit-models", f"./{CLIENT}": "hummingbit-client"}
"""Distributions by the folders of a checkout that `pip install` takes."""


def main(tag: str, address: str) -> None:
    """Check the versions of what `tag` releases, and write `address` into its metadata."""
    if not re.fullmatch(r"https://[^\s\"]+[^\s\"/]", address):
        raise SystemExit(
            f"the address is {address!r}; it must be like https://github.com/OWNER/NAME"
        )
    models = tag.startswith("models-v")
    check_versions(tag.removeprefix("models-").removeprefix("v"), models=models)
    for folder in ("models",) if models else (".", CLIENT):
        write_urls(CHECKOUT / folder / "pyproject.toml", tag, address)
        readme = CHECKOUT / folder / "README.md"
        text = readme.read_text(encoding="utf-8")
        readme.write_text(
            by_name(with_absolute_links(text, readme.parent, tag, address)), encoding="utf-8"
        )


def check_versions(version: str, *, models: bool) -> None:
    """Fail unless every file that names the version names this one."""
    project = CHECKOUT / ("models/pyproject.toml" if models else "pyproject.toml")
    found = {str(project): tomllib.loads(project.read_text())["project"]["version"]}
    if not models:
        citation = CHECKOUT / "CITATION.cff"
        changes = CHECKOUT / "CHANGELOG.md"
        for path, line in ((citation, r"^version: (\S+)$"), (changes, r"^## (\S+)$")):
            first = re.search(line, path.read_text(encoding="utf-8"), re.MULTILINE)
            found[str(path)] = first[1] if first else None
    wrong = [f"{path} has {other}" for path, other in found.items() if other != version]
    if wrong:
        raise SystemExit(f"the tag releases {version}, but {', '.join(wrong)}")


def write_urls(project: Path, tag: str, address: str) -> None:
    """Add the table `project.urls` to a pyproject.toml."""
    text = project.read_text(encoding="utf-8")
    if "urls" in tomllib.loads(text)["project"]:
        raise SystemExit(f"{project} has project.urls already; they are written at a release")
    urls = {
        "Source": f"{address}/tree/{tag}",
        "Documentation": f"{address}/tree/{tag}/docs",
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
    }
    table = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    project.write_text(f"{text.rstrip()}\n\n[project.urls]\n{table}", encoding="utf-8")


def with_absolute_links(text: str, folder: Path, tag: str, address: str) -> str:
    """Return Markdown of `folder` whose links to files lead to those of `tag` at `address`."""

    def absolute(link: re.Match[str]) -> str:
        picture, label, target, anchor = link.groups()
        path = (folder / target).resolve()
        if not path.exists():
            raise SystemExit(f"{folder}/README.md links to {target}, which is not there")
        kind = "raw" if picture else "tree" if path.is_dir() else "blob"
        place = path.relative_to(CHECKOUT).as_posix()
        return f"{picture}[{label}]({address}/{kind}/{tag}/{place}{anchor or ''})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)", absolute, text)


def by_name(text: str) -> str:
    """Return Markdown whose `pip install` names distributions in place of folders."""

    def named(line: re.Match[str]) -> str:
        command = re.sub(r" +# in a checkout.*", "", line[0])
        command = re.sub(r"(?<= )'\.(\[[\w,]+\])'(?= )", r"'hummingbit\1'", command)
        command = re.sub(r"(?<= )\.(?= )", "hummingbit", command)
        for folder, name in NAMES.items():
            command = command.replace(folder, name)
        return command

    return re.sub(r"^ *pip install [^\n]*", named, text, flags=re.MULTILINE)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2])
