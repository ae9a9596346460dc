"""A recorded client is played to a live server: what it sends when, and under which names."""

import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.peers.replay.client.player import Player
from mcpproxy.peers.replay.diff.session_diff import compare_sessions
from mcpproxy.peers.replay.diff.values import DiffRules
from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.replay.server.replay_source import replay_source
from tests.replay.plays import TIMEOUT_NS, Play
from tests.replay.scripts import HELLO, C, Line, S, ask, call, give, tell, text, trace
from tests.replay.test_server_process import STRANGE, mangled

ASKED, GREETED, READY = (line[1] for line in HELLO)

ECHO: Final = {"name": "echo", "inputSchema": {"type": "object"}}


def test_a_message_is_sent_when_all_before_it_has_been_seen_again(tmp_path: Path) -> None:
    play = Play(tmp_path, *HELLO, (C, call(1, "a")), (C, call(2, "b")), (S, text(2, "B")), (S, text(1, "A")))
    play.sends(ASKED)
    play.hears(GREETED)
    play.sends(READY, call(1, "a"), call(2, "b"))
    play.hears(text(1, "A"), text(2, "B"))
    play.sends()
    assert play.player.is_done
    assert play.told() == []


def test_what_the_server_says_of_itself_is_waited_for_too(tmp_path: Path) -> None:
    changed = tell("notifications/tools/list_changed")
    play = Play(tmp_path, *HELLO, (S, changed), (C, ask(1, "tools/list")), (S, give(1, tools=[])))
    play.hears(GREETED)
    play.sends(ASKED, READY)
    play.hears(changed)
    play.sends(ask(1, "tools/list"))


def test_but_not_for_ever(tmp_path: Path) -> None:
    changed = tell("notifications/tools/list_changed")
    play = Play(tmp_path, *HELLO, (S, changed), (C, ask(1, "tools/list")), (S, give(1, tools=[])))
    play.hears(GREETED)
    play.sends(ASKED, READY)
    assert play.player.patience_ns(TIMEOUT_NS) < TIMEOUT_NS / 10
    play.waits_in_vain()
    play.sends(ask(1, "tools/list"))
    assert play.player.patience_ns(TIMEOUT_NS) == TIMEOUT_NS
    play.hears(give(1, tools=[]))
    assert play.told() == ["missing the server's notifications/tools/list_changed: did not come"]


