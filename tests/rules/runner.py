"""Reads a rule fixture, expands it to events for one revision, and lets the observer judge these.

A fixture is JSON Lines. The first line is its header, every other line one event of a session:

    {"about": "one sentence", "revisions": ["2025-06-18"]}    (and "ranges", as check --versions reads,
                                                               or "pins": server -> instructions, tools;
                                                               "redacted": values in it were masked;
                                                               "hosts": facts about a host, or ["seen"])
    {"handshake": {"client": {}, "server": {"tools": {}}}}
    {"ask": {"id": 1, "method": "tools/list"}, "capabilities": {}}
    {"from": "client", "message": {...}}      or "raw": "text", or "base64": "..."; "terminated": false
    {"eof": "client"}   {"signal": "SIGTERM"}   {"stderr": "text"}   {"gap": "reason"}
    {"close": {"ending": "exited", "exit_code": 0}}

``handshake`` stands for initialize (id 0), its result and the initialized notification. ``acp-handshake``
stands for initialize and its result in the Agent Client Protocol, which files with names that end in ``-acp``
speak, in the versions ``acp-1`` and ``acp-2``; ``"$NUMBER"`` is the version number in a message. ``ask`` is a
stateless request of the client; the required ``_meta`` with the capabilities is added to it. ``$REVISION`` is
replaced by the revision under test. ``t`` sets the time in seconds; without it, an event comes a millisecond
after the one before. A close is added if there is none. ``wire.py`` describes the lines for HTTP.

``expect`` names the rules of the findings at a line, in order; a line without it expects no finding. Next to
it, ``blame``, ``pointer``, ``frame``, ``requirement`` and ``severity`` are the expected values of each
finding, and ``says`` is its text.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from mcpproxy.judge.checks import BATCH_CHECKS, FAMILIES, FRAME_CHECKS, SPLIT_CHECKS
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.hosts.facts import HostChoice, KnownHost
from mcpproxy.judge.checks.hosts.family import host_checks
from mcpproxy.judge.checks.opt_in import families
from mcpproxy.judge.checks.opt_in.implementations import range_checks
from mcpproxy.judge.checks.opt_in.pins import Approved, pin_checks
from mcpproxy.judge.checks.server.definitions import definition
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.ruleset.host_facts import fact
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.session.frame import (
    Close,
    Eof,
    Event,
    Finding,
    Frame,
    Gap,
    RequestHead,
    ResponseHead,
    Signal,
    Stderr,
)
from mcpproxy.protocol.jsonrpc import ABSENT
from mcpproxy.protocol.revisions import ACP, STATEFUL, STATELESS, VERSIONS
from mcpproxy.protocol.rules import SEVERITY, Requirement
from mcpproxy.read.reports.version_ranges import compiled
from tests.rules.turned import turned
from tests.rules.wire import FORMS, Wire

FOLDER: Final = Path(__file__).parent

STEP_NS: Final = 1_000_000

REMARKS: Final = "DEPR"
"""A family whose rules report lawful messages. Its findings count in its own fixtures only."""

ABOUT_FINDINGS: Final = ("expect", "blame", "pointer", "frame", "requirement", "severity", "says")

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Fixture:
    """One file. ``named`` are the revisions in its header, empty for those of the rule."""

    path: Path
    about: str
    named: tuple[str, ...]
    lines: tuple[Line, ...]
    ranges: Mapping[str, object] = field(default_factory=dict[str, object])
    pins: Mapping[str, Any] | None = None
    redacted: bool = False
    hosts: tuple[Mapping[str, Any] | str, ...] = ()

    @cached_property
    def rule(self) -> str:
        return self.path.parent.name

    @property
    def bad(self) -> bool:
        return self.path.name.startswith("bad")

    @property
    def stateless(self) -> bool:
        """Whether it speaks the revision without a handshake."""
        return self.path.stem.endswith("-stateless")

    @property
    def acp(self) -> bool:
        """Whether it speaks the Agent Client Protocol."""
        return self.path.stem.endswith("-acp") or self.rule.startswith("ACP-")

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions in which it is judged."""
        if self.named:
            return self.named
        era = ACP if self.acp else STATELESS if self.stateless else STATEFUL
        return tuple(revision for revision in era if revision in holds(self.rule))

    @cached_property
    def bare(self) -> Counter[str]:
        """Its events, without expectations and times."""
        return Counter(
            json.dumps(
                {k: v for k, v in step.line.items() if k not in (*ABOUT_FINDINGS, "t")}, sort_keys=True
            )
            for step in steps(self, self.revisions[0])
        )

    def __str__(self) -> str:
        return f"{self.rule}/{self.path.stem}"


