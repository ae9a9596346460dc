"""Recordings of every state: still running, cut, damaged, rotated, imported, with an index that is kept."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.read.view.call_reader import PREVIEW_CHARACTERS, beginning_preview, shortened
from mcpproxy.read.view.calls import Role
from mcpproxy.read.view.index import saved_index, scan_messages
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.recorder.lock import Lock
from mcpproxy.record.relay import journal
from tests.peers.processes import ROOT
from tests.trace.test_foreign import TALK, mcpsnoop
from tests.view.situations import (
    INITIALIZE,
    INITIALIZED,
    SITUATIONS,
    C,
    Conversation,
    S,
    begun,
    forecast,
    text,
    write,
)

MS = 1_000_000


class Recorder:
    """A recording that is being made: it appends records, and holds the lock of the journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        Path(journal.folder(str(path))).mkdir(mode=0o700)
        lock = Lock.take(journal.folder(str(path)))
        assert lock is not None
        self._lock = lock
        self._written = 0

    def append(self, session: Conversation, *, torn: int = 0) -> None:
        """Write the new records of ``session``, the last one without its last ``torn`` bytes."""
        said = "".join(record + "\n" for record in session.records).encode()
        with self.path.open("ab") as file:
            file.write(said[self._written : len(said) - torn])
        self._written = len(said) - torn

    def end(self) -> None:
        """Stop recording."""
        self._lock.release()
        for file in Path(journal.folder(str(self.path))).iterdir():
            file.unlink()
        Path(journal.folder(str(self.path))).rmdir()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path / "live.jsonl")
    yield made
    if os.path.isdir(journal.folder(str(made.path))):
        made.end()


def test_a_running_recording_grows_row_by_row(recorder: Recorder) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    recorder.append(session)
    with open_view(recorder.path) as view:
        assert (view.running, view.count(), view.notes) == (True, 4, ("still recording",))
        waiting = view.call(4)
        assert (waiting.outcome, waiting.latency_ns) == (Outcome.UNANSWERED, None)
        assert waiting.waited_ns is not None
        assert waiting.waited_ns > 100 * MS  # until now: the clock of this machine
        assert view.count("status:pending latency:>100ms") == 1
        assert view.refresh().first == 0
        session.asks(3, "ping", ms=110)
        session.answers(2, text("Oslo: sunny"), ms=120)
        recorder.append(session, torn=20)  # the answer is not whole yet
        assert (view.refresh().first, view.count("tool:* status:ok")) == (5, 0)
        recorder.append(session)
        changed = view.refresh()
        assert (changed.first, changed.count, changed.running, changed.rebuilt) == (4, 5, True, False)
        assert (view.count("tool:* status:ok"), view.count("status:pending"), view.count("sunny")) == (
            1,
            1,
            1,
        )
        assert view.call(4).result == "Oslo: sunny"
        session.closes(ms=200)
        recorder.append(session)
        recorder.end()
        assert not view.refresh().running
        assert not view.notes
        assert view.call(5).waited_ns == 90 * MS
        assert view.refresh().first == 0


def test_a_filter_follows_a_running_recording(recorder: Recorder) -> None:
    session = begun()
    recorder.append(session)
    with open_view(recorder.path) as view:
        assert [view.count(filter) for filter in ("tool:forecast", "sunny", "latency:>5ms")] == [0, 0, 1]
        for number in range(3):
            session.asks(number + 2, "tools/call", forecast("Oslo"), ms=100 + 20 * number)
            session.answers(number + 2, text("sunny" if number else "rain"), ms=110 + 20 * number)
            recorder.append(session)
            view.refresh()
            assert view.count("tool:forecast") == number + 1
            assert view.count("sunny") == number
            assert view.count("latency:>5ms") == number + 2


def test_a_recording_that_was_replaced_is_read_again(recorder: Recorder) -> None:
    session = begun()
    recorder.append(session)
    with open_view(recorder.path) as view:
        other = recorder.path.with_suffix(".other")
        write(other, tuple(begun().records[:3]))
        os.replace(other, recorder.path)
        changed = view.refresh()
        assert (changed.rebuilt, changed.first, changed.count) == (True, 1, 1)
        assert view.count() == 1


def test_a_recording_that_was_deleted_says_so(recorder: Recorder) -> None:
    recorder.append(begun())
    with open_view(recorder.path) as view:
        recorder.path.unlink()
        with pytest.raises(TraceError):
            view.refresh()


