"""The script that makes a model do again what a real one did in a recording."""

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
    """Yield the turns of a script, with the names on the wire for the tools of ``servers``.

    A request without tools, and one without any answer, are left out.
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
            yield _said(turn.answer, _on_the_wire(turn.answer.calls, turn.request.tools, servers))


def has_other_arguments(turn: JSONObject) -> bool:
    """Whether a call of a turn has arguments that are no object, which a script cannot play."""
    calls: JSON = turn.get("calls", [turn] if "call" in turn else [])
    return any(as_object(call["arguments"]) is None for _, call in objects(calls))


def _said(answer: ModelAnswer, on_the_wire: dict[str, str]) -> JSONObject:
    calls = [_call(call, on_the_wire) for call in answer.calls]
    text: JSONObject = {"say": answer.text} if answer.text else {}
    if len(calls) == 1:
        return {**text, **calls[0]}
    several: list[JSON] = [*calls]
    return {**text, "calls": several} if several else text


def _call(call: ModelCall, on_the_wire: dict[str, str]) -> JSONObject:
    return {"call": on_the_wire.get(_name(call), call.name), "arguments": call.arguments}


def _name(call: ModelCall) -> str:
    return written(OfferedTool(call.name, "", call.namespace))


def _on_the_wire(
    calls: Iterable[ModelCall], offered: Sequence[OfferedTool], servers: Sequence[WireServer]
) -> dict[str, str]:
    """Return the name of a called tool in a prompt -> its name on the wire, if a script finds it by that."""
    called = set(map(_name, calls))
    matches = matched(servers, offered) if called else ()
    pairs = [(one.offered, one.tool.name) for one in matches if one.offered is not None]
    found = [(tool, name) for tool, name in pairs if written(tool) in called]
    return {written(tool): name if _finds(name, tool, offered) else written(tool) for tool, name in found}


def _finds(name: str, tool: OfferedTool, offered: Iterable[OfferedTool]) -> bool:
    try:
        return called_tool(ScriptCall(name, {}, "", ()), offered) == tool
    except NotOfferedError:
        return False
