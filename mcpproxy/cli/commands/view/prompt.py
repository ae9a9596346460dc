"""``mcpproxy prompt``: what the model saw of the servers' tools, calls and results."""

import os
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from mcpproxy.base.paths import state_dir
from mcpproxy.base.style import Style, count
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.errors import TraceError
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.model.dialect import DIALECTS
from mcpproxy.model.tool_names import written
from mcpproxy.read.opening import open_trace
from mcpproxy.read.prompt.findings import PromptFinding
from mcpproxy.read.prompt.judged_runs import findings_of_run
from mcpproxy.read.prompt.report import PromptReport, ServerWay
from mcpproxy.read.prompt.report_json import as_json
from mcpproxy.read.prompt.run import (
    MOST_SEARCHED,
    has_turns,
    is_of_a_model,
    model_beside,
    open_beside,
    read_run,
    with_its_folder,
)
from mcpproxy.read.prompt.words import (
    call_words,
    list_words,
    refusal_words,
    text_words,
    tool_words,
    unread_words,
)
from mcpproxy.read.reports.text import finding_line

EPILOG: Final = """\
A host makes something else of what a server says: it renames tools, cuts descriptions, drops keywords of
schemas, leaves out pictures. This compares both sides. For the model's side, let the host talk to the
interface of its model through mcpproxy:

  mcpproxy model https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:8766 claude

Anthropic Messages, OpenAI Chat Completions and Responses, Gemini, and what is compatible with them are read.
Without SERVER, all recordings in the same folder that were open at the same time are compared. If MODEL is
the recording of a server, that of a model's interface beside it is found.

  mcpproxy prompt model                  the latest recording with this label
  mcpproxy prompt model.jsonl a.jsonl    these recordings
  mcpproxy prompt model --all            also what is the same
  mcpproxy prompt model --json | jq .    all of it as one JSON object"""

_INDENT: Final = 2


def run(argv: list[str]) -> int:
    """Print what a model saw of the servers of a run.

    A run is one use of a host: its recording of the model's interface, and those of its servers.

    Raises:
        McpProxyError: the arguments are not valid, or a recording cannot be read.
    """
    parser = Parser("prompt", "Show what the model saw of the servers' tools, calls and results.", EPILOG)
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="the recording of the model's side; without it the latest one",
    )
    sides = "recordings of the servers' sides"
    parser.add_argument("server_recordings", nargs="*", metavar="SERVER", help=sides)
    parser.add_argument("--all", action="store_true", help="also tools and calls that came through unchanged")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = parser.parse_args(argv)
    model = _latest() if options.model is None else find_traces.one(options.model)
    named = options.server_recordings
    servers = find_traces.every(named) if named else []
    show_prompt(model, servers, everything=options.all, as_object=options.json)
    return 0


def show_prompt(
    model: str, servers: Sequence[str] = (), *, everything: bool = False, as_object: bool = False
) -> None:
    """Print what the model saw in the run of ``model``, a recording of its interface or of a server.

    ``servers`` are the recordings of servers; ``model`` is added if it is one. Without any, they are those
    that were open at the same time. With ``everything``, also print what is unchanged; with ``as_object``,
    print JSON.

    Raises:
        McpProxyError: a recording cannot be read, no request to the model came through ``model``, or no
            recording of a model's interface is beside it.
    """
    trace = open_trace(model)
    if not has_turns(trace):
        if trace.header.model:
            step = f"point the host at {visible(trace.header.listen)}, see mcpproxy model --help"
            raise UsageError(model, "no request to the model came through it", step)
        server, model = model, model_beside(model)
        if not model:
            raise UsageError(
                server,
                "has no request to a model's interface, nor has a recording beside it",
                "record one: mcpproxy model URL-OF-THE-SERVICE",
            )
        tell(f"the recording of a model's interface beside it: {model}")
        trace, servers = open_trace(model), [server, *servers]
    report = read_run(trace, [os.path.abspath(path) for path in servers] or open_beside(model))
    findings = findings_of_run(report, *with_its_folder(model), catalogue.load())
    if as_object:
        emit([as_json(report, findings)])
    else:
        emit(lines(report, findings, terminal_style(), everything=everything))


