"""Why a call failed: the sentence, and the lines on stderr that say it, on every face."""

import asyncio
import io
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from traceback import format_exception

import pytest
from rich.console import Console
from rich.logging import RichHandler

from mcpproxy.base.telling_line import telling_line
from mcpproxy.cli.main import main
from mcpproxy.judge.session.frame import Stderr
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.read.view.call_reader import CallReader
from mcpproxy.read.view.calls import Role
from mcpproxy.read.view.causes import LOST
from mcpproxy.read.view.view import open_view
from mcpproxy.record.trace.records import Record
from mcpproxy.show.tui.call_lines import call_line
from mcpproxy.show.tui.detail_lines import detail_lines
from mcpproxy.show.ui import json_rows
from tests.agents.agent import Agent, calls_in
from tests.view.situations import SITUATIONS, Conversation, begun, forecast, text, write
from tests.view.test_exchange_ends import opened

CALL = 4
HIDDEN = "Error executing tool forecast"
REASON = "ValueError: db: connection reset while reading order 7"
TRACEBACK = [f"  │ {number:>3} │     rows = connection.read(order)   " for number in range(134)]


def a_hidden_cause() -> tuple[str, ...]:
    """A tool fails, its client learns nothing, and 136 lines on stderr say why."""
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    for number, line in enumerate(["Traceback (most recent call last):", *TRACEBACK, REASON]):
        session.record("stderr", 101 + number / 100, {"text": line})
    session.answers(2, {"content": [{"type": "text", "text": HIDDEN}], "isError": True}, ms=110)
    return session.closes(ms=200)


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    return write(tmp_path / "s.jsonl", a_hidden_cause())


def test_successive_lines_on_stderr_are_one_part(recorded: str) -> None:
    with open_view(recorded) as view:
        detail = view.parts(CALL)
        assert [(part.role, part.lines) for part in detail.parts] == [
            (Role.REQUEST, 1),
            (Role.LOG, 136),
            (Role.ANSWER, 1),
        ]
        assert [part.role for part in detail.told] == [Role.REQUEST, Role.ANSWER, Role.LOG]
        assert detail.told[-1].summary == REASON
        assert detail.cause == f"tool error: {HIDDEN}. On stderr: {REASON}."


def test_lines_beside_what_was_left_out_are_not_successive(recorded: str) -> None:
    with open_view(recorded) as view:
        detail = view.parts(CALL, limit=20)
        assert [part.lines for part in detail.parts] == [1, 9, 9, 1]
        assert detail.left_out == 118
        on_stderr = [part.record for part in detail.parts if isinstance(part.record, Stderr)]
        assert on_stderr[-1].raw.endswith(REASON.encode())


