"""Which call of a model is which call on the wire, and what the model got of its result."""

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

_OF_FAILURE: Final = pattern(r"(?i)err|fail|exception|unsuccess|refus|reject|denied|invalid")
"""Words by which a host may tell that a call failed."""

_MOST_ALIKE: Final = 16
"""How many calls of a model are compared with a call on the wire that fit it alike."""

_TEXTS: Final = ("text", "resource", "link", "error message")


@slotted(frozen=True)
class PieceWay:
    """A part of a result, and what the model got of it."""

    piece: Piece
    change: TextChange


@slotted(frozen=True)
class CallWay:
    """A call on the wire with that of the model, ``None`` if the model asked for none like it.

    ``changed`` are the differences of the arguments. ``result`` is ``None`` if no later request has one.
    ``asked`` is the request that the model answered with its call, and ``given`` the first one with the
    result; ``said`` are all texts that came with the result then. ``is_unmarked`` is true for a call that
    failed, if nothing but the words of the server tells the model so.
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
    """A call of the model, and the request that it answered so."""

    call: ModelCall
    asked: AskedModel


class MatchedCalls:
    """Finds the model's call for each call on the wire, and the result that the model was given for it."""

    def __init__(
        self,
        calls: Iterable[CalledModel],
        arrived: Mapping[str, list[ArrivedResult]],
        aside: Mapping[str, list[ArrivedResult]],
    ) -> None:
        # Of a request that was sent again, only the answer that was taken up has results.
        self._free: Final = sorted(calls, key=lambda called: called.call.id not in arrived)
        self._ids: Final = {called.call.id for called in self._free}
        self._arrived: Final = {key: list(results) for key, results in arrived.items()}
        self._aside: Final = aside

    def ways(self, servers: Iterable[WireServer], matches: Iterable[Match]) -> list[CallWay]:
        """Return the ways of all calls, in their order in time."""
        names = {
            (match.tool.server, match.tool.name): match.offered
            for match in matches
            if match.offered is not None
        }
        wires = sorted((call for server in servers for call in server.calls), key=lambda call: call.at_ns)
        found: dict[int, tuple[CalledModel, Certainty]] = {}
        # Equal calls may be answered in another order than they were asked for, and a host may call again.
        for (fits, certainty), is_sure in product(_CALL_WAYS, (True, False)):
            for at, wire in enumerate(wires):
                offered = names.get((wire.server, wire.name))
                if at not in found and (called := self._first(fits, wire, offered, is_sure=is_sure)):
                    found[at] = called, certainty
        none: tuple[CalledModel | None, Certainty] = None, Certainty.CERTAIN
        return [self._way(wire, *found.get(at, none)) for at, wire in enumerate(wires)]

    def _first(
        self, fits: "_Fits", wire: WireCall, offered: OfferedTool | None, *, is_sure: bool
    ) -> CalledModel | None:
        """Return the first call that fits; if it ``is_sure``, only one whose result came back."""
        fitting = islice((one for one in self._free if fits(wire, offered, one.call)), _MOST_ALIKE)
        called = next((one for one in fitting if not is_sure or self._came_back(wire, one.call)), None)
        if called is not None:
            self._free.remove(called)
        return called

    def _came_back(self, wire: WireCall, call: ModelCall) -> bool:
        """Whether the result of ``call`` has anything of that on the wire."""
        came = self._arrived.get(call.id) if call.id else None
        return bool(came) and _has_any(wire, came[0])

    def _way(self, wire: WireCall, called: CalledModel | None, certainty: Certainty) -> CallWay:
        if called is None:
            return CallWay(wire, None, certainty, (), None, (), AskedModel(), AskedModel(), ())
        call, asked = called.call, called.asked
        came = self._result(wire, call, asked)
        changed = tuple(changes(call.arguments, wire.arguments))
        if came is None:
            return CallWay(wire, call, certainty, changed, None, (), asked, AskedModel(), ())
        ways = tuple(_piece_ways(wire, came))
        is_unmarked = _is_unmarked(wire, ways, came.result)
        return CallWay(
            wire, call, certainty, changed, came.result, ways, asked, came.asked, came.said, is_unmarked
        )

    def _result(self, wire: WireCall, call: ModelCall, asked: AskedModel) -> ArrivedResult | None:
        """Return the next result of a call: by its id, else by the name of its tool, with an id that the host
        made if the service gave none."""
        by_id = self._arrived.get(call.id) if call.id else None
        aside = next(iter(self._aside.get(call.id, ())), None) if call.id else None
        if by_id:
            came = by_id.pop(0)
            # What a request without tools had before may since have been cleared.
            is_left = aside is None or came.asked.frame < aside.asked.frame or _has_any(wire, came)
            return came if is_left else aside
        if aside is not None:
            return aside
        for key, results in self._arrived.items():
            if results and results[0].result.name == call.name and key not in self._ids:
                # What the request with the question had already is the result of an earlier call.
                results[:] = [one for one in results if one.asked.frame > asked.frame]
                at_once = [one for one in results if one.asked == results[0].asked]
                if at_once:
                    ours = (one for one in at_once if len(at_once) > 1 and _has_any(wire, one))
                    found = next(ours, at_once[0])
                    results.remove(found)
                    return found
        return None


