"""How real hosts are led to a server and to a scripted model, each in a home folder of its own."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcpproxy.peers.scripted_model.host_settings import codex_arguments, environment
from tests.peers import install

NOWHERE: Final = "http://127.0.0.1:9"
"""A proxy that is not there: what a host asks of other machines fails at once."""


@dataclass(frozen=True)
class Stage:
    """What a host is told: its home folder, the name and the command of the server, and its model's URL."""

    home: Path
    name: str
    server: Sequence[str]
    url: str

    @property
    def entry(self) -> dict[str, Any]:
        """The server as most files of settings have it."""
        return {"command": self.server[0], "args": [*self.server[1:]]}

    def write(self, file: str, content: str) -> Path:
        """Write a file in the home folder."""
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path


@dataclass(frozen=True)
class RealHost:
    """A host: its ``clientInfo``, name and version, and how it is started.

    ``version`` is that of the package, which not every client gives. ``prepared`` writes its settings and
    returns its arguments. ``before`` is a command of the host itself that must run first. ``results`` and
    ``errors`` are what is known of the host inside the script: a text in the result of a tool, where the host
    does not give what the script expects, and the findings of the server in the revision that it asks for.
    """

    client: tuple[str, str]
    version: str
    program: Callable[[], Sequence[str]]
    prepared: Callable[[Stage], Sequence[str]]
    variables: Callable[[str], Mapping[str, str]] = field(default=lambda _url: {})
    before: Callable[[Stage], Sequence[str]] | None = None
    results: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: Sequence[str] = ()

    def command(self, stage: Stage) -> list[str]:
        """Return the command, installed if need be, after its settings are written.

        Raises:
            PeerUnavailableError: the host cannot be installed.
        """
        return [*self.program(), *self.prepared(stage)]

    def first_command(self, stage: Stage) -> list[str]:
        """Return what must run before the command; empty if nothing must."""
        return [*self.program(), *self.before(stage)] if self.before is not None else []

    def environment(self, stage: Stage) -> dict[str, str]:
        """Return all variables of the host; none comes from outside but the path of programs."""
        return {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "HOME": str(stage.home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "IS_SANDBOX": "1",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
            **environment(stage.url),
            **self.variables(stage.url),
        }


def _node_host(
    pin: str,
    program: str,
    client: str,
    prepared: Callable[[Stage], Sequence[str]],
    variables: Callable[[str], Mapping[str, str]] = lambda _url: {},
    *,
    client_version: str = "",
    before: Callable[[Stage], Sequence[str]] | None = None,
    results: Mapping[str, str] | None = None,
    errors: Sequence[str] = (),
) -> RealHost:
    package = install.HOSTS[pin]
    version = package.rpartition("@")[2]

    def started() -> list[str]:
        return [str(install.node_packages(f"host-{program}", (package,)) / ".bin" / program)]

    told = (client, client_version or version)
    return RealHost(told, version, started, prepared, variables, before, results or {}, errors)


def _claude_code(version: str, **variables: str) -> RealHost:
    return _node_host(f"claude-code {version}", "claude", "claude-code", _claude, lambda _url: variables)


def _copilot_cli(**variables: str) -> RealHost:
    """Return a host that speaks one of three interfaces; ``{url}`` in a variable is the URL of the model."""

    def filled(url: str) -> Mapping[str, str]:
        return {name: value.format(url=url) for name, value in variables.items()}

    return _node_host("copilot-cli", "copilot", "copilot-cli", _copilot, filled)


def _framework(name: str, client: tuple[str, str], dialect: str, **variables: str) -> RealHost:
    """Return an agent of a framework of Python, which leaves it to its SDK to say who the client is."""

    def started() -> list[str]:
        return [str(install.python_with_host(name)), str(Path(__file__).with_name("framework.py"))]

    def prepared(stage: Stage) -> list[str]:
        return [install.HOSTS[name].split()[0], dialect, stage.url, *stage.server]

    version = install.HOSTS[name].split()[0].rpartition("==")[2]
    return RealHost(client, version, started, prepared, lambda _url: variables)


def _claude(stage: Stage) -> list[str]:
    servers = stage.write("servers.json", json.dumps({"mcpServers": {stage.name: stage.entry}}))
    options = ["--mcp-config", str(servers), "--strict-mcp-config", "--allowedTools", f"mcp__{stage.name}"]
    return ["-p", "go", *options]


def _codex(stage: Stage) -> list[str]:
    toml = {"command": stage.entry["command"], "args": stage.entry["args"], "required": True}
    rows = [f"{name} = {json.dumps(value)}" for name, value in toml.items()]
    never = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
    stage.write(".codex/config.toml", "\n".join([f"{never}[mcp_servers.{stage.name}]", *rows, ""]))
    return ["exec", "--skip-git-repo-check", *codex_arguments(stage.url), "go"]


def _gemini(stage: Stage) -> list[str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "mcpServers": {stage.name: stage.entry | {"trust": True}},
    }
    stage.write(".gemini/settings.json", json.dumps(settings))
    return ["-p", "go", "--yolo", "-m", "gemini-2.5-pro"]


def _copilot(stage: Stage) -> list[str]:
    entry = stage.entry | {"type": "local", "tools": ["*"]}
    servers = stage.write("servers.json", json.dumps({"mcpServers": {stage.name: entry}}))
    options = ["--disable-builtin-mcps", "--no-color", "--additional-mcp-config", f"@{servers}"]
    return ["-p", "go", "--allow-all-tools", *options]


def _opencode(stage: Stage) -> list[str]:
    model = {
        "name": _MODEL,
        "attachment": True,
        "tool_call": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 200_000, "output": 8000},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{stage.url}/v1", "apiKey": "scripted"},
        "models": {_MODEL: model},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": f"scripted/{_MODEL}",
        "small_model": f"scripted/{_MODEL}",
        "permission": "allow",
        "provider": {"scripted": provider},
        "mcp": {stage.name: {"type": "local", "enabled": True, "command": [*stage.server]}},
    }
    stage.write(".config/opencode/opencode.json", json.dumps(settings))
    return ["run", "--print-logs", "go"]


