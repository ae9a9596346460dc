"""Prompts: whether the server refuses unknown prompts and missing arguments, and with which code.

``shapes`` checks the members of requests and results.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
"""

from collections.abc import Iterable
from typing import Final

from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member
from mcpproxy.checks.engine.rows import ANSWERS, Check, RuleFamily
from mcpproxy.checks.server.listings import ListedItem, listed
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import SERVER, Severity
from mcpproxy.session.history import History, SentRequest

UNRELATED_CODES: Final = (-32601, -32603)
"""Errors that do not concern the prompt: an unknown method, an internal error of the server."""


def unrefused_prompt(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an unknown prompt or a missing argument that was not refused with -32602 (PROM-003)."""
    request = context.answers
    if request is None or request.cancelled or history.has_gap:
        return ()
    known, name = listed(history, "prompts/list"), member(request.params, "name")
    if known.changed_seq > request.seq or not isinstance(name, str):
        return ()
    prompt, whole = known.items.get(name), known.whole
    if prompt is not None and prompt.seq < request.seq:
        lacking = _lacking(prompt, request)
        fault, seq = f"without {shown(lacking)}, which it lists as required", prompt.seq
        if lacking is None:
            return ()
    elif whole is not None and whole.seq < request.seq and name not in whole.items:
        fault, seq = "which it does not list", whole.seq
    else:
        return ()
    return _judge_answer(context, f"{shown(name)}, {fault}", (seq, request.seq), required=prompt is not None)


def _judge_answer(
    context: MessageContext, what: str, related: tuple[int, ...], *, required: bool
) -> Iterable[Violation]:
    message = context.message
    at_most: Severity = "info"
    if isinstance(message, ErrorResponse):
        code = member(as_object(message.error), "code")
        if code == -32602 or code in UNRELATED_CODES or not isinstance(code, int):
            return ()
        problem, pointer = f"server refused prompt {what}, with code {code} instead of -32602", "/error/code"
    elif member(message.value, "result", "resultType") in (None, "complete"):
        at_most = "warning" if required else "info"
        problem, pointer = f"server gave prompt {what}", "/result"
    else:
        return ()  # The server asks for input, perhaps for the missing value.
    return (
        Violation(
            "PROM-003", "R-163", problem, pointer=context.at + pointer, related=related, at_most=at_most
        ),
    )


def _lacking(prompt: ListedItem, request: SentRequest) -> str | None:
    """The first argument that is listed as required and is missing."""
    wanted, given = prompt.value.get("arguments"), member(request.params, "arguments")
    names: JSON = given if isinstance(given, dict) else {}
    for argument in wanted if isinstance(wanted, list) else ():
        name = member(argument, "name")
        if member(argument, "required") is True and isinstance(name, str) and name not in names:
            return name
    return None


FAMILY: Final = RuleFamily(
    checks=(Check(("PROM-003",), unrefused_prompt, ANSWERS, ("prompts/get",), sender=SERVER),),
)