def test_a_cut_recording_shows_what_is_whole(tmp_path: Path) -> None:
    records = begun().records
    path = tmp_path / "cut.jsonl"
    path.write_text("\n".join(records) + '\n{"type":"frame","seq":6,"t":1', encoding="utf-8")
    with open_view(path) as view:
        assert view.count() == 3
        assert view.notes
        assert view.notes == (
            "line 7: cut off mid-record; 6 records read",
            "no close record: the recording was cut off",
        )


def test_a_last_record_without_its_line_feed_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "whole.jsonl"
    path.write_text("\n".join(finding_session()), encoding="utf-8")
    with open_view(path) as view:
        assert not view.notes
        assert view.ended is not None


def test_a_damaged_line_ends_the_rows_and_is_named(tmp_path: Path) -> None:
    records = [*begun().records, "{", *begun().records[1:]]
    with open_view(write(tmp_path / "damaged.jsonl", tuple(records))) as view:
        assert view.count() == 3
        assert view.notes == ("line 7: not a trace record; the 6 records before it are whole",)


@pytest.mark.parametrize("t", ["-5", str(1 << 63), "1e300", "null"])
def test_a_record_with_an_impossible_time_ends_the_rows_or_counts(t: str, tmp_path: Path) -> None:
    record = (
        '{"type":"frame","seq":6,"t":%s,"from":"client","message":{"jsonrpc":"2.0","id":9,"method":"ping"}}'
    )
    with open_view(write(tmp_path / "odd.jsonl", (*begun().records, record % t))) as view:
        assert view.count() in (3, 4)
        assert [call.number for call in view.calls()] == list(range(1, view.count() + 1))


@pytest.mark.parametrize(
    "record", ['"frame","seq":6,"from":"server","message":{"id":77,"result":{}}', '"note"']
)
def test_a_time_that_is_no_number_ends_the_rows_and_is_named(record: str, tmp_path: Path) -> None:
    odd = f'{{"type":{record},"t":"noon"}}'
    with open_view(write(tmp_path / "odd.jsonl", (*begun().records, odd))) as view:
        assert [call.number for call in view.calls()] == [1, 2, 3]
        assert view.notes[0].startswith("line 7: ")


@pytest.mark.parametrize("member", ["session", "target"])
def test_a_head_with_a_number_for_a_text_ends_the_rows_and_is_named(member: str, tmp_path: Path) -> None:
    lines = (ROOT / "recordings" / "everything-http-2025-06-18.jsonl").read_text("utf-8").splitlines()
    at = next(at for at, line in enumerate(lines) if '"type":"request"' in line and f'"{member}":' in line)
    lines[at] = json.dumps({**json.loads(lines[at]), "method": "GET", member: 1.5})
    with open_view(write(tmp_path / "odd.jsonl", tuple(lines))) as view:
        assert all(session.name.isalnum() for session in view.sessions)
        assert view.notes[0].startswith(f"line {at + 1}: ")


