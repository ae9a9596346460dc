"""Recordings in tests: record a server, replace it by its recording, and report misses and findings.

The pytest plugin is a thin layer over this module. Each stdio session of a test runs through an mcpproxy of
its own, all its sessions over HTTP through one, in front of the real server or a replay of the recording. A
miss is a request that the recording does not answer. Misses and findings are reported when the test ends.
"""

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from mcpproxy.base import files
from mcpproxy.base.own_process import own_command
from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.errors import McpProxyError, TraceError, UsageError
from mcpproxy.judge.session.frame import WORST_FIRST, Finding, Stderr
from mcpproxy.peers.replay.join import join, lacks
from mcpproxy.read import opening
from mcpproxy.read.reports import text
from mcpproxy.read.reports.judged_traces import more_text
from mcpproxy.record.recorder.recovery import is_session_over
from mcpproxy.record.trace import reader
from mcpproxy.testing.background import Background

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.api import Report

__all__ = ["Action", "McpFindings", "McpRecording", "Mode", "action_for"]

Mode: TypeAlias = Literal["once", "none", "all", "new"]
"""When a test records, see ``action_for``."""
Action: TypeAlias = Literal["record", "replay", "extend"]
"""What a test does with its recording, see ``McpRecording``."""

_MCPPROXY: Final = tuple(own_command("mcpproxy"))
_MISS_LINE: Final = re.compile(r"mcpproxy: miss \d+: (.*)")
"""A line of stderr about a miss, and the text that describes it."""
_END_S: Final = 10.0
"""How long the sessions of a test may take together to end, after their clients have ended."""
_RECORDER_S: Final = 120.0
"""How long the recorder of an ended session may take to write the rest of its trace, on a busy machine."""
_NOT_IN_HEADLINES: Final = re.compile(
    r"(?:(?<=^)tools/call | \(id [^)]{0,200}\)(?=:)|no recorded request is equal; nearest is frame \d+, "
    r"where |/params/arguments/)"
)
"""The parts of a miss's text that a headline leaves out: pytest cuts the lines of its summary."""


def action_for(mode: Mode, exists: bool) -> Action:
    """Return what a test does in this mode, depending on whether its recording exists.

    ``once`` and ``new`` record if there is no recording, ``none`` never records, and ``all`` always records.
    If there is one, ``once`` replays it, and ``new`` also adds the requests that it lacks.
    """
    match mode:
        case "all":
            return "record"
        case "none":
            return "replay"
        case "once":
            return "replay" if exists else "record"
        case "new":
            return "extend" if exists else "record"


def check_faults(faults: Sequence[str]) -> None:
    """Refuse fault rules that can act neither on stdio nor over HTTP. Files are not read.

    Raises:
        McpProxyError: one of them is neither the name of a ready-made set nor a rule, or they cannot be used
            on either transport.
    """
    named = [fault for fault in faults if "=>" in fault or not re.search(r"[./\\]", fault)]
    try:
        _read_faults(named, "stdio", 0)
    except McpProxyError as mistake:
        try:
            _read_faults(named, "http", 0)
        except McpProxyError:
            raise mistake from None


def _read_faults(faults: Sequence[str], transport: Literal["stdio", "http"], seed: int) -> list[str]:
    """Return the options for fault rules. They are read here so that a mistake is reported in one line.

    Raises:
        FaultRuleError: a rule cannot be read, or cannot be used on this ``transport``.
    """
    from mcpproxy.gate.intercept.fault_rules import read_faults

    specs = [fault for fault in faults if "=>" in fault]
    names = [fault for fault in faults if "=>" not in fault]
    read_faults(names, specs, transport, seed)
    options = [word for spec in specs for word in ("--fault", spec)]
    return options + [word for name in names for word in ("--faults", name)]


