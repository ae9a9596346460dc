"""The records of the model settings that mcpproxy has written, in a file of our state folder.

A record is written before the file of the host, and dropped after the setting was undone. It counts only if
the file has the address in the record, so a process that is killed in between does no harm.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from mcpproxy.hosts.state_files import read_state, save_state
from mcpproxy.hosts.text_nodes import Path

_NAME: Final = "models.json"


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
    records = read_state(
        _NAME,
        lambda stored: [_record(row) for row in stored["settings"]],
        damaged="move it away; the addresses in the files then stay",
    )
    return {(record.host, record.file): record for record in records or ()}


def save_settings(records: SettingRecords) -> None:
    """Replace all records by ``records``. The caller has locked the ledger (``ledger.locked_ledger``).

    Raises:
        HostFileError: they cannot be written.
    """
    rows = [{**asdict(record), "at": list(record.at)} for record in records.values()]
    save_state(_NAME, {"settings": rows})


def _record(row: dict[str, Any]) -> SettingRecord:
    members: dict[str, Any] = {**row, "at": tuple(row["at"])}
    return SettingRecord(**members)
