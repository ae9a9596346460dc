"""Recordings in Python: ``open_trace`` to read one, ``check`` to judge one.

    import mcpproxy

    for call in mcpproxy.open_trace("session.jsonl").calls("tools/call"):
        print(call.name, call.latency_ns, call.is_error)

    report = mcpproxy.check("session.jsonl", ignore="EXT")
    assert report.ok, report

The names in ``__all__``, also available from ``mcpproxy``, are stable within a major version. So are the
members documented here. Times and durations are in nanoseconds; times count from the start of the
recording. Every failure raises an ``McpProxyError``, whose text is one line.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpproxy.base.style import count, duration
from mcpproxy.errors import McpProxyError, TraceError, UsageError
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.judge.session.frame import Finding, Frame, Repeated, Sender, Severity
from mcpproxy.judge.session.outcomes import (
    ERRORS,
    Outcome,
    error_outcome,
    latency_ns,
    outcome_of,
    outcome_of_result,
    state_words,
)
from mcpproxy.peers.replay import recording
from mcpproxy.peers.replay.recording import Exchange, SessionMessage
from mcpproxy.protocol.jsonrpc import ErrorResponse, Request, RequestId, Response
from mcpproxy.protocol.mcp_in_acp import innermost
from mcpproxy.protocol.message_parts import error_of, member, or_none, target_of
from mcpproxy.read import judging, opening
from mcpproxy.read.reports import text
from mcpproxy.read.reports.judged_traces import JudgedTraces
from mcpproxy.record.trace import reader
from mcpproxy.record.trace.records import Header

if TYPE_CHECKING:  # most reports are not about hosts
    from mcpproxy.judge.checks.engine.rows import RuleFamily
    from mcpproxy.judge.checks.hosts.facts import HostChoice
    from mcpproxy.read.reports.host_matrix import HostRow

__all__ = [
    "Call",
    "Exchange",
    "Finding",
    "Frame",
    "Header",
    "McpProxyError",
    "Report",
    "Session",
    "Trace",
    "TraceError",
    "UsageError",
    "check",
    "open_trace",
]

StrPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Call:
    """A request and its answer, in either direction. ``sender`` is the peer that sent the request.

    ``id`` is ``None`` if it is neither a string nor an integer, ``params`` if the request has none.
    ``result`` and ``error`` are parsed JSON; an answer has one of the two, and the other is ``None``.
    ``is_error`` is true for an error and for a tool result with ``isError``, but not if a server declines
    ``server/discover``. ``frame`` and ``answer_frame`` are frame numbers, as ``mcpproxy show`` prints them.
    ``at_ns`` is the time of the request. ``answer_frame`` and ``latency_ns`` are ``None`` without an answer,
    ``latency_ns`` also if the recording has no times.
    """

    sender: Sender
    method: str
    id: RequestId | None
    params: Any
    result: Any
    error: Any
    is_error: bool
    frame: int
    answer_frame: int | None
    at_ns: int
    latency_ns: int | None

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name is not None else ""
        took = f", {duration(self.latency_ns)}" if self.latency_ns is not None else ""
        code, request = member(self.error, "code"), innermost(self.method, self.params)
        outcome = outcome_of_result(self.result, request) if self.is_answered else Outcome.UNANSWERED
        if self.is_error and outcome is Outcome.OK:
            outcome = error_outcome(self.error, request)
        state = state_words(outcome, code if type(code) is int else None)
        return f"<mcpproxy.Call in frame {self.frame}: {self.method}{name}, {state}{took}>"

    @property
    def is_answered(self) -> bool:
        """Whether the recording has an answer to the request."""
        return self.answer_frame is not None

    @property
    def name(self) -> str | None:
        """The tool, prompt or URI that it names, or (in ACP) the request that it carries; or ``None``."""
        return target_of(self.method, self.params)


@dataclass(frozen=True, slots=True)
class Session:
    """One MCP session of a recording.

    ``name`` is the argument for ``mcpproxy show --session``; it is empty on stdio and for HTTP traffic
    without a session id. ``frames`` holds frame numbers. ``exchanges`` holds the HTTP exchanges.
    """

    name: str
    frames: tuple[int, ...]
    calls: tuple[Call, ...]
    exchanges: tuple[Exchange, ...]


class Trace:
    """An open recording; see ``open_trace``.

    ``for frame in trace`` and ``frames()`` stream the file in constant memory. ``path`` and ``header`` need
    only the first line. All other members need the whole recording: it is read on first use, and kept.
    """

    def __init__(self, opened: reader.Trace) -> None:
        self._trace: Final = opened
        self._loaded: recording.LoadedTrace | None = None

    def __iter__(self) -> Iterator[Frame]:
        return self.frames()

    def __repr__(self) -> str:
        from mcpproxy.read.view.folder import recording as entry_of  # reads the two ends of the file only

        entry = entry_of(self.path)
        facts = [] if entry.frames is None else [count(entry.frames, "frame")]
        if entry.calls is not None:
            facts += [count(entry.calls.total, "call"), entry.calls.words(running=entry.running)]
        return f"<mcpproxy.Trace {self.path!r}{': ' if facts else ''}{', '.join(facts)}>"

    @property
    def path(self) -> str:
        """The path of the file, as the caller gave it."""
        return self._trace.path

    @property
    def header(self) -> Header:
        """The first line of the file: transport, command, label, start time and more."""
        return self._trace.header

    @property
    def complete(self) -> bool:
        """False if something is known to be missing; ``notes`` then says what.

        Raises:
            TraceError: a line of the file is damaged.
        """
        return self._loaded_trace.complete

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the parts that the recording lacks, or that the members of this class leave out.

        Raises:
            TraceError: a line of the file is damaged.
        """
        return tuple(self._loaded_trace.notes)

    def frames(self) -> Iterator[Frame]:
        """Return an iterator over all frames in their order; ``frame.message`` is the parsed message.

        Raises:
            TraceError: a line of the file is damaged.
        """
        return (event for event in self._trace.events() if isinstance(event, Frame))

    def sessions(self) -> tuple[Session, ...]:
        """Return the sessions in the order in which they began; on stdio there is one, if it has a message.

        Raises:
            TraceError: a line of the file is damaged.
        """
        return tuple(_session(session) for session in self._loaded_trace.sessions)

    def calls(self, method: str | None = None) -> tuple[Call, ...]:
        """Return every request with its answer, in request order. With ``method``, return only its requests.

        Requests that mcpproxy itself refused or answered are left out.

        Raises:
            TraceError: a line of the file is damaged.
        """
        calls = [call for session in self.sessions() for call in session.calls]
        if method is not None:
            calls = [call for call in calls if call.method == method]
        return tuple(sorted(calls, key=lambda call: call.frame))

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return all HTTP exchanges in the order in which they began; none on stdio.

        Raises:
            TraceError: a line of the file is damaged.
        """
        exchanges = [exchange for session in self.sessions() for exchange in session.exchanges]
        return tuple(sorted(exchanges, key=lambda exchange: exchange.number))

    @property
    def _loaded_trace(self) -> recording.LoadedTrace:
        if self._loaded is None:
            self._loaded = recording.from_trace(self._trace)
        return self._loaded


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of one recording; ``str(report)`` is the text that ``mcpproxy check`` prints.

    ``findings`` are in the order in which they were found. ``revision`` is the protocol revision at the end
    of the recording: the negotiated revision or, without a handshake, the revision that the requests name;
    ``None`` if the recording does not show it. ``frames`` is the number of judged frames. If ``complete`` is
    false, a part of the session was not recorded and so not judged, and ``notes`` says which part.
    """

    path: str
    findings: tuple[Finding, ...]
    revision: str | None
    frames: int
    complete: bool
    notes: tuple[str, ...]
    _text: str = field(repr=False)
    more: tuple[Repeated, ...] = ()
    """The counts of findings left out of ``findings``, which has at most the first hundred of one cause."""
    hosts: "tuple[HostRow, ...]" = ()
    """The hosts that the caller named: ``id``, ``name``, ``state`` (``works``, ``degraded``, ``blocked``, or
    ``unknown`` without facts or without a server that answers), and ``reasons``, each with its ``rule``,
    ``effect`` and ``text``."""

    @property
    def ok(self) -> bool:
        """Whether there are no errors. Findings of severity ``warning`` and ``info`` do not count."""
        return self.errors == 0

    @property
    def errors(self) -> int:
        """The number of errors: findings that break a MUST."""
        return self._counts["error"]

    @property
    def warnings(self) -> int:
        """The number of warnings: findings that break a SHOULD."""
        return self._counts["warning"]

    @property
    def infos(self) -> int:
        """The number of findings of severity ``info``: something is allowed but worth knowing."""
        return self._counts["info"]

    def __str__(self) -> str:
        return self._text

    @property
    def _counts(self) -> Counter[Severity]:
        total: Counter[Severity] = Counter(finding.severity for finding in self.findings)
        for repeated in self.more:
            total[repeated.severity] += repeated.count
        return total


