"""Names that a live server gave and the recorded client is to hand back: cursors, request states, tasks.

A recording holds the names of another day. When an answer has come again, the recorded name and the live one
are known for the same thing, and what the client sends from then on is translated.
"""

from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.protocol import raw_json
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.raw_json import Path

_RELATED: Final = "io.modelcontextprotocol/related-task"

_ISSUED: Final[tuple[tuple[Path, str], ...]] = (
    (("nextCursor",), "cursor"),
    (("requestState",), "requestState"),
    (("taskId",), "taskId"),
    (("task", "taskId"), "taskId"),
    (("sessionId",), "sessionId"),
)
"""Where a result gives a name, and what it is then called in params."""

_RETURNED: Final[tuple[tuple[Path, str], ...]] = (
    (("params", "cursor"), "cursor"),
    (("params", "requestState"), "requestState"),
    (("params", "taskId"), "taskId"),
    (("params", "sessionId"), "sessionId"),
    (("params", "_meta", _RELATED, "taskId"), "taskId"),
    (("result", "_meta", _RELATED, "taskId"), "taskId"),
)
"""Where a client hands a name back."""

_WORDS: Final = {
    "cursor": "cursor",
    "requestState": "request state",
    "taskId": "task",
    "sessionId": "session",
}


class WithheldError(McpProxyError):
    """A message would hand back a name that the live server has not given."""


class ServerNames:
    """What is called how, in the recording and now."""

    def __init__(self) -> None:
        self._live: Final[dict[tuple[str, str], str | None]] = {}
        self._inputs: Final[dict[str, str]] = {}

    def learn(self, recorded: JSON, live: JSON) -> None:
        """Two results to the same request."""
        for path, kind in _ISSUED:
            was, now = _at(recorded, path), _at(live, path)
            if isinstance(was, str):
                self._live[kind, was] = now if isinstance(now, str) else None
        were, are = _at(recorded, ("inputRequests",)), _at(live, ("inputRequests",))
        if isinstance(were, dict) and isinstance(are, dict):
            free = {name: one for name, one in are.items() if name not in were}
            for name, one in were.items():
                twin = next((other for other, each in free.items() if _method(each) == _method(one)), None)
                if name not in are and twin is not None:
                    self._inputs[name] = twin
                    del free[twin]

    def live(self, kind: str, recorded: str) -> str:
        """The live name for a recorded one; itself where nothing else is known."""
        return self._live.get((kind, recorded)) or recorded

    def translated(self, raw: bytes, value: JSONObject) -> bytes:
        """A recorded message with live names; all other bytes stay.

        Raises:
            WithheldError: the live server gave no such name.
        """
        edits: dict[Path, bytes] = {}
        for path, kind in _RETURNED:
            name = _at(value, path)
            if not isinstance(name, str) or (kind, name) not in self._live:
                continue
            live = self._live[kind, name]
            if live is None:
                raise WithheldError(f"the server gave no {_WORDS[kind]} this time")
            if live != name:
                edits[path] = raw_json.written(live)
        inputs = _at(value, ("params", "inputResponses"))
        if isinstance(inputs, dict) and self._inputs.keys() & inputs.keys():
            path = ("params", "inputResponses")
            edits[path] = raw_json.renamed(raw_json.taken(raw, path) or b"{}", self._inputs)
        return raw_json.spliced(raw, edits) if edits else raw


def _at(value: JSON, path: Path) -> JSON:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _method(request: JSON) -> JSON:
    return request.get("method") if isinstance(request, dict) else None
