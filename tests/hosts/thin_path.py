"""``python -m tests.hosts.thin_path [HOST...]``: real hosts whose ``PATH`` lacks the command of a server.

Each host is started with an empty environment, a ``PATH`` of a few programs and a home folder of its own. Its
server is started by ``npx``, which is in a folder of nvm in that home. It is printed what the host and
``mcpproxy hosts`` say, and what is recorded once the server is wrapped, without and with ``--keep-path``. Not
part of the gate: the hosts are large, and the first run fetches them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import mcpproxy
from tests.hosts.real_hosts import HOSTS, NAME, RealHost, late_words, output_of
from tests.peers import install
from tests.relay.hosts import until_recorded

SERVER: Final = ("-y", install.NODE_PACKAGES[0])
THIN: Final = (
    "node",
    "sh",
    "env",
    "uname",
    "cat",
    "sed",
    "ls",
    "git",
    "which",
    "dirname",
    "basename",
    "readlink",
)
"""The programs on the ``PATH``: those that the hosts themselves need."""
OURS: Final = (sys.executable, "-m", "mcpproxy")
PLAYED: Final = ("claude-code", "codex", "gemini-cli", "opencode")
_TOLD: Final = 400


def main() -> int:
    """Play all hosts, or those that are named; 1 if one is not helped, or its file is not restored."""
    failed = False
    for name in sys.argv[1:] or PLAYED:
        with tempfile.TemporaryDirectory(prefix="thin-", ignore_cleanup_errors=True) as folder:
            try:
                is_good = play(name, HOSTS[name], Path(folder))
            except subprocess.TimeoutExpired as late:
                sys.stdout.write(f"{name}: {late_words(late)}\n")
                is_good = False
        failed = failed or not is_good
    return int(failed)


def play(name: str, host: RealHost, home: Path) -> bool:
    """Start a host before and after its server is wrapped, and say what is seen."""
    thin, added = home / "thin", home / ".nvm/versions/node/v20.20.2/bin"
    for folder, programs in ((thin, THIN), (added, ("npx",))):
        folder.mkdir(parents=True)
        for program in programs:
            if found := shutil.which(program):
                (folder / program).symlink_to(os.path.realpath(found) if program == "npx" else found)
    words = ", ".join(json.dumps(word) for word in SERVER)
    file = home / host.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content := host.content % ('"npx"', words), encoding="utf-8")
    started = [
        str(install.node_packages(f"host-{host.program}", (host.package,)) / ".bin" / host.program),
        *host.arguments,
    ]
    full = {**os.environ, "HOME": str(home)}
    output_of(["npx", *SERVER], full, home)  # fetches the server, for which hosts do not wait
    bare = {"PATH": str(thin), "HOME": str(home), "TERM": "dumb"}
    at = ("--host", name)

    def say(what: str, said: str) -> None:
        sys.stdout.write(f"{name}: {what}: {' '.join(said.split())[-_TOLD:]}\n")
        sys.stdout.flush()

    say("not wrapped, the host says", output_of(started, bare, home, host.connects_s))
    say("hosts says", output_of([*OURS, "hosts"], bare, home))
    say("wrap says", output_of([*OURS, "wrap", NAME, *at], bare, home))
    say("wrapped, recorded", _recorded(started, bare, home, host.connects_s))
    output_of([*OURS, "unwrap", NAME, *at], bare, home)
    is_same = file.read_text(encoding="utf-8") == content
    say("unwrapped", "to the byte" if is_same else "the host has written its file anew")
    say("wrap --keep-path says", output_of([*OURS, "wrap", NAME, *at, "--keep-path"], bare, home))
    recorded = _recorded(started, bare, home, host.connects_s)
    say("wrapped with --keep-path, recorded", recorded)
    say("hosts says", output_of([*OURS, "hosts"], bare, home))
    output_of([*OURS, "unwrap", NAME, *at], bare, home)
    is_restored = '"--path"' not in (now := file.read_text(encoding="utf-8")) and '"npx"' in now
    say("unwrapped", "to the byte" if now == content else "the host has written its file anew")
    return "initialize" in recorded and is_restored


def _recorded(command: list[str], bare: Mapping[str, str], home: Path, seconds: float) -> str:
    """Start a host, and return what the newest recording of its server has."""
    folder = home / ".local/state/mcpproxy"
    before = set(folder.glob("*.jsonl"))
    output_of(command, bare, home, seconds)
    until_recorded(folder)
    new = sorted(set(folder.glob("*.jsonl")) - before)
    methods = {call.method for path in new for call in mcpproxy.open_trace(path).calls() if call.is_answered}
    notes = {note for path in new for note in mcpproxy.open_trace(path).notes}
    shown = output_of([*OURS, "show", str(new[-1])], bare, home) if new and not methods else ""
    answered = ", ".join(sorted(methods)) or "nothing"
    return f"{len(new)} recordings; answered: {answered} {'; '.join(notes)} {shown}"


if __name__ == "__main__":
    sys.exit(main())
