"""How a recording ended, in words."""

from mcpproxy.session.frame import Close


def is_failure(close: Close) -> bool:
    """Whether the server could not be started, or exited with an error."""
    return close.ending == "not started" or (close.ending == "exited" and close.exit_code != 0)


def ending_text(close: Close, transport: str) -> str:
    """Return in words how a recording ended. Over HTTP it ends with mcpproxy, not with the server."""
    match close.ending:
        case "exited" if transport == "http" and close.exit_code == 0:
            return "mcpproxy was stopped"
        case "exited":
            return f"the server exited with {close.exit_code}"
        case "signalled":
            return f"signal {close.signal} ended the server"
        case "not started":
            return "the server could not be started"
        case "cut":
            return "the recording was cut here; how the session ended is unknown"
