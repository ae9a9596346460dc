"""Show a session as text for people: one line per frame, with its findings below, and stderr in between.

Columns of fixed width come first (frame number, seconds since the start, time until the response, size), then
the arrow and the text, so lines can be printed before the next events are known. A finding that does not
directly follow its frame names the frame.

Over HTTP, heads have lines as well, and ``#7`` before the text is the number of the exchange. The beginning
and end of a connection, and the end of an exchange that was not cut, are shown only with ``full``.
"""

import textwrap
from collections import Counter
from typing import Final, assert_never

from mcpproxy.base.style import PLAIN, Style, count, decoded, duration, size, tally
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.ending import ending_text
from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import (
    Close,
    Eof,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    HttpEvent,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Signal,
    Stderr,
)
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import Absent, Batch, RequestId
from mcpproxy.read.reports.text import finding_head, finding_line
from mcpproxy.read.reports.transcripts.preview import SHORT_BYTES, preview
from mcpproxy.record.trace.conversation import Conversation, Turn
from mcpproxy.record.trace.records import Header, Tally

INDENT: Final = " " * 34
"""As wide as the columns before the arrow."""
PAYLOAD_COLUMNS: Final = 160
"""How many characters of a payload are shown if the output is not a terminal."""

HEADING: Final = f"{'frame':>5} {'seconds':>9} {'took':>8} {'size':>8}"

_HEADER: Final = Header()


