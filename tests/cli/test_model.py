"""``mcpproxy model``: its options, what is refused, and what the recording begins with."""

import json

import pytest

from mcpproxy.cli.commands import http
from mcpproxy.cli.commands.model import model
from mcpproxy.cli.commands.model.model import ModelOptions
from mcpproxy.errors import McpProxyError
from mcpproxy.model.dialect import DIALECTS

URL = "http://127.0.0.1:1"

REFUSED: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "https://api.anthropic.com"),
    "two URLs": ([URL, URL], "one URL is needed"),
    "a query": ([f"{URL}/?key=1"], "has a query"),
    "no scheme": (["api.openai.com"], "is not an http:// or https:// URL"),
    "an unknown dialect": ([URL, "--dialect", "bard"], "one of anthropic, chat, responses, gemini"),
    "rules": ([URL, "--select", "RPC-001"], "unknown option --select"),
    "faults": ([URL, "--fault", "x"], "unknown option --fault"),
    "an endpoint": ([URL, "--endpoint", "/mcp"], "unknown option --endpoint"),
    "key without certificate": ([URL, "--key", "k"], "--key needs --cert"),
    "listen without port": ([URL, "--listen", "127.0.0.1"], "is not HOST:PORT"),
    "admin without port": ([URL, "--admin", "9100"], "--admin 9100 is not HOST:PORT"),
}


@pytest.mark.parametrize(("argv", "fact"), REFUSED.values(), ids=REFUSED)
def test_refused(argv: list[str], fact: str) -> None:
    with pytest.raises(McpProxyError, match=r"^model: ") as refusal:
        assert model.parse(argv).upstream
    assert fact in str(refusal.value)


def test_without_a_url_all_services_are_named() -> None:
    with pytest.raises(McpProxyError) as refusal:
        model.parse([])
    assert all(dialect.service in str(refusal.value) for dialect in DIALECTS.values())


def begun(*argv: str) -> tuple[ModelOptions, dict[str, object], str]:
    """The options, the members of the START record, and the greeting."""
    options = model.parse([URL, "--listen", "127.0.0.1:0", *argv])
    settings, listener, address = http.prepare(options)
    listener.close()
    members = {name: json.loads(value) for name, value in http.start_members(options, address).items()}
    return options, members, str(settings.greetings[0])


def test_what_the_recording_begins_with() -> None:
    options, members, _ = begun()
    assert (members["transport"], members["mode"], members["endpoint"]) == ("http", "reverse", "")
    assert (members["model"], members["kept"], options.label) == ("any", "tools", "model")
    options, members, _ = begun("--dialect", "chat", "--prompts", "--label", "gpt")
    assert (members["model"], members["kept"], options.label) == ("chat", "everything", "gpt")


def test_the_path_of_the_url_is_that_of_the_host() -> None:
    options = model.parse(["https://api.openai.com/v1", "--listen", "127.0.0.1:0"])
    settings, listener, address = http.prepare(options)
    listener.close()
    assert settings.greetings[0] == f"listening on http://{address}/v1 -> https://api.openai.com/v1"
    assert settings.rewriting is None
