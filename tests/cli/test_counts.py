"""The number of frames in a recording is the same wherever it is said."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Mcpproxy

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.jsonl"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_frames_are_counted_alike(mcpproxy: Mcpproxy, path: Path) -> None:
    listed = json.loads(mcpproxy("list", "--json", "--limit", "999", str(path.parent)).out)["traces"]
    (in_list,) = [entry["frames"] for entry in listed if entry["path"] == str(path)]
    in_check = json.loads(mcpproxy("check", "--format", "json", str(path)).out)["traces"][0]["frames"]
    in_stats = json.loads(mcpproxy("stats", "--json", str(path)).out)["frames"]
    of_calls = re.search(r"; ([\d,]+) frames?; ", mcpproxy("show", str(path)).out)
    of_frames = re.search(
        r"^ +([\d,]+) frames? \(", mcpproxy("show", "--frames", str(path)).out, re.MULTILINE
    )
    assert of_calls
    assert of_frames
    assert {in_check, in_stats, int(of_calls[1]), int(of_frames[1])} == {in_list}
