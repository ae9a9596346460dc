"""Completion: how many values are offered at once.

The members of requests and results are seen with all others (``shapes``).

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion
"""

from collections.abc import Iterable
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, member
from mcpproxy.checks.table import Decider, Family
from mcpproxy.session.frame import SERVER
from mcpproxy.session.history import History

MOST: Final = 100
"""Values in one result."""


def too_many_values(passing: Passing, history: History) -> Iterable[Breach]:
    """COMP-001"""
    values = member(passing.message.value, "result", "completion", "values")
    if not isinstance(values, list) or len(values) <= MOST:
        return ()
    said = f"server offered {len(values)} completions at once; {MOST} is the most"
    return (Breach("COMP-001", "R-164", said, passing.at + "/result/completion/values"),)


FAMILY: Final = Family(
    checks=(Decider(("COMP-001",), too_many_values, ("response",), ("completion/complete",), sender=SERVER),),
)
