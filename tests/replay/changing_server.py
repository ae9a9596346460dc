"""A small server on stdio. Its arguments say what about it has changed, or how it misbehaves.

``renamed``: the tool add is called sum. ``schema``: echo takes another type. ``slow``: echo takes its time.
``failing``: fail answers with an error. ``hangs``, ``dies``, ``babbles``: what becomes of the call of echo.
"""

import json
import os
import sys
import threading
from typing import Any, Final

CHANGES: Final = frozenset(sys.argv[1:])
SLOWLY_S: Final = 0.7
OWN: Final = f"made by {os.getpid()}"
"""Differs each time."""


def tool(name: str, type: str) -> dict[str, Any]:
    properties = {"value": {"type": type}}
    return {"name": name, "description": name, "inputSchema": {"type": "object", "properties": properties}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            answer(message["id"], message["method"], message.get("params", {}))


def answer(id: Any, method: str, params: dict[str, Any]) -> None:
    match method, params:
        case "initialize", _:
            capabilities: dict[str, Any] = {"tools": {}, "logging": {}}
            about = {"name": "changing", "version": "1"}
            version = params["protocolVersion"]
            give(id, protocolVersion=version, capabilities=capabilities, serverInfo=about)
        case "tools/list", _:
            sum_ = tool("sum" if "renamed" in CHANGES else "add", "number")
            give(
                id,
                tools=[
                    sum_,
                    tool("echo", "number" if "schema" in CHANGES else "string"),
                    tool("fail", "string"),
                ],
            )
        case "tools/call", {"name": "echo"}:
            misbehave(id)
            if "slow" in CHANGES:
                threading.Event().wait(SLOWLY_S)
            text(id, params["arguments"]["value"])
        case "tools/call", {"name": "fail"} if "failing" in CHANGES:
            send({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "boom"}})
        case "tools/call", {"name": "ask"}:
            text(id, ask("sampling/createMessage", maxTokens=5) + ask("elicitation/create", message="Name?"))
        case "tools/call", {"name": "twice"}:
            twice(id, params)
        case _:
            text(id, "well")


def misbehave(id: Any) -> None:
    if "hangs" in CHANGES:
        threading.Event().wait()
    if "dies" in CHANGES:
        sys.stdout.write('{"jsonrpc":"2.0","id":')
        sys.stdout.flush()
        sys.exit(3)
    if "babbles" in CHANGES:
        sys.stdout.write('\n{\n[]\nListening on 80\n{"jsonrpc":"2.0","id":"?","result":{}}\n')


def twice(id: Any, params: dict[str, Any]) -> None:
    """What the stateless revision does where a server would ask back."""
    if "requestState" not in params:
        question = {"method": "elicitation/create", "params": {"mode": "form", "message": "Name?"}}
        give(id, resultType="input_required", inputRequests={"q": question}, requestState=OWN)
    elif params["requestState"] != OWN:
        send({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "not my state"}})
    else:
        text(id, params["inputResponses"]["q"]["content"]["name"])


def ask(method: str, **params: Any) -> str:
    """What the client says to a question, as text."""
    send({"jsonrpc": "2.0", "id": f"{method} {OWN}", "method": method, "params": params})
    return json.dumps(json.loads(sys.stdin.readline())["result"], sort_keys=True)


def text(id: Any, said: str) -> None:
    give(id, content=[{"type": "text", "text": said}])


def give(id: Any, **result: Any) -> None:
    send({"jsonrpc": "2.0", "id": id, "result": result})


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
