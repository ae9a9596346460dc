"""Open the files of a trace, read their headers, and refuse lines that cannot be read."""

import errno
import os
import sys
from typing import BinaryIO, Final, NoReturn

from mcpproxy.base.files import open_regular
from mcpproxy.errors import TraceError
from mcpproxy.record.trace import chain, upgrades
from mcpproxy.record.trace.decode import decode, header_format
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import Header

_HEADER_LIMIT: Final = 16 << 20
"""The longest header that is read, in bytes."""

SECOND_HEADER: Final = "a second header: two traces in one file"
ENDLESS: Final = "the next file that it names is itself, an earlier one, or has no valid name"
NOT_OURS: Final = ("not an mcpproxy trace", "name a file that mcpproxy recorded; mcpproxy list shows them")


def path_in(folder: str, path: str) -> str:
    """Return where ``path`` is read: ``folder`` has a copy of it, or is empty if there is no copy."""
    return os.path.join(folder, os.path.basename(path)) if folder else path


def open_file(path: str) -> BinaryIO:
    """Open the file of a trace; the caller closes it.

    Raises:
        TraceError: the file cannot be opened, or is not a regular file.
    """
    try:
        if os.path.isdir(path):
            raise TraceError(path, None, "is a directory", "name a trace file in it")
        return open(open_regular(path, follows=True), "rb")
    except FileNotFoundError:
        is_path = os.sep in path or path.endswith(".jsonl")
        fact = "no such file" if is_path else "no recording, label or file has this name"
        raise TraceError(path, None, fact, "mcpproxy list shows recordings and their labels") from None
    except PermissionError as fault:
        next_step = "run as the user who recorded it"
        if sys.platform == "win32":  # there the reason may be that another program holds the file open
            next_step = f"close that program, or {next_step}"
        raise TraceError(path, None, (fault.strerror or "permission denied").lower(), next_step) from None
    except ValueError:  # its text differs between versions of Python
        raise TraceError(path, None, "no file can have this name", "check the path") from None
    except OSError as fault:
        is_special = fault.errno == errno.EINVAL
        next_step = "copy what it gives into a file first" if is_special else "check the path"
        raise TraceError(path, None, fault.strerror or str(fault), next_step) from None


def read_header(
    path: str, file: BinaryIO, is_recording: bool
) -> tuple[Header, tuple[upgrades.UpgradeStep, ...]]:
    """Read the header of a file of a trace; return it with the upgrades that every line of the file needs.

    ``is_recording`` says that a recorder is at work, so that the header may be yet to come.

    Raises:
        TraceError: the file has no header, or one that this mcpproxy cannot read.
    """
    line = file.readline(_HEADER_LIMIT)
    if not line.endswith(b"\n"):
        if is_recording and len(line) < _HEADER_LIMIT:
            raise TraceError(path, None, "nothing is recorded yet", "try again in a moment")
        if not line:
            raise TraceError(path, None, "the file is empty", "nothing was recorded: record again")
        if line.startswith(b'{"type":"header"'):
            raise TraceError(path, 1, "cut off in the header", "nothing can be read from it: record again")
    try:
        version = header_format(line)
        upgrade_steps = upgrades.upgrade_steps(
            version, to=upgrades.FORMAT, known_steps=upgrades.UPGRADE_STEPS
        )
        header = decode(upgrades.upgrade_line(line, upgrade_steps))
    except NotARecordError:
        raise TraceError(path, 1, *NOT_OURS) from None
    except LookupError as fault:
        raise TraceError(path, 1, str(fault.args[0]), "please update") from None
    assert isinstance(header, Header)
    previous = header.continues
    if previous and (not chain.is_name(previous) or previous == os.path.basename(path)):
        fact = "the previous file that it names is itself, or has no valid name"
        raise TraceError(path, 1, fact, "record again")
    return header, upgrade_steps


def refuse(path: str, number: int, fact: str) -> NoReturn:
    """Report that line ``number`` of a trace cannot be read.

    Raises:
        TraceError: always.
    """
    raise TraceError(path, number, fact, whole_before(number))


def whole_before(number: int) -> str:
    """Return a sentence that says that the records before line ``number`` can be read."""
    before = number - 1
    return "the record before it is whole" if before == 1 else f"the {before} records before it are whole"