class Transcript:
    """Turns the events of one session into lines, in order.

    ``full`` shows each payload completely, on its own line. ``header`` is the header of the recording.
    """

    def __init__(self, style: Style = PLAIN, *, full: bool = False, header: Header = _HEADER) -> None:
        self._style: Final = style
        self._full: Final = full
        self._header: Final = header
        self._conversation: Final = Conversation()
        self._sent: Final = Tally()
        self._found: Final[Counter[str]] = Counter()
        self._last_frame = 0
        self._requested_at_ns: Final[dict[int, int]] = {}  # exchange -> time of its request
        self._non_message_exchanges: Final[set[int]] = set()  # exchanges whose bodies need not be messages

    def lines(self, event: Event | Finding) -> list[str]:
        """Return the lines to print for ``event``; none for an event that only ``full`` shows."""
        match event:
            case RequestHead() | ResponseHead() | ExchangeEnd() | Opaque() | Note():
                return self._http_lines(event)
            case Frame():
                self._sent.count(event)
                self._last_frame = event.seq
                return self._frame_lines(event)
            case Finding():
                self._found[event.severity] += 1
                return self._finding_lines(event)
            case Stderr(raw=raw, observed_at_ns=at_ns):
                return [self._event_line(at_ns, "stderr", self._cut(decoded(raw.removesuffix(b"\r")), 7))]
            case Eof(sender=sender, observed_at_ns=at_ns):
                return [self._event_line(at_ns, "eof", f"the {sender} closed its side")]
            case Signal(name=name, observed_at_ns=at_ns):
                return [self._event_line(at_ns, "signal", visible(name))]
            case Gap():
                return [self._gap_line(event)]
            case Close():
                return self._close_lines(event)
        assert_never(event)

    def _http_lines(self, event: HttpEvent) -> list[str]:
        at_ns, session = event.observed_at_ns, self._conversation.track_session(event)
        match event:
            case RequestHead():
                self._last_frame = event.seq
                self._requested_at_ns[event.exchange] = at_ns
                if not event.endpoint:
                    self._non_message_exchanges.add(event.exchange)
                words = f"{visible(event.method)} {visible(event.target)}"
                return [self._head_line(event, "client", "", words, f"session {session}" if session else "")]
            case ResponseHead():
                self._last_frame = event.seq
                if event.status >= 300:
                    self._non_message_exchanges.add(event.exchange)
                requested_at_ns = self._requested_at_ns.get(event.exchange)
                took = "" if requested_at_ns is None else duration(at_ns - requested_at_ns)
                words = f"{event.status} {visible(event.reason)}".strip()
                fields = Fields(event.headers)
                details = visible(fields.media_type) + "  from mcpproxy" * event.by_proxy
                if session and SESSION_ID in fields:
                    details += f"  session {session}"
                return [self._head_line(event, "server", took, words, details.strip())]
            case ExchangeEnd():
                self._requested_at_ns.pop(event.exchange, None)
                self._non_message_exchanges.discard(event.exchange)
                if event.cut:
                    who = {None: "", "proxy": " by mcpproxy"}.get(event.by, f" by the {event.by}")
                    words = self._style.paint(f"#{event.exchange} cut short{who}", "yellow")
                    return [self._event_line(at_ns, "end", words)]
                return [self._event_line(at_ns, "end", f"#{event.exchange}")] if self._full else []
            case Opaque():
                who = "mcpproxy" if event.by_proxy else f"the {event.sender}"
                what = f"{size(event.size)} from {who} on connection {event.connection}"
                return [self._event_line(at_ns, "opaque", self._cut(f"{what}: {visible(event.reason)}", 9))]
            case Note():
                if event.what in ("connected", "closed") and not self._full:
                    return []
                where = f"connection {event.connection}: " if event.connection else ""
                words = f"{where}{visible(event.what)}: {visible(event.why)}"
                return [self._event_line(at_ns, "mcpproxy", self._cut(words, 10))]

    def _head_line(
        self, event: RequestHead | ResponseHead, sender: str, took: str, words: str, details: str
    ) -> str:
        """Return the line of a head; with ``full``, its fields follow."""
        style = self._style
        head = style.paint(f"{event.seq:>5} {_seconds(event.observed_at_ns)} {took:>8} {'':>8}", "dim")
        line = (
            f"{head} {style.arrow(sender)} {style.paint(f'#{event.exchange}', 'dim')} {self._cut(words, 12)}"
        )
        line += f"  {style.paint(details, 'dim')}" if details else ""
        if self._full:
            fields = [f"{visible(name)}: {visible(value)}" for name, value in event.headers]
            line = "\n".join([line, *(f"{INDENT}  {style.paint(field, 'dim')}" for field in fields)])
        return line

    def _frame_lines(self, frame: Frame) -> list[str]:
        turns = self._conversation.turns(frame)
        latencies = [turn.latency_ns for turn in turns if turn.latency_ns is not None]
        took = duration(min(latencies)) if latencies else ""
        head = f"{frame.seq:>5} {_seconds(frame.observed_at_ns)} {took:>8} {size(len(frame.raw)):>8}"
        words, payload = self._frame_words(frame, turns)
        mark = self._style.paint(f"#{frame.exchange} ", "dim") if frame.exchange else ""
        line = f"{self._style.paint(head, 'dim')} {self._style.arrow(frame.sender)} {mark}{words}"
        if self._full:
            return [line, f"{INDENT}  {self._style.paint(decoded(frame.raw), 'dim')}"]
        return [f"{line}  {self._style.paint(payload, 'dim')}" if payload else line]

    def _frame_words(self, frame: Frame, turns: tuple[Turn, ...]) -> tuple[str, str]:
        """Return the coloured text of a frame, and as much of its payload as fits on the line."""
        if isinstance(frame.message, Batch):
            plain = f"batch of {len(turns)}: " + ", ".join(_name_and_id(turn)[0] for turn in turns)
            return self._cut(plain, 2), ""
        turn = turns[0]
        name, id = _name_and_id(turn)
        is_message = turn.kind != "malformed"
        if not is_message and frame.exchange in self._non_message_exchanges:
            name = "body"
        if frame.event is not None:
            name, id = self._event_words(frame, name, id, is_message=is_message)
        if not frame.terminated:
            id += _unfinished(frame)
        if frame.refused or (frame.by_proxy and not frame.exchange):
            id += " refused by mcpproxy" if frame.refused else " from mcpproxy"
        if (fault := frame.fault) is not None:
            what = "" if frame.by_proxy else "not passed: "
            id += f" ({what}rule {visible(fault.rule)}, {visible(fault.action)})"
        room = self._room(len(name) + len(id) + 5 + (len(str(frame.exchange)) + 2 if frame.exchange else 0))
        payload = ""
        if turn.kind == "malformed":
            payload = decoded(frame.raw[: 4 * max(room, 0)])
        elif not isinstance(turn.body, Absent):
            payload = visible(preview(turn.body, room, is_short=len(frame.raw) <= SHORT_BYTES))
        # A frame that is no message is named by its flaw, and red, unless it need not be a message.
        is_bad = turn.kind == "error" or (not is_message and name == turn.flaw)
        colour = "red" if is_bad else "bold"
        words = self._style.paint(name, colour) + self._style.paint(id, "dim")
        # On a narrow terminal there is no room for a useful part of the payload.
        return words, self._style.shorten(payload, room) if room >= 8 else ""

    def _event_words(self, frame: Frame, name: str, id: str, *, is_message: bool) -> tuple[str, str]:
        """Return ``name`` and ``id`` of the message in an SSE event, completed by the fields of the event."""
        event = frame.event
        assert event is not None
        if not frame.raw:
            name = "event without data"
        elif not is_message and not event.is_named_message:
            name = f"event {visible(event.name or '')}"
        if event.id is not None:
            id += f" event id {self._style.shorten(visible(event.id), 24)}"
        if event.retry is not None:
            id += f" retry {event.retry} ms"
        return name, id

    def _finding_lines(self, finding: Finding) -> list[str]:
        elsewhere = finding.frame not in (0, self._last_frame)
        first, *rest = self._wrap(finding_line(finding) + (f" (frame {finding.frame})" if elsewhere else ""))
        head = f"{finding.severity} {visible(finding.rule)}"
        painted = finding_head(finding, self._style) + first.removeprefix(head)
        mark = self._style.paint("└" if self._style.unicode else "`", "dim")
        return [f"{INDENT}{mark} {painted}", *(f"{INDENT}  {line}" for line in rest)]

    def _wrap(self, text: str) -> list[str]:
        """Return ``text`` wrapped to the width beside the columns; one line if no width is known."""
        columns = max(self._room(2), 20)
        if self._style.width is None or len(text) <= columns:
            return [text]
        return textwrap.wrap(text, columns, break_on_hyphens=False)

    def _gap_line(self, gap: Gap) -> str:
        lost = (
            (gap.client_bytes, "from the client"),
            (gap.server_bytes, "from the server"),
            (gap.stderr_bytes, "of stderr"),
        )
        amounts = ", ".join(f"{size(n)} {whence}" for n, whence in lost if n)
        words = f"not recorded: {amounts or 'an unknown amount'}; {visible(gap.reason)}"
        return self._event_line(gap.observed_at_ns, "gap", self._style.paint(words, "yellow"))

    def _close_lines(self, close: Close) -> list[str]:
        words = ending_text(close, self._header)
        if close.exit_code != 0:
            words = self._style.paint(words, "yellow")
        frames = sum(self._sent.frames.values())
        findings = tally(self._found["error"], self._found["warning"], self._found["info"])
        if self._header.imported or self._header.model:
            findings = "not judged"
        return [
            self._event_line(close.observed_at_ns, "close", words),
            f"{INDENT}{count(frames, 'frame')} ({self._sent.senders}), {findings}",
        ]

    def _event_line(self, at_ns: int, word: str, text: str) -> str:
        """Return the line of an event that is not a frame: no number, no size, a word for the arrow."""
        head = self._style.paint(f"{'':>5} {_seconds(at_ns)} {'':>8} {'':>8}", "dim")
        return f"{head} {self._style.paint(word, 'dim')} {text}"

    def _room(self, taken: int) -> int:
        """Return how many columns are left on a line after the fixed columns and ``taken`` more.

        It is ``PAYLOAD_COLUMNS`` if no width is known.
        """
        if self._style.width is None:
            return PAYLOAD_COLUMNS
        return self._style.width - len(INDENT) - taken

    def _cut(self, text: str, taken: int) -> str:
        """Return ``text`` shortened to what ``_room(taken)`` leaves of the line.

        It is unchanged if no width is known, or with ``full``.
        """
        if self._full or self._style.width is None:
            return text
        return self._style.shorten(text, max(self._room(taken), 20))


def _unfinished(frame: Frame) -> str:
    """Return a remark on a frame that does not end as a message does."""
    if frame.exchange:
        return " (a piece, more followed)" if frame.continues else " (cut short)"
    return " (a piece, the line goes on)" if frame.continues else " (no line feed)"


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:>9.3f}"


def _name_and_id(turn: Turn) -> tuple[str, str]:
    """Return the name of a message, and its id as JSON: 7 and "7" are different ids."""
    id = "" if isinstance(turn.id, Absent) else f" id {_id_text(turn.id)}"
    match turn.kind:
        case "request" | "notification":
            return visible(turn.method or ""), id
        case "response":
            return f"answer to {visible(turn.method or 'an unknown request')}", id
        case "error":
            return f"error for {visible(turn.method or 'an unknown request')}", id
        case "malformed":
            return turn.flaw or "", ""


def _id_text(request_id: RequestId | None) -> str:
    if request_id is None:
        return "unusable"
    return visible(preview(request_id, 60, is_short=type(request_id) is int))
