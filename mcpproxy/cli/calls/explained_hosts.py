"""The part of ``explain`` for a rule about hosts: what each host does, and how to rewrite tools for it.

A tool *meets* such a rule if the host refuses, loses or changes something of it.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from mcpproxy.base.style import Style, count
from mcpproxy.base.visible import visible
from mcpproxy.cli.calls.json_layout import laid_out
from mcpproxy.cli.calls.prose import PROSE_COLUMNS, heading, prose
from mcpproxy.judge.checks.hosts.facts import HostFact, KnownHost
from mcpproxy.judge.ruleset import host_choice
from mcpproxy.judge.session.frame import SERVER, Frame
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Response
from mcpproxy.protocol.rules import Rule
from mcpproxy.protocol.wording import shown
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports.host_rewrites import REWRITTEN_KINDS, meeting, rewritten, tools_in

_MOST_SHOWN: Final = 3
"""How many tools are shown in another form at most."""


def lines(rule: Rule, recording: str, style: Style) -> Iterator[str]:
    """Yield what each host does, and tools that meet the rule, rewritten so that they do not.

    The tools are those of ``recording``, or if that is empty, of the rule's example.

    Raises:
        TraceError: the recording cannot be read.
    """
    columns = min(style.width or PROSE_COLUMNS, PROSE_COLUMNS)
    facts = list(host_choice.facts_of(rule.code))
    yield from _host_lines(facts, columns, style)
    # Facts that still hold, and that another form of the tool avoids.
    lasting = [fact for _, fact in facts if fact.kind in REWRITTEN_KINDS and not fact.has_ended]
    if recording:
        yield from heading(f"In {visible(recording)}", style)
        if not lasting:
            yield from prose("This rule is not about tools that could be written in another way.", columns)
            return
        tools = tools_in(_results_in_recording(recording))
    else:
        tools = tools_in(_results_in_example(rule.example))
        if not lasting or not meeting(lasting, tools):
            return
        yield from heading("For example", style)
    yield from _rewritten_tools(tools, lasting, columns)


def _host_lines(facts: Sequence[tuple[KnownHost, HostFact]], columns: int, style: Style) -> Iterator[str]:
    """Yield what each host does, in which versions, and the source of each fact."""
    if facts:
        yield from heading("Hosts", style)
    for host, fact in facts:
        versions = fact.versions or "versions unknown"
        yield from prose(f"{host.name} ({versions}) {fact.says}: {fact.effect}, {fact.evidence}", columns)
        yield from prose(fact.source, columns, indent="    ")


def _rewritten_tools(tools: list[JSONObject], facts: list[HostFact], columns: int) -> Iterator[str]:
    """Yield the tools that meet one of the facts, rewritten so that they meet none."""
    met = list(meeting(facts, tools))
    if not met:
        yield from prose(f"None of {count(len(tools), 'tool')} meets it.", columns)
        return
    names = {str(tool["name"]) for tool in tools}
    for tool in (tool for tool in tools if tool["name"] in met[:_MOST_SHOWN]):
        name = str(tool["name"])
        rewrite = rewritten(tool, facts, sorted(names - {name}))
        if rewrite is None:
            yield from prose(f"tool {shown(name)}: no other form of it is known; see Do instead", columns)
            continue
        names.add(str(rewrite.changed["name"]))
        yield f"  tool {visible(shown(name))}, for all of these hosts:"
        text = json.dumps(rewrite.changed, ensure_ascii=False)
        yield from (f"    {visible(line)}" for line in laid_out(text, columns - 4))
    if len(met) > _MOST_SHOWN:
        yield from prose(f"{len(met) - _MOST_SHOWN:,} more tools meet it.", columns)


def _results_in_recording(recording: str) -> Iterator[JSON]:
    for event in open_trace(recording).events():
        if isinstance(event, Frame) and event.sender == SERVER and isinstance(event.message, Response):
            yield event.message.value


def _results_in_example(example: str) -> Iterator[JSON]:
    for line in example.splitlines():
        sender, _, text = line.partition(": ")
        if sender == SERVER and text.startswith("{"):
            yield json.loads(text)
