"""A weather server over stdio with three deliberate faults, with the standard library only.

Each fault is common in real servers: text that is printed to stdout (STDIO-002), a wrong JSON Schema of a
tool (SCHEMA-004), and a response whose id is a string although the request had a number (PROTO-007).
"""

import json
import sys
from typing import Final

Object = dict[str, object]

REVISION: Final = "2025-11-25"

FORECAST: Final[Object] = {
    "name": "forecast",
    "description": "Tomorrow's weather in a city",
    # Fault: the names of required properties belong in an array.
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": "city"},
}
STATIONS: Final[Object] = {
    "name": "stations",
    "description": "The weather stations there are",
    "inputSchema": {"type": "object", "additionalProperties": False},
}


def main() -> None:
    """Answer requests until stdin ends."""
    for line in sys.stdin:
        try:
            message: Object = json.loads(line)
        except ValueError:
            send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
            continue
        if "id" in message:
            send(answer(message))


def answer(request: Object) -> Object:
    """Return the response to ``request``."""
    request_id = request["id"]
    match request:
        case {"method": "initialize"}:
            about = {"name": "demo-weather", "version": "1.0.0"}
            offer: Object = {"protocolVersion": REVISION, "capabilities": {"tools": {}}, "serverInfo": about}
            return result(request_id, offer)
        case {"method": "ping"}:
            return result(request_id, {})
        case {"method": "tools/list"}:
            return result(request_id, {"tools": [FORECAST, STATIONS]})
        case {"method": "tools/call", "params": {"name": "forecast", "arguments": {"city": "Atlantis"}}}:
            # No fault: a tool that fails says so in its result.
            return result(request_id, text("no such city: Atlantis") | {"isError": True})
        case {"method": "tools/call", "params": {"name": "forecast", "arguments": {"city": str(city)}}}:
            # Fault: stdout belongs to the protocol; this line belongs on stderr.
            sys.stdout.write(f"looking up {city} ...\n")
            return result(request_id, text(f"{city}: sunny, 21 degrees"))
        case {"method": "tools/call", "params": {"name": "stations"}}:
            # Fault: the id of the request is a number, and this is a string.
            return result(str(request_id), text("Oslo, Lima, Kyoto"))
        case _:
            return {
                "jsonrpc": "2.0",
                "id": request_id,
                "error": {"code": -32601, "message": "Method not found"},
            }


def result(request_id: object, value: Object) -> Object:
    """Return a successful response."""
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def text(words: str) -> Object:
    """Return the result of a tool that answers with text."""
    return {"content": [{"type": "text", "text": words}]}


def send(message: Object) -> None:
    """Write a message to stdout."""
    sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
