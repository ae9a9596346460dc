"""Prompts: whether the server refuses unknown prompts and missing arguments, and with which error code.

``checks.basic.shapes`` checks the members of requests and results.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
"""

from collections.abc import Iterable
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ANSWERS, Check, RuleFamily
from mcpproxy.judge.checks.server.listings import ListedItem, listed
from mcpproxy.judge.session.frame import SERVER, Severity
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.error_message import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse
from mcpproxy.protocol.message_parts import as_object, member, target_of
from mcpproxy.protocol.wording import shown

UNRELATED_CODES: Final = (METHOD_NOT_FOUND, INTERNAL_ERROR)
"""Errors that do not concern the prompt: an unknown method, an internal error of the server."""


def unrefused_prompt(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an unknown prompt or a missing argument that was not refused with -32602 (PROM-003)."""
    request = context.answers
    if request is None or request.cancelled or history.has_gap:
        return ()
    prompts, name = listed(history, "prompts/list"), target_of(request.method, request.params)
    if prompts.changed_seq > request.seq or name is None:
        return ()
    prompt, complete_list = prompts.items.get(name), prompts.current
    if prompt is not None and prompt.seq < request.seq:
        argument = _missing_argument(prompt, request)
        if argument is None:
            return ()
        fault, seq = f"without {shown(argument)}, which it lists as required", prompt.seq
    elif complete_list is not None and complete_list.seq < request.seq and name not in complete_list.items:
        fault, seq = "which it does not list", complete_list.seq
    else:
        return ()
    return _judge_answer(context, f"{shown(name)}, {fault}", (seq, request.seq), is_listed=prompt is not None)


def _judge_answer(
    context: MessageContext, prompt: str, related: tuple[int, ...], *, is_listed: bool
) -> Iterable[Violation]:
    """Report the answer to a faulty request. ``prompt`` is the prompt's name and what is wrong, in words."""
    message = context.message
    at_most: Severity = "info"
    if isinstance(message, ErrorResponse):
        code = member(as_object(message.error), "code")
        if code == INVALID_PARAMS or code in UNRELATED_CODES or not isinstance(code, int):
            return ()
        problem = f"server refused prompt {prompt}, with code {code} instead of -32602"
        pointer = "/error/code"
    elif member(message.value, "result", "resultType") in (None, "complete"):
        at_most = "warning" if is_listed else "info"
        problem, pointer = f"server gave prompt {prompt}", "/result"
    else:
        return ()  # The server asks the client for input, perhaps for the missing argument.
    return (
        Violation(
            "PROM-003", "R-163", problem, pointer=context.at + pointer, related=related, at_most=at_most
        ),
    )


def _missing_argument(prompt: ListedItem, request: SentRequest) -> str | None:
    """Return the first required argument that the request does not have; ``None`` if it has them all."""
    listed_arguments, arguments = prompt.value.get("arguments"), member(request.params, "arguments")
    given_arguments: JSON = arguments if isinstance(arguments, dict) else {}
    for argument in listed_arguments if isinstance(listed_arguments, list) else ():
        name = member(argument, "name")
        if member(argument, "required") is True and isinstance(name, str) and name not in given_arguments:
            return name
    return None


FAMILY: Final = RuleFamily(
    checks=(Check(("PROM-003",), unrefused_prompt, ANSWERS, ("prompts/get",), sender=SERVER),),
)
