"""Send the spans of a session while it is recorded (``--otlp``).

The recorder starts ``mcpproxy.otel.live`` as a separate process, which reads the recording as it grows. So
neither the traffic nor the recording waits for a collector.
"""

import os
import shlex
import subprocess
import sys
import threading
from typing import Final

from mcpproxy.base.own_process import own_command
from mcpproxy.base.visible import visible
from mcpproxy.errors import UsageError
from mcpproxy.otel import installed

_STDERR: Final = 2

GIVE_UP_S: Final = 5.0
"""How long the process tries to send the last spans after the end of the session."""


def check(where: str, url: str) -> None:
    """Refuse ``--otlp`` where it cannot work. An empty ``url`` means the collector that OTEL_* names.

    Raises:
        UsageError: packages are missing, ``url`` cannot be used, or the system has no fork (Windows).
    """
    if sys.platform == "win32":
        step = "send the spans afterwards: mcpproxy export otlp TRACE URL"
        raise UsageError(where, "--otlp needs fork, which Windows does not have", step)
    installed.check(where)
    installed.check_url(where, url)


def start(trace: str, url: str, *, content: bool, quiet: bool) -> "LiveSpans | None":
    """Start to send the spans of the recording at ``trace``; with ``quiet``, nothing is written to stderr.

    Return ``None`` if no process can be started: the recording goes on without it.
    """
    try:
        return LiveSpans(trace, url, content=content, quiet=quiet)
    except (OSError, RuntimeError) as fault:  # RuntimeError: no more threads for this user
        _write_stderr(f"mcpproxy: no spans are sent: {fault}\n".encode(), quiet=quiet)
        return None


def _write_stderr(line: bytes, *, quiet: bool) -> None:
    if not quiet:
        try:
            os.write(_STDERR, line)
        except OSError:
            pass  # nobody reads it, or not fast enough


def resend_command(trace: str, url: str) -> str:
    """Return the command that sends the spans of a recording again."""
    return f"mcpproxy export otlp {shlex.quote(trace)} {url or 'URL'}"


class LiveSpans:
    """The process that sends spans, and the thread that forwards its lines to stderr.

    The process does not hold stderr open, because it may outlive the session. Its lines of two numbers say
    how many spans were sent and how many wait.
    """

    def __init__(self, trace: str, url: str, *, content: bool, quiet: bool) -> None:
        command = own_command("mcpproxy.otel.live", trace, url, *(["--content"] * content))
        self.process: Final = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._resend_command: Final = resend_command(trace, url)
        self._is_quiet: Final = quiet
        self._sent = self._waiting = 0
        threading.Thread(target=self._read_lines, daemon=True).start()

    def finish(self) -> None:
        """Tell the process that the recording is finished, and tell the user how many spans wait.

        Do not wait for its end: the relay waits for the recorder, and the host for the relay.
        """
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.poll()
        if code == 0:
            return  # it has said why
        again = f"; to send them again: {self._resend_command}"
        if code is not None:
            text = f"no more spans are sent, their process has failed ({code}){again}"
        elif self._waiting:
            text = f"{self._sent} spans sent, {self._waiting} or more wait"
            text += f"; they are tried for {GIVE_UP_S:g} s{again}"
        elif self._sent:
            text = f"{self._sent} spans sent, the last follow"
        else:
            text = f"no spans are sent yet; they are tried for {GIVE_UP_S:g} s{again}"
        self._tell_user(text)

    def _tell_user(self, text: str) -> None:
        _write_stderr(f"mcpproxy: {visible(text)}\n".encode(), quiet=self._is_quiet)

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.startswith(b"mcpproxy: "):
                    _write_stderr(line, quiet=self._is_quiet)
                else:
                    self._sent, self._waiting = map(int, line.split())
