"""Recordings in Python: what is read, what is judged, and which names there are."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import mcpproxy
from mcpproxy import api
from mcpproxy.judge.ruleset.ruleset import CustomRuleError
from tests import documents
from tests.cli import recordings
from tests.cli.recordings import CLEAN, FAULTY, HANDSHAKE, HEADER, close, frame

ROOT: Final = Path(__file__).parent.parent
EVERYTHING: Final = ROOT / "recordings" / "everything-2025-11-25.jsonl"

CALL: Final = (
    '{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":"x"}}}'
)
REFUSED: Final = '{"jsonrpc":"2.0","id":8,"result":{"content":[],"isError":true}}'
READ: Final = '{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"file:///a"}}'
UNKNOWN: Final = '{"jsonrpc":"2.0","id":9,"error":{"code":-32002,"message":"no such resource"}}'
ROOTS: Final = '{"jsonrpc":"2.0","id":8,"method":"roots/list"}'

CALLS: Final = (
    *HANDSHAKE,
    frame(4, "client", CALL, ms=40),
    frame(5, "server", ROOTS, ms=41),
    frame(6, "client", READ, ms=42),
    frame(7, "server", REFUSED, ms=43),
    frame(8, "server", UNKNOWN, ms=44),
    close(4, 4),
)


# Names


def test_the_package_has_the_names_of_the_api() -> None:
    assert mcpproxy.__all__ == sorted([*api.__all__, "__version__"])
    for name in api.__all__:
        assert getattr(mcpproxy, name) is getattr(api, name)


def test_there_are_no_others() -> None:
    with pytest.raises(AttributeError, match="'mcpproxy' has no attribute 'chekc'"):
        mcpproxy.chekc  # type: ignore[attr-defined] # noqa: B018


def test_every_name_is_documented() -> None:
    assert [name for name in api.__all__ if not (getattr(api, name).__doc__ or "").strip()] == []


# Reading


def test_a_call_is_a_request_with_its_answer(tmp_path: Path) -> None:
    trace = mcpproxy.open_trace(recordings.write(tmp_path / "t.jsonl", CALLS))
    initialize, add, roots, read = trace.calls()

    assert (initialize.sender, initialize.method, initialize.is_error) == ("client", "initialize", False)
    assert (add.name, add.params["arguments"], add.id) == ("add", {"a": 1, "b": "x"}, 8)
    assert (add.result, add.error, add.is_error) == ({"content": [], "isError": True}, None, True)
    assert (add.frame, add.answer_frame, add.at_ns, add.latency_ns) == (4, 7, 40_000_000, 3_000_000)
    assert (read.name, read.result, read.is_error) == ("file:///a", None, True)
    assert read.error == {"code": -32002, "message": "no such resource"}
    assert (roots.sender, roots.name, roots.params) == ("server", None, None)
    assert (roots.is_answered, roots.is_error, roots.latency_ns, roots.answer_frame) == (
        False,
        False,
        None,
        None,
    )


def test_what_is_shown_of_a_recording_and_its_calls_is_short(tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", CALLS)
    trace = mcpproxy.open_trace(path)
    assert repr(trace).startswith(f"<mcpproxy.Trace {path!r}: 8 frames")
    first, *others = map(repr, trace.calls())
    assert first.startswith("<mcpproxy.Call in frame 1: initialize, ok, ")
    assert others == [
        "<mcpproxy.Call in frame 4: tools/call add, tool error, 3.00 ms>",
        "<mcpproxy.Call in frame 5: roots/list, unanswered>",
        "<mcpproxy.Call in frame 6: resources/read file:///a, error -32002, 2.00 ms>",
    ]
    asks = replace(trace.calls()[1], result={"resultType": "input_required"}, is_error=False)
    assert repr(asks) == "<mcpproxy.Call in frame 4: tools/call add, input required, 3.00 ms>"


def test_calls_of_one_method(tmp_path: Path) -> None:
    trace = mcpproxy.open_trace(recordings.write(tmp_path / "t.jsonl", CALLS))
    assert [call.name for call in trace.calls("tools/call")] == ["add"]
    assert trace.calls("tools/list") == ()


def test_frames_come_as_they_passed(tmp_path: Path) -> None:
    trace = mcpproxy.open_trace(Path(recordings.write(tmp_path / "t.jsonl", CALLS)))
    assert [(one.seq, one.sender) for one in trace] == [(one.seq, one.sender) for one in trace.frames()]
    assert [one.raw for one in trace][3] == CALL.encode()


def test_a_session_on_stdio_has_no_name_and_no_exchanges(tmp_path: Path) -> None:
    trace = mcpproxy.open_trace(recordings.write(tmp_path / "t.jsonl", CALLS))
    [session] = trace.sessions()
    assert (session.name, session.exchanges, session.frames) == ("", (), tuple(range(1, 9)))
    assert (session.calls, trace.exchanges()) == (trace.calls(), ())


def post(exchange: int, message: str, status: int, answer: str) -> list[str]:
    """One exchange over HTTP, as the trace has it."""
    seq = 4 * exchange
    there = f'"exchange":{exchange},"connection":1,'
    head = f'"type":"request","seq":{seq},"t":{seq},{there}"method":"POST","target":"/mcp","version":"1.1"'
    back = f'"type":"response","seq":{seq + 2},"t":{seq + 2},{there}"status":{status},"version":"1.1"'
    return [
        f'{{{head},"headers":[],"endpoint":true}}',
        f'{{"type":"frame","seq":{seq + 1},"t":{seq + 1},"from":"client",{there}"message":{message}}}',
        f'{{{back},"reason":"","headers":[]}}',
        f'{{"type":"frame","seq":{seq + 3},"t":{seq + 3},"from":"server",{there}"message":{answer}}}',
        f'{{"type":"end","t":{seq + 3},{there}"cut":false}}',
    ]


def test_exchanges_over_http(tmp_path: Path) -> None:
    header = HEADER.replace('"stdio"', '"http"')
    records = (header, *post(1, CALL, 200, REFUSED), *post(2, READ, 404, UNKNOWN), close(2, 2))
    trace = mcpproxy.open_trace(recordings.write(tmp_path / "t.jsonl", records))
    assert [(one.number, one.request.target, one.status) for one in trace.exchanges()] == [
        (1, "/mcp", 200),
        (2, "/mcp", 404),
    ]
    assert [call.method for call in trace.calls()] == ["tools/call", "resources/read"]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    whole = mcpproxy.open_trace(recordings.write(tmp_path / "t.jsonl", CLEAN))
    assert (whole.complete, whole.notes) == (True, ())
    cut = mcpproxy.open_trace(recordings.write(tmp_path / "cut.jsonl", CLEAN[:-1]))
    assert (cut.complete, cut.notes) == (False, ("no close record: the recording was cut off",))
    assert cut.header.label == "weather"
    assert (
        repr(cut) == f"<mcpproxy.Trace {str(tmp_path / 'cut.jsonl')!r}: 5 frames, 2 calls, no failed calls>"
    )


def test_a_real_session_is_read_whole() -> None:
    trace = mcpproxy.open_trace(EVERYTHING)
    expected = sum(1 for line in EVERYTHING.read_text().splitlines() if json.loads(line)["type"] == "frame")
    assert sum(1 for _ in trace) == expected
    assert all(call.latency_ns is None or call.latency_ns > 0 for call in trace.calls())
    assert trace.calls("initialize")[0].result["protocolVersion"] == "2025-11-25"


def test_no_trace_is_an_error_of_one_line(tmp_path: Path) -> None:
    for act in (mcpproxy.open_trace, mcpproxy.check):
        with pytest.raises(mcpproxy.TraceError, match=r"none\.jsonl: no such file; .*") as raised:
            act(tmp_path / "none.jsonl")
        assert isinstance(raised.value, mcpproxy.McpProxyError)
        assert "\n" not in str(raised.value)


# Judging


def test_a_clean_recording_is_ok(tmp_path: Path) -> None:
    report = mcpproxy.check(recordings.write(tmp_path / "t.jsonl", CLEAN))
    assert (report.ok, report.findings, report.complete, report.notes) == (True, (), True, ())
    assert (report.errors, report.warnings, report.infos) == (0, 0, 0)
    assert (report.revision, report.frames) == ("2025-11-25", 5)
    assert str(report) == "no findings in 1 trace, 5 frames, revision 2025-11-25"


def test_a_faulty_one_says_what_is_wrong(tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    report = mcpproxy.check(path)
    [finding] = report.findings
    assert (finding.rule, finding.frame, finding.severity) == ("PROTO-007", 5, "error")
    assert (report.ok, report.errors) == (False, 1)
    assert str(report).startswith(f"{path}:6: error PROTO-007 frame 5: server answered ")


@pytest.mark.parametrize(
    ("select", "ignore", "errors"),
    [
        (None, None, 1),
        ("PROTO-007", None, 1),
        (["LIFE", "PROTO"], None, 1),
        ("LIFE,SEQ", None, 0),
        (None, "mismatched-response-id", 0),
        (None, ("SEQ", "PROTO"), 0),
    ],
)
def test_rules_are_chosen(
    tmp_path: Path, select: str | list[str] | None, ignore: str | tuple[str, ...] | None, errors: int
) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    assert mcpproxy.check(path, select=select, ignore=ignore).errors == errors


def test_a_rule_that_is_none(tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", CLEAN)
    with pytest.raises(
        mcpproxy.UsageError, match=r"^select: 'PROTOO' is neither a rule .*did you mean PROTO"
    ):
        mcpproxy.check(path, select="PROTOO")


def test_rules_of_ones_own(tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    for path in ("house/house.toml", "house/house.py"):
        (tmp_path / path).write_text(documents.file(path), encoding="utf-8")

    found = mcpproxy.check(EVERYTHING, rules=house, select="HOUSE")
    assert {finding.rule for finding in found.findings} == {"HOUSE-001", "HOUSE-002"}
    assert mcpproxy.check(EVERYTHING, rules=[house], select="HOUSE") == found
    with pytest.raises(CustomRuleError, match="there is no such folder"):
        mcpproxy.check(EVERYTHING, rules=tmp_path / "none")


def test_the_example_of_the_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = documents.named("recording from Python").text
    shutil.copy(EVERYTHING, tmp_path / "session.jsonl")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "the example", "exec"), {})
    *calls, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in calls] == [
        call.name for call in mcpproxy.open_trace("session.jsonl").calls("tools/call")
    ]
    assert last.startswith("2025-11-25 ")


def test_the_documentation_is_there_in_a_fresh_interpreter() -> None:
    code = "import mcpproxy; help(mcpproxy.api); from mcpproxy import api; print(api is mcpproxy.api)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Recordings in Python" in ran.stdout
    assert ran.stdout.endswith("True\n")
