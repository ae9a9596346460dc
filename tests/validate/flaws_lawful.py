"""Servers that are lawful and unusual, and servers that are not there: neither is to be blamed."""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any

from tests.validate.flaws_walk import refuse
from tests.validate.scripted import SILENT, Json, Server, flaw


@flaw
def declares_nothing(server: Server) -> None:
    server.capabilities = {}
    server.declared = lambda revision: {}
    for feature in ("tools", "resources", "prompts", "completion", "logging"):
        for method in [name for name in server.methods if name.startswith(f"{feature}/")]:
            del server.methods[method]


@flaw
def older_without_a_name(server: Server) -> None:
    """It speaks no revision without a handshake, and its ``serverInfo`` is empty."""
    initialize = server.methods["initialize"]
    server.methods["initialize"] = lambda params: {**initialize(params), "serverInfo": {}}
    del server.methods["server/discover"]
    server.is_modern = lambda params: False


@flaw
def locks_its_data(server: Server) -> None:
    """A second process does not run beside the first: it says why, and exits."""
    import fcntl

    data = os.open(os.environ["DATA"], os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(data, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("its data is open for writing by another process")


@flaw
def starts_once(server: Server) -> None:
    """A later process does not run at all, also if no other one does."""
    try:
        os.close(os.open(os.environ["DATA"], os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        sys.exit("it ran before")


@flaw
def takes_json_without_line_feed(server: Server) -> None:
    """As decoders of a stream of JSON values do: a message is complete with its last bracket."""

    def lines() -> Iterable[bytes]:
        decoder, text = json.JSONDecoder(), ""
        while chunk := os.read(0, 1 << 16):
            text = (text + chunk.decode("utf-8", "surrogateescape")).lstrip()
            while text:
                try:
                    _, end = decoder.raw_decode(text)
                except ValueError:
                    break
                yield text[:end].encode("utf-8", "surrogateescape")
                text = text[end:].lstrip()

    server.lines = lines


@flaw
def tires_of_requests(server: Server) -> None:
    """After some 50 requests it answers none, not even a ping."""
    good, answered = server.answer, [0]

    def answer(message: dict[str, Any]) -> Json:
        answered[0] += 1
        if answered[0] <= 50:
            return good(message)
        error = {"code": -32000, "message": "Rate limit exceeded"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}

    server.answer = answer


@flaw
def names_what_it_cannot_read(server: Server) -> None:
    """Its error for a line that it cannot read has an id of its own making."""
    server.malformed = lambda: server.say(
        {"jsonrpc": "2.0", "id": "no-id", "error": {"code": -32700, "message": "Parse error"}}
    )


@flaw
def completes_templates_alone(server: Server) -> None:
    """It declares completions and resources, but no prompts."""
    good = server.declared
    server.declared = lambda revision: {name: it for name, it in good(revision).items() if name != "prompts"}
    del server.methods["prompts/list"], server.methods["prompts/get"]
    server.methods["completion/complete"] = lambda params: (
        {"completion": {"values": ["one"]}}
        if params["ref"].get("uri") == "notes://shelf/{name}"
        else refuse(-32602)(params)
    )


@flaw
def backend_away(server: Server) -> None:
    """What it asks for its tools cannot be reached."""
    server.methods["tools/list"] = refuse(-32603)


@flaw
def answers_cancelled_requests_late(server: Server) -> None:
    """It answers a request that was cancelled after the next message."""
    good = server.answer
    late: list[Json] = []

    def request(message: dict[str, Any]) -> None:
        if message["method"] == "tools/list":
            late.append(good(message))
        else:
            server.say(good(message))

    def notified(message: dict[str, Any]) -> None:
        if message["method"] == "notifications/cancelled" and message["params"]["requestId"] not in {
            answer["id"] for answer in late
        }:
            while late:
                server.say(late.pop())

    server.request = request
    server.notified = notified


@flaw
def starts_when_told(server: Server) -> None:
    """It says through one pipe that it was started, and answers only after something came through another."""
    good = server.begin

    def begin() -> None:
        good()
        place = os.environ["SCRIPTED_PIDS"]
        with open(f"{place}.ready", "w", encoding="ascii") as pipe:
            pipe.write("here\n")
        with open(f"{place}.go", encoding="ascii") as pipe:
            pipe.read()

    server.begin = begin


@flaw
def dies_at_start(server: Server) -> None:
    server.begin = lambda: os._exit(3)


@flaw
def dies_with_usage(server: Server) -> None:
    def begin() -> None:
        sys.stderr.write("Error: no configuration\n    at main (a.js:2:3)\nnpm error code 3\nUsage: server\n")
        sys.stderr.flush()
        os._exit(3)

    server.begin = begin


@flaw
def silent_tool(server: Server) -> None:
    """Its tools take longer than anybody waits here."""
    server.methods["tools/call"] = lambda params: SILENT


@flaw
def refuses_without_id(server: Server) -> None:
    """It does not look for an id in a line that is too long for it."""
    good = server.take

    def take(line: bytes) -> None:
        if len(line) <= 1 << 20:
            good(line)
        else:
            server.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Too large"}})

    server.take = take
