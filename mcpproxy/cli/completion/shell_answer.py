"""Complete a command line for a shell.

The script that ``mcpproxy completion SHELL`` prints makes the shell start mcpproxy after a tab. So the answer
can contain what is known only at that time, such as the names of the user's servers.
"""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import argcomplete

from mcpproxy.base.visible import visible
from mcpproxy.cli.completion.all_parsers import Groups, whole_parser
from mcpproxy.errors import McpProxyError

Completer = Callable[..., Iterable[str]]


def answer_shell(groups: Groups) -> None:
    """If a shell has started this process for a completion, print the completion and exit."""
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
        names = {entry.name for entry in search(os.getcwd()).entries}
    except (McpProxyError, OSError):
        return ()
    # The shell writes them to the terminal, and anybody may have named a server of a project.
    return sorted(name for name in names if name == visible(name))


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
"""The name of an argument -> a function that returns its possible values. For other arguments, files are
offered.
"""


def _actions(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] # argparse has no other way to list them
        yield action
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage] # as above
            inner = cast("Mapping[str, argparse.ArgumentParser]", cast("Any", action).choices)
            for one in inner.values():
                yield from _actions(one)
