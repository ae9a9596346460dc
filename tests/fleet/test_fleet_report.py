"""``fleet report`` and the queries that it is made of: each gives its table on the small fleet."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb
import pytest

from mcpproxy.send.fleet.columns import manifest_report, report
from mcpproxy.send.fleet.columns.arrow import pq
from mcpproxy.send.fleet.columns.query_answer import TITLES
from mcpproxy.send.fleet.manifest import Manifest, encode, key_of
from mcpproxy.send.fleet.store import Store, StoredObject
from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus
from tests.view.situations import begun, write

EXPECTED: Final = {
    "overview": """
SERVER   RECORDINGS  INCOMPLETE  FRAMES  ERROR FINDINGS  WARNING FINDINGS  FIRST             LAST
weather           3           0      26               2                 0  2026-11-18 09:00  2026-11-24 09:00
files             1           0       9               0                 0  2026-11-18 09:00  2026-11-18 09:00
""",
    "findings": """
WEEK        SERVER   RULE       SEVERITY  FINDINGS  RECORDINGS
2026-11-23  weather  PROTO-007  error            1           1
2026-11-23  weather  RPC-005    error            1           1
""",
    "latency": """
SERVER   TOOL      CALLS  FAILED  UNANSWERED  CANCELLED  REFUSED  P50 MS  P95 MS
weather  forecast      4       0           0          0        0       6     100
files    read          2       1           0          0        0       2       3
""",
    "changed_tools": """
SERVER   TOOL      DEFINITION    FIRST SEEN        LAST SEEN         RECORDINGS  SERVER VERSIONS
weather  forecast  b2843d2cd6ae  2026-11-18 09:00  2026-11-18 09:00           1  1
weather  forecast  c29dbf6edcfd  2026-11-24 09:00  2026-11-24 09:00           2  2
""",
    "clients": """
CLIENT  CLIENT VERSION  SERVER   ERROR FINDINGS  WARNING FINDINGS  RECORDINGS  RULES
bot     1               weather               1                 0           1  RPC-005
""",
    "context_cost": """
SERVER   TOOLS  TOKENS  NEVER CALLED  TOKENS NEVER CALLED
weather      2      52             1                   22
files        1      21             0                    0
""",
    "old_revisions": """
