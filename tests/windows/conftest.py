"""Windows as a fixture. Where Wine or the interpreter cannot be had, its tests are skipped, or fail in CI."""

import pytest

from tests.peers.fixtures import had
from tests.peers.install import PeerUnavailableError
from tests.windows import wine


@pytest.fixture(scope="session")
def windows() -> wine.Windows:
    """Windows with mcpproxy, started."""
    try:
        return wine.windows()
    except PeerUnavailableError as unavailable:
        return had(unavailable)
