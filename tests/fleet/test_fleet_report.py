"""``fleet report`` and the queries that it is made of: each gives its table on the small fleet."""

import json
import re
import shutil
from pathlib import Path
from typing import Final

import duckdb
import pytest

from mcpproxy.fleet.columns import fleet_report
from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus

EXPECTED: Final = {
    "overview": """
SERVER   RECORDINGS  INCOMPLETE  FRAMES  ERRORS  WARNINGS  FIRST             LAST
weather           3           0      26       2         0  2026-11-18 09:00  2026-11-24 09:00
files             1           0       9       0         0  2026-11-18 09:00  2026-11-18 09:00
""",
    "findings": """
WEEK        SERVER   RULE       SEVERITY  FINDINGS  RECORDINGS
2026-11-23  weather  PROTO-007  error            1           1
2026-11-23  weather  RPC-005    error            1           1
""",
    "latency": """
SERVER   TOOL      CALLS  NOT OK  P50 MS  P95 MS
weather  forecast      4       0       6     100
files    read          2       1       2       3
""",
    "changed_tools": """
SERVER   TOOL      DEFINITION    FIRST SEEN        LAST SEEN         RECORDINGS  SERVER VERSIONS
weather  forecast  b2843d2cd6ae  2026-11-18 09:00  2026-11-18 09:00           1  1
weather  forecast  c29dbf6edcfd  2026-11-24 09:00  2026-11-24 09:00           2  2
""",
    "clients": """
CLIENT  CLIENT VERSION  SERVER   ERRORS  WARNINGS  RECORDINGS  RULES
bot     1               weather       1         0           1  RPC-005
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
    assert sections(printed.out)[fleet_report.TITLES[query]] == EXPECTED[query].strip()


def test_every_query_is_tested_and_in_the_report() -> None:
    files = {path.stem for path in fleet_report.QUERIES.glob("*.sql")} - {"tables"}
    assert files == EXPECTED.keys() == fleet_report.TITLES.keys()


@pytest.mark.parametrize("query", EXPECTED)
def test_a_query_runs_in_duckdb_alone(columns: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    monkeypatch.chdir(columns)
    with duckdb.connect() as connection:
        connection.execute((fleet_report.QUERIES / "tables.sql").read_text())
        found = connection.sql((fleet_report.QUERIES / f"{query}.sql").read_text()).to_arrow_table()
    assert found.num_rows == len(EXPECTED[query].strip().splitlines()) - 1


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
    assert [title for title in fleet_report.TITLES.values() if f">{title} <" not in text] == []


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
    assert (printed.code, sections(printed.out)[fleet_report.TITLES["clients"]]) == (0, "none")
