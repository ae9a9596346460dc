"""Follow each tool, call and result of a run between the wire and the model's prompt.

A run is one conversation with a model, and the sessions with servers that its host had open beside it. The
wire is what client and servers sent each other in these sessions. A *way* says what became of a tool or a
call between the two.
"""

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
_REFUSED_FROM: Final = 400
"""The lowest HTTP status that means that the service refused a request."""


@slotted(frozen=True)
class ToolWay:
    """A tool of a server, and what the prompts have of it.

    ``since`` and ``until`` are the numbers of the first and the last request that offer it, 0 if none does.
    They count from 1, the first request that offers any tool of the servers. ``in_text`` is how sure it is
    that the prompt has at least the tool's name, ``None`` if no text has it. ``is_twice`` is true if a
    request offers two tools of this name. ``asked`` is the last request that offers the tool.
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

    ``prefix`` is what the host puts before the names of its tools, such as ``mcp__files__``, or the namespace
    ``mcp__files / ``; empty if most of them share none. ``last`` is the number of the last request that
    offers a tool of any server, 0 if none does.
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
        """Whether the prompt has a tool from page ``page`` of the list of tools, or at least its name."""
        return any(way.match.tool.page == page and way.in_text is Certainty.CERTAIN for way in self.tools)


@slotted(frozen=True)
class RefusedTool:
    """A tool that the service refused. ``offered`` is the tool in the request, ``meant`` the place in it.

    ``match`` is its match on the wire, ``None`` if it is of none of the servers.
    """

    offered: OfferedTool
    meant: MeantTool
    match: Match | None


@slotted(frozen=True)
class RefusedRequest:
    """A refusal of the service; ``times`` is how often it refused in the same words.

    ``seq`` is the frame of the first refused request. ``tools`` are the tools of the request that it means.
    """

    seq: int
    status: int
    message: str
    times: int
    tools: tuple[RefusedTool, ...]


@slotted()
class PromptReport:
    """What a model saw in a run. ``others`` are the tools in the prompt that no server of the run has.

    ``dialect`` (the request format) and ``model`` are those of most requests, empty without requests.
    ``requests`` is the number of requests with tools. ``first`` is the number of the first of them that
    offers a tool of the servers, 1 if none does. ``first_usage`` and ``last_usage`` are those of the first
    and of the last answer to them that has one. ``unread`` is how many requests are missing because their
    bodies cannot be read. ``user_agent`` is what the host sent to the service as ``User-Agent``, if anything.
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
    """Compare the requests to a model with the messages of the servers.

    Requests without tools do not count, but results in them are read. ``started_ns`` is when the recording of
    the model's interface began, in nanoseconds since 1970. ``only_tools`` is true if the recorder kept only
    those parts of the prompts that are about tools. Texts beside a result are such parts, so a text that is
    masked completely holds no part of a result.
    """
    conversation = _Conversation(servers, only_tools=only_tools, started_ns=started_ns)
    for turn in turns:
        if turn.request.tools:
            conversation.add(turn)
        elif turn.request.results:
            conversation.add_without_tools(turn)
    return conversation.report()


@slotted()
class _Offer:
    """A tool as the last request offers it, and the numbers of the first and last request that offer it."""

    tool: OfferedTool
    since: int
    until: int
    asked: AskedModel
    is_twice: bool = False


@slotted()
class _Refused:
    """A refusal: the frame of the first request that got it, the tools that it means, and its count."""

    seq: int
    meant: tuple[MeantTool, ...]
    times: int = 0


class _NewItems:
    """Finds the new items of a sequence that is sent again and again, in any order."""

    def __init__(self) -> None:
        self._known: Final[Counter[int]] = Counter()

    def take_new(self, items: Iterable[_Item], *, keeps: bool) -> Iterator[_Item]:
        """Yield an item once for each time that it occurs more often than in every earlier sequence.

        ``keeps`` says whether to remember this one.
        """
        counted: Counter[int] = Counter()
        for item in items:
            key = hash(item)
            counted[key] += 1
            if counted[key] > self._known[key]:
                if keeps:
                    self._known[key] = counted[key]
                yield item


class _Conversation:
    """Collects what the requests of a conversation offer and contain, in their order.

    Each request repeats the conversation so far, so only what is new in it is kept.
    """

    def __init__(self, servers: Sequence[WireServer], *, only_tools: bool, started_ns: int) -> None:
        self._servers: Final = servers
        self._started_ns: Final = started_ns
        self._only_tools: Final = only_tools
        self._requests = 0
        self._dialects: Final[Counter[tuple[str, str]]] = Counter()
        self._offers: Final[dict[str, _Offer]] = {}
        """The name of a tool in the prompt, with its namespace -> its offer."""
        self._texts: Final = _NewItems()
        self._beside: Final = _NewItems()
        self._named: Final[dict[tuple[int, str], Certainty]] = {}
        """The number of a server and the name of its tool -> how sure it is that a text has that name."""
        self._instructions: Final = [TextChange("missing", len(server.instructions), 0) for server in servers]
        self._calls: Final[list[CalledModel]] = []
        self._arrived: Final = Arrivals()
        self._arrived_without_tools: Final = Arrivals()
        """The results in requests without tools."""
        self._refused: Final[dict[tuple[int, str], _Refused]] = {}
        self._usages: Final[list[Usage]] = []
        self._user_agent = ""

    def add(self, turn: ModelTurn) -> None:
        """Add a request that offers tools, and its answer."""
        request, answer = turn.request, turn.answer
        asked = AskedModel(turn.seq, self._started_ns + turn.at_ns)
        self._requests += 1
        self._user_agent = self._user_agent or turn.user_agent
        self._dialects[request.dialect, request.model or (answer.model if answer else "")] += 1
        for tool in request.tools:
            offer = self._offers.setdefault(written(tool), _Offer(tool, self._requests, 0, asked))
            offer.is_twice |= offer.until == self._requests
            offer.tool, offer.until, offer.asked = tool, self._requests, asked
        # The model has not read a request that the service refused.
        is_refused = turn.status >= _REFUSED_FROM
        texts = tuple(self._texts.take_new(request.texts, keeps=not is_refused))
        beside = tuple(self._beside.take_new(request.beside, keeps=not is_refused))
        self._search_texts(texts)
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

    def add_without_tools(self, turn: ModelTurn) -> None:
        """Add a request without tools. A host may leave them out when its model must not call any more."""
        request, asked = turn.request, AskedModel(turn.seq, self._started_ns + turn.at_ns)
        texts = tuple(text for text in request.texts if not is_masked(text))
        is_refused = turn.status >= _REFUSED_FROM
        self._arrived_without_tools.take(request, request.beside, texts, asked, is_refused=is_refused)

    def _search_texts(self, texts: Iterable[str]) -> None:
        """Search texts of a prompt for the instructions of servers and the names of tools."""
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
                        certainty := named_in(text, tool.name, server)
                    ):
                        self._named[key] = certainty

    def report(self) -> PromptReport:
        matches = matched(self._servers, [offer.tool for offer in self._offers.values()])
        by_name = {written(match.offered): match for match in matches if match.offered is not None}
        offers = [self._offers[name] for name in by_name]
        first = min((offer.since for offer in offers), default=1)
        last = max((offer.until for offer in offers), default=0) - first + 1
        tools = [self._tool_way(match, first) for match in matches]
        matched_calls = MatchedCalls(self._calls, self._arrived.found, self._arrived_without_tools.found)
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
