"""``mcpproxy versions``: list which implementation used which protocol revision in recordings."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.base import paths
from mcpproxy.base.style import Style
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.opt_in.implementations import SpokenRevision, collector
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports.text_table import fitted, table, table_width, without_day

EPILOG: Final = """\
The numbers count recordings. To have check report other versions than those you have tested, write
ranges of versions into a file, one table per revision, or [any] for all revisions:

  ["2025-11-25"]
  files = ">=1.2,<3"

  mcpproxy check recordings/ --versions ranges.toml"""

Key = tuple[str, str | None, str]
"""An implementation: its name, its version or ``None``, and its role (``client`` or ``server``)."""
Matrix = Mapping[Key, Mapping[str, int]]
"""Implementation -> revision -> number of recordings."""


def run(argv: list[str]) -> int:
    """Print which implementations spoke which revisions. Return 2 if a recording could not be read.

    The recordings are those that the arguments name, or those in the state directory.

    Raises:
        McpProxyError: the arguments are not valid, or there are no recordings.
    """
    parser = Parser("versions", "List which implementation spoke which protocol revision.", EPILOG)
    parser.add_argument("paths", nargs="*", metavar="TRACE|DIR", help="recordings, or folders of them")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="what to print (default: text)"
    )
    options = parser.parse_args(argv)
    sources: list[str] = options.paths or find_traces.recent(paths.state_dir())
    if not sources:
        raise UsageError(paths.state_dir(), "nothing recorded yet", find_traces.RECORD_STEP)
    matrix, unreadable = version_matrix(find_traces.every(sources))
    if options.format == "json":
        emit(as_json(matrix))
    elif matrix or not unreadable:
        emit(as_table(matrix, terminal_style()))
    return 2 if unreadable else 0


def version_matrix(recordings: list[str]) -> tuple[Matrix, int]:
    """Return the matrix of ``recordings``, and how many of them could not be read; stderr says why."""
    matrix: defaultdict[Key, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    unreadable = 0
    for path in recordings:
        try:
            spoken = implementations(path)
        except McpProxyError as error:
            tell(str(error))
            unreadable += 1
            continue
        # As a set, because a recording counts once.
        for name, version, role, revision in {(s.name, s.version, s.role, s.revision) for s in spoken}:
            matrix[name, version, role][revision] += 1
    return matrix, unreadable


def implementations(path: str) -> set[SpokenRevision]:
    """Return which implementations spoke which revisions in one recording.

    Raises:
        TraceError: the recording cannot be read.
    """
    trace, spoken = open_trace(path), set[SpokenRevision]()
    observer = Observer(catalogue.load(), Dispatch([collector(spoken.add)]), joined_late=trace.joined_late)
    for event in trace.events():
        if not isinstance(event, Finding):
            observer.observe(event)
    return spoken


def as_table(matrix: Matrix, style: Style) -> Iterator[str]:
    """Yield a line per implementation, with a column per revision."""
    if not matrix:
        yield "no implementation gave its name in these recordings"
        return
    rows: list[tuple[str, ...]] = [("NAME", "VERSION", "ROLE", *REVISIONS)]
    for (name, version, role), spoken in _sorted_rows(matrix):
        counts = (str(spoken[revision]) if revision in spoken else "-" for revision in REVISIONS)
        rows.append((visible(name), "-" if version is None else visible(version), role, *counts))
    if style.width is not None and table_width(rows) > style.width:
        rows[0] = tuple(without_day(heading) for heading in rows[0])
    left_out = ("ROLE", "VERSION", *rows[0][3:-1])  # of the revisions the oldest first
    yield from table(fitted(rows, style, cut=("NAME",), left_out=left_out), style)


def as_json(matrix: Matrix) -> list[str]:
    """Return ``matrix`` as JSON. Revisions that an implementation did not use are left out."""
    listed = [
        {"name": name, "version": version, "role": role, "revisions": dict(sorted(spoken.items()))}
        for (name, version, role), spoken in _sorted_rows(matrix)
    ]
    return [json.dumps({"implementations": listed}, indent=2)]


def _sorted_rows(matrix: Matrix) -> list[tuple[Key, Mapping[str, int]]]:
    return sorted(matrix.items(), key=lambda item: (item[0][0], item[0][1] or "", item[0][2]))
