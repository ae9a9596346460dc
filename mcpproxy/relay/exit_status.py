"""How a session ends: waiting times, exit codes and the last record, the same for both relays."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

GRACE_S: Final = 5.0
"""How long a server that has to exit may take, before SIGTERM and again before SIGKILL."""

LINGER_S: Final = 0.25
"""How long the children of a server that has exited may keep its pipes open."""

RECORDER_S: Final = 1.0
"""How long the end of the session waits for the recorder to complete the trace."""


def shell_code(code: int) -> int:
    """The exit code a shell gives for ``code``, which is negative for a signal."""
    return code if code >= 0 else 128 - code


def exit_payload(code: int | None) -> bytes:
    """The payload of an EXIT record, from an exit code that is negative for a signal and ``None`` for
    a server that was never started."""
    if code is None:
        return b'{"ending":"not started","code":null,"signal":null}'
    if code < 0:
        return b'{"ending":"signalled","code":null,"signal":%d}' % -code
    return b'{"ending":"exited","code":%d,"signal":null}' % code


def start_failure(program: str, error: OSError) -> tuple[str, int]:
    """Why ``program`` could not be started, as a line for the user, and the exit code a shell gives."""
    if not program or isinstance(error, FileNotFoundError | NotADirectoryError):
        name = program or "''"
        return f"{name}: no such command; check its spelling and PATH", 127
    return f"{program}: cannot be run ({error.strerror}); check that it is an executable file", 126
