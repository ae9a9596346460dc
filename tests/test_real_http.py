"""Real clients talk to real servers over HTTP, once directly and once through the proxy: nothing may differ.

And what mcpproxy says about such a session has to be deserved: see ``DESERVED``.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

import mcpproxy
from tests.peers.fixtures import Peers
from tests.peers.processes import Proxy, run, server
from tests.peers.sessions import EVERY_PAIR, PAIRS, Sessions

NOT_DECLARED: Final = (
    "Our scripts subscribe without looking at what the server declared, and these servers do not declare "
    "it: only capabilities that were negotiated are to be used (2025-11-25, basic/lifecycle, Operation)."
)
REMOVED: Final = (
    "Our script pings, subscribes and sets a log level whatever the revision, and the Python SDK lets it: "
    "2026-07-28 has none of these requests any more (2026-07-28, changelog, Major changes 4 and 5)."
)
UNKNOWN_TOOL: Final = (
    "Our script calls a tool that does not exist, and these servers answer with a result whose isError is "
    "true: an unknown tool is an error of the protocol (2025-11-25, server/tools, Error Handling)."
)
NO_RESOURCE: Final = (
    "Our script reads a resource that does not exist, and these servers say so with another code than "
    "-32002 (2025-11-25, server/resources, Error Handling)."
)
ANY_CLIENT: Final = {"TOOL-006", "RES-004"}
"""What the reference server deserves whoever asks it."""

DESERVED: Final[dict[str, dict[tuple[str, str], str]]] = {
    "PROTO-009": {
        ("python 1", "python 1"): NOT_DECLARED,
        ("python 2 auto", "python 1"): NOT_DECLARED,
        ("typescript 2 auto", "python 1"): NOT_DECLARED,
        ("python 1", "python 2"): NOT_DECLARED,
        ("typescript 1", "python 2"): NOT_DECLARED,
    },
    "STAT-008": {("python 2 auto", "python 2"): REMOVED},
    "TOOL-006": dict.fromkeys(EVERY_PAIR, UNKNOWN_TOOL),
    "RES-004": {
        pair: NO_RESOURCE
        for pair in EVERY_PAIR
        if pair not in (("python 2 auto", "python 2"), ("typescript 2 auto", "python 2"))  # 2026-07-28
    },
}
"""Rule -> (client, server) -> the sentence on which an error or a warning rests that this pair deserves."""


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_real_session_is_the_same_and_found_clean(sessions: Sessions, client: str, peer: str) -> None:
    session = sessions.http(client, peer)

    assert settled(session.through) == settled(session.directly)
    assert_trace_is_whole(session.trace, session.said)
    assert found(session.trace) == DESERVED_BY.get((client, peer), set())


@pytest.mark.parametrize(
    "client", ["python 1", "python 2", "typescript 1", "typescript 2"], ids="{} - everything".format
)
def test_a_session_on_the_first_http_transport_is_the_same_and_found_clean(
    sessions: Sessions, client: str
) -> None:
    session = sessions.sse(client)

    assert json.loads(session.through) == json.loads(session.directly)
    assert_trace_is_whole(session.trace, session.said)
    assert found(session.trace) == ANY_CLIENT


@pytest.mark.parametrize(
    ("client", "peer"),
    [("python 1", "everything"), ("python 2 auto", "python 2")],
    ids=["python 1 - everything", "python 2 auto - python 2"],
)
def test_a_session_through_a_forward_proxy_is_the_same_and_found_clean(
    peers: Peers, sessions: Sessions, client: str, peer: str, tmp_path: Path
) -> None:
    directly = sessions.http(client, peer).directly
    with server(peers.http_server(peer), {"PORT": "0"}) as origin:
        drive = [*peers.client(client, peers.plan(peer, "http")), "--", f"{origin}/mcp"]
        with Proxy(tmp_path, "--forward") as proxy:
            through = run(drive, {"HTTP_PROXY": proxy.address, "NO_PROXY": ""})
            said = proxy.stop()

    assert settled(through) == settled(directly)
    assert_trace_is_whole(proxy.trace, said)
    assert found(proxy.trace) == DESERVED_BY[client, peer]


DESERVED_BY: Final[dict[tuple[str, str], set[str]]] = {
    pair: {rule for rule, pairs in DESERVED.items() if pair in pairs} for pair in EVERY_PAIR
}


def settled(document: str) -> Any:
    """What a client got, without what the reference server says when a session has just begun.

    It says it on the stream of a GET, and whether the client has that open by then is a matter of luck.
    """
    got = json.loads(document)
    got["asked"] = [method for method in got["asked"] if method != "roots/list"]
    got["heard"] = [
        message
        for message in got["heard"]
        if message.get("method") != "notifications/tools/list_changed"
        and not str(message.get("params", {}).get("data", "")).startswith("Roots updated")
    ]
    return got


def found(trace: Path) -> set[str]:
    """The rules of which ``mcpproxy check`` finds an error or a warning in a trace that is complete."""
    judged = mcpproxy.check(trace)
    assert judged.complete, judged.notes
    return {finding.rule for finding in judged.findings if finding.severity != "info"}


def assert_trace_is_whole(trace: Path, said: list[str]) -> None:
    """All is HTTP, every exchange has its end, every request its answer, and the last line counts it so."""
    records: list[dict[str, Any]] = [json.loads(line) for line in trace.read_bytes().splitlines()]
    of = {kind: [one for one in records if one["type"] == kind] for kind in {one["type"] for one in records}}
    assert not of.keys() & {"gap", "opaque"}
    assert not any(note["what"] in ("not-http", "not-decoded", "withheld") for note in of["note"])
    for kind in ("response", "end"):
        ended = sorted(record["exchange"] for record in of[kind] if record.get("status", 200) >= 200)
        assert ended == sorted(record["exchange"] for record in of["request"])
    (close,) = of["close"]
    assert close["judge_error"] is None
    messages = [frame for frame in of["frame"] if "message" in frame]
    counted = f"{close['frames']['client']} frames from the client"
    assert counted in said[-1] or "the recorder is not done" in said[-1]  # on a busy machine
    waiting: dict[tuple[str, object], str] = {}
    answered = 0
    for frame in messages:
        message, sender = frame["message"], frame["from"]
        if "method" in message and "id" in message:
            waiting[sender, message["id"]] = message["method"]
        elif "id" in message:
            receiver = "server" if sender == "client" else "client"
            answered += waiting.pop((receiver, message["id"]), None) is not None
    # A server of the older era may refuse this one before it has read its id.
    assert set(waiting.values()) <= {"server/discover"}
    assert answered > 30
