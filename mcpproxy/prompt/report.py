"""What a model saw of the servers of a run: each tool, call and result, from the wire to the prompt."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.model.refusals import refused_tool
from mcpproxy.model.turns import Content, ModelCall, ModelResult, OfferedTool, ServiceRefusal, Usage
from mcpproxy.prompt.changes import SchemaChange, TextChange, piece_change, schema_changes, text_change
from mcpproxy.prompt.model_turns import ModelTurn
from mcpproxy.prompt.names import Match, common_prefix, matched, written
from mcpproxy.prompt.wire import Piece, WireCall, WireServer, pieces
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.view.runs import Certainty

MASKED: Final = "masked("
"""How a value begins that the recording holds masked. Nothing is said of what it was."""


@slotted(frozen=True)
class ToolWay:
    """A tool from the wire to the prompt.

    ``since`` is the number of the first request that offers it, counted from 1 among those that offer any
    tool; 0 if none does. ``is_named`` says that the prompt has at least its name in a text.
    """

    match: Match
    since: int
    description: TextChange
    schema: tuple[SchemaChange, ...]
    is_named: bool


@slotted(frozen=True)
class PieceWay:
    """A part of a result, and what the model got of it."""

    piece: Piece
    change: TextChange


@slotted(frozen=True)
class CallWay:
    """A call on the wire with that of the model, ``None`` if the model asked for none like it.

    ``changed`` are the differences of the arguments. ``result`` is ``None`` if no later request has one.
    """

    wire: WireCall
    model: ModelCall | None
    certainty: Certainty
    changed: tuple[SchemaChange, ...]
    result: ModelResult | None
    pieces: tuple[PieceWay, ...]


@slotted(frozen=True)
class ServerWay:
    """A server of the run: its tools, its calls, and what became of its instructions.

    ``prefix`` is what the host puts before the names of its tools, as ``mcp__files__``.
    """

    server: WireServer
    prefix: str
    tools: tuple[ToolWay, ...]
    calls: tuple[CallWay, ...]
    instructions: TextChange


@slotted(frozen=True)
class RefusedRequest:
    """A request that the service refused, and the tool that it means, if any is known."""

    turn: ModelTurn
    refusal: ServiceRefusal
    offered: OfferedTool | None
    match: Match | None


@slotted(frozen=True)
class PromptReport:
    """What a model saw. ``others`` are the tools in the prompt that belong to none of the servers."""

    dialect: str
    model: str
    requests: int
    servers: tuple[ServerWay, ...]
    others: tuple[OfferedTool, ...]
    refusals: tuple[RefusedRequest, ...]
    first_usage: Usage | None
    last_usage: Usage | None


def read_prompt(turns: Iterable[ModelTurn], servers: Sequence[WireServer]) -> PromptReport:
    """Compare the requests to a model with what the servers said. Requests without tools do not count."""
    seen = _Seen(servers)
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


class _Seen:
    """What the requests of a conversation had, taken in order.

    Each request has the whole conversation again, so only what is new in it is kept.
    """

    def __init__(self, servers: Sequence[WireServer]) -> None:
        self._servers: Final = servers
        self._requests = 0
        self._dialect = self._model = ""
        self._offered: Final[dict[tuple[str, str], tuple[OfferedTool, int]]] = {}
        """(Namespace, name) -> the tool as the last request with it has it, and the number of the first."""
        self._texts: tuple[str, ...] = ()
        self._beside: tuple[Content, ...] = ()
        self._named: Final[set[str]] = set()
        self._instructions: Final = [TextChange("missing", len(one.instructions), 0) for one in servers]
        self._calls: Final[list[ModelCall]] = []
        self._arrived: Final[dict[tuple[str, str], _Arrived]] = {}
        self._refused: Final[list[tuple[ModelTurn, ServiceRefusal, OfferedTool | None]]] = []
        self._usages: Final[list[Usage]] = []

    def take(self, turn: ModelTurn) -> None:
        request, answer = turn.request, turn.answer
        self._requests += 1
        self._dialect, self._model = request.dialect, request.model or (answer.model if answer else "")
        for tool in request.tools:
            key = tool.namespace, tool.name
            self._offered[key] = tool, self._offered[key][1] if key in self._offered else self._requests
        texts = request.texts[_in_common(request.texts, self._texts) :]
        beside = request.beside[_in_common(request.beside, self._beside) :]
        self._texts, self._beside = request.texts, request.beside
        self._take_texts(texts)
        for result in request.results:
            self._arrived.setdefault((result.call_id, result.name), _Arrived(result, beside, texts))
        if turn.refusal is not None:
            self._refused.append((turn, turn.refusal, refused_tool(turn.refusal, request)))
        if answer is not None:
            self._calls.extend(answer.calls)
            if answer.usage is not None:
                self._usages.append(answer.usage)

    def _take_texts(self, texts: Iterable[str]) -> None:
        for text in texts:
            for server in self._servers:
                change = text_change(server.instructions, text)
                if change.kept > self._instructions[server.number].kept and change.way != "changed":
                    self._instructions[server.number] = change
                self._named.update(tool.name for tool in server.tools if tool.name in text)

    def report(self) -> PromptReport:
        matches = matched(self._servers, [tool for tool, _ in self._offered.values()])
        since = {id(tool): number for tool, number in self._offered.values()}
        known = {id(match.offered) for match in matches}
        tools = [_tool_way(match, since, self._named) for match in matches]
        calls = _call_ways(self._calls, self._servers, matches, self._arrived)
        return PromptReport(
            self._dialect,
            self._model,
            self._requests,
            tuple(
                ServerWay(
                    server,
                    common_prefix([match for match in matches if match.tool.server == server.number]),
                    tuple(way for way in tools if way.match.tool.server == server.number),
                    tuple(way for way in calls if way.wire.server == server.number),
                    self._instructions[server.number],
                )
                for server in self._servers
            ),
            tuple(tool for tool, _ in self._offered.values() if id(tool) not in known),
            tuple(RefusedRequest(*refused, _match_of(refused[2], matches)) for refused in self._refused),
            self._usages[0] if self._usages else None,
            self._usages[-1] if self._usages else None,
        )


def _in_common(now: Sequence[object], before: Sequence[object]) -> int:
    """Return how many items two sequences have in common at their beginning."""
    pairs = enumerate(zip(now, before, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(now), len(before)))


def _tool_way(match: Match, since: Mapping[int, int], named: Container[str]) -> ToolWay:
    tool, offered = match.tool, match.offered
    if offered is None:
        return ToolWay(
            match, 0, TextChange("missing", len(tool.description or ""), 0), (), tool.name in named
        )
    return ToolWay(
        match,
        since[id(offered)],
        text_change(tool.description, offered.description),
        tuple(schema_changes(tool.schema, offered.schema)),
        is_named=True,
    )


def _match_of(offered: OfferedTool | None, matches: Iterable[Match]) -> Match | None:
    """Return the tool on the wire of one in a prompt; requests have it again, so names are compared."""
    if offered is None:
        return None
    whole = written(offered)
    found = (match for match in matches if match.offered is not None and written(match.offered) == whole)
    return next(found, None)


def _call_ways(
    calls: Iterable[ModelCall],
    servers: Iterable[WireServer],
    matches: Iterable[Match],
    arrived: Mapping[tuple[str, str], _Arrived],
) -> list[CallWay]:
    """Find the model's call for each call on the wire: by its id, else by its tool and its arguments."""
    names = {
        (match.tool.server, match.tool.name): (match.offered.namespace, match.offered.name)
        for match in matches
        if match.offered is not None
    }
    free = list(calls)
    wires = sorted((call for server in servers for call in server.calls), key=lambda call: call.at_ns)
    ways: dict[int, tuple[ModelCall, Certainty]] = {}
    for fits, certainty in _CALL_WAYS:
        for index, wire in enumerate(wires):
            name = names.get((wire.server, wire.name), ("", wire.name))
            call = None if index in ways else next((call for call in free if fits(wire, name, call)), None)
            if call is not None:
                ways[index] = call, certainty
                free.remove(call)
    return [
        _call_way(wire, *ways.get(at, (None, Certainty.CERTAIN)), arrived) for at, wire in enumerate(wires)
    ]


