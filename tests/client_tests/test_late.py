"""A client that gives up because our own server had too little of the machine to answer breaks nothing."""

from collections.abc import Sequence
from pathlib import Path

from mcpproxy.judge.session.frame import Finding
from mcpproxy.peers.client_tests.client_process import Stay
from mcpproxy.peers.client_tests.seen import SeenClient, seen_in
from mcpproxy.peers.client_tests.verdict import Played, may_be_late, of_another_era, verdict
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.opening import open_trace
from tests.client_tests.test_facts import scenario
from tests.view.situations import Conversation

ORDINARY = Played(scenario("ordinary"), SeenClient(sessions=1), Stay(0, 1.0, ""), ())
GAVE_UP = Stay(1, 7.0, "TimeoutError: initialize")


def concluded(played: Played, told: set[str] | None = None) -> Conclusion:
    known = set[str]() if told is None else told
    return verdict(played, ORDINARY, known, Catalogue({}, {}), "2025-11-25")[0]


def seen(folder: Path, session: Conversation, *, ms: float) -> SeenClient:
    """What a client did in a session that ends then."""
    path = folder / "s.jsonl"
    path.write_text("".join(f"{line}\n" for line in session.closes(ms=ms)))
    return seen_in([open_trace(str(path))])


def leaves_without_an_answer(folder: Path, *, ms: float, name: str = "two-pages") -> Played:
    """A client that asks for the list, gets no answer, closes its end of the pipe, and ends with an error."""
    session = Conversation()
    session.asks(1, "initialize", ms=10)
    session.answers(1, {}, ms=200)
    session.asks(2, "tools/list" if name == "two-pages" else "tools/call", ms=300)
    session.record("eof", 300 + ms, {"from": "client"})
    return Played(scenario(name), seen(folder, session, ms=9000), GAVE_UP, ())


def breaks(folder: Path, *, answered_ms: float, frame: int, others: Sequence[tuple[str, int]] = ()) -> Played:
    """A client over HTTP that asks for the handshake and ends the session, and what it breaks in a frame;
    ``others`` are the requirements that it breaks besides, each with its frame."""
    session = Conversation(http=True)
    session.posts(1, ms=10)
    session.asks(1, "initialize", ms=10, exchange=1)
    session.responds(1, 200, ms=answered_ms)
    session.answers(1, {}, ms=answered_ms, exchange=1)
    session.ends(1, ms=answered_ms)
    session.posts(2, ms=6600, method="DELETE")
    path = str(folder / "s.jsonl")
    found = [Finding("PROTO-008", "error", "client", "sent a DELETE without it", frame, requirement="R-9")]
    asked = seen(folder, session, ms=9000)
    found += [Finding("RPC-005", "error", "client", "b", at, requirement=name) for name, at in others]
    return Played(scenario("corrupt-answer"), asked, Stay(0, 7.0, ""), [(path, one) for one in found])


def test_a_client_that_gives_up_because_we_were_late_is_warned_about(tmp_path: Path) -> None:
    conclusion = concluded(leaves_without_an_answer(tmp_path, ms=6100))
    assert conclusion.status == "warning"
    assert "TimeoutError: initialize; but our server took 6.1 s to answer tools/list" in conclusion.message
    assert concluded(leaves_without_an_answer(tmp_path, ms=100)).status == "failed"


def test_what_it_breaks_after_a_late_answer_is_no_fault_yet(tmp_path: Path) -> None:
    told: set[str] = set()
    late = breaks(tmp_path, answered_ms=6200, frame=5)
    assert may_be_late(late, ORDINARY)
    conclusion = concluded(late, told)
    assert (conclusion.status, conclusion.rule, told) == ("warning", "PROTO-008", set())
    assert "our server took 6.2 s to answer initialize" in conclusion.message
    in_time = breaks(tmp_path, answered_ms=200, frame=5)
    assert not may_be_late(in_time, ORDINARY)
    assert concluded(in_time).status == "failed"


def test_what_it_breaks_before_is_one(tmp_path: Path) -> None:
    assert concluded(breaks(tmp_path, answered_ms=6200, frame=2)).status == "failed"


def test_what_it_breaks_before_is_told_first(tmp_path: Path) -> None:
    conclusion = concluded(breaks(tmp_path, answered_ms=6200, frame=5, others=[("R-10", 2)]))
    assert (conclusion.status, conclusion.rule) == ("failed", "RPC-005")


def test_all_that_may_come_of_a_late_answer_is_told_again_by_another_server(tmp_path: Path) -> None:
    told = {"R-1"}
    late = breaks(tmp_path, answered_ms=6200, frame=5, others=[("R-10", 5)])
    assert concluded(late, told).status == "warning"
    assert told == {"R-1"}


def test_a_client_that_gives_up_a_late_discovery_may_know_sessions(tmp_path: Path) -> None:
    for ms, is_known in ((100, True), (6100, False)):
        session = Conversation()
        asked = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
        session.asks(1, "server/discover", asked, ms=10)
        session.record("eof", 10 + ms, {"from": "client"})
        played = Played(scenario("ordinary"), seen(tmp_path, session, ms=9000), GAVE_UP, ())
        assert played.seen.knows_no_session
        assert of_another_era(played) is is_known


def test_a_server_that_is_silent_by_its_script_is_not_late(tmp_path: Path) -> None:
    asked = leaves_without_an_answer(tmp_path, ms=6100, name="never-answers").seen
    found = Finding("RPC-005", "error", "client", "broke it", 4, requirement="R-9")
    silent = Played(scenario("never-answers"), asked, GAVE_UP, [(str(tmp_path / "s.jsonl"), found)])
    assert concluded(silent).status == "failed"


def test_a_server_that_waits_for_the_client_is_not_late(tmp_path: Path) -> None:
    session = Conversation()
    session.asks(1, "initialize", ms=10)
    session.answers(1, {}, ms=200)
    session.asks(2, "tools/call", ms=300)
    session.asks("ours-1", "roots/list", ms=310, by="server")
    session.answers(2, {}, ms=4310)
    asked = seen(tmp_path, session, ms=9000)
    assert concluded(Played(scenario("asks-in-call"), asked, GAVE_UP, ())).status == "failed"