SERVER  CLIENT  CLIENT VERSION  RECORDINGS  LAST
files   agent   1                        1  2026-11-18 09:00
""",
}
"""Query -> its table, as the report prints it."""


@pytest.fixture
def columns(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> Path:
    """The small fleet as tables."""
    out = tmp_path / "columns"
    assert mcpproxy("export", "parquet", str(fleet), "-o", str(out)).code == 0
    return out


def sections(text: str) -> dict[str, str]:
    """The tables of a report by their titles."""
    parts = (part.partition("\n") for part in text.split("\n\n"))
    return {title: body.strip("\n") for title, _, body in parts}


@pytest.mark.parametrize("query", EXPECTED)
def test_a_query_gives_its_table(mcpproxy: Mcpproxy, columns: Path, query: str) -> None:
    printed = mcpproxy("fleet", "report", str(columns))
    assert printed.code == 0
    assert sections(printed.out)[TITLES[query]] == EXPECTED[query].strip()


def test_every_query_is_tested_and_in_the_report() -> None:
    files = {path.stem for path in report.QUERIES.glob("*.sql")} - {"tables"}
    assert files == EXPECTED.keys() == TITLES.keys()


@pytest.mark.parametrize("query", EXPECTED)
def test_a_query_runs_in_duckdb_alone(columns: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    monkeypatch.chdir(columns)
    with duckdb.connect() as connection:
        connection.execute((report.QUERIES / "tables.sql").read_text())
        found = connection.sql((report.QUERIES / f"{query}.sql").read_text()).to_arrow_table()
    assert found.num_rows == len(EXPECTED[query].strip().splitlines()) - 1


def tool_calls(path: Path) -> None:
    """Write calls of three tools: answered, cancelled and unanswered; the last two; answered only."""
    about = begun()
    tools = ("mixed", "mixed", "mixed", "lost", "lost", "good", "good")
    for id, (tool, how) in enumerate(zip(tools, "acucuaa", strict=True), 10):
        about.asks(id, "tools/call", {"name": tool, "arguments": {}}, ms=10 * id)
        if how == "a":
            about.answers(id, {"content": []}, ms=10 * id + 3)
        elif how == "c":
            about.notifies("notifications/cancelled", {"requestId": id}, ms=10 * id + 704, by="client")
    write(path, about.closes(ms=2000))


def test_a_call_without_an_answer_counts_with_the_time_that_it_waited_as_in_stats(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    (tmp_path / "fleet").mkdir()
    tool_calls(tmp_path / "fleet" / "a.jsonl")
    mcpproxy("export", "parquet", str(tmp_path / "fleet"), "-o", str(tmp_path / "columns"))
    report = ("fleet", "report", str(tmp_path / "columns"))
    in_json = json.loads(mcpproxy(*report, "--format", "json").out)["latency"]
    found = {
        row["tool"]: (row["p50_ms"], row["p95_ms"], [name.removesuffix("_ms") for name in row["at_least"]])
        for row in in_json
    }
    stats = json.loads(mcpproxy("stats", str(tmp_path / "fleet"), "--json").out)["calls"]
    assert found == {
        row["name"]: (
            row["p50_ns"] / 1e6,
            row["p95_ns"] / 1e6,
            [name for name in row["at_least"] if name != "max"],
        )
        for row in stats
        if row["name"]
    }
    assert found["lost"][0] == 704
    head, *rows = sections(mcpproxy(*report).out)[TITLES["latency"]].splitlines()
    assert head.endswith("  P50 MS  P95 MS")
    assert {row.split()[1]: row.split()[-2] for row in rows} == {"mixed": ">704", "lost": ">704", "good": "3"}
    assert "&gt;704" in mcpproxy(*report, "--format", "html").out


def test_tables_of_a_release_that_did_not_say_how_long_calls_waited(
    mcpproxy: Mcpproxy, columns: Path
) -> None:
    printed = mcpproxy("fleet", "report", str(columns)).out
    for path in (columns / "frames").rglob("*.parquet"):
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table.drop_columns(["waited_ns"]), path)
    assert mcpproxy("fleet", "report", str(columns)).out == printed


def test_the_report_as_json(mcpproxy: Mcpproxy, columns: Path) -> None:
    found = json.loads(mcpproxy("fleet", "report", str(columns), "--format", "json").out)
    assert found.keys() == EXPECTED.keys()
    assert found["findings"][0] == {
        "week": "2026-11-23",
        "server": "weather",
        "rule": "PROTO-007",
        "severity": "error",
        "findings": 1,
        "recordings": 1,
    }
    assert found["old_revisions"][0]["last"] == "2026-11-18T09:00:00Z"


def test_the_report_as_a_page_loads_nothing_and_shows_names_as_text(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    records = corpus.ended(
        corpus.header("<script>alert(1)</script>", corpus.FIRST), *corpus.handshake("a&b", "s")
    )
    corpus.write(tmp_path / "fleet", {"a.jsonl": records})
    mcpproxy("export", "parquet", str(tmp_path / "fleet"), "-o", str(tmp_path / "columns"))
    page = tmp_path / "fleet.html"
    code = mcpproxy("fleet", "report", str(tmp_path / "columns"), "--format", "html", "-o", str(page)).code
    text = page.read_text()
    assert code == 0
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "default-src 'none'; style-src 'sha256-" in text
    assert re.findall(r"https?://|src=|href=", text) == []
    assert [title for title in TITLES.values() if f">{title} <" not in text] == []


def test_a_folder_without_tables_is_refused(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    refused = mcpproxy("fleet", "report", str(tmp_path))
    said = "holds no tables; make them with mcpproxy export parquet"
    assert (refused.code, refused.err) == (2, f"mcpproxy: {tmp_path}: {said}\n")


def test_tables_that_are_damaged_are_named(mcpproxy: Mcpproxy, columns: Path) -> None:
    (path, *_) = (columns / "frames").rglob("*.parquet")
    path.write_bytes(b"PAR1")
    refused = mcpproxy("fleet", "report", str(columns))
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "the tables cannot be read" in refused.err


def test_a_fleet_without_findings_has_a_report(mcpproxy: Mcpproxy, columns: Path) -> None:
    shutil.rmtree(columns / "findings")
    printed = mcpproxy("fleet", "report", str(columns))
    assert (printed.code, sections(printed.out)[TITLES["clients"]]) == (0, "none")


FROM_MANIFESTS: Final = {
    "overview": """
SERVER   RECORDINGS  CUT  UNFINISHED  FRAMES  ERROR FINDINGS  WARNING FINDINGS  FIRST             LAST
weather           3    0           0      26               2                 0  2026-11-18 09:00  2026-11-24 09:00
files             1    0           0       9               0                 0  2026-11-18 09:00  2026-11-18 09:00
""",  # noqa: E501
    "findings": """
