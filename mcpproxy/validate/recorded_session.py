"""What passes between our client and a server under test: filed, judged, and told to who listens.

A tape is one recording, made in the process that talks. The client's side of it and the server's are told
as they happen; in the trace they look as if a proxy had seen them.
"""

import os
import time
from collections.abc import Callable
from typing import Final

from mcpproxy.base import paths
from mcpproxy.errors import McpProxyError
from mcpproxy.ruleset.ruleset import Ruleset
from mcpproxy.session.frame import CLIENT, Close, Finding, Frame, RequestHead, ResponseHead
from mcpproxy.trace.encode import encode, encode_close, encode_finding, encode_header, frame_parts
from mcpproxy.trace.records import Encoded, Header, Recorded, Tally
from mcpproxy.trace.session_labels import SessionNames
from mcpproxy.trace.writer import BATCH_BYTES, TraceWriter


class Tape:
    """One recording at ``path``. ``findings`` grows as messages are judged, ``frames`` counts them.

    ``trouble`` says why the file is not whole; it is empty while it is.

    Raises:
        McpProxyError: there can be no file at ``path``.
    """

    def __init__(self, path: str, header: Header, rules: Ruleset, started_ns: int) -> None:
        self.path: Final = path
        self.findings: Final[list[Finding]] = []
        self.tally: Final = Tally()
        self.seq = 0
        """The number of the last head or frame."""
        self.trouble = ""
        self._started_ns: Final = started_ns
        self._names: Final = SessionNames()
        self._observer: Final = rules.observer()
        self._listeners: Final[list[Callable[[Recorded], None]]] = []
        self._is_closed = False
        folder = os.path.dirname(path)
        try:
            if folder:
                paths.make_private(folder)
            self._writer: Final = TraceWriter(path)
            self._writer.write(encode_header(header))
            is_there = self._writer.flush()
        except OSError as fault:
            raise _unwritable(path, fault.strerror or str(fault)) from None
        if not is_there:
            raise _unwritable(path, self._writer.fault or "nothing can be written there")

    @property
    def frames(self) -> int:
        """How many frames have passed, in both directions."""
        return sum(self.tally.frames.values())

    @property
    def revision(self) -> str | None:
        """The protocol revision that was settled."""
        return self._observer.revision

    def now_ns(self) -> int:
        """The time since the recording started."""
        return time.monotonic_ns() - self._started_ns

    def listen(self, hear: Callable[[Recorded], None]) -> None:
        """From here on, ``hear`` is told all that is recorded."""
        self._listeners.append(hear)

    def unlisten(self, hear: Callable[[Recorded], None]) -> None:
        """``hear`` is told no more."""
        self._listeners.remove(hear)

    def take(self, event: Recorded) -> None:
        """File, judge and tell one event. Heads and frames have their number already."""
        if self._is_closed:
            return
        session = self._names.of(event)
        if isinstance(event, Frame | RequestHead | ResponseHead):
            self.seq = event.seq
        if isinstance(event, Frame):
            self.tally.frames[event.sender] += 1
        if isinstance(event, Frame) and len(event.raw) >= BATCH_BYTES:
            self._writer.write_large(frame_parts(event, session))
        else:
            self._writer.write(encode(event, session))
        if not isinstance(event, Encoded):
            self._found(self._observer.observe(event))
        for hear in tuple(self._listeners):
            hear(event)

    def frame(self, frame: Frame) -> Frame:
        """Number a frame as the next one, and take it."""
        frame.seq = self.seq + 1
        self.take(frame)
        return frame

    def say(self, raw: bytes) -> Frame:
        """Our client says a whole line."""
        return self.frame(Frame(0, CLIENT, raw, self.now_ns()))

    def close(self, close: Close) -> None:
        """The end: what is not recorded yet is, and the file is let go of."""
        if self._is_closed:
            return
        self._is_closed = True
        self._found(self._observer.observe(close))
        self.tally.more = self._observer.more
        self._writer.write(encode_close(close, self.tally))
        if not self._writer.flush():
            self.trouble = f"{self.path} is not whole: {self._writer.fault}"
        self._writer.close()

    def _found(self, findings: list[Finding]) -> None:
        for finding in findings:
            self._writer.write(encode_finding(finding))
            self.tally.findings[finding.severity] += 1
        self.findings.extend(findings)


def _unwritable(path: str, why: str) -> McpProxyError:
    return McpProxyError(f"{path}: {why.lower()}; name another file with --trace")
