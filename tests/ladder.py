"""The ladder of packages: which may import which, and a drawing of the actual imports.

A package, or a module beside the packages, is a rung. It imports only rungs that are above its own line in
``LADDER``. ``python -m tests.ladder`` draws the ladder from the imports of all modules.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1] / "mcpproxy"

LADDER: Final[tuple[tuple[str, str], ...]] = (
    ("errors", "what a caller may have to catch"),
    ("base", "paths, text, small tools that know nothing of the protocol"),
    ("protocol", "revisions, methods, shapes and rules as data; JSON-RPC"),
    ("session", "what has been said so far; events and findings"),
    ("checks", "one function for each requirement"),
    ("observer", "the judge: an event in, findings out"),
    ("ruleset", "which rules and checks a recording is judged by"),
    ("custom_rules", "what rules of one's own import"),
    ("addons", "what addons import"),
    ("framing", "bytes in, frames out"),
    ("trace", "the recording on disk: one writer, one reader"),
    ("relay", "the data path: bytes from peer to peer, a copy into the journal"),
    ("admin", "health and metrics of a running proxy"),
    ("recorder", "the second process: from the journal to the trace"),
    ("enforce", "a message is held until it is judged"),
    ("importers", "recordings of other tools"),
    ("opening", "any recording, opened to be read: recovered, imported or as it is"),
    ("replay", "a recording in the place of the server or of the client"),
    ("edit", "recordings trimmed and masked"),
    ("validate", "a client of our own that probes a server"),
    ("fuzz", "changed copies of recorded requests, and what a server does wrong with them"),
    ("bridge", "stdio on one side, Streamable HTTP on the other"),
    ("reports", "findings as text, JSON, SARIF, JUnit"),
    ("view", "a recording as calls: what the terminal, the page and the export show"),
    ("intercept", "faults on purpose: a message is held, changed, dropped or answered"),
    ("otel", "recordings as spans for OpenTelemetry"),
    ("hosts", "configuration files of hosts: servers found, wrapped and unwrapped"),
    ("judging", "a recording judged again from its frames"),
    ("api", "recordings in Python"),
    ("testing", "recordings in tests"),
    ("pytest_plugin", "the fixtures"),
    ("demo", "a small client and server to watch"),
    ("ui", "recordings in a browser"),
    ("tui", "recordings in the terminal, to move about in"),
    ("export", "a recording as a file for other programs"),
    ("agents", "recordings for agents: an MCP server that only reads"),
    ("fleet", "recordings of many machines: shipped, judged, and as tables"),
    ("cli", "one command in each file"),
)


@cache
def modules() -> dict[str, Path]:
    """Return the path of every module by its dotted name; a package is its ``__init__``."""
    return {_dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, known: Mapping[str, object]) -> Iterator[str]:
    """Yield the modules of mcpproxy that the file ``path`` imports, at its top or in functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in known:
                    yield name
                elif node.module in known:
                    yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


@cache
def graph() -> dict[str, set[str]]:
    """Return for each module the modules of mcpproxy that it imports."""
    known = modules()
    return {name: set(imported(path, known)) - {name} for name, path in known.items()}


def rung_of(module: str) -> str:
    """Return the rung that ``module`` belongs to; empty for ``mcpproxy`` itself."""
    return module.split(".")[1] if "." in module else ""


def rungs(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return for each rung the other rungs that it imports."""
    found: dict[str, set[str]] = {}
    for module, used in imports.items():
        below = found.setdefault(rung_of(module), set())
        below.update(rung_of(name) for name in used if rung_of(name) != rung_of(module))
    return found


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """Return a circle of modules that import each other; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def drawing() -> str:
    """Return the ladder as a Mermaid graph: an arrow from each rung to the nearest rungs that it imports."""
    used = rungs(graph())
    order = [name for name, _ in LADDER]
    lines = ["graph BT"]
    lines += [f'    {name}["<b>{name}</b>: {what}"]' for name, what in LADDER]
    for name in order:
        direct = used.get(name, set()) - {""}
        reached: set[str] = set()
        for lower in sorted(direct, key=order.index, reverse=True):
            if lower not in reached:
                lines.append(f"    {name} --> {lower}")
                reached |= _below(lower, used)
    return "\n".join(lines)


def _below(rung: str, used: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [rung]
    while waiting:
        for lower in used.get(waiting.pop(), set()) - found:
            found.add(lower)
            waiting.append(lower)
    return found


if __name__ == "__main__":
    sys.stdout.write(drawing() + "\n")
