"""Old names that custom rules imported from here: import ``mcpproxy.custom_rules`` instead."""

from typing import Any, Final

from mcpproxy.base.renamed import resolve_old_name
from mcpproxy.checks.engine.rows import Check, EventCheck, HttpCheck, RuleFamily, StateUpdate

_NEW_PLACES: Final = {
    "Decider": ("mcpproxy.custom_rules", "Check"),
    "HttpDecider": ("mcpproxy.custom_rules", "HttpCheck"),
    "EventDecider": ("mcpproxy.custom_rules", "EventCheck"),
    "Note": ("mcpproxy.custom_rules", "StateUpdate"),
    "Family": ("mcpproxy.custom_rules", "RuleFamily"),
    "Passed": ("mcpproxy.checks.engine.rows", "DispatchKey"),
    "Kind": ("mcpproxy.checks.engine.rows", "Kind"),
    "Fact": ("mcpproxy.checks.engine.rows", "Fact"),
    "Moment": ("mcpproxy.checks.engine.rows", "Moment"),
    "Write": ("mcpproxy.checks.engine.rows", "Write"),
    "ASKS": ("mcpproxy.checks.engine.rows", "ASKS"),
    "ANSWERS": ("mcpproxy.checks.engine.rows", "ANSWERS"),
    "MESSAGES": ("mcpproxy.checks.engine.rows", "MESSAGES"),
    "MCP_ONLY": ("mcpproxy.checks.engine.rows", "MCP_ONLY"),
    "ACP_ONLY": ("mcpproxy.checks.engine.rows", "ACP_ONLY"),
    "ANY_PROTOCOL": ("mcpproxy.checks.engine.rows", "ANY_PROTOCOL"),
    "HEAD": ("mcpproxy.checks.engine.rows", "HEAD"),
    "CONTENT": ("mcpproxy.checks.engine.rows", "CONTENT"),
    "STATEFUL": ("mcpproxy.checks.engine.rows", "STATEFUL"),
    "STATELESS": ("mcpproxy.checks.engine.rows", "STATELESS"),
    "STREAMABLE": ("mcpproxy.checks.engine.rows", "STREAMABLE"),
    "LEGACY": ("mcpproxy.checks.engine.rows", "LEGACY"),
    "OTHER": ("mcpproxy.checks.engine.rows", "OTHER"),
    "MCP": ("mcpproxy.checks.engine.rows", "MCP"),
    "is_the_senders": ("mcpproxy.checks.engine.rows", "is_the_senders"),
}
"""Each old name, with the module that has it now and its new name."""


def family_with_notes(
    checks: tuple[Check, ...] = (),
    http: tuple[HttpCheck, ...] = (),
    events: tuple[EventCheck, ...] = (),
    notes: tuple[StateUpdate, ...] = (),
) -> RuleFamily:
    """Return a ``RuleFamily``. This is the old ``Family``, which called the ``updates`` ``notes``."""
    return RuleFamily(checks, http, events, notes)


def __getattr__(name: str) -> Any:
    new_object = resolve_old_name(__name__, name, _NEW_PLACES)  # This also warns that the name is old.
    return family_with_notes if name == "Family" else new_object
