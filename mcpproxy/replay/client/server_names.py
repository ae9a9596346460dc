"""Names that a server issues and a client sends back: cursors, request states, task ids, session ids.

The names in a recording are those of the recorded run. When the live server has answered a request, the
recorded and the live name of the same thing are known, and later client messages are translated.
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
"""Where a result contains an issued name, and the name of the member in later params."""

_RETURNED: Final[tuple[tuple[Path, str], ...]] = (
    (("params", "cursor"), "cursor"),
    (("params", "requestState"), "requestState"),
    (("params", "taskId"), "taskId"),
    (("params", "sessionId"), "sessionId"),
    (("params", "_meta", _RELATED, "taskId"), "taskId"),
    (("result", "_meta", _RELATED, "taskId"), "taskId"),
)
"""Where a client message contains an issued name."""

_WORDS: Final = {
    "cursor": "cursor",
    "requestState": "request state",
    "taskId": "task",
    "sessionId": "session",
}


class WithheldError(McpProxyError):
    """A message cannot be sent: the live server issued no name in place of one that it contains."""


class ServerNames:
    """Maps recorded names to live names."""

    def __init__(self) -> None:
        self._live: Final[dict[tuple[str, str], str | None]] = {}
        self._inputs: Final[dict[str, str]] = {}

    def learn(self, recorded: JSON, live: JSON) -> None:
        """Take the recorded and the live result of one request."""
        for path, kind in _ISSUED:
            was, now = _member_at(recorded, path), _member_at(live, path)
            if isinstance(was, str):
                self._live[kind, was] = now if isinstance(now, str) else None
        old, new = _member_at(recorded, ("inputRequests",)), _member_at(live, ("inputRequests",))
        if isinstance(old, dict) and isinstance(new, dict):
            free = {name: request for name, request in new.items() if name not in old}
            for name, request in old.items():
                twin = next(
                    (other for other, each in free.items() if _method(each) == _method(request)), None
                )
                if name not in new and twin is not None:
                    self._inputs[name] = twin
                    del free[twin]

    def live(self, kind: str, recorded: str) -> str:
        """Return the live name for a recorded one; the recorded name itself if there is none."""
        return self._live.get((kind, recorded)) or recorded

    def translated(self, raw: bytes, value: JSONObject) -> bytes:
        """Return a recorded message with live names; all other bytes are unchanged.

        Raises:
            WithheldError: the live server issued no such name.
        """
        edits: dict[Path, bytes] = {}
        for path, kind in _RETURNED:
            name = _member_at(value, path)
            if not isinstance(name, str) or (kind, name) not in self._live:
                continue
            live = self._live[kind, name]
            if live is None:
                raise WithheldError(f"the server gave no {_WORDS[kind]} this time")
            if live != name:
                edits[path] = raw_json.written(live)
        inputs = _member_at(value, ("params", "inputResponses"))
        if isinstance(inputs, dict) and self._inputs.keys() & inputs.keys():
            path = ("params", "inputResponses")
            edits[path] = raw_json.renamed(raw_json.value_bytes(raw, path) or b"{}", self._inputs)
        return raw_json.spliced(raw, edits) if edits else raw


def _member_at(value: JSON, path: Path) -> JSON:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _method(request: JSON) -> JSON:
    return request.get("method") if isinstance(request, dict) else None
