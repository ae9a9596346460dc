"""Read JSON into nodes. Comments and trailing commas are allowed, because most hosts accept them.

No maintained Python library gives the positions of values in JSON with comments, so this module has its own
scanner. It also allows a byte order mark and an empty text. In all other respects it is at least as strict as
``json``, because a damaged file must not be written.
"""

import json
import re
from typing import Final

from mcpproxy.hosts.errors import UnreadableTextError
from mcpproxy.hosts.text_nodes import Member, Node, Scalar

MOST_LEVELS: Final = 200
"""The most objects and arrays around a value, well below Python's recursion limit."""

_SPACE: Final = re.compile(
    r"(?:[ \t\r\n]+|//[^\r\n]*|/\*(?s:.*?)\*/)*"
)  # Python 3.11.2 errs if it is possessive
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_ATOM: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true\b|false\b|null\b")
_EXACT_CHARACTERS: Final = 300
"""A number of this length or more is read as a float, because ``int`` refuses thousands of digits."""


def read_jsonc(text: str) -> Node:
    """Return the value of ``text``. A text without a value is read as null, as hosts do.

    Raises:
        UnreadableTextError: ``text`` is not JSON with or without comments and trailing commas,
            or has too many levels.
    """
    return _Scanner(text).scan()


def departures(text: str) -> list[tuple[int, str]]:
    """Return the departures of ``text`` from strict JSON: the position and the name, such as ``a comment``.

    Comments with nothing but white space between them count as one. An empty text is not reported.

    Raises:
        UnreadableTextError: as for ``read_jsonc``.
    """
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.departures


class _Scanner:
    """Reads the value of one text. ``departures`` collects what strict JSON does not allow.

    Every method raises ``UnreadableTextError`` if the text is not valid where it reads.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.departures: list[tuple[int, str]] = []

    def scan(self) -> Node:
        """Return the value of the text."""
        start = 0
        if self._text.startswith("\ufeff"):
            self.departures.append((0, "a byte order mark"))
            start = 1
        at = self.skip_space(start)
        if at == len(self._text):
            return Node(at, at)
        node = self.read_value(at, 0)
        end = self.skip_space(node.end)
        if end != len(self._text):
            raise UnreadableTextError(end, "text after the end of the value")
        return node

    def skip_space(self, at: int) -> int:
        """Return the position after white space and comments."""
        match = _SPACE.match(self._text, at)
        assert match is not None  # the pattern also matches an empty text
        if self._text.startswith("/*", match.end()):
            raise UnreadableTextError(match.end(), "a comment that does not end")
        if (comment := self._text.find("/", at, match.end())) >= 0:
            self.departures.append((comment, "a comment"))
        return match.end()

    def read_value(self, at: int, level: int) -> Node:
        """Return the value that begins at ``at``; ``level`` is the number of objects and arrays around it."""
        if level > MOST_LEVELS:
            raise UnreadableTextError(at, f"more than {MOST_LEVELS} levels")
        first = self._text[at : at + 1]
        if first == "{":
            return self._read_object(at, level)
        if first == "[":
            return self._read_array(at, level)
        if first == '"':
            end, scalar = self._read_string(at)
            return Node(at, end, scalar)
        match = _ATOM.match(self._text, at)
        if match is None:
            raise self._misplaced_error(at, "value")
        return Node(at, match.end(), _scalar(match.group()))

    def _read_object(self, start: int, level: int) -> Node:
        members: dict[str, Member] = {}
        at = self.skip_space(start + 1)
        while not self._text.startswith("}", at):
            if not self._text.startswith('"', at):
                raise self._misplaced_error(at, "name")
            key_start = at
            at, key = self._read_string(at)
            at = self.skip_space(at)
            if not self._text.startswith(":", at):
                raise UnreadableTextError(at, "no colon after a name")
            node = self.read_value(self.skip_space(at + 1), level + 1)
            former = members.get(key)
            members[key] = Member(key_start, node, former.key_start if former else None)
            at = self._next_position(node.end, "}")
        return Node(start, at + 1, members=members)

    def _read_array(self, start: int, level: int) -> Node:
        items: list[Node] = []
        at = self.skip_space(start + 1)
        while not self._text.startswith("]", at):
            items.append(self.read_value(at, level + 1))
            at = self._next_position(items[-1].end, "]")
        return Node(start, at + 1, items=items)

    def _next_position(self, at: int, closing: str) -> int:
        """Return the position of the next element, or of the ``closing`` bracket."""
        at = self.skip_space(at)
        if self._text.startswith(",", at):
            comma, at = at, self.skip_space(at + 1)
            if self._text.startswith(closing, at):
                self.departures.append((comma, "a trailing comma"))
            return at
        if not self._text.startswith(closing, at):
            raise UnreadableTextError(at, f"a comma or {closing} is missing")
        return at

    def _misplaced_error(self, at: int, expected: str) -> UnreadableTextError:
        character = self._text[at : at + 1]
        return UnreadableTextError(
            at, f"{character!r} where a {expected} should be" if character else "it ends too early"
        )

    def _read_string(self, at: int) -> tuple[int, str]:
        match = _STRING.match(self._text, at)
        if match is None:
            raise UnreadableTextError(at, "a string that does not end on its line, or has a wrong escape")
        token = match.group()
        return match.end(), json.loads(token) if "\\" in token else token[1:-1]


def _scalar(token: str) -> Scalar:
    if len(token) < _EXACT_CHARACTERS:
        value: Scalar = json.loads(token)
        return value
    return float(token)
