"""What a caller of mcpproxy may have to catch.

    McpProxyError
    ├── TraceError       a recording that cannot be read, or not from here on
    └── UsageError       something was asked for that cannot be done as asked

What a peer does wrong is never an exception: that is a finding.
"""

from collections.abc import Iterable


class McpProxyError(Exception):
    """The base of every error that is meant for people; its text is one line."""


class TraceError(McpProxyError):
    """A trace that cannot be used.

    ``line`` counts from 1; it is ``None`` when the file as a whole is the trouble. The text gives
    place, fact and next step: ``s.jsonl:118: not a trace record; the 117 records before it are whole``.
    """

    def __init__(self, path: str, line: int | None, fact: str, next_step: str) -> None:
        super().__init__(path, line, fact, next_step)
        self.path = path
        self.line = line
        self.fact = fact
        self.next_step = next_step

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.fact}; {self.next_step}"


class UsageError(McpProxyError):
    """Arguments that cannot be followed: where, what is wrong, and what to do instead."""

    def __init__(self, where: str, fact: str, next_step: str) -> None:
        super().__init__(f"{where}: {fact}; {next_step}")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that ``name`` was probably meant to be."""
    from difflib import get_close_matches

    by_fold = {known.casefold(): known for known in names}
    found = get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None
