"""The tool that tests a server. It starts a command or connects to a URL, so the user has to allow it."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Annotated, Any, Final, TypeVar

import anyio
from pydantic import Field

from mcpproxy.base import paths
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.peers.validate.outcome import CheckResult
from mcpproxy.peers.validate.probe_context import ValidateOptions
from mcpproxy.peers.validate.probes import chosen
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.peers.validate.runner import validate
from mcpproxy.show.agents.answer_types import CheckRow, ValidationText
from mcpproxy.show.agents.errors import AgentError
from mcpproxy.show.agents.pages import AnswerPage
from mcpproxy.show.agents.recording_library import MESSAGE_CHARACTERS, RecordingLibrary

_T = TypeVar("_T")

_TIME_LIMIT_S: Final = 120.0
"""How long a validation may take."""
_MAX_NOTES: Final = 10
_MAX_FRAMES: Final = 10

Command = Annotated[
    list[str], Field(max_length=100, description="Command of a stdio server, one argument each")
]
Url = Annotated[str, Field(max_length=2000, description="Or the MCP endpoint of a server over HTTP")]


class ValidateTool:
    """Tests servers. Their sessions are recorded in the same folder as those of ``mcpproxy validate``."""

    def __init__(self, library: RecordingLibrary) -> None:
        self._library: Final = library

    async def validate_server(self, command: Command = [], url: Url = "") -> ValidationText:  # noqa: B006 # pydantic copies it
        """Start or contact an MCP server, probe it as a client, and report which checks it does not pass.

        Tools are called only if they declare readOnlyHint. It takes up to two minutes.
        """
        if bool(command) == bool(url):
            raise AgentError("validate_server: give either a command or a url")
        if url and not url.startswith(("http://", "https://")):
            raise AgentError("url: is not that of an HTTP server; write http://127.0.0.1:3000/mcp")
        label = paths.label_for(command) if command else "http"
        validation = await _wait_for_end(
            validate(
                Target(tuple(command)) if command else Target(url=url),
                chosen(),
                Recordings(ruleset.load(), "", label),
                options=ValidateOptions(limit_s=_TIME_LIMIT_S),
            )
        )
        counts = validation.counts
        notes = (*validation.notes, *validation.faults, *filter(None, [validation.untested]))
        head = ValidationText(
            target=self._library.shown(validation.target, MESSAGE_CHARACTERS),
            verdict=validation.verdict,
            passed=counts["passed"],
            failed=counts["failed"],
            warnings=counts["warning"],
            skipped=counts["skipped"],
            revisions=list(validation.revisions),
            checks=[],
            notes=[self._library.shown(note) for note in notes[:_MAX_NOTES]],
        )
        order = ("failed", "warning")
        not_passed = [check for check in validation.checks if check.status in order]
        not_passed.sort(key=lambda check: order.index(check.status))
        rows, _ = AnswerPage(100, head).fill(map(self._check_row, not_passed))
        return replace(head, checks=rows, more_checks=len(not_passed) - len(rows))

    def _check_row(self, check: CheckResult) -> CheckRow:
        conclusion = check.conclusion
        return CheckRow(
            name=check.name,
            status=check.status,
            message=self._library.shown(conclusion.message, MESSAGE_CHARACTERS),
            rule=conclusion.rule,
            revision=check.revision,
            link=conclusion.source,
            recording=self._library.handle_of(check.trace) if self._library.contains(check.trace) else "",
            frames=list(conclusion.frames[:_MAX_FRAMES]),
        )


async def _wait_for_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of ``work``. If this call is cancelled, cancel ``work`` once and wait for its end.

    The client may cancel the call, or leave. A cancel scope would then interrupt every ``await`` of ``work``,
    even those that end the server under test.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
    return task.result()
