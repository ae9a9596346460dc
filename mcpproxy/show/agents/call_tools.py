"""Tools that show one call or one frame, in parts if it is long."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import count
from mcpproxy.base.visible import visible, visible_lines
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import Frame, RequestHead, ResponseHead
from mcpproxy.read.view.call_members import milliseconds
from mcpproxy.read.view.calls import Detail, FoundRule, Part
from mcpproxy.read.view.causes import stderr_lines, stderr_preview
from mcpproxy.read.view.recording_entry import may_have_its_model
from mcpproxy.read.view.view import View
from mcpproxy.show.agents import cursors
from mcpproxy.show.agents.answer_types import CallDetail, CallRow, FindingRow, FrameText, PartRow
from mcpproxy.show.agents.call_rows import call_row
from mcpproxy.show.agents.errors import AgentError
from mcpproxy.show.agents.finding_rows import finding_row, rule_rows
from mcpproxy.show.agents.pages import ANSWER_BYTES, FRAME_BYTES, AnswerPage, beginning, cost
from mcpproxy.show.agents.recording_library import OpenedRecording, RecordingLibrary
from mcpproxy.show.agents.tool_arguments import Cursor, Full, Handle, Number

if TYPE_CHECKING:
    from mcpproxy.read.prompt.seen_call import SeenCalls

_MAX_PARTS: Final = 2000
"""How many records of a call are read at most."""
_BRIEF_PARTS: Final = 4
_BRIEF_FINDINGS: Final = 2
_BRIEF_BYTES: Final = 450
"""What get_call shows in brief: request, answer and two other records, each cut to so many bytes, and two
findings."""
_STDERR: Final = "stderr"
_PIECE_BYTES: Final = 8_000
"""How many bytes of a text outside frames, such as stderr, are shown at once."""
_LONGEST_TEXT: Final = 1 << 40
"""More than the length of any text; it divides the two parts of a position, see ``_full_parts``."""
_MAX_FINDINGS: Final = 8
"""How many findings are shown with a call; list_findings has the others."""


class CallTools:
    """Tools over single calls of the recordings of ``library``."""

    def __init__(self, library: RecordingLibrary) -> None:
        self._library: Final = library
        self._shown: _ShownFrame | None = None  # the last frame: the agent probably asks for its next page
        self._seen: SeenCalls | None = None

    def get_call(
        self, call: Number, recording: Handle = "", full: Full = False, cursor: Cursor = ""
    ) -> CallDetail:
        """Show a call: why it failed, its request, answer, findings, stderr; about 2 kB unless full."""
        opened = self._library.opened(self._library.find(recording))
        detail = self._detail(opened, call)
        if full or cursor:
            return self._full_detail(opened, detail, cursor)
        shown = detail.told[:_BRIEF_PARTS]
        findings = _finding_rows(opened, detail.findings[:_BRIEF_FINDINGS])
        more_findings = len(detail.findings) - len(findings)
        parts = list(_brief_parts(shown, _BRIEF_BYTES))
        is_brief = len(shown) < len(detail.told) or more_findings or any(part.cut for part in parts)
        return CallDetail(
            opened.handle,
            _row_without_cause(detail),
            parts,
            findings,
            cause=detail.cause,
            model_saw=self._model_saw(opened, detail),
            more_findings=more_findings,
            more=f"texts or some of {len(detail.told)} records are left out: full=true has them"
            if is_brief
            else "",
        )

    def _full_detail(self, opened: OpenedRecording, detail: Detail, cursor: str) -> CallDetail:
        """Return a call with its texts, from ``cursor`` on.

        Only the first page has the cause, the findings with their rules, and what the model saw.
        """
        question = ("get_call", opened.handle, detail.call.number)
        start, _ = cursors.read(question, cursor)
        findings = [] if start else _finding_rows(opened, detail.findings[:_MAX_FINDINGS])
        head = CallDetail(
            opened.handle,
            _row_without_cause(detail),
            [],
            findings,
            {} if start else rule_rows(detail.findings[:_MAX_FINDINGS]),
            0 if start else len(detail.findings) - len(findings),
            cause="" if start else detail.cause,
            model_saw="" if start else self._model_saw(opened, detail),
        )
        page, parts, next = AnswerPage(100, head), list[PartRow](), ""
        for position, part in _full_parts(detail.told, start):
            if not page.count_item(part):
                next = cursors.write(question, position)
                break
            parts.append(part)
        cut = [part.frame for part in parts if part.cut]
        more = [f"get_frame has cut texts whole, such as frame {cut[0]}"] if cut else []
        if detail.left_out:
            step = f"the user can see them with mcpproxy show {opened.handle} --call {detail.call.number}"
            more.append(f"{count(detail.left_out, 'record')} in the middle left out: {step}")
        return replace(head, parts=parts, next=next, more="; ".join(more))

    def _model_saw(self, opened: OpenedRecording, detail: Detail) -> str:
        """Return what the model saw of a call; empty if that is unknown, or takes too long to find out."""
        own, listed = opened.listed.entry, self._library.recordings(probes=True)
        entries = [recording.entry for recording in reversed(listed)]
        if detail.call.method != "tools/call" or not may_have_its_model(own, entries):
            return ""
        from mcpproxy.read.prompt.seen_call import SeenCalls

        if self._seen is None:
            self._seen = SeenCalls(self._library.refuse_unfit)
        try:
            seen = self._seen.of(own, entries, detail.call.number)
        except (AgentError, TraceError):
            return ""
        return self._library.shown("; ".join(seen.words)) if seen is not None else ""

    def _detail(self, opened: OpenedRecording, call: int) -> Detail:
        try:
            return opened.view.parts(call, _MAX_PARTS)
        except IndexError as fault:
            raise AgentError(f"{opened.handle}: {fault}; find_calls has their numbers") from None

    def get_frame(self, frame: Number, recording: Handle = "", cursor: Cursor = "") -> FrameText:
        """Show the text of a frame, as it was sent but for masked secrets. A long one has several pages."""
        opened = self._library.opened(self._library.find(recording))
        question = ("get_frame", opened.handle, frame)
        start, _ = cursors.read(question, cursor)
        shown = self._shown
        if shown is None or shown.view is not opened.view or shown.frame != frame:
            self._shown = shown = _shown_frame(opened, frame)
        head = FrameText(
            opened.handle,
            frame,
            shown.sender,
            milliseconds(shown.at_ns),
            text="",
            characters=len(shown.text),
            call=opened.view.columns.row_of(frame),
            next=cursors.write(question, len(shown.text)),
        )
        part = beginning(shown.text[start : start + ANSWER_BYTES], ANSWER_BYTES - cost(head))
        end = start + len(part)
        next = cursors.write(question, end) if end < len(shown.text) else ""
        return replace(head, text=part, next=next)


@dataclass(frozen=True, slots=True)
class _ShownFrame:
    """The text of a frame of ``view``, masked, with hidden characters as escapes."""

    view: View
    frame: int
    sender: str
    at_ns: int
    text: str


def _shown_frame(opened: OpenedRecording, frame: int) -> _ShownFrame:
    try:
        record = opened.view.record(frame)
    except LookupError as fault:
        known = "find_calls has the frames of calls"
        raise AgentError(f"{opened.handle}: {fault.args[0]}; {known}") from None
    sender, text = text_of_record(record)
    return _ShownFrame(opened.view, frame, sender, getattr(record, "observed_at_ns", 0), text)


def _row_without_cause(detail: Detail) -> CallRow:
    """Return the call as a row without its cause, which the answer has beside it in full."""
    return replace(call_row(detail.call), cause="")


def _finding_rows(opened: OpenedRecording, broken: tuple[FoundRule, ...]) -> list[FindingRow]:
    return [finding_row(opened, rule.finding, rule.row) for rule in broken]


def _brief_parts(parts: tuple[Part, ...], limit_bytes: int) -> Iterator[PartRow]:
    """Yield the parts in brief: the beginning of each text, or of long stderr the most telling line."""
    for part in parts:
        role, sender, text = _shown_part(part)
        shown = beginning(text, limit_bytes)
        if role == _STDERR and shown != text:
            shown = beginning(stderr_preview(part, 1)[0], limit_bytes)
        yield PartRow(role, milliseconds(part.at_ns), part.seq, sender, shown, len(text) - len(shown))


def _full_parts(parts: tuple[Part, ...], start: int) -> Iterator[tuple[int, PartRow]]:
    """Yield the parts from the position ``start`` on, each with its position.

    The text of a frame or HTTP head is cut, because get_frame returns it. Any other text, such as stderr,
    comes whole, in successive pieces. A position is the index of a part times ``_LONGEST_TEXT``, plus an
    index in its text.
    """
    first, at = divmod(start, _LONGEST_TEXT)
    for place, part in enumerate(parts[first:], first):
        role, sender, text = _shown_part(part)
        row = PartRow(role, milliseconds(part.at_ns), part.seq, sender)
        if part.seq:
            shown = beginning(text, FRAME_BYTES)
            yield place * _LONGEST_TEXT, replace(row, text=shown, cut=len(text) - len(shown))
        else:
            while True:
                piece = beginning(text[at : at + _PIECE_BYTES], _PIECE_BYTES)
                yield place * _LONGEST_TEXT + at, replace(row, text=piece)
                at += len(piece)
                if at >= len(text):
                    break
        at = 0


def _shown_part(part: Part) -> tuple[str, str, str]:
    """Return the role, the sender and the text of a part."""
    if on_stderr := stderr_lines(part):
        return _STDERR, "", "\n".join(on_stderr)
    sender, text = text_of_record(part.record)
    return part.role, sender, text or part.summary


def text_of_record(record: object) -> tuple[str, str]:
    """Return the sender and the text of a record, with hidden characters as escapes.

    Both are empty if the record is neither a frame nor an HTTP head.
    """
    match record:
        case Frame():
            return record.sender, visible_lines(record.raw.decode("utf-8", "backslashreplace"))
        case RequestHead():
            first_line, sender = f"{record.method} {record.target}", "client"
        case ResponseHead():
            first_line, sender = f"{record.status} {record.reason}", "server"
        case _:
            return "", ""
    lines = [first_line, *(f"{name}: {value}" for name, value in record.headers)]
    return sender, "\n".join(map(visible, lines))
