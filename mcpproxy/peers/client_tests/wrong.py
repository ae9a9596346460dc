"""Scenarios with servers that break the protocol or the connection, or refuse or never answer a request.

A client must keep the rules for clients all the same.
"""

import json
from typing import Final

from mcpproxy.peers.client_tests.faulty import WRONG_FAULTS
from mcpproxy.peers.client_tests.http_peer import plain
from mcpproxy.peers.client_tests.peer import TOOL, PeerRequest, ScriptedServer
from mcpproxy.peers.client_tests.rows.authorized import NOWHERE
from mcpproxy.peers.client_tests.rows.over_http import HTTP_WRONG
from mcpproxy.peers.client_tests.rows.stateless import STATELESS_WRONG
from mcpproxy.peers.client_tests.scenario import CANCELLED, Scenario
from mcpproxy.protocol.jsonrpc import JSONObject

OTHERS_FIRST: Final = ("id-as-text", "answer-to-nobody", "error-without-id")
"""The scenarios in which a wrong answer comes before the answer to the client's call."""

GOES_ON_S: Final = 1.0
"""How long a client may take to send its next message if it takes the wrong answer for its own."""

_NOT_FOR_YOU: Final[JSONObject] = {"content": [{"type": "text", "text": "not for you"}]}


def _newer(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.accept_initialize(request, "2099-01-01")


def _unknown_content(peer: ScriptedServer, request: PeerRequest) -> None:
    content: JSONObject = {"type": "hologram", "shape": "cube"}
    peer.send_result(request, {"content": [content, {"type": "text", "text": "done"}]})


def _undeclared(peer: ScriptedServer, request: PeerRequest) -> None:
    for capability, method in (("roots", "roots/list"), ("sampling", "sampling/createMessage")):
        if capability not in peer.client_capabilities:
            peer.ask(method, {"messages": [], "maxTokens": 1} if capability == "sampling" else None)
    peer.answer_normally(request)


def _before_the_answer(peer: ScriptedServer, request: PeerRequest, other: JSONObject) -> None:
    """Send another answer first. Give a client that takes it for its own time to continue or to leave."""
    peer.send({"jsonrpc": "2.0", **other})
    peer.ask("ping")
    peer.wait_for_message(GOES_ON_S)
    peer.answer_normally(request)


def _id_as_text(peer: ScriptedServer, request: PeerRequest) -> None:
    _before_the_answer(peer, request, {"id": json.dumps(request.id), "result": _NOT_FOR_YOU})


def _to_nobody(peer: ScriptedServer, request: PeerRequest) -> None:
    _before_the_answer(peer, request, {"id": "no-such-id", "result": _NOT_FOR_YOU})


def _without_id(peer: ScriptedServer, request: PeerRequest) -> None:
    error: JSONObject = {"code": -32700, "message": "Parse error"}
    _before_the_answer(peer, request, {"id": None, "error": error})


def _promises(peer: ScriptedServer, request: PeerRequest) -> None:
    schema: JSONObject = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    peer.send_result(request, {"tools": [{**TOOL, "outputSchema": schema}]})


def _breaks_promise(peer: ScriptedServer, request: PeerRequest) -> None:
    content: JSONObject = {"type": "text", "text": "three"}
    peer.send_result(request, {"content": [content], "structuredContent": {"sum": "three"}})


def _half(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.write(json.dumps({"jsonrpc": "2.0", "id": request.id, "result": _NOT_FOR_YOU}).encode()[:-20])
    peer.exit(3)


def _cancelled(peer: ScriptedServer, request: PeerRequest) -> None:
    if peer.serve_until(CANCELLED):
        peer.answer_normally(request)


def _twice(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.answer_normally(request)
    peer.answer_normally(request)


def _garbage(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.write(b"Listening on port 3000 {\n[1,\n")
    peer.answer_normally(request)


def _exits(peer: ScriptedServer, request: PeerRequest) -> None:
    del request
    peer.exit(3)


def _silent(peer: ScriptedServer, request: PeerRequest) -> None:
    del peer, request


def _wrong_type(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.send_result(request, {"content": "done", "isError": "no"})


WRONG: Final = (
    Scenario(
        "unknown-revision",
        "lifecycle",
        "the server offers a revision that does not exist",
        scripts={"initialize": _newer},
        reaction="may give up",
    ),
    Scenario(
        "unknown-content",
        "tools",
        "a result has content of an unknown type",
        "tools/call",
        {"tools/call": _unknown_content},
        reaction="may give up",
    ),
    Scenario(
        "wrong-type",
        "tools",
        "a result has wrong types",
        "tools/call",
        {"tools/call": _wrong_type},
        "may give up",
    ),
    Scenario(
        "asks-undeclared",
        "lifecycle",
        "the server asks for roots and a sample that the client does not declare",
        "tools/call",
        {"tools/call": _undeclared},
        "may give up",
    ),
    Scenario(
        "duplicate-answer",
        "jsonrpc",
        "a call is answered twice",
        "tools/call",
        {"tools/call": _twice},
        "may give up",
        http=plain,
    ),
    Scenario(
        "garbage-lines",
        "transport",
        "lines before the answer are no messages",
        "tools/call",
        {"tools/call": _garbage},
        "may give up",
        transports=("stdio",),
    ),
    Scenario(
        "exit-in-call",
        "transport",
        "the server ends during a call",
        "tools/call",
        {"tools/call": _exits},
        "may give up",
        transports=("stdio",),
    ),
    Scenario(
        "id-as-text",
        "jsonrpc",
        "a call is answered under its id as a text, and then under its id",
        "tools/call",
        {"tools/call": _id_as_text},
        "may give up",
        http=plain,
    ),
    Scenario(
        "answer-to-nobody",
        "jsonrpc",
        "before the answer there is one to a request that the client has not sent",
        "tools/call",
        {"tools/call": _to_nobody},
        "may give up",
        http=plain,
    ),
    Scenario(
        "error-without-id",
        "jsonrpc",
        "before the answer there is an error whose id is null",
        "tools/call",
        {"tools/call": _without_id},
        "may give up",
        http=plain,
    ),
    Scenario(
        "breaks-output-schema",
        "tools",
        "a structured result is not as the schema of the tool says",
        "tools/call",
        {"tools/list": _promises, "tools/call": _breaks_promise},
        "may give up",
    ),
    Scenario(
        "no-structured-result",
        "tools",
        "a tool has a schema of its results, and the result has nothing of it",
        "tools/call",
        {"tools/list": _promises},
        "may give up",
    ),
    Scenario(
        "cut-in-line",
        "transport",
        "the server ends in the middle of an answer",
        "tools/call",
        {"tools/call": _half},
        "may give up",
        transports=("stdio",),
    ),
    *WRONG_FAULTS,
    *HTTP_WRONG,
    NOWHERE,
    *STATELESS_WRONG,
    Scenario(
        "never-answers",
        "sequence",
        "a call is never answered",
        "tools/call",
        {"tools/call": _silent},
        "may wait",
    ),
    Scenario(
        "answers-cancelled",
        "sequence",
        "a call is answered when the client has cancelled it",
        CANCELLED,
        {"tools/call": _cancelled},
        "may give up",
        after="never-answers",
    ),
)
"""Servers that break the protocol or the connection, or refuse or never answer a request."""
