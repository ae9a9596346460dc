"""Tool calls: whether their arguments and results match the listed tool.

A call is checked against the tool as it was listed before the call was sent. Nothing is reported if a change
of the list was announced after that listing, or if the listing was not seen. Only ``structured_text`` needs
no listing.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#calling-tools
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ANSWERS, NOTED, Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.server import apps
from mcpproxy.judge.checks.server.listings import MAX_ITEMS, ListedItem, ListState, listed
from mcpproxy.judge.session.frame import CLIENT, SERVER, Severity
from mcpproxy.judge.session.history import History, SentRequest, keep_latest
from mcpproxy.protocol.error_message import INVALID_PARAMS
from mcpproxy.protocol.jsonrpc import (
    JSON,
    ErrorResponse,
    Flaw,
    JSONObject,
    Malformed,
    Request,
    Response,
    read,
)
from mcpproxy.protocol.message_parts import as_object, member, target_of
from mcpproxy.protocol.revisions import is_shape_known, since
from mcpproxy.protocol.schema.contracts import Mismatch
from mcpproxy.protocol.wording import shown, unquoted

MAX_CALLS: Final = 4_096
"""The number of remembered calls whose result is a task."""

STRUCTURED: Final = since("2025-06-18")
"""The revisions in which a tool may have structured output."""

ERRORS_IN_RESULT: Final = since("2025-11-25")
"""The revisions in which a tool reports bad arguments in its result and not as a protocol error."""

MAX_TEXT: Final = 1 << 20
"""Texts longer than this in total, in characters, are not parsed as JSON."""


@slotted(eq=False)
class ToolCall:
    """One call, with the tool as it was listed when the call was sent.

    ``tool`` is ``None`` if the tool was not listed; ``complete_list_seq`` is then the last frame of the
    complete list of tools, otherwise 0. ``list_state`` is the state of the list, ``changes`` the number of
    its changes that were announced before the call. ``has_expired`` says that the listing of the tool was not
    valid any more.
    """

    request: SentRequest
    name: str
    tool: ListedItem | None
    complete_list_seq: int
    list_state: ListState
    changes: int
    has_expired: bool


Called: TypeAlias = tuple[ListState, str, ListedItem | None, tuple[Mismatch, ...]]
"""The list of tools, the name that a call gives, the listed tool with this name, and where the arguments of
the call do not match its inputSchema."""


@slotted()
class Calls:
    """The calls whose result was a task, by the id of the task."""

    by_task_id: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])


def remember_call(context: MessageContext, history: History) -> None:
    """Record a call with the tool that it names, if the answer may have to be checked.

    Record, too, that an unusable schema of the tool was reported.
    """
    request, called = context.asked, _called_tool(context, history)
    if request is None or called is None:
        return
    tools, name, tool, mismatches = called
    if tool is None:
        complete_list = tools.current
        if complete_list is not None and name not in complete_list.items:
            request.check_memory = ToolCall(
                request, name, None, complete_list.seq, tools, tools.changes, has_expired=False
            )
        return
    revisions = context.candidates
    is_revision_unknown = not is_shape_known(revisions)
    if not is_revision_unknown and tool.obstacles(revisions[0]) and len(tools.unchecked) < MAX_ITEMS:
        tools.unchecked.add(name)
    if "outputSchema" in tool.value or is_revision_unknown or mismatches:
        has_expired = context.frame.observed_at_ns > tool.fresh_until_ns
        request.check_memory = ToolCall(
            request,
            name,
            tool,
            complete_list_seq=0,
            list_state=tools,
            changes=tools.changes,
            has_expired=has_expired,
        )


def remember_answer(context: MessageContext, history: History) -> None:
    """Forget an answered call or, if its result is a task, keep the call under the id of the task."""
    request, message = context.answers, context.message
    call = request.check_memory if request is not None else None
    if request is None or not isinstance(call, ToolCall):
        return
    request.check_memory = None
    if isinstance(message, Response) and member(request.params, "task") is not None:
        task_id = member(message.result, "task", "taskId")
        if isinstance(task_id, str):
            keep_latest(history.of(Calls).by_task_id, task_id, call, MAX_CALLS)


# The call


def unfit_arguments(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report arguments that break a tool's inputSchema (TOOL-008), and an unusable schema (SCHEMA-006).

    Such arguments are only an info for the client: it is the server that should refuse them. An unusable
    schema, which no value can be checked against, is reported at the first call of its tool.
    """
    if (called := _called_tool(context, history)) is None:
        return ()
    tools, name, tool, mismatches = called
    if tool is None or not is_shape_known(context.candidates):
        return ()
    obstacles = tool.obstacles(context.candidates[0])
    if not mismatches and not obstacles:
        return ()
    violations: list[Violation] = []
    if mismatches:
        fault = _first_mismatch(mismatches)
        problem = f"client called {shown(name)} with arguments that break its inputSchema: {fault}"
        pointer = f"{context.at}/params/arguments{mismatches[0].pointer}"
        violations.append(
            Violation("TOOL-008", "R-145", problem, pointer=pointer, related=(tool.seq,), at_most="info")
        )
    if obstacles and name not in tools.unchecked and len(tools.unchecked) < MAX_ITEMS:
        reasons = " and ".join(f"the {schema} cannot be used, because {why}" for schema, why in obstacles)
        problem = f"mcpproxy does not check all values of {shown(name)}: {reasons}"
        pointer = context.at + "/params/name"
        violations.append(
            Violation("SCHEMA-006", "D-007", problem, pointer=pointer, related=(tool.seq,), blame="server")
        )
    return violations


