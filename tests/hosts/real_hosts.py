"""``python -m tests.hosts.real_hosts [HOST...]``: real hosts start servers that were wrapped.

Each host runs in a home folder of its own, without an account: it connects to a server of the Python SDK, of
which a recording must be there afterwards, and then ``mcpproxy unwrap`` gives its file back. Not part of the
gate: the hosts are large, and the first run fetches them from the npm registry.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import mcpproxy
from tests.peers import install
from tests.peers.fixtures import HERE

TIMEOUT_S: Final = 90
NAME: Final = "example"
LABEL: Final = '"--label"'
"""What is in a file while it is wrapped."""

PLAIN: Final = '{"mcpServers": {"example": {"command": %s, "args": [%s]}}}\n'
TRUSTED: Final = (
    '{\n  // no questions\n  "security": {"folderTrust": {"enabled": false}},\n'
    '  "mcpServers": {\n    "example": {\n      "command": %s,\n      "args": [%s]\n    }\n  }\n}\n'
)
WORDS: Final = '{\n  // local servers\n  "mcp": {"example": {"type": "local", "command": [%s, %s]}},\n}\n'
CODEX: Final = """\
model = "none"
model_provider = "nowhere" # it answers nothing: only the start of the servers is of interest

[model_providers.nowhere]
name = "nowhere"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[mcp_servers.example]
command = %s # the interpreter
args = [%s]
"""


@dataclass(frozen=True)
class RealHost:
    """A host that can be installed: what it reads, and the command by which it connects to its servers."""

    package: str
    program: str
    file: str
    content: str
    arguments: tuple[str, ...]
    connects_s: float = TIMEOUT_S
    """How long it is given; one that serves, or that waits for its model, is ended then."""


HOSTS: Final[Mapping[str, RealHost]] = {
    "gemini-cli": RealHost(
        install.HOSTS["gemini-cli"], "gemini", ".gemini/settings.json", TRUSTED, ("mcp", "list")
    ),
    "qwen-code": RealHost(
        install.HOSTS["qwen-code"],
        "qwen",
        ".qwen/settings.json",
        TRUSTED.replace("  // no questions\n", ""),
        ("mcp", "list"),
    ),
    "claude-code": RealHost(
        install.HOSTS["claude-code 2.1.197"], "claude", ".claude.json", PLAIN, ("mcp", "list")
    ),
    "opencode": RealHost(
        install.HOSTS["opencode"], "opencode", ".config/opencode/opencode.jsonc", WORDS, ("mcp", "list")
    ),
    "codex": RealHost(
        install.HOSTS["codex"],
        "codex",
        ".codex/config.toml",
        CODEX,
        ("exec", "--skip-git-repo-check", "hello"),
        connects_s=15,
    ),
    "mcphub": RealHost(
        install.HOSTS["mcphub"],
        "mcp-hub",
        ".config/mcphub/servers.json",
        PLAIN,
        ("--port", "38124", "--config", ".config/mcphub/servers.json"),
        connects_s=10,
    ),
}


def main() -> int:
    """Play every host, or those that the arguments name; a row of a table for each."""
    out = sys.stdout
    out.write("| host | wrapped | recorded | errors found | unwrapped |\n| --- | --- | --- | --- | --- |\n")
    failed = False
    for name in sys.argv[1:] or HOSTS:
        with tempfile.TemporaryDirectory(prefix="real-host-", ignore_cleanup_errors=True) as folder:
            try:
                row = play(name, HOSTS[name], Path(folder))
            except subprocess.TimeoutExpired as late:
                row = ("no", late_words(late))
        failed = failed or "no" in row
        out.write(f"| {' | '.join((name, *row))} |\n")
        out.flush()
    return int(failed)


def play(name: str, host: RealHost, home: Path) -> tuple[str, ...]:
    """Wrap, let the host connect, unwrap."""
    python = install.python_with_sdk(1)
    content = host.content % (json.dumps(str(python)), json.dumps(str(HERE / "sdk_server.py")))
    file = home / host.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    environment = {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "HOME": str(home),
        "TERM": "dumb",
    }
    started = [
        str(install.node_packages(f"host-{host.program}", (host.package,)) / ".bin" / host.program),
        *host.arguments,
    ]

    def run(*command: str, timeout_s: float = TIMEOUT_S) -> str:
        return output_of(command, environment, home, timeout_s)

    run("mcpproxy", "wrap", NAME, "--host", name)
    is_wrapped = LABEL in file.read_text(encoding="utf-8")
    run(*started, timeout_s=host.connects_s)
    _wait_for_recordings(lambda: run("mcpproxy", "list", "--json"))
    traces = sorted((home / ".local/state/mcpproxy").glob(f"*{name}.{NAME}*.jsonl"))
    methods = {call.method for trace in traces for call in mcpproxy.open_trace(str(trace)).calls()}
    errors = sum(mcpproxy.check(str(trace)).errors for trace in traces)
    was_kept = run("mcpproxy", "unwrap", NAME, "--host", name)
    now = file.read_text(encoding="utf-8")
    if now == content:
        unwrapped = "to the byte"
    elif LABEL not in now and str(python) in now:
        unwrapped = "yes; the host had written its file anew"
    else:
        unwrapped = f"no: {was_kept}"
    return (
        "yes" if is_wrapped else "no",
        f"{len(traces)}: {', '.join(sorted(methods))}" if "initialize" in methods else "no",
        str(errors),
        unwrapped,
    )


def output_of(
    command: Sequence[str], environment: Mapping[str, str], home: Path, timeout_s: float = TIMEOUT_S
) -> str:
    """Run a command in a home folder; return what it writes until it exits, or is ended.

    Raises:
        TimeoutExpired: it did not end when it was asked to, and was killed.
    """
    with subprocess.Popen(
        command,
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            return process.communicate(timeout=timeout_s)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                return process.communicate(timeout=TIMEOUT_S)[0]
            finally:
                process.kill()


def late_words(late: subprocess.TimeoutExpired) -> str:
    """Say which step of a run took too long."""
    return f"{shlex.join(late.cmd)} took longer than {late.timeout:.0f} s"


def _wait_for_recordings(listed: Callable[[], str]) -> None:
    """Wait until no recording is running: a recorder ends a moment after its host."""
    for _ in range(60):
        said = json.loads(listed().partition("mcpproxy:")[0] or "{}")
        if all(trace["ended"] != "running" for trace in said.get("traces", ())):
            return
        time.sleep(0.5)  # it is another program, which tells nobody when it is done


if __name__ == "__main__":
    sys.exit(main())
