"""A step of a long command that takes too long is a line and a failure, and no traceback."""

import subprocess
import sys
from types import ModuleType

import pytest

from tests.hosts import real_hosts, thin_path


@pytest.mark.parametrize("command", [real_hosts, thin_path])
def test_a_step_that_takes_too_long(
    command: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def late(*_: object) -> None:
        raise subprocess.TimeoutExpired(["npx", "-y", "a server"], 90)

    monkeypatch.setattr(command, "play", late)
    monkeypatch.setattr(sys, "argv", ["", "codex", "opencode"])
    assert command.main() == 1
    _, *told = capsys.readouterr().out.split("npx -y 'a server' took longer than ")
    assert [words[:4] for words in told] == ["90 s", "90 s"]
