"""Proprietary extensions: members of the protocol's objects that the protocol does not define.

Such members are legal, so the check is off by default. It shows which members other peers will ignore.

Source: https://modelcontextprotocol.io/specification/2025-11-25/schema
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ASKS, Check, RuleFamily
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Notification, Request, Response
from mcpproxy.protocol.shapes.lookup import extras


def proprietary_member(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report each member that the revision, if it is known, does not define for its object (EXT-001)."""
    message, request = context.message, context.answers
    if len(context.candidates) != 1:
        return
    [revision] = context.candidates
    if isinstance(message, Request | Notification):
        pointers = extras(message.params, (message.method, "params"), revision)
    elif isinstance(message, Response) and request is not None:
        pointers = extras(message.result, (request.method, "result"), revision)
    else:
        return
    for pointer in pointers:
        problem = f"{context.sender} sent the member {pointer}, which {revision} does not define"
        yield Violation("EXT-001", "X-001", problem, pointer=context.at + pointer)


FAMILY: Final = RuleFamily(checks=(Check(("EXT-001",), proprietary_member, (*ASKS, Response)),))
