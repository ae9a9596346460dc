"""Match the calls of a model with calls on the wire, and find what the model got of each result.

The wire is what the client and its servers sent each other. The *way* of a call or of a part of its result
says what became of it between the wire and the prompt.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.masked_values import MARK
from mcpproxy.model.turns import Content, ModelCall, ModelResult, OfferedTool
from mcpproxy.model.values import decoded
from mcpproxy.read.prompt.arrivals import ArrivedResult, AskedModel
from mcpproxy.read.prompt.changes import (
    TextChange,
    ValueChange,
    changes,
    is_laid_out_anew,
    text_reached,
    value_reached,
)
from mcpproxy.read.prompt.names import Match
from mcpproxy.read.prompt.wire import Piece, WireCall, WireServer, pieces
from mcpproxy.read.view.runs import Certainty

_FAILURE_WORDS: Final = pattern(r"(?i)err|fail|exception|unsuccess|refus|reject|denied|invalid")
"""Words with which a host may tell its model that a call failed."""

_MOST_ALIKE: Final = 16
"""How many of the model's calls that fit a call on the wire equally well are compared with it."""

_TEXT_KINDS: Final = ("text", "resource", "link", "error message")
"""The kinds of pieces that are texts, if they have no bytes."""


@slotted(frozen=True)
class PieceWay:
    """A part of a result, and what the model got of it."""

    piece: Piece
    change: TextChange


@slotted(frozen=True)
class CallWay:
    """A call on the wire, and the same call of the model, ``None`` if the model made none like it.

    ``certainty`` is how sure it is that the two are the same. ``changed`` are the differences of the
    arguments. ``result`` is what the model was given, ``None`` if no later request has it; ``pieces`` are
    then none, else the parts of the server's result. ``asked`` is the request that the model answered with
    its call, and ``given`` the one with that result. ``said`` are all texts in that request that came with
    the result. ``is_unmarked`` is true if the call failed and only the words of the server tell the model so.
    """

    wire: WireCall
    model: ModelCall | None
    certainty: Certainty
    changed: tuple[ValueChange, ...]
    result: ModelResult | None
    pieces: tuple[PieceWay, ...]
    asked: AskedModel
    given: AskedModel
    said: tuple[str, ...]
    is_unmarked: bool = False


@slotted(frozen=True)
class CalledModel:
    """A call of the model, and the request that it answered with the call."""

    call: ModelCall
    asked: AskedModel


