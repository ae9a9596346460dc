"""``mcpproxy hosts``: list the servers in the files of hosts, and what has changed since the last look.

The package ``mcpproxy.hosts`` finds the servers. The *ledger* records which servers were wrapped: put behind
mcpproxy. A *look* is what an earlier run of this command saw; ``search_chosen`` reads the files now.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcpproxy.base.style import Style, count
from mcpproxy.base.visible import visible
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.commands.hosts.model_options import pointed_hosts
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.hosts import ledger
from mcpproxy.hosts.choosing import Places, search_chosen, short
from mcpproxy.hosts.commands import program_words
from mcpproxy.hosts.host_table import all_hosts, path_to_show
from mcpproxy.hosts.ledger import Ledger, WrapRecord
from mcpproxy.hosts.look_ahead.misread import misreadings
from mcpproxy.hosts.look_ahead.startable import start_faults
from mcpproxy.hosts.looks import Look, digests, last_look, save_look
from mcpproxy.hosts.recorded import add_recorded_entries, host_of, is_wrapped, lost_wraps, recover_records
from mcpproxy.hosts.server_entries import Search, ServerEntry
from mcpproxy.read.reports.text_table import table

DESCRIPTION: Final = """\
List the servers that the configuration files of hosts name: which are wrapped, which can be, and what has
changed since the last time."""

EPILOG: Final = """\
  mcpproxy hosts                   all servers of all hosts
  mcpproxy hosts --host cursor     those of one host

With --since, only what is new, changed or removed is listed. --check does the same, for a login script that
tells when somebody else has added a server.

exit codes of --check: 0 nothing has changed, 1 something is listed, 2 nothing is listed, but a file could not
be read (stderr names it; all others were read)

Without --check, the exit code is 2 if a file of the --host cannot be read."""


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One server as it is listed.

    ``state`` is ``wrapped``, ``broken``, ``gone``, ``other``, ``remote``, ``left`` or ``plain``; ``remark``
    says what that means. ``news`` is ``new``, ``changed``, or empty if neither since the last look.
    """

    entry: ServerEntry
    state: str
    remark: str
    news: str


