"""Messages that were spread over lines, and lines that only look like it."""

import json
from typing import Any, Final

import pytest

from mcpproxy.judge.session import pretty_printed
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.pretty_printed import SplitMessage, is_meant
from mcpproxy.protocol.jsonrpc import Flaw, Malformed, parse

PING: Final[dict[str, object]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "ping",
    "params": {"a": [1, {"b": []}]},
}


def hold(*texts: bytes) -> tuple[SplitMessage, list[bool]]:
    held = SplitMessage()
    return held, [held.hold(Frame(seq, "client", text)) for seq, text in enumerate(texts, 1)]


@pytest.mark.parametrize("indent", [0, 1, 2, "\t"])
def test_pretty_printed_json_is_joined_at_its_last_line(indent: int | str) -> None:
    lines = json.dumps(PING, indent=indent).encode().split(b"\n")
    held = SplitMessage()
    wholes: list[Frame | None] = []
    for seq, line in enumerate(lines, 1):
        assert held.hold(Frame(seq, "client", line))
        wholes.append(held.whole())
    assert wholes[:-1] == [None] * (len(lines) - 1)
    assert wholes[-1] is not None
    assert wholes[-1] == Frame(len(lines), "client", b"\n".join(lines))
    assert wholes[-1].message == parse(json.dumps(PING).encode())
    assert [frame.seq for frame in held.release()] == [*range(1, len(lines) + 1)]
    assert held == SplitMessage()


STARTS: Final[dict[bytes, bool]] = {
    b"{": True,
    b"  {": True,
    b'{"a": 1,': True,
    b'[{"a": 1},': True,
    b"[": True,
    b'{"a": "cut off in the mid': True,
    b"[INFO] up": False,
    b"[1] up": False,
    b"{oops": False,
    b"oops": False,
    b'"a",': False,
    b"": False,
    b"{}": False,
    b"7": False,
    b"{]": False,
    b"{\xff": False,
}


@pytest.mark.parametrize(("text", "starts"), STARTS.items())
def test_what_starts_a_split_message(text: bytes, starts: bool) -> None:
    assert hold(text)[1] == [starts]


def test_a_message_ends_the_attempt() -> None:
    held, taken = hold(b"{", b'"a": 1', json.dumps(PING).encode())
    assert taken == [True, True, False]
    assert held.whole() is None


def test_one_line_is_not_a_split_message() -> None:
    held, _ = hold(b'{"a": [')
    assert held.whole() is None


def test_lines_that_close_but_are_not_json_are_held() -> None:
    held, taken = hold(b"{", b"oops", b"}")
    assert taken == [True, True, True]
    assert held.whole() is None


def test_the_held_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretty_printed, "MAX_BYTES", 10)
    assert hold(b"{", b"123456789", b"0", b"}")[1] == [True, True, False, False]


def test_the_attempts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretty_printed, "MAX_ATTEMPTS", 2)
    held, _ = hold(b"{")
    for _ in range(3):
        assert held.hold(Frame(2, "client", b"}"))
        held.whole()
    assert not held.hold(Frame(3, "client", b"}"))


def test_a_long_first_line_is_not_searched_again_for_each_line() -> None:
    """A megabyte of spaces and as many lines as may be held would take a minute."""

    class Line(bytes):
        searched = 0

        def rstrip(self, bytes: Any = None, /) -> bytes:
            type(self).searched += 1
            return super().rstrip(bytes)

    held, _ = hold(Line(b"{" + b" " * 100))
    for _ in range(9):
        assert held.hold(Frame(2, "client", b"x"))
        assert held.whole() is None
        assert not held.is_printed()
    assert Line.searched == 1


def test_an_object_that_is_not_a_message_is_joined_too() -> None:
    held, _ = hold(b"{", b'"level": 30', b"}")
    assert (whole := held.whole()) is not None
    assert whole.message == Malformed(Flaw.NO_KIND, {"level": 30})


PRINTED: Final[dict[str, bool]] = {
    "{\n  level: 'info',\n  nested: {\n    a: [Array],\n\n  },\n  [Symbol(b)]: 1\n}": True,
    "[\n  { id: 1, name: 'a' },\n  { id: 2, name: 'b' }\n]": True,
    "  {\n    level: 'info'\n  }\r": True,
    "{\n\tlevel: 'info'\n}": True,
    "{\n  level: 'info'": False,
    "{\n  level: 'info'\n]": False,
    "{\nlevel: 'info'\n}": False,
    "{\n  level: 'info'\n  }": False,
    "{ \"level\":\n  'info'\n}": False,
    '{\n  "jsonrpc": "2.0", "id": 1,\n  "result": {},\n}': False,
    "{\n  jsonrpc: '2.0', id: 1,\n  method: 'ping'\n}": False,
}


@pytest.mark.parametrize(("text", "is_printed"), PRINTED.items())
def test_what_a_program_printed_in_a_notation_of_its_own(text: str, is_printed: bool) -> None:
    held, taken = hold(*text.encode().split(b"\n"))
    assert all(taken)
    assert held.whole() is None
    assert held.is_printed() == is_printed


MEANT: Final[dict[bytes, bool]] = {
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}': True,
    b'{"jsonrpc": "2.0"}': True,
    b'{"id": 1, "method": "ping"}': True,
    b'{"id": 1, "result": {}}': True,
    b'[{"jsonrpc": "2.0", "method": "x"}, {"level": 30}]': True,
    b'{"level": 30, "received": {"jsonrpc": "2.0", "id": 1, "method": "ping"}}': False,
    b'{"level": 30, "id": 7}': False,
    b'{"method": "GET", "path": "/"}': False,
    b'{"method": "GET", "result": "ok", "id": 7}': False,
    b'{"result": "ok", "took": 4}': False,
    b'[{"level": 30}, 1]': False,
    b"[]": False,
}


@pytest.mark.parametrize(("text", "meant"), MEANT.items())
def test_which_json_was_meant_as_a_message(text: bytes, meant: bool) -> None:
    assert is_meant(parse(text)) == meant
