"""Write the report of ``mcpproxy validate`` to stdout or a file, in one of its formats."""

import os
from collections.abc import Iterable
from itertools import chain

from mcpproxy.base.style import PLAIN, Style
from mcpproxy.cli import output
from mcpproxy.cli.terminal import emit
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.reports import validated, validation
from mcpproxy.reports.baseline import Entry
from mcpproxy.validate.outcome import Validation


def report(
    result: Validation,
    known: Catalogue,
    format: str,
    path: str | None,
    style: Style,
    *,
    fixed: tuple[Entry, ...] | None,
) -> None:
    """Print the report, or write it to ``path``.

    ``fixed`` are the entries of the baseline that were not found, ``None`` if there is no baseline.

    Raises:
        UsageError: the file cannot be written.
    """
    if path:
        output.write_with_summary(
            path, _lines(result, known, format, PLAIN, fixed), validation.summary(result)
        )
    else:
        emit(_lines(result, known, format, style, fixed))
    if format == "github":
        from mcpproxy.reports import markdown

        heading = f"mcpproxy validate: {next(iter(validation.summary(result)))}"
        found = validated.located(result.checks)
        output.add_to_step_summary(markdown.lines(heading, found, validated.remarks(result), known))


def _lines(
    result: Validation, known: Catalogue, format: str, style: Style, fixed: tuple[Entry, ...] | None
) -> Iterable[str]:
    match format:
        case "json":
            from mcpproxy.reports import validation_json

            return validation_json.lines(result)
        case "junit":
            from mcpproxy.reports import junit

            return junit.lines(validated.suites(result))
        case "sarif":
            from mcpproxy.reports import sarif

            return sarif.lines(
                validated.located(result.checks),
                validated.remarks(result),
                known,
                base=os.getcwd(),
                exit_code=0 if result.is_valid else 1,
                fixed=fixed,
            )
        case "github":
            from mcpproxy.reports import github

            found = validated.located(result.checks)
            summary = map(github.escape_commands, validation.summary(result))
            commands = github.lines(found, validated.remarks(result), known, base=output.workspace())
            return chain(commands, summary)
        case _:
            return validation.lines(result, style)
