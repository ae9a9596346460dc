"""``mcpproxy fleet``: what the recordings of many servers and clients say together."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import Style
from mcpproxy.cli import output
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.fleet.columns import columns_installed
from mcpproxy.reports.text_table import table

if TYPE_CHECKING:
    from mcpproxy.fleet.columns.fleet_report import QueryAnswer

EPILOG: Final = """\
COLUMNS is the folder that mcpproxy export parquet wrote. The report says which server breaks which rule, and
since when; how long the calls of each tool take; which tools have changed; which clients break the protocol;
what the definitions of tools cost a model; and who still speaks the first revision. The queries are in
mcpproxy/fleet/columns/report_queries, for your own.

  mcpproxy fleet report columns/
  mcpproxy fleet report columns/ --format html -o fleet.html"""

_MOST_ROWS: Final = 20
_FORMATS: Final = ("text", "json", "html")


def run(argv: list[str]) -> int:
    """Run ``fleet report``.

    Raises:
        McpProxyError: the arguments are not valid, or the tables cannot be read.
    """
    parser = Parser("fleet", "Report on the recordings of many servers and clients together.", EPILOG)
    parser.add_argument("part", choices=("report",), metavar="report", help="the only part so far")
    parser.add_argument("folder", metavar="COLUMNS", help="a folder of tables")
    parser.add_argument("--format", choices=_FORMATS, default="text", help="what to print (text)")
    parser.add_argument("-o", "--output", metavar="FILE", help="put the report there")
    options = parser.parse_args(argv)
    columns_installed.check("fleet report", "duckdb", "pyarrow")
    if options.output:
        output.check_writable(options.output)

    from mcpproxy.fleet.columns import fleet_report

    answers = fleet_report.report(options.folder)
    style = Style() if options.output else terminal_style()
    lines = _lines(options.folder, answers, options.format, style)
    if options.output:
        output.write(options.output, lines)
        tell(f"report: {options.output}")
    else:
        emit(lines)
    return 0


def _lines(folder: str, answers: "Sequence[QueryAnswer]", format: str, style: Style) -> Iterator[str]:
    if format == "json":
        from mcpproxy.fleet.columns.fleet_report import as_object

        yield json.dumps(as_object(answers), indent=2)
    elif format == "html":
        from mcpproxy.fleet.columns import fleet_report_html

        yield from "".join(
            fleet_report_html.pieces(os.path.basename(os.path.abspath(folder)), answers)
        ).splitlines()
    else:
        yield from _text(answers, style)


def _text(answers: "Sequence[QueryAnswer]", style: Style) -> Iterator[str]:
    for number, answer in enumerate(answers):
        if number:
            yield ""
        yield style.paint(answer.title, "bold")
        rows = answer.texts()
        if not rows:
            yield "none"
            continue
        heads = tuple(name.replace("_", " ").upper() for name in answer.columns)
        yield from table([heads, *rows[:_MOST_ROWS]], style, right=answer.right)
        if len(rows) > _MOST_ROWS:
            yield f"{len(rows) - _MOST_ROWS:,} more: see --format json"