def test_a_rotated_recording_is_one(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    first = list(session.records)
    session.answers(2, text("Oslo: sunny"), ms=112)
    later = session.closes(ms=200)[len(first) :]
    tally = {"frames": {C: 4, S: 2}, "findings": {"error": 0, "warning": 0, "info": 0}, "judge_error": None}
    continued = json.dumps(
        {"type": "continued", "t": 105 * MS, "in": "s.2.jsonl", **tally}, separators=(",", ":")
    )
    header = json.dumps({**json.loads(first[0]), "continues": "s.jsonl"}, separators=(",", ":"))
    write(tmp_path / "s.jsonl", (*first, continued))
    write(tmp_path / "s.2.jsonl", (header, *later))
    for name in ("s.jsonl", "s.2.jsonl"):
        with open_view(tmp_path / name) as view:
            assert (view.notes, view.count(), view.call(4).result) == ((), 4, "Oslo: sunny")
            assert view.count('"oslo: sunny"') == 1
            assert [part.seq for part in view.parts(4).parts] == [6, 7]


def test_a_recording_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "snoop.jsonl"
    path.write_text(mcpsnoop(*TALK), encoding="utf-8")
    with open_view(path) as view:
        assert [(call.method, call.outcome) for call in view.calls("kind:request")] == [
            ("initialize", Outcome.OK),
            ("tools/list", Outcome.OK),
        ]
        assert view.not_judged
        assert view.found == "not judged"
        assert view.notes[0].startswith("imported ")


def test_a_recording_whose_judge_failed_says_so(tmp_path: Path) -> None:
    *records, close = begun().closes(ms=200)
    with open_view(write(tmp_path / "s.jsonl", (*records, close))) as view:
        assert view.not_judged == ""
        assert view.found == "no findings"
    failed = close.replace('"judge_error":null', '"judge_error":"KeyError: 7"')
    with open_view(write(tmp_path / "s.jsonl", (*records, failed))) as view:
        assert view.not_judged == (
            "not everything was judged while recording: KeyError: 7; mcpproxy check judges it again"
        )


def test_only_the_session_that_initialize_began_has_its_client(tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=1)
    session.asks(0, "initialize", INITIALIZE, ms=1, exchange=1, connection=1)
    session.responds(1, 200, ms=2, session="1a2b3c4d")
    session.answers(0, INITIALIZED, ms=2, exchange=1, connection=1, session="1a2b3c4d")
    session.ends(1, ms=3)
    session.posts(2, ms=5, method="GET")  # another program, which is given a session of its own
    session.responds(2, 400, ms=6, session="5e6f7a8b")
    session.fails(None, -32600, "no session id", ms=6, exchange=2, connection=2, session="5e6f7a8b")
    session.ends(2, ms=7)
    session.posts(3, ms=8, method="GET", target="/elsewhere")  # and one without a session
    session.responds(3, 404, ms=9)
    session.ends(3, ms=9)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=20))) as view:
        peers = {each.name: (each.client, each.server, each.revision) for each in view.sessions}
        assert peers == {
            "1a2b3c4d": ("desk", "weather", "2025-11-25"),
            "5e6f7a8b": ("", "", ""),
            "": ("", "", ""),
        }


NOTE = {"uri": "note://1", "text": "milk"}
IMAGE = {"uri": "note://2", "blob": "AAA=", "mimeType": "image/png"}
ASKED = {"role": "user", "content": {"type": "text", "text": "Sum up"}}
SHOWN = [
    ("resources/read", {"contents": [NOTE, IMAGE]}, "milk [blob image/png]"),
    ("prompts/get", {"description": "A summary", "messages": [ASKED]}, "Sum up"),
    ("prompts/get", {"messages": "none"}, '{"messages":"none"}'),
]


@pytest.mark.parametrize(("method", "result", "shown"), SHOWN)
def test_an_answer_is_shown_by_the_text_of_its_content(
    tmp_path: Path, method: str, result: object, shown: str
) -> None:
    session = begun()
    session.asks(2, method, {"uri": "n:1", "name": "sum"}, ms=100)
    session.answers(2, result, ms=101)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert view.call(4).result == shown


def test_the_error_is_shown_of_an_answer_with_a_result_and_an_error(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "ping", ms=100)
    session.says(
        S, {"jsonrpc": "2.0", "id": 2, "result": {}, "error": {"code": -1, "message": "both"}}, ms=101
    )
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert (view.call(4).outcome, view.call(4).result) == (Outcome.RPC_ERROR, "both")


def test_an_error_to_no_open_request_says_that_it_is_one(tmp_path: Path) -> None:
    session = begun()
    session.fails(None, -32700, "Parse error", ms=100)
    session.says(S, {"jsonrpc": "2.0", "id": 9, "error": {"code": "E1", "message": "odd"}}, ms=101)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert [call.result for call in view.calls("kind:answer")] == [
            "error -32700: Parse error",
            "error: odd",
        ]


def test_bytes_are_those_of_the_wire(tmp_path: Path) -> None:
    session = begun()
    odd = '{"jsonrpc" : "2.0",  "id":2, "method":"ping" }'
    session.records.append('{"type":"frame","seq":6,"t":100,"from":"client","message":' + odd + "}")
    session.records.append('{"type":"frame","seq":7,"t":101,"from":"server","base64":"//4="}')
    session.records.append(
        '{"type":"lines","seq":8,"count":4,"t":102,"from":"server","text":"a\\nb\\nc\\nd"}'
    )
    with open_view(write(tmp_path / "odd.jsonl", tuple(session.records))) as view:
        assert [view.raw(seq) for seq in (6, 7, 8, 11)] == [odd.encode(), b"\xff\xfe", b"a", b"d"]
        assert [view.columns.row_of(seq) for seq in (6, 7, 8, 11)] == [4, 5, 6, 6]
        assert [call.kind for call in view.calls("call:5..")] == [Kind.NOT_A_MESSAGE] * 2
        with pytest.raises(LookupError):
            view.raw(99)


