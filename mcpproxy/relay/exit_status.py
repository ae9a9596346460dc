"""The end of a session: waiting times, exit codes and the last record. Both stdio relays use this module."""

from __future__ import annotations

import os

from mcpproxy.base.json_string import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

GRACE_S: Final = 5.0
"""How long a server that has to exit may take, before SIGTERM and again before SIGKILL."""

LINGER_S: Final = 0.25
"""How long the children of a server that has exited may keep its pipes open."""

RECORDER_S: Final = 1.0
"""How long the end of a session waits for the recorder, if somebody reads its summary."""

UNREAD_S: Final = 0.05
"""The same if nobody reads it, because the host waits for our exit: a late recorder goes on alone."""


LATE_RECORDER: Final = "the recorder is not done; it goes on alone, and mcpproxy show waits for it"
"""What stderr says in place of the summary when that time is over."""


def no_recorder(fault: OSError) -> str:
    """Return what stderr says when the recorder cannot be started: the journal is all that there is."""
    return f"no recorder ({fault.strerror}); the next mcpproxy command completes the trace"


def recorder_s(*, is_awaited: bool) -> float:
    """Return how long the end of a session waits for the recorder, in seconds.

    ``is_awaited`` says that the user has asked for the recorder's lines on stderr. On a terminal somebody
    reads them anyway.
    """
    return RECORDER_S if is_awaited or os.isatty(2) else UNREAD_S


def shell_code(code: int) -> int:
    """Return the exit code that a shell gives for ``code``, which is negative for a signal."""
    return code if code >= 0 else 128 - code


def exit_payload(code: int | None, reason: str = "") -> bytes:
    """Return the payload of the journal's EXIT record.

    ``code`` is negative for a signal, and ``None`` if the server was never started, for this ``reason``.
    """
    if code is None:
        members = f'"ending":"not started","code":null,"signal":null,"reason":{quoted(reason)}'
        return b"{%b}" % members.encode("utf-8", "replace")
    if code < 0:
        return b'{"ending":"signalled","code":null,"signal":%d}' % -code
    return b'{"ending":"exited","code":%d,"signal":null}' % code
