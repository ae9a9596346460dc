"""Calls over HTTP whose exchange ended without the answer: what came instead, and how long they waited."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.judge.session.call_counter import CallCounter
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.read.view.calls import Call, Role
from mcpproxy.read.view.stats import statistics
from mcpproxy.read.view.summaries import call_outcomes
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.session_labels import SessionNames
from tests.view.situations import Conversation, forecast, text, write

MS = 1_000_000

Says = Callable[[Conversation, dict[str, Any]], object]


def asked(session: Conversation, exchange: int = 1, id: int = 1, *, ms: float, **head: Any) -> dict[str, Any]:
    """Post a call. Return the place of its exchange, for what is said in it."""
    place: dict[str, Any] = {"exchange": exchange, "connection": exchange}
    session.posts(exchange, ms=ms, **head)
    session.asks(id, "tools/call", forecast("Oslo"), ms=ms, **place)
    return place


def redirected(session: Conversation, exchange: int, *, ms: float, to: str = "http://a.example/mcp/") -> None:
    session.responds(exchange, 307, ms=ms, location=to)
    session.ends(exchange, ms=ms)


def opened(tmp_path: Path, records: tuple[str, ...]) -> View:
    """Open a recording, of which its recorder counts what the view counts."""
    view = open_view(write(tmp_path / "s.jsonl", records))
    counter, names = CallCounter(), SessionNames()
    for event in read_trace(view.path).events():
        counter.count_event(event, names.track(event))
    assert counter.outcomes == call_outcomes(view.columns)
    return view


def event(id: str | None, name: str | None = None) -> dict[str, Any]:
    return {"event": {"id": id, "name": name, "retry": None, "before": "data: ", "after": "\n\n"}}


def a_redirect(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 307, ms=3, location="http://a.example/mcp/")


def a_page(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 200, ms=3, content_type="text/html")
    session.says("server", "<p>Sign in", 4, eol="", **place)


def nothing(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 202, ms=3)


def another_id(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 200, ms=3)
    session.answers(9, text("sunny"), ms=4, **place)


def a_stream(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 200, ms=3, sse=True)
    session.notifies("notifications/message", {"level": "info", "data": 1}, ms=4, **place, **event(None))


ENDS: dict[Says, str] = {
    a_redirect: "It was answered with HTTP 307 to http://a.example/mcp/",
    a_page: "Its answer was text/html, not JSON-RPC: Sign in",
    nothing: "It was answered with HTTP 202, without its response",
    another_id: "It was answered with HTTP 200, without its response",
    a_stream: "It was answered with HTTP 200, without its response",
}


@pytest.mark.parametrize(("says", "cause"), ENDS.items(), ids=[says.__name__ for says in ENDS])
def test_a_call_whose_exchange_ended_says_what_came_and_waited_until_then(
    says: Says, cause: str, tmp_path: Path
) -> None:
    session = Conversation(http=True)
    says(session, asked(session, ms=1))
    session.ends(1, ms=6)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls("kind:request")
        assert (call.outcome, call.waited_ns, call.closed) == (Outcome.UNANSWERED, 5 * MS, True)
        assert call.cause == cause
        expected = f"There was no answer in 5.00 ms, until the HTTP exchange ended. {cause}."
        assert view.parts(call.number).cause == expected
        (group,) = statistics([view]).calls
        assert (group.counts.unanswered, group.max_ns) == (1, 5 * MS)


def test_a_call_that_may_still_be_answered_waits_until_the_end(tmp_path: Path) -> None:
    """A stream whose events have ids can be resumed, and in HTTP+SSE the answers are in another exchange."""
    session = Conversation(http=True)
    place = asked(session, ms=1)
    session.responds(1, 200, ms=3, sse=True)
    session.notifies("notifications/message", {"level": "info", "data": 1}, ms=4, **place, **event("1"))
    session.ends(1, ms=6)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls("kind:request")
        assert (call.waited_ns, call.closed, call.cause) == (899 * MS, False, "mcpproxy was stopped")
    session = Conversation(http=True)
    session.posts(7, ms=0, method="GET")
    session.responds(7, 200, ms=0, sse=True)
    session.says("server", "/mcp", 0, exchange=7, connection=7, **event(None, "endpoint"))
    asked(session, ms=1)
    session.responds(1, 202, ms=3)
    session.ends(1, ms=6)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls("kind:request")
        assert (call.waited_ns, call.closed, call.cause) == (899 * MS, False, "mcpproxy was stopped")


def followed(view: View) -> list[tuple[str, int | None, int | None]]:
    def seen(call: Call) -> tuple[str, int | None, int | None]:
        return str(call.outcome), call.latency_ns, call.waited_ns

    return [seen(call) for call in view.calls("kind:request")]


def test_a_redirect_that_the_client_follows_is_one_call(tmp_path: Path) -> None:
    session = Conversation(http=True)
    asked(session, 1, ms=1)
    redirected(session, 1, ms=2)
    place = asked(session, 2, ms=3, target="/mcp/", endpoint=False)
    session.responds(2, 200, ms=8)
    session.answers(1, text("sunny"), ms=8, **place)
    session.ends(2, ms=9)
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert followed(view) == [("ok", 7 * MS, None)]
        assert view.count() == 1


def test_a_followed_redirect_that_fails_is_one_call_that_failed(tmp_path: Path) -> None:
    session = Conversation(http=True)
    asked(session, 1, ms=1)
    redirected(session, 1, ms=2)
    asked(session, 2, ms=3, target="/mcp/", endpoint=False)
    session.responds(2, 503, ms=8)
    session.ends(2, ms=9)
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert followed(view) == [("http-error", 7 * MS, None)]


@pytest.mark.parametrize(("id", "target"), [(2, "/mcp/"), (1, "/mcp")], ids=["other id", "other place"])
def test_another_request_after_a_redirect_is_another_call(id: int, target: str, tmp_path: Path) -> None:
    session = Conversation(http=True)
    asked(session, 1, ms=1)
    redirected(session, 1, ms=2)
    place = asked(session, 2, id, ms=3, target=target)
    session.responds(2, 200, ms=8)
    session.answers(id, text("sunny"), ms=8, **place)
    session.ends(2, ms=9)
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert followed(view) == [("unanswered", None, 1 * MS), ("ok", 5 * MS, None)]


def test_two_clients_that_follow_a_redirect_keep_their_calls(tmp_path: Path) -> None:
    session = Conversation(http=True)
    for exchange in (1, 2):
        asked(session, exchange, ms=exchange)
        redirected(session, exchange, ms=2)
    for exchange in (3, 4):
        place = asked(session, exchange, ms=exchange, target="/mcp/")
        session.responds(exchange, 200, ms=8)
        session.answers(1, text("sunny"), ms=8, **place)
        session.ends(exchange, ms=9)
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert followed(view) == [("ok", 7 * MS, None), ("ok", 6 * MS, None)]


STATELESS = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def repeated(session: Conversation) -> dict[str, Any]:
    """Say all up to the head of the request with which a client follows a redirect."""
    asked(session, 1, ms=1)
    redirected(session, 1, ms=2)
    session.posts(2, ms=3, target="/mcp/")
    return {"exchange": 2, "connection": 2}


def is_answered_early(session: Conversation) -> None:
    place = repeated(session)
    session.responds(2, 413, ms=4)
    session.asks(1, "tools/call", forecast("Oslo"), ms=5, **place)


def is_left_by_its_client(session: Conversation) -> None:
    session.asks(1, "tools/call", forecast("Oslo") | STATELESS, ms=5, **repeated(session))
    session.responds(2, 200, ms=6, sse=True)


def is_refused(session: Conversation) -> None:
    session.asks(1, "tools/call", forecast("Oslo"), ms=5, refused=True, **repeated(session))


REPEATED = {is_answered_early: "http-error", is_left_by_its_client: "cancelled", is_refused: "refused"}


@pytest.mark.parametrize(("says", "outcome"), REPEATED.items(), ids=[says.__name__ for says in REPEATED])
def test_a_repeated_request_ends_as_any_other(
    says: Callable[[Conversation], None], outcome: str, tmp_path: Path
) -> None:
    session = Conversation(http=True)
    says(session)
    session.ends(2, ms=9, cut_by="client")
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert [call.outcome for call in view.calls()] == [outcome]


def test_an_error_without_an_id_is_the_answer_of_the_probe_that_its_status_declines(tmp_path: Path) -> None:
    session = Conversation(http=True)
    place: dict[str, Any] = {"exchange": 1, "connection": 1}
    session.posts(1, ms=1)
    session.asks(1, "server/discover", STATELESS, ms=1, **place)
    session.responds(1, 400, ms=2)
    session.fails(None, -32000, "Bad Request: Server not initialized", ms=3, **place)
    session.ends(1, ms=4)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls()
        assert (call.outcome, call.error_code) == (Outcome.DECLINED, -32000)
        assert "Server not initialized" in call.result


def test_a_body_that_could_not_be_decoded_is_a_note_of_the_recording(tmp_path: Path) -> None:
    session = Conversation(http=True)
    for exchange, why in ((1, "the content coding br cannot be undone here"), (2, "the content is not gzip")):
        session.record("note", exchange, {"connection": exchange, "what": "not-decoded", "why": why})
    records = session.closes(ms=900)
    said = [
        "a body was not judged: the content coding br cannot be undone here",
        "a body was not judged: the content is not gzip",
    ]
    with opened(tmp_path, records) as view:
        assert list(view.notes) == said
        trace = read_trace(view.path)
        list(trace.events())
        assert (trace.notes, trace.complete) == (said, False)


@pytest.mark.parametrize("by_proxy", [True, False])
def test_a_request_that_comes_after_its_refusal_was_refused(tmp_path: Path, by_proxy: bool) -> None:
    """A client may send head and body apart, and who refuses by the head alone does not wait."""
    session = Conversation(http=True)
    place: dict[str, Any] = {"exchange": 1, "connection": 1}
    session.posts(1, ms=1)
    session.responds(1, 502, ms=2, by_proxy=by_proxy)
    session.asks(7, "tools/call", forecast("Oslo"), ms=3, **place)
    session.ends(1, ms=4)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls()
        assert call.outcome is (Outcome.REFUSED if by_proxy else Outcome.HTTP_ERROR)
        assert (call.method, call.error_code, call.result) == ("tools/call", 502, "502")
        assert (call.started_ns, call.latency_ns) == (1 * MS, 1 * MS)


WHY = "cannot connect to 127.0.0.1:1 (Connection refused); is the server running?"


def refused_early() -> Conversation:
    session = Conversation(http=True)
    session.posts(1, ms=1)
    session.responds(1, 502, ms=2, by_proxy=True)
    error = {"code": -32000, "message": f"mcpproxy: {WHY}"}
    session.says("server", {"jsonrpc": "2.0", "error": error}, 2.5, by="proxy", exchange=1, connection=1)
    return session


def test_the_reason_of_a_refusal_that_comes_early_stands_in_the_row_of_its_request(tmp_path: Path) -> None:
    session = refused_early()
    session.asks(7, "tools/call", forecast("Oslo"), ms=3, exchange=1, connection=1)
    session.ends(1, ms=4)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls()
        assert (call.method, call.outcome, call.latency_ns) == ("tools/call", Outcome.REFUSED, 1 * MS)
        assert WHY in call.result
        assert Role.ANSWER in {part.role for part in view.parts(call.number).parts}


def test_a_refused_request_whose_body_never_came_is_one_row_with_the_reason(tmp_path: Path) -> None:
    session = refused_early()
    session.ends(1, ms=4)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls()
        assert (call.kind, call.outcome, call.latency_ns) == (Kind.EXCHANGE, Outcome.REFUSED, 1 * MS)
        assert WHY in call.result


def test_the_text_of_an_early_error_is_no_row(tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=1)
    session.responds(1, 413, ms=2, content_type="text/html")
    session.says("server", "<p>Too large", 3, eol="", exchange=1, connection=1)
    session.asks(7, "tools/call", forecast("Oslo"), ms=4, exchange=1, connection=1)
    session.ends(1, ms=5)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls()
        assert (call.method, call.outcome, call.result) == ("tools/call", Outcome.HTTP_ERROR, "413")
