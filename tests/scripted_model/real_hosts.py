"""``python -m tests.scripted_model.real_hosts [FOLDER]``: real hosts follow a script, with a server of ours.

FOLDER has their programs (``node_modules/.bin``); without it they are looked for in PATH. Not part of the
gate: the hosts are large. Each runs in a home folder of its own.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mcpproxy.base.style import Style
from mcpproxy.scripted_model import run_report
from mcpproxy.scripted_model.host_settings import codex_arguments, environment
from mcpproxy.scripted_model.model_script import script_of
from mcpproxy.scripted_model.model_server import ModelServer
from tests.plugin_project import SERVER

TIMEOUT_S: Final = 120

SCRIPT: Final[list[Any]] = [
    {"call": "forecast", "arguments": {"city": "Oslo"}, "expect": {"contains": "Oslo: sunny"}},
    {
        "say": "Two more.",
        "calls": [
            {"call": "forecast", "arguments": {"city": "Lima"}, "expect": {"contains": "Lima: sunny"}},
            {"call": "forecast", "arguments": {"city": "Kyoto"}, "expect": {"contains": "Kyoto: sunny"}},
        ],
    },
    {"fail": 529},
    {"say": "It is sunny everywhere."},
]


def _claude(home: Path, server: list[str], url: str) -> list[str]:
    del url
    servers = home / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"weather": {"command": server[0], "args": server[1:]}}}))
    return ["-p", "go", "--mcp-config", str(servers), "--strict-mcp-config", "--allowedTools", "mcp__weather"]


def _gemini(home: Path, server: list[str], url: str) -> list[str]:
    del url
    (home / ".gemini").mkdir()
    entry = {"command": server[0], "args": server[1:], "trust": True}
    (home / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": {"weather": entry}}))
    return ["-p", "go", "--yolo", "-m", "gemini-2.5-pro"]


def _codex(home: Path, server: list[str], url: str) -> list[str]:
    (home / ".codex").mkdir()
    entry = f"[mcp_servers.weather]\ncommand = {json.dumps(server[0])}\nargs = {json.dumps(server[1:])}\n"
    never = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
    (home / ".codex" / "config.toml").write_text(f"{never}{entry}required = true\n")
    return ["exec", "--skip-git-repo-check", *codex_arguments(url), "go"]


HOSTS: Final[Mapping[str, Callable[[Path, list[str], str], list[str]]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
}
"""Program -> who writes its settings into its home, and returns its arguments."""


def main(folder: str = "") -> int:
    """Play the script inside each host that is there; return 1 if a turn failed."""
    code = 0
    for name, prepared in HOSTS.items():
        program = shutil.which(name, path=folder or None)
        if program is None:
            print(f"{name}: is not there")  # noqa: T201
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            code |= _play(program, Path(home), prepared)
    return code


def _play(program: str, home: Path, prepared: Callable[[Path, list[str], str], list[str]]) -> int:
    (home / "server.py").write_text(SERVER)
    model = ModelServer(script_of(SCRIPT))
    model.start()
    started = time.monotonic()
    try:
        ran = subprocess.run(
            [program, *prepared(home, [sys.executable, str(home / "server.py")], model.url)],
            cwd=home,
            env={**os.environ, "HOME": str(home), **environment(model.url)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        print(f"{Path(program).name}: {time.monotonic() - started:.1f} s, exit code {ran.returncode}")  # noqa: T201
    finally:
        model.end()
    for line in run_report.lines(model.player, Style()):
        print(f"  {line}")  # noqa: T201
    return int(run_report.has_failed(model.player))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
