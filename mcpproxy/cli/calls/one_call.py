"""One call with everything that belongs to it: its messages laid out, HTTP heads, findings."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import Style, count, duration, size
from mcpproxy.base.visible import visible
from mcpproxy.cli.calls.lines_of_calls import CallLines, seconds
from mcpproxy.cli.calls.listing import content_lines, head_lines
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import ExchangeEnd, Frame, RequestHead, ResponseHead, Stderr
from mcpproxy.read.view.calls import FoundRule, Part
from mcpproxy.read.view.causes import LOST, error_words, stderr_lines
from mcpproxy.read.view.folder import recording, recordings
from mcpproxy.read.view.recording_entry import may_have_its_model
from mcpproxy.read.view.view import View

if TYPE_CHECKING:
    from mcpproxy.read.prompt.seen_call import SeenCall

_INDENT: Final = "  "


class ModelSide:
    """Finds out what a language model saw of the calls in the recording at ``path``.

    That is known if the interface of the model was recorded beside it, with ``mcpproxy model``.
    """

    def __init__(self, path: str) -> None:
        self._path: Final = os.path.abspath(path)

    def words(self, number: int) -> tuple[str, ...]:
        """Return clauses about call ``number``; none if nothing is known, or a recording cannot be read."""
        try:
            seen = self._seen and self._seen(number)
        except TraceError:
            return ()
        return seen.words if seen else ()

    @cached_property
    def _seen(self) -> "Callable[[int], SeenCall | None] | None":
        """The function that returns what the model saw of a call; ``None`` if no model was recorded."""
        own, entries = recording(self._path), recordings(os.path.dirname(self._path))
        if not may_have_its_model(own, entries):
            return None
        from mcpproxy.read.prompt.seen_call import SeenCalls

        return partial(SeenCalls().of, own, entries)


def detail(view: View, number: int, style: Style, model_side: ModelSide) -> Iterator[str]:
    """Yield the lines of call ``number``: its facts and records, what the model saw, and the findings."""
    call_detail = view.parts(number)
    call = call_detail.call
    lines = CallLines(style)
    yield from lines.call(replace(call, cause=""), is_running=view.running)
    if call_detail.cause and call_detail.cause != f"{error_words(call)}.":
        colours = ("bold", "red") if call.outcome in LOST else ("yellow",)
        yield from lines.note(call_detail.cause, *colours)
    facts = [f"{call.sender} to {'client' if call.sender == 'server' else 'server'}"]
    facts += [f"id {call.id}"] if call.id else []
    facts += [f"session {name}"] if (name := view.index.session_name(call.session)) else []
    facts += [call.intervention] if call.intervention else []
    facts += [f"in call {call.parent}"] if call.parent else []
    sizes = (call.request_bytes, call.answer_bytes)  # of messages; other HTTP bodies have their own lines
    facts += [f"{size(sizes[0])} out, {size(sizes[1])} back"] if call.answer and any(sizes) else []
    yield style.paint(_INDENT + ", ".join(map(visible, facts)), "dim")
    for part in call_detail.told:
        yield ""
        yield from _part_lines(part, number, call.started_ns, style)
    if call.method == "tools/call" and (words := model_side.words(number)):
        yield ""
        yield style.paint("the model saw", "bold")
        yield from (_INDENT + clause for clause in words)
    for finding in call_detail.findings:
        yield ""
        yield from rule_lines(finding, style)
    yield ""


def _part_lines(part: Part, number: int, started_ns: int, style: Style) -> Iterator[str]:
    """Yield a heading for a record of the call, then its content.

    The heading has the time since the start of the recording, and the time since the start of the call.
    """
    record = part.record
    after = f"+{duration(part.at_ns - started_ns)}" if part.at_ns > started_ns else ""
    where = f"frame {part.seq}" if part.seq else ""
    inner = f"call {part.row}" if part.row != number else ""
    lines = count(part.lines, "line") if part.lines > 1 else ""
    words = "  ".join(filter(None, (where, seconds(part.at_ns).strip() + " s", after, inner, lines)))
    role = "stderr" if isinstance(record, Stderr) else str(part.role)
    yield f"{style.paint(role, 'bold')}  {style.paint(words, 'dim')}"
    if isinstance(record, Frame) and record.raw:
        yield from content_lines(record, _INDENT, style)
    elif isinstance(record, RequestHead | ResponseHead | ExchangeEnd):
        yield from head_lines(part, _INDENT, style, fields=True)
    elif isinstance(record, Stderr):
        yield from (f"{_INDENT}{line}".rstrip() for line in stderr_lines(part))
    else:
        yield _INDENT + part.summary


def rule_lines(broken_rule: FoundRule, style: Style) -> Iterator[str]:
    """Yield a finding with the sentence of the specification, what to do instead, and a link."""
    finding = broken_rule.finding
    yield from CallLines(style).finding(finding, where=f" (frame {finding.frame})" if finding.frame else "")
    lines = CallLines(style)
    if finding.pointer:
        yield from lines.note(f"  at {visible(finding.pointer)}", "dim")
    for text in (broken_rule.sentence, broken_rule.instead):
        if text:
            yield from lines.note(f"  {visible(text)}")
    if broken_rule.link:
        yield f"{lines.indent}  {style.paint(visible(broken_rule.link), 'dim')}"
