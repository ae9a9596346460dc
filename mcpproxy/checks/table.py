"""Old names for rules of one's own: import ``mcpproxy.custom_rules`` instead."""

from typing import Any, Final

from mcpproxy.base.renamed import give

_NAMES: Final = {
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


def __getattr__(name: str) -> Any:
    return give(__name__, name, _NAMES)
