"""Judges one recording, the unit of work of a fleet: a path in, a record of the findings out.

The record depends only on the bytes of the recording, its name and the rules. So every shard, engine and
machine makes the same record, each time.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, Literal

import orjson

from mcpproxy.base.files import open_regular
from mcpproxy.errors import McpProxyError, TraceError
from mcpproxy.judge.ruleset.ruleset import CustomRuleError, Ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.judge.session.frame import WORST_FIRST
from mcpproxy.read import judging
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports import json as json_report
from mcpproxy.read.reports.judged_traces import JudgedTrace
from mcpproxy.read.reports.located import Located, locate
from mcpproxy.record.trace.reader import Trace

FORMAT: Final = 1
"""The format of a record. Members may be added to it; any other change gives a new number."""

_PIECE_BYTES: Final = 1 << 20

Status = Literal["judged", "unreadable", "unfinished", "skipped"]


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The outcome of one recording.

    ``judged`` and ``unreadable`` (no later run can read it) have a ``record``: JSON in UTF-8. ``unfinished``
    (it is still being recorded, the journal with its last traffic cannot be read, or its later files are
    missing) and ``skipped`` (its judge crashed, took too much time or memory, or could not fetch it or write
    the record, or a custom rule failed) have none. ``reason`` says why it was not judged.
    """

    name: str
    status: Status
    record: bytes = b""
    reason: str = ""
    frames: int = 0
    errors: int = 0
    warnings: int = 0
    infos: int = 0


def judge_unit(path: str, name: str, rules: Ruleset, selection: Selection, key: str) -> UnitResult:
    """Judge the recording at ``path``. ``name`` is its name in the fleet.

    ``key`` names the rules and the version of mcpproxy (see ``JudgeRules.key``); the record repeats it.

    Raises:
        CustomRuleError: a custom rule failed.
    """
    head: dict[str, object] = {"format": FORMAT, "recording": name, "rules": key}
    try:
        trace = open_trace(path)
        if trace.is_recording:
            return UnitResult(name, "unfinished", reason="it is still being recorded")
        judged = judging.judge(trace, rules, selection)
        continued_in = trace.continued_in  # before the trace is read again, and perhaps not to its end
        located = locate(trace, judged.findings)
        head["sha256"] = _digest(trace)
    except CustomRuleError:
        raise
    except (McpProxyError, OSError) as fault:
        reason = _without_path(fault, name)
        record = {**head, "status": "unreadable", "reason": reason}
        return UnitResult(name, "unreadable", _encoded(record), reason)
    if judged.journal_fault:
        return UnitResult(name, "unfinished", reason=judged.journal_fault)
    if continued_in:
        return UnitResult(name, "unfinished", reason=f"it continues in {continued_in}, which is missing")
    named = replace(judged, path=name, located=tuple(_named(finding, name) for finding in located))
    counts = _counts(judged)
    judged_members = {**head, "status": "judged", **json_report.trace_object(named)}
    judged_members.pop("path")
    return UnitResult(name, "judged", _encoded(judged_members), "", judged.frames, *counts)


def _counts(judged: JudgedTrace) -> tuple[int, int, int]:
    severities = [finding.severity for finding in judged.findings]
    more = {
        severity: sum(repeated.count for repeated in judged.more if repeated.severity == severity)
        for severity in WORST_FIRST
    }
    return (
        severities.count("error") + more["error"],
        severities.count("warning") + more["warning"],
        severities.count("info") + more["info"],
    )


def _named(located: Located, name: str) -> Located:
    """Return a finding with the name of its file instead of the path at which this machine read it."""
    return replace(located, path=_fleet_path(located.path, name))


def _fleet_path(path: str, name: str) -> str:
    folder, _, _ = name.rpartition("/")
    return f"{folder}/{os.path.basename(path)}" if folder else os.path.basename(path)


def _without_path(fault: Exception, name: str) -> str:
    """Return the text of a fault, with the name of the recording instead of its path."""
    if isinstance(fault, TraceError):
        where = _fleet_path(fault.path, name)
        where = where if fault.line is None else f"{where}:{fault.line}"
        return f"{where}: {fault.fact}; {fault.next_step}"
    if isinstance(fault, OSError):
        return f"{name}: {(fault.strerror or 'unreadable').lower()}"
    return str(fault)


def _digest(trace: Trace) -> str:
    digest = sha256()
    for piece in _pieces(trace.readable_files):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(paths: list[str]) -> Iterator[bytes]:
    for path in paths:
        with open(open_regular(path, follows=True), "rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece


def _encoded(record: dict[str, object]) -> bytes:
    return orjson.dumps(record) + b"\n"
