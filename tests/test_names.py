"""No name has two meanings: the name of a public class or of a module stands once, or both are defended."""

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
    "authorization.py": "a chapter of the specification: its checks and its probes",
    "client.py": "an MCP client: the demo's and the validator's",
    "completion.py": "a chapter of the specification: its checks; the command of this name",
    "comparison.py": "two sessions compared, and the page of that",
    "errors.py": "the errors of a package; mcpproxy/errors.py has the base and the tree",
    "headers.py": "a chapter of the specification: its checks and its probes",
    "http.py": "the part of a package that is for this transport; the command of this name",
    "jsonrpc.py": "JSON-RPC messages, and the probes of them",
    "lifecycle.py": "the lifecycle as a table, its checks and its probes",
    "redact.py": "a command, and what it does",
    "rounds.py": "multi round-trip requests: their checks and their probes",
    "rules.py": "a command, and the rules that it prints",
    "sessions.py": "a chapter of the specification: its checks and its probes",
    "ship.py": "a command, and what it does",
    "stats.py": "a command, and what it does",
    "stdio.py": "the part of a package that is for this transport",
    "subscriptions.py": "the subscriptions of a session, and their checks",
    "tools.py": "a chapter of the specification: its checks and its probes",
    "trim.py": "a command, and what it does",
    "verify.py": "a command, and what it does",
}
"""Name of a class, or of a file with its ``.py`` -> why it may stand more than once."""


def places() -> dict[str, list[str]]:
    """Where each name stands: public classes, and files; ``__init__`` and ``__main__`` have no name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if not path.stem.startswith("__"):
            found[path.name].append(where)
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
