"""Which answer belongs to which request."""

import pytest

from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, RequestHead, Sender, SseEvent
from mcpproxy.protocol.jsonrpc import ABSENT
from mcpproxy.record.trace.conversation import Conversation, Turn

C, S = CLIENT, SERVER


def ask(request_id: str, method: str = "ping") -> str:
    return f'{{"jsonrpc":"2.0","id":{request_id},"method":"{method}"}}'


def answer(request_id: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{request_id},"result":{{}}}}'


def refuse(request_id: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{request_id},"error":{{"code":-32601,"message":"no"}}}}'


# What each frame answers, as (method, frame number, latency); frames are 10 ns apart.
Script = tuple[tuple[Sender, str, tuple[str | None, int | None, int | None]], ...]
NOTHING = (None, None, None)
CONVERSATIONS: dict[str, Script] = {
    "an answer belongs to its question": (
        (C, ask("1", "tools/list"), ("tools/list", None, None)),
        (S, answer("1"), ("tools/list", 1, 10)),
    ),
    "so does an error": (
        (C, ask('"a"', "tools/call"), ("tools/call", None, None)),
        (S, refuse('"a"'), ("tools/call", 1, 10)),
    ),
    "answers come in any order": (
        (C, ask("1", "a"), ("a", None, None)),
        (C, ask("2", "b"), ("b", None, None)),
        (S, answer("2"), ("b", 2, 10)),
        (S, answer("1"), ("a", 1, 30)),
    ),
    "the number 7 is not the string 7": (
        (C, ask("7"), ("ping", None, None)),
        (S, answer('"7"'), NOTHING),
        (S, answer("7"), ("ping", 1, 20)),
    ),
    "both peers count for themselves": (
        (C, ask("1", "a"), ("a", None, None)),
        (S, ask("1", "b"), ("b", None, None)),
        (C, answer("1"), ("b", 2, 10)),
        (S, answer("1"), ("a", 1, 30)),
    ),
    "nobody answers oneself": (
        (C, ask("1"), ("ping", None, None)),
        (C, answer("1"), NOTHING),
    ),
    "a second answer has no question left": (
        (C, ask("1"), ("ping", None, None)),
        (S, answer("1"), ("ping", 1, 10)),
        (S, answer("1"), NOTHING),
    ),
    "an id of null or none answers nothing": (
        (C, ask("null"), ("ping", None, None)),
        (S, refuse("null"), NOTHING),
        (S, '{"jsonrpc":"2.0","error":{"code":1,"message":""}}', NOTHING),
    ),
    "garbage is not an answer": ((S, "{", NOTHING),),
}


@pytest.mark.parametrize("script", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_conversation(script: Script) -> None:
    conversation = Conversation()
    for seq, (sender, text, expected) in enumerate(script, start=1):
        (turn,) = conversation.turns(Frame(seq, sender, text.encode(), seq * 10))
        assert (turn.method, turn.answers, turn.latency_ns) == expected, f"frame {seq}"


def test_a_batch_is_several_turns() -> None:
    conversation = Conversation()
    frame = Frame(1, C, f"[{ask('1', 'a')},{ask('2', 'b')},7]".encode())
    first, second, third = conversation.turns(frame)
    assert (first.method, second.method, third.kind) == ("a", "b", "malformed")
    answers = conversation.turns(Frame(2, S, f"[{answer('2')},{answer('1')}]".encode(), 5))
    assert [turn.method for turn in answers] == ["b", "a"]


def test_a_notification_has_no_id() -> None:
    (turn,) = Conversation().turns(Frame(1, C, b'{"jsonrpc":"2.0","method":"n"}'))
    assert turn == Turn("notification", "n", ABSENT)


def test_an_answer_is_about_what_its_request_is_about_also_in_a_batch() -> None:
    conversation = Conversation()
    calls = (
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}},'
        b'{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"x:y"}}]'
    )
    answers = b'[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]'
    assert [turn.target for turn in conversation.turns(Frame(1, C, calls))] == ["echo", "x:y"]
    assert [turn.target for turn in conversation.turns(Frame(2, S, answers))] == ["x:y", "echo"]
    assert [turn.target for turn in conversation.turns(Frame(3, S, answers))] == [None, None]


def test_over_http_sse_an_answer_on_the_stream_belongs_to_the_request_that_was_posted() -> None:
    conversation, target = Conversation(), "/message?sessionId=1868a90c"
    conversation.track_session(RequestHead(1, 1, 1, "GET", "/sse", ()))
    endpoint = SseEvent(b"event: endpoint\ndata: ", b"\n\n", name="endpoint")
    conversation.turns(Frame(2, S, target.encode(), exchange=1, connection=1, event=endpoint))
    conversation.track_session(RequestHead(3, 2, 2, "POST", target, ()))
    conversation.turns(Frame(4, C, ask("1", "tools/list").encode(), exchange=2, connection=2))
    event = SseEvent(b"data: ", b"\n\n")
    (turn,) = conversation.turns(Frame(5, S, answer("1").encode(), exchange=1, connection=1, event=event))
    assert (turn.method, turn.answers) == ("tools/list", 4)
