"""Counts how the code is built: its size, its folders and imports, and how many places decide the same thing.

``python -m tests.structure [--tree PATH]`` prints a Markdown table of this checkout, or of another one, and
lists the places of each decision. So the same script counts before and after a change.

A place is a function in which a pattern of ``DECISIONS`` finds something, or a statement outside functions.
Patterns read the syntax only, so they are an estimate: the same one for every checkout.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tests.ladder import imported

Pattern: TypeAlias = Callable[[ast.AST], bool]

NOT_COUNTED: Final = frozenset({"demo", "examples", "mutations"})
"""Folders whose messages are examples, or wrong on purpose."""

_NAMES: Final = ("name", "uri")
_REQUIRED_HEADERS: Final = ("mcp-method", "mcp-name", "mcp-param-")
_OF_REQUESTS: Final = re.compile(r"(?<![a-z])(requests?|pending|by_key|live|by_id)(?![a-z])")
_LATER_FACTS: Final = frozenset({"latency_ns", "latency_ms", "outcome"})


def reads_the_name_of_a_call(node: ast.AST) -> bool:
    """``params["name"]``, ``params.get("uri")``, ``member(x.params, "name")``, a case of ``match``, and a
    table with ``"name"`` and ``"uri"`` or with the member of each method."""
    match node:
        case ast.Call(func=ast.Attribute(attr="get", value=params), args=[ast.Constant(value=key), *_]):
            return key in _NAMES and _is_params(params)
        case ast.Subscript(value=params, slice=ast.Constant(value=key), ctx=ast.Load()):
            return key in _NAMES and _is_params(params)
        case ast.Call(func=ast.Name(id=function), args=[whole, *keys]) if "member" in function:
            path = [key.value for key in keys if isinstance(key, ast.Constant)]
            return path[-1:] in (["name"], ["uri"]) and (_is_params(whole) or path[:1] == ["params"])
        case ast.Tuple(elts=elements) | ast.Set(elts=elements) | ast.List(elts=elements):
            return {"name", "uri"} <= {each.value for each in elements if isinstance(each, ast.Constant)}
        case ast.Dict(keys=keys, values=values):
            return any(_values(pair) == ["tools/call", "name"] for pair in zip(keys, values, strict=True))
        case ast.MatchMapping(keys=keys, patterns=patterns):
            return any(
                _values([key]) == ["params"]
                and isinstance(below, ast.MatchMapping)
                and bool(set(_values(below.keys)) & set(_NAMES))
                for key, below in zip(keys, patterns, strict=True)
            )
        case _:
            return False


def stores_a_request_by_its_id(node: ast.AST) -> bool:
    """``open[type(id), id] = ...``, ``by_id[request.id] = ...`` and ``setdefault``: an index from which
    the request of an answer is taken.

    A progress token is no id. A ``key`` counts only in an index of one peer (``by_key[client][key]``):
    ids are each peer's own, and other keys are made of what requests say.
    """
    match node:
        case ast.Subscript(value=index, slice=key, ctx=ast.Store()):
            pass
        case ast.Call(func=ast.Attribute(attr="setdefault", value=index), args=[key, *_]):
            pass
        case _:
            return False
    parts = key.elts if isinstance(key, ast.Tuple) else [key]
    if "type(" in ast.unparse(key):
        return "token" not in ast.unparse(key)
    if ast.unparse(parts[-1]) == "key" and not isinstance(index, ast.Subscript):
        return False
    return _names_an_id(parts[-1]) and bool(_OF_REQUESTS.search(ast.unparse(index).lower()))


def _names_an_id(key: ast.expr) -> bool:
    match key:
        case ast.Name(id="id" | "request_id" | "key"):
            return True
        case ast.Attribute(value=ast.Name(id="message" | "request" | "single" | "turn" | "live"), attr="id"):
            return True
        case _:
            return False


def takes_messages_of_a_frame(node: ast.AST) -> bool:
    """``message.items if isinstance(message, Batch) else (message,)``, and ``match`` on ``Batch``."""
    match node:
        case ast.IfExp(test=test) | ast.If(test=test):
            parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.body
            is_batch = "isinstance(" in (text := ast.unparse(test)) and "Batch)" in text
            return is_batch and any(
                ".items" in (text := ast.unparse(part)) and ".items()" not in text for part in parts
            )
        case ast.match_case(pattern=ast.MatchClass(cls=cls)):
            return ast.unparse(cls).endswith("Batch") and "items" in ast.unparse(node)
        case _:
            return False


def writes_required_headers(node: ast.AST) -> bool:
    """``("Mcp-Method", value)``, an entry of a dictionary or a case that makes the value of such a header."""
    match node:
        case ast.Tuple(elts=[name, _]):
            return _is_required_header(name)
        case ast.Dict(keys=keys):
            return any(_is_required_header(key) for key in keys if key is not None)
        case ast.match_case(pattern=ast.MatchValue(value=name)):
            return _is_required_header(name)
        case _:
            return False


def builds_an_error(node: ast.AST) -> bool:
    """A JSON-RPC error as text (``"error":{``) or as a dictionary (``error`` with ``code`` and ``message``).

    ``code`` and ``message`` alone may be what somebody else is asked to make an error of.
    """
    match node:
        case ast.Constant(value=str() | bytes() as value):
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            return '"error":{' in text.replace(" ", "") and "\n" not in text
        case ast.Dict(keys=keys, values=values):
            return any(
                _values([key]) == ["error"]
                and isinstance(error, ast.Dict)
                and {"code", "message"} <= set(_values(error.keys))
                for key, error in zip(keys, values, strict=True)
            )
        case _:
            return False


def pauses_a_message(node: ast.AST) -> bool:
    """A message that a breakpoint holds is made, or the time is asked for that a fault holds one."""
    match node:
        case ast.Call(func=ast.Name(id="HeldMessage" | "delay_of")):
            return True
        case _:
            return False


def reads_a_chunk_size(node: ast.AST) -> bool:
    """A regular expression for the line before a chunk."""
    match node:
        case ast.Call(args=[ast.Constant(value=bytes() as value), *_]):
            return b"0-9A-Fa-f]{1,1" in value
        case _:
            return False


def writes_a_call_as_json(node: ast.AST) -> bool:
    """A dictionary, or a row with milliseconds, that has the method and what became of the request."""
    match node:
        case ast.Call(keywords=keywords):
            return {"method", "latency_ms"} <= {keyword.arg for keyword in keywords}
        case ast.Dict(keys=keys, values=values) if not all(isinstance(value, ast.Name) for value in values):
            names = set(_values(keys))
            return "method" in names and bool(names & _LATER_FACTS)
        case _:
            return False


DECISIONS: Final[Mapping[str, Pattern]] = {
    "name of a call": reads_the_name_of_a_call,
    "request of an answer": stores_a_request_by_its_id,
    "messages of a frame": takes_messages_of_a_frame,
    "required HTTP headers of a request": writes_required_headers,
    "JSON-RPC error of ours": builds_an_error,
    "pause of a message": pauses_a_message,
    "line before a chunk": reads_a_chunk_size,
    "JSON form of a call": writes_a_call_as_json,
}
"""Each decision with the pattern of a place that makes it; the pattern's docstring says what it counts."""

_WORDS: Final[Mapping[str, re.Pattern[bytes]]] = {
    "name of a call": re.compile(b"params|uri|tools/call"),
    "messages of a frame": re.compile(b"Batch"),
    "required HTTP headers of a request": re.compile(b"(?i)mcp-(?:method|name|param-)"),
    "JSON-RPC error of ours": re.compile(b"error"),
    "pause of a message": re.compile(b"HeldMessage|delay_of"),
    "line before a chunk": re.compile(rb"0-9A-Fa-f\]\{1,1"),
    "JSON form of a call": re.compile(b"method"),
}
"""What the source of each place has: in a module without it the pattern is not tried."""

OTHER_DECISIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "name of a call": {
        "mcpproxy/protocol/single_objects.py": "whether the name of a tool is one",
        "mcpproxy/read/reports/fingerprint.py": "what tells the entries of a list apart",
    },
    "required HTTP headers of a request": {
        "mcpproxy/peers/replay/client/recorded_headers.py": "a recorded header, with the live name",
    },
    "JSON-RPC error of ours": {
        "mcpproxy/peers/client_tests/faulty.py": "a member of an answer that is wrong on purpose",
        "mcpproxy/peers/scripted_model/answers/chat.py": "an error of a model API",
        "mcpproxy/peers/scripted_model/answers/gemini.py": "an error of a model API",
    },
    "JSON form of a call": {
        "mcpproxy/send/fleet/columns/frame_batch.py": "the columns of a table with a row for each message",
        "mcpproxy/read/reports/transcripts/transcript_json.py": "one message, and the frame that it answers",
    },
}
"""Decision -> modules in which its pattern finds something that decides something else, and what."""


