"""The defaults of our client: its capabilities, its results for server requests, and an unknown method."""

from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import until

UNKNOWN_METHOD: Final = "mcpproxy/no-such-method"
"""A method that no server has."""


def default_capabilities(revision: str) -> JSONObject:
    """Return the capabilities of our client: roots, sampling, and from 2025-06-18 on elicitation."""
    capabilities: JSONObject = {"roots": {}, "sampling": {}}
    if revision not in until("2025-06-18"):
        capabilities["elicitation"] = {}
    return capabilities


def default_replies() -> dict[str, JSON]:
    """Return the results that a host without a user sends for requests of the server, by method."""
    return {
        "ping": {},
        "roots/list": {"roots": []},
        "sampling/createMessage": {
            "role": "assistant",
            "content": {"type": "text", "text": "This is mcpproxy validate; there is no model here."},
            "model": "none",
        },
        "elicitation/create": {"action": "decline"},
    }
