"""``mcpproxy hosts``: what is listed, and what has changed since the last look."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.hosts import plans
from mcpproxy.hosts.host_table import all_hosts
from tests.hosts.conftest import Mcpproxy
from tests.hosts.test_wrap import FILES, REMOTE, write

NEW: Final = FILES.replace(
    '"files": {', '"evil": {"command": "curl", "args": ["--token", "hunter2"]}, "files": {', 1
)


@pytest.fixture(autouse=True)
def ours(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of mcpproxy; a wrap whose program is gone is told."""
    program = str(write(home / "bin/mcpproxy", "#!/bin/sh\n"))
    monkeypatch.setattr(plans, "own_program", lambda: [program])
    return program


def test_an_empty_home(mcpproxy: Mcpproxy) -> None:
    said = mcpproxy("hosts")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "No server was found in the files of any host. These were looked for:"
    assert any(line.split()[:2] == ["Cursor", "~/.cursor/mcp.json,"] for line in lines)
    for host in all_hosts():
        assert any(line.startswith(f"  {host.name}  ") for line in lines)
    assert lines[-1] == "Without a host:  mcpproxy -- SERVER"


@pytest.mark.parametrize("inside", [".config", ""])
def test_an_empty_home_whose_name_looks_like_a_pattern(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    home = tmp_path / "home[1]*"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config") if inside else "")
    monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
    said = mcpproxy("hosts")
    assert "  ~/codex/config.toml" in said.out
    assert "  ~/.config/Claude/claude_desktop_config.json" in said.out
    assert "  ~/.cursor/mcp.json" in said.out
    assert str(tmp_path) not in said.out

    write(home / ".cursor/mcp.json", FILES)
    assert mcpproxy("hosts").out.startswith("Cursor  ~/.cursor/mcp.json\n")


def test_what_is_listed(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / ".cursor/mcp.json", FILES)
    write(home / ".codeium/windsurf/mcp_config.json", REMOTE)
    write(home / ".config/goose/config.yaml", "extensions:\n  dev: {type: builtin}\n")
    write(home / ".codex/config.toml", '[mcp_servers.key]\ncommand = "x"\nargs = ["--api-key", "hunter2"]\n')
    mcpproxy("wrap", "files")
    said = mcpproxy("hosts")
    assert said.out.splitlines() == [
        "Cursor  ~/.cursor/mcp.json",
        "  files   files  wrapped",
        "",
        "Windsurf  ~/.codeium/windsurf/mcp_config.json",
        "  sentry  https://mcp.sentry.dev  remote, reached over HTTP",
        "",
        "Codex  ~/.codex/config.toml",
        "  key     x     not wrapped",
        "",
        "Goose  ~/.config/goose/config.yaml",
        "  dev     -     has no command of its own",
    ]
    assert said.err.startswith("mcpproxy: 1 server can be wrapped: mcpproxy wrap SERVER, or ")
    assert "hunter2" not in said.out


def test_a_wrap_that_the_host_has_removed(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES)
    mcpproxy("wrap", "files")
    cursor.write_text(FILES)
    said = mcpproxy("hosts")
    assert "is gone: Cursor or somebody else changed the entry; mcpproxy wrap files --host cursor" in said.out
    assert mcpproxy("wrap", "files", "--host", "cursor").code == 0
    assert said.out != (again := mcpproxy("hosts")).out
    assert "wrapped" in again.out
    mcpproxy("unwrap", "files")
    assert cursor.read_text() == FILES


def test_a_server_that_the_host_has_removed(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES)
    mcpproxy("wrap", "files")
    cursor.write_text('{"mcpServers": {}}')
    assert (
        "files is gone from ~/.cursor/mcp.json; mcpproxy unwrap files forgets its wrap"
        in mcpproxy("hosts").err
    )
    assert "its wrap is forgotten" in mcpproxy("unwrap", "files").err
    assert mcpproxy("hosts").err == ""


def test_a_file_that_is_gone(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES)
    mcpproxy("wrap", "files")
    cursor.unlink()
    assert "files is gone from ~/.cursor/mcp.json" in mcpproxy("hosts").err
    assert mcpproxy("unwrap", "--all", "--yes").code == 0
    assert mcpproxy("hosts").err == ""


def test_a_wrap_by_a_mcpproxy_that_is_gone(
    mcpproxy: Mcpproxy, home: Path, monkeypatch: pytest.MonkeyPatch, ours: str
) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES)
    monkeypatch.setattr(plans, "own_program", lambda: ["/gone/mcpproxy"])
    mcpproxy("wrap", "files")
    assert (
        "wrapped by /gone/mcpproxy, which is gone: mcpproxy wrap files --host cursor" in mcpproxy("hosts").out
    )
    monkeypatch.setattr(plans, "own_program", lambda: [ours])
    mcpproxy("wrap", "files")
    assert ours in cursor.read_text()


