"""What a shell offers after a tab. Its script starts mcpproxy to ask, so names of servers are offered, too.

``mcpproxy completion SHELL`` prints the script that makes a shell ask.
"""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import argcomplete

from mcpproxy.cli.completion.all_parsers import Groups, whole_parser
from mcpproxy.errors import McpProxyError

Completer = Callable[..., Iterable[str]]


def answer(groups: Groups) -> None:
    """Answer the shell and leave the process, if it is a shell that asks."""
    line = os.environ.get("COMP_LINE", "")
    parser = whole_parser(groups, only=line.split()[1:2])
    for action in _actions(parser):
        is_rules_folder = action.dest == "rules" and action.option_strings
        if (completer := COMPLETERS.get(action.dest)) and not is_rules_folder:
            action.completer = completer  # pyright: ignore[reportAttributeAccessIssue] # where argcomplete looks
    argcomplete.autocomplete(parser, always_complete_options="long")


def _servers(**_asked: object) -> Iterable[str]:
    from mcpproxy.hosts.server_entries import search

    try:
        return sorted({entry.name for entry in search(os.getcwd()).entries})
    except (McpProxyError, OSError):
        return ()


def _hosts(**_asked: object) -> Iterable[str]:
    from mcpproxy.hosts.host_table import all_hosts

    return [host.id for host in all_hosts()]


def _rules(**_asked: object) -> Iterable[str]:
    from mcpproxy.ruleset.catalogue import load

    return list(load().rules)


COMPLETERS: Final[Mapping[str, Completer]] = {
    "server": _servers,
    "host": _hosts,
    "rules": _rules,
}
"""The name of an argument -> what to offer for it. For all others files are offered."""


def _actions(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] # argparse has no other way to list them
        yield action
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage] # as above
            inner = cast("Mapping[str, argparse.ArgumentParser]", cast("Any", action).choices)
            for one in inner.values():
                yield from _actions(one)
