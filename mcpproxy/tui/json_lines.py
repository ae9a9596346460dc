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
    inline_until = 0
    """Within a value that stays on one line: the depth at which it ends."""
    is_inline = False
    for number, token in enumerate(tokens):
        following = tokens[number + 1] if number + 1 < len(tokens) else ""
        if token in _CLOSING:
            depth = max(depth - 1, 0)
            if not is_inline and tokens[number - 1] not in _OPENING:
                if line:
                    yield tuple(line)
                line = []
        if _has_lines(token) and following != ":" and not is_inline:
            if line:
                yield tuple(line)
            yield from _string_lines(token, indent + INDENT * (depth + 1))
            line = []
            continue
        if token == "," and not line:  # the lines of a string take no comma
            continue
        if not line:
            line.append(Span(" " * (indent + INDENT * depth)))
        line += _token_spans(token, following, inline=is_inline)
        if token in _OPENING:
            depth += 1
            taken = sum(len(span.text) for span in line) - 1
            if not is_inline and taken + sizes[number] <= width:
                is_inline, inline_until = True, depth - 1
            elif not is_inline and following not in _CLOSING:
                yield tuple(line)
                line = []
        elif token == "," and not is_inline:
            yield tuple(line)
            line = []
        elif is_inline and token in _CLOSING and depth == inline_until:
            is_inline = False
    if line:
        yield tuple(line)


def _token_spans(token: str, following: str, *, inline: bool) -> Iterator[Span]:
    match token[0]:
        case '"':
            tone: Tone = "key" if following == ":" else "text"
            yield Span(visible(token), tone)
        case ":":
            yield Span(": ", "dim")
        case ",":
            yield Span(", " if inline else ",", "dim")
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
