"""The regular expressions of mcpproxy, and texts that make a bad one slow.

An expression is bad if its time grows with the square of the text: a quote without its end, written a
thousand times, is searched for its end a thousand times. Whoever sends such a text stops the recorder or the
relay for seconds. So each expression is tried on texts made of its own parts: long runs of each of its
characters, and what it begins with, over and over.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

# The parser of ``re``: its modules have no types.
ops: Final[Any] = import_module("re._constants")
parser: Final[Any] = import_module("re._parser")

PACKAGE: Final = Path(__file__).parents[1] / "mcpproxy"

METHODS: Final = frozenset({"findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"})

_MENTIONS: Final = re.compile(rb"\bre\.|[pP]attern\(|\.(?:%b)\b" % "|".join(METHODS).encode())
"""What each module with an expression has: the others are not parsed."""

_MOST_BEGINNINGS: Final = 28
_MOST_RUNS: Final = 9


@dataclass(frozen=True)
class Place:
    """A place where an expression is made, in a file below ``mcpproxy``, and the methods it is used with.

    ``name`` is that of the constant, else the line. ``text`` is ``None`` if only a running program knows it.
    """

    path: str
    name: str
    text: str | bytes | None
    flags: int
    methods: frozenset[str]

    @property
    def where(self) -> str:
        """The file and the name."""
        return f"{self.path}:{self.name}"


def places() -> Iterator[Place]:
    """Yield every place in mcpproxy where an expression is compiled, or used by its text."""
    sources = {path: path.read_bytes() for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items() if _MENTIONS.search(source)}
    used = _uses(trees)
    for path, tree in trees.items():
        module = _module_of(path)
        names = {
            id(call): target.id
            for statement in tree.body
            for target, value in _assignment(statement)
            for call in ast.walk(value)
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and (verb := _verb(call)):
                name = names.get(id(call), "")
                # One whose uses are not seen may be used in any way.
                methods = {verb} if verb in METHODS else used.get((module, name)) or {"search", "fullmatch"}
                text, flags = _arguments(module, call, verb)
                where = path.relative_to(PACKAGE).as_posix()
                yield Place(where, name or f"{call.lineno}", text, flags, frozenset(methods))


def _verb(call: ast.Call) -> str:
    """Return what a call makes or does: the name of the function that is given an expression, else empty."""
    match call.func:
        case ast.Attribute(ast.Name("re"), name) if name == "compile" or name in METHODS:
            return name
        case ast.Name("pattern" | "SecretPattern" as name):
            return name
        case _:
            return ""


def _assignment(statement: ast.stmt) -> Iterator[tuple[ast.Name, ast.expr]]:
    match statement:
        case ast.Assign([ast.Name() as target], value):
            yield target, value
        case ast.AnnAssign(ast.Name() as target, _, ast.expr() as value):
            yield target, value
        case _:
            pass


def _uses(trees: dict[Path, ast.Module]) -> dict[tuple[str, str], set[str]]:
    """Return the methods that are called of each constant, by its module and name."""
    used: dict[tuple[str, str], set[str]] = {}
    for path, tree in trees.items():
        nodes = list(ast.walk(tree))
        origin = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in nodes:
            match node:
                case ast.Attribute(ast.Name(name), method) if method in METHODS:
                    used.setdefault(origin.get(name, (_module_of(path), name)), set()).add(method)
                case ast.Attribute(ast.Attribute(ast.Name(module), name), method) if method in METHODS:
                    used.setdefault((".".join(origin.get(module, ())), name), set()).add(method)
                case _:
                    pass
    return used


def _module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _arguments(module: str, call: ast.Call, verb: str) -> tuple[str | bytes | None, int]:
    """Return the text and the flags of an expression; ``None`` if they are not known at import."""
    flags = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    if verb in ("compile", "pattern"):
        flags += call.args[1:2]
    try:
        text, *given = [_value(node, module) for node in (call.args[0], *flags)]
    except (NameError, AttributeError, TypeError, KeyError, ImportError):
        return None, 0
    return (text, int(given[0]) if given else 0) if isinstance(text, str | bytes) else (None, 0)


def _value(node: ast.expr, module: str) -> Any:
    """Return the value of Python in a module, which is imported if anything of it is named."""
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    scope: dict[str, Any] = {"re": re} if names <= {"re"} else dict(vars(import_module(module)))
    return eval(compile(ast.Expression(node), "<expression>", "eval"), scope)


# Texts


def hard_texts(text: str | bytes, flags: int, length: int) -> Iterator[Any]:
    """Yield texts that take long if the expression ``text`` has a flaw.

    A run has about ``length`` characters, and a text that begins over and over has four times as many.
    """
    tree: Any = parser.parse(text, flags)
    beginnings = sorted(set(_beginnings(tree)) - {""}, key=lambda start: (len(start), start))
    beginnings = beginnings[:_MOST_BEGINNINGS]
    runs = sorted({start[-1] for start in beginnings} | set(' "'))[:_MOST_RUNS]
    # Few classes have a NUL, so what is begun fails there.
    for made in dict.fromkeys(f"{start}\0" for start in _repeated(beginnings, runs, length)):
        yield made.encode("latin-1", "replace") if isinstance(text, bytes) else made


def _repeated(beginnings: list[str], runs: list[str], length: int) -> Iterator[str]:
    yield from (run * length for run in runs)
    for start in beginnings:
        for between in "", " ", "\n":
            yield (start + between) * (4 * length // len(start + between))
        yield from (start + run * length for run in runs)


def _beginnings(tree: Any) -> Iterator[str]:
    """Yield what an expression matches up to each of its parts, in a few of the ways that the part has."""
    before = ""
    for op, argument in tree:
        ways = _ways(op, argument)
        yield from (before + way for way in ways)
        before += ways[0]


def _ways(op: Any, argument: Any) -> list[str]:
    """Return some texts that a part of an expression matches; the first stands for it in front of others."""
    match op:
        case ops.LITERAL:
            return [chr(argument)]
        case ops.NOT_LITERAL:
            return ["b" if argument == ord("a") else "a"]
        case ops.ANY:
            return ["a", " "]
        case ops.IN:
            return _members(argument)
        case ops.MAX_REPEAT | ops.MIN_REPEAT | ops.POSSESSIVE_REPEAT:
            least, most, inner = argument
            return [_first(inner) * max(least, min(most, 1)), *list(_beginnings(inner))[:12]]
        case ops.SUBPATTERN:
            return [_first(argument[-1]), *list(_beginnings(argument[-1]))[:20]]
        case ops.ATOMIC_GROUP:
            return [_first(argument), *list(_beginnings(argument))[:20]]
        case ops.BRANCH:
            branches = argument[1]
            return [way for branch in branches for way in (_first(branch), *list(_beginnings(branch))[:16])]
        case ops.ASSERT:
            return ["", *list(_beginnings(argument[1]))[:6]]
        case _:
            return [""]


def _first(tree: Any) -> str:
    return "".join(_ways(op, argument)[0] for op, argument in tree)


_CATEGORIES: Final = {
    ops.CATEGORY_SPACE: " \n",
    ops.CATEGORY_DIGIT: "0",
    ops.CATEGORY_WORD: "a0_",
    ops.CATEGORY_NOT_SPACE: "a.",
    ops.CATEGORY_NOT_DIGIT: "a.",
    ops.CATEGORY_NOT_WORD: " .",
}


def _members(items: Any) -> list[str]:
    """Return characters of a class: the ends of its ranges, and some of each category."""
    found: list[str] = []
    for op, value in items:
        match op:
            case ops.LITERAL:
                found.append(chr(value))
            case ops.RANGE:
                found += map(chr, value)
            case ops.CATEGORY:
                found += _CATEGORIES[value]
            case _:
                pass
    if items[0][0] is ops.NEGATE:
        return [char for char in 'a \n0.-"\\:<' if char not in found][:4] or ["\x01"]
    return [found[0], *sorted(set(found[1:]))[:6]]
