"""Write the report of ``mcpproxy validate`` to stdout or a file, in one of its formats.

The checks on stdout are printed while the validation runs; everything else is written at its end.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import PLAIN, Style
from mcpproxy.base.visible import without_commands
from mcpproxy.cli import baseline_options, output
from mcpproxy.cli.terminal import StatusLine, emit, tell, terminal_style
from mcpproxy.peers.validate.check_list import ProgressCallbacks
from mcpproxy.peers.validate.outcome import CheckResult, Validation
from mcpproxy.peers.validate.report import validated, validation, validation_json
from mcpproxy.peers.validate.report.validation import Detail
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.reports import github, host_matrix, junit, markdown, sarif
from mcpproxy.read.reports.baseline import Baseline, Entry
from mcpproxy.read.reports.junit import Suite

if TYPE_CHECKING:  # most runs are not about hosts
    from mcpproxy.read.reports.host_matrix import HostMatrix

_BAR_COLUMNS: Final = 20
"""The width of the progress bar."""


def add_detail_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that set how much is printed."""
    add = parser.add_argument
    add(
        "-q",
        "--quiet",
        "--failed",
        dest="detail",
        action="store_const",
        const="failures",
        default="marks",
        help="print nothing but what failed and the summary",
    )
    add(
        "-v",
        "--verbose",
        "--all",
        dest="detail",
        action="store_const",
        const="checks",
        help="print a line for each check: ok, skip and why",
    )


class ProgressPrinter:
    """Prints the checks while they are made: by ``detail`` a mark (character) or a line each, or nothing.

    ``target`` names the server, and ``transport`` is the transport to it. If stderr is a terminal, it has a
    bar that names the current check, and the marks of a revision are printed together at its end. With
    ``is_silent``, no check is printed.
    """

    def __init__(self, target: str, transport: str, style: Style, detail: Detail, *, is_silent: bool) -> None:
        self._target: Final = target
        self._transport: Final = transport
        self._style: Final = style
        self._detail: Final[Detail] = "failures" if is_silent else detail
        self._is_silent: Final = is_silent
        self._status: Final = StatusLine()
        self._checks: Final[list[CheckResult]] = []
        """The checks of the current revision."""
        self._revision: str | None = None
        self._failed = 0

    def callbacks(self) -> ProgressCallbacks:
        """Return the functions that the validation calls."""
        return ProgressCallbacks(self._on_begin, self._on_revision, self._on_end)

    def finish(self, result: Validation, catalogue: Catalogue) -> None:
        """Print the lines after the checks, if checks were made."""
        self.clear()
        if result.checks and self._revision is not None and not self._is_silent:
            emit(validation.end(result, catalogue, self._style, self._detail))

    def clear(self) -> None:
        """Remove the bar, and print the marks that it delayed, or end the line of marks."""
        self._status.clear()
        if not self._checks or self._detail != "marks":
            return
        if self._status.is_shown:
            revision = self._revision or ""
            emit(validation.revision_lines(revision, self._transport, self._checks, self._style), flush=True)
        else:
            emit([""], flush=True)
        self._checks.clear()

    def tell(self, messages: Iterable[str]) -> None:
        """Print lines to stderr, for a user who has to act while the validation runs."""
        self._status.clear()
        for message in messages:
            tell(message)

    def _on_begin(self, name: str, number: int, total: int) -> None:
        done = _BAR_COLUMNS * (number - 1) // total
        failed = f", {self._failed} failed" if self._failed else ""
        bar = f"[{'#' * done}{' ' * (_BAR_COLUMNS - done)}]"
        self._status.show(f"{bar} {number} of {total}{failed}: {name}")

    def _on_revision(self, revision: str, server: JSONObject) -> None:
        self.clear()
        if self._revision is None and self._detail != "failures":
            emit([validation.header(server, self._target, self._style)], flush=True)
        if self._detail == "checks":
            emit(validation.revision_header(revision, self._transport, self._style), flush=True)
        self._checks.clear()
        self._revision = revision

    def _on_end(self, check: CheckResult) -> None:
        self._failed += check.status == "failed"
        if self._detail == "checks":
            self._status.clear()
            previous = self._checks[-1] if self._checks else None
            emit(validation.next_check(previous, check, self._style), flush=True)
        elif self._detail == "marks" and not self._status.is_shown:
            self._write_mark(check)
        self._checks.append(check)

    def _write_mark(self, check: CheckResult) -> None:
        number = len(self._checks)
        if number % validation.MARKS_IN_LINE == 0:
            margin = validation.margin(self._revision or "", self._transport, number)
            sys.stdout.write(f"\n{margin}" if number else margin)
        sys.stdout.write(validation.mark(check, self._style))
        sys.stdout.flush()


def is_printed_at_end(options: argparse.Namespace, accepted: Baseline | None) -> bool:
    """Whether the report is written at the end alone: only text on stdout is printed while checks are made.

    With a baseline, only the comparison at the end shows how to print a check.
    """
    return options.format != "text" or bool(options.output) or accepted is not None


