"""Tell in which hosts a server works, by its recordings and the facts about hosts.

A server is *blocked* in a host that refuses the server or a request. It is *degraded* if something is lost
for the host's model. Otherwise it *works*, though the host may change something.
"""

import textwrap
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.base.style import PLAIN, Colour, Style
from mcpproxy.base.visible import visible
from mcpproxy.judge.checks.hosts.facts import HostChoice
from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.reports.judged_traces import JudgedTrace, JudgedTraces, NamedHost, host_of
from mcpproxy.read.reports.junit import Case, Suite
from mcpproxy.read.reports.located import Located
from mcpproxy.read.reports.markdown import escaped
from mcpproxy.read.reports.text_table import table

HostState: TypeAlias = Literal["works", "degraded", "blocked", "unknown"]

STATES: Final[tuple[HostState, ...]] = ("works", "degraded", "blocked")
"""The states of a server in hosts about which there are facts, the best first."""

# The effect of a finding about a host -> the state of a server with that effect.
_STATE_OF: Final[dict[str, HostState]] = {
    "refused": "blocked",
    "lost": "degraded",
    "changed": "works",
    "perhaps": "works",
}
_COLOURS: Final[dict[HostState, Colour]] = {
    "works": "green",
    "degraded": "yellow",
    "blocked": "red",
    "unknown": "dim",
}
_COLUMNS: Final = 96
"""The greatest width of the lines with reasons, in columns of a terminal."""


@slotted(frozen=True)
class HostReason:
    """One thing that a host does. ``text`` is a clause with the host as its subject.

    ``effect`` is ``refused``, ``lost``, ``changed``, or ``perhaps`` if it is in doubt.
    """

    rule: str
    effect: str
    text: str


@slotted(frozen=True)
class HostRow:
    """A host, and the things that it does, the worst first.

    ``has_facts`` is false if no facts about the host are known; ``has_server`` is false if no MCP server
    answered in the recordings.
    """

    id: str
    name: str
    has_facts: bool
    reasons: tuple[HostReason, ...]
    has_server: bool = True

    @property
    def state(self) -> HostState:
        """The worst state of its reasons, ``works`` without any; unknown without facts or a server."""
        if not (self.has_facts and self.has_server):
            return "unknown"
        states = {_STATE_OF[reason.effect] for reason in self.reasons}
        return "blocked" if "blocked" in states else "degraded" if "degraded" in states else "works"


@slotted(frozen=True)
class HostMatrix:
    """The hosts that the user named, and the findings about them with their places."""

    rows: tuple[HostRow, ...]
    located: tuple[Located, ...]


def named_hosts(choice: HostChoice) -> tuple[NamedHost, ...]:
    """Return the hosts that the user named, without the client of the recording."""
    judged_hosts = choice.hosts(None)[: len(choice.named)]
    return tuple((judged.host.id, judged.label, bool(judged.facts)) for judged in judged_hosts)


def host_rows(
    hosts: Iterable[NamedHost], findings: Iterable[Finding], *, has_server: bool = True
) -> tuple[HostRow, ...]:
    """Return a row for each host, by the findings of the family HOST: the worst first, unknown last.

    A thing that a host does several times, as in several recordings, is one reason with a count.
    ``has_server`` is false if the recordings have no answer of an MCP server: every state is then unknown.
    """
    facts_of: dict[str, dict[tuple[str, str, str], dict[str, None]]] = {id: {} for id, _, _ in hosts}
    for finding in findings:
        host, data = host_of(finding), finding.data
        if data is not None and host is not None and host in facts_of:
            fact = finding.rule, str(data["effect"]), str(data["says"])
            facts_of[host].setdefault(fact, {})[str(data["reason"])] = None
    rows = [HostRow(id, name, has_facts, _reasons(facts_of[id]), has_server) for id, name, has_facts in hosts]
    order = ("unknown", *STATES)
    return tuple(sorted(rows, key=lambda row: order.index(row.state), reverse=True))


def rows_of_run(verdict: JudgedTraces) -> tuple[HostRow, ...]:
    """Return a row for each host that the user named, by the findings of all traces."""
    findings = [finding for trace in verdict.traces for finding in _all_findings(trace)]
    has_server = any(is_of_server(trace.revision) for trace in verdict.traces)
    return host_rows(verdict.hosts, findings, has_server=has_server or any(map(host_of, findings)))


def is_of_server(revision: str | None) -> bool:
    """Whether an MCP server answered in a recording whose final revision is ``revision``."""
    return revision is not None and not revision.startswith("acp-")


def _all_findings(trace: JudgedTrace) -> Iterator[Finding]:
    """Yield the findings of a trace, also those that a baseline accepts: the host still does these things."""
    yield from trace.findings
    yield from (located.finding for located in trace.known)


