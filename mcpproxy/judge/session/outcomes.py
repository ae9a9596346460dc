"""What a row of a recording is about, and how a call ended."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.error_message import INTERNAL_ERROR
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, Response
from mcpproxy.protocol.mcp_in_acp import WRAPPERS, Innermost, outcome_in
from mcpproxy.protocol.message_parts import member


class Kind(StrEnum):
    """What a row is about. A row of any kind but ``REQUEST`` is an *orphan*: it belongs to no request."""

    REQUEST = "request"
    ANSWER = "answer"
    """A response or an error to which there is no open request."""
    NOTIFICATION = "notification"
    NOT_A_MESSAGE = "not a message"
    """A line, body or event that is not a JSON-RPC message."""
    EXCHANGE = "http"
    """An HTTP request that carries no request of JSON-RPC."""
    STDERR = "stderr"
    """Lines that the server wrote to stderr while no request was open. Successive lines are one row."""
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
    """No answer until the end of the recording, or, while it is made, none yet: then the call *waits*."""
    CANCELLED = "cancelled"
    """Cancelled before it was answered."""
    REFUSED = "refused"
    """Refused or answered by mcpproxy itself."""
    DECLINED = "declined"
    """The server does not have what the client asked for to learn just that: see ``error_outcome``,
    ``status_outcome`` and ``exchange_outcome``. Such an error is a part of a healthy session."""
    NONE = "none"
    """The row is not about something that has an answer."""
    UNREADABLE = "unreadable"
    """Answered over HTTP with a body that could not be decoded, or was not recorded. So nobody knows how the
    call ended."""


def latency_ns(asked_ns: int, answered_ns: int) -> int | None:
    """Return how long an answer took, in nanoseconds; ``None`` if nothing is known of that.

    Times are those since the recording began. An answer at its very beginning stands in a recording by
    another program without times. Two times that are equal are known: a clock may stand still for 16 ms
    (Windows).
    """
    return max(answered_ns - asked_ns, 0) if answered_ns else None


PROBE: Final = "server/discover"
"""The request with which a client asks a server for its revisions. An older server has no such request."""

_PROBED: Final = Innermost(PROBE)
_FAILURES: Final = frozenset({401, 403, 407, 408, 429})
"""Statuses below 500 that say nothing about what the server has."""

ERRORS: Final = frozenset({Outcome.TOOL_ERROR, Outcome.RPC_ERROR, Outcome.HTTP_ERROR})
"""The outcomes of calls that *failed*. What broke the protocol is a *finding*, which is another thing."""

UNSUCCESSFUL: Final = ERRORS | {Outcome.REFUSED, Outcome.UNANSWERED, Outcome.CANCELLED, Outcome.UNREADABLE}
"""The outcomes of calls of which nobody saw that they gave their caller what it asked for."""

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
"""How each outcome is called wherever people read it: terminal, page, lists, reports."""


def unanswered_word(*, running: bool) -> str:
    """Return how a call without an answer is called: it waits while the recording is made (``running``)."""
    return "waiting" if running else WORDS[Outcome.UNANSWERED]


def state_words(outcome: Outcome, code: int | None = None, *, running: bool = False) -> str:
    """Return the state of a call in words, such as ``tool error``, ``error -32602`` or ``HTTP 404``.

    ``code`` is its error code. The state is empty for a row that is not about something that has an answer.
    """
    if outcome is Outcome.UNANSWERED:
        return unanswered_word(running=running)
    if code is None or outcome not in (Outcome.RPC_ERROR, Outcome.HTTP_ERROR, Outcome.DECLINED):
        return WORDS[outcome]
    return f"HTTP {code}" if outcome is Outcome.HTTP_ERROR else f"{WORDS[outcome]} {code}"


@slotted(frozen=True)
class CallCounts:
    """How many calls there are, and how many of them were not successful (``UNSUCCESSFUL``), and how.

    ``failed`` are those of ``ERRORS``.
    """

    total: int
    failed: int
    unanswered: int
    cancelled: int = 0
    """A client that gives up after a time limit of its own cancels its call, as a person does."""
    refused: int = 0
    """Refused or answered by mcpproxy itself: the server was not reached, or was not to be."""
    declined: int = 0
    unreadable: int = 0
    """Answered with what could not be read."""

    @property
    def all_successful(self) -> bool:
        """Whether each call has an answer of its server that could be read, and none of these is an error of
        ``ERRORS``.

        A session of which all calls were declined came to nothing, so it is not successful.
        """
        return not self.unsuccessful(running=False)

    @property
    def _all_declined(self) -> int:
        return self.declined if self.declined == self.total else 0

    def unsuccessful(self, *, running: bool) -> list[tuple[int, str]]:
        """Return the numbers of such calls, with the word for each kind of them, without those of 0."""
        numbers = (
            (self.failed, "failed"),
            (self.refused, "refused"),
            (self.unanswered, unanswered_word(running=running)),
            (self.cancelled, WORDS[Outcome.CANCELLED]),
            (self.unreadable, str(Outcome.UNREADABLE)),
            (self._all_declined, WORDS[Outcome.DECLINED]),
        )
        return [(number, word) for number, word in numbers if number]

    def words(self, *, running: bool, waited: str = "") -> str:
        """Return the numbers in words: ``2 of 5 calls failed, 1 waiting``, or ``no failed calls``.

        With ``waited``, how long the oldest of those that wait has waited: ``1 waiting for 11.0 s``.
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
    """Return the numbers of calls, from how many of them ended in each way."""
    failed = sum(outcomes.get(outcome, 0) for outcome in ERRORS)
    others = (
        *(Outcome.UNANSWERED, Outcome.CANCELLED, Outcome.REFUSED, Outcome.DECLINED),
        Outcome.UNREADABLE,
    )
    return CallCounts(sum(outcomes.values()), failed, *(outcomes.get(outcome, 0) for outcome in others))


