"""``mcpproxy check``: judge recordings again, from their frames alone.

The findings in a recording are ignored: a recording by an older mcpproxy gets the findings of this version,
and nobody can hide a finding by editing the trace.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mcpproxy import judging
from mcpproxy.base import paths
from mcpproxy.base.style import count
from mcpproxy.checks.engine.rows import RuleFamily
from mcpproxy.cli import (
    baseline_options,
    check_report,
    find_traces,
    http_sessions,
    output,
    parallel,
    progress_bar,
    report_options,
)
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.progress_bar import ReadProgress
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.errors import McpProxyError
from mcpproxy.opening import open_trace
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.reports import text
from mcpproxy.reports.judged_traces import JudgedTrace, JudgedTraces, Unjudged
from mcpproxy.ruleset import ruleset
from mcpproxy.ruleset.ruleset import Ruleset
from mcpproxy.ruleset.selection import Selection

if TYPE_CHECKING:
    from mcpproxy.reports.baseline import Baseline

EPILOG = """\
A RULE is a code (PROTO-007), a name (mismatched-response-id) or a family (PROTO).

With --baseline, findings that FILE accepts are known and do not count; --write-baseline accepts all.

exit codes: 0 nothing found that counts, 1 errors (with --strict also warnings),
            2 a trace could not be judged, or the report not written

  mcpproxy check recordings/ --strict
  mcpproxy check session.jsonl --select PROTO,SCHEMA-004 --format json
  mcpproxy check recordings/ --baseline mcp.json --format sarif -o mcp.sarif"""


def run(argv: list[str]) -> int:
    """Judge every trace that the arguments name, and report the findings."""
    options = _arguments(argv)
    rules, selection = _rules(options)
    accepted = baseline_options.read(options)
    if options.output:
        output.check_writable(options.output)
    recordings = find_traces.every(options.paths)
    streams = options.format == "text" and not options.output and not options.write_baseline
    style, base = terminal_style(), paths.working_directory()
    verdict = judge_all(
        recordings,
        rules,
        selection,
        strict=options.strict,
        session=options.session or "",
        on_judged=lambda judged: emit(text.trace_lines(judged, style, base=base)) if streams else None,
        located=accepted is not None or options.format in report_options.LOCATED_FORMATS,
        accepted=accepted,
    )
    verdict = replace(verdict, folders=tuple(options.rules))
    if accepted is not None:
        verdict = _compared(verdict, accepted, rules.catalogue, selection, options)
    check_report.report(verdict, rules.catalogue, options.format, options.output, style, streamed=streams)
    baseline_options.tell_fixed(options.baseline, verdict.fixed or ())
    return verdict.exit_code


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = Parser("check", "Judge recordings by the rules of the protocol.", EPILOG)
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="TRACE-or-folder",
        help="recordings, or folders of them; without any, the latest recording",
    )
    report_options.add_options(parser)
    parser.add_argument("--strict", action="store_true", help="let warnings count as errors do")
    parser.add_argument("--select", action="append", metavar="RULE,...", help="judge by these rules only")
    parser.add_argument(
        "--extend-select",
        action="append",
        metavar="RULE,...",
        help="judge by these rules too, which are off by default",
    )
    parser.add_argument("--session", metavar="ID", help="judge all, but report on this HTTP session alone")
    parser.add_argument("--ignore", action="append", metavar="RULE,...", help="leave these rules out")
    parser.add_argument(
        "--app-errors",
        action="store_true",
        help='judge JSON errors ("error": true) in tool results too (APP)',
    )
    parser.add_argument(
        "--rules", action="append", default=[], metavar="DIR", help="judge by the rules in this folder too"
    )
    parser.add_argument("--versions", metavar="FILE", help="report peers outside the version ranges in FILE")
    parser.add_argument("--pins", metavar="FILE", help="report tools that are not as pinned in FILE")
    return parser.parse_args(argv)


def _rules(options: argparse.Namespace) -> tuple[Ruleset, Selection]:
    """Return the rules to judge by."""
    rules = ruleset.load(options.rules)
    extend = [*(options.extend_select or ()), *(["APP"] if options.app_errors else ())]
    families: list[RuleFamily] = []
    if options.versions:
        extend.append("VER")
        from mcpproxy.checks.opt_in.implementations import range_checks
        from mcpproxy.cli import version_ranges

        families.append(range_checks(version_ranges.read(options.versions)))
    if options.pins:
        from mcpproxy.checks.opt_in.pins import pin_checks
        from mcpproxy.reports import pin_file

        extend.append("PIN")
        families.append(pin_checks(pin_file.read(options.pins)))
    selection = Selection.of(rules.catalogue, options.select, options.ignore, extend)
    return rules.extended(selection.wanted or (), families), selection


def _compared(
    verdict: JudgedTraces,
    accepted: "Baseline",
    catalogue: Catalogue,
    selection: Selection,
    options: argparse.Namespace,
) -> JudgedTraces:
    """Return the verdict compared with the baseline. ``--write-baseline`` writes the baseline first."""

    def was_judged(code: str) -> bool:
        if options.session or verdict.unjudged or (rule := catalogue.rules.get(code)) is None:
            return False
        return selection.takes(code) and (selection.wanted is not None or not rule.opt_in)

    if not options.write_baseline:
        return replace(verdict, fixed=accepted.fixed(verdict.located, was_judged))
    if verdict.unjudged:
        tell(f"{accepted.path}: not written; every trace must be judged first")
        return replace(verdict, fixed=())
    renewed = accepted.renewed(verdict.located, was_judged)
    output.write(accepted.path, renewed.lines())
    added = len(renewed.entries.keys() - accepted.entries.keys())
    gone = len(accepted.entries.keys() - renewed.entries.keys())
    tell(f"{accepted.path}: {count(len(renewed.entries), 'finding')} accepted ({added} new, {gone} gone)")
    return replace(verdict, traces=tuple(_marked(trace, renewed) for trace in verdict.traces), fixed=())


def _marked(judged: JudgedTrace, accepted: "Baseline") -> JudgedTrace:
    """Return a judged trace in which the ``accepted`` findings are known, and do not count."""
    located = accepted.marked(judged.located)
    findings = tuple(entry.finding for entry in located if not entry.is_known)
    # Findings that are only counted are known if all listed findings of the same cause are known.
    new = {(finding.rule, finding.severity, finding.blame, finding.requirement) for finding in findings}
    more = tuple(
        repeated
        for repeated in judged.more
        if (repeated.rule, repeated.severity, repeated.blame, repeated.requirement) in new
    )
    return replace(judged, located=located, findings=findings, more=more)


def judge_all(
    paths: list[str],
    rules: Ruleset,
    selection: Selection,
    *,
    strict: bool,
    on_judged: Callable[[JudgedTrace], None],
    session: str = "",
    located: bool = False,
    accepted: "Baseline | None" = None,
) -> JudgedTraces:
    """Judge all traces in their order; ``on_judged`` is called with a trace as soon as it is judged.

    With ``located``, findings get their places in the trace files. The findings in the baseline ``accepted``
    are marked as known.
    """

    def attempt(path: str) -> JudgedTrace | Unjudged:
        try:
            return judge(path, rules, selection, session, located=located, progress=progress)
        except McpProxyError as error:
            return Unjudged(path, str(error))

    judged: list[JudgedTrace] = []
    unjudged: list[Unjudged] = []
    with progress_bar.reading(paths) as progress:
        for path, result in zip(paths, parallel.each(attempt, paths), strict=True):
            progress.finish_file(path)
            if isinstance(result, Unjudged):
                progress.clear()
                tell(result.reason)
                unjudged.append(result)
            else:
                judged.append(_marked(result, accepted) if accepted else result)
                progress.clear()
                on_judged(judged[-1])
                if result.journal_fault:
                    sentence = f"{path}: {result.journal_fault}; the trace was judged without it"
                    tell(sentence)
                    unjudged.append(Unjudged(path, sentence))
    return JudgedTraces(tuple(judged), tuple(unjudged), strict)


def judge(
    path: str,
    rules: Ruleset,
    selection: Selection,
    session: str = "",
    *,
    located: bool = False,
    progress: ReadProgress | None = None,
) -> JudgedTrace:
    """Judge the frames of one trace in the same way as during the session.

    With ``session``, only findings about frames of that session are reported. With ``located``, a trace that
    has findings is read again for their fingerprints, and for the places of related frames.

    Raises:
        TraceError: the trace cannot be read.
        UsageError: the trace has no such session.
    """
    trace = open_trace(path)
    session_filter = http_sessions.session_filter(trace, session) if session else None
    judged = judging.judge(
        trace, rules, selection, session_filter, progress.set_bytes_read if progress else None
    )
    if not located:
        return judged
    from mcpproxy.reports.located import locate

    return replace(judged, located=locate(trace, judged.findings))
