"""Completion in shells, and the man page: every command and option is there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.cli.main import COMMANDS
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
    assert offered("mcpproxy explain PROTO-00", home)[0] == "PROTO-001"
    assert "--on-miss" in offered("mcpproxy replay server --on", home)[0]


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
    assert "mcpproxy - See what an MCP client and server really say" in page
    for name in NAMES:
        assert f"mcpproxy {name}" in page
    for option in ("--trace-dir", "--dry-run", "--on-miss", "--baseline", "--forward"):
        assert option in page
