"""``export parquet``: what the tables hold, who can read them, and what a killed run leaves."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow.dataset as untyped_dataset  # pyright: ignore[reportMissingTypeStubs] # it has none
import pytest

from mcpproxy.send.fleet.columns import recording_rows, writer
from mcpproxy.send.fleet.columns.arrow import pa, pq
from mcpproxy.send.fleet.columns.frame_batch import FrameBatch
from mcpproxy.send.fleet.columns.places import FolderPlace, StorePlace
from mcpproxy.send.fleet.columns.schema import TABLES
from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus
from tests.prompt import sides

dataset: Final[Any] = untyped_dataset

SHIPPED: Final = Path(__file__).parents[2] / "recordings"
ROWS: Final = {"recordings": 4, "frames": 35, "findings": 2, "tools": 7}


def read_duckdb(folder: Path, table: str) -> Any:
    hive = "hive_types = {'date': VARCHAR, 'server': VARCHAR}"
    with duckdb.connect() as connection:
        rows = connection.sql(f"FROM read_parquet('{folder / table}/**/*.parquet', {hive})")
        return rows.to_arrow_table()


def read_pyarrow(folder: Path, table: str) -> Any:
    partitions = dataset.partitioning(
        pa.schema([("date", pa.string()), ("server", pa.string())]), flavor="hive"
    )
    return dataset.dataset(folder / table, partitioning=partitions).to_table()


def read_polars(folder: Path, table: str) -> Any:
    import polars

    found: Any = polars.read_parquet(
        folder / table / "**/*.parquet", hive_schema={"date": polars.String, "server": polars.String}
    )
    return found.to_arrow()


READERS: Final = {"duckdb": read_duckdb, "pyarrow": read_pyarrow, "polars": read_polars}


def rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table, in an order of their own."""
    return sorted(table.to_pylist(), key=lambda row: json.dumps(row, default=str, sort_keys=True))


