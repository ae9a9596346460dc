"""``python -m tests.peers.published FOLDER [NAME...]``: what published servers list, and what is found in it.

Each server is installed from npm or PyPI into ``FOLDER``, recorded through ``mcpproxy run`` while it is asked
for its lists, and judged by the rules of the family SEC. A row is printed for each server. The keys that some
servers want at their start are made up: no tool is called. Not part of the gate: it installs many packages,
whose texts are their authors' and are not kept here.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

INSTALL_TIMEOUT_S: Final = 600
ANSWER_TIMEOUT_S: Final = 90

LISTS: Final = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
FEATURES: Final = {"resourceTemplates": "resources"}


@dataclass(frozen=True)
class Published:
    """A server: its package, program and arguments, and the variables without which it does not start."""

    package: str
    program: str
    arguments: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.package.removeprefix("@").replace("/", "-")


def of_npm(package: str, *arguments: str, **env: str) -> Published:
    return Published(package, "", arguments, tuple(env.items()))


def of_pypi(package: str, program: str = "", *arguments: str, **env: str) -> Published:
    return Published(package, program or package, arguments, tuple(env.items()))


SERVERS: Final = (
    of_npm("@modelcontextprotocol/server-everything"),
    of_npm("@modelcontextprotocol/server-filesystem", "."),
    of_npm("@modelcontextprotocol/server-memory"),
    of_npm("@modelcontextprotocol/server-sequential-thinking"),
    of_npm("@upstash/context7-mcp"),
    of_npm("@playwright/mcp"),
    of_npm("chrome-devtools-mcp"),
    of_npm("@notionhq/notion-mcp-server", NOTION_TOKEN="ntn_none"),
    of_npm("firecrawl-mcp", FIRECRAWL_API_KEY="none"),
    of_npm("tavily-mcp", TAVILY_API_KEY="none"),
    of_npm("exa-mcp-server", EXA_API_KEY="none"),
    of_npm("figma-developer-mcp", "--stdio", "--figma-api-key=none"),
    of_npm("mcp-server-kubernetes"),
    of_npm("@wonderwhy-er/desktop-commander"),
    of_npm("@supabase/mcp-server-supabase", "--access-token=sbp_0123456789abcdef0123456789abcdef01234567"),
    of_npm("@eslint/mcp"),
    of_npm("@shopify/dev-mcp"),
    of_npm("@circleci/mcp-server-circleci", CIRCLECI_TOKEN="none"),
    of_npm("mongodb-mcp-server", MDB_MCP_TELEMETRY="disabled"),
    of_npm("@sentry/mcp-server", "--access-token=none"),
    of_npm("@brave/brave-search-mcp-server", BRAVE_API_KEY="none"),
    of_npm("@hubspot/mcp-server", PRIVATE_APP_ACCESS_TOKEN="none"),
    of_pypi("mcp-server-fetch"),
    of_pypi("mcp-server-git"),
    of_pypi("mcp-server-time"),
    of_pypi("arxiv-mcp-server"),
    of_pypi("duckduckgo-mcp-server"),
    of_pypi("awslabs.aws-documentation-mcp-server"),
    of_pypi("mcp-atlassian", "", JIRA_URL="http://127.0.0.1:9", JIRA_PERSONAL_TOKEN="none"),
    of_pypi("postgres-mcp", "", "postgresql://127.0.0.1:9/none"),
    of_pypi("mcp-snowflake-server"),
    of_pypi("semgrep-mcp"),
    of_pypi("mcp-scan"),
)


def main(folder: Path, names: list[str]) -> None:
    sys.stdout.write("| server | version | tools | prompts | resources | SEC findings |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- |\n")
    for server in SERVERS:
        if names and server.name not in names:
            continue
        try:
            command, version = installed(server, folder / "installed" / server.name)
            row = f"{version} | {recorded(server, command, folder)}"
        except (OSError, ValueError, queue.Empty, subprocess.SubprocessError) as fault:
            row = f"- | - | - | - | not recorded: {type(fault).__name__}"
        sys.stdout.write(f"| {server.package} | {row} |\n")
        sys.stdout.flush()


def installed(server: Published, folder: Path) -> tuple[list[str], str]:
    """Install a server if it is not there; return the command that starts it, and its version."""
    if server.program:
        python = folder / "bin" / "python"
        if not (folder / "bin" / server.program).exists():
            venv.create(folder, with_pip=True)
            _run(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", server.package)
        code = f"import importlib.metadata as m; print(m.version({server.package!r}))"
        return [str(folder / "bin" / server.program)], _run(str(python), "-c", code).strip()
    package = folder / "node_modules" / server.package / "package.json"
    if not package.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", server.package)
    about = json.loads(package.read_text(encoding="utf-8"))
    programs = about["bin"]
    program = programs if isinstance(programs, str) else next(iter(programs.values()))
    return ["node", str(package.parent / program)], about["version"]


def _run(*command: str) -> str:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=INSTALL_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    ).stdout


def recorded(server: Published, command: list[str], folder: Path) -> str:
    """Record the lists of a server, and return the rest of its row."""
    trace = folder / f"{server.name}.jsonl"
    trace.unlink(missing_ok=True)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    through = [
        sys.executable,
        "-m",
        "mcpproxy",
        "run",
        "--trace",
        str(trace),
        "--",
        *command,
        *server.arguments,
    ]
    env = {**os.environ, **dict(server.env), "HOME": str(work)}
    with subprocess.Popen(
        through, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=work, env=env
    ) as process:
        counts = _ask_for_lists(process)
    checked = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "check", str(trace), "--select", "SEC", "--format", "json"],
        capture_output=True,
        check=False,
    )
    findings = [
        finding["rule"] for line in json.loads(checked.stdout)["traces"] for finding in line["findings"]
    ]
    resources = f"{counts['resources']}+{counts['resourceTemplates']}"
    return f"{counts['tools']} | {counts['prompts']} | {resources} | {' '.join(findings) or 'none'}"


def _ask_for_lists(process: "subprocess.Popen[bytes]") -> dict[str, int]:
    """Do the handshake, read every page of every list, and end the session; return the sizes of the lists."""
    answers: queue.Queue[dict[str, Any]] = queue.Queue()
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def read() -> None:
        for line in stdout:
            try:
                answers.put(json.loads(line))
            except ValueError:
                continue

    reader = threading.Thread(target=read, daemon=True)
    reader.start()

    def ask(id: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        while True:
            answer = answers.get(timeout=ANSWER_TIMEOUT_S)
            if answer.get("id") == id and "method" not in answer:
                return answer.get("result", {})

    def send(message: dict[str, Any]) -> None:
        stdin.write(json.dumps(message).encode() + b"\n")
        stdin.flush()

    counts = dict.fromkeys(LISTS, 0)
    try:
        client = {"name": "published", "version": "1.0"}
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        offered = ask(0, "initialize", opening).get("capabilities", {})
        send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        id = 0
        for items, method in LISTS.items():
            params: dict[str, Any] = {}
            while FEATURES.get(items, items) in offered:
                id += 1
                result = ask(id, method, params)
                counts[items] += len(result.get(items, ()))
                if "nextCursor" not in result:
                    break
                params = {"cursor": result["nextCursor"]}
    finally:
        stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        reader.join(5)
    return counts


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
