"""Compare the tools of a recording with their pins, the definitions that a user has approved.

``mcpproxy check --pins`` reports the same as findings about frames. Here it is a state of each tool.
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
    """One tool compared with its pin: its ``state``, and a line for each field that differs.

    ``state`` is ``same``, ``changed``, ``new`` (it has no pin), or ``gone`` (only its pin is left).
    """

    server: str
    name: str
    state: str
    lines: tuple[str, ...] = ()


def drift(
    tools: RecordedTools, sessions: Sequence[SessionSummary], pins: Pins
) -> tuple[dict[tuple[int, str], Drift], tuple[Drift, ...]]:
    """Compare the listed tools of ``sessions`` with the pins of their servers.

    Returns:
        The drift of each tool whose server is pinned, by session number and name, except tools whose
        definition is masked; and the pinned tools that are not listed any more, of the sessions whose list of
        tools is complete.
    """
    approved_of = {visible(name): approved for name, approved in pins.items()}
    all_tools, complete_sessions = tools.all(), tools.whole_lists()
    by_tool: dict[tuple[int, str], Drift] = {}
    gone: list[Drift] = []
    for session in sessions:
        approved = approved_of.get(session.server)
        if approved is None:
            continue
        listed = [tool for tool in all_tools if tool.session == session.number and tool.listed]
        for tool in listed:
            if not holds_mask([tool.definition]):  # a masked definition cannot be compared
                by_tool[session.number, tool.name] = _drift_of(tool, session, approved)
        if session.number in complete_sessions:
            missing = {visible(name) for name in approved.tools} - {tool.name for tool in listed}
            gone += (Drift(session.server, name, GONE) for name in sorted(missing))
    return by_tool, tuple(gone)


def _drift_of(tool: ToolDefinition, session: SessionSummary, approved: Approved) -> Drift:
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