def _has_its_id(wire: WireCall, _name: tuple[str, str], call: ModelCall) -> bool:
    return bool(wire.host_id) and wire.host_id == call.id


def _is_equal(wire: WireCall, name: tuple[str, str], call: ModelCall) -> bool:
    return _is_of(wire, name, call) and not _argument_changes(wire.arguments, call.arguments)


def _is_of(_wire: WireCall, name: tuple[str, str], call: ModelCall) -> bool:
    return call.name == name[1] and (not call.namespace or call.namespace == name[0])


_CALL_WAYS: Final = (
    (_has_its_id, Certainty.CERTAIN),
    (_is_equal, Certainty.LIKELY),
    (_is_of, Certainty.GUESS),
)
"""How the model's call is found, the surest way first."""


def _call_way(
    wire: WireCall,
    call: ModelCall | None,
    certainty: Certainty,
    arrived: Mapping[tuple[str, str], _Arrived],
) -> CallWay:
    if call is None:
        return CallWay(wire, None, certainty, (), None, ())
    by_name = "" if call.id else call.name
    came = next((one for (id, name), one in arrived.items() if id == call.id and by_name in ("", name)), None)
    parts: list[PieceWay] = []
    if came is not None and wire.result is not None:
        for piece in pieces(wire.result):
            parts.append(PieceWay(piece, piece_change(piece, came.result, came.beside, came.texts)))
    changed = tuple(_argument_changes(wire.arguments, call.arguments))
    return CallWay(wire, call, certainty, changed, came.result if came else None, tuple(parts))


def _argument_changes(wire: JSON, model: JSON) -> list[SchemaChange]:
    """Return how the arguments on the wire differ from the model's, where the recording has both unmasked."""
    return [change for change in schema_changes(model, wire) if not _is_masked(model, change.pointer)]


def _is_masked(value: JSON, pointer: str) -> bool:
    for name in pointer.split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, dict) else None
    return isinstance(value, str) and value.startswith(MASKED)