def _has_any(wire: WireCall, came: ArrivedResult) -> bool:
    """Whether a result in a request has any part of that on the wire."""
    return any(way.change.is_there for way in _piece_ways(wire, came))


def _piece_ways(wire: WireCall, came: ArrivedResult) -> Iterator[PieceWay]:
    """Yield the parts of a result, each with what is there of it in a request."""
    parts = tuple(pieces(wire))
    own = {piece.digest for piece in parts}
    return (PieceWay(piece, _reached(piece, came, own)) for piece in parts)


_Fits = Callable[[WireCall, OfferedTool | None, ModelCall], bool]


def _has_its_id(wire: WireCall, offered: OfferedTool | None, call: ModelCall) -> bool:
    return bool(wire.host_id) and wire.host_id == call.id and _is_of(wire, offered, call)


def _is_equal(wire: WireCall, offered: OfferedTool | None, call: ModelCall) -> bool:
    return _is_of(wire, offered, call) and next(changes(wire.arguments, call.arguments), None) is None


def _is_of(wire: WireCall, offered: OfferedTool | None, call: ModelCall) -> bool:
    if offered is None:
        return call.name == wire.name
    return call.name == offered.name and (not call.namespace or call.namespace == offered.namespace)


_CALL_WAYS: Final = (
    (_has_its_id, Certainty.CERTAIN),
    (_is_equal, Certainty.LIKELY),
    (_is_of, Certainty.GUESS),
)
"""How the model's call is found, the surest way first."""


def _reached(piece: Piece, came: ArrivedResult, own: Container[str]) -> TextChange:
    """Say what the model got of a part of a result, in the result or beside it.

    ``own`` are the digests of all its parts: a picture that is none of them may be one in another form.
    """
    content, said = (*came.result.content, *came.beside), came.said
    if piece.kind == "structured":
        reached = value_reached(piece.value, said)
        change = text_reached(piece.text, said)
        return TextChange("as text", len(piece.text), len(piece.text)) if reached else change
    if piece.kind in _TEXTS and not piece.digest:
        if not piece.text.strip():
            return TextChange("same", 0, 0)
        texts = [one.text for one in came.result.content if one.kind == "text"]
        change = text_reached(piece.text, (*said, "".join(texts)) if len(texts) > 1 else said)
        if change.way in ("missing", "cut") and is_laid_out_anew(piece.text, said):
            return TextChange("as text", change.size, change.size)
        if change.way == "missing" and any(_is_foreign(one, own) for one in came.result.content):
            return TextChange("unknown", change.size, 0)  # it may be in a file that the host made of it
        is_bare = piece.kind == "link" and change.way == "same"  # its name and description are gone
        return TextChange("as text", change.size, change.kept) if is_bare else change
    if piece.digest and any(one.digest == piece.digest for one in content):
        return TextChange("same", piece.size, piece.size)
    if len(piece.data) >= 8 and (any(piece.data in one for one in said) or _is_written_out(piece, said)):
        return TextChange("as text", piece.size, piece.size)
    is_unsure = not piece.digest or any(_is_foreign(one, own) for one in content)
    return TextChange("unknown" if is_unsure else "missing", piece.size, 0)


def _is_foreign(content: Content, own: Container[str]) -> bool:
    """Whether a result has a picture or a file that is none of the server's as it was."""
    return content.kind != "text" and (not content.digest or content.digest not in own)


def _is_written_out(piece: Piece, said: Iterable[str]) -> bool:
    """Whether the bytes of a part are a text, as those of an SVG picture are, and that text is there."""
    try:
        text = (decoded(piece.data) or b"").decode()
    except UnicodeDecodeError:
        return False
    return len(text) >= 8 and text_reached(text, said).way in ("same", "as text")


def _is_unmarked(wire: WireCall, parts: Iterable[PieceWay], result: ModelResult) -> bool:
    """Whether a call failed, and neither the interface nor the words of the host tell the model so."""
    if result.failed or not (wire.error if wire.result is None else wire.result.get("isError") is True):
        return False
    said = "\n".join(one.text for one in result.content if one.kind == "text")
    for part in parts:
        said = said.replace(part.piece.text, "")
    return MARK not in said and _OF_FAILURE.search(said) is None
