"""What a model saw of the servers of a run, for the page."""

from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.model.dialect import DIALECTS
from mcpproxy.model.tool_names import written
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.read.opening import read_untouched
from mcpproxy.read.prompt.call_ways import CallWay, PieceWay
from mcpproxy.read.prompt.findings import PromptFinding
from mcpproxy.read.prompt.judged_runs import findings_of_run
from mcpproxy.read.prompt.report import ServerWay, ToolWay
from mcpproxy.read.prompt.run import is_beside, model_of, read_run
from mcpproxy.read.prompt.words import (
    call_words,
    list_words,
    piece_noun,
    piece_words,
    refusal_words,
    text_words,
    tool_words,
    unread_words,
)
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.show.ui.library import id_of

_SHOWN: Final = 200
"""How many characters are shown before and behind the place where a text was cut."""


def prompt_in_file(
    own: RecordingEntry, entries: Iterable[RecordingEntry], mask: Callable[[str], str]
) -> JSON:
    """Return the same for a file that holds ``own`` alone: with ``mask`` applied to each text, and without
    those around a cut, of which a part of a secret might be left.

    Raises:
        TraceError: one of the recordings cannot be read.
    """
    entries = list(entries)
    if not any(each.transport == "http" and not each.client for each in (own, *entries)):
        return {"model": None}
    alone = {id_of(own.path): "exported"}

    def told(value: JSON) -> JSON:
        match value:
            case dict():
                return {name: None if name == "cut" else told(one) for name, one in value.items()}
            case list():
                return [told(one) for one in value]
            case str():
                return alone.get(value) or mask(value)
            case _:
                return value

    return told(prompt_seen(own, entries))


def prompt_seen(own: RecordingEntry, entries: Iterable[RecordingEntry]) -> JSONObject:
    """Return what a model saw in the run of ``own``, a recording of a model's interface or of a server.

    ``model`` is ``None`` if no recording of a model's interface was open at the same time. For a server, only
    its own part is returned.

    Raises:
        TraceError: one of the recordings cannot be read.
    """
    entries = list(entries)
    model = model_of(own, entries)
    if model is None:
        return {"model": None}
    beside = [each for each in entries if is_beside(each, model)]
    report = read_run(read_untouched(model.path), [each.path for each in beside], only_reads=True)
    found = findings_of_run(report, model, entries, catalogue.load())
    first, last = report.first_usage, report.last_usage
    return {
        "model": visible(report.model),
        "recording": id_of(model.path),
        "dialect": DIALECTS[report.dialect].title if report.dialect else "",
        "requests": report.requests,
        "tokens": [first.input, last.input] if first is not None and last is not None else None,
        "unread": unread_words(report),
        "refusals": [list(refusal_words(refused, report)) for refused in report.refusals],
        "servers": [
            _server(way, entry, [one for one in found if one.server == way.server.number])
            for way, entry in zip(report.servers, beside, strict=True)
            if own.path in (model.path, entry.path)
        ],
        "others": [visible(written(tool)) for tool in report.others] if own.path == model.path else [],
    }


def _server(way: ServerWay, entry: RecordingEntry, found: Iterable[PromptFinding]) -> JSONObject:
    told = way.server.instructions
    became: list[JSON] = [*text_words("instructions", way.instructions)]
    instructions: JSON = {"became": became, "cut": _cut(told, way.instructions.kept)} if became else None
    return {
        "recording": id_of(entry.path),
        "title": entry.title,
        "named": f"{visible(way.prefix)}NAME" if way.prefix else "",
        "in_prompt": len(way.offered),
        "findings": [_finding(one) for one in found],
        "list": [*list_words(way)],
        "instructions": instructions,
        "tools": [_tool(tool, way) for tool in way.tools],
        "calls": [_call(call) for call in way.calls],
    }


def _finding(found: PromptFinding) -> JSONObject:
    finding = found.finding
    return {
        "rule": finding.rule,
        "name": catalogue.load().rules[finding.rule].name,
        "severity": finding.severity,
        "message": visible(finding.message),
        "frame": finding.frame,
        "model_frame": found.model_frame,
    }


def _tool(way: ToolWay, server: ServerWay) -> JSONObject:
    tool, change = way.match.tool, way.description
    return {
        "name": visible(tool.name),
        "frame": tool.frame,
        "in_prompt": way.match.offered is not None,
        "became": list(tool_words(way, server)),
        "cut": _cut(tool.description or "", change.kept) if change.way == "cut" else None,
    }


def _call(way: CallWay) -> JSONObject:
    own = {piece_words(piece) for piece in way.pieces}  # these stand with the parts
    became: list[JSON] = [words for words in call_words(way) if words not in own]
    parts: list[JSON] = [_part(piece) for piece in way.pieces]
    return {"name": visible(way.wire.name), "call": way.wire.number, "became": became, "parts": parts}


def _part(way: PieceWay) -> JSONObject:
    change = way.change
    return {
        "what": visible(piece_noun(way.piece)),
        "way": change.way,
        "became": piece_words(way),
        "cut": _cut(way.piece.text, change.kept) if change.way == "cut" else None,
    }


def _cut(text: str, kept: int) -> JSON:
    """Return the text on both sides of the place where it was cut, and how many more characters are gone."""
    lost = text[kept:]
    return {
        "kept": f"…{text[kept - _SHOWN : kept]}" if kept > _SHOWN else text[:kept],
        "lost": lost[:_SHOWN],
        "more": max(0, len(lost) - _SHOWN),
    }
