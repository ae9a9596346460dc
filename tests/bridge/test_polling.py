"""``bridge --stdio --poll-after``: connections are closed, and every message comes once."""

from pathlib import Path
from typing import Any

import pytest

import mcpproxy
from tests.bridge.ends import Bridge, Reply, call, complete, result
from tests.bridge.test_real import found
from tests.bridge.test_stdio import CHANGED, FIELDS, PROGRESS, QUESTION, WITH_TOKEN, refused
from tests.peers.fixtures import Peers
from tests.peers.sessions import told
from tests.test_real_http import settled

TOKEN = {"progressToken": "t"}


def progress(number: int) -> bytes:
    params = b'{"progressToken":"t","progress":%d}' % number
    return b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}' % params


def followed(bridge: Bridge, session: str, reply: Reply, last_id: str = "") -> tuple[list[bytes], int]:
    """Read a stream behind ``last_id`` to its end, over as many connections as it needs. Return its messages,
    and how many."""
    messages: list[bytes] = []
    connections = 1
    while True:
        for event in reply.events():
            last_id = event["id"].decode()
            messages += [event["data"]] if event["data"] else []
        if messages and b'"result"' in messages[-1]:
            return messages, connections
        reply = bridge.ask(method="GET", session=session, Last_Event_ID=last_id)
        assert reply.is_stream
        connections += 1


def test_the_response_to_a_post_is_closed_at_once_and_the_client_fetches_the_rest(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--poll-after", "0") as bridge:
        session = bridge.begin()
        first = bridge.ask(call(1, _meta=TOKEN), session)
        assert list(first.events()) == [{"retry": b"100", "id": b"2-1", "data": b""}]
        second = bridge.ask(call(2, PROGRESS, result(1), result(2)), session)
        assert list(second.events()) == [{"retry": b"100", "id": b"3-1", "data": b""}]

        resumed = bridge.ask(method="GET", session=session, Last_Event_ID="3-1")
        heard, _ = followed(bridge, session, resumed, "3-1")
        assert heard == [result(2)]  # and so the server has said all before it
        resumed = bridge.ask(method="GET", session=session, Last_Event_ID="2-1")
        assert [event["data"] for event in resumed.events()] == [PROGRESS, result(1)]
        # What was sent and did not arrive is sent again; a client that has all of it is told so.
        again = bridge.ask(method="GET", session=session, Last_Event_ID="2-2")
        assert [event["data"] for event in again.events()] == [result(1)]
        refused(bridge.ask(method="GET", session=session, Last_Event_ID="2-3"), 405, "the stream is over")
        bridge.stop()
    rules = found(tmp_path)
    assert rules["http"] - rules["stdio"] == {"SSE-006"}  # the client of this test does not wait


def test_every_message_comes_once_over_many_connections(tmp_path: Path) -> None:
    number = 400
    with Bridge(tmp_path, "--poll-after", "0.05", "--poll-retry", "0.001") as bridge:
        session = bridge.begin()
        reply = bridge.ask(call("long", _meta=TOKEN), session)
        last_id = ""
        heard: list[bytes] = []
        connections = 1
        for part in range(0, number, 20):
            # Said while a connection is open, and while none is: whichever it is now.
            says = [progress(one) for one in range(part, part + 20)]
            list(bridge.ask(call(part, *says), session).events())
            for event in reply.events():
                last_id = event["id"].decode()
                heard += [event["data"]] if event["data"] else []
            reply = bridge.ask(method="GET", session=session, Last_Event_ID=last_id)
            connections += 1
        list(bridge.ask(call("end", result("long")), session).events())
        rest, more = followed(bridge, session, reply)
        bridge.stop()
    assert heard + rest == [*(progress(one) for one in range(number)), result("long")]
    assert connections + more > number // 20
    for trace in complete(tmp_path):
        assert mcpproxy.check(trace).complete


def test_more_answers_wait_than_streams_are_kept(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--poll-after", "0") as bridge:
        session = bridge.begin()
        asked = [list(bridge.ask(call(one, result(one)), session).events()) for one in range(60)]
        for one, (first, *answer) in enumerate(asked):
            if answer:  # it was there before the connection was closed, and is not kept for this client
                assert [event["data"] for event in answer] == [result(one)]
                continue
            last_id = first["id"].decode()
            resumed = bridge.ask(method="GET", session=session, Last_Event_ID=last_id)
            assert followed(bridge, session, resumed, last_id)[0] == [result(one)]


def test_the_stream_of_the_get_is_closed_and_goes_on(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--poll-after", "0.2") as bridge:
        session = bridge.begin()
        get = bridge.ask(method="GET", session=session)
        assert list(get.events()) == [{"retry": b"100", "id": b"0-1", "data": b""}]
        # Two requests are open, so a question belongs to none; a client that comes back is not gone.
        bridge.ask(call(1), session)
        bridge.ask(call(2, QUESTION, CHANGED), session)
        heard: list[bytes] = []
        last_id = "0-1"
        while len(heard) < 2:
            for event in bridge.ask(method="GET", session=session, Last_Event_ID=last_id).events():
                last_id = event["id"].decode()
                heard += [event["data"]] if event["data"] else []
        assert heard == [QUESTION, CHANGED]


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_clients_of_older_revisions_keep_their_connections(tmp_path: Path, revision: str) -> None:
    with Bridge(tmp_path, "--poll-after", "0", "--event-streams") as bridge:
        session = bridge.begin(revision)
        fields: Any = {"MCP_Protocol_Version": revision}
        get = bridge.ask(method="GET", session=session, **fields)
        stream = bridge.ask(call(1, _meta=TOKEN), session, **fields)
        says = (PROGRESS, CHANGED, result(1), result(2))
        assert [event["data"] for event in bridge.ask(call(2, *says), session, **fields).events()] == [
            result(2)
        ]
        events = list(stream.events())
        assert [event["data"] for event in events] == [PROGRESS, result(1)]
        assert not any("retry" in event for event in events)
        assert get.event() == {"event": b"message", "id": b"0-1", "data": CHANGED}


def test_stateless_clients_keep_their_connections(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--poll-after", "0") as bridge:
        reply = bridge.ask(call(1, PROGRESS, **WITH_TOKEN), **FIELDS)
        assert reply.event() == {"event": b"message", "data": PROGRESS}
        same = {key: value for key, value in WITH_TOKEN.items() if key == "name"}
        same["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        assert bridge.ask(call(2, result(1), result(2), **same), **FIELDS).body() == result(2)
        assert [event["data"] for event in reply.events()] == [result(1)]


@pytest.mark.parametrize("client", ["python 2", "typescript 1"])
def test_real_clients_come_back(peers: Peers, client: str, tmp_path: Path) -> None:
    drive = peers.client(client, peers.plan("python 2", "http"))
    command = peers.server("python 2")
    with Bridge(tmp_path, "--poll-after", "0", command=command) as before:
        direct, through = told(drive, command, [before.url])
        before.stop()

    assert settled(through) == settled(direct)
    rules = found(tmp_path)
    assert rules["stdio"] == rules["http"]
    http = next(trace for trace in tmp_path.glob("*-http-*.jsonl"))
    polls = [line for line in http.read_text().splitlines() if '"last-event-id"' in line.lower()]
    assert len(polls) > 3