class MatchedCalls:
    """Finds the model's call for each call on the wire, and the result that the model was given for it.

    ``arrived`` are the results in requests that offer tools, and ``without_tools`` those in the other
    requests; the keys of both are those of ``Arrivals.found``.
    """

    def __init__(
        self,
        calls: Iterable[CalledModel],
        arrived: Mapping[str, list[ArrivedResult]],
        without_tools: Mapping[str, list[ArrivedResult]],
    ) -> None:
        # If a host sent a request twice, only the answer that it used has results: that one comes first.
        self._free: Final = sorted(calls, key=lambda called: called.call.id not in arrived)
        self._ids: Final = {called.call.id for called in self._free}
        self._arrived: Final = {key: list(results) for key, results in arrived.items()}
        self._without_tools: Final = without_tools

    def ways(self, servers: Iterable[WireServer], matches: Iterable[Match]) -> list[CallWay]:
        """Return a ``CallWay`` for each call on the wire, in the order of time.

        Call this once only: it uses up the calls and the results of the model.
        """
        names = {
            (match.tool.server, match.tool.name): match.offered
            for match in matches
            if match.offered is not None
        }
        wires = sorted((call for server in servers for call in server.calls), key=lambda call: call.at_ns)
        found: dict[int, tuple[CalledModel, Certainty]] = {}
        # Equal calls may be answered in another order than they were made, and a host may repeat a call. So
        # the model's calls whose result came back are tried first.
        for (fits, certainty), is_sure in product(_CALL_TESTS, (True, False)):
            for at, wire in enumerate(wires):
                offered = names.get((wire.server, wire.name))
                if at not in found and (
                    called := self._take_fitting_call(fits, wire, offered, is_sure=is_sure)
                ):
                    found[at] = called, certainty
        none: tuple[CalledModel | None, Certainty] = None, Certainty.CERTAIN
        return [self._call_way(wire, *found.get(at, none)) for at, wire in enumerate(wires)]

    def _take_fitting_call(
        self, fits: "_CallTest", wire: WireCall, offered: OfferedTool | None, *, is_sure: bool
    ) -> CalledModel | None:
        """Remove and return the first call of the model that fits, and whose result came if ``is_sure``.

        Return ``None`` if there is none among the first ``_MOST_ALIKE`` that fit.
        """
        fitting = islice((free for free in self._free if fits(wire, offered, free.call)), _MOST_ALIKE)
        called = next((free for free in fitting if not is_sure or self._came_back(wire, free.call)), None)
        if called is not None:
            self._free.remove(called)
        return called

    def _came_back(self, wire: WireCall, call: ModelCall) -> bool:
        """Whether the model's result of ``call`` has any part of the result on the wire."""
        came = self._arrived.get(call.id) if call.id else None
        return bool(came) and _has_any_piece(wire, came[0])

    def _call_way(self, wire: WireCall, called: CalledModel | None, certainty: Certainty) -> CallWay:
        if called is None:
            return CallWay(wire, None, certainty, (), None, (), AskedModel(), AskedModel(), ())
        call, asked = called.call, called.asked
        came = self._take_result(wire, call, asked)
        changed = tuple(changes(call.arguments, wire.arguments))
        if came is None:
            return CallWay(wire, call, certainty, changed, None, (), asked, AskedModel(), ())
        ways = tuple(_piece_ways(wire, came))
        is_unmarked = _is_unmarked(wire, ways, came.result)
        return CallWay(
            wire, call, certainty, changed, came.result, ways, asked, came.asked, came.said, is_unmarked
        )

    def _take_result(self, wire: WireCall, call: ModelCall, asked: AskedModel) -> ArrivedResult | None:
        """Return the next result of a call: by the id of the call, else by the name of its tool.

        A result that is found by the name may have an id, too: a host makes one if the service gave none.
        Return ``None`` if there is no result.
        """
        by_id = self._arrived.get(call.id) if call.id else None
        aside = next(iter(self._without_tools.get(call.id, ())), None) if call.id else None
        if by_id:
            came = by_id.pop(0)
            # The host may have cleared a result that an earlier request without tools still has.
            is_left = aside is None or came.asked.frame < aside.asked.frame or _has_any_piece(wire, came)
            return came if is_left else aside
        if aside is not None:
            return aside
        for key, results in self._arrived.items():
            if results and results[0].result.name == call.name and key not in self._ids:
                # A result that was already in the request that led to this call is of an earlier call.
                results[:] = [result for result in results if result.asked.frame > asked.frame]
                together = [result for result in results if result.asked == results[0].asked]
                if together:
                    ours = (
                        result for result in together if len(together) > 1 and _has_any_piece(wire, result)
                    )
                    found = next(ours, together[0])
                    results.remove(found)
                    return found
        return None


def _has_any_piece(wire: WireCall, came: ArrivedResult) -> bool:
    """Whether a result in a request to the model has any part of the result on the wire."""
    return any(way.change.is_there for way in _piece_ways(wire, came))


def _piece_ways(wire: WireCall, came: ArrivedResult) -> Iterator[PieceWay]:
    """Yield the parts of a result, each with what a request to the model has of it."""
    parts = tuple(pieces(wire))
    own = {piece.digest for piece in parts}
    return (PieceWay(piece, _piece_reached(piece, came, own)) for piece in parts)


