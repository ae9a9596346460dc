"""Describe in words how a recording ended."""

from typing import Protocol

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import SERVER, Close


class ServerHeader(Protocol):
    """The facts about the server in the header of a recording."""

    @property
    def transport(self) -> str: ...
    @property
    def command(self) -> tuple[str, ...]: ...


def is_failure(close: Close, first_end: str) -> bool:
    """Whether the server could not be started, or exited with an error of its own accord.

    ``first_end`` is the peer whose stream ended first (``client`` or ``server``), or the signal that came
    first; empty if it is unknown, which counts as the server. Many servers exit with an error if a client
    leaves without sending anything.
    """
    has_error = close.ending == "exited" and close.exit_code != 0
    return close.ending == "not started" or (has_error and first_end in ("", SERVER))


def not_begun(close: Close, header: ServerHeader, frames: int, first_end: str) -> str:
    """Describe how a server failed (see ``is_failure``) before the first frame; empty if it did not.

    ``frames`` is the number of frames in the recording.
    """
    return ending_text(close, header) if is_failure(close, first_end) and not frames else ""


def ending_text(close: Close, header: ServerHeader) -> str:
    """Describe how a recording ended, as a clause. Over HTTP it ends with mcpproxy, not with the server."""
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