def _is_params(node: ast.expr) -> bool:
    return ast.unparse(node).rstrip(")").rpartition(".")[2].rpartition("(")[2].endswith("params")


def _values(nodes: Iterable[ast.expr | None]) -> list[object]:
    return [node.value for node in nodes if isinstance(node, ast.Constant)]


def _is_required_header(node: ast.expr) -> bool:
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    value = first.value if isinstance(first, ast.Constant) else None
    return isinstance(value, str) and value.lower() in _REQUIRED_HEADERS


_Placed: TypeAlias = list[tuple[ast.AST, ast.AST | None]]
"""The nodes of a module, each with the innermost function around it."""


def places(tree: ast.AST, pattern: Pattern) -> list[int]:
    """Return the line of each place in a module."""
    return _places(_placed(tree), pattern)


def _placed(tree: ast.AST) -> _Placed:
    """Return the nodes of a module, without those that have no line and no content of their own."""
    found: _Placed = []
    waiting: _Placed = [(tree, None)]
    while waiting:
        node, function = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node
        found.append((node, function))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr_context | ast.operator | ast.cmpop | ast.boolop | ast.unaryop):
                waiting.append((child, function))
    return found


def _places(nodes: _Placed, pattern: Pattern) -> list[int]:
    found: dict[ast.AST, int] = {}
    for node, function in nodes:
        if pattern(node):
            line = node.pattern.lineno if isinstance(node, ast.match_case) else getattr(node, "lineno", 0)
            place = function or node
            found[place] = min(line, found.get(place, line))
    return sorted(found.values())


