"""How many calls a recorder counts, and when it says that it does not know.

``tests/view/test_against_reader.py`` compares the numbers with those of a view, on all recordings and rules.
"""

import json

import pytest

from mcpproxy.judge.session import call_counter
from mcpproxy.judge.session.call_counter import CallCounter
from mcpproxy.judge.session.frame import CLIENT, SERVER, FaultMark, Frame, Sender
from mcpproxy.judge.session.outcomes import CallCounts, Outcome


def said(counter: CallCounter, sender: Sender, **members: object) -> None:
    """Count a message of ``sender``."""
    counter.count_frame(Frame(1, sender, json.dumps({"jsonrpc": "2.0", **members}).encode()))


def asked(counter: CallCounter, *ids: int) -> None:
    for id in ids:
        said(counter, CLIENT, id=id, method="ping")


def test_an_answer_says_whether_its_call_failed() -> None:
    counter = CallCounter()
    asked(counter, 1, 2, 3, 4)
    said(counter, SERVER, id=1, result={})
    said(counter, SERVER, id=2, result={"isError": True})
    said(counter, SERVER, id=3, error={"code": -32603, "message": "no"})
    assert counter.counts == CallCounts(4, failed=2, unanswered=1)
    said(counter, SERVER, id=4, result={})
    assert counter.counts == CallCounts(4, failed=2, unanswered=0)


def test_each_peer_has_its_own_ids() -> None:
    counter = CallCounter()
    asked(counter, 1)
    said(counter, SERVER, id=1, method="ping")
    said(counter, CLIENT, id=1, error={"code": 1, "message": "no"})
    assert counter.counts == CallCounts(2, failed=1, unanswered=1)


def test_a_cancelled_call_has_neither_failed_nor_no_answer() -> None:
    counter = CallCounter()
    asked(counter, 1)
    said(counter, CLIENT, method="notifications/cancelled", params={"requestId": 1})
    said(counter, SERVER, id=1, error={"code": 1, "message": "too late"})
    assert counter.counts == CallCounts(1, failed=0, unanswered=0, cancelled=1)


def test_a_long_result_is_counted_when_it_begins() -> None:
    counter = CallCounter()
    asked(counter, 1, 2)
    counter.count_frame(Frame(2, SERVER, b'{"jsonrpc":"2.0","id":1,"result":{"a":"', 0, False, True))
    asked(counter, 3)  # in between
    counter.count_frame(Frame(4, SERVER, b'aaaa"}}'))
    said(counter, SERVER, id=2, result={})
    assert counter.counts == CallCounts(3, failed=0, unanswered=1)


REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.mark.parametrize(
    "mark",
    [None, *(FaultMark("r", action, 7) for action in ("error", "pause", "answer"))],
    ids=["enforcement", "a rule", "a person", "an addon"],
)
@pytest.mark.parametrize(
    ("member", "outcome"),
    [
        ('"error":{}', Outcome.REFUSED),
        ('"result":{"isError":true}', Outcome.REFUSED),
        ('"result":{}', Outcome.OK),
    ],
)
def test_what_mcpproxy_answers_has_not_failed(mark: FaultMark | None, member: str, outcome: Outcome) -> None:
    counter = CallCounter()
    counter.count_frame(Frame(1, CLIENT, REQUEST, refused=mark is None, fault=mark))
    answer = f'{{"jsonrpc":"2.0","id":1,{member}}}'.encode()
    counter.count_frame(Frame(2, SERVER, answer, by_proxy=True, fault=mark))
    assert counter.outcomes == {**dict.fromkeys(Outcome, 0), outcome: 1}


def test_what_a_server_gets_instead_of_a_request_is_no_answer() -> None:
    counter, mark = CallCounter(), FaultMark("r", "pause", 7)
    counter.count_frame(Frame(1, CLIENT, REQUEST, fault=mark))
    counter.count_frame(Frame(2, CLIENT, REQUEST, by_proxy=True, fault=mark))
    assert counter.counts == CallCounts(1, failed=0, unanswered=1)
    said(counter, SERVER, id=1, result={})
    assert counter.counts == CallCounts(1, failed=0, unanswered=0)


def test_of_too_many_open_calls_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_counter, "MAX_OPEN", 4)
    counter = CallCounter()
    for id in range(20):  # those that were cancelled do not wait
        asked(counter, id)
        said(counter, CLIENT, method="notifications/cancelled", params={"requestId": id})
    assert counter.counts == CallCounts(20, failed=0, unanswered=0, cancelled=20)
    asked(counter, *range(20, 26))
    assert counter.counts is None


def test_a_part_that_is_not_at_hand_may_have_answers() -> None:
    counter = CallCounter()
    asked(counter, 1)
    counter.lose_count()
    assert counter.counts is None
