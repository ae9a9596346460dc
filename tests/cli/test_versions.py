"""``mcpproxy versions`` and ``check --versions``: who spoke what, and whether that is allowed."""

import json
import re
from pathlib import Path

import pytest

from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.read.reports import version_ranges
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN

RECORDINGS = Path(__file__).parent.parent.parent / "recordings"


def test_the_matrix_of_two_recordings(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    older = tuple(record.replace("2025-11-25", "2024-11-05") for record in CLEAN)
    recordings.write(tmp_path / "a.jsonl", CLEAN)
    recordings.write(tmp_path / "b.jsonl", older)
    counts = [f"{'1' if name in ('2024-11-05', '2025-11-25') else '-':10}" for name in REVISIONS]
    assert mcpproxy("versions", str(tmp_path)).out.splitlines() == [
        f"NAME  VERSION  ROLE    {'  '.join(REVISIONS)}",
        f"c     1        client  {'  '.join(counts)}".rstrip(),
        f"s     1        server  {'  '.join(counts)}".rstrip(),
    ]


def test_the_matrix_as_json(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "a.jsonl", CLEAN)
    listed = json.loads(mcpproxy("versions", trace, "--format", "json").out)
    assert listed["implementations"][1] == {
        "name": "s",
        "version": "1",
        "role": "server",
        "revisions": {"2025-11-25": 1},
    }


def test_a_server_without_a_version_is_named(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    records = tuple(
        re.sub(r'("name\\*":\\*"s\\*"),\\*"version\\*":\\*"1\\*"', r"\1", record) for record in CLEAN
    )
    assert records != CLEAN
    trace = recordings.write(tmp_path / "a.jsonl", records)
    assert [line.split()[:3] for line in mcpproxy("versions", trace).out.splitlines()[1:]] == [
        ["c", "1", "client"],
        ["s", "-", "server"],
    ]
    listed = json.loads(mcpproxy("versions", trace, "--format", "json").out)
    assert listed["implementations"][1]["version"] is None
    (tmp_path / "ranges.toml").write_text('[any]\ns = ">=2"\n')
    checked = mcpproxy("check", trace, "--versions", str(tmp_path / "ranges.toml"))
    assert "VER-001" not in checked.out  # what it is cannot be known


def test_stateless_peers_are_known_by_their_meta(mcpproxy: Mcpproxy) -> None:
    listed = json.loads(mcpproxy("versions", str(RECORDINGS), "--format", "json").out)
    stateless = {i["role"] for i in listed["implementations"] if "2026-07-28" in i["revisions"]}
    assert stateless == {"client", "server"}


def test_an_unreadable_recording_is_named(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    recordings.write(tmp_path / "a.jsonl", CLEAN)
    (tmp_path / "b.jsonl").write_text("no trace\n")
    listed = mcpproxy("versions", str(tmp_path))
    assert listed.code == 2
    assert "b.jsonl" in listed.err
    assert "server" in listed.out


def test_nothing_recorded_yet(mcpproxy: Mcpproxy) -> None:
    assert "nothing recorded yet" in mcpproxy("versions").err


@pytest.mark.parametrize(("allowed", "code"), [(">=1,<2", 0), (">=2", 1)])
def test_a_peer_outside_its_range_fails_the_check(
    mcpproxy: Mcpproxy, tmp_path: Path, allowed: str, code: int
) -> None:
    trace = recordings.write(tmp_path / "t.jsonl", CLEAN)
    (tmp_path / "ranges.toml").write_text(f'["2025-11-25"]\ns = "{allowed}"\n')
    checked = mcpproxy("check", trace, "--versions", str(tmp_path / "ranges.toml"))
    assert checked.code == code
    assert ("VER-001 frame 2: server is s 1, outside the range >=2" in checked.out) == bool(code)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('["2025-11-26"]\ns = ">=1"', "[2025-11-26] is not a protocol revision; did you mean 2025-11-25?"),
        ('[any]\ns = "newer"', "s: 'newer' is not a range of versions"),
        ("[any]\ns = 3", "s: 3 is not a range of versions"),
        ('"2025-11-25" = ">=1"', "2025-11-25 is not a table; write [2025-11-25] and, below it, name = "),
        ("any = 3", "any is not a table; write [any] and, below it, name = "),
        ("[", "not readable as TOML"),
    ],
)
def test_a_file_of_ranges_that_means_nothing(
    mcpproxy: Mcpproxy, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "ranges.toml").write_text(text)
    checked = mcpproxy("check", str(RECORDINGS), "--versions", str(tmp_path / "ranges.toml"))
    assert checked.code == 2
    assert said in checked.err


def test_a_version_of_thousands_of_digits_is_compared_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "ranges.toml").write_text('[any]\ns = ">=1,<2"\n')
    why_not_allowed = version_ranges.read(str(tmp_path / "ranges.toml"))["any"]["s"]
    assert why_not_allowed("9" * 5000).startswith("which cannot be compared with the range")
    assert why_not_allowed("1.5") == ""
