"""How a process ended, in words."""

import signal


def end_text(code: int | None) -> str:
    """Return how a process ended, as a clause without its subject: ``ended with exit code 2``.

    ``code`` is negative for a signal, and ``None`` if the process has closed its stdout and has not ended.
    """
    if code is None:
        return "closed its stdout and runs on"
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal_name(-code)}"


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``; ``signal 99`` for a number that has none here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
