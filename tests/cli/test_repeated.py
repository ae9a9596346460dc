"""Recordings in which one requirement was broken thousands of times: what the commands say of them."""

import json
from pathlib import Path

import pytest

from mcpproxy import api
from mcpproxy.testing import McpFindings, McpRecording
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import HANDSHAKE

MANY = 2500
RUN = json.dumps(
    {
        "type": "lines",
        "seq": 4,
        "count": MANY,
        "t": 9_000_000,
        "from": "server",
        "text": "y\n" * (MANY - 1) + "y",
    }
)


@pytest.fixture
def noisy(tmp_path: Path) -> str:
    """A handshake, then a run of lines that are no messages."""
    recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, RUN))
    return str(tmp_path / "t.jsonl")


def test_text_lists_the_first_and_counts_the_others(mcpproxy: Mcpproxy, noisy: str) -> None:
    checked = mcpproxy("check", noisy)
    assert checked.code == 1
    assert checked.out.count("STDIO-002") == 3  # the first, how many more, what explains it
    assert "    99 more like it, in frames 5, 6, 7, 8, 9, …\n" in checked.out
    assert f"{noisy}: 2,400 more of STDIO-002 server (error), like those before" in checked.out
    assert "2,500 errors" in checked.out


def test_json_carries_the_count_beside_the_findings(mcpproxy: Mcpproxy, noisy: str) -> None:
    report = json.loads(mcpproxy("check", noisy, "--format", "json").out)
    (trace,) = report["traces"]
    assert (len(trace["findings"]), report["summary"]["error"]) == (100, MANY)
    (more,) = trace["more"]
    assert (more["rule"], more["severity"], more["blame"], more["count"]) == (
        "STDIO-002",
        "error",
        "server",
        2400,
    )


@pytest.mark.parametrize(
    ("format", "says"),
    [
        ("sarif", "2,400 more of STDIO-002"),
        ("github", "2,400 more of STDIO-002"),
        ("junit", "(2499 more)"),
    ],
)
def test_every_report_says_how_many_are_not_listed(
    mcpproxy: Mcpproxy, noisy: str, format: str, says: str
) -> None:
    assert says in mcpproxy("check", noisy, "--format", format).out


def test_a_baseline_that_knows_those_listed_knows_the_others(
    mcpproxy: Mcpproxy, noisy: str, tmp_path: Path
) -> None:
    known = str(tmp_path / "known.json")
    assert mcpproxy("check", noisy, "--baseline", known, "--write-baseline").code == 0
    assert mcpproxy("check", noisy, "--baseline", known).code == 0


def test_the_api_counts_them_all(noisy: str) -> None:
    report = api.check(noisy)
    assert (report.errors, len(report.findings), report.more[0].count) == (MANY, 100, 2400)


def test_a_failed_test_counts_them_all(noisy: str, tmp_path: Path) -> None:
    recording = McpRecording(tmp_path / "new.jsonl", "record", Path(noisy).parent, adds=False)
    head, *lines = McpFindings(recording).trouble().splitlines()
    assert head.startswith("mcp_findings: 2,500 findings in ")
    assert lines.count("  2,400 more of STDIO-002 server (error), like those before") == 1
    assert not McpFindings(recording, ignore="STDIO-002").trouble()


def test_show_and_trim_take_lines_one_by_one(mcpproxy: Mcpproxy, noisy: str, tmp_path: Path) -> None:
    shown = mcpproxy("show", "--frames", noisy)
    assert shown.code == 0
    assert shown.out.count("y") >= MANY
    trimmed = str(tmp_path / "few.jsonl")
    assert mcpproxy("trim", noisy, "--frames", "5-6", "-o", trimmed).code == 0
    assert '"message"' not in Path(trimmed).read_text(encoding="utf-8").splitlines()[-2]
