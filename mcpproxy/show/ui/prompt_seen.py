"""What a model saw of the servers of a run, for the page.

A run is one conversation with a model, and the sessions with servers that its host had open beside it.
"""

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

_SHOWN_CHARACTERS: Final = 200
"""How many characters are shown before and after the place where a text was cut."""


def prompt_in_file(
    own: RecordingEntry, entries: Iterable[RecordingEntry], mask: Callable[[str], str]
) -> JSON:
    """Return the result of ``prompt_seen`` for a file that holds ``own`` alone.

    ``mask`` is applied to each text. The texts around a cut are left out, because they might have a part of a
    secret.

    Raises:
        TraceError: one of the recordings cannot be read.
    """
    entries = list(entries)
    if not any(entry.transport == "http" and not entry.client for entry in (own, *entries)):
        return {"model": None}
    id_in_file = {id_of(own.path): "exported"}

    def masked(value: JSON) -> JSON:
        match value:
            case dict():
                return {name: None if name == "cut" else masked(member) for name, member in value.items()}
            case list():
                return [masked(element) for element in value]
            case str():
                return id_in_file.get(value) or mask(value)
            case _:
                return value

    return masked(prompt_seen(own, entries))


def prompt_seen(own: RecordingEntry, entries: Iterable[RecordingEntry]) -> JSONObject:
    """Return what a model saw in the run of ``own``, a recording of a model's interface or of a server.

    ``model`` is ``None`` if no recording of a model's interface was open at the same time. For a server,
    ``servers`` has only its own part, and ``others`` is empty; the rest is about the whole run.

    Raises:
        TraceError: one of the recordings cannot be read.
    """
    entries = list(entries)
    model = model_of(own, entries)
    if model is None:
        return {"model": None}
    beside = [entry for entry in entries if is_beside(entry, model)]
    report = read_run(read_untouched(model.path), [entry.path for entry in beside], only_reads=True)
    findings = findings_of_run(report, model, entries, catalogue.load())
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
            _server_part(way, entry, [finding for finding in findings if finding.server == way.server.number])
            for way, entry in zip(report.servers, beside, strict=True)
            if own.path in (model.path, entry.path)
        ],
        "others": [visible(written(tool)) for tool in report.others] if own.path == model.path else [],
    }


def _server_part(
    way: ServerWay, entry: RecordingEntry, prompt_findings: Iterable[PromptFinding]
) -> JSONObject:
    """Return what became of one server: its tools, its instructions and its calls, with the findings."""
    became: list[JSON] = [*text_words("instructions", way.instructions)]
    cut = _cut_place(way.server.instructions, way.instructions.kept)
    instructions: JSON = {"became": became, "cut": cut} if became else None
    return {
        "recording": id_of(entry.path),
        "title": entry.title,
        "named": f"{visible(way.prefix)}NAME" if way.prefix else "",
        "in_prompt": len(way.offered),
        "findings": list(map(_finding_row, prompt_findings)),
        "list": [*list_words(way)],
        "instructions": instructions,
        "tools": [_tool_row(tool, way) for tool in way.tools],
        "calls": [_call_row(call) for call in way.calls],
    }


def _finding_row(prompt_finding: PromptFinding) -> JSONObject:
    finding = prompt_finding.finding
    return {
        "rule": finding.rule,
        "name": catalogue.load().rules[finding.rule].name,
        "severity": finding.severity,
        "message": visible(finding.message),
        "frame": finding.frame,
        "model_frame": prompt_finding.model_frame,
    }


def _tool_row(way: ToolWay, server: ServerWay) -> JSONObject:
    tool, change = way.match.tool, way.description
    return {
        "name": visible(tool.name),
        "frame": tool.frame,
        "in_prompt": way.match.offered is not None,
        "became": list(tool_words(way, server)),
        "cut": _cut_place(tool.description or "", change.kept) if change.way == "cut" else None,
    }


def _call_row(way: CallWay) -> JSONObject:
    own = {piece_words(piece) for piece in way.pieces}  # ``parts`` has these
    became: list[JSON] = [words for words in call_words(way) if words not in own]
    parts: list[JSON] = [_part_row(piece) for piece in way.pieces]
    return {"name": visible(way.wire.name), "call": way.wire.number, "became": became, "parts": parts}


def _part_row(way: PieceWay) -> JSONObject:
    change = way.change
    return {
        "what": visible(piece_noun(way.piece)),
        "way": change.way,
        "became": piece_words(way),
        "cut": _cut_place(way.piece.text, change.kept) if change.way == "cut" else None,
    }


def _cut_place(text: str, kept: int) -> JSON:
    """Return the text on both sides of the place where it was cut, and how many more characters were lost."""
    lost = text[kept:]
    return {
        "kept": f"…{text[kept - _SHOWN_CHARACTERS : kept]}" if kept > _SHOWN_CHARACTERS else text[:kept],
        "lost": lost[:_SHOWN_CHARACTERS],
        "more": max(0, len(lost) - _SHOWN_CHARACTERS),
    }
