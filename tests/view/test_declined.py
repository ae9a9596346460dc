"""Errors that belong to a healthy session: the probe of a client, and streams that a server does not have.

The recorder's counts are compared with those of the view in every case.
"""

from pathlib import Path
from typing import Any

import pytest

from mcpproxy.judge.session.outcomes import Outcome, count_calls
from mcpproxy.read.view.summaries import call_outcomes
from mcpproxy.read.view.view import View
from tests.view.situations import Conversation, forecast, text
from tests.view.test_exchange_ends import opened

META: dict[str, Any] = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def words(view: View) -> str:
    return count_calls(call_outcomes(view.columns)).words(running=False)


def probed(tmp_path: Path, code: int) -> View:
    session = Conversation()
    session.asks(1, "server/discover", META, ms=1)
    session.fails(1, code, "Method not found: server/discover", ms=2)
    session.asks(2, "tools/call", forecast("Oslo"), ms=3)
    session.answers(2, text("sunny"), ms=4)
    return opened(tmp_path, session.closes(ms=5))


@pytest.mark.parametrize("code", [-32601, -32602, -32000, -32022])
def test_a_server_that_knows_no_probe_has_failed_no_call(tmp_path: Path, code: int) -> None:
    view = probed(tmp_path, code)
    call = view.call(1)
    assert (call.outcome, call.error_code, call.is_error, call.cause) == (Outcome.DECLINED, code, False, "")
    assert words(view) == "no failed calls"


def test_an_internal_error_fails_a_probe(tmp_path: Path) -> None:
    view = probed(tmp_path, -32603)
    assert view.call(1).outcome is Outcome.RPC_ERROR
    assert words(view) == "1 of 2 calls failed"


def test_a_session_that_ends_with_its_probe_came_to_nothing(tmp_path: Path) -> None:
    session = Conversation()
    session.asks(1, "server/discover", META, ms=1)
    session.fails(1, -32601, "Method not found", ms=2)
    assert words(opened(tmp_path, session.closes(ms=3))) == "1 of 1 call declined"


def over_http(tmp_path: Path, status: int, body: int | None, *, is_early: bool = False) -> View:
    """Record a probe that is answered with an HTTP status, and with the code of a JSON-RPC error if given.

    ``is_early`` is whether the answer came before the body of the request.
    """
    session = Conversation(http=True)
    place: dict[str, Any] = {"exchange": 1, "connection": 1}
    session.posts(1, ms=1)
    if is_early:
        session.responds(1, status, ms=2)
    session.asks(1, "server/discover", META, ms=3, **place)
    if not is_early:
        session.responds(1, status, ms=4)
    if body is not None:
        session.fails(1, body, "no", ms=5, **place)
    session.ends(1, ms=6)
    return opened(tmp_path, session.closes(ms=7))


@pytest.mark.parametrize(
    ("status", "body", "outcome", "code"),
    [
        (400, None, Outcome.DECLINED, 400),
        (404, -32601, Outcome.DECLINED, -32601),
        (200, -32601, Outcome.DECLINED, -32601),
        (400, -32603, Outcome.RPC_ERROR, -32603),
        (401, None, Outcome.HTTP_ERROR, 401),
        (401, -32001, Outcome.RPC_ERROR, -32001),
        (429, None, Outcome.HTTP_ERROR, 429),
        (502, None, Outcome.HTTP_ERROR, 502),
    ],
)
def test_a_status_declines_a_probe_unless_it_says_more(
    tmp_path: Path, status: int, body: int | None, outcome: Outcome, code: int
) -> None:
    call = over_http(tmp_path, status, body).call(1)
    assert (call.outcome, call.error_code) == (outcome, code)


def test_an_early_answer_declines_a_probe_too(tmp_path: Path) -> None:
    view = over_http(tmp_path, 405, None, is_early=True)
    assert view.call(view.count()).outcome is Outcome.DECLINED


def test_a_server_without_a_stream_has_refused_nothing(tmp_path: Path) -> None:
    session = Conversation(http=True)
    for exchange, (method, status) in enumerate(
        [("GET", 405), ("DELETE", 405), ("GET", 404), ("DELETE", 500)], 1
    ):
        session.posts(exchange, ms=exchange, method=method)
        session.responds(exchange, status, ms=exchange)
        session.ends(exchange, ms=exchange)
    view = opened(tmp_path, session.closes(ms=9))
    outcomes = [view.call(row).outcome for row in (1, 2, 3, 4)]
    assert outcomes == [Outcome.DECLINED] * 2 + [Outcome.HTTP_ERROR] * 2
