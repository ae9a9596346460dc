"""One install gives every command that speaks HTTP: ``python .ci/installed.py RECORDING``.

The recording serves in place of a server, ``mcpproxy http --admin`` stands before it, and ``validate``
is the client. A recording cannot answer all that ``validate`` asks, so its verdict does not count. Run it
with a Python that has nothing installed but the package.
"""

import re
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from typing import IO

MCPPROXY = [sys.executable, "-m", "mcpproxy"]


def started(stack: ExitStack, *arguments: str) -> IO[str]:
    """What a command writes to stderr; it is stopped when ``stack`` is closed."""
    process = subprocess.Popen([*MCPPROXY, *arguments], stderr=subprocess.PIPE, text=True)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    assert process.stderr is not None
    return process.stderr


def url(lines: IO[str], before: str) -> str:
    """The URL in the line that says ``before``."""
    said: list[str] = []
    for line in lines:
        said.append(line)
        if found := re.search(rf"{before} (\S+)", line):
            return found[1]
    sys.exit(f"no {before!r} in:\n{''.join(said)}")


def main(recording: str) -> int:
    with ExitStack() as stack:
        server = url(started(stack, "replay", "server", recording, "--http", "127.0.0.1:0"), "replaying at")
        lines = started(stack, "http", server, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        here = url(lines, "listening on")
        admin = url(lines, "metrics on")
        metrics = urllib.request.urlopen(admin, timeout=30).read().decode()
        ran = subprocess.run(
            [*MCPPROXY, "validate", "--only=list-tools", here], capture_output=True, text=True, timeout=120
        )
    if "mcpproxy_" not in metrics or " passed" not in ran.stdout:
        sys.stderr.write(f"{metrics}{ran.stdout}{ran.stderr}")
        return 1
    sys.stdout.write("validate URL, http --admin and replay server --http work\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
