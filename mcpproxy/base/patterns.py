"""Regular expressions that are compiled when they are first used.

Compiling an expression takes 0.2 ms. The checks have about a hundred expressions, and few sessions need more
than ten of them.
"""

from __future__ import annotations

import re

# A command starts faster without ``typing``: it takes 2 ms to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AnyStr

__all__ = ["pattern"]

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")


class _Pattern:
    """A pattern that is compiled when a method is first used. It then has the compiled pattern's methods."""

    __slots__ = ("_flags", "_text", *_METHODS)

    def __init__(self, text: str | bytes, flags: re.RegexFlag | int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        compiled = re.compile(self._text, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def pattern(text: AnyStr, flags: re.RegexFlag | int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled on first use; an error in ``text`` is raised then.

    The returned object has the methods of a compiled pattern (``match``, ``sub`` and so on), but is no
    instance of ``re.Pattern``.
    """
    lazy: Any = _Pattern(text, flags)
    return lazy
