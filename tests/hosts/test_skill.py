"""The skill for agents: added with ``mcpproxy mcp`` if the user wants it, and taken away again."""

import json
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.hosts import own_server, skill
from tests.hosts.conftest import Mcpproxy
from tests.hosts.test_wrap import FILES, Terminal, write

SKILL: Final = Path(skill.SOURCE).read_bytes()


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] # pytest uses it
    monkeypatch.setattr(own_server, "own_program", lambda: ["/opt/bin/mcpproxy"])


@pytest.fixture
def claude(home: Path) -> Path:
    """The folder of Claude Code, beside its file, with nothing in it."""
    write(home / ".claude.json", FILES)
    (home / ".claude").mkdir()
    return home / ".claude"


def below(folder: Path) -> dict[str, bytes | None]:
    """What is below a folder: path -> content, ``None`` for a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_it_is_added_if_the_user_wants_it_and_taken_away_again(
    mcpproxy: Mcpproxy, claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    said = mcpproxy("hosts", "--add-mcp", "claude-code")
    assert said.code == 0
    question = f"add a skill for its agent, ~/.claude/skills/mcpproxy/SKILL.md ({len(SKILL):,} characters)?"
    assert f"{question} [y/N] " in said.err
    assert said.out.endswith("added the skill ~/.claude/skills/mcpproxy/SKILL.md\n")
    assert below(claude) == {"skills": None, "skills/mcpproxy": None, "skills/mcpproxy/SKILL.md": SKILL}
    dry = mcpproxy("hosts", "--remove-mcp", "claude-code", "--dry-run")
    assert "the skill ~/.claude/skills/mcpproxy/SKILL.md would be removed, too" in dry.err
    away = mcpproxy("hosts", "--remove-mcp", "claude-code")
    assert away.out.endswith("removed the skill ~/.claude/skills/mcpproxy/SKILL.md\n")
    assert below(claude) == {}
    assert "skill" not in mcpproxy("hosts", "--remove-mcp", "claude-code").out


def test_it_is_not_added_without_a_yes(
    mcpproxy: Mcpproxy, claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert mcpproxy("hosts", "--add-mcp", "claude-code").code == 0
    assert below(claude) == {}


def test_without_a_terminal_it_is_added_only_with_yes(mcpproxy: Mcpproxy, claude: Path) -> None:
    said = mcpproxy("hosts", "--add-mcp", "claude-code")
    assert (said.code, below(claude)) == (0, {})
    assert "SKILL.md: there is no terminal to ask on; add --yes" in said.err
    mcpproxy("hosts", "--remove-mcp", "claude-code")
    assert mcpproxy("hosts", "--add-mcp", "claude-code", "--yes").code == 0
    assert (claude / "skills/mcpproxy/SKILL.md").read_bytes() == SKILL


def test_a_skill_of_the_user_stays(mcpproxy: Mcpproxy, claude: Path) -> None:
    foreign = write(claude / "skills/mcpproxy/SKILL.md", "mine")
    said = mcpproxy("hosts", "--add-mcp", "claude-code", "--yes")
    assert said.code == 2
    assert "skills/mcpproxy: a skill that is not from mcpproxy, or was changed since; it stays" in said.err
    assert mcpproxy("hosts", "--remove-mcp", "claude-code").code == 0
    assert foreign.read_text() == "mine"


def test_other_skills_and_what_the_user_has_changed_stay(mcpproxy: Mcpproxy, claude: Path) -> None:
    write(claude / "skills/other/SKILL.md", "other")
    mcpproxy("hosts", "--add-mcp", "claude-code", "--yes")
    ours = claude / "skills/mcpproxy/SKILL.md"
    ours.write_bytes(SKILL + b"and mine")
    changed = mcpproxy("hosts", "--remove-mcp", "claude-code")
    assert changed.code == 2
    assert "was changed since mcpproxy wrote it; remove it by hand" in changed.err
    ours.write_bytes(SKILL)
    write(claude / "skills/mcpproxy/notes.md", "notes")
    assert mcpproxy("hosts", "--remove-mcp", "claude-code").code == 0
    left = sorted(name for name, content in below(claude).items() if content)
    assert left == ["skills/mcpproxy/notes.md", "skills/other/SKILL.md"]


def test_nothing_is_written_behind_a_link_out_of_the_home_folder(
    mcpproxy: Mcpproxy, claude: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (claude / "skills").symlink_to(tmp_path / "elsewhere")
    said = mcpproxy("hosts", "--add-mcp", "claude-code", "--yes")
    assert (said.code, below(tmp_path / "elsewhere")) == (2, {})
    assert "behind a link that leads out of your home folder" in said.err


def test_a_dry_run_shows_it(mcpproxy: Mcpproxy, claude: Path) -> None:
    said = mcpproxy("hosts", "--add-mcp", "claude-code", "--dry-run")
    assert f"+++ {claude}/skills/mcpproxy/SKILL.md\n" in said.out
    assert "+# Read the recordings of MCP sessions\n" in said.out
    assert below(claude) == {}


def test_for_a_host_whose_skills_folder_is_not_known_it_is_named(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / ".cursor/mcp.json", FILES)
    said = mcpproxy("hosts", "--add-mcp", "cursor", "--yes")
    assert said.code == 0
    assert f"a skill for its agent is in {skill.SOURCE}; put it where Cursor looks for skills" in said.err


def test_the_records_are_private_and_go_with_the_skill(
    mcpproxy: Mcpproxy, claude: Path, state_dir: Path
) -> None:
    mcpproxy("hosts", "--add-mcp", "claude-code", "--yes")
    book = state_dir / "hosts/skills.json"
    assert book.stat().st_mode & 0o77 == 0
    assert list(json.loads(book.read_text())["skills"]) == [str(claude / "skills/mcpproxy/SKILL.md")]
    mcpproxy("hosts", "--remove-mcp", "claude-code")
    assert json.loads(book.read_text())["skills"] == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2, "skills": {}}', '{"version": 1, "skills": []}'])
def test_records_that_cannot_be_read_are_not_replaced(
    mcpproxy: Mcpproxy, claude: Path, state_dir: Path, text: str
) -> None:
    book = write(state_dir / "hosts/skills.json", text)
    said = mcpproxy("hosts", "--add-mcp", "claude-code", "--yes")
    assert (said.code, book.read_text(), below(claude)) == (2, text, {})
    assert "skills.json: " in said.err
