"""Folders and recordings that somebody else made: nothing outside is read, nothing is written."""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.show.agents import call_tools, cursors
from mcpproxy.show.agents.errors import AgentError
from mcpproxy.show.agents.recording_library import RecordingLibrary
from mcpproxy.show.agents.recording_tools import RecordingTools
from mcpproxy.show.agents.request_text import whole_characters
from tests.agents.agent import Agent, Answer, calls_in, with_situations
from tests.cli import recordings
from tests.recorder.journals import SESSION, JournalFolder
from tests.view.situations import Conversation, write

posix = pytest.mark.skipif(os.name != "posix", reason="needs links, pipes and owners")


def seen(folder: Path) -> dict[str, object]:
    """Everything about the files below a folder, including the times of last change."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_mode, path.is_file() and path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


def asked(agent: Agent) -> str:
    """Return all that an agent is told about the folder."""
    answers = [*agent.pages("list_recordings"), *agent.pages("list_runs"), *agent.pages("find_calls")]
    for row in answers[0]["recordings"]:
        for name in ("describe_recording", "list_findings", "get_statistics", "get_context_cost"):
            try:
                answers.append(agent(name, recording=row["recording"]))
            except AgentError as fault:
                answers.append({"error": str(fault)})
    return json.dumps(answers, ensure_ascii=False)


def told(agent: Agent, recording: str) -> Answer:
    """Return what an agent is told about a recording, or the error."""
    try:
        return agent("describe_recording", recording=recording)
    except AgentError as fault:
        return {"error": str(fault)}


@posix
def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    write(outside / "secret.jsonl", recordings.CLEAN)
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "link.jsonl").symlink_to(outside / "secret.jsonl")
    (folder / "below").symlink_to(outside)
    (folder / "journal.jsonl.journal").symlink_to(outside)
    os.mkfifo(folder / "pipe.jsonl")
    agent = Agent(folder)
    rows = agent("list_recordings")["recordings"]
    assert [(row["recording"], row["state"]) for row in rows] == [("pipe", "unreadable")]
    assert "is a pipe" in agent.error("get_call", call=1, recording="pipe")
    assert agent("find_calls")["unreadable"] == 1


@posix
def test_a_recording_that_goes_on_behind_a_link_is_not_read(tmp_path: Path) -> None:
    outside = write(tmp_path / "secret.jsonl", recordings.CLEAN)
    folder = tmp_path / "f"
    folder.mkdir()
    goes_on = {"type": "continued", "t": 1, "in": "next.jsonl", "frames": {"client": 0, "server": 0}}
    write(folder / "first.jsonl", (recordings.HEADER, json.dumps(goes_on, separators=(",", ":"))))
    (folder / "next.jsonl").symlink_to(outside)
    agent = Agent(folder)
    for name in ("describe_recording", "list_findings"):
        assert "a symbolic link, which is not followed" in agent.error(name, recording="first")


def test_a_recording_with_a_journal_stays_as_it_is(tmp_path: Path) -> None:
    JournalFolder(tmp_path / "killed.jsonl", SESSION)
    write(tmp_path / "begun.jsonl", recordings.HANDSHAKE)
    JournalFolder(tmp_path / "begun.jsonl", SESSION)
    before = seen(tmp_path)
    agent = Agent(tmp_path)
    said = asked(agent)
    assert seen(tmp_path) == before
    assert "mcpproxy show completes it" in said
    assert agent("describe_recording", recording="begun")["rows"] == 2
    assert "killed" in agent.error("get_call", call=1, recording="killed")


def test_nothing_is_written_beside_recordings(tmp_path: Path) -> None:
    folder = with_situations(tmp_path / "f")
    before = seen(tmp_path)
    asked(Agent(folder))
    assert seen(tmp_path) == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe\x00",
        recordings.HEADER.encode() + b"\n" + b"garbage\n" * 3,
        recordings.HEADER.encode() + b'\n{"type":"frame","seq":1,',
        recordings.HEADER.replace('"format":1', '"format":99').encode() + b"\n",
    ],
    ids=["empty", "blank", "no header", "deep", "binary", "damaged", "torn", "newer format"],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.jsonl").write_bytes(content)
    write(tmp_path / "good.jsonl", recordings.CLEAN)
    agent = Agent(tmp_path)
    assert {row["recording"] for row in agent("list_recordings")["recordings"]} == {"bad", "good"}
    assert any(row["recording"] == "good" for row in calls_in(agent("find_calls")))
    assert "missing" in told(agent, "bad") or told(agent, "bad")["error"].startswith("bad: ")


def test_a_recording_that_is_damaged_inside_does_not_hide_the_others(tmp_path: Path) -> None:
    write(tmp_path / "good.jsonl", recordings.CLEAN)
    gap = '{"type":"gap","t":1,"reason":"a gap without its members"}'
    write(tmp_path / "bad.jsonl", (*recordings.CLEAN[:-1], gap))
    agent = Agent(tmp_path)
    found = agent("find_calls")
    assert {row["recording"] for row in calls_in(found)} == {"good"}
    assert found["unreadable"] == 1
    fault = agent.error("find_calls", recording="bad")
    assert fault.startswith(f"bad: line {len(recordings.CLEAN)}: a record without ")
    assert fault.endswith("; choose another recording")


@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"password":', "}")])
def test_json_of_any_depth_is_shown(tmp_path: Path, depth: int, opening: str, closing: str) -> None:
    inner = '"correct-horse-7"'
    about = Conversation()
    about.asks(1, "tools/call", {"name": "t", "arguments": {}}, ms=1)
    result = f"{opening * depth}{inner}{closing * depth}"
    about.says("server", f'{{"jsonrpc":"2.0","id":1,"result":{result}}}', 2)
    write(tmp_path / "deep.jsonl", tuple(about.records))
    agent = Agent(tmp_path)
    asked(agent)
    agent("get_call", call=1)
    text = "".join(page["text"] for page in agent.pages("get_frame", frame=2))
    assert ("correct-horse" in text) == (opening == "[")
    agent("compare_recordings", before="deep", after="deep")


def test_a_text_of_10_mb_is_masked_once_for_all_of_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = Conversation()
    about.asks(1, "tools/call", {"name": "t", "arguments": {}}, ms=1)
    about.answers(1, {"content": [{"type": "text", "text": "0123456789" * 1_000_000}]}, ms=2)
    write(tmp_path / "large.jsonl", tuple(about.records))
    agent = Agent(tmp_path)
    shown = list[object]()

    def text_of_record(record: object) -> tuple[str, str]:
        shown.append(record)
        return read(record)

    read = call_tools.text_of_record
    agent("get_call", call=1)
    asked(agent)
    monkeypatch.setattr(call_tools, "text_of_record", text_of_record)
    page, size = agent("get_frame", frame=2), 0
    for _ in range(5):
        size += len(page["text"])
        page = agent("get_frame", frame=2, cursor=page["next"])
    assert page["characters"] > 10_000_000
    assert size > 40_000
    assert len(shown) == 1


def test_no_answer_has_control_characters(tmp_path: Path) -> None:
    odd = "\ud800 \x00 \x1b[2J \x7f \x9b \u200b \u202e \ufeff \U000e0041"
    request = {
        "jsonrpc": "2.0",
        "id": odd,
        "method": "tools/call",
        "params": {"name": odd, "arguments": {odd: odd}},
    }
    answer = {"jsonrpc": "2.0", "id": odd, "error": {"code": -1, "message": odd}}
    frames = [
        {"type": "frame", "seq": 1, "t": 1, "from": "client", "message": request},
        {"type": "frame", "seq": 2, "t": 2, "from": "server", "message": answer},
        {"type": "frame", "seq": 3, "t": 3, "from": "server", "base64": "/v8AgBsbP8E="},
        {"type": "stderr", "t": 4, "text": odd},
    ]
    records = [json.dumps(record, separators=(",", ":")) for record in frames]
    write(tmp_path / "odd.jsonl", (recordings.HEADER, *records, recordings.finding("PROTO-007", 2, odd)))
    agent = Agent(tmp_path)
    answers = [agent("get_frame", frame=frame) for frame in (1, 2, 3)]
    answers += [agent("get_call", call=row["call"]) for row in calls_in(agent("find_calls", recording="odd"))]
    said = asked(agent) + json.dumps(answers, ensure_ascii=False)
    assert said.isprintable()


@posix
def test_a_name_that_is_not_utf_8_is_a_handle(tmp_path: Path) -> None:
    try:
        write(tmp_path / os.fsdecode(b"\xff.jsonl"), recordings.CLEAN)
    except OSError:
        pytest.skip("the file system takes only names in UTF-8")
    agent = Agent(tmp_path)
    (row,) = agent("list_recordings")["recordings"]
    assert agent("describe_recording", recording=row["recording"])["rows"] == 4


def test_names_with_strange_characters_are_handles(tmp_path: Path) -> None:
    names = ["a\u202eb", "new\nline", "esc\x1b[2J", "x" * 240, "-1", ".hidden", "emoji 😀"]
    for name in names:
        write(tmp_path / f"{name}.jsonl", recordings.CLEAN)
    agent = Agent(tmp_path)
    rows = [row for page in agent.pages("list_recordings") for row in page["recordings"]]
    assert len(rows) == len(names)
    for row in rows:
        assert row["recording"].isprintable()
        assert agent("describe_recording", recording=row["recording"])["rows"] == 4


def test_recordings_below_subfolders_have_handles(tmp_path: Path) -> None:
    (tmp_path / "ci" / "linux").mkdir(parents=True)
    write(tmp_path / "ci" / "linux" / "s.jsonl", recordings.CLEAN)
    assert Agent(tmp_path)("describe_recording")["about"]["recording"] == "ci/linux/s"


def test_texts_of_any_length_and_kind_fit_into_an_answer(tmp_path: Path) -> None:
    long = '\\"\u0001\u202e☃' * 4_000
    about = Conversation(label=long, command=[long] * 50)
    about.asks(
        1,
        "initialize",
        {"protocolVersion": long, "capabilities": {}, "clientInfo": {"name": long, "version": long}},
        ms=1,
    )
    about.answers(
        1,
        {"protocolVersion": long, "capabilities": {}, "serverInfo": {"name": long, "version": long}},
        ms=2,
    )
    for number in range(20):
        about.asks(long[:2000] + str(number), long, {"name": long, "arguments": {long: long}}, ms=3)
    found = [recordings.finding("PROTO-007", 3, long) for _ in range(40)]
    unknown = [recordings.finding(long[:50], 3, long) for _ in range(3)]
    write(tmp_path / "long.jsonl", (*about.records, *found, *unknown))
    write(tmp_path / "other.jsonl", recordings.CLEAN)
    agent = Agent(tmp_path)
    said = asked(agent)
    assert "\u202e" not in said  # it stands there as an escape
    agent("get_call", recording="long", call=1)
    agent("get_frame", recording="long", frame=1)
    agent("compare_recordings", before="other", after="long")
    agent("compare_recordings", before="long", after="other")


def test_many_recordings_are_searched_in_parts(tmp_path: Path) -> None:
    for number in range(70):
        write(tmp_path / f"{number:02}.jsonl", recordings.CLEAN)
    (none,) = Agent(tmp_path).pages("find_calls", filter="method:no-such-method")
    assert none["note"] == "searched 70 of 70 recordings, no call fits"
    ticks = count()  # a tenth of a second between two looks at the clock
    tools = RecordingTools(RecordingLibrary(str(tmp_path)), clock=lambda: next(ticks) / 10)
    pages = [tools.find_calls("method:no-such-method")]
    while pages[-1].next:
        pages.append(tools.find_calls("method:no-such-method", cursor=pages[-1].next))
    assert [page.searched for page in pages] == [20, 40, 60, 70]
    assert [page.found for page in pages] == [[], [], [], []]
    more = "no call found so far; call again with next as cursor"
    assert [page.note for page in pages] == [
        *(f"searched {number} of 70 recordings, {more}" for number in (20, 40, 60)),
        "searched 70 of 70 recordings, no more calls",
    ]


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.hex()))
def test_no_text_is_a_cursor_by_chance(text: str) -> None:
    if text:
        with pytest.raises(AgentError, match=r"^cursor: "):
            cursors.read(("find_calls", "", ""), text)


@given(st.integers(0, 1 << 60), st.text())
def test_a_cursor_gives_its_position_back(number: int, recording: str) -> None:
    question = ("find_calls", "tool:*", recording)
    position = number, cursors.mark_of(recording)
    assert cursors.read(question, cursors.write(question, number, recording)) == position


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (r'"\ud800"', r'"\ufffd"'),
        (r'"\uDfff\ud83d\ude00\ud83d"', r'"\ufffd\ud83d\ude00\ufffd"'),
        (r'"\\ud800 \\\ud800"', r'"\\ud800 \\\ufffd"'),
        (r'"\ud83d\u0041\n"', r'"\ufffd\u0041\n"'),
        (r'"plain \u00e9"', r'"plain \u00e9"'),
    ],
)
def test_half_a_surrogate_pair_is_read_as_no_character(sent: str, read: str) -> None:
    assert whole_characters(sent) == read
    json.loads(read).encode()


def test_a_call_with_half_a_surrogate_pair_gets_its_answer(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    said = [
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        *(
            f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call",'
            f'"params":{{"name":"find_calls","arguments":{given}}}}}'
            for id, given in enumerate(
                [r'{"filter":"\ud800"}', r'{"recording":"\udc00"}', r'{"\ud800":1}'], 1
            )
        ),
    ]
    command = [sys.executable, "-m", "mcpproxy", "mcp", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(said) + "\n")
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(4)]
        process.stdin.close()
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3]
