"""What one session has said so far: used ids, requests in flight, capabilities."""

import tracemalloc
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy.judge.session import history
from mcpproxy.judge.session.frame import other
from mcpproxy.judge.session.history import History, ModernAnswer, SentRequest, UsedIds, keep_latest
from mcpproxy.protocol.jsonrpc import ABSENT, RequestId
from mcpproxy.protocol.revisions import REVISIONS

RECENT: Final = 4

ids = st.integers(-6, 20) | st.sampled_from(["", "1", "a", "b"]) | st.integers(2**63, 2**63 + 4)


@pytest.fixture
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "RECENT_IDS", RECENT)


@pytest.mark.usefixtures("short_memory")
@settings(max_examples=300)
@given(st.lists(ids, max_size=40))
def test_used_ids_are_those_of_a_plain_dict(added: list[RequestId]) -> None:
    used = UsedIds()
    plain: dict[tuple[type, RequestId], int] = {}
    for seq, id in enumerate(added, 1):
        used.add(id, seq)
        plain.setdefault((type(id), id), seq)
    others: list[RequestId] = [-7, 21, "z", 2**63 + 9]
    for id in {*added, *others}:
        seq = plain.get((type(id), id))
        first = used.first_use(id)
        if seq is None:
            assert first is None
        else:
            # An id whose frame is forgotten may be taken for a newer one; it is known all the same.
            assert first is not None
            assert first in (0, seq) or first > seq


@pytest.mark.usefixtures("short_memory")
def test_a_forgotten_id_is_still_known() -> None:
    used = UsedIds()
    for seq, id in enumerate([1, 2, "a", 3, 4, 5, 6, 7], 1):
        used.add(id, seq)
    assert [used.first_use(id) for id in (1, 2, "a", 3)] == [0, 0, 0, 0]
    assert [used.first_use(id) for id in (4, 5, 6, 7)] == [5, 6, 7, 8]
    assert used.first_use("1") is None


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (1, 3, 2), (2, 2, 2), (1, 5, 3), (5, 1, 3)])
@pytest.mark.usefixtures("short_memory")
def test_numbers_shrink_to_ranges_whatever_their_order(order: tuple[int, ...]) -> None:
    used = UsedIds()
    for number in (*order, 100, 101, 102, 103):
        used.add(number, 1)
    assert [number for number in range(8) if used.first_use(number) is not None] == sorted({*order})


@pytest.mark.parametrize("recent", [256, history.RECENT_IDS])
@pytest.mark.parametrize("first", [1, 10**15, 10**3_900, "a", "\N{GRINNING FACE}" * 50])
@pytest.mark.parametrize("step", [1, 2])
def test_used_ids_say_how_much_memory_they_take(
    monkeypatch: pytest.MonkeyPatch, recent: int, first: int | str, step: int
) -> None:
    monkeypatch.setattr(history, "RECENT_IDS", recent)
    tracemalloc.start()
    before, used = tracemalloc.get_traced_memory()[0], UsedIds()
    for number in range(1_000):
        used.add(first + number * step if isinstance(first, int) else f"{first}{number}", 1_000 + number)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken < used.size + 40_000 < 3 * taken + 80_000


def test_the_first_use_counts() -> None:
    used = UsedIds()
    used.add(1, 3)
    used.add(1, 9)
    assert used.first_use(1) == 3


def asked(id: RequestId) -> SentRequest:
    return SentRequest(1, "client", id, "ping", ABSENT, 0, REVISIONS, stateless=False)


def test_two_id_spaces() -> None:
    session = History()
    session.client.pending[1] = asked(1)
    assert session.pending("client", 1) == asked(1)
    assert session.pending("server", 1) is None
    assert session.side("client") is session.client
    assert session.side("server") is session.server


def test_capabilities_of_each_side() -> None:
    session = History(client_capabilities={"roots": {}}, server_capabilities={"tools": {}})
    assert session.capabilities("client") == {"roots": {}}
    assert session.capabilities("server") == {"tools": {}}
    assert History().capabilities("server") is None


def test_a_modern_answer_has_its_stateless_versions() -> None:
    answer = ModernAnswer(3, ("2025-11-25", "2026-07-28", "3000-01-01"))
    assert answer.stateless_versions == ("2026-07-28",)


def test_the_other_side() -> None:
    assert (other("client"), other("server")) == ("server", "client")


def test_a_full_table_keeps_the_latest_entries() -> None:
    table: dict[str, int] = {}
    for number, name in enumerate("abacd"):
        keep_latest(table, name, number, 3)
    assert table == {"a": 2, "c": 3, "d": 4}


def test_stateless_requests_share_what_lasts_and_other_sessions_do_not() -> None:
    lent: dict[type, object] = {}
    one, two, apart = History(stateless_memories=lent), History(stateless_memories=lent), History()
    assert one.across_requests(UsedIds) is two.across_requests(UsedIds)
    assert one.across_requests(UsedIds) is not one.of(UsedIds)
    assert apart.across_requests(UsedIds) is apart.of(UsedIds)
