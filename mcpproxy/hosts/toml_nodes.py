"""Read TOML into nodes. tomlkit keeps the text of a file, but does not give the positions of values.

So each value is replaced by a word that occurs nowhere else, and tomlkit writes the document. The position of
the word is the position of the value. The text between the words must be the original text; otherwise the
file is refused.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, cast

import tomli

from mcpproxy.hosts.errors import UnreadableTextError
from mcpproxy.hosts.text_nodes import Member, Node, Path, Scalar, Step

# The key of a value, at the end of the text before the value.
_KEY: Final = re.compile(r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')(?=[ \t]*=[ \t]*\Z)""")


def read_toml(text: str) -> Node:
    """Return the value of ``text``. Tables with lines of their own have no position, only the values in them.

    Raises:
        UnreadableTextError: ``text`` is not TOML, tomlkit does not keep it unchanged, or the positions of its
            values cannot be determined.
    """
    import tomlkit  # only a host with TOML needs it
    from tomlkit.exceptions import TOMLKitError

    body = text.removeprefix("\ufeff")
    shift = len(text) - len(body)
    try:
        document = cast("Any", tomlkit.parse(body))
        if tomlkit.dumps(document) != body:
            raise UnreadableTextError(0, "its text cannot be kept as it is")
        places: dict[Path, tuple[int, int]] = {}
        level = 0
        while paths := [path for path, depth in _values(document, (), 0) if depth == level]:
            places.update(_places(body, paths))
            level += 1
    except (TOMLKitError, RecursionError, ValueError, TypeError, AttributeError, KeyError) as fault:
        _raise_tomli_fault(body, shift)
        # tomlkit reads a few unusual documents but cannot change them; such a file is refused.
        raise UnreadableTextError(0, f"the positions of its values are unknown: {fault}") from None
    return _node(document, (), {path: (a + shift, b + shift) for path, (a, b) in places.items()}, text)


def _values(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, int]]:
    """Yield the path of each value in ``value``, and the number of inline tables and lists around it."""
    for step, member in _members(value):
        if _is_table(member):
            yield from _values(member, (*path, step), depth)
        else:
            yield (*path, step), depth
            yield from _values(member, (*path, step), depth + 1)


def _members(value: Any) -> list[tuple[Step, Any]]:
    if isinstance(value, dict):
        return [(str(key), member) for key, member in cast("dict[str, Any]", value).items()]
    return list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []


def _is_table(value: Any) -> bool:
    """Whether ``value`` is a table, or a list of tables, with lines of its own."""
    from tomlkit.items import AoT, InlineTable

    return isinstance(value, AoT) or (isinstance(value, dict) and not isinstance(value, InlineTable))


def _places(text: str, paths: list[Path]) -> dict[Path, tuple[int, int]]:
    """Return the start and end of the values at ``paths``, none of which may be inside another.

    Raises:
        UnreadableTextError: the positions cannot be determined.
    """
    import tomlkit

    document = cast("Any", tomlkit.parse(text))
    word = "span"
    while word in text:
        word += "x"
    originals: list[str] = []
    for number, path in enumerate(paths):
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        value = holder[path[-1]]  # for a boolean, tomlkit returns a plain bool
        originals.append(str(value).lower() if isinstance(value, bool) else value.as_string())
        holder[path[-1]] = f"{word}{number:09}"
    places: dict[Path, tuple[int, int]] = {}
    parts = re.split(rf'"{word}(\d{{9}})"', tomlkit.dumps(document))
    position = len(parts[0])
    rebuilt = [parts[0]]
    for number, between in zip(map(int, parts[1::2]), parts[2::2], strict=True):
        places[paths[number]] = (position, position + len(originals[number]))
        rebuilt += (originals[number], between)
        position += len(originals[number]) + len(between)
    if "".join(rebuilt) != text or len(places) != len(paths):
        raise UnreadableTextError(0, "the positions of its values are unknown")
    return places


def _node(value: Any, path: Path, places: dict[Path, tuple[int, int]], text: str) -> Node:
    """Return the node for tomlkit's ``value`` at ``path``; ``places`` has the positions of the values."""
    start, end = places.get(path, (0, 0))
    node = Node(start, end)
    if isinstance(value, dict):
        node.members = {}
        for key, member in cast("dict[str, Any]", value).items():
            inner = _node(member, (*path, str(key)), places, text)
            line = text.rfind("\n", 0, inner.start) + 1
            name = _KEY.search(text, line, inner.start)
            node.members[str(key)] = Member(name.start() if name else inner.start, inner)
    elif isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        node.items = [_node(item, (*path, index), places, text) for index, item in items]
    else:
        node.scalar = _scalar(value)
    return node


def _scalar(value: Any) -> Scalar:
    plain_value = value.unwrap() if hasattr(value, "unwrap") else value
    # Dates and floats become strings; floats, because values are compared, and NaN is not equal to itself.
    return plain_value if isinstance(plain_value, (str, int)) else str(plain_value)


def _raise_tomli_fault(text: str, shift: int) -> None:
    """Raise an error if tomli finds a fault in ``text``; tomlkit would often give a wrong position.

    ``shift`` is added to positions.

    Raises:
        UnreadableTextError: ``text`` is not TOML.
    """
    try:
        tomli.loads(text)
    except tomli.TOMLDecodeError as fault:
        start = sum(len(line) + 1 for line in text.split("\n")[: fault.lineno - 1])
        at, fact = _position_and_fact(text, start, start + fault.colno - 1, fault.msg)
        raise UnreadableTextError(shift + at, fact) from None
    except RecursionError:
        return


def _position_and_fact(text: str, start: int, at: int, message: str) -> tuple[int, str]:
    """Return the position and the description of a fault from tomli's ``message`` and position ``at``.

    The line of the fault begins at ``start``.
    """
    line = text[start:].split("\n", 1)[0]
    if text.startswith("\r", at):
        return at, "a carriage return without a line feed, which ends no line in TOML"
    if message.startswith(("Unescaped", "Invalid hex")):
        return at - 2, "a backslash, which begins an escape in \"...\"; write '...' or two of them"
    if message.startswith("Cannot declare"):
        return start, f"a second table {line[: at - start].strip()}]"
    if message.startswith("Cannot overwrite"):
        return start, f"a second value for {line.partition('=')[0].strip()}"
    return at, message[:1].lower() + message[1:]