def markdown_lines(rows: tuple[HostRow, ...]) -> Iterator[str]:
    """Yield the matrix as a Markdown table, followed by the reasons and the hosts without facts."""
    yield f"| host | {' | '.join(STATES)} |"
    yield f"| --- |{' :---: |' * len(STATES)}"
    for row in rows:
        if row.state != "unknown":
            cells = ("x" if row.state == state else "" for state in STATES)
            yield f"| {escaped(row.name)} | {' | '.join(cells)} |"
    yield ""
    for row in rows:
        for reason in row.reasons:
            clause = f"{reason.rule} {reason.effect}: {reason.text}"
            yield f"- **{escaped(row.name)}** {row.state}: {escaped(clause)}"
    if any(row.reasons for row in rows):
        yield ""
    if unknown := _unknown_line(rows):
        yield escaped(unknown)
        yield ""


def suite(rows: tuple[HostRow, ...], failing: Container[str]) -> Suite:
    """Return the matrix as tests: a case for each host, which fails if its id is one of ``failing``.

    The reasons of the other hosts are notes. The case of a host without a known state is skipped.
    """
    cases = tuple(_case(row, has_failed=row.id in failing) for row in rows)
    passed = (row for row, case in zip(rows, cases, strict=True) if case.status == "passed")
    notes = tuple(f"{visible(row.name)} {row.state}: {line}" for row in passed for line in _reason_lines(row))
    return Suite("hosts", cases, notes)


def failing(rows: Iterable[HostRow]) -> frozenset[str]:
    """Return the ids of the hosts in which the server is degraded or blocked."""
    return frozenset(row.id for row in rows if row.state in ("degraded", "blocked"))


def failing_in(verdict: JudgedTraces) -> frozenset[str]:
    """Return the ids of the hosts that make a run fail; none unless warnings make it fail (``strict``)."""
    if not verdict.strict:
        return frozenset()
    return failing(
        host_rows(verdict.hosts, (finding for trace in verdict.traces for finding in trace.findings))
    )


def _case(row: HostRow, *, has_failed: bool) -> Case:
    if row.state == "unknown":
        why = "nothing of this grade is known of it" if row.has_server else "no server of MCP has answered"
        return Case("hosts", row.name, status="skipped", message=why)
    if not has_failed:
        return Case("hosts", row.name)
    first, *others = lines_of = tuple(_reason_lines(row))
    more = f" ({len(others)} more)" if others else ""
    message = f"{row.state}: {first}{more}"
    return Case("hosts", row.name, 0.0, "failed", message, "\n".join(lines_of), row.state)


def _reason_lines(row: HostRow) -> Iterator[str]:
    return (f"{reason.rule} {reason.effect}: {visible(reason.text)}" for reason in row.reasons)


def lines(rows: tuple[HostRow, ...], style: Style = PLAIN) -> Iterator[str]:
    """Yield the matrix as a text table, and below it the reasons and the hosts without facts."""
    cells = [("HOST", *(state.upper() for state in STATES))]
    cells += [
        (row.name, *("x" if row.state == state else "" for state in STATES))
        for row in rows
        if row.state != "unknown"
    ]

    def paint(column: int, cell: str, padded: str) -> str:
        return style.paint(padded, _COLOURS[STATES[column - 1]]) if column and cell else padded

    if len(cells) > 1:
        yield from (line.rstrip() for line in table(cells, style, paint=paint))
    width = min(style.width or _COLUMNS, _COLUMNS)
    for row in rows:
        if row.reasons:
            yield ""
            yield f"{style.paint(row.name, 'bold')} {style.paint(row.state, _COLOURS[row.state])}"
        for text in _reason_lines(row):
            yield from textwrap.wrap(
                text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
            )
    if unknown := _unknown_line(rows):
        yield from [""] if len(cells) > 1 else []
        yield from textwrap.wrap(unknown, width, break_on_hyphens=False)


def _unknown_line(rows: Iterable[HostRow]) -> str:
    """Return a sentence about the hosts whose state is unknown; empty if there is none."""
    rows = tuple(rows)
    if rows and not any(row.has_server for row in rows):
        return "No server of MCP has answered in what was judged, so nothing can be said of hosts."
    unknown = ", ".join(row.name for row in rows if not row.has_facts)
    return (
        f"Nothing of this grade is known of {unknown}. For all facts: --hosts-grade thread" if unknown else ""
    )


def as_objects(rows: tuple[HostRow, ...]) -> list[dict[str, object]]:
    """Return the matrix as JSON values."""
    return [
        {
            "id": row.id,
            "name": row.name,
            "state": row.state,
            "reasons": [
                {"rule": reason.rule, "effect": reason.effect, "text": reason.text} for reason in row.reasons
            ],
        }
        for row in rows
    ]


def _reasons(facts: Mapping[tuple[str, str, str], Mapping[str, None]]) -> tuple[HostReason, ...]:
    """Return a reason for each fact (rule, effect, clause): its first text, and how many more there are."""
    reasons: list[HostReason] = []
    for (rule, effect, _), texts in facts.items():
        more = f"; {len(texts) - 1:,} more like it" if len(texts) > 1 else ""
        reasons.append(HostReason(rule, effect, next(iter(texts)) + more))
    return tuple(sorted(reasons, key=_rank, reverse=True))


def _rank(reason: HostReason) -> int:
    return STATES.index(_STATE_OF[reason.effect])