class McpRecording:
    """One recording in one test: the value of the fixture ``mcp_recording``.

    ``path`` is the recording. ``action`` says what the test does with the recording: ``record`` it,
    ``replay`` it, or ``extend`` it, which replays it and records the requests that it lacks. The traces of
    this test are written to ``folder``. ``command`` or ``url`` is the real server. ``adds`` is true if an
    earlier test of this run wrote the recording: then new requests are added, and nothing is replaced.

    ``faults`` are fault rules, which are files, names of ready-made sets, or rules in one line; they act
    between the client and the server or its replay. ``fault_seed`` seeds their random choices. A session with
    faults is not kept as the recording.

    Raises:
        UsageError: a recording is to be replayed, but does not exist.
        TraceError: the recording to replay or extend cannot be read.
    """

    def __init__(
        self,
        path: Path,
        action: Action,
        folder: Path,
        command: Sequence[str] = (),
        url: str = "",
        *,
        adds: bool,
        faults: Sequence[str] = (),
        fault_seed: int = 0,
    ) -> None:
        self.path: Final = path
        self.action: Final[Action] = action
        self._folder: Final = folder
        self._server: Final = list(command)
        self._server_url: Final = url
        self._adds: Final = adds
        self._faults: Final = tuple(faults)
        self._fault_seed: Final = fault_seed
        self._running: Final[list[Background]] = []
        self._url = ""
        self._is_finished = False
        if action == "replay" and not path.exists():
            raise UsageError(str(path), "there is no such recording", "record it with --mcp-record=once")
        if action != "record":
            opening.open_trace(path)

    @property
    def command(self) -> list[str]:
        """The command of a stdio server, for any client. Each start is a session.

        Raises:
            UsageError: a recording has to be made or extended, but the mark gives no command.
            FaultRuleError: the fault rules cannot be used on stdio.
        """
        trace = str(self._folder / "session.jsonl")
        options = self._fault_options("stdio")
        return [*_MCPPROXY, "--quiet", "--trace", trace, *options, "--", *self._server_command("command")]

    @property
    def url(self) -> str:
        """The URL of a Streamable HTTP server, for any client. The first access starts the server.

        Raises:
            UsageError: a recording has to be made, but the mark gives no URL; or a recording has to be
                extended, but the mark gives no command.
            FaultRuleError: the fault rules cannot be used over HTTP.
            McpProxyError: the server does not start.
        """
        if not self._url:
            upstream = self._server_url
            if self.action != "record":
                upstream = self._start(self._server_command("url"), r"replaying at (\S+)")
            elif not upstream:
                raise self._cannot_record("url")
            path = urlsplit(upstream).path
            proxy = [*_MCPPROXY, "http", upstream, "--listen", "127.0.0.1:0", "--live", "off"]
            proxy += self._fault_options("http")
            trace = ["--trace", str(self._folder / "http.jsonl")]
            endpoint = ["--endpoint", path] if path.strip("/") else []
            self._url = self._start([*proxy, *trace, *endpoint], r"listening on (\S+)")
        return self._url

    @property
    def sessions(self) -> list[str]:
        """The paths of the traces of this test's sessions, in the order in which they began."""
        names = {str(path).removesuffix(".journal") for path in self._folder.glob("*.jsonl*")}
        headers = [(_header(name), name) for name in names]
        return [name for _, name in sorted((h.started_ns if h else sys.maxsize, name) for h, name in headers)]

    def is_over(self) -> bool:
        """Whether every session has ended and its trace is complete. Waits for recorders that still write.

        Always false once ``url`` was used: its proxy runs until ``finish``.
        """
        return not self._running and all(
            is_session_over(trace) and opening.await_finish(trace, _RECORDER_S) for trace in self.sessions
        )

    def finish(self) -> None:
        """Stop the processes of the test and keep what was recorded. A second call does nothing.

        Raises:
            McpProxyError: the client has not ended its session, a recorder is not done in time, or the
                recording cannot be kept.
        """
        if self._is_finished:
            return
        self._is_finished = True
        for process in reversed(self._running):
            process.end()
        sessions = self.sessions
        deadline = time.monotonic() + _END_S
        for trace in sessions:
            if opening.await_finish(trace, deadline - time.monotonic()):
                continue
            if not is_session_over(trace):
                next_step = "let the client end it before the test is over"
                raise UsageError(str(self.path), "the server of this test still runs", next_step)
            if not opening.await_finish(trace, _RECORDER_S):
                problem = f"its recorder is not done {_RECORDER_S:.0f} s after the session"
                raise UsageError(str(self.path), problem, "run the test again")
        if self.action != "replay" and not self._faults:
            try:
                self._keep(sessions)
            except OSError as error:
                reason = error.strerror or str(error)
                raise UsageError(
                    str(self.path), f"cannot be written ({reason})", "check the folder"
                ) from None

    def misses(self) -> list[str]:
        """Return a text about each request of this test that the recording lacks.

        Raises:
            TraceError: the trace of a session cannot be read.
        """
        stderr_lines = [line for process in self._running for line in process.lines]
        for trace in self.sessions:
            for event in opening.open_trace(trace).events():
                if isinstance(event, Stderr):
                    stderr_lines.append(event.raw.decode("utf-8", "replace"))
        return [match[1] for line in stderr_lines if (match := _MISS_LINE.match(line))]

    def trouble(self) -> str:
        """Return text that lists the misses of this test; empty if there were none.

        Raises:
            TraceError: as for ``misses``.
        """
        misses = self.misses()
        if not misses:
            return ""
        return "\n".join(
            [
                f"mcp_recording: {count(len(misses), 'request')} not in {self.path}:",
                *(f"  {visible(miss)}" for miss in misses),
                "--mcp-record=new adds what is missing, --mcp-record=all records everything again",
                *self._show_commands(),
            ]
        )

    def headline(self) -> str:
        """Return the first miss and the number of the others, on one line; empty if there were none.

        Raises:
            TraceError: as for ``misses``.
        """
        first, *others = self.misses() or [""]
        more = f", and {len(others)} more" if others else ""
        return first and f"not recorded{more}: {visible(_NOT_IN_HEADLINES.sub('', first))}"

    def _fault_options(self, transport: Literal["stdio", "http"]) -> list[str]:
        """Return the options that make a session inject the faults of this test; none without faults."""
        if not self._faults:
            return []
        options = _read_faults(self._faults, transport, self._fault_seed)
        return [*options, "--fault-seed", str(self._fault_seed)]

    def _server_command(self, kind: Literal["command", "url"]) -> list[str]:
        """Return the command of the server behind the proxy: the real server, or a replay.

        Raises:
            UsageError: the real server is needed, and the mark does not name it.
        """
        if self.action == "record":
            if not self._server:
                raise self._cannot_record(kind)
            return self._server
        replay = ["replay", "server", str(self.path)]
        if kind == "url":
            replay += ["--http", "127.0.0.1:0"]
        if self.action == "extend":
            if not self._server:
                raise self._cannot_record("command")
            replay += ["--on-miss", "passthrough", "--", *self._server]
        return [*_MCPPROXY, *replay]

    def _cannot_record(self, kind: Literal["command", "url"]) -> UsageError:
        """Return the error of a test that has to record, but whose mark names no server of this ``kind``."""
        needed = 'command=["python", "server.py"]' if kind == "command" else 'url="http://127.0.0.1:3000/mcp"'
        fact = f"cannot be recorded: the mark gives no {kind} of a server"
        return UsageError(str(self.path), fact, f"@pytest.mark.mcp_recording(..., {needed})")

    def _start(self, command: list[str], address_pattern: str) -> str:
        """Start a command and return its address: the group of the pattern, found in its stderr."""
        process = Background(command)
        self._running.append(process)
        return process.wait_for(address_pattern)

    def _keep(self, sessions: Sequence[str]) -> None:
        """Write the sessions to ``path``.

        The first session becomes the recording, unless an older recording is kept. The other sessions are
        added to the recording. Only recordings of stdio can be joined: if either is over HTTP, the session
        replaces the recording if that lacks one of its requests.

        Raises:
            UsageError: a session would replace what another one of this run has recorded.
        """
        path = str(self.path)
        replaces = self.action == "record" and not self._adds
        for trace in sessions:
            if replaces or not self.path.exists():
                replaces = False  # the later sessions are added to the recording
            elif _is_on_stdio(path) and _is_on_stdio(trace):
                join(path, trace, path)
                continue
            elif not lacks(path, trace):
                continue  # every request of the trace is in the recording
            elif self._adds:
                raise UsageError(
                    path, "another test has recorded into it, over HTTP", "name one recording for each test"
                )
            elif self.action == "record" and lacks(trace, path):
                fact = "the test has a session on stdio and one over HTTP"
                raise UsageError(path, fact, "use command or url, not both")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(trace, "rb") as file:
                files.replace(path, file)

    def _show_commands(self) -> list[str]:
        """Return a line for each session with the command that shows its messages."""
        return [f"the messages: mcpproxy show {trace}" for trace in self.sessions]


