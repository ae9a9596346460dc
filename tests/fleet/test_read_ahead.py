"""Recordings of a store are fetched before their turn, by ``check --out`` and by ``export parquet``."""

import asyncio
import os
import re
from pathlib import Path
from typing import Final

import pytest

from tests import house
from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus
from tests.fleet.test_judge_guard import CHECKS, EVIL, posix
from tests.peers.distant_store import distant
from tests.peers.object_store import ObjectStore
from tests.ship_kills.shipping import URL, keys

_GIVE_UP_S: Final = 25
_REQUEST: Final = re.compile(rb"(GET|PUT) \S+/(recordings|findings)/\S+\.(?:zst|json) HTTP")
_MANY: Final = 12


@pytest.fixture
def store(object_store: ObjectStore) -> ObjectStore:
    return object_store


@pytest.fixture
def shipped(mcpproxy: Mcpproxy, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of some recordings in the store."""
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    records = corpus.RECORDINGS["week-1/weather-a.jsonl"]
    corpus.write(tmp_path / "many", {f"{number:02}.jsonl": records for number in range(_MANY)})
    url = f"{URL}/{tmp_path.name}"
    assert mcpproxy("ship", str(tmp_path / "many"), url).code == 0
    return url


class Gathering:
    """Holds requests for recordings until several wait, and the same with results.

    If too few come together, ``gave_up`` is set, and nothing is held any more.
    """

    def __init__(self) -> None:
        self.held: Final[dict[bytes, list[asyncio.Event]]] = {b"GET": [], b"PUT": []}
        self.gave_up = False

    async def hold(self, piece: bytes) -> None:
        if self.gave_up or (found := _REQUEST.match(piece)) is None:
            return
        waiting = self.held[found[1]]
        waiting.append(asyncio.Event())
        if len(waiting) == _MANY:
            for each in waiting:
                each.set()
        try:
            await asyncio.wait_for(waiting[-1].wait(), _GIVE_UP_S)
        except TimeoutError:
            self.gave_up = True


def test_recordings_are_fetched_and_results_written_together(
    mcpproxy: Mcpproxy,
    store: ObjectStore,
    shipped: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert mcpproxy("check", shipped, "--out", str(tmp_path / "out")).code == 0
    gathering = Gathering()
    with distant(store.variables, gathering.hold) as variables:
        monkeypatch.setenv("AWS_ENDPOINT_URL", variables["AWS_ENDPOINT_URL"])
        judged = mcpproxy("check", shipped, "--out", f"{shipped}/findings", "--workers", "1")
    assert judged.code == 0, judged.err
    assert not gathering.gave_up
    assert {kind: len(held) for kind, held in gathering.held.items()} == {b"GET": _MANY, b"PUT": _MANY}
    assert len(keys(store, f"{tmp_path.name}/findings")) == _MANY


def test_an_export_fetches_recordings_together(
    mcpproxy: Mcpproxy,
    store: ObjectStore,
    shipped: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gathering = Gathering()
    with distant(store.variables, gathering.hold) as variables:
        monkeypatch.setenv("AWS_ENDPOINT_URL", variables["AWS_ENDPOINT_URL"])
        exported = mcpproxy("export", "parquet", shipped, "-o", str(tmp_path / "columns"))
    assert exported.code == 0, exported.err
    assert not gathering.gave_up
    assert len(gathering.held[b"GET"]) == _MANY
    assert f": {_MANY} recordings, " in exported.err


@posix
@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("os.abort()", "its judge was ended by SIGABRT, 2 times; it was skipped"),
        ("bytearray(1 << 40)", "its judge needed more than 1,024 MiB of memory, 2 times; it was skipped"),
    ],
)
def test_a_recording_that_kills_its_judge_harms_none_fetched_with_it(
    mcpproxy: Mcpproxy, shipped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: str, said: str
) -> None:
    scratch, log = tmp_path / "scratch", tmp_path / "log"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    evil = corpus.write(tmp_path / "evil", {"05-evil.jsonl": EVIL})
    assert mcpproxy("ship", str(evil), shipped).code == 0
    rules = house.build(tmp_path, CHECKS.format(log=str(log), deed=deed))
    options = ("--rules", rules, "--workers", "1", "--memory", "1024")
    judged = mcpproxy("check", shipped, "--out", f"{shipped}/findings", *options)
    assert judged.code == 2
    (line,) = judged.err.splitlines()
    assert "/05-evil.jsonl: " in line
    assert line.endswith(said)
    assert log.read_text().splitlines() == ["asked"] * 2
    assert f"in {_MANY} traces" in judged.out
    assert "1 trace could not be judged." in judged.out
    assert os.listdir(scratch) == []


def test_a_result_that_cannot_be_written_is_named(
    mcpproxy: Mcpproxy,
    store: ObjectStore,
    shipped: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", store.variables["AWS_ACCESS_KEY_ID"])
    (tmp_path / "file").write_text("")
    judged = mcpproxy("check", shipped, "--out", str(tmp_path / "file" / "out"))
    assert judged.code == 2
    assert len(judged.err.splitlines()) == _MANY
    assert "no result can be written: not a directory; correct that, 2 times; it was skipped" in judged.err