def run(argv: list[str]) -> int:
    """List the servers, or add or remove our own. Return the exit code.

    Raises:
        McpProxyError: the arguments are not valid, or the ledger, the last look or the file of a host cannot
            be read or written.
    """
    options = _options(argv)
    if options.add_mcp or options.remove_mcp:
        return _change_own(options)
    where = places(options, "hosts")
    search = search_chosen(where)
    if options.file and not search.entries:
        raise UsageError(options.file, "no servers in this file", "--key names the key of its servers")
    only_news: bool = options.since or options.check
    with ledger.locked_ledger() as book:
        if where.is_everywhere:
            add_recorded_entries(search, book)
        recover_records(book)
        before = last_look()
        hashes = digests(search, book)
        save_look(before, search, hashes)
    rows = [_row(entry, book, before, hashes) for entry in search.entries]
    # If only the wrap is gone, the entry has a row of its own, with the state ``gone``.
    lost_records = [record for record in lost_wraps(search, book) if record.place not in search.by_place]
    removed = before.gone(search)
    listed = [row for row in rows if row.news] if only_news else rows
    report_problems(search)
    report_misreadings(search.entries)
    report_start_faults(search.entries)
    if options.json:
        emit([json.dumps(_as_object(search, listed, lost_records, removed), indent=2)])
    elif only_news:
        _print_news(listed, removed, before, len(search.problems))
    else:
        _print_all(search, listed, lost_records, removed, options)
    if options.check and (listed or removed):
        return 1
    return 2 if search.problems and (options.check or options.host) else 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = Parser("hosts", DESCRIPTION, EPILOG)
    add_place_options(parser)
    parser.add_argument(
        "--since", action="store_true", help="only what is new, changed or removed since the last look"
    )
    parser.add_argument(
        "--check", action="store_true", help="as --since, and exit code 1 if anything is listed"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument(
        "--add-mcp",
        metavar="HOST",
        help="add mcpproxy mcp, recordings for agents, to the user's file of HOST, and a skill; asks for it",
    )
    parser.add_argument("--remove-mcp", metavar="HOST", help="remove it from the files of HOST")
    parser.add_argument(
        "--dry-run", action="store_true", help="with these two: print what would change, and write nothing"
    )
    parser.add_argument(
        "--yes", action="store_true", help="with --add-mcp: add the skill for agents without asking"
    )
    options = parser.parse_args(argv)
    if options.dry_run and not (options.add_mcp or options.remove_mcp):
        raise UsageError(
            "hosts", "--dry-run needs --add-mcp or --remove-mcp", "without them nothing is written"
        )
    if options.yes and not options.add_mcp:
        raise UsageError("hosts", "--yes needs --add-mcp", "nothing else asks")
    return options


def _change_own(options: argparse.Namespace) -> int:
    """Add mcpproxy's own server to a host, or remove it.

    Raises:
        McpProxyError: the options do not fit together, or a file cannot be read or written.
    """
    from mcpproxy.cli.commands.hosts import own_server_options

    if (options.add_mcp and options.remove_mcp) or options.host or options.file:
        raise UsageError("hosts", "--add-mcp and --remove-mcp name one host", "leave the other options out")
    named = Places("hosts", [options.add_mcp or options.remove_mcp], None, None, options.project)
    if options.remove_mcp:
        return own_server_options.remove(named, is_dry=options.dry_run)
    return own_server_options.add(named, is_dry=options.dry_run, asks=not options.yes)


def add_place_options(parser: Parser) -> None:
    """Add the options that choose the files to search."""
    parser.add_argument(
        "--host", action="append", default=[], metavar="HOST", help="only this host; may be given again"
    )
    parser.add_argument("--file", metavar="PATH", help="only this file, also one of a host that is not known")
    parser.add_argument(
        "--key", metavar="KEY", help="with --file: the key of its servers; levels are divided by /"
    )
    parser.add_argument(
        "--project",
        metavar="DIR",
        help="the folder whose project files are looked for (default: the current one)",
    )


def places(options: argparse.Namespace, where: str) -> Places:
    """Return the places to search, from the options of ``add_place_options``, for the command ``where``."""
    return Places(where, options.host, options.file, options.key, options.project)


def report_problems(search: Search) -> int:
    """Print why files could not be searched for servers; return the exit code."""
    for problem in search.problems:
        tell(str(problem))
    return 2 if search.problems else 0


def report_misreadings(entries: Sequence[ServerEntry]) -> None:
    """Print which parts of their files the hosts of ``entries`` will not read."""
    for misreading in misreadings(entries):
        tell(f"{short(misreading.path)}:{misreading.line}: {misreading.fact}; {misreading.next_step}")


def report_start_faults(entries: Sequence[ServerEntry]) -> None:
    """Print what will keep the hosts of ``entries`` from starting or using these servers."""
    for fault in start_faults(entries):
        tell(f"{fault.entry.name} in {short(fault.entry.file.path)}: {fault.fact}; {fault.next_step}")


def _row(entry: ServerEntry, book: Ledger, before: Look, hashes: Mapping[tuple[str, str], str]) -> ServerRow:
    """Return the row of an entry; ``hashes`` are as ``digests`` returns them."""
    state, remark = _state(entry, book.records.get(entry.place))
    digest = hashes[entry.file.real_path, json.dumps(entry.place[1])]
    return ServerRow(entry, state, remark, before.news(entry, digest) or "")


def _state(entry: ServerEntry, record: WrapRecord | None) -> tuple[str, str]:
    """Return the state of an entry, as a word for programs and as a sentence for people."""
    again = f"mcpproxy wrap {entry.name} --host {entry.host.id}"
    if is_wrapped(entry, record):
        if record and record.listen:
            return "wrapped", f"wrapped: needs mcpproxy http, listening at {record.listen}"
        program = entry.argv[0]
        if os.path.isabs(program) and not os.path.exists(program):
            return "broken", f"wrapped by {short(program)}, which is gone: {again}"
        by_hand = "" if record else " by hand"
        return "wrapped", f"wrapped{by_hand}"
    if record:
        at = record.wrapped_at.replace("T", " ").rstrip("Z")
        return (
            "gone",
            f"its wrap of {at} is gone: {host_of(record).name} or somebody else changed the entry; {again}",
        )
    if program_words(entry.argv):
        return "other", "starts mcpproxy itself, with no server behind --"
    if entry.reason:  # ``row.leave`` says why no entry of the file can be wrapped, not even a remote one
        return ("remote" if entry.url and not entry.row.leave else "left"), entry.reason
    return "plain", "not wrapped"


def _print_all(
    search: Search,
    rows: Sequence[ServerRow],
    lost_records: Sequence[WrapRecord],
    removed: Sequence[tuple[str, str]],
    options: argparse.Namespace,
) -> None:
    """Print the table of all servers, and on stderr what else a user should know."""
    if not rows and not search.problems:  # a file that cannot be read may name servers
        if options.host:
            tell(f"no server of {', '.join(options.host)} found; without --host the others are listed")
        else:
            emit(_nothing_found())
    emit(_as_table(rows, terminal_style()))
    for record in lost_records:
        tell(
            f"{record.name} is gone from {short(record.file)}; mcpproxy unwrap {record.name} forgets its wrap"
        )
    for path, name in removed:
        tell(f"since the last look: {name} was removed from {short(path)}")
    for line in () if options.host or options.file else pointed_hosts():
        tell(line)
    if plain := sum(row.state == "plain" for row in rows):
        how = "mcpproxy wrap SERVER, or mcpproxy wrap --all (--dry-run shows the change)"
        tell(f"{count(plain, 'server')} can be wrapped: {how}")


def _print_news(
    rows: Sequence[ServerRow], removed: Sequence[tuple[str, str]], before: Look, unreadable: int
) -> None:
    """Print what has changed since the look ``before``."""
    if before.is_first:
        tell("this was the first look; the next one tells what has changed")
        return
    cells = [
        (row.news, visible(row.entry.name), visible(row.entry.title), visible(short(row.entry.file.path)))
        for row in rows
    ]
    cells += [("removed", visible(name), "", visible(short(path))) for path, name in removed]
    emit(table([("NEWS", "SERVER", "RUNS", "FILE"), *cells], terminal_style())[1:])
    if not rows and not removed:
        unreadable_note = f"; {count(unreadable, 'file')} could not be read" if unreadable else ""
        tell(f"nothing has changed since {before.looked_at}{unreadable_note}")


def _as_table(rows: Sequence[ServerRow], style: Style) -> Iterator[str]:
    """Yield one table for each file, under its host and path."""
    by_file: dict[tuple[str, str], list[ServerRow]] = {}
    for row in rows:
        by_file.setdefault((row.entry.host.name, row.entry.file.path), []).append(row)
    for number, ((host, path), group) in enumerate(by_file.items()):
        if number:
            yield ""
        yield f"{style.paint(host, 'bold')}  {visible(short(path))}"
        has_news = any(row.news for row in group)
        heading = ("  SERVER", "RUNS", *([""] if has_news else []), "STATE")
        cells = [
            (
                f"  {visible(_shown_name(row.entry))}",
                visible(row.entry.title),
                *([row.news] if has_news else []),
                visible(row.remark),
            )
            for row in group
        ]
        yield from table([heading, *cells], style)[1:]


def _shown_name(entry: ServerEntry) -> str:
    """Return the name of a server, with its project if the file has servers of several projects."""
    return f"{entry.name} ({entry.at[1]})" if "*" in entry.row.key else entry.name


def _nothing_found() -> Iterator[str]:
    """Yield the text for a search without result: the files that were looked for, and the next steps."""
    yield "No server was found in the files of any host. These were looked for:"
    yield ""
    places: dict[str, list[str]] = {}
    for host in all_hosts():
        for row in host.files:
            if row.scope in ("user", "project"):
                if not (path := short(path_to_show(row))):
                    continue
                here = f"./{path}" if row.scope == "project" else path
                places.setdefault(host.name, []).append(here)
    width = max(map(len, places))
    for name, files in places.items():
        yield f"  {name.ljust(width)}  {', '.join(dict.fromkeys(files))}"
    yield ""
    yield "If your host keeps its servers elsewhere:  mcpproxy hosts --file PATH [--key KEY]"
    yield "By hand: put mcpproxy in place of the command, and -- with the command before its arguments."
    yield "Without a host:  mcpproxy -- SERVER"


def _as_object(
    search: Search,
    rows: Sequence[ServerRow],
    lost_records: Sequence[WrapRecord],
    removed: Sequence[tuple[str, str]],
) -> dict[str, object]:
    return {
        "servers": [
            {
                "host": row.entry.host.id,
                "scope": row.entry.row.scope,
                "file": row.entry.file.path,
                "name": row.entry.name,
                "runs": row.entry.title,
                "protocol": "acp" if row.entry.row.is_acp else "mcp",
                "state": row.state,
                "remark": row.remark,
                "news": row.news or None,
            }
            for row in rows
        ],
        "removed": [{"file": path, "name": name} for path, name in removed],
        "lost": [{"file": record.file, "name": record.name} for record in lost_records],
        "unreadable": [{"file": problem.path, "reason": problem.fact} for problem in search.problems],
        "misread": [
            {"file": misreading.path, "line": misreading.line, "reason": misreading.fact}
            for misreading in misreadings(search.entries)
        ],
        "not_startable": [
            {"file": fault.entry.file.path, "name": fault.entry.name, "reason": fault.fact}
            for fault in start_faults(search.entries)
        ],
    }
