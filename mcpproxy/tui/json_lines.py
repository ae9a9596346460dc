"""A JSON text laid out for reading, from its tokens: every key, number and string stays as it was sent.

Parsing would lose what a reader of a recording may look for: repeated names, integers beyond 64 bits, the way
in which a character was escaped. A value that fits stays on one line. A string of several lines, in which
JSON writes each line feed as an escape, is shown as these lines with a bar before each.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.tui.spans import Line, Span, Tone

INDENT: Final = 2

_TOKEN: Final = re.compile(r'\s*+("[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]++)', re.DOTALL)
_OPENING: Final = frozenset("{[")
_CLOSING: Final = frozenset("}]")
_LINE_FEED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\n")


def json_lines(text: str, width: int, indent: int = 0) -> Iterator[Line] | None:
    """Return the lines of a text that is known to be JSON; ``None`` if it is not made of JSON's tokens.

    ``text`` may be the beginning of a longer one: what is open at its end stays open.
    """
    tokens: list[str] = []
    at = 0
    while found := _TOKEN.match(text, at):
        tokens.append(found[1])
        at = found.end()
    rest = text[at:].strip()
    if not tokens or (rest and not rest.startswith('"')):
        return None
    if rest:  # a string that was cut
        tokens.append(rest)
    return _laid_out(tokens, _sizes(tokens), width, indent)


def _sizes(tokens: list[str]) -> list[int]:
    """Return for each token that opens a value how many characters the value takes on one line, else 0.

    A value without its end, or with a string of several lines, never fits on one.
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


_NEVER: Final = 1 << 40


def _laid_out(tokens: list[str], sizes: list[int], width: int, indent: int) -> Iterator[Line]:
    line: list[Span] = []
    depth = 0
    inline_depth = -1
    """The depth around the value that is being written on one line; -1 if none is."""
    for number, token in enumerate(tokens):
        following = tokens[number + 1] if number + 1 < len(tokens) else ""
        if token in _CLOSING:
            depth = max(depth - 1, 0)
            # The end of the whole message stands behind its last member.
            if inline_depth < 0 and depth and line and tokens[number - 1] not in _OPENING:
                yield tuple(line)
                line = []
        if _has_lines(token) and following != ":":
            if line:
                yield tuple(line)
            yield from _string_lines(token, _column(depth + 1, indent))
            line = []
            continue
        if token == "," and not line:  # the lines of a string take no comma
            continue
        if not line:
            line.append(Span(" " * _column(depth, indent)))
        joins = token == "," and (inline_depth >= 0 or (depth == 1 and _fits(tokens, number, line, width)))
        line += _token_spans(token, following, spaced=joins)
        if token in _OPENING:
            depth += 1
            if inline_depth < 0 and _taken(line) + sizes[number] - 1 <= width:
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
    """Return where a value begins: the members of the whole message stand behind its bracket."""
    return indent + 1 + INDENT * (depth - 1) if depth else indent


def _taken(line: list[Span]) -> int:
    return sum(len(span.text) for span in line)


def _fits(tokens: list[str], comma: int, line: list[Span], width: int) -> bool:
    """Whether the next member of the message is a short scalar that has room on the line."""
    if comma + 3 >= len(tokens) or tokens[comma + 2] != ":" or tokens[comma + 3] in _OPENING:
        return False
    name, value = tokens[comma + 1], tokens[comma + 3]
    return not _has_lines(value) and _taken(line) + len(name) + len(value) + 5 <= width


def _token_spans(token: str, following: str, *, spaced: bool) -> Iterator[Span]:
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
    for each in text.split("\n"):
        yield (Span(" " * indent), Span("│ ", "dim"), Span(visible(each), "text"))
