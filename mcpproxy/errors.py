"""What a caller of mcpproxy may have to catch.

    McpProxyError
    ├── TraceError                  a recording that cannot be read, or not from here on
    │   └── ForeignJournalError     a recording that is not to be completed where it lies
    ├── UsageError                  something was asked for that cannot be done as asked
    ├── RuleError                   a rule table that cannot be used
    ├── CustomRuleError             rules of the user's own that cannot be used
    ├── UnfitRuleOptionsError       a session that cannot be judged as it was to be
    ├── NotARecordError             a line of a recording that is not a record; its reader says where
    ├── WithheldError               a replayed message needs a name that the live server has not given
    └── ValidateError               a server does not do what a probe or a pin needs of it
        ├── CouldNotStartError      the command cannot be run, or nobody listens at the URL
        ├── GoneError               the server ended, or closed the connection
        ├── TimedOutError           no answer in time
        ├── NotInitializedError     the session was not opened yet
        ├── AlreadyInitializedError it was opened before
        ├── UnsupportedVersionError the server speaks no revision that we do
        ├── IdMismatchError         an answer came, with the id of no request
        ├── MalformedAnswerError    what came is not an answer
        ├── RefusedError            an answer, but an error
        ├── HttpStatusError         a status instead of an answer
        └── ToolFailedError         the tool ran, and says that it failed
            └── ToolNotFoundError   there is no such tool

Each stands in the package that raises it. What a peer does wrong is never an exception: that is a finding.
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
