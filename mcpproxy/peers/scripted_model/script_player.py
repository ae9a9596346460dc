"""Chooses the turn of a script, an answer of the model, for each request.

A host sends the conversation again with each request, sends some requests twice, and sends others for itself,
for example to get a title. So the place in the script is read from the conversation: the id of each call
contains the index of its turn, and a conversation with the results of a turn gets the next one. A text or a
failure has no such id, so the player remembers which conversation each of them answered.
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
from mcpproxy.peers.scripted_model.expected_results import GivenResult, given_result
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
"""The texts that answer a request without tools, unless it wants JSON, and one after the last turn."""

_WAIT_FOR_SERVERS: Final = "WaitForMcpServers"
_SEARCHES: Final = ("ToolSearch", "tool_search")
"""Tools of hosts that add tools of servers to the next request."""

_MOST_SEARCHES: Final = 5
"""How often these are called for one turn: servers may still be starting."""

_WORDS: Final = pattern(r"[\w.\-]+")
"""The words in the texts of a prompt, some of which may be names of tools."""


class ScriptPlayer:
    """Answers requests to any API of a model by a script; ``turns`` are the states of its turns.

    ``asides`` counts requests that a host sends for itself, which have no tools, and ``beyond`` those after
    the last turn.
    """

    def __init__(self, script: ModelScript) -> None:
        self.turns: Final[Sequence[TurnState]] = [TurnState(at + 1, turn) for at, turn in enumerate(script)]
        self.asides = 0
        self.beyond = 0
        self._mark: Final = secrets.token_hex(4)  # calls of other runs may be in the same conversation
        self._call_id: Final = re.compile(rf"{self._mark}_(\d{{1,9}})_(\d{{1,9}})(?!\d)")
        self._answered: Final[dict[int, str]] = {}
        """By index of a turn: the digest of the conversation that it answered."""

    @property
    def results(self) -> list[GivenResult]:
        """The results that the model was given, in the order of the calls."""
        return [result for state in self.turns for result in state.results if result is not None]

    def answer(self, request: ModelRequest, body: JSONObject) -> Scripted:
        """Return the answer to a request, and note the results in it.

        If the host does not offer a tool of the turn, the answer is a call of a tool that adds tools of
        servers, or a text that says what is missing; then the turn has not run.
        """
        if not request.tools:  # a title, a test of the quota
            self.asides += 1
            return ScriptedAnswer("aside", "{}" if _wants_json(body) else _ASIDE)
        conversation = next((body[name] for name in _CONVERSATION if name in body), None)
        digest = sha256(dumps(conversation).encode()).hexdigest()
        at = self._turn_index(self._note_results(request), digest)
        if at == len(self.turns):
            self.beyond += 1
            return ScriptedAnswer("over", _OVER)
        state = self.turns[at]
        try:
            tools = [called_tool(call, request.tools) for call in state.turn.calls]
        except NotOfferedError as why:
            if (search := self._search_call(at, state.turn.calls, request)) is not None:
                return search
            state.note_missing_tool(str(why))
            return ScriptedAnswer("missing", str(why))
        if state.turn.calls:  # the conversation is here, perhaps again: later turns are still to come
            for later in [later for later in self._answered if later > at]:
                del self._answered[later]
        self._answered[at] = digest
        state.mark_run(tuple(map(written, tools)))
        return self._scripted_answer(at, state.turn, tools)

    def _scripted_answer(self, at: int, turn: ScriptTurn, tools: Iterable[OfferedTool]) -> Scripted:
        if turn.failure is not None:
            return ScriptedFailure(turn.failure.status, turn.failure.message, turn.wait_s)
        calls = (
            ScriptedCall(f"{self._mark}_{at:03}_{number:02}", tool.name, tool.namespace, call.arguments)
            for number, (call, tool) in enumerate(zip(turn.calls, tools, strict=True))
        )
        return ScriptedAnswer(f"{self._mark}_{at:03}", turn.text, tuple(calls), turn.wait_s)

    def _note_results(self, request: ModelRequest) -> int:
        """Note the results in a conversation; return the index of the turn after the last one that has any.

        Not every client sends ids back. Results without an id come in the order of the calls. One with
        an id that names no call of the script, because the host has changed it, is passed over.
        """
        indexes = ((at, n) for at, state in enumerate(self.turns) for n in range(len(state.turn.calls)))
        places = dict.fromkeys(indexes)
        without_id = iter(places)
        after = 0
        for result in request.results:
            match = self._call_id.search(result.call_id)
            place = (int(match[1]), int(match[2])) if match else None
            if place is None and not result.call_id:
                place = next(without_id, None)
            if place is not None and place in places:
                at, number = place
                state = self.turns[at]
                state.results[number] = given_result(state.turn.calls[number].tool, result)
                after = max(after, at + 1)
        return after

    def _turn_index(self, at: int, digest: str) -> int:
        """Return the index of the turn that answers a conversation: ``at``, or the next that is not over.

        ``at`` follows the last turn with results. A turn is over if it was a text in answer to another
        conversation, or a failure. The same conversation gets the same text again. After the last turn, the
        index is the number of turns.
        """
        while at < len(self.turns):
            turn = self.turns[at].turn
            answered = self._answered.get(at)
            if answered is None or turn.calls or (answered == digest and turn.failure is None):
                break
            at += 1
        return at

    def _search_call(
        self, at: int, calls: Sequence[ScriptCall], request: ModelRequest
    ) -> ScriptedAnswer | None:
        """Return a call of a tool of the host that adds tools of servers to the next request.

        Tools are selected by their names in the prompt. While the prompt lacks them, because their server is
        still starting, the words of the first name are searched for. Return ``None`` if the host has no such
        tool, or it was called ``_MOST_SEARCHES`` times.
        """
        words = {word for text in request.texts for word in _WORDS.findall(text)}
        names = sorted({word for call in calls for word in words if _names_called_tool(call, word)})
        wanted = (f"+{word}" for word in ("mcp", *plain(calls[0].tool).split("_")))
        query: JSONObject = {"query": f"select:{','.join(names)}" if names else " ".join(wanted)}
        arguments: dict[str, JSONObject] = {_WAIT_FOR_SERVERS: {}, **dict.fromkeys(_SEARCHES, query)}
        helpers = [tool for tool in request.tools if tool.name in arguments]
        mark = f"{self._mark}_{at:03}_search_"
        search_count = sum(1 for call in request.calls if mark in call.id)
        if not helpers or search_count == _MOST_SEARCHES:
            return None
        tool = helpers[search_count % len(helpers)]
        id = f"{mark}{search_count}"
        return ScriptedAnswer(id, calls=(ScriptedCall(id, tool.name, tool.namespace, arguments[tool.name]),))


def _names_called_tool(call: ScriptCall, word: str) -> bool:
    return word.startswith("mcp") and is_alike(call.tool, frozenset(), OfferedTool(word, ""))


def _wants_json(body: JSONObject) -> bool:
    """Whether a request of any dialect demands that its answer is JSON."""
    names = ("generationConfig", "response_format", "text", "output_config")
    settings = dumps([body.get(name) for name in names])
    return "application/json" in settings or "json_schema" in settings or "json_object" in settings
