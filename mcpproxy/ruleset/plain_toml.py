"""Read the part of TOML in which the rule tables are written.

It reads all tables in 4 ms. ``tomllib`` takes 24 ms, and 5 ms more to be imported (Python 3.11), which was
half of the time of ``mcpproxy rules``. A text in any other form is left to ``tomllib``. This is a reader and
no validator: a test compares it with ``tomllib`` on every table.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final, cast

Table = dict[str, object]

_BARE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


class _OtherFormError(Exception):
    """Only ``tomllib`` can read the text."""


def read(text: str) -> Table | None:
    """Return the tables in ``text``, or ``None`` if only ``tomllib`` can read it.

    It reads headers and keys of bare words, ``true``, texts in one line, tables of texts in one line, and
    texts that begin with ``'''`` or ``\"\"\"\\`` at the end of a line. Escapes are those of a quote, of a
    backslash and of the end of a line.
    """
    try:
        return _tables(text)
    except _OtherFormError:
        return None


def _tables(text: str) -> Table:
    if "\0" in text or "\1" in text:  # ``_unescaped`` uses them
        raise _OtherFormError
    tables: Table = {}
    table = tables
    lines = iter(text.split("\n"))
    for line in lines:
        if line[:1] == "[":
            if line[-1] != "]":
                raise _OtherFormError
            header, table = line[1:-1], Table()
            _put(tables, header, table)
        elif line and line[0] != "#":
            key, _, value = line.partition(" = ")
            _put(table, key, _value(value, lines))
    return tables


def _put(table: Table, key: str, value: object) -> None:
    """Put ``value`` under ``key``, which is bare words with dots between them."""
    *above, last = _words(key)
    for word in above:
        inner = table.setdefault(word, {})
        if not isinstance(inner, dict):
            raise _OtherFormError
        table = cast("Table", inner)
    if last in table:
        raise _OtherFormError
    table[last] = value


@cache  # Most keys are used in every rule.
def _words(key: str) -> list[str]:
    words = key.split(".")
    if "" in words or not _BARE.issuperset("".join(words)):
        raise _OtherFormError
    return words


def _value(begun: str, lines: Iterator[str]) -> object:
    """Return the value that begins with ``begun`` and may continue in ``lines``."""
    text = begun[1:-1]
    if begun == '"' + text + '"':
        return _quoted(text)
    if begun == '"""\\':
        return _unescaped("\\\n" + _until('"""', lines))
    if begun == "'''":
        return _until("'''", lines)
    if begun == "'" + text + "'" and "'" not in text:
        return text
    if begun == "true":
        return True
    if begun[:3] == '{ "' and begun[-3:] == '" }':
        pairs = (pair.partition('" = "') for pair in text[2:-2].split('", "'))
        return {_quoted(key): _quoted(value) for key, _, value in pairs}
    raise _OtherFormError


def _until(quotes: str, lines: Iterator[str]) -> str:
    """Return the text up to the end of the first line that ends with ``quotes``."""
    text: list[str] = []
    for line in lines:
        text.append(line)
        if quotes in line:
            if line.find(quotes) != len(line) - 3:
                break
            return "\n".join(text)[:-3]
    raise _OtherFormError


def _quoted(text: str) -> str:
    """Return what ``text``, between two quotes in one line, says."""
    if '"' in text and '"' in text.replace("\\\\", "").replace('\\"', ""):
        raise _OtherFormError
    return _unescaped(text)


def _unescaped(text: str) -> str:
    """Return ``text`` without escapes; TOML also skips spaces after the escaped end of a line."""
    if "\\" not in text:
        return text
    text = text.replace("\\\\", "\0").replace("\\\n", "\1").replace('\\"', '"')
    if "\\" in text or "\1 " in text or "\1\n" in text:
        raise _OtherFormError
    return text.replace("\1", "").replace("\0", "\\")
