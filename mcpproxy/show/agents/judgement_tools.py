"""Tools about rules: findings, what a rule demands, and two recordings compared."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Final

from pydantic import Field

from mcpproxy.base.visible import visible
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.ruleset.selection import resolve, unknown
from mcpproxy.peers.replay.diff import comparison_report
from mcpproxy.peers.replay.diff.compare_traces import compare_recordings
from mcpproxy.peers.replay.diff.comparison import ComparedItem
from mcpproxy.protocol.revisions import VERSIONS
from mcpproxy.protocol.rules import Requirement
from mcpproxy.read.view.calls import FoundRule, RuleFindings
from mcpproxy.show.agents import cursors
from mcpproxy.show.agents.answer_types import (
    ComparisonPage,
    DifferenceRow,
    FindingPage,
    FindingRow,
    RequirementText,
    RuleRow,
    RuleText,
)
from mcpproxy.show.agents.errors import AgentError
from mcpproxy.show.agents.finding_rows import finding_row, rule_rows
from mcpproxy.show.agents.pages import AnswerPage
from mcpproxy.show.agents.recording_library import OpenedRecording, RecordingLibrary
from mcpproxy.show.agents.tool_arguments import Cursor, Handle, HandleAfter, HandleBefore

_MAX_CHANGES: Final = 10
_CHANGE_CHARACTERS: Final = 300
_MAX_NOTES: Final = 10

RuleName = Annotated[str, Field(max_length=100, description="A code (PROTO-007), or a name")]


class JudgementTools:
    """Tools about the findings in the recordings of ``library``."""

    def __init__(self, library: RecordingLibrary) -> None:
        self._library: Final = library

    def list_findings(self, recording: Handle = "", rule: RuleName = "", cursor: Cursor = "") -> FindingPage:
        """List the findings of a recording with the texts of their rules, the worst first.

        rule: only findings of this rule, or of a family (PROTO).
        """
        opened = self._library.opened(self._library.find(recording))
        question = ("list_findings", opened.handle, rule)
        start, _ = cursors.read(question, cursor)
        codes = _rule_codes(rule) if rule else None
        groups = [group for group in opened.view.findings.by_rule() if codes is None or group.rule in codes]
        counts = {group.rule: group.count for group in groups}
        step = "find_calls with the filter rule:* finds those of all, list_recordings has their numbers"
        note = self._library.note_on_latest(recording, opened.listed, step)
        if opened.listed.entry.has_not_begun:
            failed_start = f"nothing to judge: {self._library.failed_start(opened.listed)}"
            note = "; ".join(filter(None, (failed_start, note)))
        page, rules, rows = AnswerPage(50, note), dict[str, RuleRow](), list[FindingRow]()
        next = ""
        for number, (row, broken) in enumerate(self._rows_with_rules(opened, groups, start)):
            texts = {} if row.rule in rules else rule_rows([broken])
            if not page.count_item([row, texts]):
                next = cursors.write(question, start + number)
                break
            rows.append(row)
            rules |= {code: replace(text, count=counts[code]) for code, text in texts.items()}
        not_judged = self._library.shown(opened.view.not_judged)
        return FindingPage(rows, rules, sum(counts.values()), not_judged, note, next)

    def _rows_with_rules(
        self, opened: OpenedRecording, groups: list[RuleFindings], start: int
    ) -> Iterator[tuple[FindingRow, FoundRule]]:
        """Yield the findings of ``groups`` from number ``start`` on, each as a row and with its rule."""
        order = {group.rule: place for place, group in enumerate(groups)}
        texts = opened.view.findings.with_texts()
        broken = [rule for rule in texts if visible(rule.finding.rule) in order]
        broken.sort(key=lambda rule: order[visible(rule.finding.rule)])
        for rule in broken[start:]:
            yield finding_row(opened, rule.finding, rule.row), rule

    def explain_rule(self, rule: RuleName) -> RuleText:
        """Explain a rule: what it demands, why, what breaks it, what to do instead, where it is written."""
        rules = catalogue.load()
        codes = sorted(resolve(rules, rule))
        if not codes:
            raise unknown("explain_rule", rules, rule)
        if len(codes) > 1:
            raise AgentError(f"{rule} is a family of rules; name one of {', '.join(codes)}")
        explained = rules.rules[codes[0]]
        return RuleText(
            code=explained.code,
            name=explained.name,
            summary=explained.summary,
            why=explained.why,
            example=explained.example,
            instead=explained.instead,
            levels={revision: word for revision in VERSIONS if (word := explained.level(revision))},
            requirements=list(map(_requirement_text, explained.requirements)),
        )

    def compare_recordings(
        self, before: HandleBefore = "", after: HandleAfter = "", cursor: Cursor = ""
    ) -> ComparisonPage:
        """Compare what the server said in two recordings, session by session; equal answers are counted."""
        first, second = self._library.find_pair(before, after)
        question = ("compare_recordings", first.handle, second.handle)
        start, _ = cursors.read(question, cursor)
        comparison = compare_recordings(self._library.loaded(first), self._library.loaded(second))
        failed_starts = [
            self._library.failed_start(listed) for listed in (first, second) if listed.entry.has_not_begun
        ]
        notes = [self._library.shown(note) for note in comparison.notes]
        head = ComparisonPage(
            first.handle,
            second.handle,
            comparison_report.summary(comparison),
            [],
            [*failed_starts, *notes][:_MAX_NOTES],
        )
        different = [item for item in comparison.items if item.verdict != "same"]
        rows, has_more = AnswerPage(50, head).fill(map(self._difference_row, different[start:]))
        next = cursors.write(question, start + len(rows)) if has_more else ""
        return replace(head, differences=rows, next=next)

    def _difference_row(self, item: ComparedItem) -> DifferenceRow:
        shown = item.changes[:_MAX_CHANGES]
        changes = [self._library.shown(change.text, _CHANGE_CHARACTERS) for change in shown]
        return DifferenceRow(
            what=self._library.shown(item.what),
            verdict=item.verdict,
            frame=item.frame,
            found_frame=item.found_frame,
            session=self._library.shown(item.session),
            changes=changes,
            more_changes=len(item.changes) - len(changes),
        )


def _rule_codes(rule: str) -> frozenset[str]:
    rules = catalogue.load()
    if not (codes := resolve(rules, rule)):
        raise unknown("rule", rules, rule)
    return codes


def _requirement_text(requirement: Requirement) -> RequirementText:
    newest = next((revision for revision in reversed(VERSIONS) if revision in requirement.sources), "")
    return RequirementText(
        text=requirement.text,
        binds="both peers" if requirement.blame == "either" else requirement.blame,
        link=requirement.sources.get(newest, ""),
        not_checked=requirement.unobservable or "",
    )
