"""Calls that were answered over HTTP with what could not be read.

The recorder's counts are compared with those of the view in every case.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.read.view.stats import statistics
from tests.view.situations import Conversation, text
from tests.view.test_declined import words
from tests.view.test_exchange_ends import MS, asked, opened

Says = Callable[[Conversation, dict[str, Any]], object]

BR = "the content coding br cannot be undone here"


def a_coding(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 200, ms=3, sse=True, content_encoding="br")
    session.record("note", 4, {"connection": 1, "what": "not-decoded", "why": BR, "exchange": 1})
    session.says("server", "coded", 4, eol="", continues=True, **place)


def a_coding_of_an_earlier_release(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 200, ms=3, content_encoding="br")
    session.says("server", "coded", 4, eol="", continues=True, **place)


def damage(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 200, ms=3, content_encoding="gzip")
    why = "the gzip content is incomplete"
    session.record("note", 4, {"connection": 1, "what": "not-decoded", "why": why, "exchange": 1})
    session.says("server", '{"jsonrpc":"2.0","id":1,"res', 4, eol="", **place)


def no_body(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 200, ms=3)
    lost = {"client": 0, "server": 0, "stderr": 0}
    session.record("gap", 3, {"reason": "the HAR holds no body of an answer", **lost, "exchange": 1})


def pieces(session: Conversation, place: dict[str, Any]) -> None:
    session.responds(1, 200, ms=3)
    session.says("server", '{"result":{"content":[', 4, eol="", continues=True, **place)
    session.says("server", ']},"id":1,"jsonrpc":"2.0"}', 4, eol="", **place)


UNREADABLE: dict[Says, str] = {
    a_coding: BR,
    a_coding_of_an_earlier_release: "the content coding br was not undone",
    damage: "the gzip content is incomplete",
    no_body: "the HAR holds no body of an answer",
    pieces: "it is in pieces",
}


@pytest.mark.parametrize("cut_by", ["", "client"])
@pytest.mark.parametrize(("says", "why"), UNREADABLE.items(), ids=[says.__name__ for says in UNREADABLE])
def test_an_answer_that_could_not_be_read_is_an_answer(
    says: Says, why: str, cut_by: str, tmp_path: Path
) -> None:
    if says is pieces and cut_by:
        why = "it was cut by the client"
    session = Conversation(http=True)
    says(session, asked(session, ms=1))
    session.ends(1, ms=6, cut_by=cut_by)
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls()
        assert (call.outcome, call.latency_ns, call.waited_ns) == (Outcome.UNREADABLE, 5 * MS, None)
        assert call.cause == why
        whole = why.replace("cut by", "cut at 48 bytes by")
        assert view.parts(call.number).cause == f"Its answer could not be read: {whole}."
        assert words(view) == "1 of 1 call unreadable"
        (group,) = statistics([view]).calls
        assert (group.counts.unanswered, group.counts.unreadable, group.at_least) == (0, 1, ())
        assert list(view.calls("status:unsuccessful")) == list(view.calls("status:unreadable")) == [call]


def test_a_long_answer_that_was_cut_is_called_cut(tmp_path: Path) -> None:
    session = Conversation(http=True)
    place = asked(session, ms=1)
    session.responds(1, 200, ms=3)
    session.says("server", "x" * 1_500, 4, eol="", continues=True, **place)
    session.says("server", "x" * 500, 5, eol="", **place)
    session.ends(1, ms=6, cut_by="server")
    with opened(tmp_path, session.closes(ms=900)) as view:
        (call,) = view.calls()
        assert (call.outcome, call.cause) == (Outcome.UNREADABLE, "it was cut by the server")
        cause = "Its answer could not be read: it was cut at 2,000 bytes by the server."
        assert view.parts(call.number).cause == cause


def test_a_whole_answer_in_pieces_is_not_called_cut(tmp_path: Path) -> None:
    session = Conversation(http=True)
    place = asked(session, ms=1)
    session.responds(1, 200, ms=3)
    session.says("server", "x" * 1_500, 4, eol="", continues=True, **place)
    session.says("server", "x" * 500, 5, **place)
    session.ends(1, ms=6, cut_by="client")
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert view.call(1).cause == "it is in pieces"


@pytest.mark.parametrize("status", [202, 307])
def test_no_answer_is_expected_in_some_bodies(status: int, tmp_path: Path) -> None:
    session = Conversation(http=True)
    asked(session, ms=1)
    session.responds(1, status, ms=3, content_encoding="br")
    session.record("note", 4, {"connection": 1, "what": "not-decoded", "why": BR, "exchange": 1})
    session.ends(1, ms=6)
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert view.call(1).outcome is Outcome.UNANSWERED


def test_an_error_of_http_is_known_without_its_body(tmp_path: Path) -> None:
    session = Conversation(http=True)
    asked(session, ms=1)
    session.responds(1, 500, ms=3, content_encoding="br")
    session.record("note", 4, {"connection": 1, "what": "not-decoded", "why": BR, "exchange": 1})
    session.ends(1, ms=6)
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert (view.call(1).outcome, view.call(1).error_code) == (Outcome.HTTP_ERROR, 500)


def test_an_answer_in_another_exchange_is_the_answer(tmp_path: Path) -> None:
    session = Conversation(http=True)
    a_coding(session, asked(session, ms=1))
    session.ends(1, ms=6)
    session.posts(2, ms=7, method="GET")
    session.responds(2, 200, ms=8, sse=True)
    session.answers(1, text("sunny"), ms=9, exchange=2, connection=2)
    session.ends(2, ms=10)
    with opened(tmp_path, session.closes(ms=900)) as view:
        assert (view.call(1).outcome, view.call(1).latency_ns) == (Outcome.OK, 8 * MS)
