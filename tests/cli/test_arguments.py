"""A secret among the arguments of a wrapped server goes to the server and nowhere else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.cli.arguments import Parser
from mcpproxy.opening import open_trace
from mcpproxy.session.masked_values import ANY_MASK
from tests.benchmarks.sessions import CLOSE, wait_until_recorded
from tests.cli.conftest import Mcpproxy

SECRET = "s3cr3t-value-1"


def test_a_wrapped_server_gets_its_arguments_and_nothing_else_shows_them(
    tmp_path: Path, mcpproxy: Mcpproxy
) -> None:
    got = tmp_path / "got.txt"
    server = f"import json, sys; json.dump(sys.argv[1:], open({str(got)!r}, 'w'))"
    arguments = ["--token", SECRET, f"API_KEY={SECRET}"]
    command = [
        sys.executable,
        "-m",
        "mcpproxy",
        "--trace-dir",
        str(tmp_path),
        "--",
        sys.executable,
        "-c",
        server,
    ]
    ran = subprocess.run([*command, *arguments], capture_output=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, b"")
    assert json.loads(got.read_text()) == arguments
    assert SECRET not in ran.stderr.decode()
    trace = Path(ran.stderr.decode().partition("recording to ")[2].splitlines()[0])
    wait_until_recorded(trace, CLOSE)  # on a busy machine the recorder may end after the server
    assert Path(sys.executable).name in trace.name
    assert SECRET not in trace.read_text().splitlines()[0]
    header = open_trace(trace).header
    assert header.redaction == "arguments"
    assert [ANY_MASK.sub("*", each) for each in header.command[3:]] == ["--token", "*", "API_KEY=*"]
    assert not open_trace(trace).redacted
    for said in (mcpproxy("list", "--json", str(tmp_path)), mcpproxy("list", str(tmp_path))):
        assert SECRET not in said.out + said.err
    told = json.loads(mcpproxy("show", "--json", str(trace)).out.splitlines()[0])
    assert SECRET not in json.dumps(told["command"])
    assert told["redaction"] == "arguments"


def test_the_usage_is_only_formatted_for_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes longer than reading the arguments."""
    parser = Parser("show", "Print the calls.")
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--full", action="store_true")
    with pytest.raises(SystemExit):
        parser.parse_args(["--full", "--help"])
    assert capsys.readouterr().out.startswith("usage: mcpproxy show [-h] [--full] [trace]\n")

    def format_usage(parser: Parser) -> str:
        raise AssertionError

    monkeypatch.setattr(Parser, "format_usage", format_usage)
    assert parser.parse_args(["session.jsonl"]).trace == "session.jsonl"
    assert parser.parse_args(["--full", "session.jsonl"]).full
