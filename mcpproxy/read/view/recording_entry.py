"""Describe a recording for lists of recordings."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mcpproxy.base.paths import ANY_SCRIPT
from mcpproxy.base.style import duration, tally
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import WORST_FIRST
from mcpproxy.judge.session.outcomes import CallCounts, unanswered_word


@dataclass(frozen=True, slots=True)
class RecordingEntry:
    """One recording of a folder. All texts but ``path`` are safe to show.

    ``state`` is ``running``, ``ended``, ``cut`` (the recorder was killed; opening the recording completes
    it), ``starting`` (there is no trace yet), or ``unreadable``. ``ended`` says in words how it ended, or why
    it cannot be read; ``ending`` is the same in a word or two: ``exit 0``, ``signal 9``. ``started_ns`` is
    the time of its start in nanoseconds since 1970, 0 if it is unknown. Counts and the duration are ``None``
    if the beginning and the end of the file do not give them. ``findings`` counts the findings by severity,
    ``size`` is in bytes.

    A recording in several files is one entry; ``path`` is the first file, ``files`` is how many there are.
    """

    path: str
    state: str
    ended: str = ""
    ending: str = ""
    label: str = ""
    transport: str = ""
    upstream: str = ""
    command: tuple[str, ...] = ()
    cwd: str = ""
    client: str = ""
    client_version: str = ""
    server: str = ""
    server_version: str = ""
    protocol: str = "mcp"
    revision: str = ""
    imported: str = ""
    """The program that made the recording, and what it does not record; empty for one by mcpproxy."""
    model: str = ""
    """The dialect (format of requests) of a model's interface that the user named, or ``any``; else empty."""
    started_at: str = ""
    started_ns: int = 0
    reason: str = ""
    """Why the server could not be started (without its command), or exited before any message; else empty."""
    active_ns: int = 0
    """When its first message was sent, in nanoseconds since 1970; ``started_ns`` if there is no message."""
    duration_ns: int | None = None
    frames: int | None = None
    findings: Mapping[str, int] | None = None
    calls: CallCounts | None = None
    waiting_ns: int | None = None
    """How long the oldest unanswered call of a running recording has waited; ``None`` if none is known."""
    size: int = 0
    is_empty: bool = False
    """Whether it is short and ended without a message. The "latest" recording is then another one, if any."""
    has_not_begun: bool = False
    """Whether the server could not be started, or exited with an error before any message."""
    files: int = 1
    boot: str = ""
    """The id of the machine's boot during which it was made; empty if unknown."""
    ppid: int = 0
    """The process that started mcpproxy: on stdio the client, or a shell that it uses; 0 if unknown."""

    @property
    def name(self) -> str:
        """Its label; without one, the name of its server, its command or URL, or the name of its file."""
        command = os.path.basename(self.command[0]) if self.command else self.upstream
        return self.label or self.server or command or visible(os.path.basename(self.path))

    @property
    def title(self) -> str:
        """The name for a list, followed by the server's if the label is a common script name (``index``)."""
        is_any = self.label.rpartition(".")[2].lower() in ANY_SCRIPT
        return f"{self.name} ({self.server})" if is_any and self.server not in ("", self.name) else self.name

    @property
    def searched(self) -> str:
        """The text, in lower case, in which a list searches the words that a user types to filter it."""
        file = visible(os.path.basename(self.path))
        counts = [(self.findings or {}).get(severity, 0) for severity in WORST_FIRST]
        findings = f"findings: {tally(*counts)}" if any(counts) else ""
        failed = "failed" if self.has_failed else ""  # also if a call has no answer, as in ``list --failed``
        ended = "" if self.ending in ("exit 0", "stopped") else self.ended
        peers = (self.name, self.server, self.client)
        texts = (*peers, self.state, ended, failed, self.failures, findings, file)
        return "\n".join(texts).lower()

    @property
    def running(self) -> bool:
        """Whether it is still being recorded."""
        return self.state in ("running", "starting")

    @property
    def has_failed(self) -> bool:
        """Whether a call is known to be unsuccessful, or the server failed before any message."""
        return self.has_not_begun or (self.calls is not None and not self.calls.all_successful)

    @property
    def failed_text(self) -> str:
        """The failed calls: ``2 of 7``, ``2 of 7, 1 cancelled``, ``1 waiting 11.0 s``; ``?`` if unknown.

        Without a call it is ``no calls``. It is ``at start`` if the server failed before any message, and
        ``-`` for a model's interface.
        """
        if self.has_not_begun:
            return "at start"
        if self.model:
            return "-"
        calls = self.calls
        if calls is None or not calls.total:
            return "?" if calls is None else "no calls"
        waiting = unanswered_word(running=True)
        since = {"failed": f"of {calls.total:,}"}
        if self.waiting_ns is not None:
            since[waiting] = f"{waiting} {duration(self.waiting_ns)}"
        counted = calls.unsuccessful(running=self.waiting_ns is not None) or [(0, "failed")]
        return ", ".join(f"{number:,} {since.get(word, word)}" for number, word in counted)

    @property
    def failures(self) -> str:
        """The unsuccessful calls, for a place without a heading: ``2 of 7 calls failed, 1 waiting``.

        Empty if all were successful or their number is not known. It also tells whether the server failed
        before any message. The waiting time is left out, because this text is shown until a call ends.
        """
        if self.has_not_begun:
            return "failed before any message"
        calls = self.calls
        if calls is None or calls.all_successful:
            return ""
        return calls.words(running=self.waiting_ns is not None)

    @property
    def failed_brief(self) -> str:
        """The first part of ``failed_text``, with a ``+`` if there is another."""
        first, more, _ = self.failed_text.partition(", ")
        return f"{first}+" if more else first

    @property
    def end_ns(self) -> int | None:
        """When it ended, in nanoseconds since 1970; ``None`` if it is running, or if the end is unknown."""
        if self.running or self.duration_ns is None:
            return None
        return self.started_ns + self.duration_ns

    def was_open_with(self, other: "RecordingEntry") -> bool:
        """Whether it is another recording in the folder of ``other``, and was open at the same time."""
        if os.path.dirname(self.path) != os.path.dirname(other.path):
            return False
        if os.path.basename(self.path) == os.path.basename(other.path):
            return False
        ended_before = self.end_ns is not None and self.end_ns < other.started_ns
        begun_after = other.end_ns is not None and self.started_ns > other.end_ns
        return not (ended_before or begun_after)


def may_have_its_model(server: RecordingEntry, entries: Iterable[RecordingEntry]) -> bool:
    """Whether one of ``entries`` may be of the interface of the model that the client of ``server`` used.

    That is a recording over HTTP that names no client and was open at the same time. No trace is read.
    """
    return any(
        entry.transport == "http" and not entry.client and entry.was_open_with(server) for entry in entries
    )
