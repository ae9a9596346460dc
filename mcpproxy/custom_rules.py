"""Everything that a Python file in a ``--rules`` folder needs to import.

Such a file defines checks and ends with ``FAMILY``, a ``RuleFamily``. The rows of the family say for which
messages each check is called; a check yields a ``Violation`` for each requirement that the message breaks.
``README.md`` beside the built-in rules has an example.
"""

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import (
    CheckFunction,
    EventCheckFunction,
    HttpCheckFunction,
    MessageContext,
    Violation,
    shortened,
    spelled,
)
from mcpproxy.judge.checks.engine.rows import (
    ACP_ONLY,
    ANSWERS,
    ANY_PROTOCOL,
    ASKS,
    MCP,
    MESSAGES,
    Check,
    EventCheck,
    HttpCheck,
    RuleFamily,
    StateUpdate,
)
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Frame, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member

__all__ = [
    "ACP_ONLY",
    "ANSWERS",
    "ANY_PROTOCOL",
    "ASKS",
    "CLIENT",
    "MCP",
    "MESSAGES",
    "SERVER",
    "Check",
    "CheckFunction",
    "Close",
    "ErrorResponse",
    "EventCheck",
    "EventCheckFunction",
    "Frame",
    "History",
    "HttpCheck",
    "HttpCheckFunction",
    "HttpExchange",
    "HttpHistory",
    "MessageContext",
    "Notification",
    "Request",
    "Response",
    "RuleFamily",
    "Signal",
    "StateUpdate",
    "Violation",
    "as_object",
    "field",
    "member",
    "shortened",
    "slotted",
    "spelled",
]
