"""``wrap HOST --model`` and ``unwrap HOST --model``: put ``mcpproxy model``, a proxy, before its model."""

import argparse
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.cli.address_arguments import split_listen
from mcpproxy.cli.commands.hosts.changes import rest_of_file
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.errors import UsageError
from mcpproxy.hosts import ledger
from mcpproxy.hosts.choosing import Places, differences, short
from mcpproxy.hosts.host_table import Host, ModelSetting, all_hosts
from mcpproxy.hosts.models.records import setting_records
from mcpproxy.hosts.models.setting import (
    ByHandError,
    forget,
    is_written,
    plan_setting,
    plan_undo,
    setting_of,
    undo_setting,
    usual_service,
    write_setting,
)
from mcpproxy.hosts.remote import address_of

LISTEN: Final = "127.0.0.1:8766"
"""Where ``mcpproxy model`` listens by default."""

_SERVER_OPTIONS: Final = ("all", "yes", "host", "file", "key", "project", "command", "http")
"""Options that concern servers, and are refused with ``--model``."""


def point(options: argparse.Namespace) -> int:
    """Point the host that ``options`` names at ``mcpproxy model``, or print what the user has to set.

    With ``--dry-run``, the change is only printed. Return the exit code, which is 0.

    Raises:
        McpProxyError: the options do not fit together, there is no such host, or its file cannot be written;
            then it is unchanged.
    """
    host = _host("wrap", options)
    listen: str = options.listen or LISTEN
    if split_listen("wrap", listen)[1] == 0:
        raise UsageError("wrap", "--listen needs a port that stays", f"for example {LISTEN}")
    setting = setting_of(host)
    try:
        plan = plan_setting(host, listen, setting_records())
    except ByHandError as reason:
        emit(_by_hand_lines(host, setting, listen, f"{short(reason.path)}: {reason.fact}"))
        return 0
    if plan is None:
        tell(f"{host.name} is pointed at {listen} already")
        return 0
    file, key = plan.record.file, ".".join(map(str, plan.record.at))
    url, command = plan.record.url.partition("?")[0], _model_command(plan.record.upstream, listen)
    if options.dry_run:
        emit(differences([plan.file_plan]), keeps_tabs=True)
        tell(f"{key} would be {url}; {host.name} would then need this, running all the time: {command}")
        return 0
    with ledger.locked_ledger():
        write_setting(plan)
    emit(
        [
            f"pointed {host.name} at {visible(url)}: {visible(key)} in {visible(short(file))}",
            f"  it now needs this, running all the time: {visible(command)}",
            f"  without it {host.name} reaches no model; mcpproxy unwrap {host.id} --model undoes this",
            f"{host.name}: {host.restart}",
            *([f"{host.name}: {setting.note}"] if setting.note else []),
        ]
    )
    return 0


def undo(options: argparse.Namespace) -> int:
    """Undo the change that ``point`` made for the host that ``options`` names.

    With ``--dry-run``, the change is only printed. Return the exit code, which is 0.

    Raises:
        McpProxyError: the options do not fit together, there is no such host, or a file cannot be written;
            then it is unchanged.
    """
    host = _host("unwrap", options)
    records = [record for (name, _), record in setting_records().items() if name == host.id]
    if not records:
        tell(f"{host.name} is not pointed at mcpproxy model; what was set by hand is taken out by hand")
    for record in records:
        plan, place = plan_undo(record), short(record.file)
        if plan is None:
            what = f"{host.name} is no longer pointed at {record.listen} in {place}"
            if options.dry_run:
                tell(what)
                continue
            with ledger.locked_ledger():
                forget(record)
            tell(f"{what}: this is forgotten")
            continue
        if options.dry_run:
            emit(differences([plan.file_plan]), keeps_tabs=True)
            continue
        with ledger.locked_ledger():
            undo_setting(plan)
        state = rest_of_file(is_original=plan.is_original)
        emit([f"{host.name} has its own address again in {visible(place)}: {state}"])
    return 0


def pointed_hosts() -> Iterator[str]:
    """Yield a line for each host that is pointed at ``mcpproxy model``.

    Raises:
        HostFileError: the records of such settings cannot be read.
    """
    names = {host.id: host.name for host in all_hosts()}
    for record in filter(is_written, setting_records().values()):
        needed = f"is pointed at mcpproxy model, which must run at {record.listen}"
        undone = f"mcpproxy unwrap {record.host} --model undoes this"
        yield f"{names.get(record.host, record.host)} {needed}; {undone}"


def _host(where: str, options: argparse.Namespace) -> Host:
    """Return the one host that the arguments name, for the command ``where``.

    Raises:
        UsageError: no host or several are named, or an option concerns servers.
    """
    if others := [f"--{name}" for name in _SERVER_OPTIONS if getattr(options, name, None)]:
        raise UsageError(where, f"{others[0]} is about servers, and --model about a host", "leave one out")
    if len(options.server) != 1:
        raise UsageError(
            where, "--model needs the name of one host", f"for example mcpproxy {where} codex --model"
        )
    (host,) = Places(where, options.server, None, None, None).chosen_hosts()
    return host


def _by_hand_lines(host: Host, setting: ModelSetting, listen: str, reason: str) -> Iterator[str]:
    yield f"nothing was written ({visible(reason)}); to point {host.name} at mcpproxy model, set"
    for line in setting.lines:
        yield f"  {line.format(base=f'http://{listen}')}"
    if setting.note:
        yield setting.note
    yield f"it then needs this, running all the time: {_model_command(usual_service(setting), listen)}"
    if not usual_service(setting):
        yield "URL is the address of the service that the host uses now"


def _model_command(service: str, listen: str) -> str:
    address = address_of(service)
    url = f"{address.scheme}://{address.netloc}" if address else "URL"
    return f"mcpproxy model {url}" + ("" if listen == LISTEN else f" --listen {listen}")
