"""The same words everywhere for two facts from the system: why it refused something, how a process ended."""

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def os_reason(fault: OSError) -> str:
    """Return why the system refused something, in lower case: ``permission denied``."""
    return (fault.strerror or str(fault)).lower()


def start_failure(program: str, error: OSError | ValueError) -> str:
    """Return a line for the user that says why ``program`` did not start."""
    return f"{program or repr('')}: {start_failure_reason(program, error)[0]}"


def start_failure_reason(program: str, error: OSError | ValueError) -> tuple[str, int]:
    """Return why ``program`` did not start and what to do, and the exit code that a shell would give."""
    # If the file is there and yet not found, the interpreter of a script is missing.
    is_there = os.path.dirname(program) and os.path.isfile(program)
    if not program or (isinstance(error, FileNotFoundError | NotADirectoryError) and not is_there):
        similar = _similar_command(program)
        step = f"did you mean {similar}?" if similar else "check its spelling and PATH"
        return f"no such command; {step}", 127
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"cannot be run ({reason}); check that it is an executable file", 126


def end_text(code: int | None) -> str:
    """Return how a process ended, as a clause without its subject: ``ended with exit code 2``.

    ``code`` is negative for a signal, and ``None`` if the process closed its stdout but still runs.
    """
    if code is None:
        return "closed its stdout and runs on"
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal_name(-code)}"


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``; ``signal 99`` if the system has no name for it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _similar_command(program: str) -> str:
    """Return the command on PATH whose name is most like ``program``.

    It is empty if no name is similar, or ``program`` is a path.
    """
    from difflib import get_close_matches  # imported late, because few commands fail to start

    if os.path.dirname(program):
        return ""
    return next(iter(get_close_matches(program, set(_commands()), n=1, cutoff=0.8)), "")


def _commands() -> "Iterator[str]":
    """Yield the names of all that may be executed or entered in the folders on PATH."""
    for folder in os.get_exec_path():
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        yield from (name for name in names if os.access(os.path.join(folder, name), os.X_OK))
