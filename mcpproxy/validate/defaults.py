"""The defaults of our client: its capabilities, and its results for requests of the server."""

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import until


def default_capabilities(revision: str) -> JSONObject:
    """The capabilities of a client of this revision with every feature."""
    found: JSONObject = {"roots": {}, "sampling": {}}
    if revision not in until("2025-06-18"):
        found["elicitation"] = {}
    return found


def default_replies() -> dict[str, JSON]:
    """The results of a host without a user for requests of the server, by method."""
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
