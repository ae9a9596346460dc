"""Shared by ``mcpproxy diff`` and ``mcpproxy replay client``: comparison options and the report."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.cli import report_options
from mcpproxy.cli.http_sessions import called
from mcpproxy.cli.terminal import emit, style, tell
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.replay.diff.comparison import Comparison
from mcpproxy.replay.diff.session_diff import Pairing, compare_sessions, pair_requests
from mcpproxy.replay.diff.values import MATCHERS, DiffRules
from mcpproxy.replay.recording import RecordedSession
from mcpproxy.replay.server.replay_source import ReplaySource, merged
from mcpproxy.reports import comparison as reports

EPILOG: Final = """\
What differs each time counts for nothing: ids, _meta of a message, progress tokens, the version in
serverInfo, and of cursors, request states, names and times of tasks all but that they are there.

exit codes: 0 all the same, 1 differences, 2 it could not be run
"""


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """What is compared: rules for values, and methods that are left out."""

    rules: DiffRules
    leaves_out: tuple[str, ...] = ()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a comparison."""
    add = parser.add_argument
    add(
        "--ignore",
        metavar="POINTER|METHOD",
        action="append",
        default=[],
        type=_ignored,
        help="what does not count: /result/structuredContent/now, with * for one step and /** at the end for "
        "all below; or a method, such as notifications/progress",
    )
    add(
        "--alike",
        metavar="KIND,...",
        action="append",
        default=[],
        type=_alike,
        help="texts may differ in these: timestamps, uuids, paths",
    )
    report_options.add_format(parser, report_options.COMPARISON_FORMATS)


def counting(options: argparse.Namespace) -> ComparisonRules:
    """Return the comparison rules that the arguments give."""
    ignored: list[str] = options.ignore
    alike = tuple(dict.fromkeys(name for names in options.alike for name in names))
    rules = DiffRules(tuple(each for each in ignored if each.startswith("/")), alike)
    return ComparisonRules(rules, tuple(each for each in ignored if not each.startswith("/")))


def sessions_of(material: ReplaySource) -> list[RecordedSession]:
    """Return the recording split into sessions; what precedes the first session id is in the first."""
    unnamed = material.unnamed
    if not material.sessions:
        return [unnamed] if unnamed.messages else []
    if not unnamed.messages:
        return list(material.sessions)
    asked = any(isinstance(said.message, Request) for said in unnamed.messages)
    if not asked:
        return [merged([unnamed, material.sessions[0]]), *material.sessions[1:]]
    return sorted((unnamed, *material.sessions), key=lambda session: session.messages[0].seq)


def chosen(path: str, sessions: Sequence[RecordedSession], id: str) -> RecordedSession:
    """Return the one of ``sessions`` whose name begins with ``id``; ``path`` is their file, for errors.

    Raises:
        UsageError: there is none, or more than one.
    """
    return called(path, id, {session.name: session for session in sessions if session.name})


def compare(
    into: Comparison,
    expected: RecordedSession | None,
    found: RecordedSession | None,
    how: ComparisonRules,
    pairing: Pairing | None = None,
) -> None:
    """Add the items of two sessions; ``None`` for one that does not exist."""
    expected, found = expected or RecordedSession(), found or RecordedSession()
    pairing = pairing or pair_requests(expected, found, how.rules)
    name = expected.name or found.name
    items = compare_sessions(expected, found, pairing, how.rules, how.leaves_out)
    into.items += [replace(item, session=name) for item in items] if name else items


def report(comparison: Comparison, format: str) -> int:
    """Print a comparison, and its notes to stderr; return the exit code."""
    match format:
        case "json":
            emit(reports.as_json(comparison))
        case "junit":
            emit(reports.junit(comparison))
        case _:
            emit(reports.text(comparison, style()))
    for note in comparison.notes:
        tell(note)
    return 1 if comparison.differs else 0


def _ignored(text: str) -> str:
    if text.startswith("/") or ("/" in text and " " not in text) or text in ("ping", "initialize"):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither a JSON Pointer such as /result/now nor a method")


def _alike(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in MATCHERS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(MATCHERS)}")
    return names
