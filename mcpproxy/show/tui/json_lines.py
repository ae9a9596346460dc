"""Lay out a JSON text for reading. Its tokens are not parsed, so every key, number and string stays as
sent, except a string with line feeds.

Parsing would lose repeated names, integers beyond 64 bits, and the way in which a character was escaped. A
value that fits the width stays on one line. A string with line feeds, which JSON writes as escapes, is shown
as several lines with a bar before each. The outermost value is called the message.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.show.tui.spans import Line, Span, Tone

INDENT: Final = 2

_TOKEN: Final = re.compile(r'\s*+("[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]++)', re.DOTALL)
_OPENING: Final = frozenset("{[")
_CLOSING: Final = frozenset("}]")
_LINE_FEED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\n")
_NEVER: Final = 1 << 40
"""The size of a value that fits no line."""


def json_lines(text: str, width: int, indent: int = 0) -> Iterator[Line] | None:
    """Return the lines of a JSON text; ``None`` if it contains anything but tokens of JSON.

    Lines longer than ``width`` are broken between values, and each begins with ``indent`` spaces. ``text``
    may be cut off: brackets without an end, and a string without an end, are allowed.
    """
    tokens: list[str] = []
    position = 0
    while match := _TOKEN.match(text, position):
        tokens.append(match[1])
        position = match.end()
    rest = text[position:].strip()
    if not tokens or (rest and not rest.startswith('"')):
        return None
    if rest:  # a string that was cut
        tokens.append(rest)
    return _laid_out(tokens, _sizes(tokens), width, indent)


def _sizes(tokens: list[str]) -> list[int]:
    """Return for each opening bracket how many characters its value takes on one line; 0 for other tokens.

    A value without its end, or with a string of several lines, has the size ``_NEVER``.
    """
    sizes = [0] * len(tokens)
    open_at: list[tuple[int, int]] = []
    total = 0
    for number, token in enumerate(tokens):
        if token in _OPENING:
            open_at.append((number, total))
        total += _NEVER if _has_lines(token) else len(token) + (token in (",", ":"))
        if token in _CLOSING and open_at:
            start, before = open_at.pop()
            sizes[start] = total - before
    for start, _ in open_at:
        sizes[start] = _NEVER
    return sizes


def _laid_out(tokens: list[str], sizes: list[int], width: int, indent: int) -> Iterator[Line]:
    """Yield the lines of ``tokens``, whose ``sizes`` are those of ``_sizes``."""
    line: list[Span] = []
    depth = 0
    inline_depth = -1
    """The depth around the value that is being written on one line; -1 if none is."""
    for number, token in enumerate(tokens):
        following = tokens[number + 1] if number + 1 < len(tokens) else ""
        if token in _CLOSING:
            depth = max(depth - 1, 0)
            # The last bracket of the message follows its last member on the same line.
            if inline_depth < 0 and depth and line and tokens[number - 1] not in _OPENING:
                yield tuple(line)
                line = []
        if _has_lines(token) and following != ":":
            if line:
                yield tuple(line)
            yield from _string_lines(token, _column(depth + 1, indent))
            line = []
            continue
        if token == "," and not line:  # no comma follows a string of several lines
            continue
        if not line:
            line.append(Span(" " * _column(depth, indent)))
        joins = token == "," and (
            inline_depth >= 0 or (depth == 1 and _next_member_fits(tokens, number, line, width))
        )
        line += _token_spans(token, following, spaced=joins)
        if token in _OPENING:
            depth += 1
            # The bracket is in ``line`` already, and in the size too: it counts once.
            if inline_depth < 0 and _length_of(line) + sizes[number] - 1 <= width:
                inline_depth = depth - 1
            elif inline_depth < 0 and depth > 1 and following not in _CLOSING:
                yield tuple(line)
                line = []
        elif token == "," and not joins:
            yield tuple(line)
            line = []
        elif token in _CLOSING and depth == inline_depth:
            inline_depth = -1
    if line:
        yield tuple(line)


def _column(depth: int, indent: int) -> int:
    """Return the column in which a line at ``depth`` begins.

    The opening bracket of the message has no line of its own: the first member follows it. So the members of
    the message are one column, the width of that bracket, to the right of ``indent``.
    """
    return indent + 1 + INDENT * (depth - 1) if depth else indent


def _length_of(line: list[Span]) -> int:
    return sum(len(span.text) for span in line)


def _next_member_fits(tokens: list[str], comma: int, line: list[Span], width: int) -> bool:
    """Whether the next member of the message is a scalar that fits on the same line."""
    if comma + 3 >= len(tokens) or tokens[comma + 2] != ":" or tokens[comma + 3] in _OPENING:
        return False
    name, value = tokens[comma + 1], tokens[comma + 3]
    more = len(", ") + len(": ") + 1  # the comma or bracket after the value
    return not _has_lines(value) and _length_of(line) + len(name) + len(value) + more <= width


def _token_spans(token: str, following: str, *, spaced: bool) -> Iterator[Span]:
    """Yield a token with its tone. ``following`` is the next token, which tells a name from a text."""
    match token[0]:
        case '"':
            tone: Tone = "key" if following == ":" else "text"
            yield Span(visible(token), tone)
        case ":":
            yield Span(": ", "dim")
        case ",":
            yield Span(", " if spaced else ",", "dim")
        case "{" | "}" | "[" | "]":
            yield Span(token, "dim")
        case _:
            yield Span(visible(token), "number")


def _has_lines(token: str) -> bool:
    return token.startswith('"') and "\\n" in token and _LINE_FEED.search(token) is not None


def _string_lines(token: str, indent: int) -> Iterator[Line]:
    """Yield a string of several lines, line by line."""
    closed = token if len(token) > 1 and token.endswith('"') else token.rstrip("\\") + '"'
    try:
        text: str = json.loads(closed, strict=False)
    except ValueError:
        text = token
    for line in text.split("\n"):
        yield (Span(" " * indent), Span("│ ", "dim"), Span(visible(line), "text"))
