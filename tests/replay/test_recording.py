"""A trace read as messages: sessions, questions with their answers, exchanges."""

import json
from pathlib import Path

import pytest

from mcpproxy.peers.replay.recording import LoadedTrace, load
from mcpproxy.protocol.jsonrpc import JSON, Request, Response
from tests.cli import recordings
from tests.cli.recordings import CLEAN, HANDSHAKE, close, frame

FOLDER = Path(__file__).parent.parent.parent / "recordings"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_answer_of_a_real_session_finds_its_question(path: Path) -> None:
    [session] = load(path).sessions
    for entry in session.messages:
        if isinstance(entry.message, Response) and entry.answers is not None:
            asked = session.messages[entry.answers]
            assert isinstance(asked.message, Request)
            assert asked.message.id == entry.message.id
            assert asked.sender != entry.sender
            assert session.answer_to(asked) is entry
            assert (session.latency_ns(entry) or 0) > 0


def batched(tmp_path: Path) -> LoadedTrace:
    questions = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in (5, 6)]
    answers: list[JSON] = [{"jsonrpc": "2.0", "id": n, "result": {}} for n in (6, 5)]
    records = (
        *HANDSHAKE,
        frame(4, "client", json.dumps(questions)),
        frame(5, "server", json.dumps(answers)),
        close(3, 2),
    )
    return load(recordings.write(tmp_path / "t.jsonl", records))


def test_the_elements_of_a_batch_are_messages_of_their_own(tmp_path: Path) -> None:
    [session] = batched(tmp_path).sessions
    four, five, six, seven = session.messages[3:]
    assert [four.batch, five.batch, six.batch, seven.batch] == [4, 4, 5, 5]
    assert (six.answers, seven.answers) == (five.index, four.index)
    assert json.loads(four.raw) == {"jsonrpc": "2.0", "id": 5, "method": "ping"}


def test_a_whole_recording_has_nothing_to_say(tmp_path: Path) -> None:
    recording = load(recordings.write(tmp_path / "t.jsonl", CLEAN))
    assert (recording.complete, recording.notes, recording.transport) == (True, [], "stdio")


def test_a_cut_recording_says_so_and_gives_what_there_is(tmp_path: Path) -> None:
    recording = load(recordings.write(tmp_path / "t.jsonl", CLEAN[:5]))
    assert not recording.complete
    assert recording.notes
    assert [entry.method for entry in recording.sessions[0].messages] == [
        "initialize",
        None,
        "notifications/initialized",
        "tools/list",
    ]


def test_what_was_no_message_keeps_its_place_and_bytes(tmp_path: Path) -> None:
    stray = '{"type":"frame","seq":4,"t":4,"from":"server","text":"Listening on 80"}'
    [session] = load(recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, stray, close(2, 2)))).sessions
    assert session.messages[-1].raw == b"Listening on 80"
    assert session.messages[-1].method is None
