"""The tools of a recording beside their pins: which differ from what a user has approved.

This is what ``mcpproxy check --pins`` reports, as the state of each tool instead of findings at the frames in
which something has changed.
"""

from collections.abc import Sequence
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.base.visible import visible
from mcpproxy.judge.checks.opt_in.pins import Approved, Pins
from mcpproxy.judge.checks.server.definitions import changes, definition
from mcpproxy.judge.session.masked_values import holds_mask
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.read.view.calls import SessionSummary, ToolDefinition
from mcpproxy.read.view.tools import RecordedTools

SAME: Final = "same"
CHANGED: Final = "changed"
NEW: Final = "new"
GONE: Final = "gone"


@slotted(frozen=True)
class Drift:
    """One tool beside its pin: its ``state``, and a line for each field that differs."""

    server: str
    name: str
    state: str
    lines: tuple[str, ...] = ()


def drift(
    tools: RecordedTools, sessions: Sequence[SessionSummary], pins: Pins
) -> tuple[dict[tuple[int, str], Drift], tuple[Drift, ...]]:
    """Compare the listed tools of ``sessions`` with the pins of their servers.

    Returns:
        By session and name the drift of each tool whose server is pinned, and the pinned tools that are not
        listed any more.
    """
    approved_of = {visible(name): approved for name, approved in pins.items()}
    all_tools, whole = tools.all(), tools.whole_lists()
    found: dict[tuple[int, str], Drift] = {}
    gone: list[Drift] = []
    for session in sessions:
        approved = approved_of.get(session.server)
        if approved is None:
            continue
        listed = [tool for tool in all_tools if tool.session == session.number and tool.listed]
        for tool in listed:
            if not holds_mask([tool.definition]):  # a masked definition cannot be compared
                found[session.number, tool.name] = _compared(tool, session, approved)
        if session.number in whole:
            missing = {visible(name) for name in approved.tools} - {tool.name for tool in listed}
            gone += (Drift(session.server, name, GONE) for name in sorted(missing))
    return found, tuple(gone)


def _compared(tool: ToolDefinition, session: SessionSummary, approved: Approved) -> Drift:
    listed = tool.definition if isinstance(tool.definition, dict) else {}
    pinned = approved.tools.get(str(listed.get("name")))
    if pinned is None:
        return Drift(session.server, tool.name, NEW)
    revisions = (session.revision,) if session.revision in REVISIONS else REVISIONS
    lines = tuple(
        visible(f"{change.field} {change.what}")
        for change in changes(pinned, definition(listed), revisions, approved.revisions)
    )
    return Drift(session.server, tool.name, CHANGED if lines else SAME, lines)
