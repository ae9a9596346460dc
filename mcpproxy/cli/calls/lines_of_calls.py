"""Calls as lines for people: one line for each call, with its findings below it.

    call seconds                                                                took
       4   0.100 tools/call forecast {"city":"Oslo"} → Oslo: sunny           12.0 ms

A request of the server begins with an arrow to the left. ``→`` comes before an answer, ``✗`` before an error
or a cancellation, ``…`` if there is no answer. If the style has a width, arguments and results are cut so
that a call takes one line; an error or a cause that does not fit that line gets lines of its own, and is
never cut.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mcpproxy.base.style import SEVERITY_COLOUR, Colour, Style, columns, duration
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.folding import fold
from mcpproxy.judge.session.frame import SERVER, Finding
from mcpproxy.judge.session.outcomes import Kind, Outcome, state_words
from mcpproxy.read.view.calls import Call, SessionSummary
from mcpproxy.read.view.causes import declined_words, error_words

SLOW_NS: Final = 1_000_000_000
"""Latencies of at least this are yellow."""

_TOOK_COLUMNS: Final = 8
"""Columns for the duration at the end of a line."""
_LEAST_ROOM: Final = 12
"""Columns that arguments and answer get at least."""
_NARROWEST: Final = 40
"""Columns beside the gutter (number, time, session), however narrow the terminal is."""


class CallLines:
    """Makes the lines of calls.

    ``sessions`` maps the number of a session to the mark of its calls; it is empty for a single session.
    """

    def __init__(self, style: Style, sessions: Mapping[int, str] | None = None) -> None:
        self._style: Final = style
        self.sessions: Mapping[int, str] = sessions or {}

    @property
    def heading(self) -> str:
        """The names of the columns."""
        mark = f" {'session':<{self._mark_width}}"[: self._mark_width + 1] if self.sessions else ""
        left = f"{'call':>4} {'seconds':>7}{mark} "
        took = "took".rjust(_TOOK_COLUMNS)
        if self._style.width is None:
            return left.rstrip()
        return left.ljust(max(self._style.width - _TOOK_COLUMNS, len(left))) + took

    @property
    def indent(self) -> str:
        """The space before lines that belong to a call."""
        return " " * (13 + (self._mark_width + 1 if self.sessions else 0))

    @property
    def _mark_width(self) -> int:
        return max(map(len, self.sessions.values()), default=0)

    def call(self, call: Call, *, is_running: bool = False, is_inner: bool = False) -> list[str]:
        """Return the lines of a call. With ``is_inner``, it is indented below the call that it belongs to.

        With ``is_running``, an answer may still come.
        """
        style = self._style
        gutter = f"{call.number:>4} {seconds(call.started_ns)} "
        if self.sessions:
            gutter += f"{self.sessions.get(call.session, ''):<{self._mark_width}} "
        inset = "  " if is_inner else ""
        name, colour = _name_and_colours(call, style)
        mark, answer, answer_colour = _answer_parts(call, style, is_running=is_running and not call.closed)
        took = "" if call.latency_ns is None else duration(call.latency_ns)
        arguments = call.arguments
        below = ""
        room = None if style.width is None else max(style.width - len(gutter) - len(inset), _NARROWEST)
        note = f" ({call.intervention})" if call.intervention else ""
        if room is not None:
            room = max(room - (_TOOK_COLUMNS + 1 if took else 0) - columns(note), _LEAST_ROOM)
            beside = min(columns(arguments) + columns(answer), _LEAST_ROOM)
            name = style.shorten(name, room - (beside + len(mark) + 3 if beside else 0))
            room -= columns(name) + 1
            is_long = columns(answer) + len(mark) + 2 > room - min(columns(arguments), room // 3)
            if is_long and (call.is_error or call.outcome is Outcome.REFUSED or call.cause):
                mark, below, answer = "", f"{mark} {answer}", ""
                arguments = style.shorten(arguments, room)
            elif answer:
                arguments, answer = _fit_both(style, arguments, answer, room - len(mark) - 2)
            else:
                arguments = style.shorten(arguments, room)
        painted = style.paint(name, *colour)
        if arguments:
            painted += f" {arguments}"
        painted_answer = style.paint(f"{mark} {answer}".strip(), *answer_colour)
        line = f"{style.paint(gutter, 'dim')}{inset}{painted}"
        line += f" {painted_answer}" if painted_answer else ""
        line += style.paint(note, "yellow")
        if took:
            plain = len(gutter) + len(inset) + columns(name)
            plain += columns(arguments) + bool(arguments)
            plain += columns(f"{mark} {answer}".strip()) + bool(painted_answer) + columns(note)
            is_slow = call.latency_ns is not None and call.latency_ns >= SLOW_NS
            shown = style.paint(took, "yellow" if is_slow else "dim")
            gap = 2 if style.width is None else max(style.width - plain - len(took), 1)
            line += " " * gap + shown
        lines = [line]
        lines += [self.indent + inset + style.paint(part, *answer_colour) for part in self._wrap(below)]
        return lines

    def findings(self, findings: Iterable[Finding], *, where: str = "") -> Iterator[str]:
        """Yield the lines of findings; those with the same text share one line, with a count.

        ``where`` names the subject of the findings if it is not the line above.
        """
        for folded in fold(findings):
            more = f"; {visible(folded.count_text)}" if folded.others else ""
            yield from self.finding(folded.first, where=where + more)

    def finding(self, finding: Finding, *, where: str = "") -> list[str]:
        """Return the lines of a finding; ``where`` names its subject if it is not the line above."""
        from mcpproxy.read.reports.text import finding_line  # most recordings have no findings

        text = finding_line(finding) + where
        first, *rest = self._wrap(text, 2)
        head = f"{finding.severity} {visible(finding.rule)}"
        style = self._style
        painted = style.paint(first[: len(head)], "bold", SEVERITY_COLOUR[finding.severity])
        mark = style.paint("└" if style.unicode else "`", "dim")
        return [f"{self.indent}{mark} {painted}{first[len(head) :]}", *(f"{self.indent}  {x}" for x in rest)]

    def note(self, text: str, *colour: Colour) -> list[str]:
        """Return ``text`` as lines below a call."""
        return [self.indent + self._style.paint(part, *colour) for part in self._wrap(text)]

    def _wrap(self, text: str, taken: int = 0) -> list[str]:
        """Return ``text`` wrapped to the width beside the gutter and ``taken`` columns; none if empty."""
        if not text:
            return []
        width = self._style.width
        room = 0 if width is None else max(width - len(self.indent) - taken, _NARROWEST)
        if not room or columns(text) <= room:
            return [text]
        import textwrap  # rarely needed, and never in a pipe

        return textwrap.wrap(text, room, break_on_hyphens=False)


def seconds(ns: int) -> str:
    """Return a time since the start in seven columns: ``0.100``, ``3599.9``, ``86400.0``."""
    at_s = ns / 1e9
    return f"{at_s:7.3f}" if at_s < 999.9995 else f"{at_s:7.1f}" if at_s < 99_999.95 else f"{at_s:7.0f}"


def session_marks(sessions: Sequence[SessionSummary]) -> dict[int, str]:
    """Return the number of each session -> its mark, the shortest beginning that makes all names differ.

    A mark has at least four characters, if the name has them. The result is empty for a single session, which
    needs no mark.
    """
    if len(sessions) < 2:
        return {}
    names = {session.name for session in sessions}
    length = next(n for n in range(4, 99) if len({name[:n] for name in names}) == len(names) or n == 98)
    return {session.number: session.name[:length] for session in sessions}


def _fit_both(style: Style, arguments: str, answer: str, room: int) -> tuple[str, str]:
    """Return arguments and answer, cut to ``room`` columns together; the shorter of them is cut last."""
    room = max(room, _LEAST_ROOM)
    of_arguments, of_answer = columns(arguments), columns(answer)
    if of_arguments + of_answer <= room:
        return arguments, answer
    limit = max(room // 2, room - of_answer)
    arguments = style.shorten(arguments, limit)
    return arguments, style.shorten(answer, room - columns(arguments))


def _name_and_colours(call: Call, style: Style) -> tuple[str, tuple[Colour, ...]]:
    """Return the name of a row, and its colours."""
    arrow = ("← " if style.unicode else "<- ") if call.sender == SERVER else ""
    match call.kind:
        case Kind.REQUEST | Kind.NOTIFICATION | Kind.EXCHANGE:
            name = f"{arrow}{call.method}" + (f" {call.target}" if call.target else "")
            return name, ("bold",) if call.kind is Kind.REQUEST else ()
        case Kind.ANSWER:
            id = f" (id {call.id})" if call.id else ""
            return f"{arrow}answer to no open request{id}", ("yellow",)
        case Kind.NOT_A_MESSAGE:
            return f"{arrow}not a message:", ("yellow",)
        case Kind.STDERR:
            return "stderr:", ("dim",)
        case Kind.GAP:
            return "not recorded:", ("yellow",)


def _answer_parts(call: Call, style: Style, *, is_running: bool) -> tuple[str, str, tuple[Colour, ...]]:
    """Return the symbol before the answer, the answer in words, and its colours."""
    good, bad = ("→", "✗") if style.unicode else ("->", "x")
    if words := error_words(call):
        return bad, words, ("bold", "red")
    match call.outcome:
        case Outcome.UNANSWERED:
            state = state_words(call.outcome, running=is_running)
            state += f" for {duration(call.waited_ns)}" if call.waited_ns else ""
            state += f", {call.progress}" if call.progress else ""
            state += f": {call.cause}" if call.cause else ""
            return style.ellipsis, state, ("yellow",) if is_running else ("bold", "red")
        case Outcome.CANCELLED:
            waited = "" if call.waited_ns is None else f" after {duration(call.waited_ns)}"
            waited += f", {call.progress}" if call.progress else ""
            late = f", then answered: {call.result}" if call.result else ""
            why = f": {call.cause}" if call.cause else ""
            by = f" by the {call.sender}"  # none but the peer that sent a request can cancel it
            return bad, f"{state_words(call.outcome)}{by}{waited}{late}{why}", ("yellow",)
        case Outcome.UNREADABLE:
            why = f": {call.cause}" if call.cause else ""
            return good, f"{state_words(call.outcome)}{why}", ("yellow",)
        case Outcome.DECLINED:
            return good, declined_words(call), ("dim",)
        case Outcome.INPUT_REQUIRED:
            return good, f"{state_words(call.outcome)}: {call.result}", ("yellow",)
        case _:
            return (good, call.said, ()) if call.said else ("", "", ())
