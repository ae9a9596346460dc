"""``python -m tests.fuzz.planted [FAULT...]``: a server on stdio with the faults that are named, else none.

It has no SDK, so that each fault is a line that can be read here. Without faults it is correct.
"""

import json
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Final, cast

Message = dict[str, object]

FAULTS: Final = {
    "crash-on-empty-text": "greet takes the first letter of a name",
    "crash-on-huge-number": "add packs its numbers into 64 bits",
    "crash-on-lone-surrogate": "answers are written as UTF-8, without escapes",
    "crash-on-deep-nesting": "nest counts depth by recursion",
    "signal-on-long-name": "greet is killed for a long name, and nothing is on stderr",
    "hang-on-batch": "a batch waits for something that never comes",
    "hang-on-cancel": "a cancellation waits for its request, also if there is none",
    "id-as-text": "an error repeats the id as a string",
    "result-without-content": "greet returns an empty result for a long name",
    "result-and-error": "a call of an unknown tool is answered with both",
    "answer-to-notification": "an unknown notification is answered with an error",
    "leak-of-last-call": "echo without a text shows the text of the call before",
    "log-line-on-stdout": "a call of an unknown tool is logged to stdout",
}

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}
READS: Final = {"readOnlyHint": True}
TOOLS: Final = [
    {"name": "greet", "inputSchema": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}},
    {
        "name": "add",
        "inputSchema": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
    },
    {
        "name": "nest",
        "inputSchema": {"type": "object", "properties": {"tree": {"type": "array"}}, "required": ["tree"]},
    },
    {
        "name": "echo",
        "annotations": READS,
        "inputSchema": {"type": "object", "properties": {"text": TEXT}, "required": ["text"]},
    },
]

CALLS: Final[tuple[tuple[str, Message], ...]] = (
    ("greet", {"name": "Ada"}),
    ("add", {"a": 1, "b": 2}),
    ("nest", {"tree": []}),
    ("echo", {"text": "hi"}),
)

CONVERSATION: Final[tuple[Message, ...]] = (
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    *(
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        for id, (name, arguments) in enumerate(CALLS, 2)
    ),
    {"jsonrpc": "2.0", "id": 9, "method": "ping"},
)
"""What the recorded client says."""


class Refused(Exception):  # noqa: N818 # not an error of ours
    """A request that is answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Planted:
    """The server without a transport. ``hang`` is called where it hangs."""

    def __init__(self, faults: frozenset[str], hang: Callable[[], object] = lambda: time.sleep(3600)) -> None:
        self.faults = faults
        self.hang = hang
        self.last_text = ""
        self.out: list[bytes] = []

    def take(self, line: bytes) -> None:
        """Process a line; what it answers is added to ``out``."""
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            self.error(None, -32700, "not JSON")
            return
        if isinstance(value, list) and "hang-on-batch" in self.faults:
            self.hang()
        message = as_object(cast("object", value))
        if message.get("jsonrpc") != "2.0":
            self.error(None, -32600, "not a request")
            return
        method, id = message.get("method"), message.get("id")
        if "id" not in message:
            self.notified(message)
        elif isinstance(method, str) and isinstance(id, str | int) and not isinstance(id, bool):
            self.asked(message, method, id)
        elif method is not None:
            self.error(None, -32600, "not a request")

    def notified(self, message: Message) -> None:
        """Process a notification."""
        method = message.get("method")
        if method == "notifications/cancelled" and "hang-on-cancel" in self.faults:
            self.hang()
        known = method in ("notifications/initialized", "notifications/cancelled", "notifications/progress")
        if not known and "answer-to-notification" in self.faults:
            self.say({"jsonrpc": "2.0", "id": 1, "result": {}})

    def asked(self, message: Message, method: str, id: str | int) -> None:
        """Answer a request."""
        params = message.get("params")
        try:
            result = self.result(method, as_object(params))
        except Refused as refused:
            if str(refused) == "no such tool" and "result-and-error" in self.faults:
                error = {"code": refused.code, "message": str(refused)}
                self.say({"jsonrpc": "2.0", "id": id, "result": {}, "error": error})
                return
            self.error(str(id) if "id-as-text" in self.faults else id, refused.code, str(refused))
        else:
            self.say({"jsonrpc": "2.0", "id": id, "result": result})

    def result(self, method: str, params: Message) -> Message:
        """Return the result of a request.

        Raises:
            Refused: there is none.
        """
        match method:
            case "initialize":
                info = {"name": "planted", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": TOOLS}
            case "tools/call":
                return self.called(params.get("name"), as_object(params.get("arguments")))
            case _:
                raise Refused(-32601, "no such method")

    def called(self, name: object, arguments: Message) -> Message:
        """Call a tool."""
        match name, arguments:
            case "greet", {"name": str(who)}:
                initial = who[0] if "crash-on-empty-text" in self.faults else who[:1]
                if len(who) > 100 and "signal-on-long-name" in self.faults:
                    signal.raise_signal(signal.SIGTERM)
                if len(who) > 100 and "result-without-content" in self.faults:
                    return {}
                return content(f"Hello {who}, {initial}.")
            case "add", {"a": int(a), "b": int(b)} if not isinstance(a, bool) and not isinstance(b, bool):
                if "crash-on-huge-number" in self.faults:
                    struct.pack("qq", a, b)
                return content(hex(a + b))
            case "nest", {"tree": list()}:
                tree = cast("list[object]", arguments["tree"])
                return content(str(deepest(tree) if "crash-on-deep-nesting" in self.faults else len(tree)))
            case "echo", {"text": str(said)}:
                self.last_text = said
                return content(said)
            case "echo", _:
                shown = self.last_text if "leak-of-last-call" in self.faults else "text"
                raise Refused(-32602, f"wrong argument: {shown}")
            case "greet" | "add" | "nest", _:
                raise Refused(-32602, "wrong arguments")
            case _:
                if "log-line-on-stdout" in self.faults:
                    self.out.append(b"WARNING unknown tool")
                raise Refused(-32602, "no such tool")

    def error(self, id: object, code: int, text: str) -> None:
        """Answer with an error."""
        self.say({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})

    def say(self, message: Message) -> None:
        """Send a message."""
        plain = "crash-on-lone-surrogate" in self.faults
        self.out.append(json.dumps(message, ensure_ascii=not plain).encode())


def content(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}]}


def deepest(tree: list[object]) -> int:
    inner = [cast("list[object]", item) for item in tree if isinstance(item, list)]
    return 1 + max((deepest(item) for item in inner), default=0)


def as_object(value: object) -> Message:
    """Return a JSON object, an empty one in place of anything else."""
    return cast("Message", value) if isinstance(value, dict) else {}


def main() -> None:
    server = Planted(frozenset(sys.argv[1:]))
    while line := sys.stdin.buffer.readline():
        if line.strip():
            server.take(line)
        for said in server.out:
            sys.stdout.buffer.write(said + b"\n")
        sys.stdout.buffer.flush()
        server.out.clear()


if __name__ == "__main__":
    main()
