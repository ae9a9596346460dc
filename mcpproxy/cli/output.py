"""Reports in files: a report is there as a whole, or what was there before is."""

import os
import stat
from collections.abc import Iterable
from typing import Final

from mcpproxy.base import files
from mcpproxy.base.visible import visible_lines
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.terminal import tell

_NEXT_STEP: Final = "name a file in a folder that you may write to"


def check(path: str) -> None:
    """Find out early that nothing can be written to ``path``.

    Raises:
        UsageError: its folder is not there, it is a folder itself, or a link.
    """
    _refuse_link(path)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(path, "its folder does not exist", "make it first")
    if os.path.isdir(path):
        raise UsageError(path, "is a folder", _NEXT_STEP)


def write(path: str, lines: Iterable[str]) -> None:
    """Put ``lines`` in the place of what ``path`` holds, at once; a device is written to.

    Raises:
        UsageError: it cannot be written, or is a link.
    """
    _refuse_link(path)
    try:
        if _is_special(path):
            _fill(path, "w", lines)
        else:
            files.replace(path, (_encoded(line) for line in lines))
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
    with open(path, f"{mode}b") as file:
        file.writelines(_encoded(line) for line in lines)


def _encoded(line: str) -> bytes:
    # A surrogate that came with the name of a file is written as JSON spells it.
    return f"{visible_lines(line)}\n".encode("utf-8", "backslashreplace")


def _refuse_link(path: str) -> None:
    """A checkout from elsewhere may hold links to any file of the user; in /dev they are the system's own."""
    if os.path.islink(path) and not _is_of_system(path):
        raise UsageError(path, "is a symbolic link, which is not written through", "name what it points to")


def _is_of_system(path: str) -> bool:
    """Whether it lies in /dev, as /dev/stdout does."""
    return os.path.realpath(os.path.dirname(os.path.abspath(path))).startswith(("/dev", "/proc/"))


def _is_special(path: str) -> bool:
    """Whether it is written to as it is: no regular file, or one that /dev/stdout is at the moment."""
    try:
        return os.path.islink(path) or not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _refused(path: str, fault: OSError | ValueError) -> UsageError:
    reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
    return UsageError(path, reason.lower(), _NEXT_STEP)
