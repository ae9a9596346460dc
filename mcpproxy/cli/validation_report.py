"""Write the report of ``mcpproxy validate`` to stdout or a file, in one of its formats.

The text on stdout is printed while the validation runs; everything else is written at its end.
"""

import os
from collections.abc import Iterable
from itertools import chain
from typing import Final

from mcpproxy.base.style import PLAIN, Style
from mcpproxy.cli import output
from mcpproxy.cli.terminal import StatusLine, emit
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.reports.baseline import Entry
from mcpproxy.validate.check_list import ProgressCallbacks
from mcpproxy.validate.outcome import CheckResult, Validation
from mcpproxy.validate.report import validated, validation


class ProgressPrinter:
    """Prints the checks as they end, and on a terminal also a line that names the current check.

    ``target`` names the server, and ``transport`` is the transport to it. With ``is_quiet``, no checks are
    printed.
    """

    def __init__(self, target: str, transport: str, style: Style, *, is_quiet: bool) -> None:
        self._target: Final = target
        self._transport: Final = transport
        self._style: Final = style
        self._is_quiet: Final = is_quiet
        self._status: Final = StatusLine()
        self._number = 0
        self._previous_check: CheckResult | None = None

    def callbacks(self) -> ProgressCallbacks:
        """Return the functions that the validation calls."""
        return ProgressCallbacks(self._on_begin, self._on_revision, self._on_end)

    def finish(self, result: Validation) -> None:
        """Print the lines after the checks, if checks were printed."""
        self.clear()
        if self._number and not self._is_quiet:
            emit(validation.end(result, self._style))

    def clear(self) -> None:
        """Remove the line that shows the current check."""
        self._status.clear()

    def _on_begin(self, name: str) -> None:
        self._status.show(f"{self._number} checks, now {name}")

    def _on_revision(self, revision: str, server: JSONObject) -> None:
        self._print_lines([] if self._number else [validation.header(server, self._target, self._style)])
        self._print_lines(validation.revision_header(revision, self._transport, self._style))
        self._previous_check = None

    def _on_end(self, check: CheckResult) -> None:
        self._print_lines(validation.next_check(self._previous_check, check, self._style))
        self._previous_check = check
        self._number += 1

    def _print_lines(self, lines: Iterable[str]) -> None:
        if not self._is_quiet:
            self.clear()
            emit(lines, flush=True)


def report(
    result: Validation,
    catalogue: Catalogue,
    format: str,
    path: str | None,
    style: Style,
    *,
    fixed: tuple[Entry, ...] | None,
) -> None:
    """Print the whole report, or write it to ``path``.

    ``fixed`` are the entries of the baseline whose findings did not occur, ``None`` without a baseline.

    Raises:
        UsageError: the file cannot be written.
    """
    if path:
        output.write_with_summary(
            path, _lines(result, catalogue, format, PLAIN, fixed), validation.summary(result)
        )
    else:
        emit(_lines(result, catalogue, format, style, fixed))
    if format == "github":
        from mcpproxy.reports import markdown

        heading = f"mcpproxy validate: {next(iter(validation.summary(result)))}"
        located_findings = validated.located(result.checks)
        output.add_to_step_summary(
            markdown.lines(heading, located_findings, validated.remarks(result), catalogue)
        )


def _lines(
    result: Validation, catalogue: Catalogue, format: str, style: Style, fixed: tuple[Entry, ...] | None
) -> Iterable[str]:
    match format:
        case "json":
            from mcpproxy.validate.report import validation_json

            return validation_json.lines(result)
        case "junit":
            from mcpproxy.reports import junit

            return junit.lines(validated.suites(result))
        case "sarif":
            from mcpproxy.reports import sarif

            return sarif.lines(
                validated.located(result.checks),
                validated.remarks(result),
                catalogue,
                base=os.getcwd(),
                exit_code=result.exit_code,
                fixed=fixed,
            )
        case "github":
            from mcpproxy.reports import github

            located_findings = validated.located(result.checks)
            summary = map(github.escape_commands, validation.summary(result))
            commands = github.lines(
                located_findings, validated.remarks(result), catalogue, base=output.workspace()
            )
            return chain(commands, summary)
        case _:
            return validation.lines(result, style)
