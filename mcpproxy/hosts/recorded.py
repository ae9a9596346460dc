"""Compare the ledger, which records the wraps (servers put behind mcpproxy), with the present files."""

import os
from collections.abc import Iterator
from dataclasses import replace

from mcpproxy.hosts.config_writer import remove_draft
from mcpproxy.hosts.document import quoted
from mcpproxy.hosts.errors import HostFileError
from mcpproxy.hosts.host_table import Host, all_hosts, other_host
from mcpproxy.hosts.ledger import Ledger, WrapRecord
from mcpproxy.hosts.server_entries import Search, ServerEntry, entry_in, read_file
from mcpproxy.hosts.text_nodes import find
from mcpproxy.hosts.wrapping import are_made


def add_recorded_entries(search: Search, ledger: Ledger) -> None:
    """Add the entries in the ledger that the search did not find, such as those of another project.

    The error of a file that cannot be read is added to the problems of the search.
    """
    refused: set[str] = set()
    for record in ledger.records.values():
        if record.file in refused or record.place in search.by_place or not os.path.lexists(record.file):
            continue
        try:
            file = search.files.get(record.file) or read_file(record.file, os.path.dirname(record.file))
        except HostFileError as problem:
            refused.add(record.file)
            if problem.path not in {known.path for known in search.problems}:
                search.problems.append(problem)
            continue
        search.files[record.file] = file
        if entry := entry_in(file, record.at, host_of(record)):
            search.by_place[record.place] = entry


def host_of(record: WrapRecord) -> Host:
    """Return the host whose entry was wrapped; for an unknown host, ``other_host``."""
    return next((host for host in all_hosts() if host.id == record.host), other_host(()))


def is_wrapped(entry: ServerEntry, record: WrapRecord | None) -> bool:
    """Whether the entry is wrapped now; ``record`` is its record in the ledger."""
    if record is None or not record.listen:
        return entry.wrapping > 0
    url = find(entry.node, record.changes[0].path)
    return url is not None and quoted(str(url.scalar)) == record.changes[0].new


def lost_wraps(search: Search, ledger: Ledger) -> Iterator[WrapRecord]:
    """Yield the records of wraps that are gone: their file has no such wrap any more, or does not exist.

    Records of files that exist but are not in ``search`` are left out.
    """
    for record in ledger.records.values():
        if record.file in search.files or not os.path.lexists(record.file):
            entry = search.by_place.get(record.place)
            if entry is None or not is_wrapped(entry, record):
                yield record


def recover_records(ledger: Ledger) -> None:
    """Remove the drafts of interrupted changes, and correct the records of these changes to match the files.

    Records of files that cannot be read stay as they are.

    Raises:
        HostFileError: the ledger cannot be written.
    """
    for record in ledger.interrupted:
        remove_draft(record.file)
        try:
            file = read_file(record.file, os.path.dirname(record.file))
        except HostFileError:
            continue  # the record is corrected when the file can be read again
        entry = entry_in(file, record.at, host_of(record))
        if entry is not None and (wrap := wrap_of(entry, record)):
            ledger.put([replace(wrap, former=None)], "wrapped")
        else:
            ledger.drop([record.place])


def wrap_of(entry: ServerEntry, record: WrapRecord) -> WrapRecord | None:
    """Return the record of the wrap that the entry has; ``None`` if the entry is not wrapped.

    It is ``record``, or its ``former`` record if a process was killed before it wrote the file.
    """
    wraps = [wrap for wrap in (record, record.former) if wrap and is_wrapped(entry, wrap)]
    exact = [wrap for wrap in wraps if are_made(entry.file.document, entry.node, wrap.changes)]
    return next(iter([*exact, *wraps]), None)
