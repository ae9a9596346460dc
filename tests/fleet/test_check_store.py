"""``check`` and ``export parquet`` on recordings of an object store, judged by every engine and in shards."""

from pathlib import Path

import pytest

from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus
from tests.fleet.test_columns import ROWS, read_pyarrow, rows
from tests.fleet.test_engines import check
from tests.peers.object_store import ObjectStore
from tests.ship_kills.shipping import URL, client, keys


@pytest.fixture
def store(object_store: ObjectStore) -> ObjectStore:
    return object_store


@pytest.fixture
def shipped(mcpproxy: Mcpproxy, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small fleet in the store."""
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    for week in ("week-1", "week-2"):
        folder = corpus.write(tmp_path / "fleet") / week
        assert mcpproxy("ship", str(folder), URL).code == 0


def results(store: ObjectStore, out: str) -> dict[str, bytes]:
    """The results below a folder of the store, by the name of the recording."""
    found = keys(store, out)
    return {key.partition("/")[2].partition("/")[2]: bytes(client(store).get(key).bytes()) for key in found}


@pytest.mark.usefixtures("shipped")
def test_every_engine_and_shards_give_the_same_results(mcpproxy: Mcpproxy, store: ObjectStore) -> None:
    for engine in ("local", "ray", "dask"):
        judged = check(URL, "--out", f"{URL}/findings/{engine}", "--engine", engine, "--workers", "2")
        assert judged.returncode == 0, judged.stderr
        assert judged.stdout.startswith("2 errors, 9 info in 4 traces, 35 frames\n")
    for index in range(8):
        assert mcpproxy("check", URL, "--shard", f"{index}/8", "--out", f"{URL}/findings/shards").code == 0
    found = {name: results(store, f"findings/{name}") for name in ("local", "ray", "dask", "shards")}
    assert len(found["local"]) == len(corpus.RECORDINGS)
    assert found["local"] == found["ray"] == found["dask"] == found["shards"]
    again = mcpproxy("check", URL, "--out", f"{URL}/findings/local")
    assert "4 traces had a result already." in again.out


@pytest.mark.usefixtures("shipped")
def test_tables_are_made_of_the_store(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    out = f"{URL}/findings/tables"
    (line,) = [line for line in mcpproxy("check", URL, "--out", out).out.splitlines() if "Results: " in line]
    columns = tmp_path / "columns"
    findings = line.removeprefix("Results: ")
    assert mcpproxy("export", "parquet", URL, "-o", str(columns), "--findings", findings).code == 0
    counts = {table: len(rows(read_pyarrow(columns, table))) for table in ROWS}
    assert counts == {**ROWS, "findings": 11}


@pytest.mark.usefixtures("shipped")
def test_what_is_damaged_in_the_store_is_skipped(mcpproxy: Mcpproxy, store: ObjectStore) -> None:
    key = keys(store, "recordings")[0]
    whole = bytes(client(store).get(key).bytes())
    client(store).put(key, whole[: len(whole) // 2])
    try:
        judged = mcpproxy("check", URL, "--out", f"{URL}/findings/damaged")
    finally:
        client(store).put(key, whole)
    assert judged.code == 2
    assert "is not whole zstd data; it is damaged: see mcpproxy verify" in judged.err
    assert len(results(store, "findings/damaged")) == len(corpus.RECORDINGS) - 1
    assert mcpproxy("check", URL, "--out", f"{URL}/findings/damaged").code == 0


def test_a_store_that_is_not_there_is_one_line(
    mcpproxy: Mcpproxy, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    refused = mcpproxy("check", str(fleet), "--out", "s3://bucket/findings")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "hidden" not in refused.err
