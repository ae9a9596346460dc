"""A home folder for each test, in which no host is installed yet."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Mcpproxy, Outcome, mcpproxy, state_dir

__all__ = ["Outcome", "mcpproxy", "state_dir"]

Commands = Callable[..., Outcome]

_ELSEWHERE = (
    "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "CLINE_DIR", "OPENCODE_CONFIG",
    "NVM_DIR",
)  # fmt: skip


def installed(program: Path, script: str = "#!/bin/sh\n") -> Path:
    """Write a program, and return its path."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(script)
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder. The current folder is a project in it, under version control.

    The commands of the servers in the tests are on the ``PATH``.
    """
    home = tmp_path / "home"
    for command in ("npx", "uvx", "x"):
        installed(tmp_path / "commands" / command)
    monkeypatch.setenv("PATH", str(tmp_path / "commands"), prepend=os.pathsep)
    (home / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for name in _ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home / "project")
    return home


__all__ += ["Mcpproxy"]
