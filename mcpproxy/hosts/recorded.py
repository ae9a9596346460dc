"""The ledger held against the files as they are now."""

import os
from collections.abc import Iterator

from mcpproxy.hosts.config_writer import remove_draft
from mcpproxy.hosts.document import quoted
from mcpproxy.hosts.host_table import Host, all_hosts, other_host
from mcpproxy.hosts.ledger import Ledger, WrapRecord
from mcpproxy.hosts.server_entries import Search, ServerEntry, entry_in, read_file
from mcpproxy.hosts.text_nodes import find
from mcpproxy.hosts.unreadable import HostFileError


def add_recorded(found: Search, ledger: Ledger) -> None:
    """Add the wrapped entries of files that were not looked for, such as those of another project."""
    refused: set[str] = set()
    for record in ledger.records.values():
        if record.file in refused or record.place in found.by_place or not os.path.lexists(record.file):
            continue
        try:
            file = found.files.get(record.file) or read_file(record.file, os.path.dirname(record.file))
        except HostFileError as problem:
            refused.add(record.file)
            if problem.path not in {one.path for one in found.problems}:
                found.problems.append(problem)
            continue
        found.files[record.file] = file
        if entry := entry_in(file, record.at, host_of(record)):
            found.by_place[record.place] = entry


def host_of(record: WrapRecord) -> Host:
    """Return the host whose entry was wrapped."""
    return next((host for host in all_hosts() if host.id == record.host), other_host(()))


def is_wrapped(entry: ServerEntry, record: WrapRecord | None) -> bool:
    """Whether the entry is wrapped now; ``record`` is what the ledger says of it."""
    if record is None or not record.listen:
        return entry.wrapping > 0
    url = find(entry.node, record.changes[0].path)
    return url is not None and quoted(str(url.scalar)) == record.changes[0].new


def lost(found: Search, ledger: Ledger) -> Iterator[WrapRecord]:
    """Yield the records of wraps that are no longer in their files, which were read or are gone."""
    for record in ledger.records.values():
        if record.file in found.files or not os.path.lexists(record.file):
            entry = found.by_place.get(record.place)
            if entry is None or not is_wrapped(entry, record):
                yield record


def recover(ledger: Ledger) -> None:
    """Finish what a killed process has left: its drafts, and records of what did not happen or has ended."""
    for record in [record for record in ledger.records.values() if record.state != "wrapped"]:
        remove_draft(record.file)
        try:
            file = read_file(record.file, os.path.dirname(record.file))
        except HostFileError:
            continue  # what became of it is seen when it can be read again
        entry = entry_in(file, record.at, host_of(record))
        if entry is not None and is_wrapped(entry, record):
            ledger.put([record], "wrapped")
        else:
            ledger.drop([record.place])