def _cline_key(stage: Stage) -> list[str]:
    key = ("-p", "openai", "-k", "scripted", "-m", _MODEL, "-b", f"{stage.url}/v1")
    return ["auth", *key]


def _cline(stage: Stage) -> list[str]:
    servers = {"mcpServers": {stage.name: stage.entry | {"disabled": False}}}
    stage.write(".cline/data/settings/cline_mcp_settings.json", json.dumps(servers))
    # One word would be taken for a command.
    return ["-P", "openai-compatible", "-m", _MODEL, "-k", "scripted", "please go now"]


def _continue(stage: Stage) -> list[str]:
    model = {
        "name": "scripted",
        "provider": "openai",
        "model": _MODEL,
        "apiBase": f"{stage.url}/v1",
        "apiKey": "scripted",
        "roles": ["chat"],
        "capabilities": ["tool_use", "image_input"],
    }
    settings = {
        "name": "tested",
        "version": "1.0.0",
        "schema": "v1",
        "models": [model],
        "mcpServers": [{"name": stage.name, **stage.entry}],
    }
    # JSON is YAML.
    path = stage.write(".continue/config.yaml", json.dumps(settings))
    return ["--config", str(path), "--auto", "-p", "go"]


def _not_in_2024_11_05(place: str, kind: str) -> str:
    known = '"text", "image" or "resource"'
    return f'CONT-001: server sent a tools/call result in which {place} should be {known}, is "{kind}"'


_MODEL: Final = "gpt-4.1"
"""A model that takes pictures, as hosts know."""

HOSTS: Final[Mapping[str, RealHost]] = {
    "codex": _node_host("codex", "codex", "codex-mcp-client", _codex),
    "claude-code-2.1.197": _claude_code("2.1.197"),
    "claude-code-2.1.332": _claude_code("2.1.332"),
    "claude-code-2.1.332-searching": _claude_code("2.1.332", ENABLE_TOOL_SEARCH="true"),
    "gemini-cli": _node_host("gemini-cli", "gemini", "gemini-cli-mcp-client", _gemini),
    "copilot-cli-chat": _copilot_cli(COPILOT_PROVIDER_WIRE_API="completions"),
    "copilot-cli-responses": _copilot_cli(COPILOT_PROVIDER_WIRE_API="responses"),
    "copilot-cli-anthropic": _copilot_cli(
        COPILOT_PROVIDER_TYPE="anthropic",
        COPILOT_PROVIDER_BASE_URL="{url}",
        COPILOT_MODEL="claude-sonnet-4.5",
    ),
    "opencode": _node_host(
        "opencode",
        "opencode",
        "opencode",
        _opencode,
        lambda _url: {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        # It keeps a long line in a file, and gives the model none of it.
        results={"logbook": "...120000 bytes truncated..."},
    ),
    "cline": _node_host(
        "cline",
        "cline",
        "@cline/core",
        _cline,
        lambda _url: {"CLINE_NO_AUTO_UPDATE": "1", "CLINE_TELEMETRY_DISABLED": "1"},
        client_version="0.0.0",
        before=_cline_key,
        # It asks for 2024-11-05, which has neither of the two.
        errors=[
            _not_in_2024_11_05("result/content/1/type", "resource_link"),
            _not_in_2024_11_05("result/content/4/type", "audio"),
        ],
    ),
    "continue": _node_host(
        "continue",
        "cn",
        "continue-cli-client",
        _continue,
        lambda _url: {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_METRICS_ENABLED": "0"},
        client_version="1.0.0",
    ),
    "pydantic-ai-chat": _framework("pydantic-ai", ("fastmcp", "4.2.3"), "chat"),
    "pydantic-ai-responses": _framework("pydantic-ai", ("fastmcp", "4.2.3"), "responses"),
    "pydantic-ai-anthropic": _framework("pydantic-ai", ("fastmcp", "4.2.3"), "anthropic"),
    "pydantic-ai-gemini": _framework("pydantic-ai", ("fastmcp", "4.2.3"), "gemini"),
    "openai-agents-chat": _framework("openai-agents", ("mcp", "0.1.0"), "chat"),
    "openai-agents-own-times": _framework("openai-agents", ("mcp", "0.1.0"), "chat", OWN_TIMES="1"),
    "openai-agents-responses": _framework("openai-agents", ("mcp", "0.1.0"), "responses"),
}
"""By the name of the host and, if it speaks several interfaces, of the one. Installed when started."""
