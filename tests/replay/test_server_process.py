"""``mcpproxy replay server`` as a process on stdio: what it says, how it ends, what it makes of bad input."""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.cli.main import main
from mcpproxy.errors import TraceError
from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.replay.server.engine import ReplayEngine, ReplayOptions
from mcpproxy.peers.replay.server.matching import LEVELS
from mcpproxy.peers.replay.server.replay_source import replay_source
from tests.replay.http_scripts import JSON, Tape
from tests.replay.scripts import HELLO, C, Line, S, ask, call, give, tell, text, trace

DEADLINE_S = 60

SESSION: tuple[Line, ...] = (
    *HELLO,
    (C, call(1, "a", token=1)),
    (S, tell("notifications/progress", progressToken=1, progress=1)),
    (S, ask(0, "sampling/createMessage", maxTokens=1)),
    (C, give(0, model="m")),
    (S, text(1, "A")),
    (S, "Listening on nothing"),
    (C, [ask(2, "ping"), call(3, "b")]),
    (S, [give(2), text(3, "B")]),
)
LIVE = (
    HELLO[0][1],
    HELLO[2][1],
    call("x", "a", token="t"),
    give(0, model="n"),
    [ask(8, "ping"), call(9, "b")],
)


def replay(path: Path, messages: Sequence[Any], *options: str) -> subprocess.CompletedProcess[bytes]:
    """All messages at once, then the end of stdin."""
    said = b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in messages)
    command = [sys.executable, "-m", "mcpproxy", "replay", "server", str(path), *options]
    return subprocess.run(command, input=said, capture_output=True, timeout=DEADLINE_S)


def test_a_session_is_replayed_line_by_line(tmp_path: Path) -> None:
    done = replay(trace(tmp_path / "t.jsonl", SESSION), LIVE)
    lines = done.stdout.splitlines()
    assert lines.pop(4) == b"Listening on nothing"
    assert [json.loads(line) for line in lines] == [
        HELLO[1][1],
        tell("notifications/progress", progressToken="t", progress=1),
        ask(0, "sampling/createMessage", maxTokens=1),
        text("x", "A"),
        [give(8), text(9, "B")],
    ]
    assert done.stderr.decode() == "mcpproxy: 4 requests answered from the recording, 0 misses\n"
    assert done.returncode == 0


def test_a_miss_is_told_and_the_exit_code_is_1(tmp_path: Path) -> None:
    done = replay(trace(tmp_path / "t.jsonl", SESSION), [*LIVE, call(10, "c")])
    assert json.loads(done.stdout.splitlines()[-1])["error"]["data"]["nearest"]["method"] == "tools/call"
    miss, summary = done.stderr.decode().splitlines()
    assert miss.startswith('mcpproxy: miss 1: tools/call "c" (id 10): no recorded request is equal')
    assert summary.endswith("4 requests answered from the recording, 1 miss")
    assert done.returncode == 1


def test_only_calls_that_pass_a_filter_are_replayed(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.jsonl", SESSION)
    done = replay(path, [*LIVE[:2], call("x", "a"), call("y", "b")], "--filter", "tool:b")
    hello, miss, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert hello == HELLO[1][1]
    assert miss["error"]["message"] == 'not in the recording: tools/call "a" (id "x")'
    assert answer == text("y", "B")
    note, *_ = done.stderr.decode().splitlines()
    assert note == f"mcpproxy: {path}: trimmed to frames 1-3,10-11 of 11"


def test_a_filter_that_no_call_passes_is_refused(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.jsonl", SESSION)
    done = replay(path, LIVE, "--filter", "tool:c")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        f"mcpproxy: {path}: no call passes tool:c; mcpproxy show lists all calls\n"
    )


def test_what_a_cut_recording_lacks_is_said_and_the_rest_replayed(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.jsonl", SESSION[:4], is_cut=True)
    done = replay(path, [*LIVE[:3], call(10, "a")])
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0] == HELLO[1][1]
    assert [answer["error"]["message"] for answer in answers[1:]] == [
        'not in the recording: tools/call "a" (id "x")',
        'not in the recording: tools/call "a" (id 10)',
    ]
    said = done.stderr.decode()
    assert "no close record: the recording was cut off" in said
    assert "1 request of the client without a recorded answer: a miss if sent again" in said
    assert done.returncode == 1


ECHO = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
    elif message.get("method") == "notifications/initialized":
        print(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "roots/list"}), flush=True)
    elif "id" in message and "method" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"real": True}}), flush=True)
