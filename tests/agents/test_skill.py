"""The skill for agents: every tool and every command in it works, as it is written there."""

import json
import re
import shlex
from pathlib import Path
from typing import Final

import pytest
import yaml

from mcpproxy.hosts import skill
from tests.agents.agent import Agent
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir

__all__ = ["mcpproxy", "state_dir"]

TEXT: Final = skill.skill_text()
LABEL: Final = "LABEL"
"""What the skill writes for the label of a recording."""


def lines(language: str) -> list[str]:
    """The lines of the blocks in a language."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture
def folder(state_dir: Path) -> Path:
    """Three recordings with the label."""
    state_dir.mkdir(parents=True)
    for hour in (10, 11, 12):
        header = {**json.loads(recordings.HEADER), "label": LABEL, "started_at": f"2026-11-21T{hour}:20:30Z"}
        path = state_dir / f"20261121T{hour}2030.000Z-{LABEL}-{hour}.jsonl"
        recordings.write(path, (json.dumps(header), *recordings.FAULTY[1:]))
    return state_dir


def test_it_is_short_and_says_when_to_use_it() -> None:
    _, head, body = TEXT.split("---\n", 2)
    about = yaml.safe_load(head)
    assert about["name"] == Path(skill.SOURCE).parent.name == skill.NAME
    assert len(about["description"]) <= 500
    assert len(body.splitlines()) < 150
    assert len(TEXT) < 6000


def test_every_tool_that_it_names_is_there(folder: Path) -> None:
    with Agent(folder) as agent:
        assert {line.partition(" ")[0] for line in lines("text")} <= set(agent.names)
        named = set(re.findall(r"`([a-z]+_[a-z_]+)`", TEXT)) - {"broken_by", "p50_ms", "p95_ms"}
        assert named <= set(agent.names)


@pytest.mark.parametrize("line", lines("text"))
def test_a_tool_answers(folder: Path, line: str) -> None:
    name, _, arguments = line.partition(" ")
    with Agent(folder) as agent:
        answer = agent(name, **json.loads(arguments))
    assert not {"note", "found", "findings", "calls"}.isdisjoint(answer) or len(answer) > 2


@pytest.mark.parametrize("line", lines("sh"))
def test_a_command_runs(mcpproxy: Mcpproxy, folder: Path, line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "mcpproxy"
    assert ">" not in line or "'" in line  # a shell would write a file
    said = mcpproxy(*words)
    assert said.code in (0, 1), said.err
    assert said.out


def test_the_same_question_gets_the_same_answer_from_both(mcpproxy: Mcpproxy, folder: Path) -> None:
    with Agent(folder) as agent:
        broken = {row["rule"] for row in agent("list_findings", recording=LABEL)["findings"]}
    assert broken
    assert all(rule in mcpproxy("check", LABEL).out for rule in broken)
