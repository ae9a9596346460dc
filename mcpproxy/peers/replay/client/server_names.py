"""Names that a server issues and a client sends back: cursors, request states, ids, names of input requests.

A recording contains the names that the recorded server issued. The live server issues other names in its
responses. A comparison of the recorded and the live response to one request shows which live name replaces
which recorded name. Later client messages get the live names.
"""

from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.protocol import raw_json
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import RELATED_TASK_KEY
from mcpproxy.protocol.raw_json import Path

_ISSUED: Final[tuple[tuple[Path, str], ...]] = (
    (("nextCursor",), "cursor"),
    (("requestState",), "requestState"),
    (("taskId",), "taskId"),
    (("task", "taskId"), "taskId"),
    (("sessionId",), "sessionId"),
)
"""Paths of issued names in a result, each with the kind of the name (a key of ``_NOUN_OF_KIND``)."""

_RETURNED: Final[tuple[tuple[Path, str], ...]] = (
    (("params", "cursor"), "cursor"),
    (("params", "requestState"), "requestState"),
    (("params", "taskId"), "taskId"),
    (("params", "sessionId"), "sessionId"),
    (("params", "_meta", RELATED_TASK_KEY, "taskId"), "taskId"),
    (("result", "_meta", RELATED_TASK_KEY, "taskId"), "taskId"),
)
"""Paths of issued names in a client message, each with the kind of the name."""

_NOUN_OF_KIND: Final = {
    "cursor": "cursor",
    "requestState": "request state",
    "taskId": "task",
    "sessionId": "session",
}
"""By kind of a name: the word for the name in messages to the user."""


class WithheldError(McpProxyError):
    """A message cannot be sent, because the live server issued no name for a recorded name in it."""


class ServerNames:
    """Maps recorded names to live names."""

    def __init__(self) -> None:
        self._live_names: Final[dict[tuple[str, str], str | None]] = {}  # (kind, recorded name) -> live name
        self._input_names: Final[dict[str, str]] = {}  # recorded name of an input request -> live name

    def learn(self, recorded: JSON, live: JSON) -> None:
        """Learn from the recorded and the live result of one request."""
        for path, kind in _ISSUED:
            recorded_name, live_name = member(recorded, *path), member(live, *path)
            if isinstance(recorded_name, str):
                self._live_names[kind, recorded_name] = live_name if isinstance(live_name, str) else None
        recorded_inputs = member(recorded, "inputRequests")
        live_inputs = member(live, "inputRequests")
        if not isinstance(recorded_inputs, dict) or not isinstance(live_inputs, dict):
            return
        unmatched = {name: request for name, request in live_inputs.items() if name not in recorded_inputs}
        for name, request in recorded_inputs.items():
            if name in live_inputs:
                continue
            method = _method(request)
            same_method = (live_name for live_name, other in unmatched.items() if _method(other) == method)
            if (counterpart := next(same_method, None)) is not None:
                self._input_names[name] = counterpart
                del unmatched[counterpart]

    def translated(self, raw: bytes, value: JSONObject) -> bytes:
        """Return a recorded message with live names; all other bytes are unchanged.

        ``raw`` are the bytes of the message, and ``value`` is the parsed message.

        Raises:
            WithheldError: the live server issued no name for a recorded name in the message.
        """
        edits: dict[Path, bytes] = {}
        for path, kind in _RETURNED:
            name = member(value, *path)
            if not isinstance(name, str) or (kind, name) not in self._live_names:
                continue
            live_name = self._live_names[kind, name]
            if live_name is None:
                raise WithheldError(f"the server gave no {_NOUN_OF_KIND[kind]} this time")
            if live_name != name:
                edits[path] = raw_json.written(live_name)
        inputs = member(value, "params", "inputResponses")
        if isinstance(inputs, dict) and self._input_names.keys() & inputs.keys():
            path = ("params", "inputResponses")
            edits[path] = raw_json.renamed(raw_json.value_bytes(raw, path) or b"{}", self._input_names)
        return raw_json.spliced(raw, edits) if edits else raw


def _method(request: JSON) -> JSON:
    return member(request, "method")
