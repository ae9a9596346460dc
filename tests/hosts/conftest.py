"""A home folder for each test, in which no host is installed yet."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Mcpproxy, Outcome, mcpproxy, state_dir

__all__ = ["Outcome", "mcpproxy", "state_dir"]

Commands = Callable[..., Outcome]

_ELSEWHERE = (
    "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "CLINE_DIR", "OPENCODE_CONFIG",
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder. The current folder is a project in it, under version control."""
    home = tmp_path / "home"
    (home / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for name in _ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home / "project")
    return home


__all__ += ["Mcpproxy"]