def _latest() -> str:
    """Return the latest recording of a model's interface; the latest of all if none is found."""
    for path in find_traces.recent(state_dir())[:MOST_SEARCHED]:
        try:
            if is_of_a_model(open_trace(path)):
                tell(f"the latest recording of a model's interface: {path}")
                return path
        except TraceError:
            continue
    return find_traces.one(None)


def lines(
    report: PromptReport, findings: Sequence[PromptFinding], style: Style, *, everything: bool = False
) -> Iterator[str]:
    """Yield the report as text; with ``everything``, also what is unchanged."""
    dialect = DIALECTS[report.dialect].title if report.dialect else "no request with tools"
    title = [visible(report.model), dialect, f"{count(report.requests, 'request')} with tools"]
    yield from (
        style.paint(line, "bold") for line in _wrapped_lines(", ".join(filter(None, title)), style, 0)
    )
    if (first := report.first_usage) is not None and (last := report.last_usage) is not None:
        yield f"{first.input:,} tokens in the first answered request, {last.input:,} in the last"
    if unread := unread_words(report):
        yield style.paint(unread, "yellow")
    for refused in report.refusals:
        refusal, *meant = refusal_words(refused, report)
        yield from (style.paint(line, "red") for line in _wrapped_lines(refusal, style, 0))
        for words in meant:
            yield from _wrapped_lines(words, style, _INDENT)
    for server in report.servers:
        yield ""
        yield from _server_lines(server, style, everything=everything)
    if not report.servers:
        yield ""
        yield "no server was recorded at the same time; name its recording: mcpproxy prompt MODEL SERVER"
    if report.others:
        yield ""
        names = ", ".join(visible(written(tool)) for tool in report.others)
        yield from _wrapped_lines(
            f"{count(len(report.others), 'other tool')} in the prompt: {names}", style, 0
        )
    if findings:
        yield ""
        yield style.paint(count(len(findings), "finding"), "bold") + _explain_hint(findings)
    for entry in findings:
        label = visible(report.servers[entry.server].server.label)
        yield from _wrapped_lines(f"{label}: {finding_line(entry.finding, in_frame=True)}", style, _INDENT)


def _explain_hint(findings: Sequence[PromptFinding]) -> str:
    return f"; what a rule means: mcpproxy explain {findings[0].finding.rule}"


def _server_lines(server: ServerWay, style: Style, *, everything: bool) -> Iterator[str]:
    """Yield what became of the tools, instructions and calls of one server."""
    name = visible(server.server.label)
    own = visible(server.server.name)
    title = f"{name} ({own})" if own and own != name else name
    total = count(len(server.tools), "tool")
    yield style.paint(title, "bold") + f": {total}, {len(server.offered)} in the prompt"
    if server.prefix:
        yield f"  named {visible(server.prefix)}NAME"
    yield from (f"  {words}" for words in list_words(server))
    yield from (f"  {words}" for words in text_words("instructions", server.instructions))
    tools = [(visible(way.match.tool.name), list(tool_words(way, server))) for way in server.tools]
    calls = [
        (f"{visible(way.wire.name)} (call {way.wire.number})", list(call_words(way))) for way in server.calls
    ]
    yield from _grouped_lines(tools, "tools unchanged", style, everything=everything)
    yield from _grouped_lines(calls, "results reached the model unchanged", style, everything=everything)


def _grouped_lines(
    rows: Sequence[tuple[str, list[str]]], what: str, style: Style, *, everything: bool
) -> Iterator[str]:
    """Yield the names and the words of each group of rows with equal words, then how many have no words.

    ``what`` names the rows without words, which are unchanged; with ``everything``, their names follow.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, words in rows:
        alike.setdefault(tuple(words), []).append(name)
    same = alike.pop((), [])
    for words, names in alike.items():
        for line in _wrapped_lines(", ".join(names), style, _INDENT):
            yield style.paint(line, "yellow")
        for clause in words:
            yield from _wrapped_lines(clause, style, _INDENT * 2)
    if same:
        names_of_same = f": {', '.join(same)}" if everything else ""
        yield from _wrapped_lines(f"{len(same)} of {len(rows)} {what}{names_of_same}", style, _INDENT)


def _wrapped_lines(text: str, style: Style, indent: int) -> Iterator[str]:
    width = max((style.width or 100) - indent, 40)
    yield from (
        " " * indent + line for line in wrap(text, width, subsequent_indent="  ", break_long_words=True)
    )
