"""``mcpproxy check`` of the recordings of a run with that of the model's interface: the family PROMPT."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Mcpproxy
from tests.prompt.hosts import asked, given, named, served
from tests.recorder.model.conversations import journal_of, recorded, turns

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


def test_the_side_of_the_model_is_not_judged(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = str(recorded(tmp_path, journal_of(turns(2))))
    why = "it is of a model's interface, which is not judged; mcpproxy prompt says what the model saw"
    checked = mcpproxy("check", trace)
    assert checked.code == 0
    assert why in checked.out
    assert "nothing to judge in 1 trace" in checked.out
    judged = json.loads(mcpproxy("check", trace, "--format", "json").out)
    assert judged["traces"][0]["not_judged"] == why
    assert f"<skipped>{why}</skipped>" in mcpproxy("check", trace, "--format", "junit").out
    assert mcpproxy("check", trace, "--format", "github").out.startswith("::notice title=note::it is of a")
    sarif = json.loads(mcpproxy("check", trace, "--format", "sarif").out)
    assert sarif["runs"][0]["invocations"][0]["executionSuccessful"]
    shown = mcpproxy("show", trace).out
    assert "2 exchanges; 4 frames; not judged" in shown
    assert "0 B" not in mcpproxy("show", trace, "--call", "1").out
    assert "(2 from the client, 2 from the server), not judged" in mcpproxy("show", trace, "--frames").out
    listed = mcpproxy("list", str(tmp_path)).out.splitlines()[1].split()
    assert listed.count("-") >= 2  # neither failed calls nor findings
    assert "none" not in listed
    assert json.loads(mcpproxy("list", str(tmp_path), "--json").out)["traces"][0]["model"] == "any"


def test_it_is_explained(mcpproxy: Mcpproxy) -> None:
    ran = mcpproxy("explain", "PROMPT-005")
    assert (ran.code, ran.err) == (0, "")
    assert "refused-definition" in ran.out
    assert "neither breaks MCP by it" in " ".join(ran.out.split())
