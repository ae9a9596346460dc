"""The exceptions that mcpproxy raises.

    McpProxyError
    ├── TraceError                  a recording, or a part of it, cannot be read
    │   └── ForeignJournalError     another user's recording must not change; a copy is completed
    ├── UsageError                  the arguments are not valid
    │   ├── NoAnswerError           the relay of a session does not answer
    │   └── NotHeldError            no breakpoint holds this message any more
    ├── RuleError                   a rule table cannot be used
    ├── CustomRuleError             the user's own rules cannot be used
    ├── UnfitRuleOptionsError       a session cannot be judged by the rules that its recording names
    ├── NotARecordError             a line of a recording is not a record; becomes a TraceError with the place
    ├── HostFileError               a configuration file of a host cannot be read, or must not be written
    │   ├── ByHandError             the user has to write a setting that mcpproxy cannot place; becomes advice
    │   └── UnrecordedError         the file was written, but not the ledger, our list of changes
    ├── UnreadableTextError         a text is not JSON, TOML or YAML; becomes a HostFileError with the place
    ├── ForeignUrlError             a peer named a URL that we do not request; becomes a reason
    ├── NotDoneError                a command about held messages cannot be carried out
    │   └── NothingHeldError        nothing is held under the number that it names
    ├── FilterError                 a filter of calls cannot be read
    ├── FaultRuleError              fault rules cannot be used
    ├── AddonError                  an addon cannot be used
    ├── AgentError                  a tool of ``mcpproxy mcp`` cannot do what its caller wants
    ├── NoRecordingError            the page asks for a recording that is not in its folder
    ├── NoSuchFormError             a call cannot be written in the requested form
    ├── NotReleasedError            the page cannot release a message that a breakpoint holds
    ├── BodyTooLargeError           the body of a request to the page is larger than its reader allows
    ├── NotSentError                a call cannot be sent again
    ├── StoreError                  an object store, or an object in it, cannot be used
    │   ├── ObjectExistsError       an object exists already
    │   ├── TooLargeError           an object exceeds its limit of bytes
    │   ├── NoSuchObjectError       an object does not exist
    │   ├── NoSuchBucketError       the bucket does not exist
    │   └── StoreUnreachableError   the store gives no answer, or has failed
    ├── ManifestError               a stored object is not a manifest, or was changed
    ├── NotShippedError             a file cannot be shipped as it is
    ├── NotExportedError            a collector did not accept spans
    ├── NoJudgeError                the process that judges cannot be started, or has other rules
    ├── WithheldError               a message to replay needs an id or cursor that the server has not issued
    ├── RemoteError                 a server over HTTP broke off an exchange of ours; becomes an answer
    │   ├── ForeignTargetError      it names a URL to which we must not send
    │   ├── TooLongError            an event or a body is too long for us
    │   │   └── _ExcessError        the rest of a response is not read; becomes a skipped check
    │   └── UnreachableError        there is no connection to it
    ├── ProxyError                  a proxy does not lead to the server behind it; becomes a reason
    ├── CutShortError               a server over HTTP ended an exchange early; becomes a RemoteError
    ├── RefusedRequestError         a server of ours refuses a request; becomes a response
    ├── GoneEventsError             a client resumes at events that are no longer kept; becomes a response
    ├── NotFuzzedError              a recording has no request to change, or the server does not answer it
    ├── _FaultyTurnError            a turn of a script cannot be read; becomes a UsageError with the place
    ├── NotOfferedError             a host does not offer the tool that a script calls; becomes a failed turn
    ├── NotBackError                a server behind a URL is gone; becomes an unconfirmed fault
    └── ValidateError               a server does not do what ``validate`` or ``pin`` needs
        ├── CouldNotStartError      the command cannot be run, or there is no MCP server at the URL
        │   └── MovedError          the server is at another path of its origin; becomes a new target
        ├── UnansweredError         the base class of the next two
        │   ├── GoneError           the server is gone, or an exchange ended without an answer
        │   └── TimedOutError       no answer came in time, or a message was not read in time
        ├── ForeignEndpointError    the server names an endpoint to which we must not send
        ├── NotInitializedError     the session is not open yet
        ├── AlreadyInitializedError the session is already open
        ├── UnsupportedVersionError the server does not support the revision that we need
        ├── IdMismatchError         the id of an answer matches no request
        ├── MalformedAnswerError    the message received is not an answer
        ├── RefusedError            the server answered with an error
        ├── HttpStatusError         the server sent an HTTP status instead of an answer
        └── ToolFailedError         the result of a tool has ``isError``
            └── ToolNotFoundError   the server has no such tool

Most are defined in the package that raises them. Where a session is recorded, a peer's mistake is never an
exception: it is a finding. Only our own clients raise what their server did wrong.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class McpProxyError(Exception):
    """The base of all mcpproxy errors. The text is one line, written for people."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The text as a terminal shows it: one line, then one for each reason of a ``TraceError``."""
        return (str(self),)


class TraceError(McpProxyError):
    """A trace that cannot be used.

    ``line`` counts from 1; it is ``None`` if the problem concerns the whole file. The text gives the place,
    the fact, and what the user can do or should know: ``s.jsonl:118: not a trace record; the 117 records
    before it are whole``. ``reasons``, if there are any, follow it.
    """

    def __init__(
        self, path: str, line: int | None, fact: str, next_step: str, reasons: tuple[str, ...] = ()
    ) -> None:
        super().__init__(path, line, fact, next_step, reasons)
        self.path = path
        self.line = line
        self.fact = fact
        self.next_step = next_step
        self.reasons = reasons

    def __str__(self) -> str:
        first, *reasons = self.lines
        return f"{first}: {'; '.join(map(str.strip, reasons))}" if reasons else first

    @property
    def lines(self) -> tuple[str, ...]:
        """The text, with each reason on a line of its own."""
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return (f"{where}: {self.fact}; {self.next_step}", *(f"  {reason}" for reason in self.reasons))


class UsageError(McpProxyError):
    """Arguments that are not valid. The text says where, what is wrong (``fact``), and what to do instead."""

    def __init__(self, where: str, fact: str, next_step: str) -> None:
        super().__init__(f"{where}: {fact}; {next_step}")
        self.fact = fact


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name in ``names`` that the user probably meant by ``name``; ``None`` if none is similar.

    ``cutoff`` is the least similarity, from 0 to 1. Upper and lower case do not count.
    """
    from difflib import get_close_matches

    by_folded_name = {candidate.casefold(): candidate for candidate in names}
    matches = get_close_matches(name.casefold(), by_folded_name, n=1, cutoff=cutoff)
    return by_folded_name[matches[0]] if matches else None


def nearest_option(name: str, options: Iterable[str]) -> str | None:
    """Like ``nearest``, for options: dashes at the start do not count, and names must be closer."""
    by_name = {option.lstrip("-"): option for option in options}
    match = nearest(name.lstrip("-"), by_name, cutoff=0.7)
    return by_name[match] if match else None
