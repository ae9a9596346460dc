"""Lay out a JSON text over several lines, for people to read.

The text is cut into tokens and never parsed, so numbers, the order of members and repeated names stay as
they were sent. An object or array that is short stays on one line. A string is broken at its line feeds.
"""

import re
from collections.abc import Iterator
from typing import Final

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_LINE_FEED: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\n")
_MAY_BE_JSON: Final = re.compile(r'"(?:\\[nrt]|\s)*[{\[]')
_INDENT: Final = "  "
_MOST_CHARACTERS: Final = 4 << 20
"""A longer string is not searched for JSON."""
_DEEPEST: Final = 40
"""Deeper lines are not indented further: deep nesting would make the text many times longer."""


def laid_out(text: str, width: int = 80, *, opens_strings: bool = False) -> Iterator[str]:
    """Yield the lines of a JSON text.

    An object or array is not broken if it fits into ``width`` columns and nothing in it has line feeds or is
    laid out itself.
    A text that is not JSON is cut into tokens and lines in the same way. With ``opens_strings``, a string
    whose whole text is a JSON object or array is laid out, too, after the words ``JSON in a text``.
    """
    tokens = _TOKEN.findall(text)
    ends, length_to = _brackets(tokens)
    line, depth, index = "", 0, 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        if token in "{[" and (end := ends.get(index)) is not None:
            length = length_to[end] - length_to[index]
            is_short = len(line) + length <= width
            inner = tokens[index : end + 1] if is_short else []
            has_lines = any(map(_LINE_FEED.search, inner))
            if is_short and not (has_lines or (opens_strings and any(map(_json_in, inner)))):
                line += _on_one_line(inner)
                index = end
            elif end > index + 1:
                yield line + token
                depth += 1
                line = _INDENT * min(depth, _DEEPEST)
            else:
                line += token
        elif token in "}]" and line.strip():
            yield line
            depth = max(depth - 1, 0)
            line = _INDENT * min(depth, _DEEPEST) + token
        elif token in "}]":
            depth = max(depth - 1, 0)
            line = _INDENT * min(depth, _DEEPEST) + token
        elif token == ",":
            yield line + token
            line = _INDENT * min(depth, _DEEPEST)
        elif token == ":":
            line += ": "
        elif opens_strings and following != ":" and (inside := _json_in(token)):
            yield f"{line}JSON in a text:"
            indent = _INDENT * min(depth + 1, _DEEPEST)
            *before, last = laid_out(inside, max(width - len(indent), 1))
            yield from (indent + part for part in before)
            line = indent + last
        elif following != ":" and "\\n" in token:
            *before, line = _LINE_FEED.sub(r"\1\n", line + token).split("\n")
            yield from before
        else:
            line += token
        index += 1
    if line.strip():
        yield line


def _json_in(token: str) -> str:
    """Return the value of a JSON string if it is itself a JSON object or array, not empty; else ``""``."""
    if not _MAY_BE_JSON.match(token) or len(token) > _MOST_CHARACTERS:
        return ""
    import json  # few strings get this far, and ``explain`` starts faster without it

    try:
        text: str = json.loads(token)
        return text if json.loads(text) else ""
    except (ValueError, RecursionError):
        return ""


def _brackets(tokens: list[str]) -> tuple[dict[int, int], list[int]]:
    """Return where each opening bracket is closed, and the length of the text up to the end of each token.

    Brackets are given by the indexes of their tokens.
    """
    ends: dict[int, int] = {}
    opened: list[int] = []
    length_to: list[int] = []
    length = 0
    for index, token in enumerate(tokens):
        length += len(token) + (token in ",:")
        length_to.append(length)
        if token in "{[":
            opened.append(index)
        elif token in "}]" and opened:
            ends[opened.pop()] = index
    return ends, length_to


def _on_one_line(tokens: list[str]) -> str:
    return "".join(f"{token} " if token in ",:" else token for token in tokens)
