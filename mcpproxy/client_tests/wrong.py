"""Servers that break the protocol. What a client must keep, it must keep with them, too."""

from typing import Final

from mcpproxy.client_tests.peer import PeerRequest, ScriptedServer
from mcpproxy.client_tests.scenario import Scenario
from mcpproxy.protocol.jsonrpc import JSONObject


def _newer(peer: ScriptedServer, asked: PeerRequest) -> None:
    peer.welcome(asked, "2099-01-01")


def _unknown_content(peer: ScriptedServer, asked: PeerRequest) -> None:
    content: JSONObject = {"type": "hologram", "shape": "cube"}
    peer.result(asked, {"content": [content, {"type": "text", "text": "done"}]})


def _undeclared(peer: ScriptedServer, asked: PeerRequest) -> None:
    for capability, method in (("roots", "roots/list"), ("sampling", "sampling/createMessage")):
        if capability not in peer.client_capabilities:
            peer.ask(method, {"messages": [], "maxTokens": 1} if capability == "sampling" else None)
    peer.ordinary(asked)


def _wrong_id(peer: ScriptedServer, asked: PeerRequest) -> None:
    peer.text(PeerRequest("no-such-id", asked.method, asked.params), "not for you")


def _twice(peer: ScriptedServer, asked: PeerRequest) -> None:
    peer.ordinary(asked)
    peer.ordinary(asked)


def _garbage(peer: ScriptedServer, asked: PeerRequest) -> None:
    peer.write(b"Listening on port 3000 {\n[1,\n")
    peer.ordinary(asked)


def _exits(peer: ScriptedServer, asked: PeerRequest) -> None:
    del asked
    peer.leave(3)


def _silent(peer: ScriptedServer, asked: PeerRequest) -> None:
    del peer, asked


def _wrong_type(peer: ScriptedServer, asked: PeerRequest) -> None:
    peer.result(asked, {"content": "done", "isError": "no"})


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
        transports=("stdio",),
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
        "wrong-id",
        "jsonrpc",
        "a call is answered under an id that no request has",
        "tools/call",
        {"tools/call": _wrong_id},
        "may wait",
        transports=("stdio",),
    ),
    Scenario(
        "never-answers",
        "sequence",
        "a call is never answered",
        "tools/call",
        {"tools/call": _silent},
        "may wait",
    ),
)
"""Servers that break the protocol."""
