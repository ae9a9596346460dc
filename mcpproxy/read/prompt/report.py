"""What a model saw of the servers of a run: each tool, call and result, from the wire to the prompt."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.masked_values import MARK, is_masked
from mcpproxy.model.refusals import MeantTool, meant_tools
from mcpproxy.model.tool_names import written
from mcpproxy.model.turns import OfferedTool, Usage
from mcpproxy.read.prompt.arrivals import Arrivals, AskedModel
from mcpproxy.read.prompt.call_ways import CalledModel, CallWay, MatchedCalls
from mcpproxy.read.prompt.changes import TextChange, ValueChange, changes, text_change
from mcpproxy.read.prompt.names import Match, common_prefix, matched, named_in
from mcpproxy.read.prompt.wire import WireServer
from mcpproxy.read.view.runs import Certainty
from mcpproxy.record.recorder.model.turns import ModelTurn

_Item = TypeVar("_Item", bound=Hashable)
_REFUSED: Final = 400
"""The status from which on a service has refused a request."""


@slotted(frozen=True)
class ToolWay:
    """A tool from the wire to the prompt.

    ``since`` and ``until`` are the numbers of the first and the last request that offer it, counted from 1
    among those that offer any tool of the servers; 0 if none does. ``in_text`` is how sure it is that the
    prompt has at least its name, ``None`` if no text has it, and ``is_twice`` says that a request offers two
    tools of its name. ``asked`` is the last request that offers it.
    """

    match: Match
    since: int
    until: int
    description: TextChange
    schema: tuple[ValueChange, ...]
    in_text: Certainty | None
    is_twice: bool
    asked: AskedModel


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

    @property
    def offered(self) -> list[ToolWay]:
        """The tools that are in the prompt."""
        return [way for way in self.tools if way.match.offered is not None]

    def has_page(self, page: int) -> bool:
        """Whether the prompt has a tool of a page of the list, or at least its name."""
        return any(way.match.tool.page == page and way.in_text is Certainty.CERTAIN for way in self.tools)


@slotted(frozen=True)
class RefusedTool:
    """A tool that the service refused, as the request offers it: ``meant``, with the place in it.

    ``match`` is that tool on the wire, ``None`` if it is of none of the servers.
    """

    offered: OfferedTool
    meant: MeantTool
    match: Match | None


@slotted(frozen=True)
class RefusedRequest:
    """A request that the service refused, ``times`` in the same words; ``seq`` is the frame of the first.
    ``tools`` are those that it means, as far as they are known."""

    seq: int
    status: int
    message: str
    times: int
    tools: tuple[RefusedTool, ...]


@slotted()
class PromptReport:
    """What a model saw. ``others`` are the tools in the prompt that belong to none of the servers.

    ``first`` is the number of the first request that offers a tool of the servers, 1 for none. ``unread`` is
    how many requests are missing, because their bodies cannot be read. ``user_agent`` is what the host calls
    itself before its model, empty if it does not.
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
    user_agent: str = ""


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
        elif turn.request.results:
            seen.take_aside(turn)
    return seen.report()


@slotted()
class _Offer:
    """A tool as the last request with it offers it, and the numbers of the first and the last one."""

    tool: OfferedTool
    since: int
    until: int
    asked: AskedModel
    is_twice: bool = False


@slotted()
class _Refused:
    """A refusal: the frame of the first request that got it, what it means, and how often it came."""

    seq: int
    meant: tuple[MeantTool, ...]
    times: int = 0


