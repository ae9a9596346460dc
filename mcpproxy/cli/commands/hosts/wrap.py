"""``mcpproxy wrap``: put mcpproxy before servers in the configuration files of hosts."""

import argparse
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from mcpproxy.base import paths
from mcpproxy.base.visible import visible
from mcpproxy.cli.address_arguments import split_listen
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.commands.hosts import model_options
from mcpproxy.cli.commands.hosts.changes import Changes, check_names_or_all, find_entry, is_confirmed
from mcpproxy.cli.commands.hosts.hosts import (
    add_place_options,
    places,
    report_misreadings,
    report_problems,
    report_start_faults,
)
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.hosts import ledger
from mcpproxy.hosts.choosing import differences, search_chosen, short
from mcpproxy.hosts.commands import wrapping_words
from mcpproxy.hosts.ledger import Ledger, WrapRecord
from mcpproxy.hosts.look_ahead.startable import folder_of_command
from mcpproxy.hosts.plans import EntryPlan, FilePlan, plan_file, plan_http_wrap, plan_wrap, wrap_file
from mcpproxy.hosts.recorded import is_wrapped, recover_records, wrap_of
from mcpproxy.hosts.remote import address_of, proxy_command
from mcpproxy.hosts.server_entries import Search, ServerEntry

DESCRIPTION: Final = """\
Put mcpproxy before a server in the configuration file of a host. Only the command and the head of the
arguments are changed; comments, order and layout stay. mcpproxy unwrap undoes it, to the byte."""

EPILOG: Final = """\
  mcpproxy wrap files --dry-run    what would change for the server files
  mcpproxy wrap files
  mcpproxy wrap --all
  mcpproxy wrap claude-code --model    its model through mcpproxy model

A user's files get the absolute path of mcpproxy, because a host that is started from the desktop often lacks
the PATH of a terminal. Files of a project that are under version control get the bare name. --command sets
another command, such as /opt/bin/mcpproxy. For the same reason it may not find npx: --keep-path helps."""

FIRST_PORT: Final = 8765
"""The port of ``mcpproxy http`` for the first remote server by default; the next ones take higher ports."""


def run(argv: list[str]) -> int:
    """Wrap the servers that the arguments name. Return 2 if a change or a file was left out or not written.

    Raises:
        McpProxyError: the arguments are not valid, or a named server cannot be wrapped.
    """
    options = _options(argv)
    if options.model:
        return model_options.point(options)
    search = search_chosen(places(options, "wrap"))
    command = _command_words(options.command)
    records = ledger.read_ledger()
    chosen = (
        _all_entries(search, options.http)
        if options.all
        else [_named_entry(search, name, options.http) for name in dict.fromkeys(options.server)]
    )
    changes = Changes(goes_on=options.all, code=report_problems(search) if options.all else 0)
    report_misreadings(chosen)
    if not options.keep_path:
        report_start_faults(chosen)
    addresses = _ListenAddresses(records, options.listen)
    steps: dict[str, list[EntryPlan]] = {}
    for entry in chosen:
        with changes.planning():
            if step := _entry_plan(entry, command, records, addresses, keeps_path=options.keep_path):
                steps.setdefault(entry.file.real_path, []).append(step)
            elif not options.all:
                tell(f"{entry.name} is wrapped already ({short(entry.file.path)})")
    plans: list[FilePlan] = []
    for steps_of_file in steps.values():
        with changes.planning():
            plans.append(plan_file(steps_of_file))
    if not plans:
        if options.all and not changes.code:
            tell("nothing to wrap; mcpproxy hosts lists the servers")
        return changes.code
    if options.dry_run:
        emit(differences(plans), keeps_tabs=True)
        for step in (step for plan in plans for step in plan.steps):
            if command_to_run := _command_to_run(step):
                tell(f"{step.entry.name} would then need this, running all the time: {command_to_run}")
        return changes.code
    if options.all and not options.yes and not is_confirmed("wrap", plans):
        tell("nothing was written")
        return changes.code
    with ledger.locked_ledger() as book:
        recover_records(book)
        wrapped = list(changes.written(plans, wrap_file, book))
    emit(_wrapped_lines(wrapped))
    return changes.code


