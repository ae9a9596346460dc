"""A few seconds of ``python -m tests.soak``."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.fixtures import Peers
from tests.peers.object_store import BUCKET, ObjectStore
from tests.soak.outcome import Sample
from tests.soak.sidecars import Plan, play


@pytest.fixture
def store(peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    server = peers.object_store(tmp_path / "object-store")
    server.start()
    server.wait_until_ready()
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    yield server
    server.kill()


def test_sidecars_ship_and_delete_while_they_record_and_lose_nothing(
    store: ObjectStore, tmp_path: Path
) -> None:
    # Shipper and recorder of two sidecars are killed; nothing is killed of the third.
    plan = Plan(sidecars=3, calls_per_s=45, seconds=6, rotate="1s", every_s=0.5, sample_s=2, kills=4)
    samples: list[Sample] = []
    (tmp_path / "sidecars").mkdir()
    url = f"s3://{BUCKET}/soak"
    outcome = asyncio.run(play(tmp_path / "sidecars", url, plan, store.variables, store.pid, samples.append))
    assert outcome.is_good, outcome
    assert outcome.calls == 270
    assert outcome.files > 6
    assert any({"relay", "shipper", "store"} <= {*sample.memory} for sample in samples)  # some were killed