def test_short_lines_in_one_record_are_parts_of_their_row(tmp_path: Path) -> None:
    session = begun()
    run = {"seq": 6, "count": 4, "from": "server", "text": "a\nb\n\nd"}
    session.record("lines", 60, run)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        row = view.columns.row_of(6)
        assert [(part.seq, part.summary) for part in view.parts(row).parts] == [
            (6, "a"),
            (7, "b"),
            (8, ""),
            (9, "d"),
        ]
        few = view.parts(row, limit=3)
        assert ([part.seq for part in few.parts], few.left_out) == ([6, 8, 9], 1)


def test_stderr_between_calls_is_one_row(tmp_path: Path) -> None:
    session = begun()
    for line in ("ready", "steady"):
        session.record("stderr", 60, {"text": line})
    session.asks(2, "ping", ms=100)
    session.answers(2, {}, ms=101)
    session.record("stderr", 110, {"text": "bye"})
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        rows = [(call.kind, call.arguments) for call in view.calls(start=3)]
        assert rows == [(Kind.STDERR, "(2 lines) steady"), (Kind.REQUEST, ""), (Kind.STDERR, "bye")]
        (part,) = view.parts(4).parts
        assert (part.lines, part.summary) == (2, "steady")


def test_stderr_that_is_read_just_after_an_error_belongs_to_its_call(tmp_path: Path) -> None:
    """A server writes to two pipes, and nobody can say in which order they are read."""
    session = begun()
    session.asks(2, "tools/call", forecast("Atlantis"), ms=100)
    session.answers(2, text("no such city", isError=True), ms=101)
    session.record("stderr", 101, {"text": "Traceback"})
    session.record("stderr", 151, {"text": "KeyError: 'Atlantis'"})
    session.record("stderr", 152, {"text": "too late"})
    session.asks(3, "tools/call", forecast("Lima"), ms=200)
    session.answers(3, text("sunny"), ms=201)
    session.record("stderr", 201, {"text": "after a success"})
    session.asks(4, "tools/call", forecast("Atlantis"), ms=210)
    session.fails(4, -32602, "no such city", ms=211)
    session.notifies("notifications/message", {"level": "info", "data": "hm"}, ms=212, by=S)
    session.record("stderr", 213, {"text": "after another message"})
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=300))) as view:
        rows = [(call.kind, call.outcome) for call in view.calls(start=3)]
        failed, late, succeeded = (Kind.REQUEST, Outcome.TOOL_ERROR), (Kind.STDERR, Outcome.NONE), Outcome.OK
        assert rows[:4] == [failed, late, (Kind.REQUEST, succeeded), late]
        assert rows[4:] == [(Kind.REQUEST, Outcome.RPC_ERROR), (Kind.NOTIFICATION, Outcome.NONE), late]
        assert view.parts(4).cause == "tool error: no such city. On stderr: KeyError: 'Atlantis'."


def test_stderr_just_after_an_error_does_not_belong_to_another_call_that_waits(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Atlantis"), ms=100)
    session.asks(3, "tools/call", forecast("Lima"), ms=101)
    session.answers(2, text("no such city", isError=True), ms=102)
    session.record("stderr", 103, {"text": "KeyError: 'Atlantis'"})
    session.record("stderr", 160, {"text": "Lima is far"})
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=300))) as view:
        assert view.parts(4).cause == "tool error: no such city. On stderr: KeyError: 'Atlantis'."
        assert "KeyError" not in view.parts(5).cause
        assert [part.summary for part in view.parts(5).parts if part.role is Role.LOG] == ["Lima is far"]