def test_an_id_that_is_still_open_is_sent_under_another(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = ((C, call(1, "a")), (C, call(1, "b")), (S, text(1, "B")))
    play = Play(tmp_path, *lines)
    play.sends(call(1, "a"), call("replayed-1", "b"))
    play.hears(text(1, "A"), text("replayed-1", "B"))
    assert play.player.is_done
    assert play.told() == ['new tools/call "a": was not answered before']


def test_the_server_is_answered_from_the_recording_under_its_own_ids(tmp_path: Path) -> None:
    sampling, answer = ask(0, "sampling/createMessage", maxTokens=5), give(0, model="m", role="assistant")
    play = Play(tmp_path, (C, call(1, "a")), (S, sampling), (C, answer), (S, text(1, "A")))
    play.sends(call(1, "a"))
    play.hears(ask("s-77", "sampling/createMessage", maxTokens=5))
    play.sends(give("s-77", model="m", role="assistant"))
    play.hears(text(1, "A"))
    assert play.told() == []


def test_each_question_of_the_server_gets_its_own_answer(tmp_path: Path) -> None:
    play = Play(
        tmp_path,
        (C, call(1, "a")),
        (S, ask(0, "elicitation/create", message="Name?")),
        (S, ask(1, "elicitation/create", message="Colour?")),
        (C, give(0, action="accept", content={"name": "Ada"})),
        (C, give(1, action="decline")),
        (S, text(1, "A")),
    )
    play.sends(call(1, "a"))
    play.hears(ask(8, "elicitation/create", message="Colour?"), ask(9, "elicitation/create", message="Name!"))
    play.sends(give(9, action="accept", content={"name": "Ada"}), give(8, action="decline"))
    play.hears(text(1, "A"))
    assert play.told() == [
        'changed the server\'s elicitation/create: /params/message is "Name!", was "Name?"'
    ]


def test_a_question_that_was_not_recorded_is_answered_and_reported(tmp_path: Path) -> None:
    play = Play(tmp_path, (C, call(1, "a")), (S, text(1, "A")))
    play.sends(call(1, "a"))
    play.hears(ask(4, "roots/list"), ask(5, "ping"))
    error = {"code": -32601, "message": "the recorded client was not asked this"}
    play.sends({"jsonrpc": "2.0", "id": 4, "error": error}, give(5))
    play.hears(text(1, "A"))
    assert play.told() == ["new the server's roots/list"]


def test_cursors_are_the_live_servers(tmp_path: Path) -> None:
    tools = [{"name": name} for name in "abc"]
    play = Play(
        tmp_path,
        (C, ask(1, "tools/list")),
        (S, give(1, tools=tools[:2], nextCursor="old")),
        (C, ask(2, "tools/list", cursor="old")),
        (S, give(2, tools=tools[2:])),
    )
    play.sends(ask(1, "tools/list"))
    play.hears(give(1, tools=tools[:1], nextCursor="new"))
    play.sends(ask(2, "tools/list", cursor="new"))
    play.hears(give(2, tools=tools[1:]))
    assert play.told() == []


def test_a_list_on_more_or_fewer_pages_is_the_same_list(tmp_path: Path) -> None:
    tools = [{"name": name} for name in "ab"]
    more = Play(tmp_path, (C, ask(1, "tools/list")), (S, give(1, tools=tools)))
    more.sends(ask(1, "tools/list"))
    more.hears(give(1, tools=tools[:1], nextCursor="x"))
    more.sends(ask("replayed-1", "tools/list", cursor="x"))
    more.hears(give("replayed-1", tools=tools[1:]))
    assert more.player.is_done
    assert more.told() == []

    fewer = Play(
        tmp_path,
        (C, ask(1, "tools/list")),
        (S, give(1, tools=tools[:1], nextCursor="old")),
        (C, ask(2, "tools/list", cursor="old")),
        (S, give(2, tools=tools[1:])),
    )
    fewer.sends(ask(1, "tools/list"))
    fewer.hears(give(1, tools=tools))
    fewer.sends()
    assert fewer.player.is_done
    assert fewer.told() == []


def test_a_server_whose_pages_never_end_is_left(tmp_path: Path) -> None:
    play = Play(tmp_path, (C, ask(1, "tools/list")), (S, give(1, tools=[])))
    play.hears(give(1, tools=[], nextCursor="x"))
    for number in range(1, 200):
        play.hears(give(f"replayed-{number}", tools=[], nextCursor="x"))
    assert play.player.is_done


def test_a_retry_carries_the_live_request_state_and_the_live_keys(tmp_path: Path) -> None:
    question = {"method": "elicitation/create", "params": {"message": "Name?"}}
    retry: dict[str, Any] = {"name": "a", "arguments": {}, "inputResponses": {"q1": {"action": "accept"}}}
    required: dict[str, Any] = {"resultType": "input_required"}
    play = Play(
        tmp_path,
        (C, call(1, "a")),
        (S, give(1, **required, inputRequests={"q1": question}, requestState="old")),
        (C, ask(2, "tools/call", **retry, requestState="old")),
        (S, text(2, "A")),
    )
    play.sends(call(1, "a"))
    play.hears(give(1, **required, inputRequests={"z9": question}, requestState="new"))
    answered = retry | {"inputResponses": {"z9": {"action": "accept"}}}
    play.sends(ask(2, "tools/call", **answered, requestState="new"))
    play.hears(text(2, "A"))
    assert play.told() == [
        'changed tools/call "a": /result/inputRequests/q1 is missing (was an object)',
        'changed tools/call "a": /result/inputRequests/z9 is new (an object)',
    ]


def test_a_subscription_stays_open_while_the_play_goes_on(tmp_path: Path) -> None:
    about = {"io.modelcontextprotocol/subscriptionId": 1}
    listen = ask(1, "subscriptions/listen", notifications={"toolsListChanged": True})
    began = tell(
        "notifications/subscriptions/acknowledged", _meta=about, notifications={"toolsListChanged": True}
    )
    changed = tell("notifications/tools/list_changed", _meta=about)
    cancel = tell("notifications/cancelled", requestId=1)
    play = Play(
        tmp_path, (C, listen), (S, began), (C, call(2, "a")), (S, text(2, "A")), (S, changed), (C, cancel)
    )
    play.sends(listen)
    play.hears(began)
    play.sends(call(2, "a"))
    play.hears(text(2, "A"), changed)
    play.sends(cancel)
    assert play.player.is_done
    assert play.told() == []


def test_a_task_is_asked_for_by_its_live_name(tmp_path: Path) -> None:
    def task(name: str) -> dict[str, Any]:
        return {"taskId": name, "status": "working", "createdAt": name}

    play = Play(
        tmp_path,
        (C, call(1, "a")),
        (S, give(1, task=task("old"))),
        (C, ask(2, "tasks/get", taskId="old")),
        (S, give(2, **task("old"))),
    )
    play.hears(give(1, task=task("new")))
    play.sends(call(1, "a"), ask(2, "tasks/get", taskId="new"))
    play.hears(give(2, **task("new")))
    assert play.told() == []


def test_a_masked_value_is_never_sent(tmp_path: Path) -> None:
    secret = "masked(len=20,visible=yes,hash=0123456789ab)"
    play = Play(tmp_path, (C, call(1, "a", key=secret)), (S, text(1, "A")), (C, ask(2, "ping")), (S, give(2)))
    play.sends(ask(2, "ping"))
    play.hears(give(2))
    assert play.told() == ['missing tools/call "a": not asked: the recording masks a value in it']
    assert play.player.notes == ['frame 1, tools/call "a", is not sent: the recording masks a value in it']


def test_a_batch_goes_as_a_batch(tmp_path: Path) -> None:
    batch = [ask(1, "ping"), call(2, "a")]
    play = Play(tmp_path, (C, batch), (S, [give(1), text(2, "A")]))
    play.sends(batch)
    play.hears([text(2, "A"), give(1)])
    assert play.player.is_done
    assert play.told() == []


def test_an_answer_that_does_not_come_is_missing_and_the_play_goes_on(tmp_path: Path) -> None:
    play = Play(tmp_path, *HELLO, (C, call(1, "a")), (S, text(1, "A")), (C, call(2, "b")), (S, text(2, "B")))
    play.hears(GREETED)
    play.waits_in_vain()
    play.sends(ASKED, READY, call(1, "a"), call(2, "b"))
    play.hears(text(2, "B"))
    assert play.player.notes == ['no answer in time to tools/call "a" (frame 4)']
    assert play.told() == ['missing tools/call "a": no answer']


def test_a_server_that_hangs_is_not_waited_for_twice_as_long(tmp_path: Path) -> None:
    play = Play(
        tmp_path,
        *HELLO,
        *((who, one) for n in range(9) for who, one in ((C, ask(n + 1, "x")), (S, give(n + 1)))),
    )
    play.hears(GREETED)
    play.waits_in_vain()
    assert play.player.patience_ns(TIMEOUT_NS) < TIMEOUT_NS / 10
    play.waits_in_vain()
    assert play.player.is_done
    assert len(play.told()) == 9


def test_a_server_that_says_nothing_at_all_is_left_at_once(tmp_path: Path) -> None:
    play = Play(tmp_path, *HELLO)
    play.waits_in_vain()
    assert play.player.is_done
    assert play.player.notes == ["the server says nothing; no answer to initialize (frame 1)"]


def test_a_server_that_leaves(tmp_path: Path) -> None:
    play = Play(tmp_path, *HELLO, (C, call(1, "a")), (S, text(1, "A")), (C, call(2, "b")), (S, text(2, "B")))
    play.hears(GREETED)
    play.loses_the_server()
    assert play.player.notes == ['the server ended; no answer to tools/call "a" (frame 4)']
    assert play.told() == [
        'missing tools/call "a": no answer',
        'missing tools/call "b": not asked: the server ended',
    ]


def test_a_server_that_floods_is_left(tmp_path: Path) -> None:
    play = Play(tmp_path, *HELLO)
    play.hears(*(tell("notifications/message", data=n) for n in range(2000)))
    assert play.player.is_done
    assert len(play.player.live.messages) < 1100


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "{",
        "[]",
        "[1]",
        "null",
        '{"id":[],"result":1}',
        '{"jsonrpc":"2.0","id":99,"result":{}}',
        "\x00",
    ],
)
def test_garbage_is_kept_and_stops_nothing(tmp_path: Path, garbage: str) -> None:
    play = Play(tmp_path, *HELLO, (C, call(1, "a")), (S, text(1, "A")))
    play.hears(garbage, GREETED, garbage, text(1, "A"))
    assert play.player.is_done
    assert all(line.startswith("new a line of the server") for line in play.told())


