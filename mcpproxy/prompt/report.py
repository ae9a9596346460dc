"""What a model saw of the servers of a run: each tool, call and result, from the wire to the prompt."""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from re import escape
from typing import Final, TypeVar

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.model.refusals import refused_tool
from mcpproxy.model.tool_names import written
from mcpproxy.model.turns import Content, ModelCall, ModelResult, OfferedTool, Usage
from mcpproxy.prompt.changes import TextChange, ValueChange, changes, text_change, text_reached, value_reached
from mcpproxy.prompt.names import Match, common_prefix, matched
from mcpproxy.prompt.wire import Piece, WireCall, WireServer, pieces
from mcpproxy.recorder.model.turns import ModelTurn
from mcpproxy.session.masked_values import MARK, is_masked
from mcpproxy.view.runs import Certainty

_Item = TypeVar("_Item", bound=Hashable)

_TEXTS: Final = ("text", "resource", "link", "error message")


@slotted(frozen=True)
class AskedModel:
    """A request to the model: the frame with its body, 0 for none, and its time in ns since 1970."""

    frame: int = 0
    at_ns: int = 0


@slotted(frozen=True)
class ToolWay:
    """A tool from the wire to the prompt.

    ``since`` and ``until`` are the numbers of the first and the last request that offer it, counted from 1
    among those that offer any tool of the servers; 0 if none does. ``is_named`` says that the prompt has at
    least its name in a text, and ``is_twice`` that a request offers two tools of its name. ``asked`` is the
    last request that offers it.
    """

    match: Match
    since: int
    until: int
    description: TextChange
    schema: tuple[ValueChange, ...]
    is_named: bool
    is_twice: bool
    asked: AskedModel


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
    result; ``said`` are all texts that came with the result then.
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


@slotted(frozen=True)
class ServerWay:
    """A server of the run: its tools, its calls, and what became of its instructions.

    ``prefix`` is what the host puts before the names of its tools, as ``mcp__files__``, or a namespace as
    ``mcp__files / ``. ``last`` is the number of the last request that offers a tool of any server.
    """

    server: WireServer
    prefix: str
    tools: tuple[ToolWay, ...]
    calls: tuple[CallWay, ...]
    instructions: TextChange
    last: int


@slotted()
class RefusedRequest:
    """A request that the service refused, ``times`` in the same words; ``seq`` is the frame of the first.

    ``offered`` is the tool that it means, if any is known, ``within`` the place in it as the service writes
    it, and ``match`` that tool on the wire. ``is_placed`` is false if only a name in the text says which.
    """

    seq: int
    status: int
    message: str
    times: int
    within: str
    is_placed: bool
    offered: OfferedTool | None
    match: Match | None


@slotted()
class PromptReport:
    """What a model saw. ``others`` are the tools in the prompt that belong to none of the servers.

    ``first`` is the number of the first request that offers a tool of the servers, 1 for none. ``unread`` is
    how many requests are missing, because their bodies cannot be read.
    """

    dialect: str
    model: str
    requests: int
    servers: tuple[ServerWay, ...]
    others: tuple[OfferedTool, ...]
    refusals: tuple[RefusedRequest, ...]
    first_usage: Usage | None
    last_usage: Usage | None
    first: int
    unread: int = 0


def read_prompt(
    turns: Iterable[ModelTurn],
    servers: Sequence[WireServer],
    *,
    only_tools: bool = False,
    started_ns: int = 0,
) -> PromptReport:
    """Compare the requests to a model with what the servers said. Requests without tools do not count.

    ``started_ns`` is when the recording of the model's side began, in nanoseconds since 1970.
    ``only_tools`` says that of the prompts only what is about tools was recorded. What stands beside a result
    is, so a text that is masked as a whole holds no part of one.
    """
    seen = _Seen(servers, only_tools=only_tools, started_ns=started_ns)
    for turn in turns:
        if turn.request.tools:
            seen.take(turn)
    return seen.report()


@slotted(frozen=True)
class _Arrived:
    """A result when a request had it first, with the texts and pictures that came with it."""

    result: ModelResult
    beside: tuple[Content, ...]
    texts: tuple[str, ...]
    asked: AskedModel

    @property
    def said(self) -> tuple[str, ...]:
        content = (*self.result.content, *self.beside)
        return (*(one.text for one in content if one.kind == "text"), *self.texts)


@slotted(frozen=True)
class _Called:
    """A call of the model, and the request that it answered so."""

    call: ModelCall
    asked: AskedModel


@slotted()
class _Offer:
    """A tool as the last request with it offers it, and the numbers of the first and the last one."""

    tool: OfferedTool
    since: int
    until: int
    asked: AskedModel
    is_twice: bool = False


