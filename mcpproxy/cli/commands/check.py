"""``mcpproxy check``: judge recordings again, from their frames alone.

The findings in a recording are ignored: a recording by an older mcpproxy gets the findings of this version,
and nobody can hide a finding by editing the trace.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mcpproxy.base import paths
from mcpproxy.base.style import Style, count
from mcpproxy.cli import (
    baseline_options,
    find_traces,
    http_sessions,
    output,
    report_options,
)
from mcpproxy.cli.arguments import Parser, positive, seconds
from mcpproxy.cli.checking import check_report, host_options, parallel, progress_bar
from mcpproxy.cli.checking.progress_bar import ReadProgress
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.judge.session.frame import Finding
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read import judging
from mcpproxy.read.reports import text
from mcpproxy.read.reports.judged_traces import JudgedTrace, JudgedTraces, NamedHost, Unjudged
from mcpproxy.read.view.growing_trace import GrowingTrace
from mcpproxy.send.fleet.judge.rules import JudgeRules
from mcpproxy.send.fleet.judge.shard import ENGINES, shard

if TYPE_CHECKING:
    from mcpproxy.judge.checks.hosts.facts import HostChoice
    from mcpproxy.read.reports.baseline import Baseline
    from mcpproxy.read.view.across_servers import SeenInRecording

EPILOG = """\
A RULE is a code (PROTO-007), a name (mismatched-response-id) or a family (PROTO).

With --baseline, findings that FILE accepts are known and do not count; --write-baseline accepts all.

With --out, each recording is judged on its own, and one that kills its judge is skipped. Run the command
again to go on. Results of other rules, and of other versions of mcpproxy, are kept apart.

