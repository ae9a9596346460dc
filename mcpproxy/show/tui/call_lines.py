"""A call as one line of the list: method and target, arguments, outcome and latency."""

from typing import Final

from mcpproxy.base.style import duration
from mcpproxy.judge.session.frame import Severity
from mcpproxy.judge.session.outcomes import Kind, Outcome, state_words, unanswered_word
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.causes import declined_words, error_words
from mcpproxy.show.tui.spans import Line, Span, Tone, cut, padded, width_of

WIDE: Final = 100
"""Lines of at least this width have the time of the call and the whole method."""

SLOW_NS: Final = 1_000_000_000
"""Latencies of at least this have the tone of a warning."""

_MARKS: Final[dict[Outcome, tuple[str, Tone]]] = {
    Outcome.OK: ("✓", "good"),
    Outcome.TOOL_ERROR: ("✗", "bad"),
    Outcome.RPC_ERROR: ("✗", "bad"),
    Outcome.HTTP_ERROR: ("✗", "bad"),
    Outcome.INPUT_REQUIRED: ("↻", "info"),
    Outcome.UNANSWERED: ("…", "bad"),
    Outcome.CANCELLED: ("⊘", "warning"),
    Outcome.REFUSED: ("⊗", "bad"),
    Outcome.DECLINED: ("⊖", "dim"),
    Outcome.NONE: ("·", "dim"),
    Outcome.UNREADABLE: ("?", "warning"),
}
"""Outcome -> its mark and tone. A failed call is ``bad``; one that was cancelled is a ``warning``."""

_WAITING: Final[tuple[str, Tone]] = ("…", "warning")
"""The mark and tone of a call whose answer may still come."""

SEVERITY_MARKS: Final[dict[Severity, tuple[str, Tone]]] = {
    "error": ("✗", "bad"),
    "warning": ("▲", "warning"),
    "info": ("i", "info"),
}
"""Severity of a finding -> its mark and tone, the worst first."""

_KINDS: Final = {
    Kind.ANSWER: "answer to no request",
    Kind.NOTIFICATION: "notification",
    Kind.NOT_A_MESSAGE: "not a message",
    Kind.EXCHANGE: "http",
    Kind.STDERR: "stderr",
    Kind.GAP: "gap",
}
"""Kind of a row -> its title if it has no method."""


def call_line(call: Call, width: int, *, digits: int = 3, waited_ns: int | None = None) -> Line:
    """Return a call in ``width`` columns.

    ``digits`` is the width of the call's number; ``waited_ns`` is how long a call that is still open has
    waited, ``None`` for other calls.
    """
    is_wide = width >= WIDE
    mark, tone = outcome_mark(call, waits=waited_ns is not None)
    left = [Span(f"{call.number:>{digits}} ", "dim"), Span(f"{mark} ", tone)]
    if is_wide:
        left.insert(1, Span(f"{offset(call.started_ns):>9} ", "dim"))
    right = [
        *findings_mark(call.severity, call.findings, call.worst_findings),
        Span(" "),
        _time_span(call, waited_ns),
    ]
    room = width - sum(width_of(span.text) for span in (*left, *right))
    middle = _middle_spans(call, room, full=is_wide, waits=waited_ns is not None)
    space = Span(" " * max(room - sum(width_of(span.text) for span in middle), 0))
    return (*left, *middle, space, *right)