class _News:
    """Tells what is new in a sequence that is sent again and again, whatever is put before it."""

    def __init__(self) -> None:
        self._known: Final[Counter[int]] = Counter()

    def of(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the items that no earlier sequence had as often."""
        counted: Counter[int] = Counter()
        for item in items:
            key = hash(item)
            counted[key] += 1
            if counted[key] > self._known[key]:
                self._known[key] = counted[key]
                yield item


class _Seen:
    """What the requests of a conversation had, taken in order.

    Each request has the whole conversation again, so only what is new in it is kept.
    """

    def __init__(self, servers: Sequence[WireServer], *, only_tools: bool, started_ns: int) -> None:
        self._servers: Final = servers
        self._started_ns: Final = started_ns
        self._only_tools: Final = only_tools
        self._requests = 0
        self._dialects: Final[Counter[tuple[str, str]]] = Counter()
        self._offers: Final[dict[str, _Offer]] = {}
        """The whole name of a tool -> its offer."""
        self._texts: Final = _News()
        self._beside: Final = _News()
        self._named: Final[set[str]] = set()
        self._instructions: Final = [TextChange("missing", len(one.instructions), 0) for one in servers]
        self._calls: Final[list[_Called]] = []
        self._arrived: Final[dict[str, list[_Arrived]]] = {}
        """The id of a call, or a space and the name of its tool -> its results in their order."""
        self._refused: Final[dict[tuple[int, str], RefusedRequest]] = {}
        self._usages: Final[list[Usage]] = []

    def take(self, turn: ModelTurn) -> None:
        request, answer = turn.request, turn.answer
        asked = AskedModel(turn.seq, self._started_ns + turn.at_ns)
        self._requests += 1
        self._dialects[request.dialect, request.model or (answer.model if answer else "")] += 1
        for tool in request.tools:
            offer = self._offers.setdefault(written(tool), _Offer(tool, self._requests, 0, asked))
            offer.is_twice |= offer.until == self._requests
            offer.tool, offer.until, offer.asked = tool, self._requests, asked
        texts, beside = tuple(self._texts.of(request.texts)), tuple(self._beside.of(request.beside))
        self._take_texts(texts)
        if self._only_tools:
            texts = tuple(text for text in texts if not is_masked(text))
        counted: Counter[str] = Counter()
        for result in request.results:
            key = result.call_id or f" {result.name}"
            arrived = self._arrived.setdefault(key, [])
            counted[key] += 1
            if counted[key] > len(arrived):
                arrived.append(_Arrived(result, beside, texts, asked))
        if turn.refusal is not None:
            self._take_refusal(turn)
        if answer is not None:
            self._calls.extend(_Called(call, asked) for call in answer.calls)
            if answer.usage is not None:
                self._usages.append(answer.usage)

    def _take_refusal(self, turn: ModelTurn) -> None:
        refusal = turn.refusal
        if refusal is None:
            return
        key = turn.status, refusal.message
        if key not in self._refused:
            tool = refused_tool(refusal, turn.request)
            self._refused[key] = RefusedRequest(
                turn.seq, turn.status, refusal.message, 0, refusal.within, bool(refusal.tool), tool, None
            )
        self._refused[key].times += 1

    def _take_texts(self, texts: Iterable[str]) -> None:
        for text in texts:
            for server in self._servers:
                if server.instructions:
                    change = text_change(server.instructions, text)
                    best = self._instructions[server.number]
                    if change.kept > best.kept:
                        self._instructions[server.number] = change
                    elif MARK in text and best.way == "missing":
                        self._instructions[server.number] = TextChange("unknown", best.size, 0)
                self._named.update(tool.name for tool in server.tools if _names(text, tool.name))

    def report(self) -> PromptReport:
        matches = matched(self._servers, [offer.tool for offer in self._offers.values()])
        found = [self._offers[written(match.offered)] for match in matches if match.offered is not None]
        first = min((offer.since for offer in found), default=1)
        last = max((offer.until for offer in found), default=0) - first + 1
        tools = [self._tool_way(match, first) for match in matches]
        known = {written(match.offered) for match in matches if match.offered is not None}
        calls = _Calls(self._calls, self._arrived).ways(self._servers, matches)
        (dialect, model), _ = (self._dialects.most_common(1) or [(("", ""), 0)])[0]
        return PromptReport(
            dialect,
            model,
            self._requests,
            tuple(
                ServerWay(
                    server,
                    common_prefix([match for match in matches if match.tool.server == server.number]),
                    tuple(way for way in tools if way.match.tool.server == server.number),
                    tuple(way for way in calls if way.wire.server == server.number),
                    self._instructions[server.number],
                    last,
                )
                for server in self._servers
            ),
            tuple(offer.tool for name, offer in self._offers.items() if name not in known),
            tuple(self._refusals(matches)),
            self._usages[0] if self._usages else None,
            self._usages[-1] if self._usages else None,
            first,
        )

    def _refusals(self, matches: Iterable[Match]) -> Iterator[RefusedRequest]:
        by_name = {written(match.offered): match for match in matches if match.offered is not None}
        for refused in self._refused.values():
            if refused.offered is not None:
                refused.match = by_name.get(written(refused.offered))
            yield refused

    def _tool_way(self, match: Match, first: int) -> ToolWay:
        tool, offered = match.tool, match.offered
        if offered is None:
            gone = TextChange("missing", len(tool.description or ""), 0)
            return ToolWay(
                match, 0, 0, gone, (), tool.name in self._named, is_twice=False, asked=AskedModel()
            )
        offer = self._offers[written(offered)]
        return ToolWay(
            match,
            offer.since - first + 1,
            offer.until - first + 1,
            text_change(tool.description, offered.description),
            tuple(changes(tool.schema, offered.schema)),
            is_named=True,
            is_twice=offer.is_twice,
            asked=offer.asked,
        )


class _Calls:
    """Finds the model's call for each call on the wire, and the result that the model was given for it."""

    def __init__(self, calls: Iterable[_Called], arrived: Mapping[str, list[_Arrived]]) -> None:
        # Of a request that was sent again, only the answer that was taken up has results.
        self._free: Final = sorted(calls, key=lambda called: called.call.id not in arrived)
        self._ids: Final = {called.call.id for called in self._free}
        self._arrived: Final = {key: list(results) for key, results in arrived.items()}

    def ways(self, servers: Iterable[WireServer], matches: Iterable[Match]) -> list[CallWay]:
        """Return the ways of all calls, in their order in time."""
        names = {
            (match.tool.server, match.tool.name): match.offered
            for match in matches
            if match.offered is not None
        }
        wires = sorted((call for server in servers for call in server.calls), key=lambda call: call.at_ns)
        found: dict[int, tuple[_Called, Certainty]] = {}
        for fits, certainty in _CALL_WAYS:
            for at, wire in enumerate(wires):
                offered = names.get((wire.server, wire.name))
                if at not in found and (called := self._first(fits, wire, offered)):
                    found[at] = called, certainty
        none: tuple[_Called | None, Certainty] = None, Certainty.CERTAIN
        return [self._way(wire, *found.get(at, none)) for at, wire in enumerate(wires)]

    def _first(self, fits: "_Fits", wire: WireCall, offered: OfferedTool | None) -> _Called | None:
        called = next((one for one in self._free if fits(wire, offered, one.call)), None)
        if called is not None:
            self._free.remove(called)
        return called

    def _way(self, wire: WireCall, called: _Called | None, certainty: Certainty) -> CallWay:
        if called is None:
            return CallWay(wire, None, certainty, (), None, (), AskedModel(), AskedModel(), ())
        call, asked = called.call, called.asked
        came = self._result(call)
        changed = tuple(changes(call.arguments, wire.arguments))
        if came is None:
            return CallWay(wire, call, certainty, changed, None, (), asked, AskedModel(), ())
        parts = tuple(pieces(wire))
        own = {piece.digest for piece in parts}
        ways = tuple(PieceWay(piece, _reached(piece, came, own)) for piece in parts)
        return CallWay(wire, call, certainty, changed, came.result, ways, asked, came.asked, came.said)

    def _result(self, call: ModelCall) -> _Arrived | None:
        """Return the next result of a call: by its id, else by the name of its tool, with an id that the host
        made if the service gave none."""
        by_id = self._arrived.get(call.id) if call.id else None
        if by_id:
            return by_id.pop(0)
        for key, results in self._arrived.items():
            if results and results[0].result.name == call.name and key not in self._ids:
                return results.pop(0)
        return None


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


def _reached(piece: Piece, came: _Arrived, own: Container[str]) -> TextChange:
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
        change = text_reached(piece.text, said)
        is_bare = piece.kind == "link" and change.way == "same"  # its name and description are gone
        return TextChange("as text", change.size, change.kept) if is_bare else change
    if piece.digest and any(one.digest == piece.digest for one in content):
        return TextChange("same", piece.size, piece.size)
    if len(piece.data) >= 8 and any(piece.data in one for one in said):
        return TextChange("as text", piece.size, piece.size)
    is_unsure = not piece.digest or any(one.kind != "text" and one.digest not in own for one in content)
    return TextChange("unknown" if is_unsure else "missing", piece.size, 0)


def _names(text: str, name: str) -> bool:
    """Whether a text has the name of a tool, and not only as a part of a longer word."""
    return (
        name in text and pattern(rf"(?<![A-Za-z0-9]){escape(name)}(?![A-Za-z0-9])").search(text) is not None
    )