def test_a_log_message_between_two_open_calls_belongs_to_neither(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.asks(3, "tools/call", forecast("Lima"), ms=101)
    session.notifies("notifications/message", {"level": "info", "data": "hm"}, ms=102)
    session.answers(3, text("fog"), ms=103)
    session.answers(2, text("sun"), ms=104)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert view.call(6).method == "notifications/message"
        assert [part.role for part in view.parts(4).parts] == [Role.REQUEST, Role.ANSWER]


def test_an_agents_updates_belong_to_the_prompt_of_their_session(tmp_path: Path) -> None:
    session = Conversation()
    hello = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "editor", "version": "1"}}
    session.asks(0, "initialize", hello, ms=1)
    session.answers(0, {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}, ms=2)
    for id, name in ((1, "one"), (2, "two")):
        session.asks(id, "session/new", {"cwd": "/srv", "mcpServers": []}, ms=10 * id)
        session.answers(id, {"sessionId": name}, ms=10 * id + 1)
    for id, name in ((3, "one"), (4, "two")):
        prompt = {"sessionId": name, "prompt": [{"type": "text", "text": "hi"}]}
        session.asks(id, "session/prompt", prompt, ms=10 * id)
    for name in ("two", "one"):
        session.notifies("session/update", {"sessionId": name, "update": {}}, ms=50)
    session.asks(0, "fs/read_text_file", {"sessionId": "two", "path": "/srv/a"}, ms=60, by=S)
    session.answers(0, {"content": ""}, ms=61, by=C)
    session.notifies("session/cancel", {"sessionId": "one"}, ms=70, by=C)
    session.answers(3, {"stopReason": "cancelled"}, ms=71)
    session.answers(4, {"stopReason": "end_turn"}, ms=72)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=100))) as view:
        assert [(s.name, s.protocol, s.client) for s in view.sessions] == [
            ("", "acp", "editor"), ("one", "acp", ""), ("two", "acp", ""),
        ]  # fmt: skip
        one, two = view.calls("method:session/prompt")
        assert (one.outcome, two.outcome) == (Outcome.CANCELLED, Outcome.OK)
        roles = [Role.REQUEST, Role.MESSAGE, Role.CANCEL, Role.ANSWER]
        assert [part.role for part in view.parts(one.number).parts] == roles
        assert view.parts(two.number).inner == (6,)


def test_a_tool_call_of_an_agent_is_listed_below_its_prompt_where_it_begins_and_ends(tmp_path: Path) -> None:
    session = Conversation()
    session.asks(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}, ms=1)
    session.answers(0, {"protocolVersion": 1, "agentCapabilities": {}}, ms=2)
    session.asks(1, "session/prompt", {"sessionId": "one", "prompt": []}, ms=10)
    for ms, update in enumerate(
        (
            {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Build", "status": "pending"},
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"},
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"},
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Built."}},
        ),
        start=20,
    ):
        session.notifies("session/update", {"sessionId": "one", "update": update}, ms=ms)
    session.answers(1, {"stopReason": "end_turn"}, ms=30)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=100))) as view:
        rows = [view.call(row) for row in (3, 4)]
        assert [(row.parent, row.arguments) for row in rows] == [
            (2, "tool_call pending Build"),
            (2, "tool_call_update completed t"),
        ]
        assert view.count() == 4
        roles = [Role.REQUEST, *[Role.MESSAGE] * 4, Role.ANSWER]
        assert [part.role for part in view.parts(2).parts] == roles


def test_a_stateless_client_that_closes_the_stream_cancels_its_request(tmp_path: Path) -> None:
    session = Conversation(http=True)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "desk", "version": "2"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    for exchange in (1, 2):
        session.posts(exchange, ms=exchange)
        params = forecast("Oslo") | {"_meta": meta}
        session.asks(1, "tools/call", params, ms=exchange, exchange=exchange, connection=exchange)
        session.responds(exchange, 200, ms=10 + exchange, sse=True)
    session.ends(1, ms=20, cut_by=C)
    session.ends(2, ms=20, cut_by=S)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=30))) as view:
        assert [call.outcome for call in view.calls()] == [Outcome.CANCELLED, Outcome.UNANSWERED]
        assert [(s.client, s.revision) for s in view.sessions] == [("desk", "2026-07-28")]


def test_a_refused_request_and_an_answer_of_mcpproxy(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100, refused=True)
    error = {"code": -32600, "message": "refused by mcpproxy"}
    session.record("frame", 101, {"seq": 7, "from": S, "by": "proxy", "message": {"id": 2, "error": error}})
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        call = view.call(4)
        assert (call.outcome, call.error_code, call.result) == (
            Outcome.REFUSED,
            -32600,
            "refused by mcpproxy",
        )


