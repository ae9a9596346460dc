"""Completion: how many values one result may suggest.

``checks.basic.shapes`` checks the members of requests and results.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion
"""

from collections.abc import Iterable
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Response
from mcpproxy.protocol.message_parts import member

MAX_VALUES: Final = 100
"""The maximum number of values in one result."""


def too_many_values(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a completion result with more than 100 values (COMP-001)."""
    values = member(context.message.value, "result", "completion", "values")
    if not isinstance(values, list) or len(values) <= MAX_VALUES:
        return ()
    problem = f"server offered {len(values)} completions; at most {MAX_VALUES} are allowed"
    return (Violation("COMP-001", "R-164", problem, pointer=context.at + "/result/completion/values"),)


FAMILY: Final = RuleFamily(
    checks=(Check(("COMP-001",), too_many_values, (Response,), ("completion/complete",), sender=SERVER),),
)
