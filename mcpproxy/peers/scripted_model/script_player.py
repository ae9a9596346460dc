"""Which turn of a script answers a request.

A host sends the conversation again with each request, sends some requests twice, and some for itself. So the
place in the script is read from the conversation: each call has the number of its turn in its id, and the
results of a turn lead to the next one. What does not come back in a conversation, a text or a failure, is
remembered for the request that it answered.
"""

import re
import secrets
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from mcpproxy.base.json_values import dumps
from mcpproxy.base.patterns import pattern
from mcpproxy.model.tool_names import is_alike, plain, written
from mcpproxy.model.turns import ModelRequest, OfferedTool
from mcpproxy.peers.scripted_model.called_tool import NotOfferedError, called_tool
from mcpproxy.peers.scripted_model.expected_results import GivenResult, given
from mcpproxy.peers.scripted_model.model_script import ModelScript, ScriptCall, ScriptTurn
from mcpproxy.peers.scripted_model.scripted_answer import (
    Scripted,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedFailure,
)
from mcpproxy.peers.scripted_model.turn_state import TurnState
from mcpproxy.protocol.jsonrpc import JSONObject

_CONVERSATION: Final = ("messages", "input", "contents")
"""The members that hold the conversation, of which a request has one."""

_ASIDE: Final = "ok"
_OVER: Final = "The script has no further turn."

_WAIT_FOR_SERVERS: Final = "WaitForMcpServers"
_SEARCHES: Final = ("ToolSearch", "tool_search")
"""Tools of hosts that bring the tools of servers into the next request."""

_MOST_SEARCHES: Final = 5
"""How often they are called for one turn. Servers may still be starting."""

_WORDS: Final = pattern(r"[\w.\-]+")


class ScriptPlayer:
    """Answers requests of any dialect by a script; ``turns`` says what became of each turn.

    ``asides`` counts requests of hosts for themselves, and ``beyond`` those after the last turn.
    """

    def __init__(self, script: ModelScript) -> None:
        self.turns: Final[Sequence[TurnState]] = [TurnState(at + 1, turn) for at, turn in enumerate(script)]
        self.asides = 0
        self.beyond = 0
        self._mark: Final = secrets.token_hex(4)  # calls of other runs may be in the same conversation
        self._call_id: Final = re.compile(rf"{self._mark}_(\d+)_(\d+)(?!\d)")
        self._answered: Final[dict[int, str]] = {}

    @property
    def results(self) -> list[GivenResult]:
        """What the model was given, in the order of the calls."""
        return [result for state in self.turns for result in state.results if result is not None]

    def answer(self, request: ModelRequest, body: JSONObject) -> Scripted:
        """Return the answer to a request."""
        if not request.tools:  # a title, a test of the quota
            self.asides += 1
            return ScriptedAnswer("aside", "{}" if _wants_json(body) else _ASIDE)
        conversation = next((body[name] for name in _CONVERSATION if name in body), None)
        digest = sha256(dumps(conversation).encode()).hexdigest()
        at = self._place(self._take_results(request), digest)
        if at == len(self.turns):
            self.beyond += 1
            return ScriptedAnswer("over", _OVER)
        state = self.turns[at]
        try:
            tools = [called_tool(call, request.tools) for call in state.turn.calls]
        except NotOfferedError as why:
            if (search := self._searching(at, state.turn.calls, request)) is not None:
                return search
            state.lacks_tool(str(why))
            return ScriptedAnswer("missing", str(why))
        if state.turn.calls:  # the conversation is here, perhaps anew: what comes later is still to be said
            for later in [later for later in self._answered if later > at]:
                del self._answered[later]
        self._answered[at] = digest
        state.run(tuple(map(written, tools)))
        return self._scripted(at, state.turn, tools)

    def _scripted(self, at: int, turn: ScriptTurn, tools: Iterable[OfferedTool]) -> Scripted:
        if turn.failure is not None:
            return ScriptedFailure(turn.failure.status, turn.failure.message, turn.wait_s)
        calls = (
            ScriptedCall(f"{self._mark}_{at:03}_{number:02}", tool.name, tool.namespace, call.arguments)
            for number, (call, tool) in enumerate(zip(turn.calls, tools, strict=True))
        )
        return ScriptedAnswer(f"{self._mark}_{at:03}", turn.text, tuple(calls), turn.wait_s)

    def _take_results(self, request: ModelRequest) -> int:
        """Take the results in a conversation, and return the turn after the last one that has any.

        Not every client sends ids back. Results without one come in the order of the calls.
        """
        without_id = ((at, n) for at, state in enumerate(self.turns) for n in range(len(state.turn.calls)))
        after = 0
        for result in request.results:
            found = self._call_id.search(result.call_id)
            place = (int(found[1]), int(found[2])) if found else None
            if place is None and not result.call_id:
                place = next(without_id, None)
            if place is not None:
                at, number = place
                state = self.turns[at]
                state.results[number] = given(state.turn.calls[number].tool, result)
                after = max(after, at + 1)
        return after

    def _place(self, at: int, digest: str) -> int:
        """Return the turn for a request whose results lead to the turn ``at``.

        A text that another request has got, and a failure, were said. The same request gets the same again.
        """
        while at < len(self.turns):
            turn = self.turns[at].turn
            before = self._answered.get(at)
            if before is None or turn.calls or (before == digest and turn.failure is None):
                break
            at += 1
        return at

    def _searching(
        self, at: int, calls: Sequence[ScriptCall], request: ModelRequest
    ) -> ScriptedAnswer | None:
        """Return a call of the host's tool that brings further tools; ``None`` without one, or after enough.

        Tools are selected by their names in the prompt. While it has none of them, because their server is
        still starting, the words of the first one are searched for.
        """
        words = {word for text in request.texts for word in _WORDS.findall(text)}
        names = sorted({word for call in calls for word in words if _is_listed(call, word)})
        wanted = (f"+{word}" for word in ("mcp", *plain(calls[0].tool).split("_")))
        query: JSONObject = {"query": f"select:{','.join(names)}" if names else " ".join(wanted)}
        arguments: dict[str, JSONObject] = {_WAIT_FOR_SERVERS: {}, **dict.fromkeys(_SEARCHES, query)}
        helpers = [tool for tool in request.tools if tool.name in arguments]
        mark = f"{self._mark}_{at:03}_search_"
        made = sum(1 for call in request.calls if mark in call.id)
        if not helpers or made == _MOST_SEARCHES:
            return None
        tool = helpers[made % len(helpers)]
        id = f"{mark}{made}"
        return ScriptedAnswer(id, calls=(ScriptedCall(id, tool.name, tool.namespace, arguments[tool.name]),))


def _is_listed(call: ScriptCall, word: str) -> bool:
    return word.startswith("mcp") and is_alike(call.tool, frozenset(), OfferedTool(word, ""))


def _wants_json(body: JSONObject) -> bool:
    """Whether a request wants JSON as its answer, in whatever words of its dialect."""
    names = ("generationConfig", "response_format", "text", "output_config")
    asked = dumps([body.get(name) for name in names])
    return "application/json" in asked or "json_schema" in asked or "json_object" in asked
