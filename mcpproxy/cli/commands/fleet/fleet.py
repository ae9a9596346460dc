"""``mcpproxy fleet``: what the recordings of many servers and clients say together."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from mcpproxy.base import extras
from mcpproxy.base.style import Style, count
from mcpproxy.cli import output
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.read.reports.text_table import table
from mcpproxy.send.fleet import urls

if TYPE_CHECKING:
    from mcpproxy.send.fleet.columns.query_answer import QueryAnswer

EPILOG: Final = """\
PLACE is the folder or URL that mcpproxy export parquet wrote. The report says which server breaks which rule,
and since when; how long the calls of each tool take; which tools have changed; which clients break the
protocol; what the definitions of tools cost a model; and who still speaks the first revision. The queries are
in mcpproxy/send/fleet/columns/report_queries, for your own.

PLACE may also be the URL to which mcpproxy ship ships. Then nothing but the manifests is read: what was
recorded of each server, findings for each rule, and who still speaks the first revision.

  mcpproxy fleet report columns/
  mcpproxy fleet report columns/ --format html -o fleet.html
  mcpproxy fleet report s3://bucket/mcp

exit codes: 0 the report is made, 2 it is not, or something there could not be read"""

_MOST_ROWS: Final = 20
"""How many rows of an answer are printed as text."""
_FORMATS: Final = ("text", "json", "html")


def run(argv: list[str]) -> int:
    """Run ``fleet report``; return 2 if a manifest could not be read.

    Raises:
        McpProxyError: the arguments are not valid, PLACE cannot be read, or the report cannot be written.
    """
    parser = Parser("fleet", "Report on the recordings of many servers and clients together.", EPILOG)
    parser.add_argument("part", choices=("report",), metavar="report", help="the only part so far")
    parser.add_argument("place", metavar="PLACE", help="the tables, or the URL of what was shipped")
    parser.add_argument("--format", choices=_FORMATS, default="text", help="what to print (default: text)")
    parser.add_argument("-o", "--output", metavar="FILE", help="put the report there")
    options = parser.parse_args(argv)
    if options.output:
        output.check_writable(options.output)
    answers, notes, code = _answers(options.place)
    style = Style() if options.output else terminal_style()
    lines = _lines(options.place, answers, options.format, style)
    if options.output:
        output.write(options.output, lines)
        tell(f"report: {options.output}")
    else:
        emit(lines)
    for note in notes:
        tell(note)
    return code


def _answers(place: str) -> "tuple[Sequence[QueryAnswer], list[str], int]":
    """Return the answers from the tables or manifests at ``place``, lines for stderr, and the exit code.

    Raises:
        McpProxyError: neither tables nor manifests are there, or they cannot be read.
    """
    shipped = "" if urls.is_url(place) or not os.path.isdir(os.path.join(place, "manifests")) else place
    if not urls.is_url(place) and not shipped:
        return _from_tables(place), [], 0
    url = f"file://{os.path.abspath(shipped)}" if shipped else place
    urls.check("fleet report", url)

    from mcpproxy.send.fleet.columns import manifest_report
    from mcpproxy.send.fleet.store import Store

    store = Store(url)
    if not manifest_report.has_manifests(store):
        from mcpproxy.send.fleet.columns.places import StorePlace, fetch_tables

        if not StorePlace(url).has_tables():
            raise UsageError(place, "holds neither tables nor what was shipped", "name one of the two")
        with fetch_tables(url) as folder:
            return _from_tables(folder), [], 0
    report = manifest_report.answer_from_manifests(store)
    more = f"from {count(report.manifests, 'manifest')}; tables answer more: mcpproxy export parquet {place}"
    return report.answers, [*report.faults, more], 2 if report.faults else 0


def _from_tables(folder: str) -> "Sequence[QueryAnswer]":
    extras.check("fleet report", "fleet", "duckdb", "pyarrow")
    from mcpproxy.send.fleet.columns import report

    return report.answer_queries(folder)


def _lines(place: str, answers: "Sequence[QueryAnswer]", format: str, style: Style) -> Iterator[str]:
    """Yield the answers in the format that the user wants. ``place`` is the folder or the URL."""
    if format == "json":
        from mcpproxy.send.fleet.columns.query_answer import as_object

        yield json.dumps(as_object(answers), indent=2)
    elif format == "html":
        from mcpproxy.send.fleet.columns import report_html
        from mcpproxy.show.ui.page_file import style_sheet

        name = place if urls.is_url(place) else os.path.basename(os.path.abspath(place))
        yield from "".join(report_html.pieces(name, answers, style_sheet())).splitlines()
    else:
        yield from _text_lines(answers, style)


def _text_lines(answers: "Sequence[QueryAnswer]", style: Style) -> Iterator[str]:
    """Yield the answers as tables with headings, each cut after ``_MOST_ROWS``."""
    for number, answer in enumerate(answers):
        if number:
            yield ""
        yield style.paint(answer.title, "bold")
        rows = answer.texts()
        if not rows:
            yield "none"
            continue
        heads = tuple(map(str.upper, answer.heads))
        yield from table([heads, *rows[:_MOST_ROWS]], style, right=answer.number_columns)
        if len(rows) > _MOST_ROWS:
            yield f"{len(rows) - _MOST_ROWS:,} more: see --format json"
