"""The tool about prompts: what a model saw of the servers that its host used."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from mcpproxy.errors import TraceError
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.model.dialect import DIALECTS
from mcpproxy.read.prompt.findings import PromptFinding
from mcpproxy.read.prompt.judged_runs import findings_of_run
from mcpproxy.read.prompt.report import PromptReport
from mcpproxy.read.prompt.run import MOST_SEARCHED, has_turns, is_beside, is_of_a_model, read_run
from mcpproxy.read.prompt.words import (
    call_words,
    list_words,
    refusal_words,
    text_words,
    tool_words,
    unread_words,
)
from mcpproxy.show.agents import cursors
from mcpproxy.show.agents.answer_types import PromptPage, PromptRow
from mcpproxy.show.agents.errors import AgentError
from mcpproxy.show.agents.pages import AnswerPage
from mcpproxy.show.agents.recording_library import MESSAGE_CHARACTERS, ListedRecording, RecordingLibrary
from mcpproxy.show.agents.tool_arguments import Cursor, HandleOfModel

_MAX_ROWS: Final = 100
_COMMAND: Final = "mcpproxy prompt"
_RECORD: Final = "the user records one with mcpproxy model URL-OF-THE-SERVICE"


class PromptTools:
    """The tool that tells what models saw, from the recordings of ``library``."""

    def __init__(self, library: RecordingLibrary) -> None:
        self._library: Final = library

    def get_prompt(self, recording: HandleOfModel = "", cursor: Cursor = "") -> PromptPage:
        """Tell what a host made of tools and results before its model read them: renamed, cut, lost."""
        model = self._model_recording(recording)
        question = ("get_prompt", model.handle)
        start, _ = cursors.read(question, cursor)
        listed = [*reversed(self._library.recordings())]
        servers = [other for other in listed if is_beside(other.entry, model.entry)]
        trace, *_ = [self._library.small_trace(recording, _COMMAND) for recording in (model, *servers)]
        report = read_run(trace, [server.entry.path for server in servers], only_reads=True)
        handles = [server.handle for server in servers]
        findings = findings_of_run(report, model.entry, [other.entry for other in listed], catalogue.load())
        rows = [*self._finding_rows(findings, handles), *self._wire_rows(report, handles)]
        changed = [row for row in rows if row.became]
        head = PromptPage(
            model.handle,
            self._library.shown(report.model),
            DIALECTS[report.dialect].title if report.dialect else "",
            report.requests,
            {
                handle: f"{self._library.shown(way.prefix)}NAME" if way.prefix else ""
                for handle, way in zip(handles, report.servers, strict=True)
            },
            len(rows) - len(changed),
            [],
            unread_words(report),
        )
        fitting, has_more = AnswerPage(_MAX_ROWS, head).fill(changed[start:])
        next = cursors.write(question, start + len(fitting)) if has_more else ""
        return replace(head, rows=fitting, next=next)

    def _model_recording(self, named: str) -> ListedRecording:
        """Return the recording of a model's interface with this handle or label.

        If nothing is named, it is the latest such among the latest ``MOST_SEARCHED`` recordings.

        Raises:
            AgentError: there is none, the name means several, the recording with this name has no request to
                a model, or a file of it is a link.
            TraceError: it cannot be read.
        """
        if named:
            listed = self._library.find(named)
            trace = self._library.trace(listed)
            if not has_turns(trace):
                fact, step = "has no request to a model's interface", _RECORD
                if trace.header.model:
                    fact, step = "no request to the model came through it", "the user points the host at it"
                raise AgentError(f"{listed.handle}: {fact}; {step}")
            return listed
        for listed in self._library.recordings()[:MOST_SEARCHED]:
            try:
                if is_of_a_model(self._library.trace(listed)):
                    return listed
            except (AgentError, TraceError):
                continue
        raise AgentError(f"there is no recording of a model's interface; {_RECORD}")

    def _finding_rows(
        self, prompt_findings: Iterable[PromptFinding], handles: Sequence[str]
    ) -> Iterator[PromptRow]:
        for entry in prompt_findings:
            finding, handle = entry.finding, handles[entry.server]
            became = [self._library.shown(finding.message, MESSAGE_CHARACTERS)]
            yield PromptRow(
                "finding", became, handle, finding.rule, frame=finding.frame, severity=finding.severity
            )

    def _wire_rows(self, report: PromptReport, handles: Sequence[str]) -> Iterator[PromptRow]:
        """Yield a row for each refusal, tool list with an unread rest, instructions, tool and result.

        ``became`` is empty for a text that came through unchanged.
        """
        for refused in report.refusals:
            match = next((tool.match for tool in refused.tools if tool.match is not None), None)
            yield PromptRow(
                "refusal",
                self._shown(refusal_words(refused, report)),
                handles[match.tool.server] if match is not None else "",
                self._library.shown(match.tool.name) if match is not None else "",
                frame=refused.seq,
            )
        for handle, server in zip(handles, report.servers, strict=True):
            if (rest := server.server.unread) is not None:
                yield PromptRow("list", self._shown(list_words(server)), handle, frame=rest.frame)
            if server.server.instructions:
                yield PromptRow(
                    "instructions", self._shown(text_words("instructions", server.instructions)), handle
                )
            for way in server.tools:
                tool = way.match.tool
                name, became = self._library.shown(tool.name), self._shown(tool_words(way, server))
                yield PromptRow("tool", became, handle, name, frame=tool.frame)
            for way in server.calls:
                name, became = self._library.shown(way.wire.name), self._shown(call_words(way))
                yield PromptRow("result", became, handle, name, way.wire.number)

    def _shown(self, words: Iterator[str]) -> list[str]:
        return [self._library.shown(word) for word in words]
