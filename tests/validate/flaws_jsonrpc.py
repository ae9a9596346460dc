"""Servers with a notion of JSON-RPC of their own."""

import os
from collections.abc import Callable
from typing import Any

from tests.validate.flaws_walk import refuse
from tests.validate.scripted import SILENT, Json, Server, flaw, text


@flaw
def answer_to_any_method(server: Server) -> None:
    server.unknown = lambda method: {}


@flaw
def odd_method_refusal(server: Server) -> None:
    server.unknown = lambda method: refuse(-32603)({})


@flaw
def answered_notification(server: Server) -> None:
    good = server.notified

    def notified(message: dict[str, Any]) -> None:
        if message["method"] in server.notifications:
            good(message)
        else:
            server.say(
                {"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Unknown notification"}}
            )

    server.notified = notified


@flaw
def odd_params_refusal(server: Server) -> None:
    good = server.call
    server.methods["tools/call"] = lambda params: (good if "name" in params else refuse(-32603))(params)


@flaw
def params_as_they_come(server: Server) -> None:
    good = server.call
    server.methods["tools/call"] = lambda params: good(params) if "name" in params else text("done")


@flaw
def nameless_call_as_tool_error(server: Server) -> None:
    good = server.call
    failed: Json = {**text("Unknown tool: undefined"), "isError": True}
    server.methods["tools/call"] = lambda params: good(params) if "name" in params else failed


@flaw
def end_at_malformed_json(server: Server) -> None:
    server.malformed = lambda: os._exit(1)


@flaw
def odd_parse_error(server: Server) -> None:
    server.malformed = lambda: server.say(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "Internal error"}}
    )


@flaw
def result_for_malformed_json(server: Server) -> None:
    server.malformed = lambda: server.say({"jsonrpc": "2.0", "id": 4711, "result": {}})


@flaw
def result_for_odd_request(server: Server) -> None:
    """It answers whatever has an id, under that id."""
    server.invalid = lambda value: (
        server.say({"jsonrpc": "2.0", "id": value["id"], "result": {}}) if isinstance(value, dict) else None
    )


@flaw
def result_without_request(server: Server) -> None:
    server.malformed = lambda: server.say({"jsonrpc": "2.0", "id": 815, "result": {}})
    server.invalid = lambda value: server.malformed()


@flaw
def end_at_odd_request(server: Server) -> None:
    server.invalid = lambda value: os._exit(1)


@flaw
def odd_request_refusal(server: Server) -> None:
    server.invalid = lambda value: server.say(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "What?"}}
    )


@flaw
def unread_batch(server: Server) -> None:
    server.batch = lambda messages: server.invalid(messages)


@flaw
def half_a_batch(server: Server) -> None:
    good = server.batch
    server.batch = lambda messages: good(messages[:1])


def _ids(change: Callable[[Json], Json]) -> Callable[[Server], None]:
    """Answers come under ids that were changed on the way."""

    def spoil(server: Server) -> None:
        good = server.answer

        def answer(message: dict[str, Any]) -> Json:
            id = change(message["id"])
            return SILENT if id is None else {**good(message), "id": id}

        server.answer = answer

    return spoil


@flaw
def zero_is_no_id(server: Server) -> None:
    _ids(lambda one: one or None)(server)


@flaw
def unsigned_ids(server: Server) -> None:
    _ids(lambda one: abs(one) if isinstance(one, int) else one)(server)


@flaw
def short_ids(server: Server) -> None:
    _ids(lambda one: one & 0x7FFFFFFF if isinstance(one, int) and one > 0 else one)(server)


@flaw
def ascii_ids(server: Server) -> None:
    _ids(lambda one: one.encode("ascii", "replace").decode() if isinstance(one, str) else one)(server)


@flaw
def numbers_for_digits(server: Server) -> None:
    _ids(lambda one: int(one) if isinstance(one, str) and one.isdigit() else one)(server)


@flaw
def clipped_ids(server: Server) -> None:
    _ids(lambda one: one[:255] if isinstance(one, str) else one)(server)


@flaw
def refused_long_ids(server: Server) -> None:
    good = server.answer

    def answer(message: dict[str, Any]) -> Json:
        if isinstance(message["id"], str) and len(message["id"]) > 255:
            return {
                "jsonrpc": "2.0",
                "id": message["id"],
                "error": {"code": -32600, "message": "The id is too long"},
            }
        return good(message)

    server.answer = answer


def _progress(server: Server, *told: dict[str, Json]) -> None:
    good = server.call

    def call(params: dict[str, Any]) -> Json:
        token = params.get("_meta", {}).get("progressToken")
        for one in told if token is not None else ():
            said = {"progressToken": token, **one}
            server.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": said})
        return good(params)

    server.methods["tools/call"] = call


@flaw
def steady_progress(server: Server) -> None:
    """No flaw at all: progress as it should be."""
    _progress(server, {"progress": 1, "total": 2}, {"progress": 2, "total": 2})


@flaw
def progress_for_nobody(server: Server) -> None:
    _progress(server, {"progress": 1, "progressToken": "nobodys"})


@flaw
def stalled_progress(server: Server) -> None:
    _progress(server, {"progress": 2}, {"progress": 2})
