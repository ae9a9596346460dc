"""``mcpproxy validate`` as users call it: what it prints, and its three exit codes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.cli.main import main
from mcpproxy.validate.outcome import CATEGORIES
from tests.validate.trial import ROOT, command, target

ENV = [f"--env={name}={value}" for name, value in target().env.items()]


class Outcome:
    """What the command left behind."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *argv: str) -> None:
        self.code = main(["validate", *argv])
        self.out, self.err = capsys.readouterr()


def against(capsys: pytest.CaptureFixture[str], flaw: str, folder: Path, *argv: str) -> Outcome:
    fixed = (*ENV, f"--trace={folder / 'x.jsonl'}", "--revision=2025-11-25")
    return Outcome(capsys, *fixed, *argv, "--", *command(flaw))


def test_a_valid_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = against(capsys, "", tmp_path, "--only=ping,unknown-method")
    assert outcome.code == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0].startswith("scripted 1.0  ")
    assert "    ok   ping: answered" in lines
    assert "    ok   unknown-method: refused with -32601" in lines
    assert lines[-1] == "valid"
    assert lines[-2].startswith("Summary: ")
    assert lines[-2].endswith(" passed, 0 failed, 0 warnings, 0 skipped")


def test_an_invalid_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = against(capsys, "traceback-on-stdout", tmp_path, "--only=stdout")
    assert outcome.code == 1
    place = outcome.out.partition("    FAIL stdout: ")[2].splitlines()
    assert "Traceback (most recent call last)" in place[0]
    assert "x.stdout.jsonl" in place[1]
    assert "STDIO-002  https://modelcontextprotocol.io/specification/2025-11-25/basic/transports" in place[1]
    assert "invalid" in outcome.out.splitlines()
    assert "What a rule means: mcpproxy explain STDIO-002" in outcome.out


def test_warnings_count_if_one_is_strict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert against(capsys, "exit-code-three", tmp_path, "--only=stdin-eof").code == 0
    assert against(capsys, "exit-code-three", tmp_path, "--only=stdin-eof", "--strict").code == 1


def test_what_programs_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = against(capsys, "odd-parse-error", tmp_path, "--only=jsonrpc", "--format=json")
    report = json.loads(outcome.out)
    assert report["server"] == {"name": "scripted", "version": "1.0"}
    found = {check["name"]: check for check in report["checks"]}
    assert found["malformed-json"]["status"] == "warning"
    assert found["malformed-json"]["category"] == "jsonrpc"
    assert len(found["malformed-json"]["frames"]) == 2
    assert found["malformed-json"]["duration_ms"] > 0
    assert report["warnings"] == 1
    assert report["failed"] == 0
    assert report["passed"] == sum(check["status"] == "passed" for check in report["checks"])
    assert {check["category"] for check in report["checks"]} <= set(CATEGORIES)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((), "one of -- COMMAND and URL is needed"),
        (("--", "/nowhere/no-such-server"), "/nowhere/no-such-server: cannot be run"),
        (("--only=pimg", "--", "x"), "did you mean ping?"),
        (("--skip=nothing-like-it", "--", "x"), "no category and no check"),
        (("--header=A: b", "--", "x"), "goes together with a URL"),
        (("--env=A=b", "http://127.0.0.1:1/mcp"), "goes together with -- COMMAND"),
        (("--timeout=never", "--", "x"), "is not a number of seconds"),
        (("--call=add=[1]", "--", "x"), "is not a tool with arguments"),
        (("server.py",), "put -- before a command"),
    ],
    ids=str,
)
def test_what_cannot_be_run(
    argv: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    outcome = Outcome(capsys, *argv)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("mcpproxy: ")
    assert says in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_recording_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = against(capsys, "", tmp_path / "file")
    assert outcome.code == 2
    assert "name another file with --trace" in outcome.err


def test_a_named_tool_is_called_whatever_it_declares(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = against(capsys, "", tmp_path, "--only=call-tools", '--call=add={"a": 1, "b": 2}')
    assert "    ok   call-tools: called add, greet" in outcome.out
    outcome = against(capsys, "", tmp_path, "--only=call-tools")
    assert "    ok   call-tools: called greet\n" in outcome.out


def test_an_interrupted_run_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    argv = [sys.executable, "-m", "mcpproxy", "validate", *ENV, f"--env=SCRIPTED_PIDS={pids}"]
    argv += ["--revision=2025-11-25", f"--trace={tmp_path / 'x.jsonl'}", "--timeout=60"]
    ready = str(tmp_path / "pids.ready")
    os.mkfifo(ready)
    run = subprocess.Popen(
        [*argv, "--", *command("announced-hang")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with open(ready, encoding="ascii") as announced:  # until the server is there
        assert announced.read() == "here\n"
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=20)
    assert run.returncode == 130
    assert out == b""
    assert b"Traceback" not in err
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
