"""Makes a script from a recording, so that a scripted model repeats what the real model did."""

from collections.abc import Iterable, Iterator, Sequence

from mcpproxy.model.tool_names import written
from mcpproxy.model.turns import ModelAnswer, ModelCall, OfferedTool
from mcpproxy.model.values import objects
from mcpproxy.peers.scripted_model.called_tool import NotOfferedError, called_tool
from mcpproxy.peers.scripted_model.model_script import CUT, ScriptCall
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.read.prompt.names import matched
from mcpproxy.read.prompt.wire import WireServer
from mcpproxy.record.recorder.model.turns import ModelTurn


def recorded_turns(turns: Iterable[ModelTurn], servers: Sequence[WireServer]) -> Iterator[JSONObject]:
    """Yield the turns of a script, in which the tools of ``servers`` have the names that their servers list.

    ``servers`` are those whose sessions were recorded. A request that was refused, or whose answer was
    cut off, becomes a turn that fails. Requests without tools, those without an answer, and those whose
    answer neither says nor calls anything are left out.
    """
    for turn in turns:
        if not turn.request.tools:
            continue
        if turn.refusal is not None:
            failure: JSONObject = {"fail": turn.status if 400 <= turn.status <= 599 else CUT}
            yield {**failure, "message": turn.refusal.message}
        elif turn.answer is not None and not turn.answer.whole:
            yield {"fail": CUT}
        elif turn.answer is not None and (turn.answer.calls or turn.answer.text):
            names = _names_of_servers(turn.answer.calls, turn.request.tools, servers)
            yield _script_turn(turn.answer, names)


def has_other_arguments(turn: JSONObject) -> bool:
    """Whether a call of a turn has arguments that are no object, which a script cannot play."""
    calls: JSON = turn.get("calls", [turn] if "call" in turn else [])
    return any(as_object(call["arguments"]) is None for _, call in objects(calls))


def _script_turn(answer: ModelAnswer, names: dict[str, str]) -> JSONObject:
    calls = [_call(call, names) for call in answer.calls]
    text: JSONObject = {"say": answer.text} if answer.text else {}
    if len(calls) == 1:
        return {**text, **calls[0]}
    several: list[JSON] = [*calls]
    return {**text, "calls": several} if several else text


def _call(call: ModelCall, names: dict[str, str]) -> JSONObject:
    return {"call": names.get(written(call), call.name), "arguments": call.arguments}


def _names_of_servers(
    calls: Iterable[ModelCall], offered: Sequence[OfferedTool], servers: Sequence[WireServer]
) -> dict[str, str]:
    """Map the name of each called tool in the prompt to the name that its server lists.

    If a script would not find the tool by that name, the name in the prompt stays.
    """
    called = set(map(written, calls))
    matches = matched(servers, offered) if called else ()
    pairs = [(match.offered, match.tool.name) for match in matches if match.offered is not None]
    called_pairs = [(tool, name) for tool, name in pairs if written(tool) in called]
    return {
        written(tool): name if _would_find(name, tool, offered) else written(tool)
        for tool, name in called_pairs
    }


def _would_find(name: str, tool: OfferedTool, offered: Iterable[OfferedTool]) -> bool:
    try:
        return called_tool(ScriptCall(name, {}, "", ()), offered) == tool
    except NotOfferedError:
        return False
