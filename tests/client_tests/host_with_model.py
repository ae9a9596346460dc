"""A host with the standard library only: a model is offered the tools of its server, and they are called.

python host_with_model.py FLAW, with the flaw first-page-only or none
"""

import json
import os
import shlex
import subprocess
import sys
import urllib.request
from typing import Any

server = subprocess.Popen(
    shlex.split(os.environ["MCPPROXY_SERVER"]),
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
)
assert server.stdin is not None
assert server.stdout is not None
asked = 0


def send(message: Any) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def take(wanted: set[int]) -> dict[int, Any]:
    """Return the answers to these requests; answer pings meanwhile."""
    assert server.stdout is not None
    answers: dict[int, Any] = {}
    while wanted - set(answers):
        message = json.loads(server.stdout.readline())
        if message.get("method") == "ping":
            send({"id": message["id"], "result": {}})
        elif "method" not in message:
            answers[message["id"]] = message["result"]
    return answers


def begin(method: str, params: Any) -> int:
    global asked
    asked += 1
    send({"id": asked, "method": method, "params": params})
    return asked


def ask(method: str, params: Any) -> Any:
    number = begin(method, params)
    return take({number})[number]


hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
started = ask("initialize", hello)
send({"method": "notifications/initialized"})
tools: list[Any] = []
cursor = None
while "tools" in started["capabilities"]:
    page = ask("tools/list", {} if cursor is None else {"cursor": cursor})
    tools += page["tools"]
    cursor = page.get("nextCursor")
    if cursor is None or sys.argv[1] == "first-page-only":
        break
functions = [{"type": "function", "function": {"name": f"mcp__test__{tool['name']}"}} for tool in tools]
talk: list[Any] = [{"role": "user", "content": "go"}]
while True:
    body = json.dumps({"model": "m", "messages": talk, "tools": functions}).encode()
    with urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body) as response:
        said = json.load(response)["choices"][0]["message"]
    if not said.get("tool_calls"):
        break
    talk.append(said)
    calls = {
        begin(
            "tools/call",
            {
                "name": call["function"]["name"].removeprefix("mcp__test__"),
                "arguments": json.loads(call["function"]["arguments"]),
            },
        ): call["id"]
        for call in said["tool_calls"]
    }
    answers = take(set(calls))
    for number, call_id in calls.items():
        talk.append(
            {"role": "tool", "tool_call_id": call_id, "content": answers[number]["content"][0]["text"]}
        )
server.stdin.close()
server.wait()