"""


def test_misses_can_go_to_the_real_server(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mcpproxy",
        "replay",
        "server",
        str(trace(tmp_path / "t.jsonl", SESSION)),
    ]
    behind = ["--on-miss", "passthrough", "--", sys.executable, "-c", ECHO]
    with subprocess.Popen(
        [*command, *behind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None

        def say(message: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        assert say(HELLO[0][1]) == HELLO[1][1]
        process.stdin.write(json.dumps(HELLO[2][1]).encode() + b"\n")
        assert say(call(5, "new"))["method"] == "roots/list"
        assert json.loads(process.stdout.readline()) == give(5, real=True)
        process.stdin.close()
        said = process.stderr.read().decode()
        assert process.wait(DEADLINE_S) == 0
    assert 'passed on: tools/call "new" (id 5)' in said
    assert "0 misses, 1 passed on" in said


def test_misses_after_the_end_of_the_real_server_are_answered(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.jsonl", SESSION)
    command = [sys.executable, "-m", "mcpproxy", "replay", "server", str(path), "--on-miss", "passthrough"]
    with subprocess.Popen(
        [*command, "--", sys.executable, "-c", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (HELLO[0][1], call(5, "new"), call(6, "newer")):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == message["id"]
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


def test_a_client_that_starts_the_server_twice_needs_both_recordings(tmp_path: Path) -> None:
    asked = ask("probe", "server/discover")
    probe = trace(tmp_path / "1.jsonl", ((C, asked), (S, give("probe", supportedVersions=["2026-07-28"]))))
    work = trace(
        tmp_path / "2.jsonl", ((C, call(0, "a")), (S, text(0, "A")), (S, tell("notifications/message")))
    )
    first = replay(probe, [asked | {"id": 1}], str(work))
    assert [json.loads(line) for line in first.stdout.splitlines()] == [
        give(1, supportedVersions=["2026-07-28"])
    ]
    second = replay(probe, [call(1, "a")], str(work))
    assert [json.loads(line) for line in second.stdout.splitlines()] == [
        text(1, "A"),
        tell("notifications/message"),
    ]
    assert (first.returncode, second.returncode) == (0, 0)


def test_recordings_over_http_are_replayed_one_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = Tape()
    tape.give(tape.request("POST", HELLO[0][1]), 200, HELLO[1][1], JSON)
    path = str(tape.write(tmp_path / "t.jsonl"))
    assert main(["replay", "server", path, path]) == 2
    assert "was recorded over HTTP" in capsys.readouterr().err


def test_what_was_passed_on_is_answered_to_a_client_that_has_closed_its_side(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.jsonl", SESSION)
    said = [HELLO[0][1], call(5, "new")]
    done = replay(path, said, "--on-miss", "passthrough", "--", sys.executable, "-c", ECHO)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 5]
    assert b"1 request answered from the recording, 0 misses, 1 passed on" in done.stderr


def test_recorded_pauses_do_not_keep_it_from_ending(tmp_path: Path) -> None:
    done = replay(trace(tmp_path / "t.jsonl", SESSION), LIVE, "--timing", "1000")
    assert done.returncode == 0


def test_a_server_that_left_leaves_again(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.jsonl", (*HELLO, (C, call(1, "crash"))))
    records = path.read_text().splitlines()
    records.insert(-1, '{"type":"eof","t":90000000,"from":"server"}')
    path.write_text("\n".join(records) + "\n")
    command = [sys.executable, "-m", "mcpproxy", "replay", "server", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (HELLO[0][1], HELLO[2][1], call(1, "crash")):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert len(process.stdout.read().splitlines()) == 1
        assert process.wait(DEADLINE_S) == 0


REFUSED = {
    "replay srever t.jsonl": "did you mean server?",
    "replay server nowhere.jsonl": "no such file",
    "replay server t.jsonl --timing fast": "neither immediate, recorded nor a factor",
    "replay server t.jsonl --timing nan": "neither immediate, recorded nor a factor",
    "replay server t.jsonl --match vague": "invalid choice",
    "replay server t.jsonl --ignore x": "not a JSON Pointer",
    "replay server t.jsonl --on-miss passthrough": "goes together with -- COMMAND",
    "replay server t.jsonl -- true": "goes together with -- COMMAND",
    "replay server t.jsonl --session zz": "no session zz in it",
    "replay server t.jsonl --http nowhere": "is not HOST:PORT",
}


@pytest.mark.parametrize("command", REFUSED)
def test_arguments_that_cannot_be_followed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trace(tmp_path / "t.jsonl", SESSION)
    assert main(command.split()) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert REFUSED[command] in said


def mangled(whole: bytes, chance: random.Random) -> bytes:
    """A recording with lines lost, doubled, cut and changed; its header stays."""
    lines = whole.splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(1, len(lines))
        match chance.randrange(6):
            case 0:
                del lines[at + 1 :]
            case 1 if len(lines) > 2:
                del lines[at]
            case 2:
                lines.insert(at, chance.choice(lines[1:]))
            case 3:
                where = chance.randrange(len(lines[at]))
                lines[at] = lines[at][:where] + chance.randbytes(2) + lines[at][where + 1 :]
            case 4:
                lines[at] = lines[at].replace(b'"id": ', b'"id": [[7]], "was": ')
            case _:
                lines[at] = lines[at].replace(b'"from":"client"', b'"from":"server"')
    return b"".join(lines)


STRANGE = (
    b"",
    b"\xff",
    b"[]",
    b"[1]",
    b"{}",
    b'{"jsonrpc":"2.0","id":{},"method":"tools/call"}',
    b'[{"id":1}]',
)


@pytest.mark.parametrize("seed", range(8))
def test_mangled_recordings_are_replayed_or_refused(seed: int, tmp_path: Path) -> None:
    """A bounded search for a recording, or a client, that the engine cannot stand."""
    chance = random.Random(seed)
    whole = trace(tmp_path / "t.jsonl", SESSION).read_bytes()
    path = tmp_path / "mangled.jsonl"
    for _ in range(40):
        path.write_bytes(mangled(whole, chance))
        try:
            found = replay_source(load(path))
        except TraceError:
            continue
        options = ReplayOptions(
            complete=found.complete, level=chance.choice(LEVELS), repeats=chance.random() < 0.3
        )
        engine = ReplayEngine(found.as_one(), options)
        said = [*(json.dumps(message).encode() for message in LIVE), *STRANGE, chance.randbytes(20)]
        chance.shuffle(said)
        engine.begin()
        for raw in said:
            for out in engine.receive(raw).outgoing:
                assert b"\n" not in out.raw


@pytest.mark.parametrize("seed", range(3))
def test_a_process_ends_whatever_it_is_given(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = trace(tmp_path / "t.jsonl", SESSION)
    path.write_bytes(mangled(path.read_bytes(), chance))
    done = replay(path, [*LIVE, b"\n".join(STRANGE), chance.randbytes(99)])
    assert done.returncode in (0, 1, 2)
    assert b"Traceback" not in done.stderr
