"""``mcpproxy hosts --add-mcp`` and ``--remove-mcp``: give the agent of a host recordings and a skill.

The recordings come from the server ``mcpproxy mcp``. A skill is a text that tells an agent how to use it.
"""

import difflib
import sys

from mcpproxy.base.visible import visible
from mcpproxy.cli.commands.hosts.changes import ask
from mcpproxy.cli.commands.view import mcp
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.errors import UsageError
from mcpproxy.hosts import ledger, skill
from mcpproxy.hosts.choosing import Places, differences, search_chosen, short
from mcpproxy.hosts.config_writer import remove_draft, replace_content
from mcpproxy.hosts.host_table import Host
from mcpproxy.hosts.own_server import NAME, is_own, own_entry, plan_addition, plan_removal
from mcpproxy.hosts.plans import FilePlan


def add(places: Places, *, is_dry: bool, asks: bool) -> int:
    """Add ``mcpproxy mcp`` and the skill to the user's files of the host that ``places`` names.

    With ``asks``, the user is asked before the skill is added. With ``is_dry``, the changes are only printed.
    Return the exit code, which is 0.

    Raises:
        McpProxyError: there is no such host or file, or it cannot be written; then it is unchanged.
    """
    (host,) = places.chosen_hosts()
    entry = own_entry(host)
    plan = plan_addition(entry)
    if is_dry:
        emit(differences([plan]), keeps_tabs=True)
        _show_skill(host)
        return 0
    _write_plan(plan, entry.row.lock)
    emit([f"added {NAME} to {visible(short(plan.file.path))}; {host.restart}"])
    try:
        mcp.check_installed()
    except UsageError as missing:  # the entry is right, but would not start
        tell(str(missing))
    _add_skill(host, asks=asks)
    return 0


def remove(places: Places, *, is_dry: bool) -> int:
    """Remove every entry that starts ``mcpproxy mcp`` from the files of the host that ``places`` names.

    The skill that was added to the host is removed, too. With ``is_dry``, the changes are only printed.
    Return 2 if a file could not be searched.

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
    for entry in chosen:
        plan = plan_removal(entry)
        if is_dry:
            emit(differences([plan]), keeps_tabs=True)
            continue
        _write_plan(plan, entry.row.lock)
        emit([f"removed {visible(entry.name)} from {visible(short(plan.file.path))}; {host.restart}"])
    _remove_skill(host, is_dry=is_dry)
    return 2 if search.problems else 0


def _add_skill(host: Host, *, asks: bool) -> None:
    """Write the skill for agents into the host if the user wants it, or print where its text is."""
    path = skill.place_of(host)
    if not path:
        tell(f"a skill for its agent is in {skill.SOURCE}; put it where {host.name} looks for skills")
        return
    skill.check_free(path)
    if asks and not sys.stdin.isatty():
        why = "there is no terminal to ask on; add --yes"
        tell(f"the skill for its agent was not added to {short(path)}: {why}")
        return
    if asks and not ask(
        f"add a skill for its agent, {short(path)} ({len(skill.skill_text()):,} characters)?"
    ):
        return
    with ledger.locked_ledger():
        skill.add_skill(path)
    emit([f"added the skill {visible(short(path))}"])


def _show_skill(host: Host) -> None:
    """Print the skill as a new file, as a unified diff."""
    if path := skill.place_of(host):
        emit(difflib.unified_diff([], skill.skill_text().splitlines(), "/dev/null", path, lineterm=""))


def _remove_skill(host: Host, *, is_dry: bool) -> None:
    """Remove the skill that ``--add-mcp`` added, if it is there."""
    path = skill.place_of(host)
    if not path or not skill.is_added(path):
        return
    if is_dry:
        tell(f"the skill {short(path)} would be removed, too")
        return
    with ledger.locked_ledger():
        if skill.remove_skill(path):
            emit([f"removed the skill {visible(short(path))}"])


def _write_plan(plan: FilePlan, lock: str) -> None:
    with ledger.locked_ledger():  # drafts are written by one process at a time
        remove_draft(plan.file.real_path)
        replace_content(plan.file, plan.content, lock)