def conclude(
    result: Validation,
    printer: ProgressPrinter,
    options: argparse.Namespace,
    accepted: Baseline | None,
    catalogue: Catalogue,
    base: str | None,
    hosts: "HostMatrix | None" = None,
) -> Validation:
    """Compare a validation with the baseline ``accepted``, report it as the options say, and return it.

    Paths of recordings are relative to ``base``; it is ``None`` if the user did not ask for the recordings.
    ``hosts`` is what the hosts that the user named do with the server.

    Raises:
        UsageError: a file cannot be written.
    """
    fixed: tuple[Entry, ...] | None = None
    if accepted is not None and not result.is_interrupted:
        result, fixed = baseline_options.compared(result, accepted, catalogue, options)
    printer.finish(result, catalogue)
    if is_printed_at_end(options, accepted) and not (result.is_interrupted and not result.checks):
        report(
            result,
            catalogue,
            options.format,
            options.output,
            terminal_style(),
            fixed=fixed,
            detail=options.detail,
            base=base,
            hosts=hosts,
        )
    elif hosts is not None:
        emit(_host_lines(hosts, terminal_style()))
    return result


def exit_code(result: Validation, hosts: "HostMatrix | None") -> int:
    """Return the exit code. If the validation is strict, a valid server must also work in all ``hosts``."""
    if hosts is None or result.exit_code or not result.strict:
        return result.exit_code
    return 1 if host_matrix.failing(hosts.rows) else 0


def report(
    result: Validation,
    catalogue: Catalogue,
    format: str,
    path: str | None,
    style: Style,
    *,
    fixed: tuple[Entry, ...] | None,
    detail: Detail = "marks",
    base: str | None = None,
    hosts: "HostMatrix | None" = None,
) -> None:
    """Print the whole report, or write it to ``path``. For ``github``, also add it to the step summary.

    ``fixed`` are the entries of the baseline whose findings did not occur, ``None`` without a baseline.
    ``base`` and ``hosts`` are as for ``conclude``, ``detail`` as for ``ProgressPrinter``.

    Raises:
        UsageError: the file cannot be written.
    """
    if path:
        lines = _report_lines(result, catalogue, format, PLAIN, fixed, detail, base, hosts)
        output.write_with_summary(path, lines, validation.summary(result))
    else:
        lines = _report_lines(result, catalogue, format, style, fixed, detail, base, hosts)
        emit(lines, has_commands=format == "github")
    if format == "github":
        output.add_to_step_summary(_markdown(result, catalogue, hosts))


def _markdown(result: Validation, catalogue: Catalogue, hosts: "HostMatrix | None") -> Iterable[str]:
    matrix: Iterable[str] = ()
    if hosts is not None:
        matrix = host_matrix.markdown_lines(hosts.rows)
    heading = f"mcpproxy validate: {validation.summary_line(result)}"
    return markdown.lines(
        heading, validated.located(result.checks), validated.remarks(result), catalogue, matrix
    )


def _host_lines(hosts: "HostMatrix", style: Style) -> Iterator[str]:
    yield ""
    yield from host_matrix.lines(hosts.rows, style)


def _host_objects(hosts: "HostMatrix | None") -> list[dict[str, object]]:
    if hosts is None:
        return []
    return host_matrix.as_objects(hosts.rows)


def _suites(result: Validation, hosts: "HostMatrix | None") -> Iterator[Suite]:
    yield from validated.suites(result)
    if hosts is not None:
        yield host_matrix.suite(hosts.rows, host_matrix.failing(hosts.rows) if result.strict else ())


def _report_lines(
    result: Validation,
    catalogue: Catalogue,
    format: str,
    style: Style,
    fixed: tuple[Entry, ...] | None,
    detail: Detail,
    base: str | None,
    hosts: "HostMatrix | None",
) -> Iterable[str]:
    host_findings = hosts.located if hosts is not None else ()
    match format:
        case "json":
            return validation_json.lines(result, _host_objects(hosts))
        case "junit":
            return junit.lines(_suites(result, hosts))
        case "markdown":
            return _markdown(result, catalogue, hosts)
        case "sarif":
            return sarif.lines(
                (*validated.located(result.checks), *host_findings),
                validated.remarks(result),
                catalogue,
                base=base,
                exit_code=exit_code(result, hosts),
                fixed=fixed,
                hosts=_host_objects(hosts),
            )
        case "github":
            located_findings = (*validated.located(result.checks), *host_findings)
            matrix = _host_lines(hosts, PLAIN) if hosts is not None else ()
            summary = map(without_commands, chain(validation.summary(result, is_read_elsewhere=True), matrix))
            # ``base=None`` names no files: the recordings of this run are in no commit.
            commands = github.lines(located_findings, validated.remarks(result), catalogue, base=None)
            return chain(commands, summary)
        case _:
            matrix = _host_lines(hosts, style) if hosts is not None else ()
            return chain(validation.lines(result, catalogue, style, detail), matrix)
