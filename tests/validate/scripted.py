"""A small MCP server on stdio that does everything right, made of parts that a flaw can replace.

It imports next to nothing, because a test starts many of them. It speaks both eras: the handshake, and
requests that carry their own version.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeGuard, cast

Json = Any
Handler = Callable[[dict[str, Any]], Json]
Flaw = Callable[["Server"], None]

STATEFUL: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS: Final = ("2026-07-28",)
SILENT: Final = object()
"""What a handler gives back that does not answer."""

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_EARLY: Final = ("initialize", "ping", "server/discover")
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"

FLAWS: Final[dict[str, Flaw]] = {}
"""By name, what makes a good server a bad one."""


def flaw(change: Flaw) -> Flaw:
    """A function that spoils a server; ``--flaw`` knows it by its name with hyphens."""
    FLAWS[change.__name__.replace("_", "-")] = change
    return change


class RefusedError(Exception):
    """A request is refused with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.error: dict[str, Json] = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Server:
    """``methods`` answer requests; the others are what happens to bytes on the way in and out."""

    def __init__(self) -> None:
        self.is_initialized = False
        self.is_open = False
        self.revision = ""
        self.methods: dict[str, Handler] = {
            "initialize": self.initialize,
            "ping": lambda params: {},
            "server/discover": self.discover,
            "tools/list": lambda params: self.page("tools", self.tools, params),
            "tools/call": self.call,
            "resources/list": lambda params: self.page("resources", self.resources, params),
            "resources/templates/list": lambda params: self.page("resourceTemplates", self.templates, params),
            "resources/read": self.read,
            "resources/subscribe": lambda params: {},
            "resources/unsubscribe": lambda params: {},
            "prompts/list": lambda params: self.page("prompts", self.prompts, params),
            "prompts/get": self.prompt,
            "completion/complete": self.complete,
            "logging/setLevel": self.level,
        }
        self.notifications: dict[str, Handler] = {"notifications/initialized": self.initialized}
        self.tools: list[Json] = [
            {
                "name": "greet",
                "description": "Greets somebody.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                },
                "annotations": {"readOnlyHint": True},
            },
            {
                "name": "add",
                "description": "Adds two numbers.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                },
            },
        ]
        self.resources: list[Json] = [{"uri": "notes://shelf/one", "name": "one"}]
        self.templates: list[Json] = [{"uriTemplate": "notes://shelf/{name}", "name": "a note"}]
        self.prompts: list[Json] = [
            {"name": "review", "arguments": [{"name": "language", "required": True}]},
            {"name": "hello"},
        ]
        self.capabilities: dict[str, Json] = {
            "tools": {},
            "resources": {"subscribe": True},
            "prompts": {},
            "completions": {},
            "logging": {},
        }

    # The features

    def initialize(self, params: dict[str, Any]) -> Json:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise RefusedError(-32602, "protocolVersion is missing")
        self.revision = wanted if wanted in STATEFUL else STATEFUL[-1]
        self.is_initialized = True
        return {
            "protocolVersion": self.revision,
            "capabilities": self.declared(self.revision),
            "serverInfo": {"name": "scripted", "version": "1.0"},
        }

    def declared(self, revision: str) -> dict[str, Json]:
        absent = {"2024-11-05": ("completions",), "2026-07-28": ("logging",)}.get(revision, ())
        found = {name: value for name, value in self.capabilities.items() if name not in absent}
        # Here changes of resources are told to those who subscribe to them the older way.
        return {**found, "resources": {}} if revision in STATELESS else found

    def initialized(self, params: dict[str, Any]) -> None:
        self.is_open = True

    def discover(self, params: dict[str, Any]) -> Json:
        if not self.is_modern(params):
            raise RefusedError(-32602, "_meta is missing")
        return {
            "supportedVersions": list(STATELESS),
            "capabilities": self.declared(STATELESS[-1]),
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1.0"}},
        }

    def is_modern(self, params: dict[str, Any]) -> bool:
        return _VERSION in (params.get("_meta") or {})

    def fits(self, meta: dict[str, Any]) -> None:
        """Whether a request says all that one without a session has to say."""
        if (version := meta[_VERSION]) not in STATELESS:
            known = {"supported": list(STATELESS), "requested": version}
            raise RefusedError(-32022, "Unsupported protocol version", known)
        if not isinstance(meta.get(_CAPABILITIES), dict):
            raise RefusedError(-32602, "clientCapabilities are missing")

    def page(self, member: str, items: list[Json], params: dict[str, Any]) -> Json:
        """Two items a page, if there are more than that."""
        cursor = params.get("cursor")
        if cursor not in (None, "2"):
            raise RefusedError(-32602, "Invalid cursor")
        start = 2 if cursor else 0
        more = {"nextCursor": "2"} if len(items) > start + 2 else {}
        hints = {"ttlMs": 0, "cacheScope": "private"} if self.is_modern(params) else {}
        return {member: items[start : start + 2], **more, **hints}

    def call(self, params: dict[str, Any]) -> Json:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str):
            raise RefusedError(-32602, "name is missing")
        if name == "greet":
            if not isinstance(arguments.get("name"), str):
                return failure("name is no string")
            return text(f"Hello, {arguments['name']}!")
        if name == "add":
            return text(str(arguments.get("a", 0) + arguments.get("b", 0)))
        raise RefusedError(-32602, f"Unknown tool: {name}")

    def read(self, params: dict[str, Any]) -> Json:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RefusedError(-32602, "uri is missing")
        if uri != "notes://shelf/one":
            code = -32602 if self.is_modern(params) else -32002
            raise RefusedError(code, "Resource not found", {"uri": uri})
        hints = {"ttlMs": 0, "cacheScope": "private"} if self.is_modern(params) else {}
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "A note."}], **hints}

    def prompt(self, params: dict[str, Any]) -> Json:
        name, arguments = params.get("name"), params.get("arguments", {})
        if name not in ("review", "hello"):
            raise RefusedError(-32602, f"Unknown prompt: {name}")
        if name == "review" and "language" not in arguments:
            raise RefusedError(-32602, "language is missing")
        said = {"type": "text", "text": f"Please do it in {arguments.get('language', 'any language')}."}
        return {"messages": [{"role": "user", "content": said}]}

    def complete(self, params: dict[str, Any]) -> Json:
        reference = params.get("ref", {})
        if reference.get("name") not in ("review", "hello"):
            raise RefusedError(-32602, "Unknown prompt")
        return {"completion": {"values": ["ada", "algol"]}}

    def level(self, params: dict[str, Any]) -> Json:
        if params.get("level") not in LEVELS:
            raise RefusedError(-32602, "Unknown level")
        return {}

    # Messages

    def take(self, line: bytes) -> None:
        """One line of stdin."""
        try:
            value: Json = json.loads(line)
        except ValueError:
            self.malformed()
            return
        if isinstance(value, list) and value and self.revision == "2025-03-26":
            self.batch(cast("list[Json]", value))
        elif is_request(value):
            self.request(value)
        elif is_notification(value):
            self.notified(value)
        elif not is_answer(value):
            self.invalid(value)

    def malformed(self) -> None:
        self.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})

    def invalid(self, value: Json) -> None:
        id: Json = None if not isinstance(value, dict) else cast("dict[str, Any]", value).get("id")
        self.say({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": "Invalid request"}})

    def batch(self, messages: list[Json]) -> None:
        answers = [self.answer(one) for one in messages if is_request(one)]
        if answers:
            self.say(answers)

    def request(self, message: dict[str, Any]) -> None:
        answer = self.answer(message)
        if answer is not SILENT:
            self.say(answer)

    def notified(self, message: dict[str, Any]) -> None:
        handler = self.notifications.get(message["method"])
        if handler is not None:
            handler(message.get("params", {}))

    def answer(self, message: dict[str, Any]) -> Json:
        method, params = message["method"], message.get("params", {})
        try:
            result = self.result(method, params)
        except RefusedError as why:
            return {"jsonrpc": "2.0", "id": message["id"], "error": why.error}
        if result is SILENT:
            return SILENT
        if self.is_modern(params) and isinstance(result, dict):
            result = {"resultType": "complete", **cast("dict[str, Any]", result)}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def result(self, method: str, params: dict[str, Any]) -> Json:
        if self.is_modern(params):
            self.fits(params["_meta"])
        handler = self.methods.get(method)
        if handler is None or (method == "ping" and self.is_modern(params)):
            return self.unknown(method)
        if not self.is_initialized and not self.is_modern(params) and method not in _EARLY:
            raise RefusedError(-32600, "initialize comes first")
        return handler(params)

    def unknown(self, method: str) -> Json:
        raise RefusedError(-32601, f"Method not found: {method}")

    # Bytes

    def say(self, message: Json) -> None:
        self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def lines(self) -> Iterable[bytes]:
        return sys.stdin.buffer

    def begin(self) -> None:
        sys.stderr.write("scripted server begins\n")
        self.note_process(os.getpid())

    def note_process(self, pid: int) -> None:
        """Tell the test that this process belongs to the server."""
        if place := os.environ.get("SCRIPTED_PIDS"):
            with open(place, "a", encoding="ascii") as file:
                file.write(f"{pid}\n")

    def run(self) -> int:
        """Until stdin ends; the exit code."""
        self.begin()
        for line in self.lines():
            self.take(line)
        return self.end()

    def end(self) -> int:
        return 0


def text(said: str) -> Json:
    """The result of a tool."""
    return {"content": [{"type": "text", "text": said}]}


def failure(said: str) -> Json:
    """The result of a tool that failed."""
    return {**text(said), "isError": True}


def is_request(value: Json) -> TypeGuard[dict[str, Any]]:
    return is_message(value) and "id" in value


def is_notification(value: Json) -> TypeGuard[dict[str, Any]]:
    return is_message(value) and "id" not in value


def is_message(value: Json) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("method"), str)


def is_answer(value: Json) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and ("result" in value or "error" in value)
