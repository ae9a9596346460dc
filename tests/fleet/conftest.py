"""What the tests of fleets share: the commands, and a small fleet."""

from pathlib import Path

import pytest

from tests.cli.conftest import mcpproxy, state_dir
from tests.fleet import corpus

__all__ = ["mcpproxy", "state_dir"]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A folder with the recordings of ``tests.fleet.corpus``."""
    return corpus.write(tmp_path / "fleet")
