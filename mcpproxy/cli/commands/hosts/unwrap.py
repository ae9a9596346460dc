"""``mcpproxy unwrap``: give servers in the configuration files of hosts their own commands back."""

from collections.abc import Sequence
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.commands.hosts import model_options
from mcpproxy.cli.commands.hosts.changes import (
    Changes,
    check_names_or_all,
    find_entry,
    is_confirmed,
    rest_of_file,
)
from mcpproxy.cli.commands.hosts.hosts import add_place_options, places, report_problems
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.hosts import ledger
from mcpproxy.hosts.choosing import differences, search_chosen, short
from mcpproxy.hosts.config_writer import sha256
from mcpproxy.hosts.ledger import Ledger, WrapRecord
from mcpproxy.hosts.plans import FilePlan, plan_file, plan_unwrap, unwrap_file
from mcpproxy.hosts.recorded import add_recorded_entries, is_wrapped, lost_wraps, recover_records, wrap_of
from mcpproxy.hosts.server_entries import Search, ServerEntry

DESCRIPTION: Final = """\
Take mcpproxy out of the configuration files of hosts again. If nothing else has changed in a file since its
servers were wrapped, it is then as it was before, to the byte; what else has changed stays."""


def run(argv: list[str]) -> int:
    """Unwrap the servers that the arguments name. Return 2 if a change or a file was left out or not written.

    Raises:
        McpProxyError: the arguments are not valid, or a named server cannot be unwrapped.
    """
    parser = Parser("unwrap", DESCRIPTION, "  mcpproxy unwrap files\n  mcpproxy unwrap --all")
    parser.add_argument("server", nargs="*", metavar="SERVER", help="its name in the host's file")
    parser.add_argument("--all", action="store_true", help="every wrapped server; asks first")
    parser.add_argument(
        "--model", action="store_true", help="SERVER is a host: undo what wrap HOST --model has written"
    )
    add_place_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and write nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    options = parser.parse_args(argv)
    if options.model:
        return model_options.undo(options)
    check_names_or_all("unwrap", options)
    where = places(options, "unwrap")
    search = search_chosen(where)
    records = ledger.read_ledger()
    if options.all:
        for line in model_options.pointed_hosts():
            tell(line)
    if where.is_everywhere:
        add_recorded_entries(search, records)
    wrapped = [entry for entry in search.entries if is_wrapped(entry, records.records.get(entry.place))]
    lost = [record for record in lost_wraps(search, records) if record.state == "wrapped"]
    changes = Changes(goes_on=options.all, code=report_problems(search) if options.all else 0)
    chosen = wrapped if options.all else _named_entries(search, wrapped, lost, options.server)
    plans = _plans(chosen, records, changes)
    if options.dry_run:
        emit(differences(plans), keeps_tabs=True)
        return changes.code
    if not plans and not lost and not records.interrupted:
        tell("nothing is wrapped" if options.all else "nothing to do")
        return changes.code
    if options.all and plans and not options.yes and not is_confirmed("unwrap", plans):
        tell("nothing was written")
        return changes.code
    with ledger.locked_ledger() as book:
        recover_records(book)
        for plan in changes.written(plans, unwrap_file, book):
            _report_unwrapped(plan)
        forgotten = [record for record in lost if options.all or record.name in options.server]
        book.drop(record.place for record in forgotten)
    for record in forgotten:
        tell(f"{record.name} is no longer wrapped in {short(record.file)}: its wrap is forgotten")
    return changes.code


def _named_entries(
    search: Search, wrapped: Sequence[ServerEntry], lost: Sequence[WrapRecord], names: Sequence[str]
) -> list[ServerEntry]:
    """Return the wrapped servers with ``names``, and print which of the named servers are not wrapped.

    ``lost`` are wraps that are no longer in any file; the caller reports them.
    """
    chosen: list[ServerEntry] = []
    for name in dict.fromkeys(names):
        if any(entry.name == name for entry in wrapped):
            chosen.append(find_entry(wrapped, name, search))
        elif not any(record.name == name for record in lost):
            entry = find_entry(search.entries, name, search)
            tell(f"{entry.name} is not wrapped ({short(entry.file.path)})")
    return chosen


def _plans(chosen: Sequence[ServerEntry], records: Ledger, changes: Changes) -> list[FilePlan]:
    """Return a plan for each file that can be unwrapped."""
    by_file: dict[str, list[ServerEntry]] = {}
    for entry in chosen:
        by_file.setdefault(entry.file.real_path, []).append(entry)
    plans: list[FilePlan] = []
    for entries in by_file.values():
        with changes.planning():
            pairs = [(entry, records.records.get(entry.place)) for entry in entries]
            plans.append(
                plan_file([plan_unwrap(entry, record and wrap_of(entry, record)) for entry, record in pairs])
            )
    return plans


def _report_unwrapped(plan: FilePlan) -> None:
    names = ", ".join(visible(step.entry.name) for step in plan.steps)
    hashes_before = {record.sha256_before for record in plan.records}
    state = rest_of_file(is_original=sha256(plan.content) in hashes_before)
    emit([f"unwrapped {names} in {visible(short(plan.file.path))}: {state}"])