def test_the_terminal_says_the_line_that_matters_and_where_the_others_are(
    recorded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", recorded]) == 0
    assert f"stderr: {REASON} (136 lines: show --call {CALL})" in capsys.readouterr().out
    assert main(["show", "--call", str(CALL), recorded]) == 0
    shown = capsys.readouterr().out
    places = [
        shown.index(text) for text in (f"On stderr: {REASON}.", '"arguments"', '"isError"', "136 lines")
    ]
    assert places == sorted(places)
    assert len(shown.splitlines()) < 170


def test_where_the_others_are_holds_for_any_recording_of_the_state_directory(
    recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "state/mcpproxy"
    folder.mkdir(parents=True)
    shutil.copy(recorded, folder / "20261129T110000.000Z-flaky-4711.jsonl")
    shutil.copy(recorded, folder / "20261129T120000.000Z-other-4712.jsonl")
    assert main(["show", "flaky-4711"]) == 0
    hint = f"show --call {CALL} flaky-4711"
    assert f"stderr: {REASON} (136 lines: {hint})" in capsys.readouterr().out
    assert main(hint.split()) == 0
    assert "flaky-4711.jsonl" in capsys.readouterr().err


def test_an_agent_learns_the_cause_in_two_kilobytes(recorded: str) -> None:
    with Agent(Path(recorded).parent) as agent:
        found = agent("get_call", call=CALL)
        assert len(json.dumps(found)) < 2048
        assert REASON in found["cause"]
        assert [part["role"] for part in found["parts"]] == ["request", "answer", "stderr"]
        assert found["parts"][-1]["text"].endswith(REASON)
        assert "full=true" in found["more"]
        assert len(agent("get_call", call=CALL, full=True)["parts"][-1]["text"]) > 1000


NO_NUMBER = "ValueError: invalid literal for int() with base 10: 'n/a'"
TOLD = f"RuntimeError: Error executing tool stock, caused by {NO_NUMBER}"


def stocked() -> object:
    return int("n/a")


def an_error_in_a_box(fail: Callable[[], object] = stocked) -> tuple[str, ...]:
    """A tool fails, and what the SDK for Python logs of it ends with the bottom of a box and broken text."""
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    for line in logged_by_rich(raised(fail), 80):
        session.record("stderr", 101, {"text": line})
    session.answers(2, {**text("Error executing tool stock"), "isError": True}, ms=110)
    return session.closes(ms=200)


def test_a_preview_of_stderr_has_the_line_that_tells_most(tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", an_error_in_a_box())) as view:
        detail = view.parts(CALL)
    with Agent(tmp_path) as agent:
        on_stderr = agent("get_call", call=CALL)["parts"][-1]
    assert (on_stderr["role"], on_stderr["text"]) == ("stderr", NO_NUMBER)
    in_terminal = ["".join(span.text for span in line) for line in detail_lines(detail, 100)]
    left_out = detail.told[-1].lines - 1
    assert in_terminal[-2:] == [f"  … {left_out} lines left out: r shows all", f"  {NO_NUMBER}"]


PRICE = "LookupError: the price of cake is not a number in line 17"


def priced() -> None:
    try:
        stocked()
    except ValueError as fault:
        raise LookupError(PRICE.partition(": ")[2]) from fault


def test_of_three_errors_every_face_leaves_out_the_one_that_the_answer_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, told = write(tmp_path / "s.jsonl", an_error_in_a_box(priced)), f"{PRICE}, caused by {NO_NUMBER}"
    with open_view(path) as view:
        detail = view.parts(CALL)
        assert view.call(CALL).cause == f"stderr: {told}"
    assert detail.cause.endswith(f" On stderr: {told}.")
    assert [part.summary for part in detail.parts if isinstance(part.record, Stderr)] == [told]
    with Agent(tmp_path) as agent:
        assert agent("get_call", call=CALL)["parts"][-1]["text"] == told
    assert main(["show", path]) == 0
    assert f"stderr: {told} (" in capsys.readouterr().out


@pytest.mark.parametrize("known", ["", "it failed: ValueError: no such city"])
def test_where_the_answer_says_every_error_the_last_of_them_is_told(known: str) -> None:
    lines = ["ValueError: no such city", "INFO closed"]
    assert telling_line(lines, known=known) == lines[0]
    assert telling_line(lines, known=known, only_errors=True) == ("" if known else lines[0])


CAUSES = {
    "wrong id": 'The server answered after 12.0 ms with the id "2", a string (row 5).',
    "failed tool": "tool error: no such city: Atlantis.",
    "hanging call": "until the recording ended: the client left after 5.00 s, then the server exited with 0.",
    "cancelled call": "The client cancelled the call after ",
    "server crash": "the server exited with 1. On stderr: ZeroDivisionError: division by zero.",
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_call_that_failed_or_has_no_answer_says_why(name: str, tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", SITUATIONS[name])) as view:
        lost = [call.number for call in view.calls() if call.outcome in LOST]
        causes = [cause for number in lost if (cause := view.parts(number).cause)]
        assert len(causes) == len(lost)
        if name in CAUSES:
            (cause,) = causes
            assert CAUSES[name] in cause


IN_THE_ROW = {
    "failed tool": "no such city: Atlantis",
    "hanging call": "client left after 5.00 s, then the server exited with 0",
    "cancelled call": "too slow",
    "wrong id": 'answered with the id "2" (row 5)',
    "server crash": "server exited with 1: ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_row_of_a_call_without_a_result_says_why_in_a_few_words(name: str, tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", SITUATIONS[name])) as view:
        said = [call.result or call.cause for call in view.calls() if call.outcome in LOST]
        assert said == ([IN_THE_ROW[name]] if name in IN_THE_ROW else [])
        assert not [call for call in view.calls() if call.cause and call.outcome not in LOST]


@pytest.mark.parametrize(("content", "before"), [([{"type": "text", "text": HIDDEN}], "stderr: "), ([], "")])
def test_a_reason_that_stands_on_stderr_only_is_in_the_row(
    content: list[object], before: str, tmp_path: Path
) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.record("stderr", 101, {"text": REASON})
    if content:
        session.answers(2, {"content": content, "isError": True}, ms=110)
    else:
        session.fails(2, -32000, "", ms=110)
    session.record("stderr", 111, {"text": "that was the only connection"})
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert view.call(CALL).cause == f"{before}{REASON}"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            json.dumps({"error": {"message": "no such city", "code": 5}}, indent=2),
            '{"error": {"message": "no such city", "code": 5}}',
        ),
        (
            json.dumps([{"loc": ["a"], "msg": "required\n here"}], indent=4),
            '[{"loc": ["a"], "msg": "required\\n here"}]',
        ),
        ('Error: 400\n{\n  "a": {}\n}', 'Error: 400\\n{"a": {}}'),
        ("first line,\nsecond line", "first line,\\nsecond line"),
    ],
    ids=["an object", "a list", "after a line", "not JSON"],
)
def test_json_that_is_laid_out_is_told_on_one_line(said: str, told: str, tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.answers(2, {**text(said), "isError": True}, ms=110)
    session.asks(3, "tools/call", forecast("Oslo"), ms=120)
    session.fails(3, -32000, said, ms=130)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        causes = [view.parts(row).cause for row in (CALL, CALL + 1)]
    assert causes == [f"tool error: {told}.", f"error -32000: {told}."]


def test_the_body_of_an_http_error_does_not_repeat_its_status(tmp_path: Path) -> None:
    session = Conversation(http=True)
    for exchange, body in ((1, "HTTP 503"), (2, "HTTP 503: the index is being built")):
        session.asks(exchange, "ping", ms=exchange * 10, exchange=exchange, connection=exchange)
        session.responds(exchange, 503, ms=exchange * 10 + 1, content_type="text/plain")
        session.says("server", body, exchange * 10 + 2, exchange=exchange, connection=exchange)
        session.ends(exchange, ms=exchange * 10 + 3)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert [call.cause for call in view.calls()] == ["", "body: the index is being built"]


@pytest.mark.parametrize(
    ("severities", "mark"),
    [(("warning",), " ▲1 "), (("info", "warning"), " ▲1+ "), (("error", "info", "error"), " ✗2+ ")],
    ids=" and ".join,
)
def test_the_mark_of_a_row_counts_the_findings_that_it_shows(
    severities: tuple[str, ...], mark: str, tmp_path: Path
) -> None:
    session = begun()
    frame = session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    for severity in severities:
        session.finds("TOOL-001", frame, "a finding", severity)
    session.answers(2, text("sunny"), ms=110)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        call = view.call(CALL)
        assert mark in "".join(span.text for span in call_line(call, 80))
        assert (call.findings, mark.strip(" ▲✗+")) == (
            len(severities),
            str(json_rows.call(call)["worst_findings"]),
        )


def test_the_row_has_the_cause_that_stands_before_the_traceback_of_an_sdk(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    caused = "The above exception was the direct cause of the following exception:"
    begin = "Traceback (most recent call last):"
    written = [
        begin,
        *TRACEBACK[:60],
        REASON,
        caused,
        begin,
        *TRACEBACK[:60],
        f"UnexpectedToolError: {HIDDEN}",
    ]
    for line in written:
        session.record("stderr", 101, {"text": line})
    session.answers(2, {**text(HIDDEN), "isError": True}, ms=110)
    path = write(tmp_path / "s.jsonl", session.closes(ms=200))
    with open_view(path) as view:
        assert view.call(CALL).cause == f"stderr: {REASON}"
    with Agent(tmp_path) as agent:
        (row,) = calls_in(agent("find_calls", filter="status:error"))
    assert row["cause"] == f"stderr: {REASON}"


def test_a_row_reads_few_records_however_many_belong_to_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    for number in range(5000):
        session.record("stderr", 101, {"text": f"row {number} of the table"})
    session.record("stderr", 101, {"text": REASON})
    read: list[int] = []
    reads_record = CallReader.record

    def record(self: CallReader, line: int) -> Record:
        read.append(line)
        return reads_record(self, line)

    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200, code=1))) as view:
        monkeypatch.setattr(CallReader, "record", record)
        assert view.call(CALL).cause == f"server exited with 1: {REASON}"
    assert len(read) < 210


