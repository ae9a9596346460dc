"""The kinds of session updates in the Agent Client Protocol. ``checks.acp.members`` judges their members.

Source: https://agentclientprotocol.com/protocol/v1/prompt-turn
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, Check, RuleFamily
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Notification
from mcpproxy.protocol.message_parts import text_member
from mcpproxy.protocol.revisions import ACP
from mcpproxy.protocol.shapes.lookup import variants
from mcpproxy.protocol.wording import shown


def foreign_update(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report an update of a kind that the version does not have (ACP-015)."""
    kind = text_member(context.contents, "update", "sessionUpdate")
    if kind is None or len(context.candidates) != 1 or context.candidates[0] not in ACP:
        return
    version, pointer = context.candidates[0], context.at + "/params/update/sessionUpdate"
    if kind in _kinds(version) or kind.startswith("_"):
        return
    number = version.removeprefix("acp-")
    if any(kind in _kinds(other) for other in ACP):
        problem = f"agent sent a {kind}, which version {number} of ACP does not have"
        yield Violation("ACP-015", "A-041", problem, pointer=pointer)
        return
    problem = f"agent sent an update of kind {shortened(shown(kind))}; kinds of its own start with _"
    # A warning only, because a later release of the version may define the kind.
    yield Violation("ACP-015", "A-042", problem, pointer=pointer, at_most="warning")


@cache
def _kinds(version: str) -> frozenset[str]:
    """Return the kinds of session updates that ``version`` or a draft of it has."""
    return variants("SessionUpdate", version)


FAMILY: Final = RuleFamily(
    checks=(Check(("ACP-015",), foreign_update, (Notification,), ("session/update",), ACP_ONLY, SERVER),),
)
