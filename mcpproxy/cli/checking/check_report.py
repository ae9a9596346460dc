"""Write the report of ``mcpproxy check`` to stdout or a file, in one of its formats."""

import os
from collections.abc import Iterable
from itertools import chain

from mcpproxy.base import paths
from mcpproxy.base.style import PLAIN, Style
from mcpproxy.base.visible import without_commands
from mcpproxy.cli import output
from mcpproxy.cli.terminal import emit
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.reports import text
from mcpproxy.read.reports.judged_traces import JudgedTraces, host_of


def report(
    verdict: JudgedTraces,
    catalogue: Catalogue,
    format: str,
    path: str | None,
    style: Style,
    *,
    streamed: bool,
) -> None:
    """Print the report, or write it to ``path``. With ``streamed``, all but the summary is printed already.

    With the format ``github``, also add it to the summary page of the GitHub Actions step.

    Raises:
        UsageError: the file cannot be written.
    """
    if path:
        output.write_with_summary(
            path, _as_lines(verdict, catalogue, format, PLAIN), text.summary_lines(verdict)
        )
    else:
        lines = (
            text.summary_lines(verdict, style) if streamed else _as_lines(verdict, catalogue, format, style)
        )
        emit(lines, has_commands=format == "github")
    if format == "github":
        output.add_to_step_summary(_markdown(verdict, catalogue))


def _markdown(verdict: JudgedTraces, catalogue: Catalogue) -> Iterable[str]:
    """Return the report in Markdown: a heading, the matrix of hosts, then the other findings."""
    from mcpproxy.read.reports import markdown

    heading = f"mcpproxy: {next(iter(text.summary_lines(verdict)), 'nothing was judged')}"
    hosts: Iterable[str] = ()
    matrix_ids = {id for id, _, _ in verdict.hosts}
    if matrix_ids:
        from mcpproxy.read.reports import host_matrix

        hosts = host_matrix.markdown_lines(host_matrix.rows_of_run(verdict))
    located_findings = (located for located in verdict.located if host_of(located.finding) not in matrix_ids)
    return markdown.lines(heading, located_findings, verdict.remarks, catalogue, hosts)


def _host_objects(verdict: JudgedTraces) -> list[dict[str, object]]:
    """Return the rows of the host matrix as JSON objects; none if the user named no hosts."""
    if not verdict.hosts:
        return []
    from mcpproxy.read.reports.host_matrix import as_objects, rows_of_run

    return as_objects(rows_of_run(verdict))


def _as_lines(verdict: JudgedTraces, catalogue: Catalogue, format: str, style: Style) -> Iterable[str]:
    match format:
        case "json":
            from mcpproxy.read.reports import json

            return json.lines(verdict)
        case "junit":
            from mcpproxy.read.reports import junit, suites

            return junit.lines(suites.suites(verdict, catalogue))
        case "sarif":
            from mcpproxy.read.reports import sarif

            return sarif.lines(
                verdict.located,
                verdict.remarks,
                catalogue,
                base=os.getcwd(),
                exit_code=verdict.exit_code,
                fixed=verdict.fixed,
                hosts=_host_objects(verdict),
            )
        case "markdown":
            return _markdown(verdict, catalogue)
        case "github":
            from mcpproxy.read.reports import github

            summary = map(without_commands, text.summary_lines(verdict))
            annotations = github.lines(verdict.located, verdict.remarks, catalogue, base=output.workspace())
            return chain(annotations, summary)
        case _:
            return text.lines(verdict, style, base=paths.working_directory())
