"""What a change of a configuration file looks like on the screen: no value in it that may be secret."""

import json
from pathlib import Path

import pytest

from mcpproxy.hosts import plans
from mcpproxy.hosts.document import Document, Language
from mcpproxy.hosts.shown_text import shown_text
from tests.cli.conftest import Mcpproxy

SECRETS = (
    "hush-1",
    "hush-2",
    "hush-3",
    "hush-4",
    "hush-5",
    "sk-hush6aaaaaaaaaaaaaaaaaaaa",
    "hush-7",
    "hush-8",
)
ENTRY = {
    "command": "npx",
    "args": ["server", "--api-key", "hush-1", "--token=hush-2", "https://me:hush-3@h.example/x?token=hush-4"],
    "env": {"PLAIN": "hush-5", "NUMBER": 4711},
    "note": "my key sk-hush6aaaaaaaaaaaaaaaaaaaa",
    "headers": {"X-Custom": "hush-7"},
    "client_secret": "hush-8",
}
JSON = json.dumps({"mcpServers": {"files": ENTRY}})
TOML = """\
[mcp_servers.files]
command = "npx" # "sk-hush6aaaaaaaaaaaaaaaaaaaa"
args = ["--api-key", "hush-1", '--token=hush-2', "https://me:hush-3@h.example/x?token=hush-4"]
env = { PLAIN = "hush-5", NUMBER = 4711 }
http_headers = { "X-Custom" = '''
hush-7''' }
client_secret = "hush-8"
"""
YAML = """\
mcpServers:
  files:
    command: npx
    args: [--api-key, hush-1, "--token=hush-2", "https://me:hush-3@h.example/x?token=hush-4"]
    env: &env
      PLAIN: hush-5
      NUMBER: 4711
    again: *env
    headers:
      X-Custom: |
        hush-7
        hush-7
    client_secret: hush-8
    note: sk-hush6aaaaaaaaaaaaaaaaaaaa
"""


@pytest.mark.parametrize(("language", "text"), [("json", JSON), ("toml", TOML), ("yaml", YAML)])
def test_no_secret_is_shown(language: Language, text: str) -> None:
    assert all(secret in text for secret in SECRETS)
    shown = shown_text(Document("a", text.encode(), language), b"key")
    assert [secret for secret in (*SECRETS, "4711") if secret in shown] == []
    assert "--api-key" in shown
    assert "h.example/x?token=masked(" in shown
    assert shown.count("\n") == text.count("\n")


def test_what_is_no_secret_is_shown_as_it_is() -> None:
    text = (
        '{\n\t"a": {"command": "uvx", // all\n"args": ["x", 3, "-v", "a=b"], "disabled": false}, "n": null}'
    )
    assert shown_text(Document("a", text.encode(), "json"), b"key") == text


def test_a_dry_run_and_the_way_back_show_no_secret(
    mcpproxy: Mcpproxy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "own_program", lambda: ["/opt/mcpproxy"])
    config = home / ".cursor" / "mcp.json"
    config.parent.mkdir()
    config.write_text(JSON)
    shown = [mcpproxy("wrap", "files", "--dry-run").out]
    mcpproxy("wrap", "files")
    assert json.loads(config.read_text())["mcpServers"]["files"]["env"] == ENTRY["env"]
    shown.append(mcpproxy("unwrap", "files", "--dry-run").out)
    for out in shown:
        assert "/opt/mcpproxy" in out
        assert [secret for secret in SECRETS if secret in out] == []
    mcpproxy("unwrap", "files")
    assert config.read_text() == JSON
