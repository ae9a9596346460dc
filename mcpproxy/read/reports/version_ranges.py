"""Read a file of version ranges: which versions of an implementation may use which revision.

    ["2025-11-25"]
    files = ">=1.2,<3"

    [any]
    host = "!=1.4.0"

There is one table for each protocol revision, and ``any`` for all. A key is the name that an implementation
gives itself. A value is a range of versions as in Python requirements.
"""

from collections.abc import Mapping
from typing import Final

import tomli
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from mcpproxy.base import files
from mcpproxy.errors import UsageError, nearest
from mcpproxy.judge.checks.opt_in.implementations import ANY, Range, Ranges
from mcpproxy.protocol.revisions import REVISIONS

_LIMIT_BYTES: Final = 1 << 20
"""A larger file is not read."""


def read(path: str) -> Ranges:
    """Return the ranges in a file.

    Raises:
        UsageError: the file cannot be read, or is not a file of ranges.
    """
    try:
        tables = tomli.loads(files.read(path, _LIMIT_BYTES, follows=True).decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise UsageError(path, f"not readable as TOML: {error}", "see mcpproxy versions --help") from None
    return compiled(path, tables)


def compiled(path: str, tables: Mapping[str, object]) -> Ranges:
    """Return the ranges in ``tables``; ``path`` is their file, for error messages.

    Raises:
        UsageError: a key is neither a revision nor ``any``, a value is not a table, or a range is not valid.
    """
    ranges: dict[str, Mapping[str, Range]] = {}
    for revision, table in tables.items():
        if revision not in (*REVISIONS, ANY):
            guess = nearest(revision, [*REVISIONS, ANY])
            raise UsageError(
                path,
                f"[{revision}] is not a protocol revision",
                f"did you mean {guess}?" if guess else f"use one of {', '.join(REVISIONS)} or {ANY}",
            )
        if not isinstance(table, dict):
            raise UsageError(
                path, f"{revision} is not a table", f"write [{revision}] and, below it, name = '>=1.2,<3'"
            )
        # The types of the table's values are unknown; ``_range`` checks each value.
        ranges[revision] = {name: _range(path, name, text) for name, text in table.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return ranges


def _range(path: str, name: str, text: object) -> Range:
    """Return a function that says why a version is not in the range ``text``, with an empty text if it is.

    Raises:
        UsageError: ``text`` is not a range.
    """
    try:
        allowed = SpecifierSet(text if isinstance(text, str) else "not a string", prereleases=True)
    except InvalidSpecifier:
        raise UsageError(
            path, f"{name}: {text!r} is not a range of versions", "write it as '>=1.2,<3'"
        ) from None

    def why_not_allowed(version: str) -> str:
        try:
            return "" if Version(version) in allowed else f"outside the range {allowed}"
        except ValueError:  # not a version (InvalidVersion), or a number of thousands of digits
            return f"which cannot be compared with the range {allowed}"

    return why_not_allowed
