"""What is masked in the bodies to and from a model, and that every other byte stays as it is."""

import json
import tracemalloc
from typing import Any

import pytest

from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, SseEvent
from mcpproxy.judge.session.masked_values import MARK, is_masked
from mcpproxy.model.dialect import DIALECTS
from mcpproxy.record.recorder.masking import Masker
from mcpproxy.record.recorder.model.bodies import ModelBodies
from tests.model.conversations import ANSWERS, PATHS, REQUESTS, STREAMS

TOLD = ("Be brief.", "Weather?", "Let me look.", "Let me ", "look.", "hm")
"""What is said in the conversations beside the tools."""


def bodies(kept: str = "tools") -> ModelBodies:
    return ModelBodies(Masker(b"k"), "any", hides=kept == "tools")


def masked(value: Any, kept: str = "tools") -> Any:
    return json.loads(bodies(kept).masked(json.dumps(value).encode(), is_piece=False))


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("what", [REQUESTS, ANSWERS, STREAMS])
def test_what_is_about_tools_is_kept_and_what_was_said_is_not(name: str, what: Any) -> None:
    raw = json.dumps(what[name])
    text = json.dumps(masked(what[name]))
    assert not [told for told in TOLD if f'"{told}"' in text]
    for told in TOLD:
        raw = raw.replace(f'"{told}"', '"?"')
    for one in bodies_masked_in(text):
        text = text.replace(one, "?")
    assert text == raw


def bodies_masked_in(text: str) -> set[str]:
    pieces = text.split(MARK)[1:]
    return {MARK + piece.partition(")")[0] + ")" for piece in pieces}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_request_is_read_alike(name: str) -> None:
    dialect = DIALECTS[name]
    read, kept = dialect.read_request(REQUESTS[name]), dialect.read_request(masked(REQUESTS[name]))
    assert (kept.tools, kept.calls, kept.results, kept.beside) == (
        read.tools,
        read.calls,
        read.results,
        read.beside,
    )
    assert [text for text in kept.texts if not is_masked(text)] == [
        text for text in read.texts if text not in TOLD
    ]


@pytest.mark.parametrize("what", [REQUESTS, ANSWERS, STREAMS])
@pytest.mark.parametrize("name", DIALECTS)
def test_with_prompts_no_byte_changes(name: str, what: Any) -> None:
    raw = json.dumps(what[name], indent=1, ensure_ascii=False).encode()
    assert bodies("everything").masked(raw, is_piece=False) == raw


ARGUMENTS: Any = {"token": "t", "code": "c", "session": {"id": "s"}, "password": "p", "signature": "æ"}


@pytest.mark.parametrize("kept", ["tools", "everything"])
@pytest.mark.parametrize(
    "item",
    [
        {"type": "tool_use", "id": "a", "name": "n", "input": ARGUMENTS},
        {"input": ARGUMENTS, "type": "tool_use"},
        {"type": "tool_result", "content": [{"type": "text", "text": json.dumps(ARGUMENTS)}]},
        {"type": "function_call", "arguments": json.dumps(ARGUMENTS), "token": "t"},
        {"role": "tool", "content": "x", "token": "t"},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": json.dumps(ARGUMENTS)}}]},
        {"parts": [{"functionCall": {"name": "n", "args": ARGUMENTS}}]},
        {"parts": [{"functionResponse": {"response": ARGUMENTS}}]},
    ],
)
def test_arguments_and_results_are_as_the_server_got_them(kept: str, item: Any) -> None:
    for name in ("messages", "input", "contents", "output", "content"):
        assert masked({name: [item]}, kept) == {name: [item]}


def test_what_stands_beside_a_result_is_kept() -> None:
    conversation = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "tool", "tool_call_id": "a", "content": "found"},
        {"role": "user", "content": [{"type": "text", "text": "its picture"}]},
        {"role": "assistant", "content": "second"},
        {"role": "user", "content": "third"},
    ]
    kept = masked({"messages": conversation})["messages"]
    assert kept[1:4] == conversation[1:4]
    assert [is_masked(one["content"]) for one in (kept[0], *kept[4:])] == [True, True, True]


@pytest.mark.parametrize("kept", ["tools", "everything"])
def test_names_say_what_is_a_credential_outside_of_the_conversation(kept: str) -> None:
    body: Any = {
        "api_key": "PLANTED",
        "session": "PLANTED",
        "mcp_servers": [{"authorization_token": "PLANTED", "url": "https://u:PLANTED@x/?token=PLANTED"}],
        "tools": [
            {
                "type": "mcp",
                "authorization": "PLANTED",
                "headers": {"Authorization": "Bearer PLANTED", "X-Auth": "PLANTED", "X-Key": 7},
            },
            {"name": "n", "parameters": {"properties": {"token": {"type": "string", "default": "kept"}}}},
        ],
        "secrets": ["PLANTED", 1234567, True, {"any": "PLANTED"}],
        "max_tokens": 5,
        "metadata": {"session_id": "kept"},
        "error": {"code": "invalid_value", "message": "kept"},
    }
    told = masked(body, kept)
    assert "PLANTED" not in json.dumps(told)
    assert told["tools"][1] == body["tools"][1]
    assert (told["max_tokens"], told["error"], told["secrets"][2]) == (5, body["error"], True)
    assert told["metadata"] == body["metadata"]
    assert is_masked(told["secrets"][1])


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[{"content":"my ques',
        b'[{"messages":"my question"}',
        b'{"messages":"my question"}}',
        b"[" * 600 + b'"my question"' + b"]" * 600,
        b'{"text":"my question"' + b",1" * 200_000 + b"}",
    ],
)
def test_what_cannot_be_read_is_not_kept(raw: bytes) -> None:
    assert b"my ques" not in bodies().masked(raw, is_piece=False)
    assert bodies("everything").masked(raw, is_piece=False) == raw


