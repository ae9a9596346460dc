"""In which hosts a server works, as far as recordings and the facts about hosts show it.

A host is *blocked* if it refuses the server or a request, *degraded* if something is lost for its model, and
otherwise the server *works* in it, though the host may change something.
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
"""The states of hosts that have facts, the best first."""

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


@slotted(frozen=True)
class HostReason:
    """One thing that a host does: the rule, the effect, and a clause after the host's name."""

    rule: str
    effect: str
    text: str


@slotted(frozen=True)
class HostRow:
    """A host and what it does, the worst first. ``has_server`` says that it was judged by a server of MCP."""

    id: str
    name: str
    has_facts: bool
    reasons: tuple[HostReason, ...]
    has_server: bool = True

    @property
    def state(self) -> HostState:
        """The worst state of its reasons; it is not known without facts, or without a server."""
        if not (self.has_facts and self.has_server):
            return "unknown"
        states = {_STATE_OF[reason.effect] for reason in self.reasons}
        return "blocked" if "blocked" in states else "degraded" if "degraded" in states else "works"


@slotted(frozen=True)
class HostMatrix:
    """The hosts that were named, and the findings that say what they do, with their places."""

    rows: tuple[HostRow, ...]
    located: tuple[Located, ...]


def named_hosts(choice: HostChoice) -> tuple[NamedHost, ...]:
    """Return the hosts that were named, without the client that is there."""
    judged = choice.hosts(None)[: len(choice.named)]
    return tuple((each.host.id, each.label, bool(each.facts)) for each in judged)


def host_rows(
    hosts: Iterable[NamedHost], findings: Iterable[Finding], *, has_server: bool = True
) -> tuple[HostRow, ...]:
    """Return a row for each host, by the findings of the family HOST; the worst first.

    What a host does several times, as in several recordings, is one reason, with a count. Without
    ``has_server`` nothing can be said: what was recorded is not MCP, or the server never answered.
    """
    met: dict[str, dict[tuple[str, str, str], dict[str, None]]] = {id: {} for id, _, _ in hosts}
    for finding in findings:
        host, data = host_of(finding), finding.data
        if data is not None and host is not None and host in met:
            fact = finding.rule, str(data["effect"]), str(data["says"])
            met[host].setdefault(fact, {})[str(data["reason"])] = None
    rows = [HostRow(id, name, has_facts, _reasons(met[id]), has_server) for id, name, has_facts in hosts]
    order = ("unknown", *STATES)
    return tuple(sorted(rows, key=lambda row: order.index(row.state), reverse=True))


def rows_of_run(verdict: JudgedTraces) -> tuple[HostRow, ...]:
    """Return the hosts that were named, by the findings of all traces, also those of a baseline."""
    findings = [finding for trace in verdict.traces for finding in _all_of(trace)]
    has_server = any(is_of_server(trace.revision) for trace in verdict.traces)
    return host_rows(verdict.hosts, findings, has_server=has_server or any(map(host_of, findings)))


def is_of_server(revision: str | None) -> bool:
    """Whether a recording with this revision, as it was at the end, is one of a server that answered."""
    return revision is not None and not revision.startswith("acp-")


def _all_of(trace: JudgedTrace) -> Iterator[Finding]:
    """Yield the findings of a trace, also those that a baseline accepts: the host still does it."""
    yield from trace.findings
    yield from (located.finding for located in trace.known)


def markdown_lines(rows: tuple[HostRow, ...]) -> Iterator[str]:
    """Yield the matrix as a table of Markdown, and below it the reasons as a list."""
    yield f"| host | {' | '.join(STATES)} |"
    yield f"| --- |{' :---: |' * len(STATES)}"
    for row in rows:
        if row.state != "unknown":
            cells = ("x" if row.state == state else "" for state in STATES)
            yield f"| {escaped(row.name)} | {' | '.join(cells)} |"
    yield ""
    for row in rows:
        for reason in row.reasons:
            said = f"{reason.rule} {reason.effect}: {reason.text}"
            yield f"- **{escaped(row.name)}** {row.state}: {escaped(said)}"
    if any(row.reasons for row in rows):
        yield ""
    if unknown := _unknown_line(rows):
        yield escaped(unknown)
        yield ""


def suite(rows: tuple[HostRow, ...], failing: Container[str]) -> Suite:
    """Return the matrix as tests: a case for each host, which fails if its id is one of ``failing``.

    What the others do is in the notes, and a host of which nothing is known is skipped.
    """
    cases = tuple(_case(row, has_failed=row.id in failing) for row in rows)
    told = (row for row, case in zip(rows, cases, strict=True) if case.status == "passed")
    notes = tuple(f"{visible(row.name)} {row.state}: {line}" for row in told for line in _reason_lines(row))
    return Suite("hosts", cases, notes)


def failing(rows: Iterable[HostRow]) -> frozenset[str]:
    """Return the ids of the hosts in which the server is degraded or blocked."""
    return frozenset(row.id for row in rows if row.state in ("degraded", "blocked"))


def failing_in(verdict: JudgedTraces) -> frozenset[str]:
    """Return the ids of the hosts that make a run fail, which only warnings that count do."""
    if not verdict.strict:
        return frozenset()
    return failing(host_rows(verdict.hosts, (found for trace in verdict.traces for found in trace.findings)))


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
    """Yield the matrix, and below it why a server does not work in a host, or is changed by it.

    A host without facts is named below it.
    """
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
    """Return a sentence that names the hosts without facts, or says that nothing can be said; empty else."""
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


def _reasons(met: Mapping[tuple[str, str, str], Mapping[str, None]]) -> tuple[HostReason, ...]:
    """Return a reason for each fact (rule, effect, clause): its first text, and how many more there are."""
    reasons: list[HostReason] = []
    for (rule, effect, _), texts in met.items():
        more = f"; {len(texts) - 1:,} more like it" if len(texts) > 1 else ""
        reasons.append(HostReason(rule, effect, next(iter(texts)) + more))
    return tuple(sorted(reasons, key=_rank, reverse=True))


def _rank(reason: HostReason) -> int:
    return STATES.index(_STATE_OF[reason.effect])
