"""A secret among the arguments of a wrapped server goes to the server and nowhere else."""

import json
import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from mcpproxy.cli.arguments import SPAN_FORMS, Parser, seconds, time_span
from mcpproxy.judge.session.masked_values import ANY_MASK
from mcpproxy.read.opening import open_trace
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


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("1.5", 1.5), ("90s", 90), ("10M", 600), ("2d", 172_800)]
)
def test_a_time_has_a_unit_or_is_in_seconds(text: str, value: float) -> None:
    assert time_span(text) == value
    if 0 < value <= 86_400:
        assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "5 minutes", "m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a time such as 90"):
        time_span(text)


@pytest.mark.parametrize("command", ["run", "bridge", "ship", "verify"])
def test_grace_is_the_same_kind_of_time_in_every_command(command: str, mcpproxy: Mcpproxy) -> None:
    shown = " ".join(mcpproxy(command, "--help").out.split())
    _, option, told = shown.rpartition("--grace TIME")
    assert option
    assert SPAN_FORMS in told.partition("(default")[0]
