"""A session as people read it: one line per frame, findings under the frame, stderr in between.

Columns of fixed width come first (frame number, seconds since the start, time an answer took, size),
then the arrow and the words, so that everything lines up without knowing what is still to come.
A finding that does not follow its frame names it.
"""

from collections import Counter
from typing import Final, assert_never

from mcpproxy.protocol.jsonrpc import Absent, Batch, RequestId
from mcpproxy.reports.conversation import Conversation, Turn
from mcpproxy.reports.preview import preview
from mcpproxy.reports.style import PLAIN, Style, count, decoded, duration, printable, size, tally
from mcpproxy.reports.text import finding_head, finding_line
from mcpproxy.session.frame import Close, Eof, Event, Finding, Frame, Gap, Signal, Stderr

INDENT: Final = " " * 34
PAYLOAD_COLUMNS: Final = 160
"""How much of a payload is shown where no terminal says how much fits."""

HEADING: Final = f"{'frame':>5} {'seconds':>9} {'took':>8} {'size':>8}"


class Transcript:
    """Turns events into lines, in order; one per session.

    ``full`` shows every payload whole, on a line of its own.
    """

    def __init__(self, style: Style = PLAIN, *, full: bool = False) -> None:
        self._style: Final = style
        self._full: Final = full
        self._conversation: Final = Conversation()
        self._frames: Final[Counter[str]] = Counter()
        self._found: Final[Counter[str]] = Counter()
        self._last_frame = 0

    def lines(self, event: Event | Finding) -> list[str]:
        """What to print for ``event``."""
        match event:
            case Frame():
                self._frames[event.sender] += 1
                self._last_frame = event.seq
                return self._frame(event)
            case Finding():
                self._found[event.severity] += 1
                return self._finding(event)
            case Stderr(raw=raw, observed_at_ns=at_ns):
                return [self._line(at_ns, "stderr", self._cut(decoded(raw.removesuffix(b"\r")), 7))]
            case Eof(sender=sender, observed_at_ns=at_ns):
                return [self._line(at_ns, "eof", f"the {sender} closed its side")]
            case Signal(name=name, observed_at_ns=at_ns):
                return [self._line(at_ns, "signal", printable(name))]
            case Gap():
                return [self._gap(event)]
            case Close():
                return self._close(event)
        assert_never(event)

    def _frame(self, frame: Frame) -> list[str]:
        turns = self._conversation.turns(frame)
        latencies = [turn.latency_ns for turn in turns if turn.latency_ns is not None]
        took = duration(min(latencies)) if latencies else ""
        head = f"{frame.seq:>5} {_seconds(frame.observed_at_ns)} {took:>8} {size(len(frame.raw)):>8}"
        words, payload = self._words(frame, turns)
        line = f"{self._style.paint(head, 'dim')} {self._style.arrow(frame.sender)} {words}"
        if self._full:
            return [line, f"{INDENT}  {self._style.paint(decoded(frame.raw), 'dim')}"]
        return [f"{line}  {self._style.paint(payload, 'dim')}" if payload else line]

    def _words(self, frame: Frame, turns: tuple[Turn, ...]) -> tuple[str, str]:
        """The painted words of a frame and as much of its payload as the line still holds."""
        if isinstance(frame.message, Batch):
            plain = f"batch of {len(turns)}: " + ", ".join(_named(turn)[0] for turn in turns)
            return self._cut(plain, 2), ""
        turn = turns[0]
        name, id = _named(turn)
        if not frame.terminated:
            id += " (a piece, the line goes on)" if frame.continues else " (no line feed)"
        room = self._room(len(name) + len(id) + 5)
        payload = ""
        if turn.kind == "malformed":
            payload = decoded(frame.raw[: 4 * max(room, 0)])
        elif not isinstance(turn.body, Absent):
            payload = printable(preview(turn.body, room))
        colour = "red" if turn.kind in ("error", "malformed") else "bold"
        words = self._style.paint(name, colour) + self._style.paint(id, "dim")
        # A narrow terminal has no use for the beginning of a beginning.
        return words, self._style.shorten(payload, room) if room >= 8 else ""

    def _finding(self, finding: Finding) -> list[str]:
        elsewhere = finding.frame not in (0, self._last_frame)
        first, *rest = self._wrap(finding_line(finding) + (f" (frame {finding.frame})" if elsewhere else ""))
        head = f"{finding.severity} {finding.rule}"
        painted = finding_head(finding, self._style) + first.removeprefix(head)
        mark = self._style.paint("└" if self._style.unicode else "`", "dim")
        return [f"{INDENT}{mark} {painted}", *(f"{INDENT}  {line}" for line in rest)]

    def _wrap(self, text: str) -> list[str]:
        """``text`` broken to the terminal beside the columns, one line elsewhere."""
        columns = max(self._room(2), 40)
        if self._style.width is None or len(text) <= columns:
            return [text]
        import textwrap  # rarely needed, and never in a pipe

        return textwrap.wrap(text, columns, break_on_hyphens=False)

    def _gap(self, gap: Gap) -> str:
        lost = (
            (gap.client_bytes, "from the client"),
            (gap.server_bytes, "from the server"),
            (gap.stderr_bytes, "of stderr"),
        )
        amounts = ", ".join(f"{size(n)} {whence}" for n, whence in lost if n)
        words = f"not recorded: {amounts or 'an unknown amount'}; {printable(gap.reason)}"
        return self._line(gap.observed_at_ns, "gap", self._style.paint(words, "yellow"))

    def _close(self, close: Close) -> list[str]:
        words = ended(close)
        if close.exit_code != 0:
            words = self._style.paint(words, "yellow")
        frames = sum(self._frames.values())
        sides = f"{self._frames['client']:,} from the client, {self._frames['server']:,} from the server"
        found = tally(self._found["error"], self._found["warning"], self._found["info"])
        return [
            self._line(close.observed_at_ns, "close", words),
            f"{INDENT}{count(frames, 'frame')} ({sides}), {found}",
        ]

    def _line(self, at_ns: int, word: str, text: str) -> str:
        """An event that is no frame: no number, no size, a word instead of the arrow."""
        head = self._style.paint(f"{'':>5} {_seconds(at_ns)} {'':>8} {'':>8}", "dim")
        return f"{head} {self._style.paint(word, 'dim')} {text}"

    def _room(self, taken: int) -> int:
        """Columns left on the line after the fixed ones and ``taken`` more."""
        if self._style.width is None:
            return PAYLOAD_COLUMNS
        return self._style.width - len(INDENT) - taken

    def _cut(self, text: str, taken: int) -> str:
        """``text`` shortened to the terminal, whole elsewhere and with ``full``."""
        if self._full or self._style.width is None:
            return text
        return self._style.shorten(text, max(self._room(taken), 20))


def ended(close: Close) -> str:
    """How a recording ended, in words."""
    match close.ending:
        case "exited":
            return f"the server exited with {close.exit_code}"
        case "signalled":
            return f"signal {close.signal} ended the server"
        case "not started":
            return "the server could not be started"
        case "cut":
            return "the recording was cut here; how the session ended is unknown"


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:>9.3f}"


def _named(turn: Turn) -> tuple[str, str]:
    """What a message is called, and its id as JSON has it: 7 and "7" are two ids."""
    id = "" if isinstance(turn.id, Absent) else f" id {_id(turn.id)}"
    match turn.kind:
        case "request" | "notification":
            return printable(turn.method or ""), id
        case "response":
            return f"answer to {printable(turn.method or 'an unknown request')}", id
        case "error":
            return f"error for {printable(turn.method or 'an unknown request')}", id
        case "malformed":
            return turn.flaw or "", ""


def _id(request_id: RequestId | None) -> str:
    return printable(preview(request_id, 60)) if request_id is not None else "unusable"
