"""The page of ``mcpproxy ui`` beside a session that is recorded (``--ui``).

The recorder starts the page as a process of its own, so the traffic does not wait for the page. The process
reads from a pipe that only the recorder holds open. So the page ends when the recorder ends, even if the
recorder is killed.
"""

import subprocess
import sys
from typing import Final

from mcpproxy.base.own_process import own_command
from mcpproxy.errors import UsageError
from mcpproxy.record.relay.stderr_line import is_json, write_own_line

_STDERR: Final = 2
"""The file descriptor of stderr."""


def check(where: str, *, is_quiet: bool) -> None:
    """Refuse ``--ui`` if it cannot work. ``where`` names the command in the error.

    Raises:
        UsageError: ``is_quiet`` forbids writing the address of the page, or the system is Windows: only a
            forked recorder starts the page, and Windows has no fork.
    """
    if is_quiet:
        raise UsageError(where, "--ui writes an address to stderr, and --quiet forbids it", "leave one out")
    if sys.platform == "win32":
        fact = "--ui needs fork, which Windows does not have"
        raise UsageError(where, fact, "run mcpproxy ui in another terminal")


def start(trace: str) -> "subprocess.Popen[bytes] | None":
    """Start the page on the recording ``trace``. Its address is written to stderr.

    The page ends when the ``stdin`` of the returned process is closed. Return ``None`` if no process can be
    started: the recording continues without it.
    """
    command = own_command("mcpproxy", "ui", f"--beside={'json' if is_json() else 'text'}", trace)
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=_STDERR, start_new_session=True)
    except OSError as fault:
        write_own_line(f"mcpproxy: there is no page: {fault}\n".encode())
        return None
