"""The records of the settings that were written, in a file of our state folder.

A record is written before the file of the host and dropped after the file was given back. It counts only if
the file has the address that it names, so a process that is killed in between does no harm.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from mcpproxy.base import files
from mcpproxy.base.system_words import os_reason
from mcpproxy.hosts.errors import HostFileError
from mcpproxy.hosts.ledger import LARGEST_BYTES, folder
from mcpproxy.hosts.text_nodes import Path

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SettingRecord:
    """One setting, at the path ``at`` in ``file``, that names ``url``: ``new`` has replaced ``old``."""

    host: str
    file: str
    at: Path
    old: str
    new: str
    lead: int
    """How many characters of ``new`` are before the value; none if it replaced a value."""
    url: str
    upstream: str
    """The address that the host used before."""
    listen: str
    sha256_before: str
    """The hash of the file as it was."""


SettingRecords = Mapping[tuple[str, str], SettingRecord]
"""Host and file -> record."""


def setting_records() -> SettingRecords:
    """Return the records.

    Raises:
        HostFileError: they cannot be read. To go on without them would forget what was there before.
    """
    path = _path()
    try:
        stored: Any = json.loads(files.read(path, LARGEST_BYTES))
        if stored["version"] > _VERSION:
            raise HostFileError(path, "written by a newer mcpproxy", "please update")
        found = [_record(row) for row in stored["settings"]]
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise _failure("read", fault) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HostFileError(path, "damaged", "move it away; the addresses in the files then stay") from None
    return {(record.host, record.file): record for record in found}


def save_settings(records: SettingRecords) -> None:
    """Write ``records`` in place of those before. The caller has locked the ledger.

    Raises:
        HostFileError: they cannot be written.
    """
    rows = [{**asdict(record), "at": list(record.at)} for record in records.values()]
    text = json.dumps({"version": _VERSION, "settings": rows}, indent=1) + "\n"
    try:
        files.replace(_path(), [text.encode()], 0o600)
    except OSError as fault:
        raise _failure("written", fault) from None


def _record(row: dict[str, Any]) -> SettingRecord:
    members: dict[str, Any] = {**row, "at": tuple(row["at"])}
    return SettingRecord(**members)


def _path() -> str:
    return os.path.join(folder(), "models.json")


def _failure(what: str, fault: OSError) -> HostFileError:
    return HostFileError(_path(), f"cannot be {what} ({os_reason(fault)})", "see its permissions")
