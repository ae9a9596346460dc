"""What a later session asked beyond an earlier one goes behind it, as a lawful recording."""

import json
from pathlib import Path
from typing import Final

import pytest

import mcpproxy
from mcpproxy.errors import TraceError
from mcpproxy.peers.replay.join import join, lacks
from tests.cli import recordings
from tests.cli.recordings import HANDSHAKE, close, finding, frame


def asks(id: int | str, city: str, method: str = "tools/call") -> str:
    params = {"name": "forecast", "arguments": {"city": city}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def says(id: int | str, city: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": {"content": [], "city": city}})


KEPT: Final = (
    *HANDSHAKE,
    frame(4, "client", asks(9, "Oslo")),
    frame(5, "server", says(9, "Oslo")),
    close(3, 2),
)

LOG: Final = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'
ROOTS: Final = '{"jsonrpc":"2.0","id":3,"method":"roots/list"}'
NO_ROOTS: Final = '{"jsonrpc":"2.0","id":3,"result":{"roots":[]}}'
CANCELLED: Final = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}'


def traces(tmp_path: Path, *added: str) -> tuple[str, str, str]:
    """``KEPT``, a session with these records behind the handshake, and where to write."""
    kept = recordings.write(tmp_path / "kept.jsonl", KEPT)
    added = (*HANDSHAKE, *added, close(sum('"client"' in one for one in added) + 2, 1))
    return str(kept), str(recordings.write(tmp_path / "added.jsonl", added)), str(tmp_path / "into.jsonl")


def said(path: str) -> list[tuple[str, object]]:
    """Behind the handshake: who, and the message."""
    frames = list(mcpproxy.open_trace(path))[3:]
    assert [one.seq for one in frames] == list(range(4, len(frames) + 4))
    return [(one.sender, json.loads(one.raw)) for one in frames]


def test_what_is_missing_goes_behind_with_ids_of_its_own(tmp_path: Path) -> None:
    kept, added, into = traces(
        tmp_path,
        frame(4, "client", asks(9, "Lima")),
        frame(5, "client", asks("b", "Oslo")),
        frame(6, "server", says("b", "Oslo again")),
        frame(7, "server", says(9, "Lima")),
    )
    assert join(kept, added, into)
    assert said(into) == [
        ("client", json.loads(asks(9, "Oslo"))),
        ("server", json.loads(says(9, "Oslo"))),
        ("client", json.loads(asks(10, "Lima"))),
        ("server", json.loads(says(10, "Lima"))),
    ]


def test_what_was_said_meanwhile_comes_along(tmp_path: Path) -> None:
    kept, added, into = traces(
        tmp_path,
        frame(4, "server", LOG % "before"),
        frame(5, "client", asks("b", "Lima")),
        frame(6, "server", LOG % "meanwhile"),
        frame(7, "server", ROOTS),
        frame(8, "server", says("b", "Lima")),
        frame(9, "client", NO_ROOTS),
        frame(10, "server", LOG % "afterwards"),
    )
    assert join(kept, added, into)
    assert said(into)[2:] == [
        ("client", json.loads(asks(10, "Lima"))),
        ("server", json.loads(LOG % "meanwhile")),
        ("server", json.loads(ROOTS) | {"id": 11}),
        ("server", json.loads(says(10, "Lima"))),
        ("client", json.loads(NO_ROOTS) | {"id": 11}),
    ]


def test_a_cancellation_speaks_of_the_new_id(tmp_path: Path) -> None:
    kept, added, into = traces(
        tmp_path,
        frame(4, "client", asks("b", "Lima")),
        frame(5, "client", CANCELLED),
        frame(6, "server", says("b", "Lima")),
    )
    assert join(kept, added, into)
    assert said(into)[3] == ("client", json.loads(CANCELLED) | {"params": {"requestId": 10}})


def test_an_event_of_a_subscription_speaks_of_the_new_id(tmp_path: Path) -> None:
    event = '{"jsonrpc":"2.0","method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}'
    kept, added, into = traces(
        tmp_path,
        frame(4, "client", asks("b", "Lima")),
        frame(5, "server", event % '"b"'),
        frame(6, "server", says("b", "Lima")),
    )
    assert join(kept, added, into)
    assert said(into)[3] == ("server", json.loads(event % 10))


def test_a_batch_goes_behind_whole(tmp_path: Path) -> None:
    questions = f"[{asks(1, 'Oslo')},{asks(2, 'Lima')}]"
    kept, added, into = traces(tmp_path, frame(4, "client", questions), frame(5, "server", says(2, "Lima")))
    assert join(kept, added, into)
    assert [json.loads(questions), json.loads(says(2, "Lima"))] == [message for _, message in said(into)[2:]]


def test_the_joint_recording_is_whole_and_lawful(tmp_path: Path) -> None:
    kept, added, into = traces(
        tmp_path, frame(4, "client", asks(9, "Lima")), frame(5, "server", says(9, "Lima"))
    )
    join(kept, added, into)
    trace = mcpproxy.open_trace(into)
    assert (trace.complete, trace.notes) == (True, ())
    assert [call.params["arguments"]["city"] for call in trace.calls("tools/call")] == ["Oslo", "Lima"]
    times = [one.observed_at_ns for one in trace]
    assert max(times[:5]) < times[5] < times[6]
    assert mcpproxy.check(into).findings == mcpproxy.check(kept).findings
    assert lacks(kept, added)
    assert not lacks(into, added)


def test_recorded_findings_stay_counted(tmp_path: Path) -> None:
    _, added, into = traces(
        tmp_path, frame(4, "client", asks(9, "Lima")), frame(5, "server", says(9, "Lima"))
    )
    records = (*KEPT[:-1], finding("PROTO-001", 5, "so it was"), close(3, 2, errors=1))
    kept = str(recordings.write(tmp_path / "found.jsonl", records))
    assert join(kept, added, into)
    last = json.loads(Path(into).read_text().splitlines()[-1])
    assert (last["findings"]["error"], last["frames"]) == (1, {"client": 4, "server": 3})


def test_where_nothing_is_missing_nothing_is_written(tmp_path: Path) -> None:
    kept, added, into = traces(
        tmp_path, frame(4, "client", asks(1, "Oslo")), frame(5, "server", says(1, "Oslo"))
    )
    assert not join(kept, added, into)
    assert not Path(into).exists()


def test_an_equal_request_asked_more_often_is_missing(tmp_path: Path) -> None:
    once = (frame(4, "client", asks(1, "Oslo")), frame(5, "server", says(1, "Oslo")))
    again = (frame(6, "client", asks(2, "Oslo")), frame(7, "server", says(2, "Oslo, later")))
    kept, added, into = traces(tmp_path, *once, *again)
    assert join(kept, added, into)
    assert said(into)[-1] == ("server", json.loads(says(10, "Oslo, later")))


def test_a_recording_can_be_added_to_in_place(tmp_path: Path) -> None:
    kept, added, _ = traces(
        tmp_path, frame(4, "client", asks(9, "Lima")), frame(5, "server", says(9, "Lima"))
    )
    assert join(kept, added, kept)
    assert len(said(kept)) == 4
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_what_is_no_trace_is_an_error(tmp_path: Path) -> None:
    kept, _, into = traces(tmp_path)
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(TraceError):
        join(kept, str(tmp_path / "text"), into)
