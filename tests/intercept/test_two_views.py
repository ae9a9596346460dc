"""Where messages were altered on purpose, each peer is judged by what it sent and what it was given."""

from collections.abc import Sequence
from typing import Final

import pytest

from mcpproxy.judge.observer.two_views import TwoViews
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    Event,
    FaultMark,
    Finding,
    Frame,
    Note,
    Sender,
)

ABOUT: Final = b'"protocolVersion":"2025-06-18","capabilities":{"tools":{}}'
OPENING: Final[list[tuple[Sender, bytes]]] = [
    (
        CLIENT,
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}',
    ),
    (SERVER, b'{"jsonrpc":"2.0","id":0,"result":{%b,"serverInfo":{"name":"s","version":"1"}}}' % ABOUT),
    (CLIENT, b'{"jsonrpc":"2.0","method":"notifications/initialized"}'),
]
CALL: Final = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{}}}'
ANSWER: Final = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}'
ERROR: Final = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"Internal error"}}'
CANCEL: Final = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'


class Told:
    """A session so far. ``sent`` passes, ``kept`` met a fault, ``given`` is what came in its place."""

    def __init__(self, opening: Sequence[tuple[Sender, bytes]] = OPENING) -> None:
        observer = ruleset.load().observer(has_faults=True)
        assert isinstance(observer, TwoViews)
        self.observer = observer
        self.findings: list[Finding] = []
        self.seq = 0
        for sender, raw in opening:
            self.sent(sender, raw)

    def sent(self, sender: Sender, raw: bytes) -> None:
        self._tell(sender, raw)

    def kept(self, sender: Sender, raw: bytes, number: int = 1) -> None:
        self._tell(sender, raw, FaultMark("rule", "action", number))

    def given(self, sender: Sender, raw: bytes, number: int = 1, *, continues: bool = False) -> None:
        self._tell(sender, raw, FaultMark("rule", "action", number), by_proxy=True, continues=continues)

    def event(self, event: Event) -> None:
        self.findings += self.observer.observe(event)

    def _tell(
        self,
        sender: Sender,
        raw: bytes,
        fault: FaultMark | None = None,
        *,
        by_proxy: bool = False,
        continues: bool = False,
    ) -> None:
        self.seq += 1
        at_ns = self.seq * 1_000_000
        frame = Frame(self.seq, sender, raw, at_ns, not continues, continues, by_proxy=by_proxy, fault=fault)
        self.event(frame)

    def end(self) -> list[tuple[str, str]]:
        self.event(Eof(CLIENT, 10**9))
        self.event(Eof(SERVER, 10**9))
        self.event(Close("exited", 0, observed_at_ns=10**9))
        return [(finding.rule, finding.blame) for finding in self.findings]


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_session_without_faults_is_judged_once(told: Told) -> None:
    told.sent(CLIENT, CALL % 1)
    told.sent(SERVER, ANSWER % 2)
    told.sent(CLIENT, CALL % 1)
    assert told.end() == [("PROTO-007", "server"), ("RPC-005", "client")]


def test_nobody_is_blamed_for_an_answer_that_was_dropped(told: Told) -> None:
    told.sent(CLIENT, CALL % 1)
    told.kept(SERVER, ANSWER % 1)
    assert told.end() == []


def test_nobody_is_blamed_for_a_request_that_was_dropped_or_given_twice(told: Told) -> None:
    told.kept(CLIENT, CALL % 1)
    told.kept(CLIENT, CALL % 2, 2)
    told.given(CLIENT, CALL % 2, 2)
    told.given(CLIENT, CALL % 2, 2)
    told.sent(SERVER, ANSWER % 2)
    told.sent(SERVER, ANSWER % 2)
    assert ("RPC-005", "client") not in told.end()


def test_nobody_is_blamed_for_our_error(told: Told) -> None:
    told.kept(CLIENT, CALL % 1)
    told.given(SERVER, ERROR % 1)
    told.sent(CLIENT, CALL % 2)
    told.sent(SERVER, ANSWER % 2)
    assert told.end() == []


def test_nobody_is_blamed_for_what_is_not_json_any_more(told: Told) -> None:
    told.sent(CLIENT, CALL % 1)
    told.kept(SERVER, ANSWER % 1)
    told.given(SERVER, b'{"jsonrpc":"2.0","i')
    told.kept(CLIENT, CALL % 2, 2)
    told.given(CLIENT, b"#noise", 2)
    assert told.end() == []


def test_an_opening_that_came_in_pieces_is_an_opening() -> None:
    told = Told(OPENING[:1])
    sender, raw = OPENING[1]
    told.kept(sender, raw)
    told.given(sender, raw[:20], continues=True)
    told.given(sender, raw[20:50], continues=True)
    told.given(sender, raw[50:])
    told.sent(*OPENING[2])
    told.sent(CLIENT, CALL % 1)
    told.sent(SERVER, ANSWER % 1)
    assert told.end() == []


def test_a_client_may_cancel_what_it_was_not_given_yet(told: Told) -> None:
    told.sent(CLIENT, CALL % 1)
    told.kept(SERVER, ANSWER % 1)
    told.sent(CLIENT, CANCEL)
    told.given(SERVER, ANSWER % 1)
    assert told.end() == []


def test_a_fault_of_a_peer_is_still_found_beside_ours(told: Told) -> None:
    told.sent(CLIENT, CALL % 1)
    told.kept(SERVER, ANSWER % 1)
    told.given(SERVER, ANSWER % 7)
    told.sent(SERVER, ANSWER % 8)
    told.sent(CLIENT, CALL % 1)
    assert told.end() == [("PROTO-007", "server"), ("RPC-005", "client")]


def test_what_the_server_sent_is_judged_even_if_nobody_got_it(told: Told) -> None:
    told.sent(CLIENT, CALL % 1)
    told.kept(SERVER, ANSWER % 9)
    assert ("PROTO-007", "server") in told.end()


def test_nobody_is_blamed_for_an_end_that_we_made(told: Told) -> None:
    told.sent(CLIENT, CALL % 1)
    told.event(Note(0, "kill", "rule x: SIGKILL to the server"))
    told.event(Eof(SERVER, 10**9))
    told.event(Close("signalled", signal=9, observed_at_ns=10**9))
    assert told.findings == []
    told = Told()
    told.sent(CLIENT, CALL % 1)
    told.event(Note(0, "disconnect", "rule x: eof"))
    told.event(Close("signalled", signal=15, observed_at_ns=10**9))
    assert told.findings == []
