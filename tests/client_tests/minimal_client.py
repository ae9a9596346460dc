"""A minimal client with the standard library only; it keeps the protocol, but for the flaw that is named.

python minimal_client.py FLAW SERVER [ARG...]

``two-pages:own-cursor,garbage-lines:dies-of-garbage`` has these flaws with these servers, none with others.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

Object = dict[str, object]

_FLAW, *COMMAND = sys.argv[1:]
_BY_SERVER = dict(pair.split(":") for pair in _FLAW.split(",")) if ":" in _FLAW else {}
FLAW = next((flaw for name, flaw in _BY_SERVER.items() if name in COMMAND), "none") if _BY_SERVER else _FLAW
server = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
assert server.stdin is not None
assert server.stdout is not None
last_id = 0


def send(message: Object) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def answer(request: Object) -> None:
    """Answer a request of the server: a ping, and a refusal of all that this client does not declare."""
    if FLAW == "ignores-requests":
        return
    if request["method"] == "ping":
        request_id = 99 if FLAW == "wrong-answer-id" else request["id"]
        send({"id": request_id, "result": {}})
    else:
        send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})


def ask(method: str, params: Object | None = None) -> Object:
    """Send a request; return the response to it, whatever comes before."""
    global last_id
    assert server.stdout is not None
    if FLAW != "same-id" or not last_id:
        last_id += 1
    send({"id": last_id, "method": method, **({} if params is None else {"params": params})})
    while line := server.stdout.readline():
        try:
            message = json.loads(line)
        except ValueError:
            if FLAW == "dies-of-garbage":
                os.abort()
            continue
        if "method" in message:
            if "id" in message:
                answer(message)
            if FLAW == "crashes-on-change" and message["method"] == "notifications/tools/list_changed":
                sys.exit("cannot cope with a change")
        elif FLAW == "hangs-at-other-id" and message.get("id") != last_id:
            time.sleep(600)
        elif message.get("id") == last_id or FLAW == "believes-any-id":
            if FLAW == "dies-of-null" and "error" not in message and message.get("result") is None:
                os.abort()
            if FLAW == "dies-of-error" and "error" in message:
                os.abort()
            if FLAW == "strict-members" and "x-more" in message.get("result", {}):
                sys.exit("unknown member x-more")
            return message
    if FLAW == "hangs-at-end":
        time.sleep(600)
    sys.exit("the server has gone")


def call(name: object, arguments: object) -> None:
    """Call a tool; some of these clients do not wait for an answer of a server that gives none in time."""
    params: Object = {"name": name, "arguments": arguments}
    if "never-answers" in COMMAND:
        send({"id": 99, "method": "tools/call", "params": params})
        sys.exit("no answer")
    if "answers-cancelled" not in COMMAND:
        ask("tools/call", params)
        return
    send({"id": 99, "method": "tools/call", "params": params})
    send({"method": "notifications/cancelled", "params": {"requestId": 99}})
    assert server.stdout is not None
    if server.stdout.readline() and FLAW == "dies-of-late-answer":
        os.abort()


def read_tools(most: int) -> list[Object]:
    """Return the tools of all pages, or of the first ``most``."""
    cursor: object = None
    tools: list[Object] = []
    pages = 0
    while True:
        if FLAW == "own-cursor" and cursor is not None:
            cursor = "2"
        result = ask("tools/list", {} if cursor is None else {"cursor": cursor})["result"]
        tools += result["tools"]  # pyright: ignore
        cursor = result.get("nextCursor")  # pyright: ignore
        pages += 1
        if cursor is None or pages == most or FLAW in ("first-page-only", "nameless"):
            return tools  # pyright: ignore


def main() -> None:
    if FLAW == "never-starts":
        return
    if FLAW == "never-opens":
        ask("ping")
        sys.exit("what next?")
    if FLAW == "fails-once" and "two-pages" in COMMAND and not (note := Path(os.environ["NOTE"])).exists():
        note.touch()
        sys.exit("too little time")
    hello: Object = {"protocolVersion": "2025-11-25", "capabilities": {}}
    if FLAW == "lists-first":
        ask("tools/list")
    info: Object = {"version": "1"} if FLAW == "nameless" else {"name": "minimal", "version": "1"}
    started = ask("initialize", {**hello, "clientInfo": info})
    offered = started["result"]["protocolVersion"]  # pyright: ignore
    if offered != "2025-11-25":
        return
    if FLAW != "no-initialized":
        send({"method": "notifications/initialized"})
    if FLAW == "writes-a-log":
        assert server.stdin is not None
        server.stdin.write(b"connected\n")
    if "tools" not in started["result"]["capabilities"] and FLAW != "lists-undeclared":  # pyright: ignore
        return
    if FLAW == "three-pages-twice":
        read_tools(3)
    tools = read_tools(3 if FLAW == "three-pages-twice" else 0)
    if tools:
        arguments: object = [] if FLAW == "arguments-as-array" else {}
        call(tools[0]["name"], arguments)  # pyright: ignore
    if FLAW == "hangs-at-other-id":
        ask("ping")  # what else has come is read before its answer
    if FLAW == "leaves-a-child":
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(os.environ["CHILD_FILE"]).write_text(str(child.pid))
    server.stdin.close()  # pyright: ignore
    server.wait()


main()