def _called_tool(context: MessageContext, history: History) -> Called | None:
    """Return the tool that a call names; ``None`` if it names none, or if messages are missing.

    The result is kept in the context, because both the check of a call and its state update need it.
    """
    called: Any = context.derived
    if called is not None:
        return called
    params = context.contents
    name = None if history.has_gap else target_of(context.method, params)
    if name is None or not isinstance(params, dict):
        return None
    tools, revisions = listed(history, "tools/list"), context.candidates
    tool = tools.items.get(name)
    mismatches: tuple[Mismatch, ...] = ()
    if tool is not None and is_shape_known(revisions):
        mismatches = _mismatches(tool, params, revisions[0], context.frame.raw)
    called = context.derived = (tools, name, tool, mismatches)
    return called


def _mismatches(
    tool: ListedItem, params: JSONObject, revision: str, text: bytes | None = None
) -> tuple[Mismatch, ...]:
    """Return where the arguments of a call do not match the tool's inputSchema.

    A call without arguments is judged as if they were an empty object. ``text`` is the text of the message.
    """
    arguments = params.get("arguments", {})
    # ``checks.basic.shapes`` reports arguments that are not an object.
    return tool.mismatches("inputSchema", arguments, revision, text) if isinstance(arguments, dict) else ()


def _first_mismatch(mismatches: tuple[Mismatch, ...]) -> str:
    """Return a description of the first of ``mismatches``, and the number of the others."""
    pointer, fault = mismatches[0]
    more = f" (and {len(mismatches) - 1} more)" if len(mismatches) > 1 else ""
    return f"{unquoted(pointer[1:]) + ' ' if pointer else 'it '}{fault}{more}"


# The answer


