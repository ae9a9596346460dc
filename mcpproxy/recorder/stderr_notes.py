"""What a person is told while a session runs: lines on stderr, and nothing twice.

The lines go to a pipe that the relay empties. It is never waited for: what does not fit is kept for
the next time, up to a bound, then dropped and counted.
"""

import os
import select
import time
from collections.abc import Mapping
from typing import Final, Literal

from mcpproxy.base.visible import visible, visible_lines
from mcpproxy.session.frame import Finding, Sender, Severity
from mcpproxy.trace.encode import finding_object
from mcpproxy.trace.members import object_line
from mcpproxy.trace.records import Tally

Mode = Literal["text", "json", "off"]

PREFIX: Final = "mcpproxy: "

LAG_NS: Final = 1_000_000_000
"""A finding that comes so late is not told in time for whoever watches."""

_PENDING_BYTES: Final = 256 << 10


class StderrNotes:
    """The teller of one session. ``fd`` is where the lines go, ``None`` for nowhere."""

    def __init__(self, fd: int | None, mode: Mode = "text") -> None:
        self._fd = fd
        self._mode = mode
        self._pending = bytearray()
        self._dropped = 0
        self._repeats: dict[tuple[str, str, str], int] = {}

    def found(self, finding: Finding) -> None:
        """Tell a finding: in text the first of its kind, and nothing that is mere information."""
        if self._mode == "json":
            self._add(visible_lines(object_line(finding_object(finding)).decode()).encode())
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
        """Tell one line; the last is told even when there is much to tell."""
        self._add(f"{PREFIX}{visible(text)}\n".encode(), is_last=is_last)

    def summarize(self, trace: str, tally: Tally, note: str = "", lag_ns: int = 0, harm: str = "") -> None:
        """Tell how the session went.

        ``note`` is what is wrong with the trace, if anything is; ``lag_ns`` is how late something was judged
        at the worst, which is told if people could have noticed. ``harm`` is what somebody else has done to
        the file.
        """
        parts = [_frames(tally.frames), _findings(tally.found)]
        for one in tally.more:
            kind = (one.rule, one.blame, one.requirement)
            if kind in self._repeats:
                self._repeats[kind] += one.count
        if repeated := [
            f"{rule} {blame} {count} more times" for (rule, blame, _), count in self._repeats.items() if count
        ]:
            parts.append(", ".join(repeated))
        if self._dropped:
            parts.append(f"{self._dropped} lines not shown")
        if lag_ns >= LAG_NS:
            parts.append(f"judged up to {lag_ns / 1e9:.1f} s late")
        if note:
            parts.append(note)
        where = f"trace {trace} ({harm})" if harm else f"trace {trace}"
        self.say("; ".join([*parts, where]), is_last=True)

    def flush(self) -> None:
        """Hand over what the pipe takes now."""
        while self._pending and self._fd is not None:
            try:
                del self._pending[: os.write(self._fd, self._pending)]
            except BlockingIOError:
                return
            except OSError:
                self._fd = None  # nobody listens any more

    def drain(self, timeout_s: float) -> None:
        """Hand over everything, waiting ``timeout_s`` at most."""
        deadline = time.monotonic() + timeout_s
        self.flush()
        while self._pending and self._fd is not None and (left := deadline - time.monotonic()) > 0:
            select.select([], [self._fd], [], left)
            self.flush()

    def _add(self, line: bytes, *, is_last: bool = False) -> None:
        if self._fd is None:
            return
        if len(self._pending) + len(line) > _PENDING_BYTES and not is_last:
            self._dropped += 1
            return
        self._pending += line


def _frames(frames: Mapping[Sender, int]) -> str:
    return f"{frames['client']} frames from the client, {frames['server']} from the server"


def _findings(findings: Mapping[Severity, int]) -> str:
    if not any(findings.values()):
        return "no findings"
    return ", ".join(
        f"{count} {severity}{'' if count == 1 or severity == 'info' else 's'}"
        for severity, count in findings.items()
        if count
    )
