"""The fixtures: a server that sends what a test tells it to, and the proxy in front of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.relay import http_peers
from tests.relay.http_peers import LOOPS, Proxy, Upstream


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kind of proxy, by its loop. A test of one kind only has the mark ``FORKED``."""
    monkeypatch.setattr(http_peers, "usual_loop", request.param)
    return request.param


@pytest.fixture
def upstream(loop: str) -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def proxy(upstream: Upstream, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(str(tmp_path / "t.jsonl"), upstream.origin) as started:
        yield started
