"""Plans that wrap servers in files (let the host start them through mcpproxy), or undo that.

A command makes the plans, shows them to the user, and then writes file by file.

Before a plan is shown, the new text of each file is parsed. It must contain the planned commands, and all
other values must be unchanged; otherwise the plan is refused.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import cast

from mcpproxy.base.paths import rfc3339
from mcpproxy.hosts.commands import own_program, program_words
from mcpproxy.hosts.config_writer import check_writable, remove_draft, replace_content, sha256
from mcpproxy.hosts.document import Document, quoted
from mcpproxy.hosts.errors import HostFileError, UnrecordedError, not_alone
from mcpproxy.hosts.host_table import is_under_version_control
from mcpproxy.hosts.ledger import Ledger, State, WrapRecord
from mcpproxy.hosts.remote import address_of, url_through
from mcpproxy.hosts.server_entries import ConfigFile, ServerEntry, entry_of
from mcpproxy.hosts.text_nodes import Edit, Path, Step, edited, find, plain
from mcpproxy.hosts.wrapping import EntryChange, unwrap_edits, wrap_changes


@dataclass(slots=True)
class EntryPlan:
    """The change of one entry."""

    entry: ServerEntry
    edits: list[Edit]
    argv: tuple[str, ...]
    """The command that the host starts afterwards; empty for a remote entry."""
    url: str = ""
    """The address of a remote entry afterwards; empty for any other entry."""
    record: WrapRecord | None = None
    """The record of the wrap that this change makes or undoes."""


@dataclass(slots=True)
class FilePlan:
    """The changes of one file."""

    file: ConfigFile
    steps: list[EntryPlan] = field(default_factory=list[EntryPlan])
    new_text: str = ""

    @property
    def content(self) -> bytes:
        """The new content of the file."""
        return self.new_text.encode()

    @property
    def records(self) -> list[WrapRecord]:
        """The records of the wraps that the changes make or undo."""
        return [step.record for step in self.steps if step.record]


def program_for(entry: ServerEntry, command: Sequence[str]) -> list[str]:
    """Return the words that start mcpproxy in this entry: ``command``, if the user has given it.

    A project file under version control is also used on other machines, so it gets the bare name.

    Raises:
        UsageError: this mcpproxy is in a temporary environment (see ``own_program``).
    """
    if command:
        return [*command]
    if entry.row.scope == "project" and is_under_version_control(entry.file.path):
        return ["mcpproxy"]
    return own_program()


def plan_wrap(
    entry: ServerEntry, command: Sequence[str], record: WrapRecord | None, folder: str = ""
) -> EntryPlan | None:
    """Return the plan that wraps an entry with a command; ``None`` if it is wrapped and can stay as it is.

    ``command`` has the words that start mcpproxy, if the user has given any. ``record`` is the record of an
    existing wrap. ``folder``, if given, is added to the ``PATH`` of the server.

    Raises:
        HostFileError: the entry is already wrapped in another way, and must first be unwrapped.
        UsageError: as ``program_for``.
    """
    assert entry.shape is not None
    program = program_for(entry, command)
    path = ["--path", folder] if folder else []
    if entry.wrapping:
        if folder and folder not in entry.argv[: entry.wrapping]:
            fact = f"{entry.name} is wrapped without this folder: {folder}"
            raise HostFileError(entry.file.path, fact, "unwrap it and wrap it again")
        return _plan_new_program(entry, program, record, bool(command))
    ours = [*program, "--label", entry.label, *path, "--"]
    edits_and_changes = wrap_changes(entry.file.document, entry.node, entry.shape, ours)
    edits, changes = [edit for edit, _ in edits_and_changes], tuple(change for _, change in edits_and_changes)
    return EntryPlan(entry, edits, (*ours, *entry.argv), record=_record(entry, changes))


def _plan_new_program(
    entry: ServerEntry, program: list[str], record: WrapRecord | None, is_named: bool
) -> EntryPlan | None:
    """Return the plan that makes a wrapped entry start mcpproxy by ``program``; ``None`` if none is needed.

    ``is_named`` says that the user has given ``program``. Otherwise a wrap by a bare name, or by a program
    that exists and differs in more than its path, is left as it is.

    Raises:
        HostFileError: the words that start mcpproxy differ in more than the first.
    """
    assert entry.shape is not None
    length = program_words(entry.argv)
    old_program = list(entry.argv[:length])
    is_path = os.path.isabs(old_program[0])
    if old_program == program or not (is_named or is_path):
        return None
    if length != len(program) or (length > 1 and old_program[1:] != program[1:]):
        if os.path.exists(old_program[0]) and not is_named:
            return None
        step = "unwrap it and wrap it again"
        raise HostFileError(entry.file.path, f"{entry.name} is wrapped by {' '.join(old_program)}", step)
    at = entry.shape.command if entry.shape.args is not None else (*entry.shape.command, 0)
    node = find(entry.node, at)
    assert node is not None
    old, new = entry.file.document.text[node.start : node.end], quoted(program[0])
    changes: tuple[EntryChange, ...] = ()
    if record:
        # If the command is a list, the text that was inserted into it begins with the program.
        changes = tuple(
            replace(change, new=change.new.replace(old, new, 1))
            if change.path == entry.shape.command
            else change
            for change in record.changes
        )
    return EntryPlan(
        entry,
        [Edit(node.start, node.end, new)],
        (program[0], *entry.argv[1:]),
        record=replace(_record(entry, changes), wrapped_at=record.wrapped_at) if record else None,
    )


def plan_http_wrap(entry: ServerEntry, listen: str) -> EntryPlan:
    """Return the plan that points a remote entry at ``mcpproxy http``. ``address_of`` must accept its URL.

    ``listen`` is the host and port at which ``mcpproxy http`` listens.
    """
    assert entry.url_at is not None
    node = find(entry.node, entry.url_at)
    assert node is not None
    address = address_of(entry.url)
    assert address is not None
    url = url_through(address, listen)
    change = EntryChange("value", entry.url_at, entry.file.document.text[node.start : node.end], quoted(url))
    record = replace(_record(entry, (change,)), upstream=entry.url, listen=listen)
    return EntryPlan(entry, [Edit(node.start, node.end, change.new)], (), url, record)


def plan_unwrap(entry: ServerEntry, record: WrapRecord | None) -> EntryPlan:
    """Return the plan that restores the address of a wrapped entry, or its command, even without a record."""
    document = entry.file.document
    changes = record.changes if record else ()
    if entry.url_at is not None:
        assert record is not None
        node = find(entry.node, entry.url_at)
        assert node is not None
        return EntryPlan(
            entry, [Edit(node.start, node.end, record.changes[0].old)], (), record.upstream, record
        )
    assert entry.shape is not None
    edits = unwrap_edits(document, entry.node, entry.shape, entry.wrapping, changes)
    return EntryPlan(entry, edits, entry.inner_argv, record=record)


def plan_file(steps: Sequence[EntryPlan]) -> FilePlan:
    """Return the checked plan for the file of ``steps``, whose entries must all be in the same file.

    Raises:
        HostFileError: the file must not be written, a command would not be as planned, or another value would
            change.
    """
    plan = FilePlan(steps[0].entry.file, list(steps))
    check_writable(plan.file)
    _set_new_text(plan)
    return plan


def _set_new_text(plan: FilePlan) -> None:
    """Set the new text of a plan, check it, and set the hashes of its new records.

    Raises:
        HostFileError: a command would not be as planned, or another value would change.
    """
    document = plan.file.document
    plan.new_text = edited(document.text, [edit for step in plan.steps for edit in step.edits])
    path = plan.file.path
    refusal = not_alone(path, "these places")
    try:
        after = Document(path, plan.content, document.language)
    except HostFileError:
        raise refusal from None
    remains = [plain(document.root), plain(after.root)]
    for step in plan.steps:
        entry = step.entry
        node = find(after.root, entry.at)
        if node is None:
            raise refusal
        new_file = replace(plan.file, document=after)
        new_entry = entry_of(entry.host, entry.row, new_file, entry.at, entry.name, node)
        if (new_entry.argv, new_entry.url) != (step.argv, step.url):
            raise refusal
        for values in remains:
            entry.remove_command(_value_at(values, entry.at))
    if remains[0] != remains[1]:
        raise refusal
    hash_before, hash_after = sha256(plan.file.data), sha256(plan.content)
    for step in plan.steps:
        if step.record and step.record.sha256_before == "":
            step.record = replace(step.record, sha256_before=hash_before, sha256_after=hash_after)


def wrap_file(plan: FilePlan, ledger: Ledger) -> None:
    """Write a file with its new wraps, and their records into the ledger.

    Raises:
        UnrecordedError: the file was written, but then the ledger could not be written.
        HostFileError: the file, or the ledger before it, cannot be written. The file is unchanged.
    """
    _write_file(plan, ledger, "wrapping")
    with _after_writing(plan):
        ledger.put(plan.records, "wrapped")


def unwrap_file(plan: FilePlan, ledger: Ledger) -> None:
    """Write a file without its wraps, and drop their records.

    Raises:
        UnrecordedError: the file was written, but then the ledger could not be written.
        HostFileError: the file, or the ledger before it, cannot be written. The file is unchanged.
    """
    _write_file(plan, ledger, "unwrapping")
    with _after_writing(plan):
        ledger.drop(step.entry.place for step in plan.steps)


def _write_file(plan: FilePlan, ledger: Ledger, state: State) -> None:
    """Put the records of a plan into the ledger with this ``state``, and write the file.

    If the file cannot be written, the ledger gets its former records again.

    Raises:
        HostFileError: the ledger or the file cannot be written.
    """
    remove_draft(plan.file.real_path)
    before = ledger.records
    records = [replace(record, former=before.get(record.place)) for record in plan.records]
    ledger.put(records if state == "wrapping" else plan.records, state)
    try:
        replace_content(plan.file, plan.content, next((s.entry.row.lock for s in plan.steps), ""))
    except HostFileError:
        with suppress(HostFileError):  # the next command recovers records that cannot be restored now
            _restore_records(ledger, plan, before)
        raise


@contextmanager
def _after_writing(plan: FilePlan) -> Generator[None]:
    """Replace an error of the ledger by ``UnrecordedError``, because the file was already written."""
    try:
        yield
    except HostFileError as fault:
        step = f"{plan.file.path} was written all the same, and mcpproxy hosts will record it"
        raise UnrecordedError(fault.path, fault.fact, step) from None


def _restore_records(ledger: Ledger, plan: FilePlan, before: dict[tuple[str, Path], WrapRecord]) -> None:
    """Restore the records of a plan to those in ``before``."""
    places = [record.place for record in plan.records]
    ledger.drop(place for place in places if place not in before)
    for place in places:
        if place in before:
            ledger.put([before[place]], before[place].state)


def _record(entry: ServerEntry, changes: tuple[EntryChange, ...]) -> WrapRecord:
    """Return a new record, still without the hashes of the file."""
    return WrapRecord(
        file=entry.file.real_path,
        at=entry.place[1],
        host=entry.host.id,
        name=entry.name,
        changes=changes,
        sha256_before="",
        sha256_after="",
        wrapped_at=rfc3339(0),
    )


def _value_at(value: object, path: Path) -> object:
    for step in path:
        # ``value`` may also be a list. ``path`` leads to an entry that was found, so no step is missing.
        value = cast("dict[Step, object]", value)[step]
    return value
