"""What the peers of a conversation say: the messages, and how they go over the wire in each revision."""

import json
from typing import Final

from mcpproxy.judge.session.frame import CLIENT, Sender
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.revisions import STATELESS
from tests.live.conversation import Body


def request(id: int, method: str, **params: JSON) -> JSONObject:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, **params: JSON) -> JSONObject:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(id: int, **members: JSON) -> JSONObject:
    return {"jsonrpc": "2.0", "id": id, "result": members}


def error(id: int | None, code: int, message: str) -> JSONObject:
    answered: JSONObject = {} if id is None else {"id": id}
    return {"jsonrpc": "2.0", **answered, "error": {"code": code, "message": message}}


INITIALIZE: Final = request(
    0,
    "initialize",
    protocolVersion="$REVISION",
    capabilities={"roots": {"listChanged": True}},
    clientInfo={"name": "client", "version": "1.0"},
)


def welcome(version: str) -> JSONObject:
    """The answer to initialize."""
    return result(
        0,
        protocolVersion=version,
        capabilities={"tools": {"listChanged": True}},
        serverInfo={"name": "server", "version": "1.0"},
    )


WELCOME: Final = welcome("$REVISION")
INITIALIZED: Final = notification("notifications/initialized")

# Requests of the client, and what answers them
LIST: Final = request(1, "tools/list")
TOOLS: Final = result(1, tools=[{"name": "add", "inputSchema": {"type": "object", "properties": {}}}])
SECOND: Final = {**LIST, "id": 2}
SECOND_TOOLS: Final = {**TOOLS, "id": 2}
CALL: Final = request(1, "tools/call", name="add", arguments={}, _meta={"progressToken": "p"})
PROGRESS: Final = notification("notifications/progress", progressToken="p", progress=1)
OTHER_PROGRESS: Final = notification("notifications/progress", progressToken="q", progress=1)
CALLED: Final = result(1, content=[])
NOT_NOW: Final = error(None, -32600, "Not now")

# A request of the server
ROOTS: Final = request(7, "roots/list")
NO_ROOTS: Final = result(7, roots=[])

# Notifications of either
TOOLS_CHANGED: Final = notification("notifications/tools/list_changed")
CHANGED_AGAIN: Final = notification("notifications/tools/list_changed", _meta={"again": True})
ROOTS_CHANGED: Final = notification("notifications/roots/list_changed")
SAVED: Final = notification("notifications/com.example/saved")  # 2026-07-28 has none for a client to post


def cancelled(id: int) -> JSONObject:
    return notification("notifications/cancelled", requestId=id)


def spelled(body: Body, sender: Sender, revision: str, session: str) -> bytes:
    """A body as ``sender`` says it in ``revision``."""
    if isinstance(body, dict) and revision in STATELESS:
        body = _asked(body) if sender == CLIENT else _told(body)
    text = body if isinstance(body, str) else json.dumps(body)
    return filled(text, revision, session).encode()


def filled(text: str, revision: str, session: str) -> str:
    return text.replace("$REVISION", revision).replace("$SESSION", session)


def _asked(message: JSONObject) -> JSONObject:
    """With what each message of a client says of itself where there is no handshake."""
    params = message.get("params")
    known = params if isinstance(params, dict) else {}
    given = known.get("_meta")
    meta: JSONObject = {**(given if isinstance(given, dict) else {}), VERSION_KEY: "$REVISION"}
    if "id" in message:
        meta["io.modelcontextprotocol/clientInfo"] = {"name": "client", "version": "1.0"}
        meta[CAPABILITIES_KEY] = {}
    return {**message, "params": {**known, "_meta": meta}}


def _told(message: JSONObject) -> JSONObject:
    """With what each result says of itself there."""
    members = message.get("result")
    if not isinstance(members, dict):
        return message
    cached: JSONObject = {"ttlMs": 0, "cacheScope": "private"} if "tools" in members else {}
    return {**message, "result": {"resultType": "complete", **cached, **members}}
