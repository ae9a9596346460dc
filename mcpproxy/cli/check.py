"""``mcpproxy check``: judge recordings again, from their frames alone.

Findings that were recorded are not read: whoever records with an older mcpproxy gets the findings of
this one, and nobody has to trust a trace about itself.
"""

from collections.abc import Callable
from pathlib import Path

from mcpproxy import judging, ruleset
from mcpproxy.checks.implementations import pinned
from mcpproxy.checks.table import Family
from mcpproxy.cli import ranges, sessions, traces
from mcpproxy.cli.terminal import emit, style, tell
from mcpproxy.cli.usage import Parser
from mcpproxy.errors import McpProxyError
from mcpproxy.reports import json, text
from mcpproxy.reports.verdict import JudgedTrace, Unjudged, Verdict
from mcpproxy.ruleset import Ruleset
from mcpproxy.selection import Selection
from mcpproxy.trace.reader import open_trace

EPILOG = """\
A RULE is a code (PROTO-007), a name (mismatched-response-id) or a family (PROTO).

exit codes: 0 nothing found that counts, 1 errors (with --strict also warnings),
            2 a trace could not be judged

  mcpproxy check recordings/ --strict
  mcpproxy check session.jsonl --select PROTO,SCHEMA-004 --format json"""


def run(argv: list[str]) -> int:
    """Judge every trace named and print the findings."""
    parser = Parser("check", "Judge recordings by the rules of the protocol.", EPILOG)
    parser.add_argument("paths", nargs="+", metavar="TRACE-or-folder", help="recordings, or folders of them")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what to print (text)")
    parser.add_argument("--strict", action="store_true", help="let warnings count as errors do")
    parser.add_argument("--select", action="append", metavar="RULE,...", help="judge by these rules only")
    parser.add_argument(
        "--extend-select", action="append", metavar="RULE,...", help="judge by these too, off by default"
    )
    parser.add_argument("--session", metavar="ID", help="report on this HTTP session alone (judging all)")
    parser.add_argument("--ignore", action="append", metavar="RULE,...", help="leave these rules out")
    parser.add_argument(
        "--app-errors", action="store_true", help="judge error envelopes in tool results too (APP)"
    )
    parser.add_argument(
        "--rules", action="append", default=[], metavar="DIR", help="judge by the rules in this folder too"
    )
    parser.add_argument("--versions", metavar="FILE", help="report peers outside the version ranges in FILE")
    options = parser.parse_args(argv)
    rules = ruleset.load(map(Path, options.rules))
    extend = [*(options.extend_select or ()), *(["APP"] if options.app_errors else ())]
    families: list[Family] = []
    if options.versions:
        extend.append("VER")
        families.append(pinned(ranges.read(options.versions)))
    selection = Selection.of(rules.catalogue, options.select, options.ignore, extend)
    rules = rules.and_also(selection.wanted or (), families)
    found = traces.whole([trace for path in options.paths for trace in traces.expand(path)])
    as_text: bool = options.format == "text"
    look = style()
    verdict = judge_all(
        list(dict.fromkeys(found)),
        rules,
        selection,
        strict=options.strict,
        session=options.session or "",
        each=lambda judged: emit(text.trace_lines(judged, look)) if as_text else None,
    )
    emit(text.summary_lines(verdict, look) if as_text else json.lines(verdict))
    return verdict.exit_code


def judge_all(
    paths: list[str],
    rules: Ruleset,
    selection: Selection,
    *,
    strict: bool,
    each: Callable[[JudgedTrace], None],
    session: str = "",
) -> Verdict:
    """Judge one after another; ``each`` gets a trace as soon as it is judged."""
    judged: list[JudgedTrace] = []
    unjudged: list[Unjudged] = []
    for path in paths:
        try:
            trace = judge(path, rules, selection, session)
        except McpProxyError as error:
            tell(str(error))
            unjudged.append(Unjudged(path, str(error)))
        else:
            judged.append(trace)
            each(trace)
    return Verdict(tuple(judged), tuple(unjudged), strict)


def judge(path: str, rules: Ruleset, selection: Selection, session: str = "") -> JudgedTrace:
    """Judge the frames of one trace, as they were judged when they passed.

    With ``session``, what is found elsewhere is not reported, nor what concerns no frame.

    Raises:
        TraceError: the trace cannot be read.
        UsageError: there is no such session in it.
    """
    trace = open_trace(path)
    return judging.judge(trace, rules, selection, sessions.only(trace, session) if session else None)