def test_every_face_shows_why_in_its_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "s.jsonl", SITUATIONS["server crash"])
    why = IN_THE_ROW["server crash"]
    assert main(["show", path]) == 0
    shown = capsys.readouterr().out
    assert f"… unanswered for 10.0 ms: {why}\n" in shown
    assert "stderr:" not in shown
    with open_view(path) as view:
        line = "".join(span.text for span in call_line(view.call(CALL), 140))
    assert f"⇒ unanswered: {why} " in line
    with Agent(tmp_path) as agent:
        (row,) = agent("find_calls", filter="status:unanswered")["found"][0]["calls"]
        assert row["cause"] == why
        assert "cause" not in agent("get_call", call=CALL)["call"]


def test_a_cause_is_short_whatever_stderr_holds(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.record("stderr", 101, {"text": "Error: " + "x" * 1_000_000})
    session.record("stderr", 102, {"text": "Error: " + "y" * 50_000})
    session.answers(2, {"content": [], "isError": True}, ms=110)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        cause = view.parts(CALL).cause
    assert "On stderr: Error: yyy" in cause
    assert len(cause) < 300


def waits_for_ever(*, token: bool) -> Conversation:
    session = begun()
    meta = {"_meta": {"progressToken": 2}} if token else {}
    session.asks(2, "tools/call", {**forecast("Oslo"), **meta}, ms=100)
    return session


def test_a_call_that_could_show_no_progress_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    for token in (False, True):
        records = waits_for_ever(token=token).closes(ms=11_100)
        with open_view(write(tmp_path / f"{token}.jsonl", records)) as view:
            said.append(view.parts(CALL).cause)
    assert said[0] == (
        "There was no answer in 11.0 s, until the recording ended: the server exited with 0. "
        "The request has no progressToken, so no progress could show that the server works on it."
    )
    assert "progressToken" not in said[1]


@pytest.mark.parametrize(
    ("first", "cause"),
    [
        (("signal", {"signal": "SIGTERM"}), "SIGTERM came after 3.00 s, then the server exited with 0."),
        (("eof", {"from": "server"}), "the server exited with 0."),
    ],
)
def test_what_began_the_end_of_a_session_is_told_before_its_end(
    first: tuple[str, dict[str, str]], cause: str, tmp_path: Path
) -> None:
    session = waits_for_ever(token=True)
    session.record(first[0], 3100, first[1])
    session.record("eof", 3200, {"from": "client"})
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=4100))) as view:
        assert view.parts(CALL).cause == f"There was no answer in 4.00 s, until the recording ended: {cause}"


