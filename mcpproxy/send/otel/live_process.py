"""Sends the spans of a session while it is recorded (``--otlp``).

The recorder starts ``otel.live`` as a separate process, which reads the recording as it grows. So neither
the traffic nor the recording waits for a collector.
"""

import shlex
import sys
from typing import Final

from mcpproxy.base.companion import Companion
from mcpproxy.base.visible import visible
from mcpproxy.errors import UsageError
from mcpproxy.record.relay.stderr_line import write_own_line
from mcpproxy.send.otel import collector_url

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
    collector_url.check_installed(where)
    collector_url.check(where, url)


def start(trace: str, url: str, *, content: bool, quiet: bool) -> "LiveSpans | None":
    """Start to send the spans of the recording at ``trace``; with ``quiet``, nothing is written to stderr.

    With ``content``, spans have the arguments of tools and prompts, and the results of tools.

    Return ``None`` if no process can be started: the recording continues without it.
    """
    try:
        return LiveSpans(trace, url, content=content, quiet=quiet)
    except (OSError, RuntimeError) as fault:  # RuntimeError: no more threads for this user
        write_own_line(f"mcpproxy: no spans are sent: {fault}\n".encode(), quiet=quiet)
        return None


def resend_command(trace: str, url: str) -> str:
    """Return the command that sends the spans of a recording again."""
    return f"mcpproxy export otlp {shlex.quote(trace)} {url or 'URL'}"


class LiveSpans:
    """The process that sends spans. Its lines of two numbers say how many were sent and how many wait."""

    def __init__(self, trace: str, url: str, *, content: bool, quiet: bool) -> None:
        self._resend_command: Final = resend_command(trace, url)
        self._is_quiet: Final = quiet
        self._sent = self._waiting = 0
        options = ["--content"] if content else []
        self._companion: Final = Companion(self._handle_line, "mcpproxy.send.otel.live", trace, url, *options)
        self.process: Final = self._companion.process

    def finish(self) -> None:
        """Tell the process that the recording is finished, and tell the user how many spans wait.

        Do not wait for its end: the relay waits for the recorder, and the host for the relay.
        """
        self._companion.finish()
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
        write_own_line(f"mcpproxy: {visible(text)}\n".encode(), quiet=self._is_quiet)

    def _handle_line(self, line: bytes) -> None:
        if line.startswith(b"mcpproxy: "):
            write_own_line(line, quiet=self._is_quiet)
        else:
            self._sent, self._waiting = map(int, line.split())