@pytest.fixture
def columns(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> Path:
    """The small fleet as tables."""
    out = tmp_path / "columns"
    assert mcpproxy("export", "parquet", str(fleet), "-o", str(out)).code == 0
    return out


@pytest.mark.parametrize("table", ROWS)
def test_duckdb_pyarrow_and_polars_read_the_same(columns: Path, table: str) -> None:
    found = {name: rows(read(columns, table)) for name, read in READERS.items()}
    assert len(found["duckdb"]) == ROWS[table]
    assert found["duckdb"] == found["pyarrow"] == found["polars"]
    assert found["duckdb"][0].keys() == {*TABLES[table].names, "date", "server"}


def test_the_tables_are_in_folders_for_days_and_servers(columns: Path) -> None:
    assert sorted(path.parent.relative_to(columns).as_posix() for path in columns.rglob("*.parquet")) == [
        "findings/date=2026-11-24/server=weather",
        "frames/date=2026-11-18/server=files",
        "frames/date=2026-11-18/server=weather",
        "frames/date=2026-11-24/server=weather",
        "recordings/date=2026-11-18/server=files",
        "recordings/date=2026-11-18/server=weather",
        "recordings/date=2026-11-24/server=weather",
        "tools/date=2026-11-18/server=files",
        "tools/date=2026-11-18/server=weather",
        "tools/date=2026-11-24/server=weather",
    ]
    (path, *_) = columns.rglob("frames/**/*.parquet")
    metadata = pq.read_metadata(path)
    assert metadata.metadata[b"mcpproxy.columns"] == b"1"
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_request_has_the_outcome_of_its_answer(columns: Path) -> None:
    frames = {(row["recording"], row["frame"]): row for row in rows(read_pyarrow(columns, "frames"))}
    slow = frames["week-1/weather-a.jsonl", 14]
    assert (slow["method"], slow["tool"], slow["outcome"]) == ("tools/call", "forecast", "ok")
    assert slow["latency_ns"] == 100_000_000
    assert slow["time"].isoformat() == "2026-11-18T09:00:14+00:00"
    answer = frames["week-1/weather-a.jsonl", 15]
    assert (answer["kind"], answer["call"], answer["tool"]) == ("result", 14, "forecast")
    assert (answer["bytes"], answer["outcome"]) == (slow["answer_bytes"], None)
    failed = frames["week-1/files-a.jsonl", 12]
    assert (failed["outcome"], failed["latency_ns"]) == ("tool-error", 3_000_000)
    unknown = frames["week-2/weather-b.jsonl", 6]
    assert (unknown["kind"], unknown["method"], unknown["sender"]) == ("result", None, "server")


def test_the_calls_of_a_session_are_its_requests(columns: Path) -> None:
    requests = Counter(row["recording"] for row in rows(read_pyarrow(columns, "frames")) if row["outcome"])
    recordings = rows(read_pyarrow(columns, "recordings"))
    assert {
        row["recording"]: sum(each["calls"] for each in row["sessions"]) for row in recordings
    } == requests


def test_no_content_of_messages_is_in_the_tables(columns: Path) -> None:
    everything = json.dumps([rows(read_pyarrow(columns, table)) for table in ROWS], default=str)
    assert "The weather of a city" not in everything
    assert "done" not in everything


def test_requests_to_a_model_have_rows(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    fleet, out = tmp_path / "fleet", tmp_path / "out"
    fleet.mkdir()
    model = sides.of_a_model(sides.model(fleet))
    assert mcpproxy("export", "parquet", str(fleet), "-o", str(out)).code == 0
    first, second = rows(read_pyarrow(out, "turns"))
    assert (first["recording"], first["frame"], first["dialect"]) == (model.name, 2, "anthropic")
    assert (first["calls"], first["results"], first["tools"]) == (
        ["mcp__weather__now", "mcp__weather__wind_speed"],
        0,
        4,
    )
    assert (second["calls"], second["results"], second["input_tokens"]) == ([], 2, 2900)
    offered = {row["tool"]: row["calls"] for row in rows(read_pyarrow(out, "tools"))}
    assert offered == {
        "Bash": 0,
        "mcp__weather__now": 1,
        "mcp__weather__wind_speed": 1,
        "mcp__weather__tides": 0,
    }
    assert mcpproxy("fleet", "report", str(out)).code == 0


def test_messages_of_unusual_form_have_a_row(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    batch = f"[{corpus.message(4, 'tools/list', {})},{corpus.message(5, 'ping', {})},7]"
    corpus.write(
        tmp_path / "fleet",
        {
            "odd.jsonl": (
                corpus.header("odd", corpus.FIRST),
                *corpus.handshake("editor", "odd", revision="2025-03-26"),
                corpus.frame(4, "client", batch, ms=40),
                corpus.frame(5, "server", f"[{corpus.result(5, {})}]", ms=45),
                '{"type":"frame","seq":6,"t":50000000,"from":"server","text":"hello"}',
                corpus.frame(
                    7, "server", '{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"m"}}', ms=60
                ),
            )
        },
    )
    mcpproxy("export", "parquet", str(tmp_path / "fleet"), "-o", str(tmp_path / "columns"))
    found = sorted(
        rows(read_pyarrow(tmp_path / "columns", "frames")),
        key=lambda row: (row["frame"], row["method"] or ""),
    )
    shown = [
        (row["frame"], row["kind"], row["method"], row["outcome"], row["error_code"]) for row in found[3:]
    ]
    assert shown == [
        (4, "request", "ping", "ok", None),
        (4, "request", "tools/list", "rpc-error", -32000),
        (5, "result", "ping", None, None),
        (6, "other", None, None, None),
        (7, "error", "tools/list", None, None),
    ]


@pytest.mark.parametrize("server", ["a/../b", "50%", "søk", "  ", "=", "N" * 300, "x\x00y\n", "42", "\ud800"])
def test_a_name_that_is_no_name_of_a_folder(mcpproxy: Mcpproxy, tmp_path: Path, server: str) -> None:
    corpus.write(tmp_path / "fleet", {"a.jsonl": corpus.ended(corpus.header(server, corpus.FIRST))})
    out = tmp_path / "columns"
    assert mcpproxy("export", "parquet", str(tmp_path / "fleet"), "-o", str(out)).code == 0
    for read in READERS.values():
        (row,) = rows(read(out, "recordings"))
        assert row["label"] == server.encode("utf-8", "backslashreplace").decode()
        assert row["server"] == row["label"] or len(server) == 300
    assert [path.parent.parent.name for path in out.rglob("*.parquet")] == ["date=2026-11-18"]


def test_the_frames_of_many_recordings_are_those_of_each() -> None:
    together, alone = FrameBatch(), list[dict[str, Any]]()
    for path in sorted(SHIPPED.rglob("*.jsonl")):
        read = recording_rows.read(str(path), path.name)
        one = FrameBatch()
        for batch in (one, together):
            batch.add(path.name, read.started_us, read.scan)
        alone += one.table().to_pylist()
    assert len({row["recording"] for row in alone}) > 8
    assert {row["kind"] for row in alone} >= {"request", "notification", "result", "error"}
    assert together.table().to_pylist() == alone


def test_a_second_run_adds_what_is_new(mcpproxy: Mcpproxy, fleet: Path, columns: Path) -> None:
    corpus.write(fleet, {"week-3/new.jsonl": corpus.RECORDINGS["week-1/files-a.jsonl"]})
    again = mcpproxy("export", "parquet", str(fleet), "-o", str(columns))
    assert "1 recordings, 9 frames, 0 findings, 1 tools" in again.err
    assert len(rows(read_pyarrow(columns, "recordings"))) == 5


def test_a_killed_run_leaves_nothing_twice(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "columns"
    with monkeypatch.context() as patched:
        patched.setattr(writer, "_FLUSH_RECORDINGS", 2)
        put_list, lists = FolderPlace.put_list, 0

        def killed(place: FolderPlace, name: str, content: bytes) -> None:
            nonlocal lists
            lists += 1
            if lists == 2:
                raise KeyboardInterrupt
            put_list(place, name, content)

        patched.setattr(FolderPlace, "put_list", killed)
        assert mcpproxy("export", "parquet", str(fleet), "-o", str(out)).code == 130
    assert len(rows(read_pyarrow(out, "recordings"))) == 4  # two of them in no list
    assert mcpproxy("export", "parquet", str(fleet), "-o", str(out)).code == 0
    assert {table: len(rows(read_pyarrow(out, table))) for table in ROWS} == ROWS


def test_tables_in_a_store_are_those_of_a_folder(
    mcpproxy: Mcpproxy, fleet: Path, columns: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    for _ in range(2):
        assert mcpproxy("export", "parquet", str(fleet), "-o", f"file://{store}").code == 0
    assert [path.relative_to(store) for path in sorted(store.rglob("*.parquet"))] == [
        path.relative_to(columns) for path in sorted(columns.rglob("*.parquet"))
    ]
    assert {table: rows(read_pyarrow(store, table)) for table in ROWS} == {
        table: rows(read_pyarrow(columns, table)) for table in ROWS
    }


def test_a_killed_run_leaves_nothing_twice_in_a_store(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"

    def killed(place: StorePlace, name: str, content: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StorePlace, "put_list", killed)
        assert mcpproxy("export", "parquet", str(fleet), "-o", f"file://{store}").code == 130
    assert len(rows(read_pyarrow(store, "recordings"))) == 4  # in no list
    assert mcpproxy("export", "parquet", str(fleet), "-o", f"file://{store}").code == 0
    assert {table: len(rows(read_pyarrow(store, table))) for table in ROWS} == ROWS


def test_tables_are_not_put_among_other_objects(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'store'}"
    assert mcpproxy("ship", str(fleet / "week-1"), url).code == 0
    refused = mcpproxy("export", "parquet", url, "-o", url)
    assert (refused.code, "holds other files; name a new folder" in refused.err) == (2, True)


def test_shards_fill_one_folder(mcpproxy: Mcpproxy, fleet: Path, columns: Path, tmp_path: Path) -> None:
    out = tmp_path / "parts"
    for index in (2, 0, 1):
        assert mcpproxy("export", "parquet", str(fleet), "-o", str(out), "--shard", f"{index}/3").code == 0
    for table in ROWS:
        assert rows(read_pyarrow(out, table)) == rows(read_pyarrow(columns, table))


def test_findings_of_check_take_the_place_of_the_recorded_ones(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path
) -> None:
    mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"))
    (results,) = (tmp_path / "out").iterdir()
    corpus.write(fleet, {"week-3/new.jsonl": corpus.RECORDINGS["week-1/files-a.jsonl"]})
    out = tmp_path / "columns"
    exported = mcpproxy("export", "parquet", str(fleet), "-o", str(out), "--findings", str(results))
    assert exported.code == 0
    assert "1 recording without a result in" in exported.err
    found = rows(read_pyarrow(out, "findings"))
    assert len(found) == 11
    assert {row["judged_by"] for row in found} == {results.name}
    assert all(len(row["fingerprint"]) > 8 for row in found)


def test_a_result_that_cannot_be_read_is_named_and_its_recording_left_out(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path
) -> None:
    mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"))
    (results,) = (tmp_path / "out").iterdir()
    linked = results / "week-1" / "files-a.jsonl.json"
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    out = tmp_path / "columns"
    exported = mcpproxy("export", "parquet", str(fleet), "-o", str(out), "--findings", str(results))
    assert exported.code == 2
    assert f"mcpproxy: {linked}: " in exported.err
    assert len(rows(read_pyarrow(out, "recordings"))) == 3


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("nowhere", "-o", "out"), "nowhere: is not a folder; name a folder of recordings"),
        (("fleet",), "the following arguments are required: -o/--output"),
        (("fleet", "-o", "fleet"), "fleet: holds other files; name a new folder"),
        (("fleet", "-o", "out", "--findings", "x"), "x: is not a folder; name a folder that check --out"),
        (("fleet", "-o", "fleet/week-1/files-a.jsonl"), "the tables cannot be written: "),
    ],
)
def test_what_cannot_be_written_is_said_in_a_line(
    mcpproxy: Mcpproxy, fleet: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(fleet.parent)
    refused = mcpproxy("export", "parquet", *argv)
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert said in refused.err


def test_a_recording_that_cannot_be_read_is_named_and_left_out(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path
) -> None:
    (fleet / "torn.jsonl").write_text("not a trace\n")
    exported = mcpproxy("export", "parquet", str(fleet), "-o", str(tmp_path / "columns"))
    assert exported.code == 2
    assert f"{fleet / 'torn.jsonl'}:1: not an mcpproxy trace" in exported.err
    assert len(rows(read_pyarrow(tmp_path / "columns", "recordings"))) == 4
