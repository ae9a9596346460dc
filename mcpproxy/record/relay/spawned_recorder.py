"""A recorder (the process that makes the trace) that was started as a program of its own, because the system
has no fork (Windows).

The relay wakes it through its standard input, and reads its notes from its standard error. A pipe of
Windows cannot be written to without waiting, so a thread does that: if the recorder hangs, only this thread
waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Final

from mcpproxy.base.own_process import own_command
from mcpproxy.record.relay.journal import UNWRITTEN, WAKE

_FLAGS: Final = (
    # No window, and a process group of its own: neither a Ctrl-C nor a closed console ends the recording.
    (subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW) if sys.platform == "win32" else 0
)


def recorder_command(trace: str, live: str, quiet: bool, admin: str = "") -> list[str]:
    """Return the command that starts a recorder for ``trace``.

    ``live`` is how it reports findings (violations of rules) on its stderr: ``text``, ``json`` or ``off``.
    ``admin`` is the address of its admin port, empty for none. With ``quiet``, it writes nothing to its
    stderr.
    """
    command = own_command("mcpproxy.record.recorder", trace, "--live", live)
    return [*command, *(["--admin", admin] if admin else []), *(["--quiet"] if quiet else [])]


class SpawnedRecorder:
    """The recorder that ``command`` starts. ``notes`` is a descriptor with its lines for stderr.

    The recorder shares no memory with the relay, so the byte ``asleep`` stays 0, and the relay wakes the
    recorder whenever there are records.

    Raises:
        OSError: the recorder cannot be started.
    """

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=pipe,
            creationflags=_FLAGS,
            start_new_session=os.name == "posix",
        )
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._stdin: Final = self._process.stdin
        self.notes: Final = self._process.stderr.fileno()
        # Nothing here waits for the recorder. Without an exit code, Popen would ask Windows for one while the
        # interpreter ends, by a handle that may be closed by then, and write a traceback to stderr.
        self._process.returncode = 0
        self.asleep: Final = b"\0"
        self._has_news = threading.Event()
        self._last: bytes | None = None  # the last bytes for the recorder, once the relay is done
        threading.Thread(target=self._write_to_recorder, daemon=True).start()

    def wake(self) -> None:
        """Tell the recorder that the journal has more records."""
        self._has_news.set()

    def leave(self, unwritten: bytes) -> None:
        """Tell the recorder that the relay is done, and give it the records that could not be written."""
        self._last = UNWRITTEN + unwritten if unwritten else b""
        self._has_news.set()

    def _write_to_recorder(self) -> None:
        try:
            while True:
                self._has_news.wait()
                self._has_news.clear()
                last = self._last
                rest = memoryview(WAKE if last is None else last)
                while rest:
                    rest = rest[os.write(self._stdin.fileno(), rest) :]
                if last is not None:
                    break
        except OSError:
            pass  # the recorder is gone
        try:
            self._stdin.close()
        except OSError:
            pass
