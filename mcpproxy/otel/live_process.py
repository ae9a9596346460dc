"""Spans of a session while it is recorded (``--otlp``).

The recorder starts ``mcpproxy.otel.live`` as a process of its own, which reads the recording as it grows. So
neither the traffic nor the recording waits for a collector.
"""

import os
import subprocess
import sys
import threading
from typing import Final

from mcpproxy.errors import UsageError
from mcpproxy.otel import installed

_STDERR: Final = 2

LAST_S: Final = 0.25
"""How long the end of the session waits for the last lines about the spans."""


def check(where: str, url: str) -> None:
    """Refuse ``--otlp`` where it cannot work. ``url`` is that of the collector, empty for the usual one.

    Raises:
        UsageError: packages are missing, the URL is none, or there is no process to start the sending.
    """
    if sys.platform == "win32":
        step = "send the spans afterwards: mcpproxy export otlp TRACE URL"
        raise UsageError(where, "--otlp needs fork, which Windows does not have", step)
    installed.check(where)
    installed.check_url(where, url)


def start(trace: str, url: str, *, content: bool, quiet: bool) -> "LiveSpans | None":
    """Start to send the spans of the recording ``trace``; ``quiet`` if nothing may be said on stderr.

    Return ``None`` if no process can be started, which must not end the recording.
    """
    try:
        return LiveSpans(trace, url, content=content, quiet=quiet)
    except (OSError, RuntimeError) as fault:  # RuntimeError: no more threads for this user
        _write(f"mcpproxy: no spans are sent: {fault}\n".encode(), quiet=quiet)
        return None


def _write(line: bytes, *, quiet: bool) -> None:
    if not quiet:
        try:
            os.write(_STDERR, line)
        except OSError:
            pass  # nobody reads it, or not fast enough


class LiveSpans:
    """The process that sends spans, and the thread that passes its lines on to stderr."""

    def __init__(self, trace: str, url: str, *, content: bool, quiet: bool) -> None:
        # -P: a module in the folder of the session must not take the place of ours.
        command = [sys.executable, "-P", "-m", "mcpproxy.otel.live", trace, url, *(["--content"] * content)]
        self._process: Final = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._is_quiet: Final = quiet
        # The process has no descriptor of stderr: it may go on when the session is over.
        self._lines: Final = threading.Thread(target=self._pass_lines, daemon=True)
        self._lines.start()

    def finish(self) -> None:
        """Tell the process that the recording is finished. It ends by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._lines.join(LAST_S)

    def _pass_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            _write(line, quiet=self._is_quiet)
