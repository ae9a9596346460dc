"""Proprietary extensions: members of the protocol's objects that the protocol does not define.

Legal, all of them, and off unless asked for: for people who want to know how far a peer relies on
what others do not read.

Source: https://modelcontextprotocol.io/specification/2025-11-25/schema
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.checks.breach import Breach, Passing
from mcpproxy.checks.table import ASKS, Decider, Family
from mcpproxy.protocol.jsonrpc import Notification, Request, Response
from mcpproxy.protocol.shapes import extras
from mcpproxy.session.history import History


def proprietary_member(passing: Passing, history: History) -> Iterator[Breach]:
    """EXT-001"""
    message, asked = passing.message, passing.answers
    if len(passing.candidates) != 1:
        return
    [revision] = passing.candidates
    if isinstance(message, Request | Notification):
        found = extras(message.params, (message.method, "params"), revision)
    elif isinstance(message, Response) and asked is not None:
        found = extras(message.result, (asked.method, "result"), revision)
    else:
        return
    for pointer in found:
        said = f"{passing.sender} sent the member {pointer}, which {revision} does not define"
        yield Breach("EXT-001", "X-001", said, passing.at + pointer)


FAMILY: Final = Family(checks=(Decider(("EXT-001",), proprietary_member, (*ASKS, "response")),))