class McpFindings:
    """The findings that fail a test: the value of the fixture ``mcp_findings``.

    ``level`` is the lowest severity that counts; ``select``, ``ignore``, ``rules`` and ``hosts`` are as for
    ``mcpproxy.check``. Something that one of ``hosts`` refuses or loses counts at any level.

    Raises:
        UsageError: ``level`` is no severity, or ``hosts`` names an unknown host.
    """

    def __init__(
        self,
        recording: McpRecording,
        level: str = "error",
        select: str | Sequence[str] | None = None,
        ignore: str | Sequence[str] | None = None,
        rules: str | Sequence[str] | None = None,
        hosts: str | Sequence[str] | None = None,
    ) -> None:
        if level not in WORST_FIRST:
            raise UsageError("mcp_findings", f"{level!r} is not a level", f"use {', '.join(WORST_FIRST)}")
        self._recording: Final = recording
        self._counted: Final = frozenset(WORST_FIRST[: WORST_FIRST.index(level) + 1])
        self._select, self._ignore, self._rules, self._hosts = select, ignore, rules, hosts
        if hosts is not None:
            from mcpproxy.judge.ruleset import host_choice

            names = [hosts] if isinstance(hosts, str) else hosts
            host_choice.chosen(names, option="mcp_findings: hosts")  # reports a wrong name at once

    def reports(self) -> "list[Report]":
        """Return the findings of each session so far, at any level.

        Raises:
            McpProxyError: a session cannot be read, or an argument of the mark is invalid.
        """
        from mcpproxy.api import check  # imports all rules, which a replay does not need

        return [
            check(trace, self._rules, self._select, self._ignore, self._hosts)
            for trace in self._recording.sessions
        ]

    def _does_count(self, finding: Finding) -> bool:
        """Whether a finding fails the test. Where the mark names hosts, a warning about one always does."""
        return finding.severity in self._counted or (
            self._hosts is not None and finding.rule.startswith("HOST-") and finding.severity == "warning"
        )

    def trouble(self) -> str:
        """Return text that lists the findings that count; empty if there are none.

        Raises:
            McpProxyError: as for ``reports``.
        """
        lines: list[str] = []
        first_rule = ""
        total = 0
        for report in self.reports():
            counted = [finding for finding in report.findings if self._does_count(finding)]
            for finding in counted:
                pointer = f", at {visible(finding.pointer)}" if finding.pointer else ""
                place = f" (frame {finding.frame}{pointer})" if finding.frame else ""
                lines += [f"  {text.finding_line(finding)}{place}", f"    {visible(finding.source)}"]
                first_rule = first_rule or finding.rule
            total += len(counted)
            for repeated in report.more:
                if repeated.severity in self._counted:
                    lines.append(f"  {visible(more_text(repeated))}")
                    total += repeated.count
            lines += [f"  the messages: mcpproxy show {report.path}"] if counted else []
        if not total:
            return ""
        head = f"mcp_findings: {count(total, 'finding')} in what this test's client and server said"
        return "\n".join([head, *lines, f"what a rule means: mcpproxy explain {first_rule}"])


def _header(trace: str) -> reader.Header | None:
    """Return the header of a trace; ``None`` if it cannot be read, or is not written yet."""
    try:
        return reader.read_trace(trace, is_recording=True).header
    except TraceError:
        return None


def _is_on_stdio(trace: str) -> bool:
    header = _header(trace)
    return header is not None and header.transport == "stdio"
