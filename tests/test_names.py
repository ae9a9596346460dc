"""No name has two meanings: each name of a public class or of a module stands once, or is defended.

A pair that ``DEFENDED`` names and that is gone fails no test; it prints a hint that the line can be deleted.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1] / "mcpproxy"

TODO: Final = "not defended: rename one of them"
"""The reason of a pair that is still to be renamed."""

DEFENDED: Final[Mapping[str, str]] = {
    "Asked": TODO,
    "Call": "the public api.Call is one call of a tool, as the tools checks have it",
    "Came": TODO,
    "Chunked": TODO,
    "Client": "an MCP client: the demo's and the validator's",
    "Engine": TODO,
    "Exchange": "one HTTP exchange: as recorded, as replayed, as validated",
    "Flaw": TODO,
    "Gone": TODO,
    "Head": TODO,
    "HttpServer": "a server over HTTP: the one that replays, the one that is validated",
    "Item": TODO,
    "Judge": TODO,
    "Length": TODO,
    "Listed": TODO,
    "Listing": TODO,
    "Live": TODO,
    "Method": "a method of MCP and a method of ACP",
    "Mismatch": TODO,
    "Names": TODO,
    "Options": TODO,
    "Over": TODO,
    "Progress": TODO,
    "Recording": TODO,
    "Relay": TODO,
    "Report": "public: what api.check returns",
    "RequestHead": TODO,
    "Round": TODO,
    "Rounds": TODO,
    "Said": TODO,
    "Server": "a server process or a known server, each seen from its package",
    "Session": "public: a session of a recording, in api and in replay; ACP has sessions of its own",
    "Source": TODO,
    "State": "of a lifecycle: that of a session and that of a task",
    "Step": TODO,
    "Stream": TODO,
    "Told": TODO,
    "Trace": "public: api.Trace is what the reader's Trace is, for users",
    "Walk": TODO,
    "answers.py": TODO,
    "authorization.py": "a chapter of the specification: its checks and its probe",
    "bodies.py": TODO,
    "client.py": "the demo client and the client of the validator",
    "connections.py": TODO,
    "context.py": TODO,
    "cost.py": TODO,
    "custom_rules.py": "the public module, and the loader behind it",
    "errors.py": "the errors of a package; mcpproxy/errors.py holds those that a caller may have to catch",
    "explain.py": "a command, and how a schema error is explained; the command is named by users",
    "headers.py": "checks, probe and replay of the HTTP headers of 2026-07-28",
    "heads.py": TODO,
    "http.py": "one for each transport in each package that has both",
    "jsonrpc.py": "the protocol layer, and the probe of it",
    "lifecycle.py": "the lifecycle as data, its checks and its probe",
    "listings.py": TODO,
    "messages.py": TODO,
    "outcome.py": TODO,
    "records.py": "what a record is: of the trace, and of the journal over HTTP",
    "redact.py": "a command, and what it does",
    "requests.py": TODO,
    "rounds.py": "multi round-trip requests: checks and probe",
    "rules.py": "a command, and the table that it prints",
    "run.py": "a command; and the run of a validation",
    "server.py": "the admin server and the demo server",
    "sessions.py": "a chapter of the specification: checks and probe; and replay, which compares sessions",
    "slotted.py": TODO,
    "source.py": TODO,
    "stdio.py": "one for each transport in each package that has both",
    "streams.py": "SSE streams: parsed, checked, replayed",
    "subscriptions.py": "what is subscribed to, and the checks of it",
    "tools.py": "a chapter of the specification: checks and probe",
    "transcript.py": "how a conversation is shown; replay keeps what was said",
    "trim.py": "a command, and what it does",
    "validate.py": "a command, and the validation of a value by a schema",
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
    for name in sorted(DEFENDED.keys() - twice.keys()):
        print(f"{name} stands once by now: its line in DEFENDED can be deleted")  # noqa: T201 # a hint
    undefended = {name: where for name, where in twice.items() if name not in DEFENDED}
    assert not undefended, "rename one of each, or say in DEFENDED why both keep the name"


def test_each_defence_is_one_line_with_a_reason() -> None:
    assert all(reason and "\n" not in reason for reason in DEFENDED.values())