def read(path: Path) -> Fixture:
    """Parse one file."""
    # Split on the line feed alone: one of these sessions is about the other separators.
    header, *lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    return Fixture(
        path,
        header["about"],
        tuple(header.get("revisions", ())),
        tuple(lines),
        header.get("ranges", {}),
        header.get("pins"),
        header.get("redacted", False),
        tuple(header.get("hosts", ())),
    )


@cache
def fixtures() -> tuple[Fixture, ...]:
    """Return all fixtures, sorted by rule and name."""
    return tuple(read(path) for path in sorted(FOLDER.glob("*/*.jsonl")))


@cache
def permission(rule: str) -> bool:
    """Whether a rule is only a permission, which limits other rules."""
    requirements = catalogue.load().rules[rule].requirements
    return not any(breakable(requirement, revision) for requirement in requirements for revision in VERSIONS)


def breakable(requirement: Requirement, revision: str) -> bool:
    """Whether ``requirement`` can be broken in ``revision``; a permission cannot."""
    keyword = requirement.keywords.get(revision)
    return keyword is not None and SEVERITY[keyword] is not None


@cache
def holds(rule: str) -> tuple[str, ...]:
    """Return the revisions in which ``rule`` can be broken; for a permission, those in which it applies."""
    requirements = catalogue.load().rules[rule].requirements
    if permission(rule):
        return tuple(revision for revision in VERSIONS if any(revision in r.keywords for r in requirements))
    return tuple(revision for revision in VERSIONS if any(breakable(r, revision) for r in requirements))


@dataclass(frozen=True, slots=True)
class Step:
    """A line and its events; a line for HTTP may have several."""

    events: tuple[Event, ...]
    line: Line


def steps(fixture: Fixture, revision: str) -> Iterator[Step]:
    """Yield the lines of ``fixture`` with their events in ``revision``."""
    at_ns, wire = 0, Wire(revision)
    lines = list(fixture.lines)
    if not any("close" in line for line in lines):
        lines.append({"close": {"ending": "exited", "exit_code": 0}})
    for line in lines:
        for event in _expanded(line, revision):
            at_ns = round(event["t"] * 1e9) if "t" in event else at_ns + STEP_NS
            if any(form in event for form in FORMS):
                yield Step(tuple(wire.events(event, at_ns)), event)
            else:
                yield Step((_event(event, wire.next() if "from" in event else 0, at_ns),), event)


def _expanded(line: Line, revision: str) -> list[dict[str, Any]]:
    text = json.dumps(line).replace("$REVISION", revision)
    event: dict[str, Any] = json.loads(text.replace('"$NUMBER"', revision.removeprefix("acp-")))
    if "acp-handshake" in event:
        return _acp_handshake(event["acp-handshake"], revision)
    if "ask" in event:
        return [_asked(event, revision)]
    if "handshake" not in event:
        return [event]
    capabilities = event["handshake"]
    opening = {"protocolVersion": revision, "capabilities": capabilities["client"]}
    answer = {"protocolVersion": revision, "capabilities": capabilities["server"]}
    return [
        {
            "from": "client",
            "message": {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {**opening, "clientInfo": {"name": "client", "version": "1.0"}},
            },
        },
        {
            "from": "server",
            "message": {
                "jsonrpc": "2.0",
                "id": 0,
                "result": {**answer, "serverInfo": {"name": "server", "version": "1.0"}},
            },
        },
        {"from": "client", "message": {"jsonrpc": "2.0", "method": "notifications/initialized"}},
    ]


