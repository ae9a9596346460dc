"""Regular expressions that are compiled when they are first used.

To compile one takes 0.2 ms; a judge has some hundred of them, and few sessions come upon more than ten.
"""

import re
from typing import AnyStr, cast

__all__ = ["pattern"]

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")


class _Pattern:
    """Has no methods until one of them is asked for, and then those of the compiled one."""

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
    """As ``re.compile``; what is wrong with ``text`` is told at the first use.

    Only what a pattern does is there, not what it is: ``match``, ``sub`` and so on.
    """
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))
