"""A recording with faults: its records, and what ``show`` makes of them."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.base.style import Style
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, FaultMark, Frame
from mcpproxy.read.reports.transcripts.transcript import Transcript
from mcpproxy.read.view.view import open_view
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.encode import encode, encode_close, encode_header
from mcpproxy.record.trace.records import Header, Tally

CALL: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}'
ANSWER: Final = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
ERROR: Final = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"down"}}'
SLOW: Final = FaultMark("slow", "delay", 1)

LATE: Final = [
    Frame(1, CLIENT, CALL, 1_000_000),
    Frame(2, SERVER, ANSWER, 2_000_000, fault=SLOW),
    Frame(3, SERVER, ANSWER, 502_000_000, by_proxy=True, fault=SLOW),
]


def answered_here(action: str, answer: bytes = ERROR) -> list[Frame]:
    mark = FaultMark("down", action, 1)
    given = Frame(2, SERVER, answer, 2_000_000, by_proxy=True, fault=mark)
    return [Frame(1, CLIENT, CALL, 1_000_000, fault=mark), given]


IN_PIECES: Final = [
    Frame(1, CLIENT, CALL[:9], 1_000_000, False, True, by_proxy=True, fault=SLOW),
    Frame(2, SERVER, b"not JSON", 2_000_000, fault=SLOW),
]


@pytest.mark.parametrize("frame", [*LATE, *answered_here("error"), *IN_PIECES])
def test_a_record_keeps_the_fault(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


@pytest.mark.parametrize(
    ("frames", "outcome"),
    [
        (LATE, "ok"),
        *((answered_here(action), "refused") for action in ("error", "pause", "answer")),
        (answered_here("answer", ANSWER), "ok"),
    ],
    ids=["late", "refused by a rule", "by a person", "by an addon", "answered by an addon"],
)
def test_what_was_given_is_no_call_of_its_own(tmp_path: Path, frames: list[Frame], outcome: str) -> None:
    path = tmp_path / "session.jsonl"
    records = [encode_header(Header()), *map(encode, frames), encode_close(Close("exited", 0), Tally())]
    path.write_bytes(b"".join(records))
    with open_view(str(path)) as view:
        assert view.count(f"kind:request status:{outcome}") == 1
        assert view.count("") == 1


def test_each_line_of_show_says_what_passed_and_by_which_rule() -> None:
    transcript = Transcript(Style(), full=False, header=Header())
    lines = [line for frame in LATE for line in transcript.lines(frame)]
    assert "(" not in lines[0]
    assert "answer to tools/call id 1 (not passed: rule slow, delay)" in lines[1]
    assert "answer to tools/call id 1 from mcpproxy (rule slow, delay)" in lines[2]


def test_a_session_without_faults_imports_nothing_for_them() -> None:
    code = (
        "import sys; from mcpproxy.cli.commands import run; from mcpproxy.record.relay.stdio import relay; "
        "options = run.parse(['--', 'server']); options.resolve_rules(); options.resolve_gate(); "
        "options.members(); from mcpproxy.record.recorder import process; "
        "print([name for name in sys.modules if name.startswith('mcpproxy') "
        "and ('intercept' in name or 'fault' in name or 'two_views' in name)])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
