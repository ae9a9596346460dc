"""The end of a session: how long it waits for the server and the recorder (the process that makes the trace),
its exit code, and the EXIT record, the last of the journal (the relay's copy of the traffic).

Both stdio relays use this module; the HTTP proxy, the bridge and the scripted model use parts of it.
"""

from __future__ import annotations

import os
import time

from mcpproxy.base.json_string import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final

GRACE_S: Final = 5.0
"""How long a server that has to exit may take before it gets SIGTERM, and again before it gets SIGKILL."""

LINGER_S: Final = 0.25
"""How long the children of a server that has exited may keep its pipes open."""

RECORDER_S: Final = 1.0
"""How long a relay whose server has exited waits for the recorder if somebody reads the summary, or if the
server exited with an error by itself."""

UNREAD_S: Final = 0.05
"""How long the relay waits if nobody reads the summary. That is short, because the host (the program that
started mcpproxy) waits for it to exit, and a late recorder completes the recording alone."""

SUMMARY_S: Final = 0.25
"""How much longer the relay waits for the last lines of a recorder that has completed the recording."""

LATE_RECORDER: Final = "the recorder is not done; it goes on alone, and mcpproxy show waits for it"
"""The line on stderr in place of the summary, if the recorder is not done when the wait is over."""


class RecorderWait:
    """The wait for the recorder's last lines at the end of a session.

    The recorder removes the journal when the recording is complete, and then writes its last lines. So if the
    journals are gone, the wait is extended a little.
    """

    def __init__(self, seconds: float, journals: Iterable[str]) -> None:
        """Begin to wait for ``seconds``. ``journals`` are the folders of the journals of the recording."""
        self._deadline = time.monotonic() + seconds
        self._journals = tuple(journals)
        self._is_extended = False

    def left_s(self) -> float:
        """Return how many seconds of the wait are left; 0 or less when it is over."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0 and not self._is_extended and self._is_complete():
            self._is_extended = True
            self._deadline = time.monotonic() + SUMMARY_S
            return SUMMARY_S
        return left_s

    def say_if_late(self, say: Callable[[str], None]) -> None:
        """Call ``say`` with ``LATE_RECORDER``, unless the recording is complete."""
        if not self._is_complete():
            say(LATE_RECORDER)

    def _is_complete(self) -> bool:
        return bool(self._journals) and not any(map(os.path.lexists, self._journals))


def no_recorder(fault: OSError) -> str:
    """Return the line for stderr if the recorder cannot be started: only the journal is written then."""
    return f"no recorder ({fault.strerror}); the next mcpproxy command completes the trace"


def recorder_s(*, is_awaited: bool) -> float:
    """Return ``RECORDER_S`` if somebody reads the recorder's last lines on stderr, otherwise ``UNREAD_S``.

    ``is_awaited`` says that the user has asked for these lines, or that they say how the server failed. On a
    terminal somebody reads them anyway.
    """
    return RECORDER_S if is_awaited or os.isatty(2) else UNREAD_S


def shell_code(code: int) -> int:
    """Return the exit code that a shell gives for ``code``, which is negative for a signal."""
    return code if code >= 0 else 128 - code


def exit_payload(code: int | None, reason: str = "") -> bytes:
    """Return the payload of the journal's EXIT record, a JSON object.

    ``code`` is negative for a signal, and ``None`` if the server was never started, for this ``reason``.
    """
    if code is None:
        members = f'"ending":"not started","code":null,"signal":null,"reason":{quoted(reason)}'
        return b"{%b}" % members.encode("utf-8", "replace")
    if code < 0:
        return b'{"ending":"signalled","code":null,"signal":%d}' % -code
    return b'{"ending":"exited","code":%d,"signal":null}' % code