@dataclass(frozen=True)
class Structure:
    """What was counted in a checkout. ``places`` are those of each decision, as ``path:line``."""

    counts: Mapping[str, int]
    places: Mapping[str, Sequence[str]]


def counted(checkout: Path) -> Structure:
    """Return the structure of the checkout in the folder ``checkout``."""
    package = checkout / "mcpproxy"
    paths = sorted(package.rglob("*.py"))
    modules = {_dotted(checkout, path): path for path in paths}
    sources = {path: path.read_bytes() for path in paths}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    edges = {
        (_part(name), _part(used))
        for name, path in modules.items()
        for used in imported(trees[path], modules)
    }
    places_of: dict[str, list[str]] = {decision: [] for decision in DECISIONS}
    late_imports = 0
    for path, tree in trees.items():
        nodes, where = _placed(tree), path.relative_to(checkout).as_posix()
        late_imports += sum(bool(function) and _is_import(node) for node, function in nodes)
        if NOT_COUNTED & set(path.relative_to(package).parts):
            continue
        for decision, pattern in DECISIONS.items():
            words = _WORDS.get(decision)
            if where not in OTHER_DECISIONS.get(decision, ()) and (not words or words.search(sources[path])):
                places_of[decision] += [f"{where}:{line}" for line in _places(nodes, pattern)]
    counts = {
        "lines of Python in mcpproxy/": _lines(paths),
        "lines of Python in tests/": _lines((checkout / "tests").rglob("*.py")),
        "modules": len(paths),
        "folders at the top": len(
            {path.relative_to(package).parts[0] for path in paths if path.parent != package}
        ),
        "modules at the top": sum(path.parent == package for path in paths),
        "edges between parts at the top": sum(a != b and bool(a) and bool(b) for a, b in edges),
        "`TYPE_CHECKING = False`": sum(map(_own_flags, trees.values())),
        "blocks of `if TYPE_CHECKING`": sum(
            _type_blocks(tree) for path, tree in trees.items() if b"if TYPE_CHECKING" in sources[path]
        ),
        "imports inside functions": late_imports,
    }
    return Structure(counts, places_of)


def _dotted(checkout: Path, path: Path) -> str:
    parts = path.relative_to(checkout).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _part(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _lines(paths: Iterable[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def _own_flags(tree: ast.AST) -> int:
    """Count the statements ``TYPE_CHECKING = False``, which stand at the top of a module."""
    return sum(
        isinstance(node, ast.Assign) and ast.unparse(node) == "TYPE_CHECKING = False"
        for node in ast.iter_child_nodes(tree)
    )


def _type_blocks(tree: ast.AST) -> int:
    return sum(
        isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" for node in ast.walk(tree)
    )


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def table(structure: Structure) -> Iterator[str]:
    """Yield the lines of a Markdown table, and of a list of the places of each decision."""
    yield from ("| what | number |", "| --- | --- |")
    yield from (f"| {what} | {number:,} |" for what, number in structure.counts.items())
    yield from (f"| {what}: places | {len(found)} |" for what, found in structure.places.items())
    for what, found in structure.places.items():
        yield from ("", f"{what[0].upper()}{what[1:]}:", "")
        yield from (f"- {place}" for place in found)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.structure", description="Count how the code is built."
    )
    parser.add_argument(
        "--tree", metavar="PATH", type=Path, default=Path(__file__).parents[1], help="another checkout"
    )
    sys.stdout.write("\n".join(table(counted(parser.parse_args(arguments).tree.resolve()))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
