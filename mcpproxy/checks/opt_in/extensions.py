"""Proprietary extensions: members of the protocol's objects that the protocol does not define.

All of them are legal, so the check is off by default. It shows which members of a peer other peers ignore.

Source: https://modelcontextprotocol.io/specification/2025-11-25/schema
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.checks.engine.context import MessageContext, Violation
from mcpproxy.checks.engine.rows import ASKS, Check, RuleFamily
from mcpproxy.protocol.jsonrpc import Notification, Request, Response
from mcpproxy.protocol.shapes.lookup import extras
from mcpproxy.session.history import History


def proprietary_member(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a member that the revision does not define for its object (EXT-001)."""
    message, asked = context.message, context.answers
    if len(context.candidates) != 1:
        return
    [revision] = context.candidates
    if isinstance(message, Request | Notification):
        found = extras(message.params, (message.method, "params"), revision)
    elif isinstance(message, Response) and asked is not None:
        found = extras(message.result, (asked.method, "result"), revision)
    else:
        return
    for pointer in found:
        problem = f"{context.sender} sent the member {pointer}, which {revision} does not define"
        yield Violation("EXT-001", "X-001", problem, pointer=context.at + pointer)


FAMILY: Final = RuleFamily(checks=(Check(("EXT-001",), proprietary_member, (*ASKS, "response")),))
