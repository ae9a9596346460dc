"""How many requests of a recording ended how, and its sessions with their rows, errors and findings."""

from collections import Counter
from collections.abc import Iterable, Sequence

from mcpproxy.base.visible import visible
from mcpproxy.session.frame import Finding
from mcpproxy.view.calls import ERRORS, Kind, Outcome, SessionSummary
from mcpproxy.view.index.columns import FROM_SERVER, KINDS, OUTCOMES, SEVERITIES, Columns
from mcpproxy.view.index.peers import SessionFacts


def request_outcomes(columns: Columns) -> Counter[Outcome]:
    """Return how many requests ended in each way."""
    request = KINDS.index(Kind.REQUEST)
    counted: Counter[Outcome] = Counter()
    pairs = Counter(zip(columns.kind[1:], columns.outcome[1:], strict=True))
    for (kind, outcome), number in pairs.items():
        if kind & ~FROM_SERVER == request:
            counted[OUTCOMES[outcome]] += number
    return counted


def summaries(
    columns: Columns, sessions: Sequence[SessionFacts], findings: Iterable[tuple[Finding, int]], last_ns: int
) -> tuple[SessionSummary, ...]:
    """Return the sessions that have rows, in the order in which they began.

    ``findings`` are the findings with their rows; ``last_ns`` is the time of the last record.
    """
    outcomes, spans = _counted(columns, last_ns)
    finding_counts: Counter[int] = Counter()
    worst_severity: dict[int, int] = {}
    for finding, row in findings:
        number = columns.session[row]  # row 0, the whole session, has the number 0
        finding_counts[number] += 1
        worst_severity[number] = max(worst_severity.get(number, 0), SEVERITIES.index(finding.severity))
    return tuple(
        SessionSummary(
            number=number,
            name=visible(facts.name),
            protocol=facts.protocol,
            client=visible(facts.client),
            client_version=visible(facts.client_version),
            server=visible(facts.server),
            server_version=visible(facts.server_version),
            revision=visible(facts.revision),
            started_ns=spans[number][0],
            ended_ns=spans[number][1],
            rows=sum(outcomes[number, outcome] for outcome in range(len(OUTCOMES))),
            errors=sum(outcomes[number, OUTCOMES.index(outcome)] for outcome in ERRORS),
            unanswered=outcomes[number, OUTCOMES.index(Outcome.NO_ANSWER)],
            findings=finding_counts[number],
            severity=SEVERITIES[worst_severity.get(number, 0)],
        )
        for number, facts in enumerate(sessions)
        if number in spans
    )


def _counted(columns: Columns, last_ns: int) -> tuple[Counter[tuple[int, int]], dict[int, tuple[int, int]]]:
    """Return how often each (session, outcome) occurs, and when each session began and ended."""
    outcomes: Counter[tuple[int, int]] = Counter()
    spans: dict[int, tuple[int, int]] = {}
    if not columns.rows:
        return outcomes, spans
    if not columns.session.tobytes().strip(b"\0"):
        # There is one session, as on stdio. Counting bytes takes a hundredth of the time.
        outcome_bytes = columns.outcome[1:].tobytes()
        outcomes.update({(0, outcome): outcome_bytes.count(outcome) for outcome in range(len(OUTCOMES))})
        return outcomes, {0: (columns.started_ns[1], last_ns)}
    rows = zip(columns.session, columns.outcome, columns.started_ns, columns.latency_ns, strict=True)
    next(rows)  # rows are numbered from 1
    for session, outcome, started_ns, latency_ns in rows:
        outcomes[session, outcome] += 1
        end_ns = started_ns + max(latency_ns, 0)
        span = spans.get(session)
        if span is None:
            spans[session] = started_ns, end_ns
        elif end_ns > span[1]:
            spans[session] = span[0], end_ns
    return outcomes, spans