def _middle_spans(call: Call, room: int, *, full: bool, waits: bool) -> Line:
    """Return direction, name, arguments and result in at most ``room`` columns."""
    direction = ("  ↳ " if call.parent else "") + ("← " if call.sender == "server" else "→ ")
    words, tone = outcome_words(call, waits=waits)
    answer = error_words(call) or declined_words(call)
    answer = answer or ": ".join(filter(None, (words, call.said)))
    result = ("; " if call.said else ": ").join(filter(None, (answer, call.cause)))
    result = f" ⇒ {result}" if result else ""
    result += f" ({call.intervention})" if call.intervention else ""
    arguments = f" {call.arguments}" if call.arguments not in ("", "{}") else ""
    room -= len(direction)
    # The name gets the room that it needs, except the room reserved for arguments and result.
    reserved = min(width_of(arguments) + width_of(result), 24)
    name = cut(title(call, full=full), max(room * 3 // 5, room - reserved))
    room -= width_of(name)
    if width_of(arguments) + width_of(result) > room:
        arguments = cut(arguments, max(room // 2, room - width_of(result)))
        result = cut(result, room - width_of(arguments))
    spans = (Span(direction, "dim"), Span(name, "strong"), Span(arguments, "dim"), Span(result, tone))
    return tuple(span for span in spans if span.text)


def title(call: Call, *, full: bool = True) -> str:
    """Return the method of a call and its target.

    Unless ``full``, a call of a tool is only the tool's name.
    """
    if call.target and call.method == "tools/call" and not full:
        return call.target
    return " ".join(filter(None, (call.method or _KINDS.get(call.kind, ""), call.target)))


def may_be_answered(call: Call) -> bool:
    """Whether an answer may still come, as long as the recording runs."""
    return call.outcome is Outcome.UNANSWERED and not call.closed


def outcome_mark(call: Call, *, waits: bool = False) -> tuple[str, Tone]:
    """Return the mark and the tone of an outcome.

    A call whose answer may be in a part that was not read yet has those of one that ``waits``.
    """
    is_unread = call.outcome is Outcome.UNANSWERED and call.waited_ns is None
    return _WAITING if waits or is_unread else _MARKS[call.outcome]


def loss_tone(word: str) -> Tone:
    """Return the tone for a number of unsuccessful calls; ``word`` is from ``CallCounts.unsuccessful``."""
    if word in ("failed", unanswered_word(running=True)):
        return "bad" if word == "failed" else _WAITING[1]
    return _MARKS[Outcome(word)][1]


def outcome_words(call: Call, *, waits: bool = False) -> tuple[str, Tone]:
    """Return the outcome of a call in words, and their tone. A usual result has no words.

    ``waits`` is whether its answer may still come.
    """
    if call.outcome in (Outcome.OK, Outcome.NONE):
        return "", "plain"
    if call.outcome is Outcome.UNANSWERED and call.waited_ns is None:
        return "not read yet", "dim"
    return state_words(call.outcome, call.error_code, running=waits), outcome_mark(call, waits=waits)[1]


def findings_mark(severity: Severity | None, total: int, worst: int, *, before: str = " ") -> list[Span]:
    """Return the mark of the worst severity, the number ``worst`` of its findings, and a + for others.

    ``total`` is the number of findings of all severities. The result is empty without a severity. ``before``
    is put before the mark.
    """
    if severity is None:
        return []
    mark, tone = SEVERITY_MARKS[severity]
    return [Span(f"{before}{mark}{worst:,}{'+' if total > worst else ''}", tone)]


def _time_span(call: Call, waited_ns: int | None) -> Span:
    """Return the latency of a call, or how long it has waited or did wait; spaces if neither is known."""
    ns = call.waited_ns if call.latency_ns is None else call.latency_ns
    if waited_ns is not None or (ns and call.outcome is Outcome.UNANSWERED):
        tone = outcome_mark(call, waits=waited_ns is not None)[1]
        return Span(f"{duration(waited_ns or ns or 0):>7}", tone)
    if ns is None or call.outcome is Outcome.UNANSWERED:
        return Span(" " * 7)
    return Span(f"{duration(ns):>7}", "warning" if ns >= SLOW_NS else "dim")


def offset(ns: int) -> str:
    """Return a time since the start of the recording: ``12.345``, ``3:12.3``, ``1:03:12``."""
    if ns < 59_999_500_000:
        return f"{ns / 1e9:.3f}"
    tenths = round(ns / 1e8)  # rounded before it is divided, so that no part becomes 60
    minutes, rest = divmod(tenths, 600)
    if minutes < 60:
        return f"{minutes}:{rest / 10:04.1f}"
    return f"{minutes // 60}:{minutes % 60:02}:{rest // 10:02}"


def heading(width: int, digits: int) -> Line:
    """Return the names of the columns of ``call_line``, whose ``width`` and ``digits`` these are."""
    left = f"{'#':>{digits}} " + (f"{'time':>9} " if width >= WIDE else "")
    return (Span(padded(f"{left}  call, arguments ⇒ answer", width - 8), "dim"), Span("    took", "dim"))
