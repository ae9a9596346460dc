"""Count the calls of a recording by outcome, and summarise its sessions with their calls and findings.

Here a call is a request of either peer. A row may be something else, for example a notification.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import Finding
from mcpproxy.judge.session.outcomes import Outcome, count_calls
from mcpproxy.read.view.calls import SessionSummary
from mcpproxy.read.view.index.columns import OUTCOMES, REQUESTS, SEVERITIES, Columns
from mcpproxy.read.view.index.peers import SessionFacts

_NO_CALL: Final = 0xFF
"""The outcome of rows that are not calls."""
# Kind -> 0 for a request; for any other, the bits that turn each outcome into ``_NO_CALL``.
_MASKS: Final = bytes(0 if kind in REQUESTS else _NO_CALL for kind in range(256))


def call_outcomes(columns: Columns) -> Counter[Outcome]:
    """Return how many calls ended in each way."""
    outcomes = _outcomes(columns)
    return Counter({outcome: outcomes.count(number) for number, outcome in enumerate(OUTCOMES)})


def oldest_unanswered_ns(columns: Columns) -> int | None:
    """Return when the oldest unanswered call began, in ns since the start; ``None`` if there is none."""
    outcomes, number = _outcomes(columns), OUTCOMES.index(Outcome.UNANSWERED)
    row = outcomes.find(number) + 1  # rows are in the order in which they began
    return columns.started_ns[row] if row else None


def _outcomes(columns: Columns) -> bytes:
    """Return the outcome of each row, as its index in ``OUTCOMES``; ``_NO_CALL`` if it is not a call.

    All rows are computed at once: one by one they would take a hundred times as long.
    """
    masks = columns.kind[1:].tobytes().translate(_MASKS)
    outcomes = int.from_bytes(columns.outcome[1:].tobytes())
    return (outcomes | int.from_bytes(masks)).to_bytes(len(masks))


def summaries(
    columns: Columns, sessions: Sequence[SessionFacts], findings: Iterable[tuple[Finding, int]], last_ns: int
) -> tuple[SessionSummary, ...]:
    """Return the sessions that have rows, in the order in which they began.

    ``findings`` are the findings with their rows (0: a whole session), ``last_ns`` the last record's time.
    """
    outcomes, spans = _count_outcomes(columns, last_ns)
    severities_of: dict[int, Counter[int]] = {number: Counter() for number in spans}
    for finding, row in findings:
        number = columns.session[row]  # row 0, the whole session, has the number 0
        severities_of.setdefault(number, Counter())[SEVERITIES.index(finding.severity)] += 1
    worst = {number: max(counts, default=0) for number, counts in severities_of.items()}
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
            rows=sum(outcomes[number, outcome] for outcome in (*range(len(OUTCOMES)), _NO_CALL)),
            calls=count_calls({outcome: outcomes[number, place] for place, outcome in enumerate(OUTCOMES)}),
            findings=severities_of[number].total(),
            severity=SEVERITIES[worst[number]],
            worst_findings=severities_of[number][worst[number]],
        )
        for number, facts in enumerate(sessions)
        if number in spans
    )


def _count_outcomes(
    columns: Columns, last_ns: int
) -> tuple[Counter[tuple[int, int]], dict[int, tuple[int, int]]]:
    """Return the count of each (session, outcome of ``_outcomes``), and start and end of each session."""
    outcomes: Counter[tuple[int, int]] = Counter()
    spans: dict[int, tuple[int, int]] = {}
    if not columns.rows:
        return outcomes, spans
    if not columns.session.tobytes().strip(b"\0"):
        # There is one session, as on stdio. Counting bytes takes a hundredth of the time.
        of_rows = _outcomes(columns)
        outcomes.update({(0, outcome): of_rows.count(outcome) for outcome in set(of_rows)})
        return outcomes, {0: (columns.started_ns[1], last_ns)}
    columns_of_rows = columns.session[1:], columns.started_ns[1:], columns.latency_ns[1:]
    rows = zip(_outcomes(columns), *columns_of_rows, strict=True)
    for outcome, session, started_ns, latency_ns in rows:
        outcomes[session, outcome] += 1
        end_ns = started_ns + max(latency_ns, 0)
        span = spans.get(session)
        if span is None:
            spans[session] = started_ns, end_ns
        elif end_ns > span[1]:
            spans[session] = span[0], end_ns
    return outcomes, spans
