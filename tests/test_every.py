"""A test of a table fails with every row that does not hold, and one row can be run alone."""

import subprocess
import sys
from pathlib import Path
from typing import Final

TABLE: Final = """
import pytest
from tests.every import every

SEEN = []

@every("number", [pytest.param(1, id="one"), 2, 3, pytest.param(4, id="four")])
def test_is_odd(number, tmp_path):
    SEEN.append(number)
    assert number % 2 == 1

@every(("word", "length"), [("ab", 2), ("abc", 3)])
def test_length(word, length):
    assert len(word) == length

def test_all_rows_were_tried():
    assert SEEN == [1, 2, 3, 4]
"""


def run(folder: Path, *options: str) -> str:
    (folder / "test_table.py").write_text(TABLE)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.every", "-c", "/dev/null", f"--rootdir={folder}",
         "-p", "no:cacheprovider", "-rA", *options, str(folder)],
        capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    return ran.stdout


def test_a_failure_names_each_row(tmp_path: Path) -> None:
    said = run(tmp_path)
    assert "1 failed, 2 passed" in said
    assert "2 of 4 rows: 2, four" in said
    assert "row: 2" in said
    assert "row: four" in said


def test_a_row_that_is_selected_is_a_test(tmp_path: Path) -> None:
    said = run(tmp_path, "-k", "four or ab-2")
    assert "1 failed, 1 passed, 5 deselected" in said
    assert "test_is_odd[four]" in said
