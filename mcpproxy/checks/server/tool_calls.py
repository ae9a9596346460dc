"""Tool calls: whether their arguments and results match the listed tool.

A call is checked against the tool as it was listed when the call was sent. Nothing is reported once a change
of the list was announced, or if a part of the list was not seen.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#calling-tools
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member
from mcpproxy.checks.engine.rows import ANSWERS, NOTED, Check, RuleFamily, StateUpdate
from mcpproxy.checks.server.listings import ListedItem, ListState, listed
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Flaw, JSONObject, Request, Response, read
from mcpproxy.protocol.revisions import is_one_or_stateless, since
from mcpproxy.protocol.schema.contracts import Mismatch
from mcpproxy.protocol.wording import shown, unquoted
from mcpproxy.session.frame import CLIENT, SERVER, Severity
from mcpproxy.session.history import History, SentRequest, keep_latest

MAX_CALLS: Final = 4_096
"""The number of calls that became tasks which are remembered."""

STRUCTURED: Final = since("2025-06-18")
"""The revisions in which a tool may have structured output."""

ERRORS_IN_RESULT: Final = since("2025-11-25")
"""The revisions in which a tool reports bad arguments in its result and not as a protocol error."""

MAX_TEXT: Final = 1 << 20
"""Texts longer than this in total, in characters, are not parsed as JSON."""


@slotted(eq=False)
class ToolCall:
    """One call, with the tool as it was known when the call was sent.

    ``unlisted`` is the last frame of a whole list without that name, 0 if there is none. ``known`` is the
    list of tools, and ``changes`` the number of its changes announced before the call. ``stale`` says that
    the tool's listing had expired.
    """

    asked: SentRequest
    name: str
    tool: ListedItem | None
    unlisted: int
    known: ListState
    changes: int
    stale: bool


@slotted()
class Calls:
    """The calls that became tasks, by task id."""

    tasks: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])


def remember_call(context: MessageContext, history: History) -> None:
    """Record the tool that a call names, if its answer may need a check."""
    request, params = context.asked, context.contents
    if request is None or history.has_gap or not isinstance(params, dict):
        return
    name = params.get("name")
    if not isinstance(name, str):
        return
    known = listed(history, "tools/list")
    tool = known.items.get(name)
    if tool is None:
        whole = known.whole
        if whole is not None and name not in whole.items:
            request.check_memory = ToolCall(request, name, None, whole.seq, known, known.changes, stale=False)
        return
    revisions = context.candidates
    unsure = not is_one_or_stateless(revisions)
    if "outputSchema" in tool.value or unsure or _misfits(tool, params, revisions[0]):
        stale = context.frame.observed_at_ns > tool.fresh_until_ns
        request.check_memory = ToolCall(
            request, name, tool, unlisted=0, known=known, changes=known.changes, stale=stale
        )
    tool.forget()


def remember_answer(context: MessageContext, history: History) -> None:
    """Forget a finished call, or keep it under the id of the task that it became."""
    request, message = context.answers, context.message
    call = request.check_memory if request is not None else None
    if request is None or not isinstance(call, ToolCall):
        return
    request.check_memory = None
    if isinstance(message, Response) and member(request.params, "task") is not None:
        task = member(message.result, "task", "taskId")
        if isinstance(task, str):
            keep_latest(history.of(Calls).tasks, task, call, MAX_CALLS)


# The call


def unfit_arguments(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report arguments that break the tool's inputSchema (TOOL-008).

    For the client this is only an info, because the server should refuse them.
    """
    params = context.contents
    if history.has_gap or not is_one_or_stateless(context.candidates) or not isinstance(params, dict):
        return ()
    name = params.get("name")
    tool = listed(history, "tools/list").items.get(name) if isinstance(name, str) else None
    if tool is None:
        return ()
    found = _misfits(tool, params, context.candidates[0], context.frame.raw)
    if not found:
        return ()
    problem = f"client called {shown(name)} with arguments that break its inputSchema: {_clause(found)}"
    pointer = f"{context.at}/params/arguments{found[0].pointer}"
    return (Violation("TOOL-008", "R-145", problem, pointer=pointer, related=(tool.seq,), at_most="info"),)


