"""The records of the model settings that mcpproxy has written, in a file of our state folder.

A record is written before the file of the host, and dropped after the setting was undone. It counts only if
the file has the address in the record, so a process that is killed in between does no harm.
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
"""The version of the file's format."""


@dataclass(frozen=True, slots=True)
class SettingRecord:
    """One setting, at the path ``at`` in ``file``. Its value is ``url``. Text ``new`` replaced ``old``."""

    host: str
    file: str
    at: Path
    old: str
    new: str
    lead: int
    """The number of characters of ``new`` before the value; 0 if ``new`` replaced a value."""
    url: str
    upstream: str
    """The address that the host used before."""
    listen: str
    """The host and port of ``mcpproxy model``, to which ``url`` leads."""
    sha256_before: str
    """The hash of the file before the change."""


SettingRecords = Mapping[tuple[str, str], SettingRecord]
"""Host and file -> record."""


def setting_records() -> SettingRecords:
    """Return the records.

    Raises:
        HostFileError: they cannot be read, are damaged, or were written by a newer mcpproxy. Without
            them, the former settings would be lost.
    """
    path = _records_path()
    try:
        stored: Any = json.loads(files.read(path, LARGEST_BYTES))
        if stored["version"] > _VERSION:
            raise HostFileError(path, "written by a newer mcpproxy", "please update")
        records = [_record(row) for row in stored["settings"]]
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise _failure("read", fault) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HostFileError(path, "damaged", "move it away; the addresses in the files then stay") from None
    return {(record.host, record.file): record for record in records}


def save_settings(records: SettingRecords) -> None:
    """Replace all records by ``records``. The caller has locked the ledger (``ledger.locked_ledger``).

    Raises:
        HostFileError: they cannot be written.
    """
    rows = [{**asdict(record), "at": list(record.at)} for record in records.values()]
    text = json.dumps({"version": _VERSION, "settings": rows}, indent=1) + "\n"
    try:
        files.replace(_records_path(), [text.encode()], 0o600)
    except OSError as fault:
        raise _failure("written", fault) from None


def _record(row: dict[str, Any]) -> SettingRecord:
    members: dict[str, Any] = {**row, "at": tuple(row["at"])}
    return SettingRecord(**members)


def _records_path() -> str:
    return os.path.join(folder(), "models.json")


def _failure(what: str, fault: OSError) -> HostFileError:
    return HostFileError(_records_path(), f"cannot be {what} ({os_reason(fault)})", "see its permissions")