def test_an_error_of_mcpproxy_without_an_id_answers_the_request_of_its_exchange(tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=1)
    session.asks(1, "ping", ms=1, exchange=1, connection=1)
    head: dict[str, object] = {"status": 502, "reason": "Bad Gateway", "version": "1.1", "headers": []}
    session.record("response", 2, {"seq": 3, "exchange": 1, "connection": 1, "by": "proxy", **head})
    error = {"code": -32000, "message": "mcpproxy: cannot connect"}
    about = {"seq": 4, "exchange": 1, "connection": 1, "from": S, "by": "proxy"}
    session.record("frame", 2, {**about, "message": {"jsonrpc": "2.0", "error": error}})
    session.ends(1, ms=3)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=20))) as view:
        rows = [(call.outcome, call.error_code, call.result) for call in view.calls()]
        assert rows == [(Outcome.REFUSED, -32000, "mcpproxy: cannot connect")]


def test_an_answer_that_was_too_long_to_be_judged_is_still_an_answer(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    whole = json.dumps({"jsonrpc": "2.0", "id": 2, "result": text("x" * 1000)})
    session.says(S, whole[:500], 110, continues=True)
    session.says(S, whole[500:], 120)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        call = view.call(4)
        assert (view.count(), call.outcome, call.answer_bytes) == (4, Outcome.OK, len(whole))


def test_a_huge_answer_is_shown_by_its_beginning(tmp_path: Path) -> None:
    session = begun()
    for id, result in ((2, text('say "x\u202e"\n' + "y" * 400_000)), (3, {"rows": [1, 2, 3] * 200_000})):
        session.asks(id, "tools/call", forecast("Oslo"), ms=100 * id)
        session.answers(id, result, ms=100 * id + 10)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=1000))) as view:
        first, second = view.calls("tool:*")
        assert (first.answer, second.answer) == (7, 9)
        assert first.result.startswith('say "x\\u202e"\\nyyy')
        assert second.result.startswith('{"rows":[1,2,3,1')
        assert {len(first.result), len(second.result)} == {240}


def test_a_batch_belongs_to_each_of_its_calls(tmp_path: Path) -> None:
    session = begun()
    calls = [{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": forecast(city)}
             for id, city in ((2, "Oslo"), (3, "Lima"))]  # fmt: skip
    session.says(C, calls, 100)
    session.says(S, [{"jsonrpc": "2.0", "id": id, "result": text("fog")} for id in (2, 3)], 110)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert [view.frames_of(f"call:{number}") for number in (4, 5)] == [[6, 7], [6, 7]]
        assert 6 not in view.frames_of("call:..3")


def test_a_preview_does_not_end_within_an_emoji() -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    for length in range(PREVIEW_CHARACTERS - 6, PREVIEW_CHARACTERS + 1):
        kept = shortened("x" * length + family + "y" * 9).strip("xy")
        assert kept in (f"{family}…", f"{family}y…", "…")


def test_a_huge_name_is_shortened(tmp_path: Path) -> None:
    session = begun()
    session.notifies("z" * 1_000_000, ms=100)
    session.asks(2, "tools/call", {"name": "t" * 1_000_000}, ms=101)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=1000))) as view:
        assert [len(call.method) for call in view.calls("call:4..")] == [240, 10]
        assert [len(call.target or "") for call in view.calls("tool:t*")] == [240]
        assert view.count("method:zzz*") == 1


def test_texts_are_safe_to_show(tmp_path: Path) -> None:
    session = begun()
    params = {"name": "fore\u202ecast", "arguments": {"city": "\x1b[31mOslo\u200b"}}
    session.asks(2, "tools/call", params, ms=100)
    session.answers(2, text("line\n\x07bell"), ms=101)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        call = view.call(4)
        assert call.target == "fore\\u202ecast"
        assert call.arguments == '{"city":"\\u001b[31mOslo\\u200b"}'
        assert call.result == "line\\n\\u0007bell"
        assert view.count("tool:fore*") == 1


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept indexes, which are kept for the smallest recordings, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(saved_index, "cache_dir", lambda: str(tmp_path / "cache" / "index"))
    monkeypatch.setattr("mcpproxy.read.view.index.indexed_trace.SMALLEST_SAVED_BYTES", 0)
    return tmp_path / "cache" / "index"


def finding_session() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    answer = session.answers(2, text("Oslo: sunny"), ms=112)
    session.finds("RES-004", answer, "something")
    return session.closes(ms=200)


def seen(view: View) -> tuple[object, ...]:
    return view.calls(), view.sessions, view.findings.by_rule(), view.tools.all(), view.notes