def sum_counts(counts: Iterable[CallCounts]) -> CallCounts:
    """Return the numbers of calls of several sessions together."""
    listed = tuple(counts)
    return CallCounts(
        sum(one.total for one in listed),
        sum(one.failed for one in listed),
        sum(one.unanswered for one in listed),
        sum(one.cancelled for one in listed),
        sum(one.refused for one in listed),
        sum(one.declined for one in listed),
        sum(one.unreadable for one in listed),
    )


UNKNOWN: Final = Innermost("")
"""Stands for a call of which nobody knows what it asks for."""


def outcome_of(answer: Response | ErrorResponse, asked: Innermost = UNKNOWN) -> Outcome:
    """Return how an answer ends its call. Who sent it is not asked: of mcpproxy's own, it is ``REFUSED``."""
    if isinstance(answer, ErrorResponse):
        return error_outcome(answer.error, asked)
    return outcome_of_result(answer.result, asked)


def outcome_of_result(result: JSON, asked: Innermost = UNKNOWN) -> Outcome:
    """Return how a result ends its call. One that carries an error of MCP is that error."""
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
    """Return how a JSON-RPC error ends a call. Who sent it is not asked.

    No single code tells a client that the server has no ``PROBE`` (2026-07-28, basic/transports/stdio
    § Backward Compatibility), but an internal error is a failure of what the server has.
    """
    if asked.method != PROBE or member(error, "code") == INTERNAL_ERROR or not asked.owns(error):
        return Outcome.RPC_ERROR
    return Outcome.DECLINED


def status_outcome(asked: Innermost, status: int, *, by_proxy: bool) -> Outcome:
    """Return how an HTTP status of 400 or more ends a call. A JSON-RPC answer in its body may say more.

    Source: 2026-07-28, basic/transports/streamable-http § Backward Compatibility.
    """
    if by_proxy:
        return Outcome.REFUSED
    is_decline = asked == _PROBED and status < 500 and status not in _FAILURES
    return Outcome.DECLINED if is_decline else Outcome.HTTP_ERROR


def unread_outcome(status: int) -> Outcome:
    """Return how a call ends whose exchange had this HTTP status and a body that could not be read.

    A redirect is followed by another exchange, and 202 says that the answer, if any, comes in another one.
    """
    return Outcome.UNREADABLE if 200 <= status < 300 and status != 202 else Outcome.UNANSWERED


def exchange_outcome(method: str, status: int, *, by_proxy: bool) -> Outcome:
    """Return how an HTTP request without a request of JSON-RPC ended.

    A server without a stream for GET answers 405, and one that lets no client end a session answers so to
    DELETE (2025-11-25, basic/transports § Listening for Messages from the Server, § Session Management).
    """
    if status == 405 and method in ("GET", "DELETE") and not by_proxy:
        return Outcome.DECLINED
    if by_proxy or status >= 400:
        return status_outcome(UNKNOWN, status, by_proxy=by_proxy)
    return Outcome.OK


def error_code(answer: Response | ErrorResponse, method: str = "") -> int | None:
    """Return the code of an error; ``None`` for a result, and for an error without a whole number.

    A result of ``method`` that carries an error of MCP has the code of that.
    """
    if isinstance(answer, ErrorResponse):
        code = member(answer.error, "code")
    else:
        code = carried_code(answer.result) if method in WRAPPERS else None
    return code if type(code) is int else None


def carried_code(result: JSON) -> JSON:
    """Return the code of the error of MCP that a result of one of ``WRAPPERS`` carries, or ``None``."""
    outcome = outcome_in(result)
    return None if "result" in outcome else member(outcome, "error", "code")
