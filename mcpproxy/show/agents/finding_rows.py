"""Findings and their rules as rows of answers."""

from collections.abc import Iterable

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.view.calls import FoundRule
from mcpproxy.show.agents.answer_types import FindingRow, RuleRow
from mcpproxy.show.agents.recording_library import MESSAGE_CHARACTERS, OpenedRecording


def finding_row(opened: OpenedRecording, finding: Finding, row: int) -> FindingRow:
    """Return a finding as a row of an answer; ``row`` is the number of its call, 0 if it has none.

    A value that is masked in its frames is masked in its message, too.
    """
    for frame in (finding.frame, *finding.related):
        try:
            opened.view.record(frame)  # the redaction remembers the frames in which it masked something
        except LookupError:
            pass  # the finding is about the whole session, or names a frame that was not recorded
    masked = opened.redaction.record(finding)
    assert isinstance(masked, Finding)
    return FindingRow(
        rule=visible(masked.rule)[:40],
        severity=masked.severity,
        message=visible(masked.message)[:MESSAGE_CHARACTERS],
        frame=masked.frame,
        call=row,
        broken_by=masked.blame,
        pointer=visible(opened.redaction.text(masked.pointer or ""))[:240],
    )


def rule_rows(broken: Iterable[FoundRule]) -> dict[str, RuleRow]:
    """Return the code of each broken rule -> its row; unknown rules are left out."""
    return {
        rule.finding.rule: RuleRow(rule.name, rule.summary, rule.sentence, rule.instead, rule.link)
        for rule in broken
        if rule.name
    }
