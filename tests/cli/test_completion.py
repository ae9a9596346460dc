"""Completion in shells, and the man page: every command and option is there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.cli.command_table import COMMANDS
from tests.cli.conftest import Mcpproxy

NAMES = [name for group in COMMANDS.values() for name in group]


def offered(line: str, home: Path) -> list[str]:
    """What a shell is offered at the end of ``line``."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    script = '"$0" -m mcpproxy 8>"$1" 9>&2'
    answer = home / "answer"
    subprocess.run(
        ["bash", "-c", script, sys.executable, str(answer)],
        env={**os.environ, **asked, "COMP_TYPE": "9", "HOME": str(home), "PYTHONPATH": os.getcwd()},
        cwd=home,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )
    return answer.read_text().split("\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"files": {"command": "npx"}, "git": {"command": "uvx"}}}')
    return tmp_path


def test_what_is_offered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(NAMES) <= set(offered("mcpproxy ", home))
    assert offered("mcpproxy wra", home) == ["wrap "]
    assert {"files", "git", "--all"} <= set(offered("mcpproxy wrap ", home))
    assert offered("mcpproxy wrap --host curs", home) == ["cursor "]
    assert offered("mcpproxy hosts --add-mcp curs", home) == ["cursor "]
    assert offered("mcpproxy explain PROTO-00", home)[0] == "PROTO-001"
    assert offered("mcpproxy model --dialect ge", home) == ["gemini "]
    assert offered("mcpproxy export par", home) == ["parquet "]
    for option in ("check --select", "check --ignore", "--extend-select"):
        assert offered(f"mcpproxy {option} SEQ,PROTO-00", home)[0] == "SEQ,PROTO-001", option
    assert "--on-miss" in offered("mcpproxy replay server --on", home)[0]


def test_labels_of_recordings_are_offered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "state" / "mcpproxy"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    for name in ("102030.000Z-files-11", "112030.000Z-claude.weather-12", "122030.000Z-files-13"):
        (folder / f"20261121T{name}.jsonl").touch()
    (home / "clean.jsonl").touch()
    assert offered("mcpproxy stats --label cl", home) == ["claude.weather "]
    lines = ("show cl", "stats cl", "diff files cl", "ui cl", "export html cl", "fuzz cl", "prompt cl")
    for line in (*lines, "prompt files cl", "model --from cl"):
        assert {each.strip() for each in offered(f"mcpproxy {line}", home)} >= {
            "claude.weather",
            "clean.jsonl",
        }, line


def test_terms_of_filters_are_offered(home: Path) -> None:
    assert {"tool:", "status:", "rule:"} <= {
        each.strip() for each in offered("mcpproxy show --filter ", home)
    }
    assert offered("mcpproxy show --filter stat", home) == ["status:"]
    assert offered("mcpproxy stats --filter status:una", home) == ["status:unanswered "]
    assert offered("mcpproxy show --filter from:", home) == ["from:client", "from:server"]
    assert offered("mcpproxy show --filter 'status:error lat", home) == ["status:error latency:"]


def test_options_of_run_are_offered_without_its_name(home: Path) -> None:
    assert offered("mcpproxy --la", home) == ["--label "]
    assert offered("mcpproxy --label x --trace-d", home) == ["--trace-dir "]


def test_a_name_that_a_terminal_would_obey_is_not_offered(home: Path) -> None:
    """Whoever gives somebody a project names its servers."""
    names = ("files", "a\x1b[2Jb", "a\ab", "a\nb", "a\u202eb", "caf\xe9")
    entries = {name: {"command": "npx"} for name in names}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    assert {name.strip() for name in offered("mcpproxy wrap ", home) if name[:1] != "-"} == {
        "files",
        "caf\xe9",
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(mcpproxy: Mcpproxy, tmp_path: Path, shell: str) -> None:
    script = tmp_path / "script"
    script.write_text(mcpproxy("completion", shell).out)
    assert "mcpproxy" in script.read_text()
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(script)], check=True, timeout=60)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_completes(mcpproxy: Mcpproxy, home: Path, shell: str) -> None:
    """The script in a real shell: what it offers after ``mcpproxy wra``."""
    if not shutil.which(shell):
        pytest.skip(f"a real peer is not to be had: no {shell}")
    script = home / "script"
    script.write_text(mcpproxy("completion", shell).out)
    command = home / "bin" / "mcpproxy"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m mcpproxy "$@"\n')
    command.chmod(0o755)
    ask = {
        "fish": f"source {script}; complete --do-complete 'mcpproxy wra'",
        "zsh": ZSH.format(script=script),
    }[shell]
    done = subprocess.run(
        [shell, *(["-f"] if shell == "zsh" else []), "-c", ask],
        env={
            **os.environ,
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "PYTHONPATH": os.getcwd(),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "wrap" in re.split(r"[\s:]", done.stdout), done.stderr


ZSH = """
compdef() {{ function=$1; }}
_describe() {{ print -l -- "${{completions[@]}}"; }}
source {script}
BUFFER="mcpproxy wra" CURSOR=12 words=(mcpproxy wra) CURRENT=2
$function
"""
"""The function of the script is called as by zsh, and prints what it would offer."""


def test_a_wrapped_server_is_started_whatever_the_environment_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "--quiet", "--", sys.executable, "-c", "print('{}')"],
        env={**os.environ, "_ARGCOMPLETE": "1", "COMP_LINE": "x", "XDG_STATE_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == b"{}\n"


def test_the_man_page_has_every_command_and_option(mcpproxy: Mcpproxy) -> None:
    page = mcpproxy("completion", "man").out.replace("\\-", "-")
    assert page.startswith(".TH MCPPROXY ")
    assert str(Path.home()) not in page
    assert os.environ.get("XDG_STATE_HOME", "/nowhere") not in page
    assert "mcpproxy - See what an MCP client and server really say" in page
    for name in NAMES:
        assert f"mcpproxy {name}" in page
    for option in ("--trace-dir", "--dry-run", "--on-miss", "--baseline", "--forward"):
        assert option in page
