"""No name has two meanings: the name of a public class stands once, or both are defended."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1] / "mcpproxy"

DEFENDED: Final[Mapping[str, str]] = {
    "Answer": "what an addon answers; validate has the answers that it got",
    "Finding": "that of addons is what their authors need of the judge's",
    "Session": "for addons the session of their messages; in Python a recorded one",
    "Call": "api.Call is for programs what view.Call is for the terminal and the page",
    "Trace": "api.Trace is for users what the reader's Trace is for us",
}
"""Name of a class -> why it may stand more than once. A module is named by its path, so that may repeat."""


def places() -> dict[str, list[str]]:
    """Name of a public class -> the modules that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        for name in _public_classes(path):
            found[name].append(where)
    return found


def _public_classes(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_no_name_has_two_meanings() -> None:
    twice = {name: where for name, where in places().items() if len(where) > 1}
    undefended = {name: where for name, where in twice.items() if name not in DEFENDED}
    assert not undefended, "rename one of each, or say in DEFENDED why both keep the name"
    assert DEFENDED.keys() <= twice.keys()
