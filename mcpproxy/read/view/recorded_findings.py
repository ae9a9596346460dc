"""Read the findings that are recorded in a trace, with the rows (calls or records) that they are about."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.folding import Folded, fold
from mcpproxy.judge.session.frame import Finding, Severity
from mcpproxy.read.view.calls import FoundRule, RuleFindings
from mcpproxy.read.view.index.columns import SEVERITIES
from mcpproxy.read.view.index.indexed_trace import IndexedTrace

if TYPE_CHECKING:
    from mcpproxy.protocol.rules import Rule

_WRONG_ID: Final = "PROTO-007"
"""The rule about answers with a wrong id. Its findings name the request that the answer is for, if known."""


class RecordedFindings:
    """The findings in the index. Row 0 means the whole session, or a frame that belongs to no row.

    The methods about one row know the findings that ``with_rows`` has read.
    """

    def __init__(self, index: IndexedTrace) -> None:
        self._scan: Final = index.scan
        self._columns: Final = index.columns
        self._reader: Final = index.reader
        self._read_lines = 0
        self._with_rows: list[tuple[Finding, int]] = []
        self._of_row: dict[int, list[Finding]] = {}
        self.wrongly_answered: Final[dict[int, int]] = {}
        """Frame of a request -> frame of its answer, which has a wrong id."""

    def with_rows(self) -> list[tuple[Finding, int]]:
        """Return all findings with their rows, in the order of the recording.

        New findings are first counted in the columns of the index.
        """
        columns = self._columns
        for line in self._scan.finding_lines[self._read_lines :]:
            finding = self._reader.record(line)
            assert isinstance(finding, Finding)
            row = columns.row_of(finding.frame) if finding.frame else 0
            self._with_rows.append((finding, row))
            self._of_row.setdefault(row, []).append(finding)
            if row:
                columns.findings[row] = min(columns.findings[row] + 1, 0xFFFF)
                columns.severity[row] = max(columns.severity[row], SEVERITIES.index(finding.severity))
                self._scan.touch(row)
            if finding.rule == _WRONG_ID and finding.related:
                self.wrongly_answered.setdefault(finding.related[0], finding.frame)
                if request_row := columns.row_of(finding.related[0]):
                    self._scan.touch(request_row)
        self._read_lines = len(self._scan.finding_lines)
        return self._with_rows

    def with_texts(self) -> tuple[FoundRule, ...]:
        """Return all recorded findings with the texts of their rules, in the order of the recording."""
        return tuple(_with_texts(finding, row) for finding, row in self.with_rows())

    def of_row(self, row: int) -> tuple[FoundRule, ...]:
        """Return the findings about a row, with the texts of their rules."""
        return tuple(_with_texts(finding, row) for finding in self._of_row.get(row, ()))

    def worst_of_row(self, row: int) -> Finding | None:
        """Return the first of the worst findings about a row; ``None`` if there is none."""
        return worst(self._of_row.get(row, ()))

    def worst_count(self, row: int) -> int:
        """Return how many findings about a row are as severe as the worst of them."""
        severities = [SEVERITIES.index(finding.severity) for finding in self._of_row.get(row, ())]
        return severities.count(max(severities, default=0))

    def counts(self) -> Mapping[Severity, int]:
        """Return the number of findings of each severity, including those that the recorder only counted."""
        totals: Counter[Severity] = Counter(finding.severity for finding, _ in self.with_rows())
        tally = self._scan.last.tally if self._scan.last else None
        for repeated in tally.more if tally else ():
            totals[repeated.severity] += repeated.count
        return totals

    def by_rule(self) -> tuple[RuleFindings, ...]:
        """Return the findings, grouped by rule: the worst first, then the most frequent."""
        grouped: dict[str, list[tuple[Finding, int]]] = {}
        for finding, row in self.with_rows():
            grouped.setdefault(finding.rule, []).append((finding, row))
        counted_only: dict[str, int] = {}
        severities: dict[str, Severity] = {}
        tally = self._scan.last.tally if self._scan.last else None
        for repeated in tally.more if tally else ():
            counted_only[repeated.rule] = counted_only.get(repeated.rule, 0) + repeated.count
            severities[repeated.rule] = repeated.severity
        groups = [
            _rule_findings(
                rule, grouped.get(rule, []), counted_only.get(rule, 0), severities.get(rule, "info")
            )
            for rule in {**grouped, **counted_only}
        ]
        return tuple(sorted(groups, key=lambda g: (-SEVERITIES.index(g.severity), -g.count, g.rule)))


def worst(findings: Iterable[Finding]) -> Finding | None:
    """Return the first of the worst findings; ``None`` if there is none."""
    return max(findings, key=lambda finding: SEVERITIES.index(finding.severity), default=None)


def fold_found(found: Iterable[FoundRule]) -> list[tuple[FoundRule, Folded]]:
    """Fold findings that say the same into groups.

    Return the first of each group with its texts, and the group.
    """
    with_texts = {id(found_rule.finding): found_rule for found_rule in found}
    groups = fold(found_rule.finding for found_rule in with_texts.values())
    return [(with_texts[id(group.first)], group) for group in groups]


def _rule_findings(
    code: str, findings: list[tuple[Finding, int]], counted_only: int, severity: Severity
) -> RuleFindings:
    rule = _rule_of(code)
    severities: list[Severity] = [severity, *(finding.severity for finding, _ in findings)]
    worst: Severity = max(severities, key=SEVERITIES.index)
    return RuleFindings(
        rule=visible(code),
        name=rule.name if rule else "",
        severity=worst,
        summary=rule.summary if rule else "",
        count=len(findings) + counted_only,
        findings=tuple(finding for finding, _ in findings),
        rows=tuple(row for _, row in findings),
    )


def _with_texts(finding: Finding, row: int) -> FoundRule:
    """Return a finding with the texts of its rule; they are empty if this mcpproxy does not know the rule."""
    from mcpproxy.judge.ruleset.source_links import (
        link_to,  # Imported here: most recordings have no findings.
    )

    rule, link = _rule_of(finding.rule), link_to(finding.source)
    if rule is None:
        return FoundRule(finding, row, "", "", "", "", link)
    sentence = next((r.text for r in rule.requirements if r.id == finding.requirement), "")
    return FoundRule(finding, row, rule.name, rule.summary, sentence, rule.instead, link)


def _rule_of(code: str) -> "Rule | None":
    """Return the built-in rule with this code; ``None`` if there is none."""
    from mcpproxy.judge.ruleset import catalogue
    from mcpproxy.protocol.rules import RuleError  # Imported here: most recordings have no findings.

    try:
        return catalogue.load().rules.get(code)
    except RuleError:
        return None
