"""``mcpproxy fuzz``: the command around the fuzzer, and what it refuses."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.fuzz.campaigns import recorded
from tests.peers.processes import ROOT

URL = "http://127.0.0.1:9/mcp"
CAT = ("--", "cat")
ENDS_AT_A_PING = """
import sys
from tests.fuzz.planted import Planted
server = Planted(frozenset())
for line in sys.stdin.buffer:
    if b'"ping"' in line:
        sys.exit()
    server.take(line)
    for answer in server.out:
        print(answer.decode(), flush=True)
    server.out.clear()
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return str(recorded(tmp_path / "t.jsonl"))


def planted(*faults: str) -> list[str]:
    return ["--", sys.executable, "-m", "tests.fuzz.planted", *faults]


def test_a_fault_is_a_row_with_its_recording(mcpproxy: Mcpproxy, trace: str, tmp_path: Path) -> None:
    folder = tmp_path / "faults"
    options = ["--seed", "1", "--faults", "1", "--time", "600", "--only", "leak, protocol", "-o", str(folder)]
    said = mcpproxy("fuzz", trace, *options, *planted("result-and-error"))
    assert said.code == 1
    head, row, changes, text, total = said.out.splitlines()
    (kept,) = folder.iterdir()
    assert head.split() == ["FAULT", "FRAMES", "REPLAYS", "RECORDING"]
    assert row.split()[0] == "protocol"
    assert row.split()[2:] == ["yes", str(kept)]
    assert changes.startswith("  tools/call ")
    assert text == "  → RPC-009: server answered with both a result and an error"
    assert re.match(r"1 fault: .* in (1 session|[2-9]\d* sessions), ", total)
    assert total.endswith(", seed 1")
    assert "protocol after " in said.err
    assert mcpproxy("check", str(kept)).code == 1


def test_the_report_as_json(mcpproxy: Mcpproxy, trace: str) -> None:
    said = mcpproxy("fuzz", trace, "--seed", "1", "--count", "40", "--json", *planted())
    report = json.loads(said.out)
    assert (said.code, said.err) == (0, "")
    assert (report["seed"], report["faults"], report["once"], report["stopped"]) == (1, [], [], "")
    assert report["sent"] >= 40


def test_changes_that_were_not_tried_are_not_counted_as_tried(mcpproxy: Mcpproxy, trace: str) -> None:
    said = mcpproxy("fuzz", trace, "--seed", "1", "--count", "1", *planted())
    assert re.match(r"no faults: \d+ changed messages? \(of \d+ different changes\) in ", said.out)


def test_a_time_that_ends_before_the_first_change_is_no_good_news(mcpproxy: Mcpproxy, trace: str) -> None:
    said = mcpproxy("fuzz", trace, "--seed", "1", "--time", "0.001", *planted())
    total, why = said.out.splitlines()
    assert total.startswith("nothing was tried: 0 changed messages ")
    assert why.endswith("more: --time")


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        ([], "fuzz: one of -- COMMAND and URL is needed; mcpproxy fuzz TRACE -- python server.py"),
        ([URL, *CAT], "fuzz: one of -- COMMAND and URL is needed"),
        (["http://example.com/mcp"], "example.com: is not on this machine, and what is sent may harm it; "),
        (["http://127.0.0.1.example.com/"], "127.0.0.1.example.com: is not on this machine"),
        (["http://example.com/mcp", "--allow-host", "example.org"], "example.com: is not on this machine"),
        ([URL, "--env", "A=1"], "--env: goes together with -- COMMAND"),
        (["--header", "A: 1", *CAT], "--header: goes together with a URL"),
        (["--seed", "-1", *CAT], "'-1' is not a whole number"),
        (["--count", "0", *CAT], "'0' is not a number of at least 1"),
        (["--only", "crash,hangs", *CAT], "'hangs' is no kind of fault; one of crash, hang, protocol, leak"),
        ([URL, "--time", "1"], "the server cannot be reached (connection refused)"),
        (["--", "no-such-command"], "no-such-command: no such command; check its spelling and PATH"),
        (["--", "true"], "true: ended with exit code 0 with the recorded initialize, unchanged; check that"),
    ],
)
def test_what_cannot_be_done_is_one_line(mcpproxy: Mcpproxy, trace: str, argv: list[str], fact: str) -> None:
    said = mcpproxy("fuzz", trace, *argv)
    assert (said.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert fact in line


def test_a_server_that_ends_at_a_ping_is_told_so(mcpproxy: Mcpproxy, trace: str) -> None:
    server = [sys.executable, "-c", ENDS_AT_A_PING]
    said = mcpproxy("fuzz", trace, "--", *server)
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert (
        "ended with exit code 0 at the question whether it still answers, which fuzz asks after each" in line
    )
    assert "tools/" not in line


def test_a_recording_without_requests_is_refused(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "t.jsonl", (*recordings.HANDSHAKE, recordings.close(2, 1)))
    said = mcpproxy("fuzz", trace, *planted())
    assert said.code == 2
    assert "holds no request of an MCP session that could be changed; record one first" in said.err


def test_a_terminal_sees_how_far_it_is_and_an_interrupt_prints_what_was_found(trace: str) -> None:
    main, stderr = pty.openpty()
    command = [sys.executable, "-m", "mcpproxy", "fuzz", trace, "--seed", "1", *planted()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT) as run:
        os.close(stderr)
        seen = b""
        while b" changed messages, 0 faults, at most " not in seen:
            seen += os.read(main, 1 << 16)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate()
    os.close(main)
    assert b"\r\033[Kthe recording is sent unchanged" in seen
    assert run.returncode == 130
    total, interrupted = out.decode().splitlines()
    assert interrupted == "interrupted: what was not confirmed by then is not listed"
    assert total.startswith(("no faults: ", "nothing was tried: "))