@pytest.mark.parametrize("result", [{"content": []}, {}, {"_meta": {"a": 1}}, None])
def test_a_row_without_a_result_to_show_keeps_how_far_its_call_came(
    result: dict[str, object] | None, tmp_path: Path
) -> None:
    session = waits_for_ever(token=True)
    for step in (1, 2):
        done = {"progressToken": 2, "progress": step, "total": 2, "message": f"model {step}"}
        session.notifies("notifications/progress", done, ms=100 + step)
    if result is None:
        session.notifies("notifications/cancelled", {"requestId": 2}, ms=200, by="client")
    else:
        session.answers(2, result, ms=200)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=300))) as view:
        detail = view.parts(CALL)
        assert detail.call.progress == "2 of 2, model 2"
        told = [part.summary for part in detail.parts if part.role is Role.PROGRESS]
        assert told == ["notifications/progress 1 of 2, model 1", "notifications/progress 2 of 2, model 2"]
        if result is None:
            assert detail.cause.endswith(" after 100 ms. The last progress: 2 of 2, model 2.")


def test_a_row_with_a_result_says_it_and_knows_how_far_the_call_came(tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", SITUATIONS["progress"])) as view:
        call = view.call(4)
        assert (call.progress, call.said) == ("2 of 2, model 2 of 2", "Oslo: sunny")
        assert [each.progress for each in view.calls()] == ["", "", "", call.progress, ""]


@pytest.mark.parametrize(
    ("code", "why"), [(1, f"server exited with 1: {REASON}"), (0, "server exited with 0")]
)
def test_the_last_words_of_a_server_are_the_cause_of_all_calls_that_were_open(
    code: int, why: str, tmp_path: Path
) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.asks(3, "tools/call", forecast("Lima"), ms=101)
    for line in ("Traceback (most recent call last):", *TRACEBACK[:3], REASON):
        session.record("stderr", 105, {"text": line})
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=110, code=code))) as view:
        assert [call.cause for call in view.calls("status:unanswered")] == [why] * 2
        assert (f"On stderr: {REASON}." in view.parts(CALL).cause) == bool(code)


def test_who_cancelled_and_why(tmp_path: Path) -> None:
    session = waits_for_ever(token=True)
    session.notifies(
        "notifications/cancelled", {"requestId": 2, "reason": "Request timed out"}, ms=60_100, by="client"
    )
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=61_000))) as view:
        assert view.parts(CALL).cause == "The client cancelled the call after 1m00s: Request timed out."


def test_what_the_server_said_last_while_it_was_waited_for(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.record("stderr", 150, {"text": "waiting for the lock of pid 4121"})
    session.notifies("notifications/cancelled", {"requestId": 2}, ms=60_100, by="client")
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=61_000))) as view:
        said = "waiting for the lock of pid 4121"
        assert view.call(CALL).cause.endswith(f"stderr: {said}")
        assert view.parts(CALL).cause == f"The client cancelled the call after 1m00s. Last on stderr: {said}."


def a_call_after_which(sent: str, *, cut: bool, answer: bool) -> tuple[str, ...]:
    """The server writes a line that is not a message, and perhaps then the answer."""
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.says("server", sent, 105, **({"eol": ""} if cut else {}))
    if answer:
        session.answers(2, text("sunny"), ms=110)
    session.asks(3, "tools/call", forecast("Lima"), ms=120)
    session.answers(3, text("fog"), ms=130)
    return session.closes(ms=200)