PLANTED = "a secret plan"
SAID: Any = [{"role": "user", "content": [{"type": "text", "text": PLANTED}]}]


@pytest.mark.parametrize(
    "body",
    [
        {"requests": [{"custom_id": "a", "params": {"system": PLANTED, "messages": SAID}}]},
        {"generateContentRequest": {"systemInstruction": {"parts": [{"text": PLANTED}]}, "contents": SAID}},
        {"requests": [{"model": "m", "content": {"parts": [{"text": PLANTED}]}}]},
        {"items": SAID},
        {"data": SAID},
        {"instances": [{"prompt": PLANTED}]},
        {"detail": [{"loc": ["body"], "input": {"messages": SAID}}]},
        {"messages": [], "prediction": {"type": "content", "content": PLANTED}},
        {"prompt": "x", "suffix": PLANTED},
        {"completion": PLANTED},
        {"response": PLANTED},
        {"message": {"thinking": PLANTED}},
        {"type": "response.output_text.annotation.added", "annotation": {"title": PLANTED}},
        {"type": "response.output_text.delta", "delta": "x", "logprobs": [{"token": PLANTED}]},
    ],
)
def test_what_was_said_is_not_kept_wherever_it_stands(body: Any) -> None:
    assert PLANTED not in json.dumps(masked(body))


def test_words_of_tools_are_kept_wherever_they_stand() -> None:
    tools = [{"type": "custom", "description": "d", "input_examples": [{"text": "t", "prompt": "p"}]}]
    result = {"type": "function_call_output", "output": "o", "content": "c"}
    body = {"params": {"tools": tools, "text": {"format": {"type": "text"}}}, "items": [result]}
    assert masked(body) == body


def test_tokens_and_bytes_are_texts_too() -> None:
    body = {"prompt": [104, 105], "choices": [{"logprobs": {"content": [{"bytes": [104, 105]}]}}]}
    told = masked(body)
    assert is_masked(told["prompt"])
    assert is_masked(told["choices"][0]["logprobs"]["content"][0]["bytes"])


@pytest.mark.parametrize(
    "raw",
    [
        b'\xef\xbb\xbf{"messages": "a secret plan"}',
        b"{'messages': 'a secret plan'}",
        b'{"messages": a secret plan}',
        b'{"messages": "a secret plan}',
        b'{"messages" "a secret plan"}',
        b'{"messages": "x" "a secret plan"}',
        b'{"messages": ["a secret plan": "x"]}',
        b'{"messages": {"a secret plan": }}',
        b'{"messages": [{"type": "tool_use", "type": "text", "text": "a secret plan"}]}',
        b'"a secret plan"',
        b"a secret plan",
        b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na secret plan\r\n--b--',
    ],
)
def test_what_is_not_json_is_not_kept(raw: bytes) -> None:
    assert PLANTED.encode() not in bodies().masked(raw, is_piece=False)
    assert bodies("everything").masked(raw, is_piece=False) == raw


@pytest.mark.parametrize(
    "raw", [b"", b"[DONE]", b'{"max_tokens": 1e400, "n": [NaN, -Infinity, 18446744073709551616]}']
)
def test_what_says_nothing_is_as_it_was(raw: bytes) -> None:
    assert bodies().masked(raw, is_piece=False) == raw


def test_text_that_is_not_json_takes_no_memory() -> None:
    raw = b'{"messages": ' + b"1 " * 2_000_000 + b"}"
    tracemalloc.start()
    try:
        assert is_masked(json.loads(bodies().masked(raw, is_piece=False)))
        assert tracemalloc.get_traced_memory()[1] < 10 * len(raw)
    finally:
        tracemalloc.stop()


def test_a_piece_is_not_kept() -> None:
    assert is_masked(json.loads(bodies().masked(b"of my question", is_piece=True)))


def test_an_event_that_was_cut_is_not_kept() -> None:
    cut = Frame(1, SERVER, b"", terminated=False, event=SseEvent(b'event: x\ndata: {"text":"my ques', b""))
    assert bodies().hide_event(cut)
    assert cut.event == SseEvent(b"", b"")
    assert is_masked(json.loads(cut.raw))


@pytest.mark.parametrize(
    ("asked", "body", "is_unknown"),
    [
        ("POST /complete", {"prompt": "x"}, True),
        ("POST /v1/responses", {"input": "x"}, False),
        ("POST /v1/messages/count_tokens", {"messages": []}, False),
        ("POST /v1/embeddings", {"input": "x"}, False),
        ("POST /telemetry", {"events": []}, False),
        *((f"POST {PATHS[name]}".partition("?")[0], REQUESTS[name], False) for name in DIALECTS),
    ],
)
def test_a_request_of_no_known_dialect_is_told_once(asked: str, body: Any, is_unknown: bool) -> None:
    told = bodies()
    frame = Frame(1, CLIENT, json.dumps(body).encode())
    assert told.is_unknown(asked, frame) is is_unknown
    assert not told.is_unknown(asked, frame)


def test_a_dialect_that_is_named_is_known_by_its_conversation() -> None:
    named = ModelBodies(Masker(b"k"), "chat", hides=True)
    assert not named.is_unknown("POST /ask", Frame(1, CLIENT, b'{"messages":[]}'))
    assert named.is_unknown("POST /ask", Frame(1, CLIENT, b'{"prompt":""}'))
