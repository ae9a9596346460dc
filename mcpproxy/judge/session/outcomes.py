"""The kinds of rows in a list of calls, and the outcomes of calls."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.error_message import INTERNAL_ERROR
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, Response
from mcpproxy.protocol.mcp_in_acp import WRAPPERS, Innermost, outcome_in
from mcpproxy.protocol.message_parts import member


class Kind(StrEnum):
    """The kind of a row in a list of calls. All kinds but ``REQUEST`` are *orphans*: without a request."""

    REQUEST = "request"
    ANSWER = "answer"
    """A response or an error for which there is no open request."""
    NOTIFICATION = "notification"
    NOT_A_MESSAGE = "not a message"
    """A line, body or event that is not a JSON-RPC message."""
    EXCHANGE = "http"
    """An HTTP request that carries no JSON-RPC request."""
    STDERR = "stderr"
    """Lines on stderr that do not certainly belong to one call. Successive lines are one row."""
    GAP = "gap"
    """Bytes that passed without being recorded."""


class Outcome(StrEnum):
    """How a call ended. The values are the words of ``status:`` in a filter."""

    OK = "ok"
    TOOL_ERROR = "tool-error"
    """A result with ``isError``."""
    RPC_ERROR = "rpc-error"
    """A JSON-RPC error; its code is the ``error_code``."""
    HTTP_ERROR = "http-error"
    """No JSON-RPC answer, but an HTTP status of 400 or more, which is the ``error_code``."""
    INPUT_REQUIRED = "input-required"
    """A result that asks the client to send the request again with more input."""
    UNANSWERED = "unanswered"
    """No answer until the end of the recording. While the recording is being made, the call *waits*."""
    CANCELLED = "cancelled"
    """Cancelled before it was answered."""
    REFUSED = "refused"
    """Refused by mcpproxy, or answered by it with an error."""
    DECLINED = "declined"
    """The client asked whether the server has a feature, and the server does not: see ``error_outcome``,
    ``status_outcome`` and ``exchange_outcome``. Such an error is a part of a healthy session."""
    NONE = "none"
    """The row is not about something that has an answer."""
    UNREADABLE = "unreadable"
    """Answered over HTTP with a body that could not be read, or was not recorded. So it is unknown how the
    call ended."""


def latency_ns(asked_ns: int, answered_ns: int) -> int | None:
    """Return how long an answer took, in nanoseconds; ``None`` if the time of the answer is unknown.

    Times are nanoseconds since the recording began. The time 0 of an answer means that another program made
    the recording and stored no times. Equal times are valid: on Windows a clock may stand still for 16 ms.
    """
    return max(answered_ns - asked_ns, 0) if answered_ns else None


PROBE: Final = "server/discover"
"""The request with which a client asks a server for its revisions. Older servers do not know it."""

_PROBED: Final = Innermost(PROBE)
_FAILURE_STATUSES: Final = frozenset({401, 403, 407, 408, 429})
"""Statuses below 500 that do not mean that the server lacks a feature."""

ERRORS: Final = frozenset({Outcome.TOOL_ERROR, Outcome.RPC_ERROR, Outcome.HTTP_ERROR})
"""The outcomes of calls that *failed*. A *finding* is something else: a violation of the protocol."""

UNSUCCESSFUL: Final = ERRORS | {Outcome.REFUSED, Outcome.UNANSWERED, Outcome.CANCELLED, Outcome.UNREADABLE}
"""The outcomes of calls that did not visibly succeed: those that failed, and those without a readable answer
from the server."""

WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.OK: "ok",
    Outcome.TOOL_ERROR: "tool error",
    Outcome.RPC_ERROR: "error",
    Outcome.HTTP_ERROR: "HTTP error",
    Outcome.INPUT_REQUIRED: "input required",
    Outcome.UNANSWERED: "unanswered",
    Outcome.CANCELLED: "cancelled",
    Outcome.REFUSED: "refused by mcpproxy",
    Outcome.DECLINED: "declined",
    Outcome.NONE: "",
    Outcome.UNREADABLE: "answered unreadably",
}
"""The words for the outcome of one call in all output for people: terminal, page, lists, reports."""


def unanswered_word(*, running: bool) -> str:
    """Return the word for a call without an answer; ``running`` says that the recording is being made."""
    return "waiting" if running else WORDS[Outcome.UNANSWERED]


def state_words(outcome: Outcome, code: int | None = None, *, running: bool = False) -> str:
    """Return the state of a call in words, such as ``tool error``, ``error -32602`` or ``HTTP 404``.

    ``code`` is its error code; ``running`` is as for ``unanswered_word``. The words are empty for a row that
    is not about something that has an answer.
    """
    if outcome is Outcome.UNANSWERED:
        return unanswered_word(running=running)
    if code is None or outcome not in (Outcome.RPC_ERROR, Outcome.HTTP_ERROR, Outcome.DECLINED):
        return WORDS[outcome]
    return f"HTTP {code}" if outcome is Outcome.HTTP_ERROR else f"{WORDS[outcome]} {code}"


@slotted(frozen=True)
class CallCounts:
    """The number of all calls, and of those with each outcome in ``UNSUCCESSFUL``, and of declined calls.

    ``failed`` is the number of calls with an outcome in ``ERRORS``.
    """

    total: int
    failed: int
    unanswered: int
    cancelled: int = 0
    """Calls that their sender cancelled, for a user or because of its own time limit."""
    refused: int = 0
    """Calls that mcpproxy refused or answered with an error, in place of the peer that should answer."""
    declined: int = 0
    unreadable: int = 0
    """Calls whose answer could not be read."""

    @property
    def all_successful(self) -> bool:
        """Whether all calls have a readable answer, and none of the answers is an error.

        Declined calls count as successful unless all calls were declined.
        """
        return not self.unsuccessful(running=False)

    @property
    def _declined_if_all(self) -> int:
        return self.declined if self.declined == self.total else 0

    def unsuccessful(self, *, running: bool) -> list[tuple[int, str]]:
        """Return the numbers of unsuccessful calls, except 0, each with the word for its outcome.

        ``running`` says that the recording is being made.
        Declined calls are among them only if all calls were declined.
        """
        numbers = (
            (self.failed, "failed"),
            (self.refused, "refused"),
            (self.unanswered, unanswered_word(running=running)),
            (self.cancelled, WORDS[Outcome.CANCELLED]),
            (self.unreadable, str(Outcome.UNREADABLE)),
            (self._declined_if_all, WORDS[Outcome.DECLINED]),
        )
        return [(number, word) for number, word in numbers if number]

    def words(self, *, running: bool, waited: str = "") -> str:
        """Return the numbers in words: ``2 of 5 calls failed, 1 waiting``, ``no failed calls``, ``no calls``.

        ``running`` says that the recording is being made, and ``waited`` is the time that the oldest waiting
        call has waited, in words: ``1 waiting for 11.0 s``.
        """
        if not self.total:
            return "no calls"
        if self.all_successful:
            return "no failed calls"
        waiting, noun = unanswered_word(running=running), "call" if self.total == 1 else "calls"
        since = {waiting: f"{waiting} for {waited}"} if waited else {}
        named = self.unsuccessful(running=running)
        (first, word), *others = [(number, since.get(word, word)) for number, word in named]
        return ", ".join(
            [f"{first:,} of {self.total:,} {noun} {word}", *(f"{number:,} {word}" for number, word in others)]
        )


def count_calls(outcomes: Mapping[Outcome, int]) -> CallCounts:
    """Return the counts for ``outcomes``, the number of calls with each outcome."""
    failed = sum(outcomes.get(outcome, 0) for outcome in ERRORS)
    others = (
        *(Outcome.UNANSWERED, Outcome.CANCELLED, Outcome.REFUSED, Outcome.DECLINED),
        Outcome.UNREADABLE,
    )
    return CallCounts(sum(outcomes.values()), failed, *(outcomes.get(outcome, 0) for outcome in others))


def sum_counts(counts: Iterable[CallCounts]) -> CallCounts:
    """Return the sum of the counts of several sessions."""
    sessions = tuple(counts)
    return CallCounts(
        sum(session.total for session in sessions),
        sum(session.failed for session in sessions),
        sum(session.unanswered for session in sessions),
        sum(session.cancelled for session in sessions),
        sum(session.refused for session in sessions),
        sum(session.declined for session in sessions),
        sum(session.unreadable for session in sessions),
    )


UNKNOWN: Final = Innermost("")
"""The innermost method of a request whose method is unknown, or does not matter."""


def outcome_of(answer: Response | ErrorResponse, asked: Innermost = UNKNOWN) -> Outcome:
    """Return the outcome of a call from the server's answer.

    ``asked`` is the innermost method of the request: that of the message that it carries, if it carries one.
    If mcpproxy itself answered, the caller passes the outcome on to ``outcome_from_us``.
    """
    if isinstance(answer, ErrorResponse):
        return error_outcome(answer.error, asked)
    return outcome_of_result(answer.result, asked)


def outcome_from_us(outcome: Outcome) -> Outcome:
    """Return the outcome of a call that mcpproxy answered in the place of the server.

    An error says that the call was refused, and so does the error of a tool. Any other result, as a fault or
    an addon may give, is as good as the server's.
    """
    return outcome if outcome in (Outcome.OK, Outcome.INPUT_REQUIRED) else Outcome.REFUSED


def outcome_of_result(result: JSON, asked: Innermost = UNKNOWN) -> Outcome:
    """Return the outcome of a call from its result. A result that carries an MCP error counts as an error."""
    if asked.is_carried:
        outcome = outcome_in(result)
        if "result" not in outcome:
            return error_outcome(outcome["error"], Innermost(asked.method))
        result = outcome["result"]
    if isinstance(result, dict):
        if "isError" in result and result["isError"] is True:
            return Outcome.TOOL_ERROR
        if "resultType" in result and result["resultType"] == "input_required":
            return Outcome.INPUT_REQUIRED
    return Outcome.OK


def error_outcome(error: "JSON | Absent", asked: Innermost) -> Outcome:
    """Return the outcome of a call from a JSON-RPC error of the server.

    Any code may mean that the server does not know ``PROBE`` (2026-07-28, basic/transports/stdio § Backward
    Compatibility), except an internal error, with which a method that exists fails, and the error of a
    carrier of ``PROBE`` (see ``Innermost.owns``).
    """
    if asked.method != PROBE or member(error, "code") == INTERNAL_ERROR or not asked.owns(error):
        return Outcome.RPC_ERROR
    return Outcome.DECLINED


def status_outcome(asked: Innermost, status: int, *, by_proxy: bool) -> Outcome:
    """Return the outcome of a call from an HTTP status of 400 or more. A JSON-RPC answer may replace it.

    ``by_proxy`` says that mcpproxy sent the response.

    Source: 2026-07-28, basic/transports/streamable-http § Backward Compatibility.
    """
    if by_proxy:
        return Outcome.REFUSED
    is_decline = asked == _PROBED and status < 500 and status not in _FAILURE_STATUSES
    return Outcome.DECLINED if is_decline else Outcome.HTTP_ERROR


def unread_outcome(status: int) -> Outcome:
    """Return the outcome of a call from the HTTP status of a response whose body could not be read.

    A redirect is followed by another exchange, and 202 means that an answer, if any, comes in another one.
    """
    return Outcome.UNREADABLE if 200 <= status < 300 and status != 202 else Outcome.UNANSWERED


def exchange_outcome(method: str, status: int, *, by_proxy: bool) -> Outcome:
    """Return the outcome of an HTTP request that carries no JSON-RPC request.

    ``by_proxy`` says that mcpproxy sent the response.
    A server that offers no stream answers GET with 405, and a server that does not let clients end a session
    answers DELETE with 405 (2025-11-25, basic/transports § Listening for Messages from the Server, § Session
    Management).
    """
    if status == 405 and method in ("GET", "DELETE") and not by_proxy:
        return Outcome.DECLINED
    if by_proxy or status >= 400:
        return status_outcome(UNKNOWN, status, by_proxy=by_proxy)
    return Outcome.OK


def error_code(answer: Response | ErrorResponse, method: str = "") -> int | None:
    """Return the code of an error; ``None`` for a result, and for an error whose code is not an integer.

    A result of ``method`` that carries an MCP error has the code of that error.
    """
    if isinstance(answer, ErrorResponse):
        code = member(answer.error, "code")
    else:
        code = carried_code(answer.result) if method in WRAPPERS else None
    return code if type(code) is int else None


def carried_code(result: JSON) -> JSON:
    """Return the code of the MCP error in a result of one of ``WRAPPERS``; ``None`` if there is none."""
    outcome = outcome_in(result)
    return None if "result" in outcome else member(outcome, "error", "code")
