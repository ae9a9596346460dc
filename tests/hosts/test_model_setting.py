"""``mcpproxy wrap HOST --model`` and ``unwrap HOST --model``: the address of a model in a host's file."""

import json
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.hosts.host_table import all_hosts
from tests.hosts.conftest import Mcpproxy

OURS: Final = "http://127.0.0.1:8766"
VARIABLE: Final = "ANTHROPIC_BASE_URL"
CLAUDE: Final = ".claude/settings.json"
OPENCODE: Final = ".config/opencode/opencode.json"
CODEX: Final = ".codex/config.toml"


@pytest.fixture(autouse=True)
def _no_address(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] # pytest uses it
    monkeypatch.delenv(VARIABLE, raising=False)


def written(path: Path, text: str) -> Path:
    """Write a text with its line ends as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def address_in(file: Path) -> object:
    return json.loads(file.read_bytes())["env"][VARIABLE]


# To the byte and back

TEXTS: Final = {
    "no table": '{\n  "model": "opus"\n}\n',
    "nothing in it": "{}",
    "empty": '{\n\t"env": {}\n}\n',
    "on one line": '{"env": {"A": "b"}, "model": "opus"}',
    "comments": '{\n  // mine\n  "env": {\n    "A": "b", // the first\n  },\n}\n',
    "a comment alone": '{"env": { /* none yet */ }}',
    "Windows line ends": '{\r\n    "env": {\r\n        "A": "b"\r\n    }\r\n}\r\n',
    "an address": '{"env": {"ANTHROPIC_BASE_URL" : "https:\\/\\/gw.example/anthropic?v=1"}}\n',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_file_of_json_is_given_back(mcpproxy: Mcpproxy, home: Path, text: str) -> None:
    file = written(home / CLAUDE, text)
    assert mcpproxy("wrap", "claude-code", "--model").code == 0
    pointed = file.read_bytes().decode()
    is_replaced = "gw.example" in text
    assert f'{OURS}/anthropic?v=1"' in pointed if is_replaced else f'"{VARIABLE}": "{OURS}"' in pointed
    assert pointed.count("\r\n") in (0, pointed.count("\n"))

    said = mcpproxy("unwrap", "claude-code", "--model")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "Claude Code has its own address again in ~/.claude/settings.json: "
        "the file is as it was before, to the byte\n"
    )
    assert file.read_bytes() == text.encode()


PROVIDER: Final = """\
# mine
model = "m" # the model
model_provider = 'gate'

