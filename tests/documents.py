"""The documents of the tree, and the blocks of code in them.

A document is a README.md anywhere, or CONTRIBUTING.md. Every fenced block in one says in which language it
is, and is tested unless the line before it says why it is not::

    <!-- not run: it installs packages -->
    <!-- tested by tests/test_api.py: example -->

The second kind gives the block a name, ``example``, under which that test finds it here. A block of TOML or
Python whose first line is a comment with a path, ``# house/house.toml``, is the file of that path.
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
_REMARK: Final = re.compile(r"<!-- (?P<kind>not run|tested by (?P<test>[\w./]+)): (?P<said>[^\n]+) -->\n\Z")
_PATH: Final = re.compile(r"# ([\w.-]+(?:/[\w.-]+)*\.\w+)\n")
_ELSEWHERE: Final = ("node_modules", "build", "dist", "venv")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its text, and what the line before it says."""

    document: Path
    line: int
    language: str
    text: str
    not_run: str = ""
    """Why it is not tested at all."""
    tested_by: str = ""
    """The test that takes it, by path from the root."""
    name: str = ""
    """What that test calls it."""

    @property
    def path(self) -> str:
        """The file that it is, or nothing."""
        found = _PATH.match(self.text) if self.language in ("toml", "python") else None
        return found[1] if found else ""

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """All documents, the one in the root first."""
    found = [*ROOT.glob("*/**/README.md"), *ROOT.glob(".github/*.md")]
    kept = [path for path in found if not _is_elsewhere(path.relative_to(ROOT).parts)]
    return [ROOT / "README.md", *sorted(set(kept))]


def _is_elsewhere(parts: tuple[str, ...]) -> bool:
    return any(part in _ELSEWHERE or (part[0] == "." and part != ".github") for part in parts)


def blocks(document: Path) -> Iterator[Block]:
    """The blocks of a document, in order."""
    text = document.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        remark = _REMARK.search(text, 0, found.start())
        kind, test, said = remark.group("kind", "test", "said") if remark else ("", "", "")
        yield Block(
            document,
            text.count("\n", 0, found.start()) + 1,
            found["language"].strip(),
            "".join(line.removeprefix(found["indent"]) for line in found["text"].splitlines(keepends=True)),
            not_run=said if kind == "not run" else "",
            tested_by=test or "",
            name=said if test else "",
        )


def named(name: str) -> Block:
    """The one block of this name."""
    (found,) = (block for document in documents() for block in blocks(document) if block.name == name)
    return found


def file(path: str) -> str:
    """The text of the one block that is the file ``path``."""
    (found,) = (block for document in documents() for block in blocks(document) if block.path == path)
    return found.text