exit codes: 0 nothing found that counts, 1 errors (with --strict also warnings),
            2 a trace could not be judged, as its server failed before any message or it
              cannot be read; or the report was not written
            with --out: 0 all recordings that have ended have a result, 2 some have none

  mcpproxy check recordings/ --strict
  mcpproxy check session.jsonl --select PROTO,SCHEMA-004 --format json
  mcpproxy check recordings/ --baseline mcp.json --format sarif -o mcp.sarif
  mcpproxy check recordings/ --shard 3/64 --out findings/"""


def run(argv: list[str]) -> int:
    """Judge every trace that the arguments name, report the findings, and return the exit code.

    Raises:
        McpProxyError: the arguments are not valid, or the report or baseline cannot be read or written.
    """
    options = _arguments(argv)
    judge_rules = _judge_rules(options)
    if options.out or options.engine:
        from mcpproxy.cli.checking import check_corpus

        return check_corpus.run(options, judge_rules)
    rules, selection = judge_rules.load()
    accepted = baseline_options.read(options)
    if options.output:
        output.check_writable(options.output)
    recordings = find_traces.every(options.paths)
    if options.shard:
        all_recordings = recordings
        recordings = [path for path in all_recordings if options.shard.holds(_name_in(options.paths, path))]
        if not recordings:
            part = f"part {options.shard.index} of {options.shard.count}"
            tell(f"{part} has none of the {count(len(all_recordings), 'recording')}")
    streams = options.format == "text" and not options.output and not options.write_baseline
    style, base, hosts = terminal_style(), paths.working_directory(), judge_rules.named_hosts()
    verdict = judge_all(
        recordings,
        rules,
        selection,
        strict=options.strict,
        session=options.session or "",
        on_judged=lambda judged: _emit_trace(judged, style, base, hosts) if streams else None,
        located=accepted is not None or options.format in report_options.LOCATED_FORMATS,
        accepted=accepted,
        hosts=judge_rules.host_choice(),
    )
    verdict = replace(verdict, folders=tuple(options.rules), hosts=hosts)
    if accepted is not None:
        verdict = _compared(verdict, accepted, rules.catalogue, selection, options)
    check_report.report(verdict, rules.catalogue, options.format, options.output, style, streamed=streams)
    baseline_options.tell_fixed(options.baseline, verdict.fixed or ())
    return verdict.exit_code


def _emit_trace(judged: JudgedTrace, style: Style, base: str, hosts: tuple[NamedHost, ...]) -> None:
    emit(text.trace_lines(judged, style, base=base, hosts=hosts))


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = Parser("check", "Judge recordings by the rules of the protocol.", EPILOG)
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="TRACE|DIR",
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
        "--secrets",
        action="store_true",
        help="report keys of providers in messages and URLs, and keys that cross servers (SEC-007, SEC-008)",
    )
    parser.add_argument(
        "--rules", action="append", default=[], metavar="DIR", help="judge by the rules in this folder too"
    )
    parser.add_argument("--versions", metavar="FILE", help="report peers outside the version ranges in FILE")
    parser.add_argument("--pins", metavar="FILE", help="report tools that are not as pinned in FILE")
    host_options.add(parser)
    corpus = parser.add_argument_group("many recordings")
    corpus.add_argument(
        "--shard", type=shard, metavar="I/N", help="judge this of N parts only, counted from 0: 3/64"
    )
    corpus.add_argument(
        "--out", metavar="DIR|URL", help="put a file for each recording there; leave out those that have one"
    )
    corpus.add_argument(
        "--engine",
        choices=ENGINES,
        help="what judges them, with --out: processes, or a cluster (default: local)",
    )
    corpus.add_argument(
        "--workers", type=positive, metavar="N", help="how many at a time (default: all processors)"
    )
    corpus.add_argument(
        "--timeout",
        type=seconds,
        default=300.0,
        metavar="SECONDS",
        help="the most seconds for a recording (default: 300)",
    )
    corpus.add_argument(
        "--memory",
        type=positive,
        default=2048,
        metavar="MIB",
        help="the most memory for a recording (default: 2048)",
    )
    return parser.parse_args(argv)


def _name_in(named: list[str], path: str) -> str:
    """Return the name that decides the shard (part) of a recording: its path in the folder that was named.

    Outside such a folder, it is the name of the file.
    """
    for folder in named:
        if os.path.isdir(folder) and not os.path.relpath(path, folder).startswith(os.pardir):
            return os.path.relpath(path, folder).replace(os.sep, "/")
    return os.path.basename(path)


def _judge_rules(options: argparse.Namespace) -> JudgeRules:
    """Return the rules that the options select."""
    extend = [*(options.extend_select or ()), *(["APP"] if options.app_errors else ())]
    if options.secrets:
        extend += ["SEC-007", "SEC-008"]
    hosts, grade = host_options.chosen(options)
    return JudgeRules(
        select=None if options.select is None else tuple(options.select),
        ignore=tuple(options.ignore or ()),
        extend=tuple(extend),
        rules=tuple(options.rules),
        versions=options.versions or "",
        pins=options.pins or "",
        hosts=hosts,
        hosts_grade=grade,
    )


def _compared(
    verdict: JudgedTraces,
    accepted: "Baseline",
    catalogue: Catalogue,
    selection: Selection,
    options: argparse.Namespace,
) -> JudgedTraces:
    """Return the verdict compared with the baseline.

    With ``--write-baseline``, the baseline is written, and all findings are known. If a trace could not be
    judged, nothing is written.
    """

    def was_judged(code: str) -> bool:
        if options.session or verdict.unjudged or code not in catalogue.rules:
            return False
        return _is_wanted(catalogue, selection, code)

    if not options.write_baseline:
        return replace(verdict, fixed=accepted.fixed(verdict.located, was_judged))
    if verdict.unjudged:
        tell(f"{accepted.path}: not written; every trace must be judged first")
        return replace(verdict, fixed=())
    renewed = accepted.renewed(verdict.located, was_judged)
    traces = tuple(_marked(trace, renewed) for trace in verdict.traces)
    marked = replace(verdict, traces=traces, fixed=())
    baseline_options.write(accepted, renewed, marked.known)
    return marked


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
    hosts: "HostChoice | None" = None,
) -> JudgedTraces:
    """Judge all traces in their order; ``on_judged`` is called with a trace as soon as it is judged.

    Findings about several recordings together, such as servers of one client, come last: ``on_judged`` gets
    the trace again with these alone. There are none with ``session``. With ``located``, findings get their
    places in the trace files. The findings in the baseline ``accepted`` are marked as known. For ``hosts``,
    their limits on all tools of all servers together are checked, too. ``strict`` and ``session`` are as for
    the options.

    A trace that cannot be judged is reported, and is among the result's ``unjudged``. One whose journal
    cannot be read is judged without it, and is among them, too.
    """
    collected: SeenInRecording | None = None
    takes = partial(_is_wanted, rules.catalogue, selection)
    if len(paths) > 1:
        from mcpproxy.read.view import across_servers  # takes 30 ms

        collected = across_servers.SeenInRecording()
        collectors = across_servers.collectors(collected, takes, key=os.urandom(32), hosts=hosts)
        rules = rules.extended((), collectors)

    def attempt(path: str) -> "tuple[JudgedTrace | Unjudged, SeenInRecording | None]":
        try:
            result = judge(path, rules, selection, session, located=located, progress=progress)
        except McpProxyError as error:
            result = Unjudged(path, str(error), error.lines)
        return result, collected.taken() if collected else None

    judged: list[JudgedTrace] = []
    unjudged: list[Unjudged] = []
    seen: dict[str, SeenInRecording] = {}
    with progress_bar.reading(paths) as progress:
        for path, (result, facts_seen) in zip(paths, parallel.results_of(attempt, paths), strict=True):
            if facts_seen is not None and not isinstance(result, Unjudged):
                seen[path] = facts_seen
            progress.finish_file(path)
            if isinstance(result, Unjudged):
                progress.clear()
                for line in result.lines:
                    tell(line)
                unjudged.append(result)
            else:
                judged.append(_marked(result, accepted) if accepted else result)
                progress.clear()
                on_judged(judged[-1])
                if result.journal_fault:
                    sentence = f"{path}: {result.journal_fault}; the trace was judged without it"
                    tell(sentence)
                    unjudged.append(Unjudged(path, sentence))
    if seen and not session:
        from mcpproxy.read.prompt.judged_runs import findings_of_runs
        from mcpproxy.read.view import across_servers

        for path, findings in (
            *across_servers.across_servers(seen, rules.catalogue, hosts),
            *findings_of_runs(seen, rules.catalogue, takes),
        ):
            index = [trace.path for trace in judged].index(path)
            addition = _with_findings(judged[index], findings, located=located)
            addition = _marked(addition, accepted) if accepted else addition
            on_judged(addition)
            judged[index] = replace(
                judged[index],
                findings=judged[index].findings + addition.findings,
                located=judged[index].located + addition.located,
                places={**judged[index].places, **addition.places},
            )
    return JudgedTraces(tuple(judged), tuple(unjudged), strict)


def _is_wanted(catalogue: Catalogue, selection: Selection, code: str) -> bool:
    """Whether findings of the rule ``code`` are reported. An opt-in rule must be selected."""
    return selection.takes(code) and (selection.wanted is not None or not catalogue.rules[code].opt_in)


def _with_findings(judged: JudgedTrace, findings: tuple[Finding, ...], *, located: bool) -> JudgedTrace:
    """Return a judged trace that has only ``findings``, with their places if ``located``."""
    trace = GrowingTrace(judged.path).open()
    places = judging.places_of(trace, {finding.frame for finding in findings} - judged.places.keys())
    alone = replace(
        judged, findings=findings, located=(), notes=(), more=(), places={**judged.places, **places}
    )
    if not located:
        return alone
    from mcpproxy.read.reports.located import locate

    return replace(alone, located=locate(trace, findings))


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
    has findings is read again for their fingerprints, and for the places of related frames. ``progress``
    counts the bytes that were read.

    Raises:
        TraceError: the trace cannot be read.
        UsageError: the trace has no such session.
        CustomRuleError: a custom rule failed.
    """
    trace = GrowingTrace(path).open()  # works also before the recorder has begun
    session_filter = http_sessions.session_filter(trace, session) if session else None
    judged = judging.judge(
        trace, rules, selection, session_filter, progress.set_bytes_read if progress else None
    )
    if not located:
        return judged
    from mcpproxy.read.reports.located import locate

    return replace(judged, located=locate(trace, judged.findings))
