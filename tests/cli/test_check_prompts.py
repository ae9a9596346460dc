"""``mcpproxy check`` of the recordings of a run with that of the model's interface: the family PROMPT."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Mcpproxy
from tests.prompt.hosts import asked, given, named, served

Found = list[tuple[str, str, str]]


def checked(mcpproxy: Mcpproxy, *arguments: str) -> Found:
    """Return the file, the rule and the level of each finding."""
    traces = json.loads(mcpproxy("check", *arguments, "--format", "json").out)["traces"]
    return [
        (Path(trace["path"]).name, finding["rule"], finding["severity"])
        for trace in traces
        for finding in trace["findings"]
    ]


def prompts(found: Sequence[tuple[str, str, str]]) -> Found:
    return [one for one in found if one[1].startswith("PROMPT")]


LEFT_OUT = ("weather.jsonl", "PROMPT-001", "info")


def test_a_folder_with_both_sides(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    asked(tmp_path, given("now", "wind"))
    alone = served(tmp_path, named("now", "wind", "moon"))
    both = checked(mcpproxy, str(tmp_path))
    assert prompts(both) == [LEFT_OUT]
    assert checked(mcpproxy, alone) == [one for one in both if one != LEFT_OUT]


def test_it_can_be_left_out(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    asked(tmp_path, given("now", "wind"))
    served(tmp_path, named("now", "wind", "moon"))
    assert prompts(checked(mcpproxy, str(tmp_path), "--ignore", "PROMPT")) == []
    assert checked(mcpproxy, str(tmp_path), "--select", "PROMPT-001") == [LEFT_OUT]


def test_a_tool_that_another_model_may_have_had(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    Path(asked(tmp_path, given("now", "wind"))).rename(tmp_path / "small.jsonl")
    asked(tmp_path, given("now", "wind", "moon"))
    served(tmp_path, named("now", "wind", "moon"))
    assert prompts(checked(mcpproxy, str(tmp_path))) == []


@pytest.mark.parametrize("form", ["text", "sarif", "junit", "github"])
def test_every_report_has_it(form: str, mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    asked(tmp_path, given("now", "wind"))
    served(tmp_path, named("now", "wind", "moon"))
    ran = mcpproxy("check", str(tmp_path), "--format", form)
    assert "did not offer its model" in ran.out
    assert "frame 2 of m.jsonl" in ran.out


def test_it_is_explained(mcpproxy: Mcpproxy) -> None:
    ran = mcpproxy("explain", "PROMPT-005")
    assert (ran.code, ran.err) == (0, "")
    assert "refused-definition" in ran.out
    assert "neither breaks MCP by it" in " ".join(ran.out.split())
