"""Write reports and exports to files. If a report cannot be written, its former file stays unchanged."""

import os
import stat
from collections.abc import Iterable
from typing import Final

from mcpproxy.base import files
from mcpproxy.base.system_words import os_reason
from mcpproxy.base.visible import visible_lines
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.terminal import tell

_NEXT_STEP: Final = "name a file in a folder that you may write to"


def check_writable(path: str) -> None:
    """Check, before the work begins, that ``path`` is a place for a report. Permissions are not checked.

    Raises:
        UsageError: the folder of ``path`` does not exist, or ``path`` is a folder, or a link outside
            /dev and /proc.
    """
    _refuse_link(path)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(path, "its folder does not exist", "create it first")
    if os.path.isdir(path):
        raise UsageError(path, "is a folder", _NEXT_STEP)


def check_new(path: str) -> None:
    """Check, before the work begins, that ``path`` is a place for a new file. Permissions are not checked.

    Raises:
        UsageError: there is something at ``path``, or its folder does not exist.
    """
    if os.path.lexists(path):
        raise _existing_error(path)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise UsageError(path, "its folder does not exist", "create it first")


def write(path: str, lines: Iterable[str]) -> None:
    """Replace the content of ``path`` by ``lines`` atomically; a device is written to directly.

    Raises:
        UsageError: the file cannot be written, or is a link outside /dev and /proc.
    """
    _refuse_link(path)
    try:
        if _is_special(path):
            _write_lines(path, "w", lines)
        else:
            files.replace(path, (_encoded_line(line) for line in lines))
    except (OSError, ValueError) as fault:
        raise _write_error(path, fault) from None


def append(path: str, lines: Iterable[str]) -> None:
    """Append ``lines`` to the file ``path``.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        _write_lines(path, "a", lines)
    except (OSError, ValueError) as fault:
        raise _write_error(path, fault) from None


def write_with_summary(path: str, report: Iterable[str], summary: Iterable[str]) -> None:
    """Write ``report`` to ``path``, and its ``summary`` to stderr for the user.

    Raises:
        UsageError: the file cannot be written.
    """
    write(path, report)
    for line in summary:
        tell(line)
    tell(f"report: {path}")


def workspace() -> str:
    """Return the folder for relative paths in annotations: GitHub's checkout, or the current folder."""
    return os.environ.get("GITHUB_WORKSPACE") or os.getcwd()


def add_to_step_summary(lines: Iterable[str]) -> None:
    """Append ``lines`` to the summary page of a GitHub Actions step, if there is one.

    If it cannot be written, that is only a message on stderr, because the annotations are in the log anyway.
    """
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            append(path, lines)
        except UsageError as fault:
            tell(str(fault))


def _write_lines(path: str, mode: str, lines: Iterable[str]) -> None:
    with open(path, f"{mode}b") as file:
        file.writelines(_encoded_line(line) for line in lines)


def _encoded_line(line: str) -> bytes:
    # A surrogate from a file name is written as a JSON escape.
    return f"{visible_lines(line)}\n".encode("utf-8", "backslashreplace")


def _refuse_link(path: str) -> None:
    """Refuse a link, except in /dev and /proc: a stranger's checkout may have a link to any file of the user.

    Raises:
        UsageError: ``path`` is such a link.
    """
    if os.path.islink(path) and not _is_system_path(path):
        raise UsageError(path, "is a symbolic link, which is not followed", "name the file that it points to")


def _is_system_path(path: str) -> bool:
    """Whether ``path`` is in /dev or /proc, as /dev/stdout is."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    return f"{folder}/".startswith(("/dev/", "/proc/"))


def _is_special(path: str) -> bool:
    """Whether ``path`` cannot be replaced: it is not a regular file, or is a link such as /dev/stdout."""
    try:
        return os.path.islink(path) or not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _write_error(path: str, fault: OSError | ValueError) -> UsageError:
    """Return the error to raise because ``path`` cannot be written."""
    reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
    return UsageError(path, reason.lower(), _NEXT_STEP)


def write_new(path: str, pieces: Iterable[bytes]) -> None:
    """Write a new file that only its owner can read. If writing fails, remove the file.

    Raises:
        UsageError: there is a file at ``path``, or none can be written there.
    """
    try:
        with open(files.create(path), "wb") as file:
            try:
                file.writelines(pieces)
            except BaseException:
                os.unlink(path)
                raise
    except FileExistsError:
        raise _existing_error(path) from None
    except OSError as fault:
        raise UsageError(path, os_reason(fault), "write to another place") from None


def _existing_error(path: str) -> UsageError:
    return UsageError(path, "exists already", "name another file with -o")
