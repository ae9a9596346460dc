"""Find calls whose results a host cut or dropped (PROMPT-003) or whose arguments it changed (PROMPT-004).

A ``CallWay`` is a call as the client sent it to its server (on the *wire*), beside the call that the model
asked for and the result that the model was given.
"""

from collections.abc import Iterable, Iterator

from mcpproxy.judge.checks.engine.context import Violation
from mcpproxy.judge.session.frame import CLIENT, Severity
from mcpproxy.model.turns import ModelCall
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.wording import pointer_steps, shown, unquoted
from mcpproxy.read.prompt.arrivals import AskedModel
from mcpproxy.read.prompt.call_ways import CallWay
from mcpproxy.read.prompt.changes import ValueChange, is_laid_out_anew, undecorated
from mcpproxy.read.prompt.report import ServerWay, ToolWay
from mcpproxy.read.view.runs import Certainty


def _severity_limit(call: CallWay, way: ServerWay) -> Severity | None:
    """Return the highest severity that a finding about a call may have; ``None`` if its rule alone decides.

    The rule decides if it is sure which call of the model this is: by the call's id, or by its arguments if a
    part of the result came back to the model. Otherwise it is at most an info.

    Raises:
        LookupError: it may as well be another call of the model.
    """
    came_back = any(part.change.is_there for part in call.pieces)
    if call.certainty is Certainty.CERTAIN or (call.certainty is Certainty.LIKELY and came_back):
        return None
    alike = [
        other
        for other in way.calls
        if other.certainty is call.certainty and other.wire.name == call.wire.name
    ]
    if call.certainty is Certainty.GUESS and not (came_back and len(alike) == 1):
        raise LookupError
    wires = [other.wire for other in way.calls if other.wire.name == call.wire.name]
    if sum(wire.arguments == call.wire.arguments for wire in wires) > 1:
        raise LookupError  # its result may be that of another call with the same arguments
    return "info"


def call_violations(way: ServerWay) -> Iterator[tuple[Violation, AskedModel]]:
    """Yield the violations in the calls of a server, each with the request to the model that shows it.

    The model got less than half of a result, or not its pictures (PROMPT-003), or the host called with other
    arguments than the model gave (PROMPT-004).
    """
    tools = {tool.match.tool.name: tool for tool in way.offered}
    for call in way.calls:
        if call.model is None:
            continue
        try:
            at_most = _severity_limit(call, way)
        except LookupError:
            continue
        # The host could not give an answer that came after the request.
        is_given = call.result is not None and 0 < call.wire.answered_ns <= call.given.at_ns
        if call.wire.answer and is_given and (violation := _result_violation(call, at_most)) is not None:
            yield violation, call.given
        tool = tools.get(call.wire.name)
        if (
            tool is not None
            and (violation := _argument_violation(call, call.model, tool, at_most)) is not None
        ):
            yield violation, call.asked


def _result_violation(call: CallWay, at_most: Severity | None) -> Violation | None:
    given = [part for part in call.pieces if part.piece.is_for_model]
    texts = [
        part for part in given if not part.piece.digest and part.piece.kind not in ("structured", "other")
    ]
    structured = [part for part in given if part.piece.kind == "structured"]
    pictures = [part for part in given if part.piece.kind == "image"]
    own = texts if any(part.change.size for part in texts) else structured
    if any(part.change.way == "unknown" for part in (*own, *pictures)):
        return None
    # A text in another form is not recognised. If all that came is shorter than half of it, half is missing.
    is_short = 2 * sum(map(_length, call.said)) < sum(_length(part.piece.text) for part in own)
    is_lost = is_short and not all(is_laid_out_anew(part.piece.text, call.said) for part in own)
    lost = sum(part.change.way == "missing" for part in pictures)
    gone = f"{lost} of its {len(pictures)} pictures" if len(pictures) > 1 else "its picture"
    if is_lost:
        got, size = sum(map(len, call.said)), sum(part.change.size for part in own)
        problem = f"client gave its model at most {got:,} characters of a result of {size:,}"
        problem += f", without {gone}" if lost else ""
        if any(part.change.is_there for part in structured):
            at_most = "info"  # servers give the same in both, and a text may be the longer one
    elif lost:
        problem, at_most = f"client gave its model a result without {gone}", "info"
    else:
        return None
    pointer = "/result" if call.wire.result is not None else "/error/message"
    return Violation(
        "PROMPT-003", "X-024", problem, pointer, blame=CLIENT, at_most=at_most, frame=call.wire.answer
    )


def _length(text: str) -> int:
    """Return how many characters a text has without white space and the codes of terminal colours."""
    return sum(map(len, undecorated(text).split()))


def _argument_violation(
    call: CallWay, given: ModelCall, tool: ToolWay, at_most: Severity | None
) -> Violation | None:
    changed = [change for change in call.changed if _is_by_the_host(change, given.arguments, tool)]
    if not changed or not given.is_json:
        return None
    more = ", …" if len(changed) > 3 else ""
    places = ", ".join(unquoted(change.pointer) for change in changed[:3]) + more
    name = shown(call.wire.name)
    problem = f"client called {name} with other arguments than its model gave, at {places}"
    first = changed[0].pointer if changed[0].what == "changed" else ""
    pointer = f"/params/arguments{first}"
    return Violation(
        "PROMPT-004", "X-025", problem, pointer, blame=CLIENT, at_most=at_most, frame=call.wire.frame
    )


def _is_by_the_host(change: ValueChange, given: JSON, tool: ToolWay) -> bool:
    """Whether a host changed or left out a value that its model gave.

    Two things do not count: that the arguments differ as a whole, and that a host undoes its own change of
    the schema (it removes a property that it had added, or a null that means "no value" there).
    """
    if not change.pointer:
        return False
    steps = pointer_steps(change.pointer)
    own = {change.name for change in tool.schema if change.what == "added"}
    if "properties" in own or any(f"property {step}" in own for step in steps):
        return False
    return change.what == "changed" or _value_at(given, steps) is not None


def _value_at(value: JSON, steps: Iterable[str]) -> JSON:
    for step in steps:
        value = value[int(step)] if isinstance(value, list) else member(value, step)
    return value
