"""The detail of a call as lines: its facts, its findings, the records that belong to it, and its notes.

Notes are the findings of severity ``info``.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.style import count, duration, size
from mcpproxy.base.visible import visible, visible_lines
from mcpproxy.judge.session.frame import Frame, RequestHead, ResponseHead, Sender, Stderr
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.protocol.jsonrpc import Malformed
from mcpproxy.read.view.calls import Call, Detail, FoundRule, Part, Role
from mcpproxy.read.view.causes import stderr_lines, stderr_preview
from mcpproxy.read.view.recorded_findings import fold_found
from mcpproxy.show.tui.call_lines import SEVERITY_MARKS, offset, outcome_mark, outcome_words, title
from mcpproxy.show.tui.json_lines import json_lines
from mcpproxy.show.tui.spans import Line, Span

SHOWN_BYTES: Final = 100_000
"""How many bytes of one message are shown at most."""

_SHOWN_WHOLE: Final = frozenset(
    {
        Role.REQUEST,
        Role.ANSWER,
        Role.GIVEN,
        Role.INNER_REQUEST,
        Role.INNER_ANSWER,
        Role.BODY,
        Role.CUT_EVENT,
        Role.OTHER,
        Role.CANCEL,
    }
)
"""The roles whose messages are shown whole. Others are one line, unless shown raw or the only record."""

_STDERR_LINES: Final = 10
"""How many lines of a call's stderr are shown, unless it is shown raw or is the only record."""

_INDENT: Final = 2


def detail_lines(
    detail: Detail, width: int, *, raw: bool = False, waited_ns: int | None = None
) -> Iterator[Line]:
    """Yield a call with everything that belongs to it.

    With ``raw``, every message is shown as the bytes that were sent, the head of every HTTP message with its
    fields, and stderr from its first line on. ``waited_ns`` is how long a call that is still open has waited,
    ``None`` for other calls.
    """
    call = detail.call
    yield _fact_line(call, waited_ns)
    if detail.cause:
        is_failed = outcome_mark(call, waits=waited_ns is not None)[1] == "bad"
        yield (Span(detail.cause, "bad" if is_failed else "warning"),)
    folded_findings = list(fold_found(detail.findings))
    for finding, folded in folded_findings:
        if finding.finding.severity != "info":
            yield from finding_lines(finding, more=folded.count_text)
    is_alone = len(detail.parts) == 1
    for part in detail.told:
        yield from _part_lines(part, call, width, raw=raw, whole=is_alone or part.role in _SHOWN_WHOLE)
    if detail.left_out:
        yield (Span(f"… {count(detail.left_out, 'more record')} in the middle …", "warning"),)
    for finding, folded in folded_findings:
        if finding.finding.severity == "info":  # only a note, so it comes after the result
            yield from finding_lines(finding, more=folded.count_text)


def _fact_line(call: Call, waited_ns: int | None) -> Line:
    """Return the first line of the detail: the call with its outcome, duration, id, time, sizes and so on."""
    words, tone = outcome_words(call, waits=waited_ns is not None)
    mark, mark_tone = outcome_mark(call, waits=waited_ns is not None)
    facts: list[str] = []
    if call.outcome is Outcome.UNANSWERED and (waited_ns or call.waited_ns):
        facts.append(f"for {duration(waited_ns or call.waited_ns or 0)}")
    elif call.latency_ns is not None:
        facts.append(duration(call.latency_ns))
    if call.id:
        facts.append(f"id {call.id}")
    facts.append(f"at {offset(call.started_ns)} s")
    sent = size(call.request_bytes)
    facts.append(f"{sent} → {size(call.answer_bytes)}" if call.answer else sent)
    if call.intervention:
        facts.append(call.intervention)
    if call.parent:
        facts.append(f"within call {call.parent}")
    spans = [Span(f"{mark} ", mark_tone), Span(title(call), "strong"), Span("  ")]
    spans.append(Span(words or ("ok" if call.outcome is Outcome.OK else str(call.kind)), tone))
    return (*spans, Span(f"  {'  '.join(facts)}", "dim"))


