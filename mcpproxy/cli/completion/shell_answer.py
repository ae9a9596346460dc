"""Complete a command line for a shell.

The script that ``mcpproxy completion SHELL`` prints makes the shell start mcpproxy after a tab. So the answer
can contain facts of the moment, such as the names of the user's servers.
"""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import argcomplete
from argcomplete.completers import FilesCompleter

from mcpproxy.base import paths
from mcpproxy.base.visible import visible
from mcpproxy.cli.completion.all_parsers import Groups, whole_parser
from mcpproxy.errors import McpProxyError

Completer = Callable[..., Iterable[str]]
"""A function that returns the possible values of an argument; it is called with keyword arguments."""


def answer_shell(groups: Groups) -> None:
    """If a shell has started this process for a completion, print the completion and exit."""
    words = os.environ.get("COMP_LINE", "").split()[1:2]
    is_run = bool(words) and words[0].startswith("-")  # ``run`` may be left out
    parser = whole_parser(groups, only=words, with_run=is_run)
    for action in _actions(parser):
        completer = COMPLETERS.get(action.dest)
        if action.dest == "rules" and action.option_strings:
            completer = None  # a folder
        elif _is_recording(action):
            completer = _recordings
        elif action.metavar == "RULE,...":
            completer = _rule_list
        if completer:
            action.completer = completer  # pyright: ignore[reportAttributeAccessIssue] # argcomplete reads it
    argcomplete.autocomplete(parser, always_complete_options="long")


def _servers(**_context: object) -> Iterable[str]:
    from mcpproxy.hosts.server_entries import search

    try:
        names = {entry.name for entry in search(os.getcwd()).entries}
    except (McpProxyError, OSError):
        return ()
    # The shell writes them to the terminal, and anybody may have named a server of a project.
    return sorted(name for name in names if name == visible(name))


def _hosts(**_context: object) -> Iterable[str]:
    from mcpproxy.hosts.host_table import all_hosts

    return [host.id for host in all_hosts()]


def _rules(**_context: object) -> Iterable[str]:
    from mcpproxy.judge.ruleset.catalogue import load

    return list(load().rules)


def _rule_list(prefix: str, **_context: object) -> Iterable[str]:
    """Return the list ``prefix`` completed with each rule."""
    before, comma, _ = prefix.rpartition(",")
    return [f"{before}{comma}{rule}" for rule in _rules()]


def _dialects(**_context: object) -> Iterable[str]:
    from mcpproxy.model.dialect import DIALECTS

    return list(DIALECTS)


def _is_recording(action: argparse.Action) -> bool:
    """Whether an argument names a recording. ``--trace`` of a session names a new file."""
    metavar = str(action.metavar)
    is_named_so = metavar.partition("|")[0] == "TRACE" or action.dest.endswith("_recordings")
    return is_named_so or (metavar in ("A", "B", "MODEL") and not action.option_strings)


def _recordings(prefix: str, **_context: object) -> Iterable[str]:
    """Return the labels of the recordings in the state directory, and files."""
    files: list[str] = FilesCompleter()(prefix)
    return [*_labels(), *files]


def _labels(**_context: object) -> Iterable[str]:
    from mcpproxy.cli import find_traces

    try:
        recorded = find_traces.recent(paths.state_dir())
    except McpProxyError:
        recorded = []
    return sorted({find_traces.label_of(path) for path in recorded} - {""})


def _filter_terms(prefix: str, **_context: object) -> Iterable[str]:
    """Return the keys of filter terms but ``text``, or the values that the key before the cursor may have."""
    from mcpproxy.judge.session.filter import CHOICES, KEYS

    before, _, term = prefix.rpartition(" ")
    key, colon, _ = term.removeprefix("-").partition(":")
    start = f"{before} " if before else ""
    negation = "-" if term.startswith("-") else ""
    if not colon:
        return [f"{start}{negation}{name}:" for name in KEYS if name != "text"]
    return [f"{start}{negation}{key}:{word}" for word in CHOICES.get(key, ())]


COMPLETERS: Final[Mapping[str, Completer]] = {
    "filter": _filter_terms,
    "server": _servers,
    "host": _hosts,
    "add_mcp": _hosts,
    "remove_mcp": _hosts,
    "label": _labels,
    "dialect": _dialects,
    "rules": _rules,
}
"""Name of an argument -> a function that returns its possible values.

``answer_shell`` adds those of recordings and of lists of rules. Other arguments complete to their choices, or
to files."""


def _actions(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] # argparse has no other way to list them
        yield action
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage] # as above
            inner = cast("Mapping[str, argparse.ArgumentParser]", cast("Any", action).choices)
            for subparser in inner.values():
                yield from _actions(subparser)