def open_trace(path: StrPath) -> Trace:
    """Open a recording. If its recorder was killed, the recording is first completed from its journal.

    Raises:
        TraceError: the file does not exist, or is not a readable trace.
    """
    return Trace(opening.open_trace(path))


def check(
    path: StrPath,
    rules: StrPath | Iterable[StrPath] | None = None,
    select: str | Iterable[str] | None = None,
    ignore: str | Iterable[str] | None = None,
    hosts: str | Iterable[str] | None = None,
) -> Report:
    """Judge a recording again, as ``mcpproxy check`` does. The findings recorded in it are ignored.

    Args:
        path: the recording.
        rules: one or more folders with your own rules, applied in addition to the built-in ones.
        select: apply only these rules: codes, names or families; a string may list several with commas.
        ignore: leave out these rules; written like ``select``.
        hosts: also report what these hosts refuse, lose or change of legal messages; written like ``select``.
            Each is an id, with or without a version (``codex@0.171.0``), ``seen`` for the client in the
            recording, or ``all``.

    Raises:
        TraceError: the file does not exist, or is not a readable trace.
        UsageError: ``select`` or ``ignore`` names an unknown rule or family, or ``hosts`` an unknown host.
        CustomRuleError: a rule folder cannot be used, or one of its checks failed.
    """
    folders = [rules] if isinstance(rules, str | os.PathLike) else (rules or ())
    all_rules = ruleset.load(Path(folder) for folder in folders)
    choice = None
    if (named := _as_list(hosts)) is not None:
        from mcpproxy.judge.ruleset import host_choice

        choice = host_choice.chosen(named, option="hosts")
    extend = () if choice is None else ("HOST",)
    selection = Selection.of(all_rules.catalogue, _as_list(select), _as_list(ignore), extend, option="")
    # ``extended`` adds the opt-in families that have a rule in ``wanted``.
    all_rules = all_rules.extended(selection.wanted or (), () if choice is None else _host_families(choice))
    judged = judging.judge(opening.open_trace(path), all_rules, selection)
    verdict = JudgedTraces((judged,))
    rows: tuple[HostRow, ...] = ()
    if choice is not None:
        from mcpproxy.read.reports.host_matrix import named_hosts, rows_of_run

        verdict = JudgedTraces((judged,), hosts=named_hosts(choice))
        rows = rows_of_run(verdict)
    return Report(
        path=judged.path,
        findings=judged.findings,
        revision=judged.revision,
        frames=judged.frames,
        complete=judged.complete,
        notes=judged.notes,
        _text="\n".join(text.lines(verdict)),
        more=judged.more,
        hosts=rows,
    )


