"""A held message as a text to read and to edit, and the bytes of an edited text.

The text has the tokens of the message, each member and element on a line of its own, and invisible
characters are escapes. Unedited parts keep their bytes: the tokens before the first change and after
the last one are taken from the message, with the spaces between them.
"""

import json
import re
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.protocol.jsonrpc import refuse_constant

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_INDENT: Final = "  "
_DEEPEST: Final = 40
"""Deeper lines are not indented further: deep nesting would make the text many times longer."""


def shown(raw: bytes) -> str:
    """Return a message as a text to edit; a message that is not JSON is returned as it is."""
    text = raw.decode("utf-8", "surrogateescape")
    return _layout(_tokens(text)) if is_json(text) else text


def edited(raw: bytes, text: str) -> bytes:
    """Return the bytes of ``text``, the result of ``shown(raw)`` after the user may have edited it.

    The bytes of the message stay where the text has the same tokens. If ``raw`` or ``text`` is not JSON, the
    whole text is encoded.

    Raises:
        ValueError: the text has characters that UTF-8 cannot encode.
    """
    original = raw.decode("utf-8", "surrogateescape")
    if not is_json(original) or not is_json(text):
        # A browser writes each line end as a line feed.
        is_same = text == re.sub(r"\r\n?", "\n", shown(raw))
        return raw if is_same else text.encode("utf-8", "surrogateescape")
    places = [match.span() for match in _TOKEN.finditer(original)]
    before, after = [_escaped(original[start:end]) for start, end in places], _tokens(text)
    first = 0  # the first token that differs
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    tail = 0  # how many tokens at the end are equal
    while tail < min(len(before), len(after)) - first and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    last = len(before) - tail  # the first token after the last change
    if first == last == len(after) - tail:
        return raw
    start = places[first][0] if first < last else places[first - 1][1]
    end = places[last - 1][1] if first < last else start
    changed = original[:start] + "".join(after[first : len(after) - tail]) + original[end:]
    return changed.encode("utf-8", "surrogateescape")


def is_json(text: str) -> bool:
    """Whether ``text`` is one JSON value that Python can read; ``NaN`` and infinities are none."""
    try:
        json.loads(text, parse_int=float, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _tokens(text: str) -> list[str]:
    """Return the tokens of a JSON text, each with its invisible characters as escapes."""
    return [_escaped(token) for token in _TOKEN.findall(text)]


def _escaped(token: str) -> str:
    """Return a token in which invisible characters are JSON escapes, which mean the same.

    Bytes that are not UTF-8 stay, because no escape stands for them.
    """
    if visible(token) == token:
        return token
    return "".join(char if "\udc80" <= char <= "\udcff" else visible(char) for char in token)


def _layout(tokens: list[str]) -> str:
    """Return the text of ``tokens`` with one member or element on each line."""
    lines, line, depth = list[str](), "", 0
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        if token in "]}":
            if tokens[index - 1] not in "[{":
                depth -= 1
                lines.append(line)
                line = _INDENT * min(depth, _DEEPEST)
            line += token
        elif token in "[{" and following not in "]}":
            depth += 1
            lines.append(line + token)
            line = _INDENT * min(depth, _DEEPEST)
        elif token == ",":
            lines.append(line + token)
            line = _INDENT * min(depth, _DEEPEST)
        else:
            line += ": " if token == ":" else token
    return "\n".join([*lines, line])