def finding_lines(found_rule: FoundRule, *, indent: int = 0, more: str = "") -> Iterator[Line]:
    """Yield a finding: its message, the sentence of the specification, what to do instead, and a link.

    Without a sentence, the summary of the rule takes its place. ``more`` is a text about further findings
    with the same message.
    """
    finding, space = found_rule.finding, " " * indent
    mark, tone = SEVERITY_MARKS[finding.severity]
    rule = " ".join(filter(None, (visible(finding.rule), found_rule.name)))
    where = f"  frame {finding.frame}" if finding.frame else "  the whole session"
    yield (Span(f"{space}{mark} {finding.severity} ", tone), Span(rule, "strong"), Span(where, "dim"))
    yield (Span(f"{space}  "), Span(visible(finding.message), tone))
    if more:
        yield (Span(f"{space}  "), Span(visible(more), "dim"))
    for name, text in (
        ("The specification: ", found_rule.sentence),
        ("The rule: ", "" if found_rule.sentence else found_rule.summary),
        ("Instead: ", found_rule.instead),
        ("", found_rule.link),
    ):
        if text:
            yield (Span(f"{space}  "), Span(name, "dim"), Span(visible(text), "plain" if name else "dim"))


def _part_lines(part: Part, call: Call, width: int, *, raw: bool, whole: bool) -> Iterator[Line]:
    """Yield a record of a call: one line, or if ``raw`` or ``whole``, all of its message."""
    record = part.record
    sender: Sender | None = record.sender if isinstance(record, Frame) else None
    arrow = {"client": "→", "server": "←", None: "·"}[sender]
    wait_ns = part.at_ns - call.started_ns
    when = f"+{duration(wait_ns)}" if wait_ns > 0 else f"{offset(part.at_ns)} s"
    frame = "" if part.seq is None else f"  frame {part.seq}"
    role = str(call.kind) if part.role is Role.MESSAGE and call.kind is not Kind.REQUEST else str(part.role)
    if isinstance(record, Stderr):
        yield (Span(f"{arrow} stderr", "info"), Span(f"  {when}  {count(part.lines, 'line')}", "dim"))
        lines = stderr_lines(part, SHOWN_BYTES)
        if not (raw or whole) and len(lines) > _STDERR_LINES:
            preview = stderr_preview(part, _STDERR_LINES)
            left_out = count(len(lines) - len(preview), "line")
            place = "before" if preview == lines[-len(preview) :] else "left out"
            yield (Span(f"{' ' * _INDENT}… {left_out} {place}: r shows all", "dim"),)
            lines = preview
        yield from ((Span(" " * _INDENT), Span(line, "text")) for line in lines)
        return
    head = (Span(f"{arrow} {role}", "info"), Span(f"{frame}  {when}", "dim"))
    if not (raw or whole):
        yield (*head, Span("  "), Span(part.summary))
        return
    match record:
        case Frame() if record.raw:
            inner = f"  call {part.row}" if part.row != call.number else ""
            yield (*head, Span(inner, "dim"))
            yield from message_lines(record, width, raw=raw)
        case RequestHead() | ResponseHead():
            yield (*head, Span("  "), Span(part.summary))
            for name, value in record.headers if raw else ():
                yield (
                    Span(" " * _INDENT),
                    Span(visible(name), "key"),
                    Span(": "),
                    Span(visible(value), "text"),
                )
        case _:
            yield (*head, Span("  "), Span(part.summary))


def message_lines(frame: Frame, width: int, *, raw: bool = False) -> Iterator[Line]:
    """Yield a message laid out for reading, at most ``SHOWN_BYTES`` of it.

    With ``raw``, or if it is not a message of JSON-RPC, its bytes are shown as text.
    """
    shown = frame.raw[:SHOWN_BYTES]
    is_json = not raw and not isinstance(frame.message, Malformed)
    text = shown.decode("utf-8", "replace" if is_json else "backslashreplace")
    laid_out = json_lines(text, width, _INDENT) if is_json else None
    if laid_out is not None:
        yield from laid_out
    else:
        for line in visible_lines(text.rstrip("\n")).split("\n"):
            yield (Span(" " * _INDENT), Span(line, "text"))
    if (hidden_bytes := len(frame.raw) - len(shown)) > 0:
        yield (Span(f"{' ' * _INDENT}… {size(hidden_bytes)} more, not shown here", "warning"),)
