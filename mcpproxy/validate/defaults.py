"""How our client behaves unless it is told otherwise: what it declares, and what it says when it is asked."""

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import until


def default_capabilities(revision: str) -> JSONObject:
    """What a full client of this revision declares."""
    found: JSONObject = {"roots": {}, "sampling": {}}
    if revision not in until("2025-06-18"):
        found["elicitation"] = {}
    return found


def default_replies() -> dict[str, JSON]:
    """What a host without a user says to the server's requests."""
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