# Since the last look


def test_news_since_the_last_look(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES)
    first = mcpproxy("hosts", "--check")
    assert (first.code, first.out) == (0, "")
    assert first.err == "mcpproxy: this was the first look; the next one tells what has changed\n"

    mcpproxy("wrap", "files")
    second = mcpproxy("hosts", "--check")
    assert (second.code, second.out) == (0, "")  # a wrap of ours is no news
    assert second.err.startswith("mcpproxy: nothing has changed since ")

    cursor.write_text(cursor.read_text().replace('"files": {', '"evil": {"command": "curl"}, "files": {', 1))
    third = mcpproxy("hosts", "--check")
    assert third.code == 1
    assert third.out == "new   evil    curl  ~/.cursor/mcp.json\n"

    cursor.write_text(cursor.read_text().replace('"curl"', '"wget"'))
    fourth = mcpproxy("hosts", "--since")
    assert (fourth.code, fourth.out) == (0, "changed  evil    wget  ~/.cursor/mcp.json\n")

    mcpproxy("unwrap", "--all", "--yes")
    cursor.write_text(FILES)
    fifth = mcpproxy("hosts", "--check")
    assert (fifth.code, fifth.out) == (1, "removed  evil          ~/.cursor/mcp.json\n")
    assert mcpproxy("hosts", "--check").code == 0


def test_a_file_that_cannot_be_read_does_not_hide_news_of_others(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES)
    mcpproxy("hosts")
    write(home / ".gemini/settings.json", "{")
    quiet = mcpproxy("hosts", "--check")
    assert (quiet.code, quiet.out) == (2, "")
    assert re.search(r"nothing has changed since \S+; 1 file could not be read\n$", quiet.err)

    cursor.write_text(NEW)
    told = mcpproxy("hosts", "--check")
    assert (told.code, told.out.split()[:2]) == (1, ["new", "evil"])
    assert ".gemini/settings.json" in told.err


def test_a_wrapped_remote_server_that_is_pointed_elsewhere_is_news(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", REMOTE)
    mcpproxy("hosts")
    mcpproxy("wrap", "sentry", "--http")
    assert mcpproxy("hosts", "--check").code == 0  # a wrap of ours is no news

    cursor.write_text(REMOTE.replace("mcp.sentry.dev", "evil.example"))
    led = mcpproxy("hosts", "--check")
    assert led.code == 1
    assert led.out == "changed  sentry  https://evil.example  ~/.cursor/mcp.json\n"

    cursor.write_text(REMOTE)
    assert "changed" in mcpproxy("hosts", "--check").out
    mcpproxy("wrap", "sentry", "--http")
    assert mcpproxy("hosts", "--check").code == 0


def test_the_list_tells_news_too(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES)
    mcpproxy("hosts")
    cursor.write_text(NEW)
    said = mcpproxy("hosts")
    assert re.search(r"^  evil +\S+ +new  not wrapped$", said.out, re.MULTILINE)
    assert "since the last look" not in said.err
    assert " new " not in mcpproxy("hosts").out
    assert "hunter2" not in said.out + said.err


def test_a_project_that_is_not_looked_at_is_not_removed(
    mcpproxy: Mcpproxy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / ".cursor/mcp.json", FILES)
    write(home / "project/.mcp.json", FILES)
    mcpproxy("hosts")
    monkeypatch.chdir(home)
    assert mcpproxy("hosts", "--check").code == 0
    monkeypatch.chdir(home / "project")
    assert mcpproxy("hosts", "--check").code == 0


def test_for_programs(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES)
    bad = write(home / ".gemini/settings.json", "{")
    said = json.loads(mcpproxy("hosts", "--json").out)
    assert said == {
        "servers": [
            {
                "host": "cursor",
                "scope": "user",
                "file": str(cursor),
                "name": "files",
                "runs": "files",
                "protocol": "mcp",
                "state": "plain",
                "remark": "not wrapped",
                "news": None,
            }
        ],
        "removed": [],
        "lost": [],
        "unreadable": [{"file": f"{bad}:1:2", "reason": "not readable as JSON (it ends too early)"}],
        "misread": [],
        "not_startable": [],
    }


def test_a_named_host_whose_file_cannot_be_read(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / ".codex/config.toml", "[mcp_servers.a\n")
    write(home / ".cursor/mcp.json", FILES)
    said = mcpproxy("hosts", "--host", "codex")
    assert (said.code, said.err.count("not readable as TOML")) == (2, 1)
    assert mcpproxy("hosts", "--host", "cursor").code == 0
    assert mcpproxy("hosts").code == 0


def test_a_file_without_servers(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / "x.json", "{}")
    said = mcpproxy("hosts", "--file", str(path))
    assert (said.code, said.err) == (
        2,
        f"mcpproxy: {path}: no servers in this file; --key names the key of its servers\n",
    )