def _misfits(
    tool: ListedItem, params: JSONObject, revision: str, text: bytes | None = None
) -> tuple[Mismatch, ...]:
    """Return where the arguments of a call break the tool's inputSchema; no arguments are an empty object."""
    arguments = params.get("arguments", {})
    # Arguments that are not an object are a different fault.
    return tool.breaks("inputSchema", arguments, revision, text) if isinstance(arguments, dict) else ()


def _clause(found: tuple[Mismatch, ...]) -> str:
    """Describe the first mismatch, and say how many more there are."""
    pointer, what = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{unquoted(pointer[1:]) + ' ' if pointer else 'it '}{what}{more}"


# The answer


def answered(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report a result that does not match the listed tool, or that should be an error (TOOL-001, TOOL-002,
    TOOL-006, TOOL-008).
    """
    call, message = _call(context, history), context.message
    result = _final(message, call.asked) if call is not None else None
    if call is None or result is None or not is_one_or_stateless(context.candidates):
        return ()
    if call.tool is None:
        return _unlisted(context, call, result) if call.unlisted else ()
    found = _accepted_arguments(context, call, call.tool, result)
    if isinstance(call.tool.value.get("outputSchema"), dict):
        found = (*found, *_output(context, history, call, call.tool, result))
    return found


def _unlisted(context: MessageContext, call: ToolCall, result: JSONObject) -> Iterator[Violation]:
    pointer, related = context.at + "/result", (call.unlisted, call.asked.seq)
    problem = f"server answered a call of {shown(call.name)}, which it does not list, with "
    if result.get("isError") is True:
        problem += "a tool's result"
        yield Violation("TOOL-006", "R-143", problem, pointer=pointer, related=related)
    else:
        # It may be a tool that is not listed, or an error that is told in the text alone.
        problem += "a result that is not marked as an error"
        yield Violation("TOOL-006", "R-143", problem, pointer=pointer, related=related, at_most="info")


def _accepted_arguments(
    context: MessageContext, call: ToolCall, tool: ListedItem, result: JSONObject
) -> tuple[Violation, ...]:
    params = call.asked.params
    if not isinstance(params, dict) or result.get("isError") is True:
        return ()
    if not (found := _misfits(tool, params, context.candidates[0])):
        return ()
    problem = f"server took arguments for {shown(call.name)} that break its inputSchema: {_clause(found)}"
    related = (tool.seq, call.asked.seq)
    # A warning only: the server may be able to handle what it accepts.
    return (
        Violation(
            "TOOL-008", "R-145", problem, pointer=context.at + "/result", related=related, at_most="warning"
        ),
    )


def _output(
    context: MessageContext, history: History, call: ToolCall, tool: ListedItem, result: JSONObject
) -> Iterator[Violation]:
    # The list may have changed unseen: after it expired, or announced on another stream.
    at_most: Severity | None = "warning" if call.stale or (call.changes and history.over_http) else None
    if result.get("isError") is True:
        at_most = "info"  # The specification makes no exception, but an error rarely has the tool's output.
    related = (tool.seq, call.asked.seq)
    if "structuredContent" not in result:
        problem = (
            f"server answered {shown(call.name)} without structuredContent, but lists an outputSchema for it"
        )
        yield Violation(
            "TOOL-001", "R-138", problem, pointer=context.at + "/result", related=related, at_most=at_most
        )
    elif found := tool.breaks("outputSchema", result["structuredContent"], context.candidates[0]):
        problem = (
            f"server answered {shown(call.name)} with content that breaks its outputSchema: {_clause(found)}"
        )
        pointer = f"{context.at}/result/structuredContent{found[0].pointer}"
        yield Violation("TOOL-002", "R-139", problem, pointer=pointer, related=related, at_most=at_most)


def structured_text(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report structured content that no text block repeats as JSON (TOOL-004)."""
    request, message = context.answers, context.message
    result = _final(message, request) if request is not None else None
    if request is None or result is None or "structuredContent" not in result:
        return ()
    if not (fault := _text_fault(result)):
        return ()
    name = shown(member(request.params, "name"))
    problem = f"server answered {name} with structuredContent and {fault}"
    # An example in the specification of 2026-07-28 has prose beside structured content.
    at_most: Severity | None = "info" if context.stateless else None
    return (Violation("TOOL-004", "R-141", problem, pointer=context.at + "/result/content", at_most=at_most),)


def _text_fault(result: JSONObject) -> str:
    """Say what is wrong with the texts beside structured content; empty if one repeats it as JSON."""
    structured, content = result.get("structuredContent"), result.get("content")
    if "structuredContent" not in result or result.get("isError") is True or not isinstance(content, list):
        return ""
    texts = [text for block in content if isinstance(text := member(block, "text"), str)]
    if sum(map(len, texts)) > MAX_TEXT:
        return ""
    values = [value for text in texts for value in _parsed(text)]
    # Servers wrap a value that is not an object into one with a single member; the text may have it bare.
    inner = list(structured.values()) if isinstance(structured, dict) and len(structured) == 1 else []
    if structured in values or (
        inner and (inner[0] in values or inner[0] in (texts, values, "\n".join(texts)))
    ):
        return ""
    known = {_as_floats(value) for value in (structured, *inner[:1])}
    if None in known or not known.isdisjoint(map(_as_floats, values)):
        return ""
    return "texts that do not repeat it as JSON" if texts else "no text that repeats it as JSON"


def _parsed(text: str) -> list[JSON]:
    """The value of a JSON text in a list, with numbers as in a frame; an empty list if it is not JSON."""
    value = read(text.encode("utf-8", "surrogatepass"))
    return [] if isinstance(value, Flaw) else [value[0]]


def _as_floats(value: JSON) -> str | None:
    """The value as text, with all numbers as most peers read them; ``None`` if it cannot be written.

    One peer may write 18446744073709551616, 1e400 or a long decimal in another way in each place.
    """
    try:
        return json.dumps(json.loads(json.dumps(value), parse_int=float), sort_keys=True)
    except (ValueError, RecursionError):
        return None


def refused_arguments(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a protocol error for argument values that a tool should refuse in its result (TOOL-007)."""
    call, message = _call(context, history), context.message
    if call is None or call.tool is None or not is_one_or_stateless(context.candidates):
        return ()
    params = as_object(call.asked.params)
    if params is None or member(as_object(message.error), "code") != -32602:
        return ()
    found = _misfits(call.tool, params, context.candidates[0])
    if not found:
        return ()
    problem = f"server refused arguments for {shown(call.name)} with a protocol error: {_clause(found)}"
    related = (call.tool.seq, call.asked.seq)
    return (
        Violation(
            "TOOL-007", "R-144", problem, pointer=context.at + "/error/code", related=related, at_most="info"
        ),
    )


def _call(context: MessageContext, history: History) -> ToolCall | None:
    """Return the call that an answer belongs to, unless a change of the list was announced since."""
    request = context.answers
    if request is None or history.has_gap:
        return None
    call = request.check_memory
    if request.method == "tasks/result":
        task = member(request.params, "taskId")
        call = history.of(Calls).tasks.get(task) if isinstance(task, str) else None
    return call if isinstance(call, ToolCall) and call.changes == call.known.changes else None


def _final(message: Response, request: SentRequest) -> JSONObject | None:
    """Return the result if it is the tool's own: not a task, and not a request for input."""
    result = as_object(message.result)
    if result is None or (request.stateless and result.get("resultType", "complete") != "complete"):
        return None
    return None if "task" in result and "content" not in result else result


ANSWERED: Final = ("TOOL-001", "TOOL-002", "TOOL-006", "TOOL-008")

FAMILY: Final = RuleFamily(
    checks=(
        Check(("TOOL-008",), unfit_arguments, (Request,), ("tools/call",), sender=CLIENT),
        Check(ANSWERED, answered, (Response,), ("tools/call",), sender=SERVER, given=NOTED),
        Check(ANSWERED, answered, (Response,), ("tasks/result",), sender=SERVER),
        Check(
            ("TOOL-004",),
            structured_text,
            (Response,),
            ("tools/call",),
            sender=SERVER,
            within=STRUCTURED,
            members=("structuredContent",),
        ),
        Check(
            ("TOOL-007",),
            refused_arguments,
            (ErrorResponse,),
            ("tools/call",),
            sender=SERVER,
            within=ERRORS_IN_RESULT,
            given=NOTED,
        ),
        Check(
            ("TOOL-007",),
            refused_arguments,
            (ErrorResponse,),
            ("tasks/result",),
            sender=SERVER,
            within=ERRORS_IN_RESULT,
        ),
    ),
    updates=(
        StateUpdate(remember_call, (Request,), ("tools/call",), sender=CLIENT),
        StateUpdate(remember_answer, ANSWERS, ("tools/call",), sender=SERVER, given=NOTED),
    ),
)
