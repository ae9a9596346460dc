"""``mcpproxy hosts --add-mcp`` and ``--remove-mcp``: recordings for the agent of a host."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.hosts import own_server
from mcpproxy.hosts.host_table import all_hosts
from tests.hosts.conftest import Mcpproxy
from tests.hosts.corpus import Case, cases
from tests.hosts.test_wrap import FILES, write

OURS: Final = "/opt/bin/mcpproxy"


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] # pytest uses it
    monkeypatch.setattr(own_server, "own_program", lambda: [OURS])


def test_the_entry_is_one_more_server(mcpproxy: Mcpproxy, home: Path) -> None:
    file = write(home / ".cursor/mcp.json", FILES)
    said = mcpproxy("hosts", "--add-mcp", "cursor")
    assert said.code == 0
    assert said.out.startswith("added mcpproxy to ~/.cursor/mcp.json; turn the server off and on")
    assert json.loads(file.read_text("utf-8"))["mcpServers"] == {
        "files": {"command": "npx", "args": ["-y", "files"]},
        "mcpproxy": {"command": OURS, "args": ["mcp"]},
    }
    again = mcpproxy("hosts", "--add-mcp", "cursor")
    assert (again.code, again.out) == (2, "")
    assert "a server is called mcpproxy already" in again.err
    assert mcpproxy("hosts", "--remove-mcp", "cursor").code == 0
    assert file.read_text("utf-8") == FILES
    assert "no server of Cursor starts mcpproxy mcp" in mcpproxy("hosts", "--remove-mcp", "Cursor").err


TEXTS: Final = {
    "indented": '{\n    "mcpServers": {\n        "a": {"command": "a"}, // the first\n    }\n}\n',
    "empty table": '{\n\t"theme": "dark",\n\t"mcpServers": {}\n}\n',
    "a comment alone": '{"mcpServers": { /* none yet */ }}',
    "no table": '{\n  "theme": "dark"\n}\n',
    "Windows line ends": '{\r\n  "mcpServers": {\r\n    "a": {"command": "a"}\r\n  }\r\n}\r\n',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_rest_of_the_text_stays(mcpproxy: Mcpproxy, home: Path, text: str) -> None:
    file = home / ".gemini/settings.json"
    file.parent.mkdir()
    file.write_bytes(text.encode())
    assert mcpproxy("hosts", "--add-mcp", "gemini-cli").code == 0
    added = file.read_bytes().decode()
    start = next(index for index, pair in enumerate(zip(text, added, strict=False)) if pair[0] != pair[1])
    rest = len(added) - (len(text) - start)
    assert (added[:start], "mcp" in added[start:rest]) == (text[:start], True)
    assert added.count("\r\n") in (0, added.count("\n"))

    assert mcpproxy("hosts", "--remove-mcp", "gemini-cli").code == 0
    left = file.read_bytes().decode()
    assert left.split() == text.split() or '"mcpServers": {}' in left


def test_a_table_of_toml(mcpproxy: Mcpproxy, home: Path) -> None:
    text = '# mine\nmodel = "x"\n\n[mcp_servers.files]\ncommand = "npx"\n'
    file = write(home / ".codex/config.toml", text)
    assert mcpproxy("hosts", "--add-mcp", "codex").code == 0
    added = f'{text}\n[mcp_servers.mcpproxy]\ncommand = "{OURS}"\nargs = ["mcp"]\n'
    assert file.read_text("utf-8") == added
    assert mcpproxy("hosts", "--remove-mcp", "codex").code == 0
    assert file.read_text("utf-8") == text


ENTRIES: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "opencode": (
        ".config/opencode/opencode.json",
        {"type": "local", "enabled": True, "command": [OURS, "mcp"]},
    ),
    "copilot-cli": (
        ".copilot/mcp-config.json",
        {"type": "local", "tools": ["*"], "command": OURS, "args": ["mcp"]},
    ),
}


@pytest.mark.parametrize(("host", "path", "entry"), [(host, *case) for host, case in ENTRIES.items()])
def test_an_entry_is_as_its_host_wants_it(
    mcpproxy: Mcpproxy, home: Path, host: str, path: str, entry: dict[str, object]
) -> None:
    file = write(home / path, "{}")
    assert mcpproxy("hosts", "--add-mcp", host).code == 0
    (servers,) = json.loads(file.read_text("utf-8")).values()
    assert servers == {"mcpproxy": entry}


def test_what_cannot_be_added_is_given_as_text(mcpproxy: Mcpproxy, home: Path) -> None:
    missing = mcpproxy("hosts", "--add-mcp", "cursor")
    entry = '{"mcpproxy": {"command": "/opt/bin/mcpproxy", "args": ["mcp"]}} under mcpServers'
    assert missing.code == 2
    assert missing.err.endswith(f"no such file; let Cursor make it, or put there: {entry}\n")
    file = write(home / ".config/goose/config.yaml", "extensions:\n  dev: {type: builtin}\n")
    yaml = mcpproxy("hosts", "--add-mcp", "goose")
    assert yaml.code == 2
    assert "its servers are no table to which one can be added; put there: " in yaml.err
    assert file.read_text("utf-8") == "extensions:\n  dev: {type: builtin}\n"


def test_a_dry_run_writes_nothing(mcpproxy: Mcpproxy, home: Path) -> None:
    file = write(home / ".cursor/mcp.json", FILES)
    said = mcpproxy("hosts", "--add-mcp", "cursor", "--dry-run")
    assert said.code == 0
    assert f'+{FILES[:-3]}, "mcpproxy": {{"command": "{OURS}", "args": ["mcp"]}}}}}}' in said.out
    assert file.read_text("utf-8") == FILES


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (("--dry-run",), "--dry-run needs --add-mcp or --remove-mcp"),
        (("--add-mcp", "cursor", "--remove-mcp", "cursor"), "--add-mcp and --remove-mcp name one host"),
        (("--add-mcp", "curser"), "did you mean cursor?"),
    ],
)
def test_options_that_do_not_fit(mcpproxy: Mcpproxy, options: tuple[str, ...], fact: str) -> None:
    said = mcpproxy("hosts", *options)
    assert said.code == 2
    assert fact in said.err


HOSTS: Final = {host.id: host for host in all_hosts()}


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.name.partition("/")[0] in HOSTS], ids=lambda case: case.name
)
def test_every_shape_of_file(mcpproxy: Mcpproxy, home: Path, case: Case) -> None:
    """Whatever its layout: it is added and removed again with the same text left, or nothing is written."""
    host = case.name.partition("/")[0]
    file = case.place(home)
    if mcpproxy("hosts", "--add-mcp", host).code:
        assert file.read_bytes() == case.data
        return
    assert mcpproxy("hosts", "--remove-mcp", host).code == 0
    left = file.read_bytes()
    if left != case.data:  # the file had no servers: their table stays
        key = own_server.own_entry(HOSTS[host]).row.key[-1]
        member = re.compile(rb',?\s*"%s": {}\s*' % key.encode())
        assert re.sub(rb"\s", b"", member.sub(b"", left)) == re.sub(rb"\s", b"", case.data)
