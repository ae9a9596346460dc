"""Which request an answer belongs to."""

import pytest

from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.protocol.jsonrpc import ABSENT, RequestId


def test_an_answer_belongs_to_the_open_request_with_its_id_and_takes_it_out() -> None:
    requests: UnansweredRequests[str] = UnansweredRequests()
    requests.add(CLIENT, 1, "the client's")
    requests.add(SERVER, 1, "the server's")
    assert requests.find(CLIENT, 1) == "the client's"
    assert requests.take(CLIENT, 1) == "the client's"
    assert requests.take(CLIENT, 1) is None
    assert requests.take(SERVER, 1) == "the server's"


@pytest.mark.parametrize(
    ("id", "other_id"), [(1, "1"), ("1", 1), (1, True), (1, None), (1, ABSENT), (0, [0])]
)
def test_another_id_names_another_request(id: RequestId, other_id: object) -> None:
    requests: UnansweredRequests[str] = UnansweredRequests()
    requests.add(CLIENT, id, "asked")
    assert (requests.find(CLIENT, other_id), requests.take(CLIENT, other_id)) == (None, None)
    assert requests.take(CLIENT, id) == "asked"


def test_a_request_without_an_id_waits_for_nothing() -> None:
    requests: UnansweredRequests[str] = UnansweredRequests()
    requests.add(CLIENT, None, "asked")
    assert requests.take(CLIENT, None) is None


def test_an_answer_belongs_to_the_later_of_two_requests_with_one_id() -> None:
    requests: UnansweredRequests[str] = UnansweredRequests()
    requests.add(CLIENT, 1, "earlier")
    requests.add(CLIENT, 1, "later")
    assert (requests.take(CLIENT, 1), requests.take(CLIENT, 1)) == ("later", None)


def test_an_answer_belongs_first_to_a_request_of_its_exchange_then_of_its_session() -> None:
    requests: UnansweredRequests[str] = UnansweredRequests()
    requests.add(CLIENT, 1, "in exchange 5", (5, "a"))
    requests.add(CLIENT, 1, "in exchange 6", (6, "b"))
    assert requests.take(CLIENT, 1, (7, "c")) is None
    assert requests.take(CLIENT, 1, (7, "b")) == "in exchange 6"
    assert requests.take(CLIENT, 1, (6, "b")) is None
    assert requests.take(CLIENT, 1, (5, "b")) == "in exchange 5"
    assert requests.take(CLIENT, 1, (7, "a")) is None


def test_a_request_that_took_the_place_in_a_session_stays_when_the_earlier_is_answered() -> None:
    requests: UnansweredRequests[str] = UnansweredRequests()
    requests.add(CLIENT, 1, "earlier", (5, "a"))
    requests.add(CLIENT, 1, "later", (6, "a"))
    assert requests.take(CLIENT, 1, (5, "a")) == "earlier"
    assert requests.take(CLIENT, 1, (7, "a")) == "later"


def test_the_oldest_requests_are_forgotten() -> None:
    requests: UnansweredRequests[int] = UnansweredRequests(most=2)
    for id in (1, 2, 1, 3):
        requests.add(CLIENT, id, id)
    assert [requests.take(CLIENT, id) for id in (1, 2, 3)] == [1, None, 3]


def test_of_requests_with_two_scopes_the_oldest_are_forgotten_too() -> None:
    requests: UnansweredRequests[int] = UnansweredRequests(most=4)
    for number in range(10):
        requests.add(CLIENT, number, number, (number, "a"))
    assert [requests.find(CLIENT, number, (number, "a")) for number in range(10)] == [None] * 8 + [8, 9]


def test_what_is_taken_out_by_a_condition_is_out_of_all_scopes() -> None:
    requests: UnansweredRequests[str] = UnansweredRequests()
    requests.add(CLIENT, 1, "one of 5", (5, "a"))
    requests.add(SERVER, 1, "the server's of 5", (5, "a"))
    requests.add(CLIENT, 2, "elsewhere", (6, "a"))
    assert requests.take_if(lambda request: request.endswith("5")) == ["one of 5", "the server's of 5"]
    assert requests.take_if(lambda request: request.endswith("5")) == []
    assert (requests.take(CLIENT, 1, ("a",)), requests.take(CLIENT, 2, ("a",))) == (None, "elsewhere")


def test_open_requests_are_listed_once_and_taken_out_by_what_they_are() -> None:
    requests: UnansweredRequests[str] = UnansweredRequests()
    requests.add(CLIENT, 1, "in exchange 5", (5, "a"))
    requests.add(CLIENT, 2, "in exchange 6", (6, "a"))
    requests.add(CLIENT, 3, "answered")
    requests.take(CLIENT, 3)
    assert list(requests) == ["in exchange 5", "in exchange 6"]
    assert requests.take_if(lambda request: request.endswith("5")) == ["in exchange 5"]
    assert (list(requests), requests.take(CLIENT, 1, (5, "a"))) == (["in exchange 6"], None)