def test_a_cancelled_request_may_be_answered_or_not(tmp_path: Path) -> None:
    cancel = tell("notifications/cancelled", requestId=1)
    lines: tuple[Line, ...] = ((C, call(1, "a")), (C, cancel), (C, ask(2, "ping")), (S, give(2)))
    play = Play(tmp_path, *lines)
    play.sends(call(1, "a"), cancel, ask(2, "ping"))
    play.hears(text(1, "A"), give(2))
    assert play.told() == []


MIXED: Final[tuple[Line, ...]] = (
    *HELLO,
    (C, ask(1, "tools/list")),
    (S, give(1, tools=[ECHO], nextCursor="x")),
    (C, ask(2, "tools/list", cursor="x")),
    (S, give(2, tools=[{"name": "b"}])),
    (C, call(3, "a", token=3)),
    (S, tell("notifications/progress", progressToken=3, progress=1)),
    (S, ask(0, "sampling/createMessage", maxTokens=1)),
    (C, give(0, model="m")),
    (S, text(3, "A")),
    (S, "Listening on nothing"),
    (C, [ask(4, "ping"), call(5, "b")]),
    (S, [give(4), text(5, "B")]),
)


@pytest.mark.parametrize("seed", range(8))
def test_mangled_recordings_and_servers_come_to_an_end(seed: int, tmp_path: Path) -> None:
    """A bounded search for a recording, or a server, with which a play does not end or falls over."""
    chance = random.Random(seed)
    whole = trace(tmp_path / "t.jsonl", MIXED).read_bytes()
    path = tmp_path / "mangled.jsonl"
    for _ in range(30):
        path.write_bytes(mangled(whole, chance))
        try:
            recorded = replay_source(load(path)).as_one()
        except TraceError:
            continue
        player = Player(recorded)
        said = [json.dumps(message).encode() for who, message in MIXED if who == S]
        said += [*STRANGE, chance.randbytes(20)]
        chance.shuffle(said)
        player.begin()
        for raw in said:
            for send in player.receive(raw):
                assert b"\n" not in send.raw
        for _ in range(2 * len(MIXED)):
            if not player.is_done:
                assert 0 <= player.patience_ns(TIMEOUT_NS) <= TIMEOUT_NS
                player.give_up()
        assert player.is_done
        compare_sessions(recorded, player.live, player.pairing, DiffRules())