def _acp_handshake(declared: Mapping[str, Any], revision: str) -> list[dict[str, Any]]:
    """Return initialize and its result, with the capabilities in the members of this version."""
    number, first = int(revision.removeprefix("acp-")), revision == ACP[0]
    info = {"name": "example", "version": "1.0"}
    params: dict[str, Any] = {"protocolVersion": number, "clientInfo" if first else "info": info}
    result: dict[str, Any] = {"protocolVersion": number, "agentInfo" if first else "info": info}
    params["clientCapabilities" if first else "capabilities"] = declared.get("client", {})
    result["agentCapabilities" if first else "capabilities"] = declared.get("agent", {})
    result["authMethods"] = declared.get("authMethods", [])
    return [
        {"from": "client", "message": {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}},
        {"from": "server", "message": {"jsonrpc": "2.0", "id": 0, "result": result}},
    ]


def _asked(event: dict[str, Any], revision: str) -> dict[str, Any]:
    """Return a stateless request with the ``_meta`` that every one needs."""
    ask = event.pop("ask")
    params = ask.get("params", {})
    required = {
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1.0"},
        "io.modelcontextprotocol/clientCapabilities": event.pop("capabilities", {}),
    }
    meta = {**required, **params.get("_meta", {})}
    message = {"jsonrpc": "2.0", **ask, "params": {**params, "_meta": meta}}
    return {**event, "from": "client", "message": message}


def _event(line: Line, seq: int, at_ns: int) -> Event:
    match line:
        case {"from": sender, "message": message}:
            return Frame(seq, sender, json.dumps(message).encode(), at_ns, line.get("terminated", True))
        case {"from": sender, "raw": text}:
            return Frame(seq, sender, text.encode(), at_ns, line.get("terminated", True))
        case {"from": sender, "base64": text}:
            return Frame(seq, sender, base64.b64decode(text), at_ns, line.get("terminated", True))
        case {"eof": sender}:
            return Eof(sender, at_ns)
        case {"signal": name}:
            return Signal(name, at_ns)
        case {"stderr": text}:
            return Stderr(text.encode(), at_ns)
        case {"gap": reason}:
            return Gap(reason, observed_at_ns=at_ns)
        case {"close": close}:
            return Close(**close, observed_at_ns=at_ns)
        case _:
            raise ValueError(f"no event: {line}")


@dataclass
class Verdict:
    """The result of a session: its findings in order, and a transcript up to the first surprise, if any."""

    findings: list[Finding] = field(default_factory=list[Finding])
    surprise: str = ""


_JUDGED: Final[dict[tuple[str, str], Verdict]] = {}


def judged(fixture: Fixture, revision: str) -> Verdict:
    """Return the verdict on a session; each session is judged once."""
    key = str(fixture), revision
    if key not in _JUDGED:
        _JUDGED[key] = judge(fixture, revision)
    return _JUDGED[key]


