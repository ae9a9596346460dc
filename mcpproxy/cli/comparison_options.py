"""The options and the report of a comparison, for ``mcpproxy diff`` and ``replay client``."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.cli import report_options
from mcpproxy.cli.http_sessions import find_session
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.peers.replay.diff import comparison_report as reports
from mcpproxy.peers.replay.diff.comparison import Comparison
from mcpproxy.peers.replay.diff.session_diff import Pairing, compare_sessions, pair_requests
from mcpproxy.peers.replay.diff.values import MATCHERS, DiffRules
from mcpproxy.peers.replay.recording import RecordedSession

EPILOG: Final = """\
Values that differ in every run do not count: ids, _meta of a message, progress tokens, the version in
serverInfo. Of cursors, request states, task ids and task times only the presence counts.

exit codes: 0 no difference, 1 differences, 2 the comparison could not be made
"""


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """What ``--ignore`` and ``--alike`` say: how values are compared, and which methods are not compared."""

    rules: DiffRules
    ignored_methods: tuple[str, ...] = ()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a comparison."""
    add = parser.add_argument
    add(
        "--ignore",
        metavar="POINTER|METHOD",
        action="append",
        default=[],
        type=_pointer_or_method,
        help="what does not count: a JSON Pointer such as /result/structuredContent/now (* is one step, "
        "/** at the end is all below), or a method such as notifications/progress",
    )
    add(
        "--alike",
        metavar="KIND,...",
        action="append",
        default=[],
        type=_kinds_alike,
        help="texts may differ in these: timestamps, uuids, paths",
    )
    report_options.add_format(parser, report_options.COMPARISON_FORMATS)


def rules_from(options: argparse.Namespace) -> ComparisonRules:
    """Return the comparison rules that the arguments give."""
    ignored: list[str] = options.ignore
    pointers = [item for item in ignored if item.startswith("/")]
    methods = [item for item in ignored if not item.startswith("/")]
    alike = tuple(dict.fromkeys(name for names in options.alike for name in names))
    rules = DiffRules(tuple(pointers), alike)
    return ComparisonRules(rules, tuple(methods))


def choose_session(path: str, sessions: Sequence[RecordedSession], id: str) -> RecordedSession:
    """Return the session whose name begins with ``id``; ``path`` is for error messages.

    Raises:
        UsageError: no session has such a name, or more than one.
    """
    return find_session(path, id, {session.name: session for session in sessions if session.name})


def compare(
    into: Comparison,
    expected: RecordedSession | None,
    found: RecordedSession | None,
    comparison_rules: ComparisonRules,
    pairing: Pairing | None = None,
) -> None:
    """Compare two sessions and add the compared items to ``into``; ``None`` is a session that one side lacks.

    ``pairing`` says which requests belong together; without it, they are paired here.
    """
    expected, found = expected or RecordedSession(), found or RecordedSession()
    pairing = pairing or pair_requests(expected, found, comparison_rules.rules)
    name = expected.name or found.name
    items = compare_sessions(
        expected, found, pairing, comparison_rules.rules, comparison_rules.ignored_methods
    )
    into.items += [replace(item, session=name) for item in items] if name else items


def report(comparison: Comparison, format: str) -> int:
    """Print a comparison, and its notes to stderr. Return the exit code, 1 if there are differences."""
    match format:
        case "json":
            emit(reports.json_lines(comparison))
        case "junit":
            emit(reports.junit_lines(comparison))
        case _:
            emit(reports.text_lines(comparison, terminal_style()))
    for note in comparison.notes:
        tell(note)
    return 1 if comparison.differs else 0


def _pointer_or_method(text: str) -> str:
    """Return a JSON Pointer or the name of a method: the type of an argument."""
    if text.startswith("/") or ("/" in text and " " not in text) or text in ("ping", "initialize"):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither a JSON Pointer such as /result/now nor a method")


def _kinds_alike(text: str) -> list[str]:
    """Return the kinds of values that may differ, given with commas: the type of an argument."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in MATCHERS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(MATCHERS)}")
    return names
