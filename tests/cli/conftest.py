"""How the tests of the commands call them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mcpproxy.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


Mcpproxy = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of the test's own, not created yet; and no width but that of a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "mcpproxy"


@pytest.fixture
def mcpproxy(capsys: pytest.CaptureFixture[str]) -> Mcpproxy:
    """Run a command in this process."""

    def run(*argv: str) -> Outcome:
        code = main([*argv])
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return run