_CallTest = Callable[[WireCall, OfferedTool | None, ModelCall], bool]


def _has_same_id(wire: WireCall, offered: OfferedTool | None, call: ModelCall) -> bool:
    return bool(wire.host_id) and wire.host_id == call.id and _has_same_name(wire, offered, call)


def _has_same_arguments(wire: WireCall, offered: OfferedTool | None, call: ModelCall) -> bool:
    return _has_same_name(wire, offered, call) and next(changes(wire.arguments, call.arguments), None) is None


def _has_same_name(wire: WireCall, offered: OfferedTool | None, call: ModelCall) -> bool:
    if offered is None:
        return call.name == wire.name
    return call.name == offered.name and (not call.namespace or call.namespace == offered.namespace)


_CALL_TESTS: Final = (
    (_has_same_id, Certainty.CERTAIN),
    (_has_same_arguments, Certainty.LIKELY),
    (_has_same_name, Certainty.GUESS),
)
"""The tests that find the model's call, the surest first, each with the certainty of its match."""


def _piece_reached(piece: Piece, came: ArrivedResult, own: Container[str]) -> TextChange:
    """Return what the model got of a part of a result, in its result or beside it.

    ``own`` are the digests of all parts on the wire: a picture with another digest may be one of them in
    another encoding.
    """
    content, said = (*came.result.content, *came.beside), came.said
    if piece.kind == "structured":
        reached = value_reached(piece.value, said)
        change = text_reached(piece.text, said)
        return TextChange("as text", len(piece.text), len(piece.text)) if reached else change
    if piece.kind in _TEXT_KINDS and not piece.digest:
        if not piece.text.strip():
            return TextChange("same", 0, 0)
        texts = [item.text for item in came.result.content if item.kind == "text"]
        change = text_reached(piece.text, (*said, "".join(texts)) if len(texts) > 1 else said)
        if change.way in ("missing", "cut") and is_laid_out_anew(piece.text, said):
            return TextChange("as text", change.size, change.size)
        if change.way == "missing" and any(_is_foreign(item, own) for item in came.result.content):
            return TextChange("unknown", change.size, 0)  # it may be in a file that the host made from it
        is_bare = (
            piece.kind == "link" and change.way == "same"
        )  # the name and the description of the link are gone
        return TextChange("as text", change.size, change.kept) if is_bare else change
    if piece.digest and any(item.digest == piece.digest for item in content):
        return TextChange("same", piece.size, piece.size)
    if len(piece.data) >= 8 and (any(piece.data in text for text in said) or _is_written_out(piece, said)):
        return TextChange("as text", piece.size, piece.size)
    is_unsure = not piece.digest or any(_is_foreign(item, own) for item in content)
    return TextChange("unknown" if is_unsure else "missing", piece.size, 0)


def _is_foreign(content: Content, own: Container[str]) -> bool:
    """Whether ``content`` is no text, and its bytes are unknown or not those of a part from the server."""
    return content.kind != "text" and (not content.digest or content.digest not in own)


def _is_written_out(piece: Piece, said: Iterable[str]) -> bool:
    """Whether the bytes of a part are a text, such as an SVG picture, and one of ``said`` has that text."""
    try:
        text = (decoded(piece.data) or b"").decode()
    except UnicodeDecodeError:
        return False
    return len(text) >= 8 and text_reached(text, said).way in ("same", "as text")


def _is_unmarked(wire: WireCall, parts: Iterable[PieceWay], result: ModelResult) -> bool:
    """Whether a call failed, and neither a mark of its result nor the words of the host tell the model so.

    It is false if a part of these words is masked.
    """
    if result.failed or not (wire.error if wire.result is None else wire.result.get("isError") is True):
        return False
    said = "\n".join(item.text for item in result.content if item.kind == "text")
    for part in parts:
        said = said.replace(part.piece.text, "")
    return MARK not in said and _FAILURE_WORDS.search(said) is None