[model_providers.gate]
name = "gate"
base_url = 'https://gate.example/openai/v1'  # of the team
wire_api = "responses"
"""


def test_the_provider_that_codex_uses_is_given_back(mcpproxy: Mcpproxy, home: Path) -> None:
    file = written(home / CODEX, PROVIDER)
    said = mcpproxy("wrap", "codex", "--model")
    assert (said.code, said.err) == (0, "")
    assert "running all the time: mcpproxy model https://gate.example\n" in said.out
    now = PROVIDER.replace("'https://gate.example/openai/v1'", f'"{OURS}/openai/v1"')
    assert file.read_text("utf-8") == now
    assert mcpproxy("unwrap", "codex", "--model").code == 0
    assert file.read_text("utf-8") == PROVIDER


def test_the_provider_of_the_model_of_opencode_is_given_back(mcpproxy: Mcpproxy, home: Path) -> None:
    text = '{\n  "model": "anthropic/claude-sonnet-4-5", // the usual one\n}\n'
    file = written(home / OPENCODE, text)
    assert mcpproxy("wrap", "opencode", "--model").code == 0
    assert '"options": {\n        "baseURL": "http://127.0.0.1:8766/v1"\n' in file.read_text("utf-8")
    assert mcpproxy("unwrap", "opencode", "--model").code == 0
    assert file.read_text("utf-8") == text


# What is said


def test_the_command_that_must_run_is_said(mcpproxy: Mcpproxy, home: Path) -> None:
    written(home / CLAUDE, "{}\n")
    said = mcpproxy("wrap", "claude-code", "--model")
    assert said.out.splitlines()[:3] == [
        "pointed Claude Code at http://127.0.0.1:8766: env.ANTHROPIC_BASE_URL in ~/.claude/settings.json",
        "  it now needs this, running all the time: mcpproxy model https://api.anthropic.com",
        "  without it Claude Code reaches no model; mcpproxy unwrap claude-code --model undoes this",
    ]


def test_another_port_is_in_the_command(mcpproxy: Mcpproxy, home: Path) -> None:
    file = written(home / CLAUDE, "{}\n")
    said = mcpproxy("wrap", "claude-code", "--model", "--listen", "127.0.0.1:9000")
    assert "mcpproxy model https://api.anthropic.com --listen 127.0.0.1:9000\n" in said.out
    assert address_in(file) == "http://127.0.0.1:9000"


def test_the_address_of_the_environment_is_the_service(
    mcpproxy: Mcpproxy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(home / CLAUDE, "{}\n")
    monkeypatch.setenv(VARIABLE, "https://gw.example/anthropic")
    assert "mcpproxy model https://gw.example\n" in mcpproxy("wrap", "claude-code", "--model").out
    assert address_in(file) == f"{OURS}/anthropic"


def test_a_dry_run_writes_nothing_and_masks(mcpproxy: Mcpproxy, home: Path, state_dir: Path) -> None:
    text = '{"env": {"ANTHROPIC_API_KEY": "sk-ant-very-secret-1", "ANTHROPIC_BASE_URL": "https://a.example"}}'
    file = written(home / CLAUDE, text)
    said = mcpproxy("wrap", "claude-code", "--model", "--dry-run")
    assert said.code == 0
    assert said.out.startswith("--- ")
    assert "very-secret" not in said.out
    assert said.err == (
        "mcpproxy: env.ANTHROPIC_BASE_URL would be http://127.0.0.1:8766; Claude Code would then need this, "
        "running all the time: mcpproxy model https://a.example\n"
    )
    assert (file.read_text("utf-8"), (state_dir / "hosts/models.json").exists()) == (text, False)


def test_a_pointed_host_is_no_wrap_of_a_server_and_is_named(mcpproxy: Mcpproxy, home: Path) -> None:
    written(home / ".cursor/mcp.json", '{"mcpServers": {"files": {"command": "npx"}}}\n')
    file = written(home / CLAUDE, "{}\n")
    assert "pointed" not in mcpproxy("hosts").err
    assert mcpproxy("wrap", "claude-code", "--model").code == 0
    line = "Claude Code is pointed at mcpproxy model, which must run at 127.0.0.1:8766"
    said = mcpproxy("hosts")
    assert line in said.err
    assert "gone" not in said.out + said.err
    assert json.loads(mcpproxy("hosts", "--json").out)["lost"] == []
    assert line in mcpproxy("unwrap", "--all", "--yes").err
    file.write_text("{}\n", encoding="utf-8")
    assert line not in mcpproxy("hosts").err


# Twice, and changed in between


def test_twice_is_once(mcpproxy: Mcpproxy, home: Path) -> None:
    file = written(home / CLAUDE, '{"env": {"ANTHROPIC_BASE_URL": "https://gw.example"}}')
    assert mcpproxy("wrap", "claude-code", "--model").code == 0
    pointed = file.read_bytes()
    again = mcpproxy("wrap", "claude-code", "--model")
    assert (again.code, again.out) == (0, "")
    assert again.err == "mcpproxy: Claude Code is pointed at 127.0.0.1:8766 already\n"
    other = mcpproxy("wrap", "claude-code", "--model", "--listen", "127.0.0.1:9000")
    assert other.code == 2
    assert "first mcpproxy unwrap claude-code --model" in other.err
    assert file.read_bytes() == pointed
    assert mcpproxy("unwrap", "claude-code", "--model").code == 0
    assert address_in(file) == "https://gw.example"
    assert "is not pointed at mcpproxy model" in mcpproxy("unwrap", "claude-code", "--model").err


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("{}", '{\n  "env": {},\n  "theme": "dark"\n}'),
        ('{"env": {"A": "b"}}', '{\n  "env": {\n    "A": "b"\n  },\n  "theme": "dark"\n}'),
        (
            '{"env": {"ANTHROPIC_BASE_URL": "https://gw.example"}}',
            '{\n  "env": {\n    "ANTHROPIC_BASE_URL": "https://gw.example"\n  },\n  "theme": "dark"\n}',
        ),
    ],
)
def test_what_the_host_has_written_anew_stays(mcpproxy: Mcpproxy, home: Path, text: str, left: str) -> None:
    file = written(home / CLAUDE, text)
    assert mcpproxy("wrap", "claude-code", "--model").code == 0
    values = {**json.loads(file.read_bytes()), "theme": "dark"}
    file.write_text(json.dumps(values, indent=2), encoding="utf-8")
    said = mcpproxy("unwrap", "claude-code", "--model")
    assert said.out.endswith("the rest of the file stays as it is\n")
    assert file.read_text("utf-8") == left


def test_an_address_that_somebody_else_has_set_stays(mcpproxy: Mcpproxy, home: Path) -> None:
    file = written(home / CLAUDE, "{}")
    assert mcpproxy("wrap", "claude-code", "--model").code == 0
    text = '{"env": {"ANTHROPIC_BASE_URL": "https://new.example"}}'
    file.write_text(text, encoding="utf-8")
    said = mcpproxy("unwrap", "claude-code", "--model")
    assert (said.code, said.out) == (0, "")
    assert "no longer pointed at 127.0.0.1:8766 in ~/.claude/settings.json: this is forgotten" in said.err
    assert file.read_text("utf-8") == text
    assert mcpproxy("wrap", "claude-code", "--model").code == 0
    assert mcpproxy("unwrap", "claude-code", "--model").code == 0
    assert file.read_text("utf-8") == text


def test_no_comma_is_left_that_strict_json_does_not_have(mcpproxy: Mcpproxy, home: Path) -> None:
    file = written(home / CLAUDE, "{}")
    assert mcpproxy("wrap", "claude-code", "--model").code == 0
    file.write_bytes(file.read_bytes().replace(b"{\n", b'{\n  "theme": "dark",\n', 1))
    assert mcpproxy("unwrap", "claude-code", "--model").code == 0
    assert json.loads(file.read_bytes()) == {"theme": "dark", "env": {}}


# By hand


def test_a_host_without_such_a_file_gets_lines(mcpproxy: Mcpproxy, home: Path) -> None:
    said = mcpproxy("wrap", "gemini-cli", "--model")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[1:] == [
        "  export GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8766",
        "with a key (GEMINI_API_KEY), not with a sign-in",
        "it then needs this, running all the time: mcpproxy model https://generativelanguage.googleapis.com",
    ]


def test_no_file_is_made(mcpproxy: Mcpproxy, home: Path) -> None:
    said = mcpproxy("wrap", "claude-code", "--model")
    assert said.code == 0
    assert said.out.startswith("nothing was written (~/.claude/settings.json: no such file); ")
    assert "  export ANTHROPIC_BASE_URL=http://127.0.0.1:8766\n" in said.out
    assert not (home / CLAUDE).exists()


def test_the_provider_of_codex_itself_is_left_alone(mcpproxy: Mcpproxy, home: Path) -> None:
    file = written(home / CODEX, 'model = "m"\n')
    said = mcpproxy("wrap", "codex", "--model")
    assert said.out.startswith("nothing was written (~/.codex/config.toml: it has no model_provider); ")
    assert '  base_url = "http://127.0.0.1:8766/v1"\n' in said.out
    assert file.read_text("utf-8") == 'model = "m"\n'


@pytest.mark.parametrize("host", [host.id for host in all_hosts() if host.model])
def test_every_host_has_lines(mcpproxy: Mcpproxy, host: str) -> None:
    said = mcpproxy("wrap", host, "--model", "--listen", "127.0.0.1:9000")
    assert said.code == 0
    assert "http://127.0.0.1:9000" in said.out
    assert "{" not in said.out.replace('{"', "")


# Refused


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ("cursor", "--model"),
            "no setting is known by which it takes the address of a model; one is",
        ),
        (("claude", "--model"), "no host is called claude; did you mean"),
        (("--model",), "--model needs the name of one host"),
        (("claude-code", "codex", "--model"), "--model needs the name of one host"),
        (("claude-code", "--model", "--all"), "--all is about servers"),
        (("claude-code", "--model", "--http"), "--http is about servers"),
        (("claude-code", "--model", "--listen", "127.0.0.1:0"), "--listen needs a port that stays"),
    ],
)
def test_wrong_arguments_are_refused(mcpproxy: Mcpproxy, arguments: tuple[str, ...], reason: str) -> None:
    said = mcpproxy("wrap", *arguments)
    assert (said.code, said.out) == (2, "")
    assert reason in said.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"env": {"ANTHROPIC_BASE_URL": 1}}', "env.ANTHROPIC_BASE_URL is no string"),
        ('{"env": {"ANTHROPIC_BASE_URL": "https://me:pw@a.example"}}', "has variables or a user in it"),
        ('{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8766"}}', "already, and not by mcpproxy"),
        ('{"env": ', "not readable as JSON"),
    ],
)
def test_a_file_that_cannot_be_changed_stays(mcpproxy: Mcpproxy, home: Path, text: str, reason: str) -> None:
    file = written(home / CLAUDE, text)
    said = mcpproxy("wrap", "claude-code", "--model")
    assert (said.code, said.out) == (2, "")
    assert reason in said.err
    assert "pw@" not in said.err
    assert file.read_text("utf-8") == text


def test_a_read_only_file_is_not_replaced_and_not_recorded(
    mcpproxy: Mcpproxy, home: Path, state_dir: Path
) -> None:
    file = written(home / CLAUDE, "{}")
    file.chmod(0o400)
    said = mcpproxy("wrap", "claude-code", "--model")
    assert (said.code, "read-only" in said.err) == (2, True)
    assert not (state_dir / "hosts/models.json").exists()
