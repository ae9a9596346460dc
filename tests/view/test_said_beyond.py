"""What an error says beyond its message: the ``data`` of JSON-RPC, and the body of an HTTP error."""

from pathlib import Path
from typing import Any

import pytest

from mcpproxy.cli.main import main
from mcpproxy.judge.session.outcomes import Kind
from mcpproxy.read.view.view import open_view
from tests.agents.agent import Agent, calls_in
from tests.view.situations import Conversation, begun, forecast, write

CALL = 4
LOCKED = '{"detail":"database is locked"}'
TRACEBACK = 'Traceback (most recent call last):\n  File "db.py", line 8\nDbError: database is locked\n'


def an_error(data: Any, message: str = "Internal error") -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    error = {"code": -32603, "message": message, "data": data}
    session.says("server", {"jsonrpc": "2.0", "id": 2, "error": error}, 110)
    return session.closes(ms=200)


def a_body(body: Any, status: int = 500) -> tuple[str, ...]:
    session = Conversation(http=True)
    place: dict[str, Any] = {"exchange": 1, "connection": 1}
    session.posts(1, ms=1)
    session.asks(1, "tools/call", forecast("Oslo"), ms=1, **place)
    session.responds(1, status, ms=3)
    if body:
        session.says("server", body, 4, eol="", **place)
    session.ends(1, ms=5)
    return session.closes(ms=200)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"detail": "database is locked"}, f"data: {LOCKED}"),
        ("database\n  is locked", "data: database is locked"),
        (TRACEBACK, "data: DbError: database is locked"),
        ([7], "data: [7]"),
        ({"password": "tail-1234"}, 'data: {"password":"***"}'),
        (0, "data: 0"),
        ("\x1b[31m", "data: \\u001b[31m"),
        ("Internal", ""),  # the message says it
        (None, ""),
        ({}, ""),
    ],
)
def test_the_data_of_an_error_is_in_its_cause(data: Any, words: str, tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", an_error(data))) as view:
        assert view.call(CALL).cause == words
        more = f". Its {words}." if words else "."
        assert view.parts(CALL).cause == f"error -32603: Internal error{more}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"detail": "database is locked"}, f"body: {LOCKED}"),
        ("database is locked\n", "body: database is locked"),
        (TRACEBACK, "body: DbError: database is locked"),
        ("500 Internal Server Error", ""),
        (
            "<title>500 Internal Server Error</title><h1>500 Internal Server Error</h1> upstream w-7",
            "body: upstream w-7",
        ),
        ("500 Internal Server Errors", "body: 500 Internal Server Errors"),
        ("<html><style>p { a: b }</style>\n<h1>Bad <b>Gateway</b></h1>\r\n</html>", "body: Bad Gateway"),
        ({"error": "locked", "detail": 7}, 'body: {"error":"locked","detail":7}'),
        ("unknown credentials: Bearer tail-1234", "body: unknown credentials: Bearer ***"),
        ("<html", ""),
        ("Internal Server Error", ""),  # the status says it
        ("", ""),
    ],
)
def test_the_body_of_an_http_error_is_in_its_cause(body: Any, words: str, tmp_path: Path) -> None:
    records = a_body(body)
    records = tuple(line.replace('"reason":""', '"reason":"Internal Server Error"') for line in records)
    with open_view(write(tmp_path / "s.jsonl", records)) as view:
        (call,) = [call for call in view.calls() if call.kind is Kind.REQUEST]
        assert call.cause == words
        more = f". Its {words}." if words else "."
        assert view.parts(call.number).cause == f"HTTP 500 Internal Server Error{more}"


def test_a_body_without_a_message_is_told_whatever_its_status_is(tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", a_body({"code": 401}, status=200))) as view:
        assert view.call(1).cause == 'Its answer was application/json, not JSON-RPC: {"code":401}'


@pytest.mark.parametrize("records", [an_error("x" * 1_000_000), a_body("x" * 1_000_000)])
def test_a_cause_is_short_whatever_the_answer_holds(records: tuple[str, ...], tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", records)) as view:
        (call,) = view.calls("status:error")
        assert call.cause.endswith("xxx…")
        assert len(call.cause) < 260


def test_in_a_batch_each_error_has_its_own_data(tmp_path: Path) -> None:
    session = begun()
    asked = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (2, "2")]
    session.says("client", asked, 100)
    failed = {"code": -32603, "message": "Internal error"}
    answers = [{"jsonrpc": "2.0", "id": id, "error": failed | {"data": {"of": id}}} for id in (2, "2")]
    session.says("server", answers, 110)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert [call.cause for call in view.calls("status:error")] == ['data: {"of":2}', 'data: {"of":"2"}']


def test_stderr_comes_after_the_data_and_does_not_repeat_it(tmp_path: Path) -> None:
    causes: list[str] = []
    for line in ("DbError: database is locked", "OSError: disk full"):
        records = an_error(TRACEBACK)
        stderr = Conversation()
        stderr.record("stderr", 105, {"text": line})
        written = (*records[:-2], stderr.records[-1], *records[-2:])
        with open_view(write(tmp_path / "s.jsonl", written)) as view:
            causes.append(view.call(CALL).cause)
    assert causes == [
        "data: DbError: database is locked",
        "data: DbError: database is locked; stderr: OSError: disk full",
    ]


def test_terminal_and_agents_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "s.jsonl", an_error({"detail": "database is locked"}))
    assert main(["show", path]) == 0
    assert f"\n             data: {LOCKED}\n" in capsys.readouterr().out
    with Agent(tmp_path) as agent:
        (found,) = calls_in(agent("find_calls", filter="status:error"))
        assert found["cause"] == f"data: {LOCKED}"
        assert agent("get_call", call=CALL)["cause"].endswith(f"Its data: {LOCKED}.")


def test_what_is_masked_stays_masked(tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", an_error({"detail": "no user 4711", "token": "sk-hidden-4711"}))
    with Agent(tmp_path) as agent:
        (found,) = calls_in(agent("find_calls", filter="status:error"))
    assert "no user 4711" in found["cause"]
    assert "sk-hidden" not in found["cause"]