def _options(argv: list[str]) -> argparse.Namespace:
    parser = Parser("wrap", DESCRIPTION, EPILOG)
    parser.add_argument("server", nargs="*", metavar="SERVER", help="its name in the host's file")
    parser.add_argument(
        "--all", action="store_true", help="every server that is started by a command; asks first"
    )
    add_place_options(parser)
    parser.add_argument(
        "--command",
        metavar="'COMMAND ARG...'",
        help="the command by which the host starts mcpproxy, such as /opt/bin/mcpproxy",
    )
    parser.add_argument(
        "--keep-path",
        action="store_true",
        help="give the server the folder in which this terminal finds its command, for a host that lacks it",
    )
    parser.add_argument(
        "--http",
        action="store_true",
        help="also remote servers: point the host at mcpproxy http instead, which must then run",
    )
    parser.add_argument(
        "--model",
        action="store_true",
        help="SERVER is a host: point it at mcpproxy model, which must then run, or print how",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"with --http or --model: where that will listen (default: 127.0.0.1:{FIRST_PORT}, "
        f"for --model {model_options.LISTEN})",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and write nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    options = parser.parse_args(argv)
    if options.model:
        return options
    check_names_or_all("wrap", options)
    if options.listen and (not options.http or len(options.server) != 1):
        raise UsageError("wrap", "--listen is for one server", "use it with --http and the name of a server")
    if options.listen and split_listen("wrap", options.listen)[1] == 0:
        raise UsageError("wrap", "--listen needs a port that stays", f"for example 127.0.0.1:{FIRST_PORT}")
    return options


def _command_words(command: str | None) -> list[str]:
    """Return the words of ``--command``; empty without it.

    They must start mcpproxy in a way that ``wrapping_words`` recognises, so that unwrap finds the wrap later.

    Raises:
        UsageError: the words do not start mcpproxy.
    """
    try:
        words = shlex.split(command) if command else []
    except ValueError as fault:
        raise UsageError(
            "wrap", f"--command {command} cannot be read ({fault})", "quote it as for a shell"
        ) from None
    if words and wrapping_words([*words, "--label", "", "--", "server"]) != len(words) + 3:
        raise UsageError(
            "wrap", f"--command {command} does not start mcpproxy", "for example --command /opt/bin/mcpproxy"
        )
    return words


def _all_entries(search: Search, with_remote: bool) -> list[ServerEntry]:
    """Return every server that can be wrapped."""
    return [entry for entry in search.entries if not _obstacle(entry, with_remote)]


def _named_entry(search: Search, name: str, with_remote: bool) -> ServerEntry:
    """Return the server ``name``.

    Raises:
        UsageError: there is no such server, or it cannot be wrapped.
    """
    entry = find_entry(search.entries, name, search)
    if obstacle := _obstacle(entry, with_remote):
        step = (
            "with --http its host can be pointed at mcpproxy http instead"
            if entry.url and not entry.row.leave and not with_remote
            else "mcpproxy hosts lists what can be wrapped"
        )
        raise UsageError(entry.file.path, f"{name} is left alone: {obstacle}", step)
    return entry


def _obstacle(entry: ServerEntry, with_remote: bool) -> str:
    """Return why a server cannot be wrapped; empty if it can. ``row.leave`` forbids all entries of a file.

    A remote server can be wrapped only ``with_remote``.
    """
    if with_remote and entry.url and not entry.row.leave:
        return "" if address_of(entry.url) else "remote, at a URL with variables or a user in it"
    return entry.reason


class _ListenAddresses:
    """Chooses the address for each remote server at which its ``mcpproxy http`` will listen."""

    def __init__(self, records: Ledger, wanted: str | None) -> None:
        self._wanted = wanted
        self._taken: set[int] = set()
        self._used = {record.listen: record for record in records.records.values()}

    def choose_address(self, former: WrapRecord | None) -> str:
        """Return an address: the one that the user has named, that of the ``former`` wrap, or an unused one.

        Raises:
            UsageError: another server has the address that the user has named.
        """
        if self._wanted:
            if (other := self._used.get(self._wanted)) and other.place != (former and former.place):
                raise UsageError(self._wanted, f"the address of {other.name}", "choose another with --listen")
            return self._wanted
        if former and former.listen:
            return former.listen
        port = FIRST_PORT
        while f"127.0.0.1:{port}" in self._used or port in self._taken:
            port += 1
        self._taken.add(port)
        return f"127.0.0.1:{port}"


def _entry_plan(
    entry: ServerEntry,
    command: Sequence[str],
    records: Ledger,
    addresses: _ListenAddresses,
    *,
    keeps_path: bool,
) -> EntryPlan | None:
    """Return the plan to wrap a server; ``None`` if it is wrapped already.

    ``command`` is as for ``plan_wrap``. With ``keeps_path``, the server gets the folder of its command.

    Raises:
        HostFileError: it cannot be wrapped.
        UsageError: another server has the address that the user has named.
    """
    record = records.records.get(entry.place)
    record = record and (wrap_of(entry, record) or record)
    if entry.url_at is None:
        return plan_wrap(entry, command, record, folder_of_command(entry) if keeps_path else "")
    return None if is_wrapped(entry, record) else plan_http_wrap(entry, addresses.choose_address(record))


def _wrapped_lines(plans: Sequence[FilePlan]) -> Iterator[str]:
    """Yield lines about the wrapped servers, and what the user has to do now."""
    steps = [step for plan in plans for step in plan.steps]
    for step in steps:
        entry = step.entry
        yield f"wrapped {visible(entry.name)} of {entry.host.name} in {visible(short(entry.file.path))}"
        for caution in entry.cautions:
            yield f"  note: {caution}"
        if command_to_run := _command_to_run(step):
            yield f"  it now needs this, running all the time: {visible(command_to_run)}"
            yield "  a sign-in that the host has done for the former address does not hold for this one"
    yield from dict.fromkeys(text for step in steps for text in _advice_lines(step))
    if steps:
        yield f"recordings will be in {visible(short(paths.state_dir()))}; mcpproxy list shows them"
        if os.environ.get("XDG_STATE_HOME"):
            yield "if a host does not pass XDG_STATE_HOME on, they will be in ~/.local/state/mcpproxy"


def _command_to_run(step: EntryPlan) -> str:
    """Return the command that must run while a remote server is wrapped; empty for any other server."""
    address = address_of(step.entry.url) if step.record and step.record.listen else None
    if step.record is None or address is None:
        return ""
    return proxy_command(address, step.record.listen, step.entry.label)


def _advice_lines(step: EntryPlan) -> Iterator[str]:
    """Yield lines that the user has to know about the host and the file of a wrapped server."""
    entry = step.entry
    yield f"{entry.host.name}: {entry.host.restart}"
    if entry.host.approval and entry.row.scope in entry.host.approval_scopes:
        yield f"{entry.host.name}: {entry.host.approval}"
    if entry.host.note:
        yield f"{entry.host.name}: {entry.host.note} mcpproxy hosts tells when a wrap is gone."
    if step.argv[:1] == ("mcpproxy",):
        place = visible(short(entry.file.path))
        yield f"{place} is under version control: others who use it need mcpproxy on their path, too"
    if entry.row.readers:
        yield f"{visible(short(entry.file.path))} is read by {entry.row.readers}"
