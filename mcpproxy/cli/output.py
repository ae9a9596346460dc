"""Reports in files: a report is there as a whole, or what was there before is."""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from mcpproxy.cli.terminal import tell
from mcpproxy.cli.usage import UsageError
from mcpproxy.visible import visible_lines

_NEXT_STEP: Final = "name a file in a folder that you may write to"


def check(path: str) -> None:
    """Find out early that nothing can be written to ``path``.

    Raises:
        UsageError: its folder is not there, or it is a folder itself.
    """
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(path, "its folder does not exist", "make it first")
    if os.path.isdir(path):
        raise UsageError(path, "is a folder", _NEXT_STEP)


def write(path: str, lines: Iterable[str]) -> None:
    """Put ``lines`` in the place of what ``path`` holds, at once; a link stays one, a device is written to.

    Raises:
        UsageError: it cannot be written.
    """
    place = os.path.realpath(path)
    partial = f"{place}.{os.getpid()}.partial"
    try:
        if _is_special(place):
            _fill(place, "w", lines)
            return
        try:
            _fill(partial, "x", lines)
            os.replace(partial, place)
        finally:
            with suppress(OSError):
                os.unlink(partial)
    except (OSError, ValueError) as fault:
        raise _refused(path, fault) from None


def append(path: str, lines: Iterable[str]) -> None:
    """Put ``lines`` behind what ``path`` holds.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        _fill(path, "a", lines)
    except (OSError, ValueError) as fault:
        raise _refused(path, fault) from None


def deliver(path: str, report: Iterable[str], summary: Iterable[str]) -> None:
    """Write ``report`` to ``path``, and its ``summary`` on stderr, for whoever watches.

    Raises:
        UsageError: it cannot be written.
    """
    write(path, report)
    for line in summary:
        tell(line)
    tell(f"report: {path}")


def workspace() -> str:
    """The folder that build servers name files from: the checkout, or else the current folder."""
    return os.environ.get("GITHUB_WORKSPACE") or os.getcwd()


def add_to_step_summary(lines: Iterable[str]) -> None:
    """Put ``lines`` on the summary page of a GitHub Actions step, where there is one.

    If it cannot be written, that is told: the log has the annotations.
    """
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            append(path, lines)
        except UsageError as fault:
            tell(str(fault))


def _fill(path: str, mode: str, lines: Iterable[str]) -> None:
    with open(path, mode, encoding="utf-8", newline="\n") as file:
        file.writelines(f"{visible_lines(line)}\n" for line in lines)


def _is_special(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _refused(path: str, fault: OSError | ValueError) -> UsageError:
    reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
    return UsageError(path, reason.lower(), _NEXT_STEP)