WEEK        SERVER   RULE       LISTED  RECORDINGS
2026-11-23  weather  PROTO-007       1           1
2026-11-23  weather  RPC-005         1           1
""",
    "old_revisions": """
SERVER  FIRST CLIENT  RECORDINGS  LAST
files   agent 1                1  2026-11-18 09:00
""",
}
"""Query -> its table, from the manifests of the small fleet."""


@pytest.fixture
def shipped(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> str:
    """The URL to which the folders of the small fleet were shipped."""
    url = f"file://{tmp_path / 'store'}"
    for folder in sorted(path for path in fleet.iterdir() if path.is_dir()):
        assert mcpproxy("ship", str(folder), url).code == 0
    return url


def test_what_was_shipped_answers_the_first_questions(mcpproxy: Mcpproxy, shipped: str) -> None:
    printed = mcpproxy("fleet", "report", shipped)
    assert printed.code == 0
    assert sections(printed.out) == {TITLES[name]: each.strip() for name, each in FROM_MANIFESTS.items()}
    assert "from 4 manifests; tables answer more: mcpproxy export parquet" in printed.err
    in_json = json.loads(mcpproxy("fleet", "report", shipped, "--format", "json").out)
    assert in_json["overview"][0]["error_findings"] == 2
    folder = mcpproxy("fleet", "report", shipped.removeprefix("file://"))
    assert folder.out == printed.out


def test_the_report_from_manifests_reads_no_recording(mcpproxy: Mcpproxy, shipped: str) -> None:
    before = mcpproxy("fleet", "report", shipped).out
    shutil.rmtree(Path(shipped.removeprefix("file://")) / "recordings")
    assert mcpproxy("fleet", "report", shipped).out == before


def test_a_manifest_that_was_changed_does_not_count(mcpproxy: Mcpproxy, shipped: str) -> None:
    changed = sorted((Path(shipped.removeprefix("file://")) / "manifests").rglob("*.json"))[0]
    changed.write_bytes(changed.read_bytes().replace(b'"part":1', b'"part":2'))
    printed = mcpproxy("fleet", "report", shipped)
    assert printed.code == 2
    assert "was changed: its digest is not that of its content; see mcpproxy verify" in printed.err
    assert "from 3 manifests" in printed.err


def test_the_last_file_of_a_recording_counts_for_all() -> None:
    one = Manifest(
        "c", 1, "", "recordings/1", "a.jsonl", "r", 1, "", "weather", "weather 1", "bot 1", "2025-11-25",
        "http", "2026-11-22T23:59:59Z", 0, 1, "continued", {"client": 5, "server": 5}, {"error": 1},
        {"RPC-005": 1}, 1, "", 1, "", "none", "", "", "",
    )  # fmt: skip
    last = replace(
        one, key="recordings/k2", name="a.2.jsonl", part=2, ending="cut", frames={"client": 8, "server": 7},
        findings={"error": 3}, rules={"RPC-005": 2}, first_ns=2_000_000_000,
    )  # fmt: skip
    store = MemoryManifests([last, one])
    overview, findings, old = manifest_report.answer_from_manifests(store).answers
    assert overview.texts() == [
        ("weather", "1", "1", "0", "15", "3", "0", "2026-11-22 23:59", "2026-11-22 23:59")
    ]
    # The first file begins on a Sunday, the second on the Monday after it.
    assert findings.texts() == [
        ("2026-11-23", "weather", "RPC-005", "2", "1"),
        ("2026-11-16", "weather", "RPC-005", "1", "1"),
    ]
    assert old.texts() == []


class MemoryManifests(Store):
    """A store with nothing but manifests."""

    def __init__(self, manifests: list[Manifest]) -> None:
        super().__init__("file:///")
        self._held = {key_of("c", number): encode(each) for number, each in enumerate(manifests, 1)}

    def list(self, prefix: str = "", after: str = "", *, batch: int = 1000) -> Iterator[StoredObject]:
        return (StoredObject(key, 1, 0) for key in self._held)

    def read(self, key: str, limit: int = 0) -> bytes:
        return self._held[key]


def test_tables_in_a_store_answer_all(mcpproxy: Mcpproxy, fleet: Path, columns: Path, tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'tables'}"
    assert mcpproxy("export", "parquet", str(fleet), "-o", url).code == 0
    assert mcpproxy("fleet", "report", url).out == mcpproxy("fleet", "report", str(columns)).out


def test_a_store_with_neither_is_refused(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = mcpproxy("fleet", "report", f"file://{tmp_path / 'empty'}")
    assert refused.code == 2
    assert "holds neither tables nor what was shipped; name one of the two" in refused.err
