"""The replayed server, message by message: what it says, to whose request, and when."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.replay.server.engine import ReplayEngine
from mcpproxy.peers.replay.server.replay_source import ReplaySource, one_after_another, replay_source
from mcpproxy.protocol.error_message import IN_PLACE_OF_PEER
from tests.replay.scripts import HELLO, C, Line, Player, S, ask, call, give, tell, text, trace

SESSIONS: dict[str, tuple[tuple[Line, ...], tuple[tuple[Any, list[Any]], ...]]] = {
    "ids are the live client's, of whatever type": (
        ((C, call(1, "a")), (S, text(1, "A")), (C, call(2, "b")), (S, text(2, "B"))),
        ((call("x-1", "a"), [text("x-1", "A")]), (call(2**70, "b"), [text(2**70, "B")])),
    ),
    "another order is answered as well": (
        ((C, call(1, "a")), (S, text(1, "A")), (C, call(2, "b")), (S, text(2, "B"))),
        ((call(1, "b"), [text(1, "B")]), (call(2, "a"), [text(2, "A")])),
    ),
    "equal calls are answered in the recorded order": (
        ((C, call(1, "next")), (S, text(1, "one")), (C, call(2, "next")), (S, text(2, "two"))),
        ((call(8, "next"), [text(8, "one")]), (call(9, "next"), [text(9, "two")])),
    ),
    "answers that overtook each other still find their questions": (
        ((C, call(1, "slow")), (C, call(2, "fast")), (S, text(2, "2")), (S, text(1, "1"))),
        ((call(5, "slow"), [text(5, "1")]), (call(6, "fast"), [text(6, "2")])),
    ),
    "an error is an answer": (
        ((C, call(1, "a")), (S, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}})),
        ((call(4, "a"), [{"jsonrpc": "2.0", "id": 4, "error": {"code": -32602, "message": "no"}}]),),
    ),
    "progress comes under the live token": (
        (
            (C, call(1, "a", token=1)),
            (S, tell("notifications/progress", progressToken=1, progress=1)),
            (S, text(1, "A")),
        ),
        (
            (
                call(7, "a", token="mine"),
                [tell("notifications/progress", progressToken="mine", progress=1), text(7, "A")],
            ),
        ),
    ),
    "nobody hears of progress who did not ask": (
        (
            (C, call(1, "a", token=1)),
            (S, tell("notifications/progress", progressToken=1, progress=1)),
            (S, text(1, "A")),
        ),
        ((call(7, "a"), [text(7, "A")]),),
    ),
    "two calls under way, each with its own progress": (
        (
            (C, call(1, "a", token="1")),
            (C, call(2, "b", token=1)),
            (S, tell("notifications/progress", progressToken="1", progress=1)),
            (S, tell("notifications/progress", progressToken=1, progress=2)),
            (S, text(2, "B")),
            (S, text(1, "A")),
        ),
        (
            (
                call(1, "a", token=8),
                [tell("notifications/progress", progressToken=8, progress=1), text(1, "A")],
            ),
            (
                call(2, "b", token=9),
                [tell("notifications/progress", progressToken=9, progress=2), text(2, "B")],
            ),
        ),
    ),
    "a call waits until the client has answered what the server asked": (
        (
            (C, call(1, "a")),
            (S, ask("s", "sampling/createMessage", maxTokens=1)),
            (C, give("s", model="m")),
            (S, text(1, "A")),
        ),
        (
            (call(3, "a"), [ask("s", "sampling/createMessage", maxTokens=1)]),
            (give("s", model="another"), [text(3, "A")]),
        ),
    ),
    "a refusal of the client's is an answer too": (
        (
            (C, call(1, "a")),
            (S, ask(0, "elicitation/create", message="?")),
            (C, give(0, action="accept")),
            (S, text(1, "A")),
        ),
        (
            (call(3, "a"), [ask(0, "elicitation/create", message="?")]),
            ({"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "no"}}, [text(3, "A")]),
        ),
    ),
    "one server's request per call: the other calls go on": (
        (
            (C, call(1, "a")),
            (C, call(2, "b")),
            (S, ask(0, "sampling/createMessage")),
            (C, give(0, model="m")),
            (S, text(2, "B")),
            (S, text(1, "A")),
        ),
        (
            (call(1, "a"), [text(1, "A")]),
            (call(2, "b"), [ask(0, "sampling/createMessage")]),
            (give(0, model="m"), [text(2, "B")]),
        ),
    ),
    "what the server says by itself comes after the message that it followed": (
        (
            (C, call(1, "a")),
            (S, text(1, "A")),
            (S, tell("notifications/tools/list_changed")),
            (C, call(2, "b")),
            (S, tell("notifications/message", data="b")),
            (S, text(2, "B")),
        ),
        (
            (call(1, "a"), [text(1, "A"), tell("notifications/tools/list_changed")]),
            (call(2, "b"), [tell("notifications/message", data="b"), text(2, "B")]),
        ),
    ),
    "or after a later one, if that never comes": (
        (
            (C, tell("notifications/roots/list_changed")),
            (S, ask(0, "roots/list")),
            (C, give(0, roots=[])),
            (C, call(2, "b")),
            (S, text(2, "B")),
        ),
        ((call(2, "b"), [ask(0, "roots/list"), text(2, "B")]),),
    ),
    "a ping too many is answered, and moves nothing": (
        ((C, call(1, "a")), (S, text(1, "A")), (S, tell("notifications/tools/list_changed"))),
        (
            (ask("p", "ping"), [give("p")]),
            (tell("notifications/roots/list_changed"), []),
            (call(1, "a"), [text(1, "A"), tell("notifications/tools/list_changed")]),
        ),
    ),
    "a client that asks for both eras learns of the older one": (
        ((C, call(1, "a")), (S, text(1, "A"))),
        (
            (
                ask("probe", "server/discover"),
                [{"jsonrpc": "2.0", "id": "probe", "error": {"code": -32601, "message": "Method not found"}}],
            ),
        ),
    ),
    "a cancelled call has no answer, as recorded": (
        (
            (C, call(1, "slow")),
            (C, tell("notifications/cancelled", requestId=1)),
            (C, call(2, "b")),
            (S, text(2, "B")),
        ),
        (
            (call("s", "slow"), []),
            (tell("notifications/cancelled", requestId="s", reason="tired"), []),
            (call("t", "b"), [text("t", "B")]),
        ),
    ),
    "what came in spite of the cancellation comes after it": (
        ((C, call(1, "slow")), (C, tell("notifications/cancelled", requestId=1)), (S, text(1, "late"))),
        ((call(5, "slow"), []), (tell("notifications/cancelled", requestId=5), [text(5, "late")])),
    ),
    "a server that cancels its own request speaks of its own id, even if a request of the client has it": (
        (
            (C, call(1, "slow")),
            (S, ask(1, "sampling/createMessage")),
            (S, tell("notifications/cancelled", requestId=1)),
            (S, text(1, "A")),
        ),
        (
            (
                call(5, "slow"),
                [
                    ask(1, "sampling/createMessage"),
                    tell("notifications/cancelled", requestId=1),
                    text(5, "A"),
                ],
            ),
        ),
    ),
    "a batch is answered by a batch": (
        ((C, [ask(1, "ping"), call(2, "a")]), (S, [text(2, "A"), give(1)])),
        (([ask("p", "ping"), call("q", "a")], [[give("p"), text("q", "A")]]),),
    ),
    "a batch that is asked one by one is answered one by one": (
        ((C, [ask(1, "ping"), call(2, "a")]), (S, [text(2, "A"), give(1)])),
        ((ask("p", "ping"), [give("p")]), (call("q", "a"), [text("q", "A")])),
    ),
    "cursors may be others, but a page with one is not a page without": (
        (
            (C, ask(1, "tools/list")),
            (S, give(1, tools=[], nextCursor="p2")),
            (C, ask(2, "tools/list", cursor="p2")),
            (S, give(2, tools=[{"name": "last"}])),
        ),
        (
            (ask(1, "tools/list", cursor="other"), [give(1, tools=[{"name": "last"}])]),
            (ask(2, "tools/list"), [give(2, tools=[], nextCursor="p2")]),
        ),
    ),
    "of pages the one with this very cursor": (
        (
            (C, ask(1, "tools/list", cursor="p2")),
            (S, give(1, tools=[2])),
            (C, ask(2, "tools/list", cursor="p3")),
            (S, give(2, tools=[3])),
        ),
        ((ask(1, "tools/list", cursor="p3"), [give(1, tools=[3])]),),
    ),
    "no arguments, null and an empty object are the same": (
        (
            (C, ask(1, "tools/call", name="a")),
            (S, text(1, "A")),
            (C, ask(2, "prompts/list")),
            (S, give(2, prompts=[])),
        ),
        (
            (ask(1, "tools/call", name="a", arguments={}), [text(1, "A")]),
            (ask(2, "prompts/list", cursor=None), [give(2, prompts=[])]),
        ),
    ),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_live_client_hears_what_the_recorded_one_heard(name: str, tmp_path: Path) -> None:
    recorded, conversation = SESSIONS[name]
    player = Player(tmp_path, *HELLO, *recorded)
    assert player.say(HELLO[0][1]) == [HELLO[1][1]]
    assert player.say(HELLO[2][1]) == []
    for said, heard in conversation:
        assert player.say(said) == heard
    assert player.engine.misses == 0


def test_batches_of_two_recordings_stay_apart(tmp_path: Path) -> None:
    def source(name: str, tool: str) -> ReplaySource:
        asked, given = (C, [ask(1, "ping"), call(2, tool)]), (S, [text(2, tool), give(1)])
        return replay_source(load(trace(tmp_path / name, [*HELLO, asked, given])))

    joined = one_after_another([source("first.jsonl", "a"), source("second.jsonl", "b")])
    engine = ReplayEngine(joined.unnamed)
    for tool in ("a", "b"):
        asked = [ask("p", "ping"), call("q", tool)]
        for said in (HELLO[0][1], HELLO[2][1], asked):
            heard = engine.receive(json.dumps(said).encode()).outgoing
        assert [json.loads(out.raw) for out in heard] == [[give("p"), text("q", tool)]]


def test_initialize_is_answered_as_recorded_whoever_asks(tmp_path: Path) -> None:
    player = Player(tmp_path, *HELLO)
    hello = ask(
        "i", "initialize", protocolVersion="2025-03-26", capabilities={"roots": {}}, clientInfo={"name": "x"}
    )
    assert player.say(hello) == [HELLO[1][1] | {"id": "i"}]


def test_the_bytes_are_the_recorded_ones_but_for_the_id(tmp_path: Path) -> None:
    written = b'{ "result":{"b":1, "a":[ {"id":9} ],"u":"\\u00e9"}, "id" : 1,"jsonrpc":"2.0" }'
    path = trace(tmp_path / "t.jsonl", ((C, call(1, "a")), (S, "PLACE")))
    path.write_bytes(path.read_bytes().replace(b'"text": "PLACE"', b'"message":' + written))
    engine = ReplayEngine(load(path).sessions[0])
    [out] = engine.receive(json.dumps(call("new", "a")).encode()).outgoing
    assert out.raw == written.replace(b'"id" : 1', b'"id" : "new"')


def test_a_server_that_asks_under_an_id_that_is_still_open_gets_another(tmp_path: Path) -> None:
    recorded = ((C, tell("x")), (S, ask(0, "roots/list")), (C, tell("y")), (S, ask(0, "roots/list")))
    player = Player(tmp_path, *recorded)
    assert player.say(tell("x")) == [ask(0, "roots/list")]
    assert player.say(tell("y")) == [ask("0-1", "roots/list")]


def test_a_server_that_cancels_such_a_request_names_the_other_id(tmp_path: Path) -> None:
    cancelled = tell("notifications/cancelled", requestId=0)
    asks = ((C, tell("x")), (S, ask(0, "roots/list")), (C, tell("y")), (S, ask(0, "roots/list")))
    player = Player(tmp_path, *asks, (S, cancelled))
    assert player.say(tell("x")) == [ask(0, "roots/list")]
    renamed = tell("notifications/cancelled", requestId="0-1")
    assert player.say(tell("y")) == [ask("0-1", "roots/list"), renamed]


def test_a_retry_with_input_is_replayed_whatever_the_live_user_says(tmp_path: Path) -> None:
    wants = give(1, resultType="input_required", requestState="s1", inputRequests={"c": ask(0, "x")})
    first = ask(1, "tools/call", name="paint")
    retry = ask(2, "tools/call", name="paint", requestState="s1", inputResponses={"c": {"action": "accept"}})
    player = Player(tmp_path, (C, first), (S, wants), (C, retry), (S, text(2, "red")))
    assert player.say(first | {"id": "a"}) == [wants | {"id": "a"}]
    other = ask(
        "b", "tools/call", name="paint", requestState="s1", inputResponses={"c": {"action": "decline"}}
    )
    assert player.say(other) == [text("b", "red")]


def test_a_subscription_goes_by_the_live_id(tmp_path: Path) -> None:
    key = "io.modelcontextprotocol/subscriptionId"
    listen = ask(5, "subscriptions/listen", notifications={"toolsListChanged": True})
    acknowledged = tell("notifications/subscriptions/acknowledged", _meta={key: 5}, notifications={})
    changed = tell("notifications/tools/list_changed", _meta={key: 5})
    player = Player(
        tmp_path, (C, listen), (S, acknowledged), (C, call(6, "a")), (S, changed), (S, text(6, "A"))
    )
    mine = {"_meta": {key: "L"}}
    assert player.say(listen | {"id": "L"}) == [acknowledged | {"params": mine | {"notifications": {}}}]
    assert player.say(call(1, "a")) == [changed | {"params": mine}, text(1, "A")]


def test_what_the_server_says_first_comes_first(tmp_path: Path) -> None:
    player = Player(
        tmp_path, (S, tell("notifications/message", data="up")), (C, call(1, "a")), (S, text(1, "A"))
    )
    assert player.begin() == [tell("notifications/message", data="up")]


TWICE = ((C, call(1, "next")), (S, text(1, "one")), (C, call(2, "next")), (S, text(2, "two")))


def test_a_call_too_many_is_a_miss(tmp_path: Path) -> None:
    player = Player(tmp_path, *TWICE)
    player.say(call(1, "next"))
    player.say(call(2, "next"))
    [answer] = player.say(call(3, "next"))
    assert (answer["id"], answer["error"]["code"]) == (3, IN_PLACE_OF_PEER)
    assert answer["error"]["data"]["nearest"] == {"frame": 3, "method": "tools/call"}
    assert player.notes == [
        'miss 1: tools/call "next" (id 3): all equal recorded requests were used, the last is frame 3'
    ]


def test_unless_the_last_answer_is_repeated(tmp_path: Path) -> None:
    player = Player(tmp_path, *TWICE, repeats=True)
    said = [player.say(call(n, "next")) for n in (5, 6, 7, 8)]
    assert said == [[text(5, "one")], [text(6, "two")], [text(7, "two")], [text(8, "two")]]
    assert player.engine.misses == 0


def test_a_miss_names_the_nearest_request_and_where_it_differs(tmp_path: Path) -> None:
    recorded = (
        (C, call(1, "add", a=1, b=2, c=3)),
        (S, text(1, "6")),
        (C, call(2, "add", a=1, b=5)),
        (S, text(2, "6")),
    )
    player = Player(tmp_path, *recorded)
    [answer] = player.say(call(9, "add", a=1, b=6))
    assert answer["error"]["data"] == {
        "reason": "no recorded request is equal; nearest is frame 3, where /params/arguments/b is 6, was 5",
        "nearest": {"frame": 3, "method": "tools/call"},
        "differences": [{"pointer": "/params/arguments/b", "change": "changed", "expected": 5, "found": 6}],
    }
    [answer] = player.say(ask(10, "prompts/list"))
    assert "/method" in [one["pointer"] for one in answer["error"]["data"]["differences"]]
    assert player.notes[-1].endswith(
        "its method was never recorded; the next request is frame 1 (tools/call)"
    )
    assert player.engine.misses == 2


def test_nonsense_is_answered_and_counted(tmp_path: Path) -> None:
    player = Player(tmp_path, *HELLO)
    heard = player.engine.receive(b"{")
    assert json.loads(heard.outgoing[0].raw)["error"]["code"] == -32700
    assert player.engine.receive(b"").outgoing == []
    assert player.engine.misses == 1


LEVELS: tuple[tuple[Any, ...], ...] = (
    # level, live arguments and meta, is it the recorded one?
    ("strict", {"a": 1}, {"x": 1}, True),
    ("strict", {"a": 1}, {"x": 2}, False),
    ("default", {"a": 1}, {"x": 2}, True),
    ("default", {"a": 1.0}, {}, True),
    ("default", {"a": True}, {}, False),
    ("default", {"a": "1"}, {}, False),
    ("default", {"a": 1, "b": None}, {}, False),
    ("loose", {"a": 7, "b": None}, {}, True),
)


@pytest.mark.parametrize(("level", "arguments", "meta", "is_known"), LEVELS)
def test_levels(level: str, arguments: Any, meta: Any, is_known: bool, tmp_path: Path) -> None:
    recorded = ask(1, "tools/call", name="t", arguments={"a": 1}, _meta={"x": 1, "progressToken": 1})
    player = Player(tmp_path, (C, recorded), (S, text(1, "T")), level=level)
    live = ask(2, "tools/call", name="t", arguments=arguments, _meta=meta | {"progressToken": 9})
    assert (player.say(live) == [text(2, "T")]) is is_known


def test_loose_takes_the_one_with_the_fewest_differences(tmp_path: Path) -> None:
    recorded = (
        (C, call(1, "t", a=1, b=1)),
        (S, text(1, "1")),
        (C, call(2, "t", a=2, b=2)),
        (S, text(2, "2")),
    )
    player = Player(tmp_path, *recorded, level="loose")
    assert player.say(call(3, "t", a=2, b=3)) == [text(3, "2")]
    assert player.say(call(4, "t", a=2, b=3)) == [text(4, "1")]
    [answer] = player.say(call(5, "other", a=2))
    assert answer["error"]["code"] == IN_PLACE_OF_PEER


def test_what_is_ignored_does_not_count(tmp_path: Path) -> None:
    player = Player(tmp_path, (C, call(1, "t", now=1)), (S, text(1, "T")), ignore=("/params/arguments/now",))
    assert player.say(call(2, "t", now=2)) == [text(2, "T")]


def test_what_is_masked_may_be_anything(tmp_path: Path) -> None:
    masked = "masked(len=9,visible=yes,hash=0123456789ab)"
    player = Player(tmp_path, (C, call(1, "login", key=masked, user="u")), (S, text(1, "in")))
    [answer] = player.say(call(2, "login", key="secret", user="v"))
    assert answer["error"]["data"]["nearest"]["frame"] == 1
    assert player.say(call(3, "login", key="secret", user="u")) == [text(3, "in")]


def test_time_is_recorded_none_or_a_multiple(tmp_path: Path) -> None:
    recorded = ((C, call(1, "a")), (S, tell("notifications/message", data=1)), (S, text(1, "A")))
    for factor, delays_ms in ((0, [0, 0]), (1, [1, 2]), (2.5, [2.5, 5])):
        player = Player(tmp_path, *recorded, factor=factor)
        player.say(call(1, "a"))
        assert player.delays_ms == delays_ms


def test_an_answer_that_was_lost_is_a_miss_where_the_recording_is_cut(tmp_path: Path) -> None:
    player = Player(tmp_path, (C, call(1, "a")), is_cut=True)
    [answer] = player.say(call(2, "a"))
    assert answer["error"]["data"]["reason"] == "the recording holds no answer to it (frame 1)"


def test_an_answer_that_never_came_does_not_come(tmp_path: Path) -> None:
    player = Player(tmp_path, (C, call(1, "a")))
    assert player.say(call(2, "a")) == []
    assert player.engine.misses == 0


def test_a_call_given_up_that_was_answered_then_is_not_answered(tmp_path: Path) -> None:
    player = Player(tmp_path, (C, call(1, "a")), (S, text(1, "A")), factor=1)
    heard = player.engine.receive(json.dumps(call(5, "a")).encode())
    player.say(tell("notifications/cancelled", requestId=5))
    [out] = heard.outgoing
    assert out.live is not None
    assert out.live.is_cancelled


def test_misses_can_be_left_to_somebody_else(tmp_path: Path) -> None:
    player = Player(tmp_path, *HELLO, passes=True)
    heard = player.engine.receive(json.dumps(call(5, "a")).encode())
    assert ([live.id for live in heard.passed], heard.outgoing, player.engine.misses) == ([b"5"], [], 0)
    assert heard.notes[0].startswith('passed on: tools/call "a" (id 5): ')
