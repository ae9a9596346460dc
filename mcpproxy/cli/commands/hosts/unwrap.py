"""``mcpproxy unwrap``: give servers in the configuration files of hosts their own commands back."""

from collections.abc import Sequence
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.commands.hosts.hosts import add_place_options, places, report_problems
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.hosts import ledger
from mcpproxy.hosts.choosing import differences, look, named, short
from mcpproxy.hosts.config_writer import sha256
from mcpproxy.hosts.ledger import Ledger, WrapRecord
from mcpproxy.hosts.plans import FilePlan, file_plan, unwrap_file, unwrap_step
from mcpproxy.hosts.recorded import add_recorded, is_wrapped, lost, recover, wrap_of
from mcpproxy.hosts.server_entries import Search, ServerEntry
from mcpproxy.hosts.unreadable import HostFileError, UnrecordedError

DESCRIPTION: Final = """\
Take mcpproxy out of the configuration files of hosts again. What else has changed in a file since its servers
were wrapped stays; if nothing has, the file is as it was before, to the byte."""


def run(argv: list[str]) -> int:
    """Unwrap the servers that the arguments name."""
    parser = Parser("unwrap", DESCRIPTION)
    parser.add_argument("server", nargs="*", metavar="SERVER", help="its name in the host's file")
    parser.add_argument("--all", action="store_true", help="every wrapped server")
    add_place_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and write nothing")
    options = parser.parse_args(argv)
    if bool(options.server) == options.all:
        fact = "--all and a name were given" if options.all else "no server was named"
        raise UsageError("unwrap", fact, "name a server, or say --all; mcpproxy hosts lists them")
    search = look(places(options, "unwrap"))
    records = ledger.read_ledger()
    if not (options.file or options.host):
        add_recorded(search, records)
    wrapped = [entry for entry in search.entries if is_wrapped(entry, records.records.get(entry.place))]
    gone = [record for record in lost(search, records) if record.state == "wrapped"]
    code = report_problems(search) if options.all else 0
    chosen = wrapped if options.all else _named(search, wrapped, gone, options.server)
    plans, refused = _plans(chosen, records, goes_on=options.all)
    code = max(code, refused)
    if options.dry_run:
        emit(differences(plans))
        return code
    is_interrupted = any(record.state != "wrapped" for record in records.records.values())
    if not plans and not gone and not is_interrupted:
        tell("nothing is wrapped" if options.all else "nothing to do")
        return code
    with ledger.held() as book:
        recover(book)
        for plan in plans:
            try:
                unwrap_file(plan, book)
                _report(plan)
            except HostFileError as problem:
                tell(str(problem))
                code = 2
                if isinstance(problem, UnrecordedError):
                    _report(plan)
        forgotten = [record for record in gone if options.all or record.name in options.server]
        book.drop(record.place for record in forgotten)
    for record in forgotten:
        tell(f"{record.name} is no longer wrapped in {short(record.file)}: its wrap is forgotten")
    return code


def _named(
    search: Search, wrapped: Sequence[ServerEntry], gone: Sequence[WrapRecord], names: Sequence[str]
) -> list[ServerEntry]:
    """Return the wrapped servers with ``names``, and say which of the named servers are not wrapped."""
    chosen: list[ServerEntry] = []
    for name in dict.fromkeys(names):
        if any(entry.name == name for entry in wrapped):
            chosen.append(named(wrapped, name, search))
        elif not any(record.name == name for record in gone):
            entry = named(search.entries, name, search)
            tell(f"{entry.name} is not wrapped ({short(entry.file.path)})")
    return chosen


def _plans(chosen: Sequence[ServerEntry], records: Ledger, *, goes_on: bool) -> tuple[list[FilePlan], int]:
    """Return a plan for each file, and the exit code.

    With ``goes_on``, a file that cannot be unwrapped is reported and left out.
    """
    by_file: dict[str, list[ServerEntry]] = {}
    for entry in chosen:
        by_file.setdefault(entry.file.real_path, []).append(entry)
    plans: list[FilePlan] = []
    code = 0
    for entries in by_file.values():
        try:
            found = [(entry, records.records.get(entry.place)) for entry in entries]
            plans.append(
                file_plan([unwrap_step(entry, record and wrap_of(entry, record)) for entry, record in found])
            )
        except HostFileError as problem:
            if not goes_on:
                raise
            tell(str(problem))
            code = 2
    return plans, code


def _report(plan: FilePlan) -> None:
    names = ", ".join(visible(step.entry.name) for step in plan.steps)
    first = {record.sha256_before for record in plan.records}
    is_original = sha256(plan.content) in first
    state = (
        "the file is as it was before, to the byte" if is_original else "the rest of the file stays as it is"
    )
    emit([f"unwrapped {names} in {visible(short(plan.file.path))}: {state}"])
