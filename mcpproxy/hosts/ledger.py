"""The ledger: a file in our state folder that records each wrap and the text that it replaced.

A wrap is a change of a server's entry in a host's file, after which the host starts or reaches the server
through mcpproxy. The ledger is written before the host's file and again after it. The ``state`` of a record
says whether its wrap is being written, is written, or is being undone. So if a process is killed, the next
command checks the files of unfinished records.
"""

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, cast

from mcpproxy.base import paths
from mcpproxy.base.system_words import os_reason
from mcpproxy.hosts.errors import HostFileError
from mcpproxy.hosts.state_files import folder, read_state, save_state
from mcpproxy.hosts.text_nodes import Path
from mcpproxy.hosts.wrapping import At, EntryChange
from mcpproxy.record.recorder.lock import Lock

_NAME: Final = "ledger.json"
_TEXTS: Final = ("file", "host", "name", "sha256_before", "sha256_after", "wrapped_at", "upstream", "listen")
"""The members of a stored record that are texts; ``state`` is read apart."""

State = Literal["wrapping", "wrapped", "unwrapping"]


@dataclass(frozen=True, slots=True)
class WrapRecord:
    """One wrapped server. ``at`` is the path to its entry in ``file``; see ``ServerEntry.place``.

    ``host`` is the id of the host, ``name`` the name of the server. ``changes`` are those of the text of the
    entry. The hashes are those of the file before and after the change. ``wrapped_at`` is a text of RFC 3339
    in whole seconds.
    """

    file: str
    at: Path
    host: str
    name: str
    changes: tuple[EntryChange, ...]
    sha256_before: str
    sha256_after: str
    wrapped_at: str
    state: State = "wrapped"
    upstream: str = ""
    """The address of a remote server that is reached through ``mcpproxy http`` at ``listen``; or empty."""
    listen: str = ""
    former: "WrapRecord | None" = None
    """While the file is being written: the record that this one replaces. The file may still match it."""

    @property
    def place(self) -> tuple[str, Path]:
        """The key of the record in ``Ledger.records``."""
        return self.file, self.at


@dataclass(slots=True)
class Ledger:
    """The records of all wraps. Only a process that has locked the ledger (``locked_ledger``) changes it."""

    records: dict[tuple[str, Path], WrapRecord] = field(default_factory=dict[tuple[str, Path], WrapRecord])

    @property
    def interrupted(self) -> list[WrapRecord]:
        """The records of changes that a process began and did not finish."""
        return [record for record in self.records.values() if record.state != "wrapped"]

    def put(self, records: Iterable[WrapRecord], state: State) -> None:
        """Set the state of ``records`` to ``state``, add or replace them, and save the ledger.

        Without ``records`` nothing is saved.

        Raises:
            HostFileError: the ledger cannot be saved. It is unchanged.
        """
        if changed := {record.place: replace(record, state=state) for record in records}:
            self._save_records(self.records | changed, "nothing was written")

    def drop(self, places: Iterable[tuple[str, Path]]) -> None:
        """Remove the records of the wraps at ``places``; save the ledger if a record was removed.

        Raises:
            HostFileError: the ledger cannot be saved. It is unchanged.
        """
        if dropped := self.records.keys() & set(places):
            kept = {place: record for place, record in self.records.items() if place not in dropped}
            self._save_records(kept, "nothing was forgotten")

    def _save_records(self, records: dict[tuple[str, Path], WrapRecord], otherwise: str) -> None:
        """Write ``records``, and keep them if that succeeds.

        Raises:
            HostFileError: they cannot be written. The error's text ends with ``otherwise``.
        """
        rows = [{**asdict(record), "at": list(record.at)} for record in records.values()]
        save_state(_NAME, {"wraps": rows}, unwritten=otherwise)
        self.records = records


@contextmanager
def locked_ledger() -> Generator[Ledger]:
    """Lock the ledger for this process, and yield it.

    Raises:
        HostFileError: it cannot be read or locked, or its folder cannot be made.
    """
    place = folder()
    try:
        paths.make_private(place)
        lock = Lock.take(place, is_waiting=True)
    except OSError as fault:
        raise HostFileError(place, f"cannot be used ({os_reason(fault)})", "nothing was written") from None
    if lock is None:
        raise HostFileError(place, "another mcpproxy uses it", "try again")
    try:
        yield read_ledger()
    finally:
        lock.release()


def read_ledger() -> Ledger:
    """Return the ledger without locking it; an empty ledger if nothing was ever wrapped.

    Raises:
        HostFileError: it cannot be read, is damaged, or was written by a newer mcpproxy.
    """
    records = read_state(
        _NAME,
        lambda stored: [_record(row) for row in stored["wraps"]],
        unread="nothing was written",
        damaged="move it away; unwrap then goes by the commands in the files",
    )
    return Ledger({record.place: record for record in records or ()})


def _record(row: dict[str, Any]) -> WrapRecord:
    changes = tuple(
        EntryChange(cast("At", str(one["at"])), tuple(one["path"]), str(one["old"]), str(one["new"]))
        for one in row["changes"]
    )
    texts = {name: str(row[name]) for name in _TEXTS}
    # A file may have been moved since, and a link left in its place.
    texts["file"] = os.path.realpath(texts["file"])
    former = _record(row["former"]) if row.get("former") else None
    return WrapRecord(
        **texts, at=tuple(row["at"]), changes=changes, state=cast("State", str(row["state"])), former=former
    )