def _host_families(choice: "HostChoice") -> "tuple[RuleFamily, ...]":
    from mcpproxy.judge.checks.hosts.family import host_checks

    return (host_checks(choice),)


def _as_list(values: str | Iterable[str] | None) -> list[str] | None:
    if values is None:
        return None
    return [values] if isinstance(values, str) else list(values)


def _session(recorded: recording.RecordedSession) -> Session:
    frames = tuple(dict.fromkeys(entry.seq for entry in recorded.messages))
    answers: dict[int, SessionMessage] = {}
    for entry in recorded.messages:
        if entry.answers is not None:
            answers.setdefault(entry.answers, entry)
    calls = tuple(
        _call(entry, entry.message, answers.get(entry.index))
        for entry in recorded.messages
        if isinstance(entry.message, Request)
    )
    return Session(recorded.name, frames, calls, tuple(recorded.exchanges.values()))


def _call(entry: SessionMessage, request: Request, answer: SessionMessage | None) -> Call:
    message = answer.message if answer else None
    result = message.result if isinstance(message, Response) else None
    return Call(
        sender=entry.sender,
        method=request.method,
        id=request.id,
        params=or_none(request.params),
        result=result,
        error=error_of(message),
        is_error=isinstance(message, Response | ErrorResponse)
        and outcome_of(message, innermost(request.method, request.params)) in ERRORS,
        frame=entry.seq,
        answer_frame=answer.seq if answer else None,
        at_ns=entry.at_ns,
        latency_ns=latency_ns(entry.at_ns, answer.at_ns) if answer else None,
    )
