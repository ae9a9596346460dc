"""Rules about messages that two parsers may read differently: JSON leaves some things to each parser.

A receiver may refuse such a request, or read another id or method. So its answer is not judged by what this
parser read.

Source: RFC 8259, sections 4, 6, 8.2 and 9.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import (
    ANY_PROTOCOL,
    MESSAGES,
    REPEATED_NAMES,
    Check,
    RuleFamily,
    StateUpdate,
)
from mcpproxy.judge.session.frame import Sender
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.jsonrpc import JSON, Absent, Malformed, Request
from mcpproxy.protocol.jsontext import repeated_names

COMMON_LEVELS: Final = 60
"""How many levels of nesting in params every known parser reads. Some stop at 64 in the whole message."""


@slotted()
class UnclearRequests:
    """Who sent requests that repeat the name of a member: parsers may refuse them, or read another id."""

    senders: set[Sender] = field(default_factory=set[Sender])

    def is_sent_by(self, sender: Sender) -> bool:
        """Whether ``sender`` has sent such a request in this session."""
        return sender in self.senders


def may_be_refused(asker: Sender, history: History) -> bool:
    """Whether a parser may have refused a pending request of ``asker``, or read another id in one."""
    is_unclear = history.of(UnclearRequests).is_sent_by(asker)
    pending = history.side(asker).pending.values()
    return is_unclear or any(_is_beyond_some_parsers(request) for request in pending)


def _is_beyond_some_parsers(request: SentRequest) -> bool:
    """Whether some parsers refuse a request.

    They do so because of a lone surrogate, an integer beyond 64 bits, or params nested deeper than
    ``COMMON_LEVELS``.
    """
    try:
        orjson.dumps([request.id, request.params])
    except orjson.JSONEncodeError:
        return True
    level: list[Any] = [request.params]
    for _ in range(COMMON_LEVELS):
        level = [child for value in level for child in _children(value)]
    return bool(level)


def _children(value: "JSON | Absent") -> Iterable["JSON"]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def repeated_member_names(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a message with an object that has two members of the same name (RPC-022).

    Elements of a batch are not searched.
    """
    message = context.message
    if isinstance(message, Malformed) or context.at:
        return ()
    names = repeated_names(context.frame.raw, message.value)
    if not names:
        return ()
    problem = f"{context.sender} repeated the member {names[0]}; two parsers may read two different messages"
    return (Violation("RPC-022", "R-026", problem, pointer=names[0]),)


def remember_unclear(context: MessageContext[Request], history: History) -> None:
    """Record who sent a request that repeats the name of a member."""
    if repeated_names(context.frame.raw, context.message.value):
        history.of(UnclearRequests).senders.add(context.sender)


FAMILY: Final = RuleFamily(
    checks=(Check(("RPC-022",), repeated_member_names, MESSAGES, (), ANY_PROTOCOL, given=REPEATED_NAMES),),
    updates=(StateUpdate(remember_unclear, (Request,), (), ANY_PROTOCOL, given=REPEATED_NAMES),),
)