def judge(fixture: Fixture, revision: str, *, in_order: bool = True) -> Verdict:
    """Judge a fixture and compare the findings at each line with its expectations.

    ``in_order=False`` calls the checks as ``turned`` says: more often, and in another order.
    """
    ranges = json.loads(json.dumps(fixture.ranges).replace("$REVISION", revision))
    families = [range_checks(compiled(fixture.path.name, ranges))] if ranges else []
    if fixture.pins is not None:
        families.append(
            pin_checks({name: _approved(server, revision) for name, server in fixture.pins.items()})
        )
    if fixture.hosts:
        families.append(host_checks(_hosts(fixture)))
    ruleset = Ruleset(catalogue.load()).extended({fixture.rule}, families)
    if not in_order:
        ruleset = replace(ruleset, dispatch=turned(ruleset.dispatch.families))
    observer = ruleset.observer(redacted=fixture.redacted)
    verdict = Verdict()
    seen: list[Event] = []
    for step in steps(fixture, revision):
        found = [
            finding
            for event in step.events
            for finding in observer.observe(event)
            if fixture.rule.startswith(REMARKS) or not finding.rule.startswith(REMARKS)
        ]
        verdict.findings += found
        seen += step.events
        if not verdict.surprise and (surprise := _compare(step.line, found)):
            transcript = [f"{fixture} in {revision}: {fixture.about}", *map(shown, seen)]
            transcript += [f"    {surprise}", *(f"    found {described(finding)}" for finding in found)]
            verdict.surprise = "\n".join(transcript)
    return verdict


def _approved(server: Mapping[str, Any], revision: str) -> Approved:
    listed = {tool["name"]: definition(tool) for tool in server["tools"]}
    return Approved((revision,), server.get("instructions", ABSENT), listed)


def _hosts(fixture: Fixture) -> HostChoice:
    """Return a host that may come, with the facts in the header, or the client that is there."""
    rows = [
        {**row, "date": date.fromisoformat(row["date"])} for row in fixture.hosts if not isinstance(row, str)
    ]
    if not rows:
        return HostChoice(known=(KnownHost("host", "Host", (), (), True, ()),))
    facts = tuple(fact(fixture.path.name, row, rows[0]["date"]) for row in rows)
    return HostChoice(((KnownHost("host", "Host", (), (), True, facts), "1.0"),))


def _compare(line: Line, found: list[Finding]) -> str:
    expected: list[str] = line.get("expect", [])
    if [finding.rule for finding in found] != expected:
        return f"expected {', '.join(expected) or 'nothing'}"
    for finding in found:
        for name in ABOUT_FINDINGS[1:]:
            told = getattr(finding, "message" if name == "says" else name)
            if name in line and told != line[name]:
                return f"expected {name} {line[name]!r}, found {told!r}"
    return ""


def shown(event: Event) -> str:
    """Return an event as a line of a transcript."""
    match event:
        case Frame(sender="client"):
            return f"{event.seq:>3} client -> {event.raw.decode('utf-8', 'backslashreplace')}"
        case Frame():
            return f"{event.seq:>3} server <- {event.raw.decode('utf-8', 'backslashreplace')}"
        case RequestHead():
            return f"{event.seq:>3} client -> {event.method} {event.target} {dict(event.headers)}"
        case ResponseHead():
            return f"{event.seq:>3} server <- {event.status} {dict(event.headers)}"
        case _:
            return f"    {event}"


def described(finding: Finding) -> str:
    """Return a finding, with its requirement, on one line."""
    return (
        f"{finding.rule} {finding.requirement} {finding.severity}, {finding.blame}, frame {finding.frame}"
        f" {finding.pointer or ''}: {finding.message}"
    )


def distance(one: Fixture, another: Fixture) -> int:
    """Return the number of events in which two sessions differ, without expectations and times."""
    return max((one.bare - another.bare).total(), (another.bare - one.bare).total())


def methods(fixture: Fixture) -> set[str]:
    """Return the methods in a session, with those of the handshake; ``""`` for a frame without one."""
    revision = fixture.revisions[0]
    events = [event for step in steps(fixture, revision) for event in step.events]
    return {getattr(event.message, "method", "") for event in events if isinstance(event, Frame)}


def decided_rules() -> frozenset[str]:
    """Return the codes of all rules that some check can report."""
    return Dispatch((*FAMILIES, *families.FAMILIES)).rules.union(
        code for codes, _ in (*FRAME_CHECKS, *BATCH_CHECKS, *SPLIT_CHECKS) for code in codes
    )
