"""The fixtures: a server that sends what a test tells it to, and the proxy in front of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.relay.http_peers import Proxy, Upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def proxy(upstream: Upstream, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(str(tmp_path / "t.jsonl"), upstream.origin) as started:
        yield started
