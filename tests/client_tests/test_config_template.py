"""``validate client --config-template``: a host finds its server in a file of its own."""

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.cli.main import main
from mcpproxy.errors import McpProxyError, UsageError
from mcpproxy.peers.client_tests.config_template import ConfigTemplate
from mcpproxy.peers.client_tests.served import Served

SERVER = Served(("/opt/a python", "-P", 'say "hi"\n', "ü\\"))
"""A command with all that a file has to quote."""
AT_URL = Served(url="http://127.0.0.1:9/mcp")

CLIENT = (sys.executable, str(Path(__file__).parent / "configured_client.py"), "{config}")

JSON = '{\n  // the server\n  "mcpServers": {"x": {"command": "{command}", "args": ["--", "{args}"]}},\n}\n'
TOML = '[mcpServers.x]  # the server\ncommand = "{command}"\nargs = ["{args}"]\n'


def filled(folder: Path, name: str, text: str, server: Served = SERVER) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return ConfigTemplate.read(str(path), "http" if server.url else "stdio").fill(server)


def entry(read: Any) -> Any:
    return read["mcpServers"]["x"]


def test_json_keeps_its_comments(tmp_path: Path) -> None:
    text = filled(tmp_path, "mcp.json", JSON)
    head, comment, body, *_ = text.splitlines()
    assert comment == "  // the server"
    assert entry(json.loads(f"{head}{body.rstrip(',')}}}")) == {
        "command": SERVER.command[0],
        "args": ["--", *SERVER.command[1:]],
    }


def test_toml(tmp_path: Path) -> None:
    text = filled(tmp_path, "config.toml", TOML)
    assert text.startswith("[mcpServers.x]  # the server\n")
    assert entry(tomllib.loads(text)) == {"command": SERVER.command[0], "args": [*SERVER.command[1:]]}


def test_yaml_with_a_line_for_each_argument(tmp_path: Path) -> None:
    text = filled(tmp_path, "config.yaml", "x:\n  - first\n  - '{server}'\n  - last\n")
    assert [line[:4] for line in text.splitlines()[1:]] == ["  - "] * 6


def test_all_arguments_are_one_value(tmp_path: Path) -> None:
    read = json.loads(filled(tmp_path, "x", '{"command": "{command}", "args": "{args}"}'))
    assert read["args"] == [*SERVER.command[1:]]


def test_a_text_around_the_server_is_for_a_shell(tmp_path: Path) -> None:
    read = json.loads(filled(tmp_path, "x.json", '{"command": "sh", "args": ["-c", "exec {server}"]}'))
    assert read["args"] == ["-c", f"exec {SERVER.text}"]


def test_a_url(tmp_path: Path) -> None:
    read = json.loads(filled(tmp_path, "x.json", '{"a": "{url}", "b": ["{server}"]}', AT_URL))
    assert read == {"a": AT_URL.url, "b": [AT_URL.url]}


STRICT = '{"mcpServers": {"x": {"command": "{command}", "args": ["{args}"]}}}'


def test_a_path_that_no_configuration_can_hold(tmp_path: Path) -> None:
    server = Served(("mcpproxy", "--trace", os.fsdecode(b"/srv/\xff/ordinary.jsonl")))
    with pytest.raises(UsageError, match="not UTF-8; give another folder with --trace-dir"):
        filled(tmp_path, "mcp.json", JSON, server)


@pytest.mark.parametrize(("name", "text"), [("mcp.json", STRICT), ("config.toml", TOML)])
def test_a_host_is_tested_by_its_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str
) -> None:
    template = tmp_path / name
    template.write_text(text, encoding="utf-8")
    options = (f"--config-template={template}", "--only=two-pages", "--timeout=60", "--json")
    code = main(["validate", "client", f"--trace-dir={tmp_path / 'recordings'}", *options, "--", *CLIENT])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert code == 0
    assert {check["name"]: check["status"] for check in checks if check["status"] != "info"} == {
        "ordinary": "passed",
        "two-pages": "passed",
    }
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        [name, "recordings", "ordinary.jsonl", "two-pages.jsonl"]
    )


MISTAKES = [
    ('{"a": ', "stdio", "x.json:1:7: not readable as JSON (it ends too early)"),
    ('{"a": 1}', "stdio", 'no value in it names the server; write "{command}" and "{args}" where it stands'),
    ('{"a": "{comand}"}', "stdio", "{comand} names nothing of the server; write {command}"),
    ('{"a": "{command}"}', "stdio", '{command} stands in it alone; write "{command}" and "{args}"'),
    ('{"a": "{url}"}', "stdio", "{url} stands in it, and the servers are on stdio"),
    ('{"a": "{command}", "b": ["{args}"]}', "http", "{command} stands in it, and the servers are on http"),
]


@pytest.mark.parametrize(("text", "transport", "said"), MISTAKES)
def test_mistakes_in_a_template(tmp_path: Path, text: str, transport: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(McpProxyError) as error:
        ConfigTemplate.read(str(path), transport)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--config-template=no.json", "--", "python"), "no.json cannot be read (no such file or directory)"),
        (("--", "python", "{config}"), "'{config}' names a configuration, and there is none"),
        (("--", "python", "{confg}"), "'{confg}' does not name the configuration; write {config}"),
        (("--config-template=x", "--listen=127.0.0.1:0"), "there is no command that gets it"),
    ],
)
def test_mistakes_of_users(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, argv: tuple[str, ...], said: str
) -> None:
    folder = tmp_path / "recordings"
    assert main(["validate", "client", f"--trace-dir={folder}", *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err.replace(": write", "; write")) == ("", True)
    assert not folder.exists()
