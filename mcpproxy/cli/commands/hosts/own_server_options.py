"""``mcpproxy hosts --add-mcp`` and ``--remove-mcp``: recordings for the agent of a host."""

from mcpproxy.base.visible import visible
from mcpproxy.cli.commands.view import mcp
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.errors import UsageError
from mcpproxy.hosts import ledger
from mcpproxy.hosts.choosing import Places, differences, search_chosen, short
from mcpproxy.hosts.config_writer import remove_draft, replace_content
from mcpproxy.hosts.own_server import NAME, is_own, own_entry, plan_addition, plan_removal
from mcpproxy.hosts.plans import FilePlan


def add(places: Places, *, is_dry: bool) -> int:
    """Add ``mcpproxy mcp`` to the user's file of the host that ``places`` names.

    Raises:
        McpProxyError: there is no such host or file, or it cannot be written; then it is unchanged.
    """
    (host,) = places.chosen_hosts()
    entry = own_entry(host)
    plan = plan_addition(entry)
    if is_dry:
        emit(differences([plan]), keeps_tabs=True)
        return 0
    _write_plan(plan, entry.row.lock)
    emit([f"added {NAME} to {visible(short(plan.file.path))}; {host.restart}"])
    try:
        mcp.check_installed()
    except UsageError as missing:  # the entry is right, but would not start
        tell(str(missing))
    return 0


def remove(places: Places, *, is_dry: bool) -> int:
    """Remove every entry that starts ``mcpproxy mcp`` from the files of the host that ``places`` names.

    Raises:
        McpProxyError: there is no such host, or a file cannot be written, which is then unchanged.
    """
    (host,) = places.chosen_hosts()
    search = search_chosen(places)
    chosen = [entry for entry in search.entries if is_own(entry)]
    for problem in search.problems:
        tell(str(problem))
    if not chosen:
        tell(f"no server of {host.name} starts mcpproxy mcp")
        return 2 if search.problems else 0
    for entry in chosen:
        plan = plan_removal(entry)
        if is_dry:
            emit(differences([plan]), keeps_tabs=True)
            continue
        _write_plan(plan, entry.row.lock)
        emit([f"removed {visible(entry.name)} from {visible(short(plan.file.path))}; {host.restart}"])
    return 2 if search.problems else 0


def _write_plan(plan: FilePlan, lock: str) -> None:
    with ledger.locked_ledger():  # drafts are written by one process at a time
        remove_draft(plan.file.real_path)
        replace_content(plan.file, plan.content, lock)
