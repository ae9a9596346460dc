"""What the tests of fleets share: the commands, and a small fleet."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import mcpproxy, state_dir
from tests.fleet import corpus
from tests.peers.fixtures import Peers

if TYPE_CHECKING:
    from tests.peers.object_store import ObjectStore

__all__ = ["mcpproxy", "state_dir"]


@pytest.fixture(scope="session", autouse=True)
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start the threads of obstore and of polars: what they have open stays until the process ends."""
    # Here, because they take half a second, which no worker spends that runs other tests.
    import obstore
    import polars
    from obstore.store import MemoryStore

    obstore.put(MemoryStore(), "name", b"content")
    polars.DataFrame({"n": [1]}).write_parquet(tmp_path_factory.mktemp("polars") / "table.parquet")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A folder with the recordings of ``tests.fleet.corpus``."""
    return corpus.write(tmp_path / "fleet")


@pytest.fixture(scope="module")
def object_store(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[ObjectStore]":
    """A real server of S3 for the tests of a module."""
    server = peers.object_store(tmp_path_factory.mktemp("object-store"))
    server.start()
    server.wait_until_ready()
    yield server
    server.kill()
