"""The layers of the package: which may import which, and a drawing of the actual imports.

A package, or a module beside the packages, belongs to a layer. It stands in the folder of its layer, if that
has one, and imports its own layer and those that ``MAY_IMPORT`` gives to its layer. ``python -m
tests.ladder`` draws the layers from the imports of all modules, and with ``--packages`` also says what each
package is for and imports within its layer.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import wrap
from typing import Final

PACKAGE: Final = Path(__file__).parents[1] / "mcpproxy"

LAYERS: Final[Mapping[str, Mapping[str, str]]] = {
    "words": {
        "errors": "what a caller may have to catch",
        "base": "paths, text, small tools that know nothing of the protocol",
        "protocol": "revisions, methods, shapes and rules as data; JSON-RPC",
        "model": "the interfaces of language models as data",
    },
    "judge": {
        "session": "what has been said so far: events, findings, outcomes; the language of filters",
        "checks": "one function for each requirement",
        "observer": "an event in, findings out",
        "ruleset": "which rules and checks a recording is judged by",
        "custom_rules": "what rules of one's own import",
    },
    "record": {
        "framing": "bytes in, frames out",
        "relay": "the data path: bytes from peer to peer, a copy into the journal",
        "trace": "the recording on disk: one writer, one reader",
        "admin": "health and metrics of a running proxy",
        "recorder": "the second process: from the journal to the trace",
    },
    "read": {
        "importers": "recordings of other tools",
        "opening": "any recording, opened to be read: recovered, imported or as it is",
        "reports": "findings as text, JSON, SARIF, JUnit",
        "judging": "a recording judged again from its frames",
        "view": "a recording as calls: what the terminal, the page and the export show",
        "prompt": "what a model saw of the servers: the wire beside the prompt",
        "edit": "recordings trimmed and masked",
        "export": "a recording as a file for other programs",
    },
    "gate": {
        "addons": "what addons import",
        "enforce": "a message is held until it is judged",
        "intercept": "faults on purpose: a message is held, changed, dropped or answered",
    },
    "peers": {
        "client": "what every client of ours does alike",
        "session_server": "a server of Streamable HTTP: who may use it, streams that are resumed, refusals",
        "replay": "a recording in the place of the server or of the client",
        "validate": "a client of our own that probes a server",
        "client_tests": "servers of our own, odd and wrong ones, that probe a client",
        "fuzz": "changed copies of recorded requests, and what a server does wrong with them",
        "bridge": "stdio on one side, Streamable HTTP on the other",
        "hosts": "configuration files of hosts: servers found, wrapped and unwrapped",
        "scripted_model": "a script in the place of a model, for real hosts",
    },
    "show": {
        "tui": "recordings in the terminal, to move about in",
        "ui": "recordings in a browser, or in one file for a browser",
        "agents": "recordings for agents: an MCP server that only reads",
    },
    "send": {
        "otel": "recordings as spans for OpenTelemetry",
        "fleet": "recordings of many machines: shipped, judged, and as tables",
    },
    "faces": {
        "cli": "one command in each file",
        "api": "recordings in Python",
        "testing": "recordings in tests",
        "pytest_plugin": "the fixtures",
        "demo": "a small client and server to watch",
    },
}

_RECORDED: Final = ("words", "judge", "record")
_BELOW_SHOW: Final = (*_RECORDED, "read", "gate", "peers")

MAY_IMPORT: Final[Mapping[str, tuple[str, ...]]] = {
    "words": (),
    "judge": ("words",),
    "record": ("words", "judge"),
    "read": _RECORDED,
    "gate": _RECORDED,
    "peers": (*_RECORDED, "read"),
    "show": _BELOW_SHOW,
    "send": _BELOW_SHOW,
    "faces": (*_BELOW_SHOW, "show", "send"),
}

_ROWS: Final = (("show", "send"), ("peers",), ("read", "gate"), ("record",), ("judge",), ("words",))
"""The boxes of the drawing from top to bottom; a box has one layer, or two that do not import each other."""
_WIDTH: Final = 80


@cache
def modules() -> dict[str, Path]:
    """Return the path of every module by its dotted name; a package is its ``__init__``."""
    return {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def dotted(path: Path) -> str:
    """Return the dotted name of the module in the file ``path``; a package is its ``__init__``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, known: Mapping[str, object]) -> Iterator[str]:
    """Yield the modules of mcpproxy that the module ``tree`` imports, at its top or in functions.

    ``import_module`` and ``__import__`` count if their argument is a string.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in known:
                    yield name
                elif node.module in known:
                    yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        else:
            match node:
                case ast.Call(
                    func=ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                    args=args,
                    keywords=keywords,
                ):
                    values = (*args, *(keyword.value for keyword in keywords if keyword.arg == "name"))
                    names = (value.value for value in values if isinstance(value, ast.Constant))
                    yield from (name for name in names if isinstance(name, str) and name in known)
                case _:
                    pass


@cache
def graph() -> dict[str, set[str]]:
    """Return for each module the modules of mcpproxy that it imports."""
    known = modules()
    return {name: set(imported(ast.parse(path.read_bytes()), known)) - {name} for name, path in known.items()}


def package_of(module: str) -> str:
    """Return the package that ``module`` belongs to; empty for ``mcpproxy`` and the folders of layers."""
    _, *parts = module.split(".")
    return next((part for part in parts if part not in LAYERS), "")


def folder_of(module: str) -> str:
    """Return the layer in whose folder ``module`` stands; empty if it stands in none."""
    _, *parts = module.split(".")
    return parts[0] if parts and parts[0] in LAYERS else ""


def layer_of(package: str) -> str:
    """Return the layer of a package; empty if it has none."""
    return next((layer for layer, packages in LAYERS.items() if package in packages), "")


def forbidden(imports: Mapping[str, set[str]]) -> list[str]:
    """Return a line for each import that the layers do not permit."""
    return [f"{importing} imports {used}" for importing, used in _forbidden(imports)]


def exceptions_in(imports: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """Return the pairs of importing and imported package that the layers do not permit."""
    return {(package_of(importing), package_of(used)) for importing, used in _forbidden(imports)}


def _forbidden(imports: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    for importing, used in sorted(imports.items()):
        layer = layer_of(package_of(importing))
        if layer:  # __init__.py gives public names on demand, and __main__.py starts the command
            allowed = {"", layer, *MAY_IMPORT[layer]}  # the version stands in mcpproxy/__init__.py
            yield from (
                (importing, name) for name in sorted(used) if layer_of(package_of(name)) not in allowed
            )


def within(layer: str, imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return for each package of a layer the other packages of this layer that it imports."""
    found: dict[str, set[str]] = {package: set() for package in LAYERS[layer]}
    for module, used in imports.items():
        if (package := package_of(module)) in found:
            found[package] |= {package_of(name) for name in used} & found.keys() - {package}
    return found


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """Return a circle of modules or packages that import each other; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def drawing() -> str:
    """Return the layers as boxes of text, each with its packages and the layers that it imports."""
    lines = ["faces  " + " ".join(LAYERS["faces"]) + "   → all below"]
    for row in _ROWS:
        lines += ["┌" + "─" * (_WIDTH - 2) + "┐"]
        lines += [f"│ {text:{_WIDTH - 4}} │" for layer in row for text in _box_lines(layer)]
        lines += ["└" + "─" * (_WIDTH - 2) + "┘"]
    return "\n".join(lines)


def _box_lines(layer: str) -> list[str]:
    """Return the lines for one layer: its packages on the left, its arrow on the right."""
    used = {
        layer_of(package_of(name))
        for module, names in graph().items()
        if package_of(module) in LAYERS[layer]
        for name in names
    } - {"", layer}
    arrow = "→ " + " ".join(name for name in reversed(LAYERS) if name in used) if used else ""
    left = wrap(" ".join(LAYERS[layer]), _WIDTH - 14 - len(arrow))
    first = f"{layer:6} {left[0]}"
    return [first + arrow.rjust(_WIDTH - 4 - len(first)), *(" " * 7 + more for more in left[1:])]


def package_lines() -> Iterator[str]:
    """Yield a line for each package: what it is for, and what it imports within its layer."""
    for layer, packages in reversed(LAYERS.items()):
        yield f"\n{layer}"
        used = within(layer, graph())
        for package, what in packages.items():
            arrow = f" → {' '.join(sorted(used[package]))}" if used[package] else ""
            yield f"  {package}: {what}{arrow}"


if __name__ == "__main__":
    sys.stdout.write(drawing() + "\n")
    if "--packages" in sys.argv[1:]:
        sys.stdout.writelines(f"{line}\n" for line in package_lines())
