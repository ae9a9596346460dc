"""What a host will not read of a file that can be wrapped: it is said, and nothing is changed."""

import json
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.hosts import plans
from mcpproxy.hosts.jsonc import departures
from tests.hosts.conftest import Mcpproxy
from tests.hosts.test_wrap import FILES, OURS, write

DESKTOP: Final = ".config/Claude/claude_desktop_config.json"
COMMENTED: Final = """\
{
  // my files
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "files",]}, // more later
  }
}
"""
DROPS: Final = "and Claude Desktop reads strict JSON: it drops the file with all its servers; remove it"


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] # pytest uses it
    monkeypatch.setattr(plans, "own_program", lambda: [OURS])


def said_of_the_file(mcpproxy: Mcpproxy, *words: str) -> list[str]:
    said = mcpproxy(*words)
    assert said.code == 0
    return [line.removeprefix("mcpproxy: ") for line in said.err.splitlines() if DROPS in line]


@pytest.mark.parametrize("words", [("hosts",), ("wrap", "files", "--dry-run"), ("wrap", "files")])
def test_comments_and_trailing_commas_for_a_host_that_reads_strict_json(
    mcpproxy: Mcpproxy, home: Path, words: tuple[str, ...]
) -> None:
    write(home / DESKTOP, COMMENTED)
    assert said_of_the_file(mcpproxy, *words) == [
        f"~/{DESKTOP}:2: a comment, {DROPS}",
        f"~/{DESKTOP}:4: a trailing comma, {DROPS}",
    ]


def test_a_byte_order_mark_is_said_and_kept(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / DESKTOP, f"\ufeff{FILES}")
    assert said_of_the_file(mcpproxy, "wrap", "files") == [f"~/{DESKTOP}:1: a byte order mark, {DROPS}"]
    assert path.read_text().startswith('\ufeff{"mcpServers": {"files": {"command": "/opt/bin/mcpproxy"')
    assert mcpproxy("unwrap", "files").code == 0
    assert path.read_text() == f"\ufeff{FILES}"


@pytest.mark.parametrize("place", [".cursor/mcp.json", ".config/Code/User/mcp.json", ".gemini/settings.json"])
def test_a_host_that_is_not_known_to_be_strict_is_not_accused(
    mcpproxy: Mcpproxy, home: Path, place: str
) -> None:
    text = COMMENTED.replace("mcpServers", "servers") if "Code" in place else COMMENTED
    write(home / place, f"\ufeff{text}")
    assert said_of_the_file(mcpproxy, "hosts") == []
    assert "1 server can be wrapped" in mcpproxy("hosts").err


def test_strict_json_is_not_accused(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / DESKTOP, FILES.replace("files", "// a, ] /* b */"))
    assert said_of_the_file(mcpproxy, "hosts") == []


def test_the_first_of_two_with_one_name(mcpproxy: Mcpproxy, home: Path) -> None:
    lines = [
        '{"mcpServers": {',
        ' "files": {"command": "old"},',
        ' "other": {"command": "x", "env": {"A": "1",',
        '   "A": "2"}},',
        ' "files": {"command": "new"}},',
        ' "theme": 1, "theme": 2}',
    ]
    path = write(home / ".cursor/mcp.json", "\n".join(lines))
    said = mcpproxy("hosts")
    assert said.err.splitlines()[:2] == [
        'mcpproxy: ~/.cursor/mcp.json:5: a second "files": a host does not read the first one, in line 2; '
        "rename or remove one of them",
        'mcpproxy: ~/.cursor/mcp.json:4: a second "A": a host does not read the first one, in line 3; '
        "rename or remove one of them",
    ]
    assert "theme" not in said.err
    listed = json.loads(mcpproxy("hosts", "--json").out)["misread"]
    assert listed[0] == {
        "file": str(path),
        "line": 5,
        "reason": 'a second "files": a host does not read the first one, in line 2',
    }


def test_each_departure_has_its_position() -> None:
    assert departures("\ufeff/* a */[1, /* b */ 2, ] // c") == [
        (0, "a byte order mark"),
        (1, "a comment"),
        (12, "a comment"),
        (21, "a trailing comma"),
        (25, "a comment"),
    ]
    assert departures('{"a//b": ["/*", "*/"]}') == []
