"""Remember the last look at the files of hosts, to show servers that were added or changed since.

A look is a snapshot of the entries: a hash of each. The hash leaves out our wrap (that the host starts the
server through mcpproxy), so that wrapping does not change it.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from mcpproxy.base.paths import rfc3339
from mcpproxy.hosts.errors import HostFileError
from mcpproxy.hosts.ledger import Ledger
from mcpproxy.hosts.recorded import is_wrapped
from mcpproxy.hosts.server_entries import Search, ServerEntry
from mcpproxy.hosts.state_files import read_state, save_state

_NAME: Final = "looks.json"

News = Literal["new", "changed"]


@dataclass(slots=True)
class Look:
    """The time of a look (empty if there was none), and the hashes: file -> key of the entry -> hash.

    The key is the path to the entry in the file, as JSON; in a list, with the server's name for the index.
    """

    looked_at: str = ""
    seen: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    @property
    def is_first(self) -> bool:
        """Whether there was no look yet."""
        return not self.looked_at

    def news(self, entry: ServerEntry, digest: str) -> News | None:
        """Return whether an entry is new or changed since this look; ``None`` if it is neither.

        If there was no look yet, nothing is new. ``digest`` is the hash of the entry now.
        """
        before = self.seen.get(entry.file.real_path, {}).get(_entry_key(entry))
        if self.is_first or before == digest:
            return None
        return "new" if before is None else "changed"

    def gone(self, search: Search) -> list[tuple[str, str]]:
        """Return the file and the name of each entry in this look that no longer exists.

        Entries of files that exist but are not in ``search`` are left out: nothing is known of them.
        """
        present = {(entry.file.real_path, _entry_key(entry)) for entry in search.entries}
        return [
            (path, str(json.loads(key)[-1]))
            for path, entries in self.seen.items()
            if path in search.files or not os.path.lexists(path)
            for key in entries
            if (path, key) not in present
        ]


def digests(search: Search, ledger: Ledger) -> dict[tuple[str, str], str]:
    """Return the hash of every entry in ``search``, by file and key of the entry.

    ``ledger`` has the addresses that wraps replaced.
    """
    hashes: dict[tuple[str, str], str] = {}
    for entry in search.entries:
        record = ledger.records.get(entry.place)
        upstream = record.upstream if record and is_wrapped(entry, record) else ""
        hashes[entry.file.real_path, _entry_key(entry)] = entry.digest(upstream)
    return hashes


def last_look() -> Look:
    """Return the last look; an empty look if there was none, or it cannot be read."""
    with suppress(HostFileError):
        return read_state(_NAME, _look) or Look()
    return Look()


def _look(stored: Mapping[str, Any]) -> Look:
    seen = cast("Mapping[str, Mapping[str, str]]", stored["seen"])
    return Look(str(stored["looked_at"]), {path: dict(entries) for path, entries in seen.items()})


def save_look(before: Look, search: Search, hashes: Mapping[tuple[str, str], str]) -> None:
    """Save a new look with ``hashes``. Of existing files that were not read, it keeps what ``before`` has.

    Raises:
        HostFileError: it cannot be written.
    """
    seen = {
        path: entries
        for path, entries in before.seen.items()
        if path not in search.files and os.path.lexists(path)
    }
    for path in search.files:
        seen[path] = {}
    for (path, key), digest in hashes.items():
        seen[path][key] = digest
    members = {"looked_at": rfc3339(0), "seen": seen}
    save_state(_NAME, members, unwritten="the next look compares with an older one")


def _entry_key(entry: ServerEntry) -> str:
    return json.dumps(entry.place[1])
