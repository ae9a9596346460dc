"""Finds the documents of the project and the blocks of code in them, for tests.

A document is any README.md, or a document in ``.github``. Every fenced block names its language and is
tested, unless the line before it says why not::

    <!-- not run: it installs packages -->
    <!-- tested by tests/test_api.py: example -->

The second kind gives the block a name, ``example``, by which that test finds it. A block of TOML or Python
whose first line is a comment with a path, ``# house/house.toml``, is the content of that file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

_BLOCK: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_REMARK: Final = re.compile(r"<!-- (?P<kind>not run|tested by (?P<test>[\w./]+)): (?P<text>[^\n]+) -->\n\Z")
_PATH: Final = re.compile(r"# ([\w.-]+(?:/[\w.-]+)*\.\w+)\n")
_ELSEWHERE: Final = ("node_modules", "build", "dist", "venv")


@dataclass(frozen=True)
class Block:
    """A fenced block: its document and first line, its language, its text, and the remark before it."""

    document: Path
    line: int
    language: str
    text: str
    not_run: str = ""
    """Why it is not tested; empty if it is."""
    tested_by: str = ""
    """The path of the test that uses it; empty if the general test does."""
    name: str = ""
    """The name by which that test finds it."""

    @property
    def path(self) -> str:
        """The path of the file whose content it is; empty if there is none."""
        found = _PATH.match(self.text) if self.language in ("toml", "python") else None
        return found[1] if found else ""

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """Return all documents, the README.md of the root first."""
    found = [*ROOT.glob("*/**/README.md"), *ROOT.glob(".github/*.md")]
    kept = [path for path in found if not _is_elsewhere(path.relative_to(ROOT).parts)]
    return [ROOT / "README.md", *sorted(set(kept))]


def _is_elsewhere(parts: tuple[str, ...]) -> bool:
    return any(part in _ELSEWHERE or (part[0] == "." and part != ".github") for part in parts)


def blocks(document: Path) -> Iterator[Block]:
    """Yield the blocks of a document, in order."""
    text = document.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        remark = _REMARK.search(text, 0, found.start())
        kind, test, reason = remark.group("kind", "test", "text") if remark else ("", "", "")
        yield Block(
            document,
            text.count("\n", 0, found.start()) + 1,
            found["language"].strip(),
            "".join(line.removeprefix(found["indent"]) for line in found["text"].splitlines(keepends=True)),
            not_run=reason if kind == "not run" else "",
            tested_by=test or "",
            name=reason if test else "",
        )


def named(name: str) -> Block:
    """Return the one block with this name."""
    (found,) = (block for document in documents() for block in blocks(document) if block.name == name)
    return found


def file(path: str) -> str:
    """Return the text of the one block that is the content of the file ``path``."""
    (found,) = (block for document in documents() for block in blocks(document) if block.path == path)
    return found.text