class _News:
    """Tells what is new in a sequence that is sent again and again, whatever is put before it."""

    def __init__(self) -> None:
        self._known: Final[Counter[int]] = Counter()

    def of(self, items: Iterable[_Item], *, keeps: bool) -> Iterator[_Item]:
        """Yield the items that no earlier sequence had as often, of those that were to be kept in mind."""
        counted: Counter[int] = Counter()
        for item in items:
            key = hash(item)
            counted[key] += 1
            if counted[key] > self._known[key]:
                if keeps:
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
        self._named: Final[dict[tuple[int, str], Certainty]] = {}
        """The number of a server and the name of its tool -> how sure it is that a text has it."""
        self._instructions: Final = [TextChange("missing", len(one.instructions), 0) for one in servers]
        self._calls: Final[list[CalledModel]] = []
        self._arrived: Final = Arrivals()
        self._arrived_aside: Final = Arrivals()
        """The results in requests without tools."""
        self._refused: Final[dict[tuple[int, str], _Refused]] = {}
        self._usages: Final[list[Usage]] = []
        self._user_agent = ""

    def take(self, turn: ModelTurn) -> None:
        request, answer = turn.request, turn.answer
        asked = AskedModel(turn.seq, self._started_ns + turn.at_ns)
        self._requests += 1
        self._user_agent = self._user_agent or turn.user_agent
        self._dialects[request.dialect, request.model or (answer.model if answer else "")] += 1
        for tool in request.tools:
            offer = self._offers.setdefault(written(tool), _Offer(tool, self._requests, 0, asked))
            offer.is_twice |= offer.until == self._requests
            offer.tool, offer.until, offer.asked = tool, self._requests, asked
        # What the service refused, the model has not read.
        is_refused = turn.status >= _REFUSED
        texts = tuple(self._texts.of(request.texts, keeps=not is_refused))
        beside = tuple(self._beside.of(request.beside, keeps=not is_refused))
        self._take_texts(texts)
        if self._only_tools:
            texts = tuple(text for text in texts if not is_masked(text))
        self._arrived.take(request, beside, texts, asked, is_refused=is_refused)
        if turn.refusal is not None:
            key = turn.status, turn.refusal.message
            if key not in self._refused:
                self._refused[key] = _Refused(turn.seq, tuple(meant_tools(turn.refusal, request)))
            self._refused[key].times += 1
        if answer is not None:
            self._calls.extend(CalledModel(call, asked) for call in answer.calls)
            if answer.usage is not None:
                self._usages.append(answer.usage)

    def take_aside(self, turn: ModelTurn) -> None:
        """Take a request without tools: a host may leave them out when its model is to call no more."""
        request, asked = turn.request, AskedModel(turn.seq, self._started_ns + turn.at_ns)
        texts = tuple(text for text in request.texts if not is_masked(text))
        is_refused = turn.status >= _REFUSED
        self._arrived_aside.take(request, request.beside, texts, asked, is_refused=is_refused)

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
                for tool in server.tools:
                    key = server.number, tool.name
                    if self._named.get(key) is not Certainty.CERTAIN and (
                        how := named_in(text, tool.name, server)
                    ):
                        self._named[key] = how

    def report(self) -> PromptReport:
        matches = matched(self._servers, [offer.tool for offer in self._offers.values()])
        by_name = {written(match.offered): match for match in matches if match.offered is not None}
        found = [self._offers[name] for name in by_name]
        first = min((offer.since for offer in found), default=1)
        last = max((offer.until for offer in found), default=0) - first + 1
        tools = [self._tool_way(match, first) for match in matches]
        matched_calls = MatchedCalls(self._calls, self._arrived.found, self._arrived_aside.found)
        calls = matched_calls.ways(self._servers, matches)
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
            tuple(offer.tool for name, offer in self._offers.items() if name not in by_name),
            tuple(self._refusals(by_name)),
            self._usages[0] if self._usages else None,
            self._usages[-1] if self._usages else None,
            first,
            user_agent=self._user_agent,
        )

    def _refusals(self, by_name: Mapping[str, Match]) -> Iterator[RefusedRequest]:
        for (status, message), refused in self._refused.items():
            tools = tuple(
                RefusedTool(meant.tool, meant, by_name.get(written(meant.tool)))
                for meant in refused.meant
                if meant.tool is not None
            )
            yield RefusedRequest(refused.seq, status, message, refused.times, tools)

    def _tool_way(self, match: Match, first: int) -> ToolWay:
        tool, offered = match.tool, match.offered
        if offered is None:
            gone = TextChange("missing", len(tool.description or ""), 0)
            in_text = self._named.get((tool.server, tool.name))
            return ToolWay(match, 0, 0, gone, (), in_text, is_twice=False, asked=AskedModel())
        offer = self._offers[written(offered)]
        return ToolWay(
            match,
            offer.since - first + 1,
            offer.until - first + 1,
            text_change(tool.description, offered.description),
            tuple(changes(tool.schema, offered.schema)),
            Certainty.CERTAIN,
            is_twice=offer.is_twice,
            asked=offer.asked,
        )
