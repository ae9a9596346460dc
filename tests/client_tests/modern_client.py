"""A client of both eras with the standard library only; it keeps the protocol, but for the flaw named.

python modern_client.py FLAW

It asks with ``server/discover`` first, and begins a session only where that says so.
"""

import http.client
import json
import os
import queue
import shlex
import subprocess
import sys
import threading
from typing import Any, Protocol
from urllib.parse import urlsplit

FLAW = sys.argv[1]
SERVER = os.environ["MCPPROXY_SERVER"]
REVISION = "2026-07-28"
PATIENCE_S = 2
ABOUT = {"name": "modern", "version": "1"}
META: Any = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": ABOUT,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


class Wire(Protocol):
    """A transport: it sends a message, and returns the answer, or ``None`` if none comes in time."""

    def send(self, message: Any, limit_s: float | None = None) -> Any: ...
    def end(self) -> None: ...


class Stdio:
    def __init__(self) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        self._server = subprocess.Popen(
            shlex.split(SERVER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            self._lines.put(line)
        self._lines.put("")

    def send(self, message: Any, limit_s: float | None = None) -> Any:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()
        while "id" in message:
            try:
                line = self._lines.get(timeout=limit_s)
            except queue.Empty:
                return None
            if not line:
                sys.exit("the server has gone")
            if (found := json.loads(line)).get("id") == message["id"] and "method" not in found:
                return found
        return None

    def end(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


class Http:
    def __init__(self) -> None:
        self._url = urlsplit(SERVER)
        self._session = ""

    def send(self, message: Any, limit_s: float | None = None) -> Any:
        where = http.client.HTTPConnection(str(self._url.hostname), self._url.port, timeout=limit_s)
        told = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        params = message.get("params", {})
        if "_meta" in params:
            told |= {"MCP-Protocol-Version": REVISION, "Mcp-Method": message["method"]}
            if message["method"] == "tools/call":
                told |= {} if FLAW == "no-name-header" else {"Mcp-Name": params["name"]}
                headers = HEADERS.get(params["name"], {})
                for argument, value in params["arguments"].items():
                    if " " not in headers.get(argument, " ") and FLAW != "no-argument-header":
                        told[f"Mcp-Param-{headers[argument]}"] = value
        elif message["method"] != "initialize":
            told |= {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": self._session}
        where.request("POST", self._url.path, json.dumps({"jsonrpc": "2.0", **message}).encode(), told)
        try:
            response = where.getresponse()
            body = response.read().decode()
        except TimeoutError:
            return None
        self._session = response.getheader("Mcp-Session-Id") or self._session
        texts = [line[5:] for line in body.splitlines() if line.startswith("data:")] or [body]
        found = [json.loads(text) for text in texts if text.strip()]
        return next((one for one in found if "method" not in one), None)

    def end(self) -> None:
        pass


HEADERS: dict[str, dict[str, str]] = {}
wire: Wire = Http() if SERVER.startswith("http") else Stdio()
last_id = 0
is_stateless = False


def ask(
    method: str, params: Any = None, limit_s: float | None = None, *, stateless: bool | None = None
) -> Any:
    global last_id
    last_id += 1
    given: Any = dict(params or {})
    if is_stateless if stateless is None else stateless:
        meta: Any = {**META}
        if FLAW == "no-capabilities" and method == "tools/list":
            del meta["io.modelcontextprotocol/clientCapabilities"]
        given["_meta"] = meta
    return wire.send({"id": last_id, "method": method, "params": given}, limit_s)


def begin() -> None:
    """Find out the era, and begin a session where there has to be one."""
    global is_stateless
    found: Any = ask("server/discover", limit_s=PATIENCE_S, stateless=True) or {}
    is_stateless = REVISION in found.get("result", {}).get("supportedVersions", [])
    if FLAW == "dies-of-code" and found.get("error", {}).get("code") == -32602:
        sys.exit("invalid params")
    if FLAW == "knows-no-session" and not is_stateless:
        sys.exit("no revision in common")
    if is_stateless and FLAW != "falls-back":
        return
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": ABOUT}
    ask("initialize", hello, stateless=False)
    wire.send({"method": "notifications/initialized"})


begin()
listed = ask("tools/list")["result"]["tools"]
for tool in listed:
    properties = tool["inputSchema"]["properties"]
    marks = {name: one["x-mcp-header"] for name, one in properties.items() if "x-mcp-header" in one}
    HEADERS[tool["name"]] = marks
tools = [tool for tool in listed if not any(" " in name for name in HEADERS[tool["name"]].values())]
if FLAW == "takes-wrong-tool":
    tools = listed
call = {"name": tools[0]["name"], "arguments": {"text": "hello"}}
result = ask("tools/call", call).get("result", {})
if result.get("resultType") == "input_required":
    again = {**call}
    if "inputRequests" in result:
        again["inputResponses"] = {key: {"action": "decline"} for key in result["inputRequests"]}
    if "requestState" in result:
        again["requestState"] = "mine" if FLAW == "own-state" else result["requestState"]
    ask("tools/call", again)
if is_stateless:
    ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
wire.end()
