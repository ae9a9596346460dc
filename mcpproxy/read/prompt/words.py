"""Describe in words what became of a tool, a call or a result between the wire and the prompt.

The wire is what a client and its servers sent each other, and the prompt what the host sent to its model.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from mcpproxy.base.style import count, size
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.masked_values import holds_mask
from mcpproxy.model.tool_names import written
from mcpproxy.read.prompt.call_ways import CallWay, PieceWay
from mcpproxy.read.prompt.changes import TextChange, ValueChange, names
from mcpproxy.read.prompt.report import PromptReport, RefusedRequest, ServerWay, ToolWay
from mcpproxy.read.prompt.wire import Piece, WireTool
from mcpproxy.read.view.runs import Certainty

_PIECE_NOUNS: Final = {
    "structured": "structured content",
    "link": "resource link",
    "other": "content of another type",
}

_HOW_FOUND: Final = {
    Certainty.CERTAIN: "the host sent its id along",
    Certainty.LIKELY: "tool and arguments fit",
    Certainty.GUESS: "only the tool fits",
}


def unread_words(report: PromptReport) -> str:
    """Return a sentence about requests to the model that are not in the report; empty if all are."""
    if not report.unread:
        return ""
    are = "are" if report.unread > 1 else "is"
    return f"{count(report.unread, 'request')} {are} missing here: too long to be read, cut, or not JSON"


def list_words(server: ServerWay) -> Iterator[str]:
    """Yield a clause if the host did not read all pages of the list of tools."""
    if server.server.unread is not None:
        yield "the list of tools goes on, and the host did not ask for its next page"


def tool_words(way: ToolWay, server: ServerWay) -> Iterator[str]:
    """Yield clauses for what became of a tool; none if the prompt has it as the server defined it."""
    offered = way.match.offered
    if offered is None:
        taker = way.match.taken_by
        yield "not in the prompt" if taker is None else _taken_words(taker, server)
        if way.match.tool.page > 1 and not server.has_page(way.match.tool.page):
            yield f"on page {way.match.tool.page} of the list, of which no tool is there"
        if way.in_text is Certainty.CERTAIN:
            yield "its name is in a text of the prompt"
        return
    is_certain = way.match.certainty is Certainty.CERTAIN
    if way.match.prefix != server.prefix or not is_certain:
        sure = "" if is_certain else f" ({way.match.certainty}: {way.match.why})"
        yield f"named {visible(written(offered))}{sure}"
    yield from text_words("description", way.description)
    for what in ("lost", "as text", "added", "changed"):
        if members := names(way.schema, what):
            how = f"{what} in a description" if what == "as text" else what
            yield f"schema {how}: {', '.join(visible(name) for name in members)}"
    if offered.deferred:
        yield "deferred: the service holds it back until the model searches for it"
    if way.since > 1:
        yield f"from request {way.since} on"
    if way.until < server.last:
        yield f"until request {way.until}"


def refusal_words(refused: RefusedRequest, report: PromptReport) -> Iterator[str]:
    """Yield a clause for how the service refused a request, then one for each tool that the refusal means."""
    times = f" ({refused.times} times)" if refused.times > 1 else ""
    how = f"refused with {refused.status}" if refused.status >= 400 else "failed in its stream"
    yield f"{how}{times}: {visible(refused.message)}"
    for tool in refused.tools:
        is_meant = "that is" if tool.meant.is_placed else "perhaps it means"
        at = f", at {visible(tool.meant.within)}" if tool.meant.within else ""
        if tool.match is None:
            yield f"{is_meant} the tool {visible(written(tool.offered))}, of none of the servers{at}"
        else:
            label = visible(report.servers[tool.match.tool.server].server.label)
            yield f"{is_meant} the tool {visible(tool.match.tool.name)} of {label}{at}"


def text_words(noun: str, change: TextChange) -> Iterator[str]:
    """Yield a clause for what became of a text, which ``noun`` names.

    Nothing is yielded if the prompt has it unchanged or in another form, or if neither side has any.
    """
    match change.way:
        case "cut":
            yield f"{noun} {_cut_words(change)}"
        case "added":
            yield f"{noun} added by the host"
        case "missing" if change.size:
            yield f"{noun} left out ({change.size:,} characters)"
        case "extended":
            yield f"{noun} within other text"
        case "changed":
            yield f"{noun} in other words"
        case "unknown":
            yield f"{noun} not known: texts of the prompt are masked in the recording"
        case _:
            pass


def call_words(way: CallWay) -> Iterator[str]:
    """Yield clauses for what the host changed in a call and its result, and for what is wrong or unsure."""
    if way.model is None:
        yield "no matching call of the model"
        return
    if way.certainty is Certainty.GUESS:
        yield "a guess: only the tool fits"
    if way.changed:
        yield _places_words("arguments differ at ", way.changed)
    if not way.model.is_json and not holds_mask(way.model.arguments):
        yield "the model's arguments are no JSON"
    yield from _result_words(way)


def seen_words(way: CallWay, named: str) -> Iterator[str]:
    """Yield clauses for the model's call and the result that it got, even if the host changed nothing.

    ``named`` is the name of the tool in the prompt, empty if the prompt does not have it.
    """
    if way.model is None:
        yield "no matching call of the model" if named else "no tool of this name in the prompt"
        return
    yield f"asked for {visible(named)} ({way.certainty}: {_HOW_FOUND[way.certainty]})"
    if not way.model.is_json and not holds_mask(way.model.arguments):
        yield f"with arguments that are no JSON: {visible(str(way.model.arguments))}"
    elif way.changed:
        yield _places_words("with arguments that the host changed at ", way.changed)
    else:
        is_known = not holds_mask(way.model.arguments) and not holds_mask(way.wire.arguments)
        yield "with the same arguments" if is_known else "with the same arguments, but for what is masked"
    yield from _result_words(way, "got the whole result" if not way.wire.error else "got the whole error")


def _result_words(way: CallWay, unchanged: str = "") -> Iterator[str]:
    """Yield clauses for what became of a result; ``unchanged`` is the clause if the model got all of it."""
    if way.result is None:
        yield "no later request has its result"
        return
    if way.wire.result is None and not way.wire.error:
        yield "the server gave no result"
        return
    clauses = [words for piece in way.pieces if (words := piece_words(piece))]
    yield from clauses or filter(None, [unchanged])
    if way.is_unmarked:
        yield "failed, and nothing but the server's own words says so"


def piece_noun(piece: Piece) -> str:
    """Return a noun for a part of a result, with type and size if it is bytes."""
    noun = _PIECE_NOUNS.get(piece.kind, piece.kind)
    return f"{noun} {visible(piece.mime)}, {size(piece.size)}" if piece.mime and piece.digest else noun


def piece_words(way: PieceWay) -> str:
    """Return a clause for what the model got of a part of a result; an empty string if it got all."""
    piece, change, noun = way.piece, way.change, piece_noun(way.piece)
    match change.way:
        case "missing" if not piece.is_for_model:
            return f"{noun} left out, which is for the user alone"
        case "missing":
            length = "" if piece.digest or not change.size else f" ({change.size:,} characters)"
            return f"{noun} lost{length}"
        case "unknown":
            return f"{noun} not found, but it may be there in another form"
        case "cut":
            return f"{noun} {_cut_words(change)}"
        case "as text" if piece.kind not in ("text", "error message"):
            return f"{noun} as text"
        case _:
            return ""


def _places_words(before: str, changed: Sequence[ValueChange]) -> str:
    places = ", ".join(visible(change.pointer or "the whole") for change in changed[:3])
    return f"{before}{places}{', …' if len(changed) > 3 else ''}"


def _cut_words(change: TextChange) -> str:
    words = f"cut: its first {change.kept:,} of {change.size:,} characters"
    return f"{words}, and its end" if change.has_end else words


def _taken_words(taker: WireTool, server: ServerWay) -> str:
    whose = "the same server" if taker.server == server.server.number else "another server"
    return f"not in the prompt: its name there is that of {visible(taker.name)} of {whose}"
