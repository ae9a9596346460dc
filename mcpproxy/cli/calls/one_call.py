"""One call with everything that belongs to it: its messages laid out, HTTP heads, findings."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.style import Style, duration, size
from mcpproxy.base.visible import visible
from mcpproxy.cli.calls.lines_of_calls import CallLines, seconds
from mcpproxy.cli.calls.listing import content_lines, head_lines
from mcpproxy.session.frame import ExchangeEnd, Frame, RequestHead, ResponseHead, Stderr
from mcpproxy.view.calls import FoundRule, Part
from mcpproxy.view.view import View

_INDENT: Final = "  "


def detail(view: View, number: int, style: Style) -> Iterator[str]:
    """Yield the lines of one call."""
    call_detail = view.parts(number)
    call = call_detail.call
    yield from CallLines(style).call(call, is_running=view.running)
    facts = [f"{call.sender} to {'client' if call.sender == 'server' else 'server'}"]
    facts += [f"id {call.id}"] if call.id else []
    facts += [f"session {name}"] if (name := view.index.session_name(call.session)) else []
    facts += [f"in call {call.parent}"] if call.parent else []
    facts += [f"{size(call.request_bytes)} out, {size(call.answer_bytes)} back"] if call.answer else []
    yield style.paint(_INDENT + ", ".join(map(visible, facts)), "dim")
    for part in call_detail.parts:
        yield ""
        yield from _part_lines(part, number, call.started_ns, style)
    for finding in call_detail.findings:
        yield ""
        yield from rule_lines(finding, style)
    yield ""


def _part_lines(part: Part, number: int, started_ns: int, style: Style) -> Iterator[str]:
    record = part.record
    after = f"+{duration(part.at_ns - started_ns)}" if part.at_ns > started_ns else ""
    where = f"frame {part.seq}" if part.seq else ""
    inner = f"call {part.row}" if part.row != number else ""
    words = "  ".join(filter(None, (where, seconds(part.at_ns).strip() + " s", after, inner)))
    yield f"{style.paint(str(part.role), 'bold')}  {style.paint(words, 'dim')}"
    if isinstance(record, Frame):
        yield from content_lines(record, _INDENT, style)
    elif isinstance(record, RequestHead | ResponseHead | ExchangeEnd):
        yield from head_lines(part, _INDENT, style, fields=True)
    elif isinstance(record, Stderr):
        yield _INDENT + visible(record.raw.decode("utf-8", "backslashreplace"))
    else:
        yield _INDENT + part.summary


def rule_lines(found: FoundRule, style: Style) -> Iterator[str]:
    """Yield a finding with the sentence of the specification, what to do instead, and a link."""
    finding = found.finding
    yield from CallLines(style).finding(finding, where=f" (frame {finding.frame})" if finding.frame else "")
    lines = CallLines(style)
    if finding.pointer:
        yield from lines.note(f"  at {visible(finding.pointer)}", "dim")
    for text in (found.sentence, found.instead):
        if text:
            yield from lines.note(f"  {visible(text)}")
    if found.link:
        yield f"{lines.indent}  {style.paint(visible(found.link), 'dim')}"