def test_an_object_of_a_log_is_shown_as_it_is(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.says("server", {"level": "info", "msg": "looking up Oslo"}, 105)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        logged = '{"level":"info","msg":"looking up Oslo"}'
        assert view.calls("kind:not-a-message")[0].arguments == logged
        assert f"not a message (row 5): {logged}" in view.parts(CALL).call.cause


LAID_OUT = json.dumps({"jsonrpc": "2.0", "id": 2, "result": text("sunny")}, indent=2).split("\n")
LOGGED = json.dumps({"level": "info", "at": {"town": "Oslo"}}, indent=2).split("\n")
OF_ANOTHER = json.dumps({"jsonrpc": "2.0", "id": 9, "result": {}}, indent=2).split("\n")
PRINTED = f"printed over {len(LAID_OUT)} lines, so no client could read it"


@pytest.mark.parametrize(
    ("lines", "told", "row"),
    [
        (LAID_OUT, f"The answer (row 5) was {PRINTED}.", 5),
        (["looking up {", "", *LAID_OUT], f"The answer (row 7) was {PRINTED}.", 7),
        (["{", "INFO ready", *LAID_OUT], f"The answer (row 7) was {PRINTED}.", 7),
        ([*LOGGED, *OF_ANOTHER, *LAID_OUT], f"The answer (row 16) was {PRINTED}.", 16),
        (LAID_OUT[:5], "The answer (row 5) was begun over 5 lines and not finished.", 5),
        (LOGGED, "JSON of the server (row 5) was printed over 6 lines and is no message: "
         '{"level":"info","at":{"town":"Oslo"}}.', 5),
        (OF_ANOTHER, "A message of the server (row 5) was printed over 5 lines, so no client could read it: ",
         5),
        (["{", *["x"] * 20], "The server wrote what is not a message while the call was open (row 5): {.", 5),
        (["{"] * 20, "The server wrote what is not a message while the call was open (row 5): {.", 5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_answered", [False, True])
def test_an_answer_that_is_printed_over_lines_is_told_in_a_sentence(
    lines: list[str], told: str, row: int, is_answered: bool, tmp_path: Path
) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    for number, line in enumerate(lines):
        session.says("server", line, 105 + number / 100)
    if is_answered:
        session.answers(2, text("sunny"), ms=110)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        detail = view.parts(CALL)
        assert (detail.cause.startswith(told), detail.cause_row) == (True, row), detail.cause
        brief = told.removeprefix("The ").replace(" was ", " ").removesuffix(".")
        if not is_answered and "answer" in brief:
            assert detail.call.cause == f"{brief}; server exited with 0"
            assert f"{told} There was no other answer in 100 ms, until the recording ended" in detail.cause


def test_lines_that_are_one_record_are_read_as_one_answer(tmp_path: Path) -> None:
    session = begun()
    asked = session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    count = len(LAID_OUT)
    run = {"seq": asked + 1, "count": count, "from": "server", "text": "\n".join(LAID_OUT)}
    session.record("lines", 110, run)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert view.parts(CALL).cause.startswith(f"The answer (row 5) was {PRINTED}. ")


def test_a_line_with_the_id_of_a_call_is_rather_its_lost_answer_than_a_line_of_a_log(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.says("server", "INFO 2 towns", 103)
    session.says("server", '{"level": "info", "id": 21}', 104)
    session.says("server", 'weather: {"jsonrpc": "2.0", "id": 2, "result": {}}', 105)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        detail = view.parts(CALL)
        assert detail.cause_row == 7
        assert detail.call.cause.startswith('not a message (row 7): weather: {"jsonrpc": "2.0", "id": 2,')


@pytest.mark.parametrize(
    ("sent", "cut", "answer", "in_the_row", "cause"),
    [
        ("DEBUG sunny", False, False, "not a message (row 5): DEBUG sunny; server exited with 0",
         "The server wrote what is not a message while the call was open (row 5): DEBUG sunny. "
         "There was no answer in 100 ms, until the recording ended: the server exited with 0."),
        ("DEBUG sunny", False, True, "",
         "The server wrote what is not a message while the call was open (row 5): DEBUG sunny."),
        ('{"jsonrpc": "2.0", "id', True, False,
         "the last line was cut (row 5); server exited with 0",
         'The last line of the server was cut after 22 bytes (row 5): {"jsonrpc": "2.0", "id. '
         "There was no answer in 100 ms, until the recording ended: the server exited with 0."),
        ('{"jsonrpc": "2.0", "id": 2, "result": {}}', True, False,
         "no line feed ends the answer (row 5); server exited with 0",
         "No line feed ends the answer (row 5), and many clients wait for it. "
         "There was no other answer in 100 ms, until the recording ended: the server exited with 0."),
    ],
)  # fmt: skip
def test_what_came_in_the_place_of_an_answer_is_named_with_its_row(
    sent: str, cut: bool, answer: bool, in_the_row: str, cause: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "s.jsonl", a_call_after_which(sent, cut=cut, answer=answer))
    with open_view(path) as view:
        detail = view.parts(CALL)
        assert (detail.call.cause, detail.cause, detail.cause_row) == (in_the_row, cause, 5)
        for number in (3, 6):  # before and after
            other = view.parts(number)
            assert (other.cause, other.cause_row) == ("", 0)


@pytest.mark.parametrize(
    ("records", "second"),
    [
        (
            a_call_after_which("DEBUG", cut=False, answer=True),
            "The server wrote what is not a message ",
        ),
        (
            a_call_after_which('{"id": 2', cut=True, answer=False),
            "The last line of the server was cut after ",
        ),
        (SITUATIONS["wrong id"], 'The server answered after 12.0 ms with the id "2", a string (row 5).'),
        (SITUATIONS["server crash"], "There was no answer in 10.0 ms, until the recording ended: the "),
    ],
)
def test_the_cause_is_the_second_line_of_a_call(
    records: tuple[str, ...], second: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--call", str(CALL), write(tmp_path / "s.jsonl", records)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert second in lines[1]
    assert lines[2].strip().startswith("client to server")


def test_a_line_after_a_cancellation_is_not_why_there_is_no_answer(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.notifies("notifications/cancelled", {"requestId": 2}, ms=200, by="client")
    session.says("server", "DEBUG stopped", 300)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=400))) as view:
        assert view.parts(CALL).cause == "The client cancelled the call after 100 ms."


def test_who_gave_up_waiting_learns_of_the_answer_with_a_wrong_id(tmp_path: Path) -> None:
    session = begun()
    asked = session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    answered = session.answers("2", text("sunny"), ms=112)
    session.finds("PROTO-007", answered, "an id of another type", related=(asked,))
    session.notifies(
        "notifications/cancelled", {"requestId": 2, "reason": "timed out"}, ms=60_100, by="client"
    )
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=61_000))) as view:
        detail = view.parts(CALL)
        assert detail.call.cause == 'answered with the id "2" (row 5); timed out'
        assert detail.cause == (
            'The server answered after 12.0 ms with the id "2", a string (row 5). '
            "The client cancelled the call after 1m00s: timed out."
        )


RAISED_FROM = [
    "Traceback (most recent call last):",
    '  File "weather.py", line 8, in forecast',
    "ValueError: no such city: Oslo",
    "",
    # So rich writes it in a narrow column.
    "The above exception was the direct cause of the following",
    "exception:",
    "",
    "╭──────── Traceback (most recent call last) ────────╮",
    "│ ❱ 213 │   raise ToolError(f'Error executing … │",
    "╰───────────────────────────────────────────────────╯",
    "ToolError: Error executing tool forecast",
]


def test_an_error_that_says_what_the_answer_says_gives_way_to_its_cause(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    for line in RAISED_FROM:
        session.record("stderr", 105, {"text": line})
    session.answers(2, {**text("Error executing tool forecast"), "isError": True}, ms=110)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        detail = view.parts(CALL)
        assert detail.call.cause == "stderr: ValueError: no such city: Oslo"
        assert detail.cause == (
            "tool error: Error executing tool forecast. On stderr: ValueError: no such city: Oslo."
        )


@pytest.mark.parametrize(
    ("lines", "telling"),
    [
        ([], ""),
        (["  ", "ready  ", ""], "ready"),
        (["KeyError: 'a'", "INFO request done"], "KeyError: 'a'"),
        (["thread 'main' panicked at src/main.rs", "note: run with RUST_BACKTRACE=1"],
         "thread 'main' panicked at src/main.rs"),
        (RAISED_FROM, "ToolError: Error executing tool forecast, caused by ValueError: no such city: Oslo"),
        (["ValueError: an older one", "", *RAISED_FROM[7:]], "ToolError: Error executing tool forecast"),
        (["npm error code ENOENT", "npm error path /srv/package.json", "npm error errno -2",
          "npm error enoent Could not read package.json", "npm error enoent", "npm error enoent This is so",
          "npm error A complete log of this run can be found in: /tmp/debug-0.log"],
         "npm error enoent Could not read package.json"),
        (['npm error Missing script: "start"', "npm error To see a list, run:", "npm error   npm run"],
         'npm error Missing script: "start"'),
        (["npm ERR! code E404", "npm ERR! 404 Not Found - GET https://registry.npmjs.org/x", "npm ERR! 404",
          "npm ERR! A complete log of this run can be found in: /tmp/debug-0.log"],
         "npm ERR! 404 Not Found - GET https://registry.npmjs.org/x"),
        (["Error: Cannot find module 'zod'", "npm error code 1", "npm error command failed"],
         "Error: Cannot find module 'zod'"),
    ],
)  # fmt: skip
def test_the_line_that_names_an_error_tells_most(lines: list[str], telling: str) -> None:
    assert telling_line(lines) == telling


FRAMES = ["Traceback (most recent call last):", '  File "stock.py", line 8, in read', "    raise fault"]


@pytest.mark.parametrize(
    ("lines", "telling"),
    [
        ([*FRAMES, "pydantic_core.ValidationError: 1 validation error for Order", "city",
          "  Field required [type=missing, input_value={}, input_type=dict]"],
         "pydantic_core.ValidationError: 1 validation error for Order city "
         "Field required [type=missing, input_value={}, input_type=dict]"),
        (["Request failed: {", "  code: 'ECONNREFUSED',", "  port: 5432", "}", "listening again"],
         "Request failed: { code: 'ECONNREFUSED', port: 5432 }"),
        (["Fatal error", "\\tno connection to db:5432", "\\tat com.example.Main.main(Main.java:5)"],
         "Fatal error no connection to db:5432"),
        ([*FRAMES, "ValueError: the stock of this shelf could not be read, as", "the database is locked by",
          "another process", "INFO done"],
         "ValueError: the stock of this shelf could not be read, as "
         "the database is locked by another process"),
        (["thread 'main' panicked at src/main.rs:2:5:", "no shelf 7", "note: run with RUST_BACKTRACE=1"],
         "thread 'main' panicked at src/main.rs:2:5: no shelf 7"),
        (["Error: connect ECONNREFUSED", "    at afterConnect (node:net:1494:16) {", "  port: 5432", "}"],
         "Error: connect ECONNREFUSED"),
        ([*FRAMES, "KeyError: 7", "retrying in 5 s"], "KeyError: 7"),
        (["the connection to the database of the shop has failed", "retrying in 5 s"],
         "the connection to the database of the shop has failed"),
        (["request failed:", "12:00:01 request done", "INFO ready"], "request failed:"),
        ([*FRAMES, "    ^^^^^^^", "KeyError: 7"], "KeyError: 7"),
    ],
)  # fmt: skip
def test_a_line_that_names_an_error_is_told_with_those_in_which_it_goes_on(
    lines: list[str], telling: str
) -> None:
    assert telling_line(lines) == telling


NODE_FRAMES = [
    "    at McpError.fromError (/srv/sdk/types.js:2086:16)",
    "    ... 2 lines matching cause stack trace ...",
    "    at async file:///srv/error.js:7:3 {",
]


@pytest.mark.parametrize(
    ("lines", "telling"),
    [
        (["/srv/sdk/types.js:2086", "        return new McpError(code);", "               ^", "",
          "McpError: MCP error -32000: Connection closed", *NODE_FRAMES, "  code: -32000", "}", "",
          "Node.js v20.20.2"],
         "McpError: MCP error -32000: Connection closed"),
        (["MCPClientError: Internal error", *NODE_FRAMES,
          "  cause: { code: -32603, message: 'Internal error' },", "  [Symbol(vercel.ai.error)]: true", "}"],
         "MCPClientError: Internal error"),
        (["TypeError: fetch failed", *NODE_FRAMES, "  [cause]: Error: connect ECONNREFUSED",
          "      at fetchError (node:net:16:3) {", "    errno: -111", "  }", "}"],
         "TypeError: fetch failed, caused by Error: connect ECONNREFUSED"),
        (["java.io.IOException: no shelf", "\tat org.example.Error.raise(Error.java:5)", "\t... 3 more"],
         "java.io.IOException: no shelf"),
        (["Error: not as expected: [", *['  {"place": 1, "error": "no number"},'] * 9, "]"],
         "Error: not as expected: [" + ' {"place": 1, "error": "no number"},' * 6),
    ],
)  # fmt: skip
def test_neither_a_frame_nor_a_member_of_an_error_tells_more_than_the_error(
    lines: list[str], telling: str
) -> None:
    assert telling_line(lines) == telling


def test_an_error_over_many_lines_is_whole_on_every_face(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    for line in ("Request failed: {", "\tcode: 'ECONNREFUSED'", "}", *(f"line {n}" for n in range(9))):
        session.record("stderr", 101, {"text": line})
    session.answers(2, {**text(HIDDEN), "isError": True}, ms=110)
    path = write(tmp_path / "s.jsonl", session.closes(ms=200))
    whole = "Request failed: { code: 'ECONNREFUSED' }"
    with open_view(path) as view:
        assert view.call(CALL).cause == f"stderr: {whole}"
        assert view.parts(CALL).cause == f"tool error: {HIDDEN}. On stderr: {whole}."
    assert main(["show", path]) == 0
    assert f"stderr: {whole} (12 lines: show --call {CALL})" in capsys.readouterr().out


def logged_by_rich(fault: Exception, width: int) -> list[str]:
    """What the SDK for Python logs of an exception, in so many columns."""
    written = io.StringIO()
    handler = RichHandler(console=Console(file=written, width=width), rich_tracebacks=True)
    logger = logging.Logger("server")
    logger.addHandler(handler)
    logger.error("Tool 'stock' raised an unexpected exception", exc_info=fault)
    logger.info("Processing request of type CallToolRequest")
    return written.getvalue().split("\n")


def raised(fail: Callable[[], object]) -> Exception:
    """What a tool that fails so raises in the SDK."""
    try:
        try:
            fail()
        except Exception as fault:
            raise RuntimeError("Error executing tool stock") from fault
    except RuntimeError as error:
        return error
    raise AssertionError("it did not fail")


@pytest.mark.parametrize("width", [70, 80, 100, 200])
def test_an_error_that_rich_breaks_into_lines_is_whole(width: int) -> None:
    lines = logged_by_rich(raised(lambda: int("n/a")), width)
    assert telling_line(lines) == TOLD
    assert telling_line(lines, known="Error executing tool stock") == NO_NUMBER


async def reads(shelf: str) -> None:
    """Read the stock of a shelf; ``a/b`` is read in a group of its own, and no shelf is there."""
    first, *others = shelf.split("/")
    if not others:
        raise ValueError(f"no shelf {first}: it was moved to another warehouse")
    async with asyncio.TaskGroup() as group:
        for each in others:
            group.create_task(reads(each))


GROUP = "ExceptionGroup: unhandled errors in a TaskGroup"
NO_SHELF = "ValueError: no shelf 7: it was moved to another warehouse"


@pytest.mark.parametrize("width", [0, 80, 100, 200])
@pytest.mark.parametrize(("shelves", "sub"), [("a/7", "1 sub-exception"), ("a/7/8", "2 sub-exceptions")])
def test_a_group_of_errors_is_told_with_its_first_one(width: int, shelves: str, sub: str) -> None:
    with pytest.raises(ExceptionGroup) as alone:
        asyncio.run(reads(shelves))
    wrapped = raised(lambda: asyncio.run(reads(shelves)))
    written = [
        logged_by_rich(each, width) if width else "".join(format_exception(each)).split("\n")
        for each in (alone.value, wrapped)
    ]
    assert telling_line(written[0]) == f"{GROUP} ({sub}), caused by {NO_SHELF}"
    assert telling_line(written[0], known=f"unhandled errors in a TaskGroup ({sub})") == NO_SHELF
    assert telling_line(written[1]) == f"RuntimeError: Error executing tool stock, caused by {NO_SHELF}"


@pytest.mark.parametrize("width", [0, 200])
def test_a_group_within_a_group_is_told_with_the_innermost_error(width: int) -> None:
    async def nested() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(reads("a/7"))
            group.create_task(reads("8"))

    with pytest.raises(ExceptionGroup) as found:
        asyncio.run(nested())
    order = sorted(found.value.exceptions, key=lambda each: isinstance(each, ValueError))
    fault = raised(lambda: raising(ExceptionGroup("two tasks", order)))
    lines = logged_by_rich(fault, width) if width else "".join(format_exception(fault)).split("\n")
    assert telling_line(lines) == f"RuntimeError: Error executing tool stock, caused by {NO_SHELF}"
    assert telling_line([*lines, "INFO done", "+---+", "| 1 |"]) == telling_line(lines)


def raising(fault: Exception) -> None:
    raise fault


def test_a_table_is_no_group_of_errors() -> None:
    table = ["+------ 1 ------+", "| error | count |", "+---------------+"]
    assert telling_line(table) == "| error | count |"


@pytest.mark.parametrize(
    ("cut_by", "says"),
    [
        ("", "No blank line ends the last event, so clients discard what it says."),
        ("server", "The server cut the HTTP answer short, within an event, which clients discard."),
    ],
)
def test_an_event_without_its_blank_line_is_no_answer(cut_by: str, says: str, tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=10)
    session.asks(1, "tools/call", forecast("Oslo"), ms=10, exchange=1, connection=1)
    session.responds(1, 200, ms=11, sse=True)
    event = {"id": None, "name": None, "retry": None, "before": "data: ", "after": "\n"}
    session.answers(1, text("sunny"), ms=12, exchange=1, connection=1, event=event, eol="")
    session.ends(1, ms=12, cut_by=cut_by)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        (call,) = view.calls()
        assert (call.outcome, call.answer) == (Outcome.UNANSWERED, None)
        assert view.parts(call.number).cause.endswith(says)
        assert call.cause == says.rstrip(".")


@pytest.mark.parametrize("by", ["server", "client"])
def test_an_exchange_that_ended_before_its_answer_cut_no_answer(by: str, tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=10)
    session.asks(1, "tools/call", forecast("Oslo"), ms=10, exchange=1, connection=1)
    session.ends(1, ms=12, cut_by=by)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        (call,) = view.calls()
        assert call.cause == f"The {by} closed the connection before an answer began"


def test_nothing_is_said_of_a_time_of_which_nothing_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    path = write(tmp_path / "s.jsonl", tuple(session.records))  # the request is the last record
    with open_view(path) as view:
        assert view.parts(CALL).cause == "There was no answer until the recording ended."
    main(["show", path])
    assert "µs" not in capsys.readouterr().out.splitlines()[-1]


def test_a_line_of_a_log_that_has_an_id_answers_no_call(tmp_path: Path) -> None:
    session = Conversation()
    session.asks(1, "tools/call", forecast("Oslo"), ms=1)
    session.says("server", {"id": 1, "status": "ok"}, 2)
    session.answers(1, text("sunny"), ms=3)
    view = opened(tmp_path, session.closes(ms=4))
    assert [(call.kind, call.outcome) for call in view.calls()] == [
        (Kind.REQUEST, Outcome.OK),
        (Kind.NOT_A_MESSAGE, Outcome.NONE),
    ]


@pytest.mark.parametrize("before", [0, 600])
def test_a_row_of_stderr_has_the_line_that_tells_most(
    before: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Conversation()
    session.record("lines", 5, {"count": 5, "from": "stderr", "text": "a\nb\nc\nd\ne"})
    for line in (*["loading"] * before, "Traceback (most recent call last):", *TRACEBACK, REASON, "bye"):
        session.record("stderr", 10, {"text": line})
    path = write(tmp_path / "s.jsonl", session.closes(ms=20, code=1))
    number = f"at least {1 + before + len(TRACEBACK) + 3}" if before else 5 + len(TRACEBACK) + 3
    told = f"({number} lines) {REASON}"
    with open_view(path) as view:
        row = view.call(1)
        assert row.arguments == told
        assert told in "".join(span.text for span in call_line(row, 120))
    with Agent(tmp_path) as agent:
        assert calls_in(agent("find_calls", recording="s"))[0]["arguments"] == told
    assert main(["show", path]) == 0
    assert f"stderr: {told}\n" in capsys.readouterr().out
