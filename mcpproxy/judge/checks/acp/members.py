"""The members of every message of ACP: the required ones, and the JSON types of all.

Source: the schema of each version, as ``protocol.shapes.acp_messages`` has it.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.acp.handshake import NAMES
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, MISSHAPEN, Check, RuleFamily
from mcpproxy.judge.session.frame import other
from mcpproxy.judge.session.history import History
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import Notification, Request, Response
from mcpproxy.protocol.message_parts import text_member
from mcpproxy.protocol.shapes.lookup import ShapeViolation, violations
from mcpproxy.protocol.wording import with_article

_UPDATE: Final = "/params/update/"


def member_shape(
    context: MessageContext[Request | Notification | Response], history: History
) -> Iterator[Violation]:
    """Report params and results that do not have the shape that the version defines (ACP-011)."""
    method, is_answer = context.method, isinstance(context.message, Response)
    if len(context.candidates) != 1:
        return
    version = context.candidates[0]
    definition = acp.method(method, version)
    asker = other(context.sender) if is_answer else context.sender
    if definition is None or definition.sender not in (asker, "both"):
        return  # ACP-010 reports the request.
    for fault in violations(context.contents, (method, "result" if is_answer else "params"), version):
        is_unknown = fault.kind == "unknown-variant"
        if is_unknown and fault.found.startswith('"_'):
            continue  # It is an extension.
        yield Violation(
            "ACP-011",
            _requirement(method, fault, is_answer),
            _problem(context, fault, is_answer),
            pointer=context.at + fault.pointer,
            # A later release of the version may define the value.
            at_most="warning" if is_unknown else None,
        )


def _requirement(method: str, fault: ShapeViolation, is_answer: bool) -> str:
    """Return the requirement that a fault in the params or the result of ``method`` breaks."""
    if is_answer:
        return "A-034" if (method, fault.pointer) == ("session/new", "/result/sessionId") else "A-059"
    if not fault.pointer.startswith(_UPDATE):
        return "A-033"
    return "A-052" if (fault.pointer, fault.kind) == (_UPDATE + "messageId", "missing") else "A-060"


def _problem(context: MessageContext, fault: ShapeViolation, is_answer: bool) -> str:
    """Return a fault as a sentence: ``client sent session/new without cwd``.

    For a session update, its kind replaces the method: ``agent sent a plan with entries as null; ...``.
    """
    verb, noun, pointer = "answered" if is_answer else "sent", context.method, fault.pointer
    kind = text_member(context.contents, "update", "sessionUpdate") if pointer.startswith(_UPDATE) else None
    if kind is not None:
        noun, pointer = with_article(kind), pointer.removeprefix("/params")
    part, *steps = pointer[1:].split("/")
    path = "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps).lstrip(".")
    place = shortened(path or part, 120)
    clause = f"without {place}"
    if fault.kind != "missing":
        clause = f"with {place} as {fault.found}; it must be {fault.expected.removesuffix(' or null')}"
    return f"{NAMES[context.sender]} {verb} {noun} {clause}"


# Requests have their own row: ``--enforce`` can refuse a message only by a row that is for requests alone.
FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-011",), member_shape, (Request,), (), ACP_ONLY, given=MISSHAPEN),
        Check(("ACP-011",), member_shape, (Notification, Response), (), ACP_ONLY, given=MISSHAPEN),
    ),
)
