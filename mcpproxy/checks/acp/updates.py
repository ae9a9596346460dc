"""The kinds of session updates in the Agent Client Protocol, and the members that a kind must have.

``protocol/acp.py`` lists both for each version.

Source: https://agentclientprotocol.com/protocol/v1/prompt-turn
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.checks.engine.rows import ACP_ONLY, Check, RuleFamily
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import Notification
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import ACP
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import SERVER
from mcpproxy.session.history import History


def session_update(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report an update of a kind that the version does not have (ACP-015), or an incomplete one (ACP-011)."""
    if len(context.candidates) != 1 or context.candidates[0] not in ACP:
        return
    version, pointer = context.candidates[0], context.at + "/params/update"
    params, update = context.contents, member(context.contents, "update")
    for name in ("sessionId", "update"):
        if not isinstance(params, dict) or params.get(name) is None:
            problem = f"agent sent session/update without {name}"
            yield Violation("ACP-011", "A-033", problem, pointer=f"{context.at}/params/{name}")
    if not isinstance(update, dict):
        return
    kind = update.get("sessionUpdate")
    if kind is None:
        problem = "agent sent a session update without its kind (sessionUpdate)"
        yield Violation("ACP-011", "A-060", problem, pointer=pointer + "/sessionUpdate")
        return
    if not isinstance(kind, str):
        return
    required = acp.updates(version).get(kind)
    if required is None:
        yield from _foreign_kind(kind, version, pointer + "/sessionUpdate")
        return
    for name in required:
        if update.get(name) is None:
            requirement = "A-052" if name == "messageId" else "A-060"
            problem = f"agent sent a {kind} without {name}"
            yield Violation("ACP-011", requirement, problem, pointer=f"{pointer}/{name}")
            return


def _foreign_kind(kind: str, version: str, pointer: str) -> Iterator[Violation]:
    """Report a kind of update that ``version`` does not have."""
    number = version.removeprefix("acp-")
    if kind.startswith("_"):
        return
    if any(kind in acp.updates(other) for other in ACP):
        problem = f"agent sent a {kind}, which version {number} of ACP does not have"
        yield Violation("ACP-015", "A-041", problem, pointer=pointer)
        return
    problem = f"agent sent an update of kind {shortened(shown(kind))}; kinds of its own start with _"
    # A warning only, because a later release of the version may define the kind.
    yield Violation("ACP-015", "A-042", problem, pointer=pointer, at_most="warning")


FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-011", "ACP-015"), session_update, (Notification,), ("session/update",), ACP_ONLY, SERVER),
    ),
)
