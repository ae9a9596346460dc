"""How a recording ended, in words."""

from typing import Protocol

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import SERVER, Close


class Begun(Protocol):
    """What the header of a recording says of its server."""

    @property
    def transport(self) -> str: ...
    @property
    def command(self) -> tuple[str, ...]: ...


def is_failure(close: Close, first_end: str) -> bool:
    """Whether the server could not be started, or exited with an error of its own accord.

    ``first_end`` is what began the end: ``client`` or ``server``, whose stream ended first, or a signal;
    empty if nothing says it. Many servers exit with an error when a client leaves that sent nothing.
    """
    has_error = close.ending == "exited" and close.exit_code != 0
    return close.ending == "not started" or (has_error and first_end in ("", SERVER))


def not_begun(close: Close, header: Begun, frames: int, first_end: str) -> str:
    """Return how a server failed before any of ``frames``; empty if it did not (see ``is_failure``)."""
    return ending_text(close, header) if is_failure(close, first_end) and not frames else ""


def ending_text(close: Close, header: Begun) -> str:
    """Return in words how a recording ended. Over HTTP it ends with mcpproxy, not with the server."""
    match close.ending:
        case "exited" if header.transport == "http" and close.exit_code == 0:
            return "mcpproxy was stopped"
        case "exited":
            why = f": {visible(close.reason)}" if close.reason else ""
            return f"the server exited with {close.exit_code}{why}"
        case "signalled":
            return f"signal {close.signal} ended the server"
        case "not started":
            tried = (visible(header.command[0]) or repr("")) if header.command else "its command"
            why = f": {tried}: {visible(close.reason)}" if close.reason else ""
            return f"the server could not be started{why}"
        case "cut":
            return "the recording was cut here; how the session ended is unknown"
