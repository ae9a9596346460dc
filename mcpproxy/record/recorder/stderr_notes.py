"""Write notes: the lines that a user sees on stderr during a session.

The lines go to a pipe that the relay reads. The recorder, the process that makes the trace, never waits for
the pipe: lines that do not fit are kept for the next time, up to a limit; further lines are dropped and
counted."""

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from mcpproxy.base.json_string import quoted
from mcpproxy.base.ready import is_writable
from mcpproxy.base.visible import visible_lines
from mcpproxy.judge.session.frame import Finding, Severity
from mcpproxy.record.relay.stderr_line import StderrEvent, in_a_log, stamp, stderr_line
from mcpproxy.record.relay.stdio.sinks import Sink, WaitingLines
from mcpproxy.record.trace.encode import calls_object, finding_object
from mcpproxy.record.trace.members import object_line
from mcpproxy.record.trace.records import Tally, undecoded_notes

if TYPE_CHECKING:
    from mcpproxy.record.recorder.model.counts import TurnCounter

Mode = Literal["text", "json", "off"]
"""How findings (violations of rules) are shown: each kind once, as text, except those of level info; every
finding as JSON; or none."""

LAG_NS: Final = 1_000_000_000
"""The delay from which on the summary says how late findings were shown."""

_WAITING_BYTES: Final = 256 << 10
"""How many bytes of lines may wait for the pipe."""


class StderrNotes:
    """The notes of one session, written to ``fd``; ``None`` writes nothing.

    ``leg`` is the name of a leg (one of the connections) of ``mcpproxy bridge``; every note then begins with
    it or, as JSON, has it as a member.
    """

    def __init__(self, fd: int | None, mode: Mode = "text", leg: str = "") -> None:
        self._fd: Final = fd
        self._lines: Final = None if fd is None else WaitingLines(_pipe_sink(fd), _WAITING_BYTES)
        self._leg = leg
        self._mode = mode
        self._dropped = 0
        self._repeats: dict[tuple[str, str, str], int] = {}
        """The rule, blame and requirement of a shown finding -> how many more such findings there were."""

    def show_finding(self, finding: Finding) -> None:
        """Show a finding: in mode ``json`` always, in mode ``text`` if it is the first of its kind and not of
        level info, in mode ``off`` never."""
        if self._mode == "json":
            leg = {"leg": self._leg} if self._leg else {}
            members = {**stamp("finding", finding.severity), **leg, **finding_object(finding)}
            self._add_line(in_a_log(visible_lines(object_line(members).decode())).encode())
        if self._mode != "text" or finding.severity == "info":
            return
        kind = (finding.rule, finding.blame, finding.requirement)
        if kind in self._repeats:
            self._repeats[kind] += 1
            return
        self._repeats[kind] = 0
        where = f"frame {finding.frame}" if finding.frame else "session"
        self.say(f"{finding.severity} {finding.rule} {finding.blame}, {where}: {finding.message}")

    def say(self, text: str, *, is_last: bool = False) -> None:
        """Show one line. The last line of a session (``is_last``) is shown even if too many lines wait."""
        as_json = self._mode == "json"
        if self._leg:
            note = text if isinstance(text, StderrEvent) else StderrEvent(text, "note")
            leg = {"leg": quoted(self._leg)}
            text = StderrEvent(
                note if as_json else f"{self._leg}: {note}", note.event, note.level, **leg, **note.members
            )
        self._add_line(stderr_line(text, as_json=as_json), is_last=is_last)

    def summarize(
        self,
        trace: str,
        tally: Tally,
        note: str = "",
        lag_ns: int = 0,
        outside_changes: str = "",
        turns: "TurnCounter | None" = None,
        failed_start: str = "",
    ) -> None:
        """Show a summary of the session.

        ``note`` says what is wrong with the trace, if anything is. ``lag_ns`` is the longest delay of a
        finding, shown from ``LAG_NS`` on. ``outside_changes`` says what other programs did to the file.
        ``turns`` counts a conversation with a language model, where nothing is MCP; these numbers are shown
        instead. ``failed_start`` says how the server failed before any message was sent, so that there was
        nothing to judge."""
        count, _, senders = tally.senders.partition(" ")
        frames = f"{count} frame{'' if count == '1' else 's'} {senders}"
        calls = [tally.calls.words(running=False)] if tally.calls is not None else []
        parts = [frames, *calls, _words_for_findings(tally.total_findings, lists_info=self._mode != "text")]
        if turns is not None:
            parts = [turns.words]
        elif failed_start:
            parts = [frames, failed_start, "nothing to judge"]
        for repeated in tally.more:
            kind = (repeated.rule, repeated.blame, repeated.requirement)
            if kind in self._repeats:
                self._repeats[kind] += repeated.count
        repeats = [
            f"{rule} {blame} {count} more time{'' if count == 1 else 's'}"
            for (rule, blame, _), count in self._repeats.items()
            if count
        ]
        if repeats:
            parts.append(", ".join(repeats))
        parts += undecoded_notes(tally.undecoded)
        if self._dropped:
            parts.append(f"{self._dropped} lines not shown")
        if lag_ns >= LAG_NS and turns is None:
            parts.append(f"judged up to {lag_ns / 1e9:.1f} s late")
        if note:
            parts.append(note)
        where = f"trace {trace} ({outside_changes})" if outside_changes else f"trace {trace}"
        members = {"trace": quoted(trace), "findings": _json_object(tally.total_findings.items())}
        members["frames"] = _json_object(tally.frames.items())
        if turns is not None:
            members |= {"model": _json_object(turns.numbers.items())}
        if failed_start:
            members["not_begun"] = quoted(failed_start)
        if (counts := tally.calls) is not None:
            members["calls"] = _json_object(calls_object(counts).items())
        self.say(StderrEvent("; ".join([*parts, where]), "summary", **members), is_last=True)

    def flush(self) -> None:
        """Write as many of the waiting bytes as the pipe has room for."""
        if self._lines is not None:
            self._lines.flush()

    def drain(self, timeout_s: float) -> None:
        """Write all lines; wait for the pipe at most ``timeout_s`` seconds."""
        deadline = time.monotonic() + timeout_s
        while self._fd is not None and self._lines is not None and not self._lines.flush():
            if (left_s := deadline - time.monotonic()) <= 0:
                return
            is_writable(self._fd, left_s)

    def _add_line(self, line: bytes, *, is_last: bool = False) -> None:
        if self._lines is not None and not self._lines.add(line, is_last=is_last):
            self._dropped += 1


def _pipe_sink(fd: int) -> Sink:
    return Sink(fd, lambda data: os.write(fd, data), close_fd=lambda: None)


def _json_object(numbers: Iterable[tuple[str, int]]) -> str:
    return object_line(dict(numbers)).decode().rstrip("\n")


def _words_for_findings(findings: Mapping[Severity, int], *, lists_info: bool) -> str:
    if not any(findings.values()):
        return "no findings"
    words = {
        severity: f"{count} {severity}{'' if count == 1 or severity == 'info' else 's'}"
        for severity, count in findings.items()
        if count
    }
    if "info" in words and not lists_info:
        words["info"] += " (see mcpproxy show)"
    return ", ".join(words.values())