def unfit_result(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report a result that does not match the listed tool, or that should be an error (TOOL-001, TOOL-002,
    TOOL-006, TOOL-008).
    """
    call, message = _answered_call(context, history), context.message
    result = _tool_result(message, call.request) if call is not None else None
    if call is None or result is None or not is_shape_known(context.candidates):
        return ()
    if call.tool is None:
        return _unlisted_tool(context, call, result) if call.complete_list_seq else ()
    violations = _accepted_arguments(context, call, call.tool, result)
    if isinstance(call.tool.value.get("outputSchema"), dict):
        violations = (*violations, *_output_fault(context, history, call, call.tool, result))
    return violations


def _unlisted_tool(context: MessageContext, call: ToolCall, result: JSONObject) -> Iterator[Violation]:
    """Report a result for a tool that the server does not list (TOOL-006)."""
    pointer, related = context.at + "/result", (call.complete_list_seq, call.request.seq)
    # Few clients can read an answer over several lines or with lenient JSON: the call may be unanswered.
    frame = context.frame
    is_readable = not isinstance(frame.message, Malformed) and (frame.exchange or b"\n" not in frame.raw)
    answered = "answered" if is_readable else "meant to answer"
    problem = f"server {answered} a call of {shown(call.name)}, which it does not list, with "
    if result.get("isError") is True:
        problem += "a tool execution error (isError), not with a JSON-RPC error"
        yield Violation("TOOL-006", "R-143", problem, pointer=pointer, related=related)
    else:
        # An info only: the server may have tools that it does not list, or its text may report the error.
        problem += "a result that is not marked as an error"
        yield Violation("TOOL-006", "R-143", problem, pointer=pointer, related=related, at_most="info")


def _accepted_arguments(
    context: MessageContext, call: ToolCall, tool: ListedItem, result: JSONObject
) -> tuple[Violation, ...]:
    """Return the violation, if any, of a server that accepts mismatched arguments (TOOL-008)."""
    params = call.request.params
    if not isinstance(params, dict) or result.get("isError") is True:
        return ()
    if not (mismatches := _mismatches(tool, params, context.candidates[0])):
        return ()
    fault = _first_mismatch(mismatches)
    problem = f"server took arguments for {shown(call.name)} that break its inputSchema: {fault}"
    related = (tool.seq, call.request.seq)
    # A warning only: the tool may be able to handle these arguments.
    return (
        Violation(
            "TOOL-008", "R-145", problem, pointer=context.at + "/result", related=related, at_most="warning"
        ),
    )


def _output_fault(
    context: MessageContext, history: History, call: ToolCall, tool: ListedItem, result: JSONObject
) -> Iterator[Violation]:
    """Report a result whose structured content is missing or breaks the outputSchema (TOOL-001, TOOL-002)."""
    # A warning only if the list may have changed unseen: it has expired, or it has changed before and, over
    # HTTP, the announcement of another change may have come on another stream.
    may_have_changed = call.has_expired or (call.changes and history.over_http)
    at_most: Severity | None = "warning" if may_have_changed else None
    if result.get("isError") is True:
        # The specification makes no exception, but the official SDKs do.
        if "structuredContent" not in result:
            return
        at_most = "info"
    related = (tool.seq, call.request.seq)
    if "structuredContent" not in result:
        problem = (
            f"server answered {shown(call.name)} without structuredContent, but lists an outputSchema for it"
        )
        yield Violation(
            "TOOL-001", "R-138", problem, pointer=context.at + "/result", related=related, at_most=at_most
        )
    elif mismatches := tool.mismatches("outputSchema", result["structuredContent"], context.candidates[0]):
        fault = _first_mismatch(mismatches)
        problem = f"server answered {shown(call.name)} with content that breaks its outputSchema: {fault}"
        pointer = f"{context.at}/result/structuredContent{mismatches[0].pointer}"
        yield Violation("TOOL-002", "R-139", problem, pointer=pointer, related=related, at_most=at_most)


def structured_text(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report structured content that no text block repeats as JSON (TOOL-004).

    A tool that is bound to a page (see ``apps``) is left out: its structured content is for the page, and
    ``content`` has other texts, for the model.
    """
    request, message = context.answers, context.message
    result = _tool_result(message, request) if request is not None else None
    if request is None or result is None or "structuredContent" not in result:
        return ()
    if not (fault := _text_fault(result)) or apps.may_have_page(request, history):
        return ()
    name = shown(target_of(request.method, request.params))
    problem = f"server answered {name} with structuredContent and {fault}"
    # Only an info from 2026-07-28 on, because an example in that specification has prose instead of the JSON.
    at_most: Severity | None = "info" if context.stateless else None
    return (Violation("TOOL-004", "R-141", problem, pointer=context.at + "/result/content", at_most=at_most),)


def _text_fault(result: JSONObject) -> str:
    """Return what is wrong with the texts beside structured content; empty if one repeats it as JSON.

    It is also empty for an error, and if the texts are longer than ``MAX_TEXT`` or ``content`` is not an
    array.
    """
    structured, content = result.get("structuredContent"), result.get("content")
    if "structuredContent" not in result or result.get("isError") is True or not isinstance(content, list):
        return ""
    texts = [text for block in content if isinstance(text := member(block, "text"), str)]
    if sum(map(len, texts)) > MAX_TEXT:
        return ""
    values = [value for text in texts for value in _parse_json(text)]
    # Some servers put a value that is not an object into an object with a single member. Their texts repeat
    # the value without that object: a string as it is, a list as one text for each item.
    unwrapped = list(structured.values()) if isinstance(structured, dict) and len(structured) == 1 else []
    if structured in values or (
        unwrapped and (unwrapped[0] in values or unwrapped[0] in (texts, values, "\n".join(texts)))
    ):
        return ""
    expected = {_as_floats(value) for value in (structured, *unwrapped)}
    if None in expected or not expected.isdisjoint(map(_as_floats, values)):
        return ""
    return "texts that do not repeat it as JSON" if texts else "no text that repeats it as JSON"


def _parse_json(text: str) -> list[JSON]:
    """Return a list with the value of a JSON text, parsed like a frame; an empty list if it is not JSON."""
    value = read(text.encode("utf-8", "surrogatepass"))
    return [] if isinstance(value, Flaw) else [value]


def _as_floats(value: JSON) -> str | None:
    """Return ``value`` as text with all numbers as floats; ``None`` if it cannot be written.

    A server may write a number such as 18446744073709551616 or 1e400 in one way in the structured content and
    in another way in the text. As floats, as most clients read them, both are equal.
    """
    try:
        return json.dumps(json.loads(json.dumps(value), parse_int=float), sort_keys=True)
    except (ValueError, RecursionError):
        return None


def refused_arguments(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a protocol error for mismatched arguments, which the tool's result should report (TOOL-007)."""
    call, message = _answered_call(context, history), context.message
    if call is None or call.tool is None or not is_shape_known(context.candidates):
        return ()
    params = as_object(call.request.params)
    if params is None or member(as_object(message.error), "code") != INVALID_PARAMS:
        return ()
    mismatches = _mismatches(call.tool, params, context.candidates[0])
    if not mismatches:
        return ()
    fault = _first_mismatch(mismatches)
    problem = f"server refused arguments for {shown(call.name)} with a protocol error: {fault}"
    related = (call.tool.seq, call.request.seq)
    return (
        Violation(
            "TOOL-007", "R-144", problem, pointer=context.at + "/error/code", related=related, at_most="info"
        ),
    )


def _answered_call(context: MessageContext, history: History) -> ToolCall | None:
    """Return the call that an answer belongs to; ``None`` if it is not known, or if a change of the list was
    announced since or may not have been seen.
    """
    request = context.answers
    if request is None or history.has_gap:
        return None
    call = request.check_memory
    if request.method == "tasks/result":
        task_id = member(request.params, "taskId")
        call = history.of(Calls).by_task_id.get(task_id) if isinstance(task_id, str) else None
    return call if isinstance(call, ToolCall) and call.changes == call.list_state.changes else None


def _tool_result(message: Response, request: SentRequest) -> JSONObject | None:
    """Return the result if the tool produced it; ``None`` if it is not an object, or is a task.

    A stateless result that is not complete, such as one that asks the client for input, is ``None``, too.
    """
    result = as_object(message.result)
    if result is None or (request.stateless and result.get("resultType", "complete") != "complete"):
        return None
    return None if "task" in result and "content" not in result else result


RESULT_RULES: Final = ("TOOL-001", "TOOL-002", "TOOL-006", "TOOL-008")

FAMILY: Final = RuleFamily(
    checks=(
        Check(("TOOL-008", "SCHEMA-006"), unfit_arguments, (Request,), ("tools/call",), sender=CLIENT),
        Check(RESULT_RULES, unfit_result, (Response,), ("tools/call",), sender=SERVER, given=NOTED),
        Check(RESULT_RULES, unfit_result, (Response,), ("tasks/result",), sender=SERVER),
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