def test_an_index_is_kept_and_used(kept: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", finding_session())
    with open_view(path) as first:
        before = seen(first)
    (index,) = kept.iterdir()
    assert (index.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o600, 0o700)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cache", "s.jsonl"]
    with open_view(path) as again:
        assert seen(again) == before
        assert again.count("sunny severity:error") == 1


def test_a_kept_index_knows_who_left(kept: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", SITUATIONS["hanging call"])
    open_view(path).close()
    assert list(kept.iterdir())
    with open_view(path) as again:
        assert "client left after 5.00 s" in again.call(4).cause


@pytest.mark.parametrize("harm", ["cut", "zeros", "text"])
def test_a_damaged_index_is_not_used(harm: str, kept: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", finding_session())
    open_view(path).close()
    (index,) = kept.iterdir()
    data = index.read_bytes()
    index.write_bytes({"cut": data[:-50], "zeros": bytes(len(data)), "text": b"{}" * 400}[harm])
    with open_view(path) as view:
        assert view.count("tool:forecast") == 1


def test_the_index_of_a_changed_recording_is_not_used(kept: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", finding_session())
    open_view(path).close()
    before = os.stat(path)
    Path(path).write_text(Path(path).read_text("utf-8").replace("Oslo", "Rome"), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with open_view(path) as view:
        assert view.call(4).result == "Rome: sunny"
        assert view.count("oslo") == 0


def test_no_link_is_followed_to_keep_an_index(kept: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept.parent.mkdir()
    kept.symlink_to(elsewhere)
    with open_view(write(tmp_path / "s.jsonl", finding_session())) as view:
        assert view.count() == 4
    assert list(elsewhere.iterdir()) == []


def test_an_index_folder_that_others_may_write_to_is_not_used(kept: Path, tmp_path: Path) -> None:
    kept.mkdir(parents=True)
    kept.chmod(0o777)
    with open_view(write(tmp_path / "s.jsonl", finding_session())) as view:
        assert view.count() == 4
    assert list(kept.iterdir()) == []


def test_more_sessions_than_there_are_numbers_count_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_messages, "_MAX_SESSIONS", 2)
    talk = Conversation(http=True)
    for number, name in enumerate(("a", "b", "c"), 1):
        talk.posts(number, ms=number, session=name)
        talk.asks(1, "ping", ms=number, exchange=number, connection=number)
    with open_view(write(tmp_path / "s.jsonl", talk.closes(ms=9))) as view:
        assert [session.name for session in view.sessions] == ["a", "b"]


@pytest.mark.parametrize("header", ["mcp-session-id", "Mcp-Session-Id", "MCP-SESSION-ID"])
def test_a_trace_without_names_of_sessions_gets_them_from_the_headers(header: str, tmp_path: Path) -> None:
    recorded = (ROOT / "recordings" / "everything-http-2025-06-18.jsonl").read_text()
    bare = re.sub(r'"session":"[0-9a-f]{8}",', "", recorded).replace("mcp-session-id", header)
    path = tmp_path / "session.jsonl"
    path.write_text(bare)
    with open_view(str(path)) as view:
        assert [session.name for session in view.sessions] == ["42bbfcc8"]


LARGE_TEXTS = {
    "JSON in a text": (json.dumps({"rows": [{"name": "a"}] * 20_000}), '{"rows": [{"name": "a"}, {"name'),
    "a short one before a large result": ("12 %", "12 %"),
    "characters of two escapes": ("\U0001f642" * 40_000, "\U0001f642" * 239 + "…"),
    "a hidden character": ("a\u202eb" + "c" * 300_000, "a\\u202ebccc"),
}


@pytest.mark.parametrize(("said", "shown"), LARGE_TEXTS.values(), ids=LARGE_TEXTS)
def test_the_beginning_of_a_large_text_is_shown_as_it_reads(tmp_path: Path, said: str, shown: str) -> None:
    session = begun()
    session.asks(7, "tools/call", forecast("Oslo"), ms=100)
    session.answers(7, text(said, structuredContent={"rest": "x" * 300_000}), ms=120)
    with open_view(write(tmp_path / "t.jsonl", session.closes(ms=200))) as view:
        row = view.calls()[-1]
    assert row.answer_bytes > 256 << 10
    assert row.result.startswith(shown)
    assert len(row.result) <= 240


def test_a_large_text_with_an_escape_that_json_lacks_is_shown_as_written() -> None:
    assert beginning_preview(b'{"seq":1,"message":{"result":{"content":[{"text":"C:\\data') == "C:\\data"
