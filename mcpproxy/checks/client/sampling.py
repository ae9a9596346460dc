"""Sampling: what servers ask a client's model to generate.

``checks.basic.shapes`` checks the members of requests and results. This module checks that they fit together:
the model's tool uses, their results, and the tools it was offered. ``checks.basic.embedded`` says what an
``Ask`` and a ``Reply`` are.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.basic.embedded import Ask, Reply, check_asks, check_replies, rows_for_both_eras
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened
from mcpproxy.checks.engine.rows import Check, RuleFamily
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request
from mcpproxy.protocol.methods import defined
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import SERVER
from mcpproxy.session.history import History

SAMPLING: Final = ("sampling/createMessage",)

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"

ROLE_OF: Final = {"tool_use": "assistant", "tool_result": "user"}
"""The role of messages with each kind of tool block."""

FINISHED: Final = ("endTurn", "stopSequence")
"""Stop reasons that exclude a tool use. Other reasons may or may not come with one."""


# The request


def faulty_request(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report faults in a request for sampling (SAMP-001, SAMP-002, SAMP-003, SAMP-004)."""
    checks = (_fractional_limit, _mixed_results, _unbalanced_use, _wrong_roles)
    return check_asks(context, history, "sampling/createMessage", checks)


def _fractional_limit(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a token limit that is not a whole number (SAMP-001)."""
    limit = member(ask.params, "maxTokens")
    if isinstance(limit, float) and not limit.is_integer():
        problem = f"server asked for at most {shown(limit)} tokens, which is not a whole number"
        # The type is integer in schema.json, but number in schema.ts.
        yield Violation("SAMP-001", "R-174", problem, pointer=ask.at + "/params/maxTokens", at_most="warning")


def _mixed_results(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a message with tool results and other content (SAMP-002)."""
    for pointer, message in _messages(ask):
        types = {str(block.get("type")) for block in _blocks(message)}
        if message.get("role") == "user" and "tool_result" in types and len(types) > 1:
            others = shortened(", ".join(sorted(types - {"tool_result"})))
            problem = f"server sent a user message for sampling with tool results and other content: {others}"
            yield Violation("SAMP-002", "R-175", problem, pointer=pointer + "/content")


def _unbalanced_use(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report tool uses and tool results that do not match (SAMP-003)."""
    open_uses: list[str] = []
    last = ""
    for pointer, message in _messages(ask):
        results = _ids(message, "tool_result", "toolUseId") if message.get("role") == "user" else []
        if missing := [use for use in open_uses if use not in results]:
            problem = (
                f"server asked for sampling with tool use {shown(missing[0])}, whose result does not follow"
            )
            yield Violation("SAMP-003", "R-176", problem, pointer=last + "/content")
        elif stray := [result for result in results if result not in open_uses]:
            problem = (
                f"server asked for sampling with a result of tool use {shown(stray[0])}, which is not in"
            )
            yield Violation(
                "SAMP-003", "R-176", f"{problem} the message before it", pointer=pointer + "/content"
            )
        open_uses = _ids(message, "tool_use", "id") if message.get("role") == "assistant" else []
        last = pointer
    if open_uses:
        problem = (
            f"server asked for sampling that ends with tool use {shown(open_uses[0])}, without its result"
        )
        yield Violation("SAMP-003", "R-176", problem, pointer=last + "/content")


def _wrong_roles(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report tool uses and results in messages of the wrong role (SAMP-004)."""
    for pointer, message in _messages(ask):
        yield from _wrong_role("server", message, pointer)


def _wrong_role(sender: str, message: JSONObject, pointer: str) -> Iterator[Violation]:
    for block in _blocks(message):
        type, role = block.get("type"), message.get("role")
        proper = ROLE_OF.get(type) if isinstance(type, str) else None
        if proper and isinstance(role, str) and role in ROLE_OF.values() and role != proper:
            problem = f"{sender} sent a {type} with the role {role}; it belongs to the {proper}"
            yield Violation("SAMP-004", "R-177", problem, pointer=pointer + "/role")
            return


def unprompted(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report sampling or elicitation while no request of the client is pending (SAMP-006)."""
    message, client = context.message, history.client
    busy = any(request is not history.initialize for request in client.pending.values())
    if (
        busy
        or context.sender != SERVER
        or history.has_gap
        or history.may_lack_messages
        or not client.fully_read
    ):
        return ()
    if not all(defined(message.method, revision) for revision in context.candidates):
        return ()  # This revision does not have the request, which other rules report.
    if member(message.params, "_meta", RELATED_TASK) is not None:
        return ()  # The related request was answered with a task, which is still running.
    if history.over_http and history.initialize and client.last_answered_seq > history.initialize.seq:
        return ()  # The answer to the related request may have overtaken it on another stream.
    problem = f"server sent {message.method} while no request of the client was being processed"
    return (Violation("SAMP-006", "R-179", problem, pointer=context.at + "/method"),)


# The result


def faulty_result(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report faults in the result of sampling (SAMP-004, SAMP-005)."""
    return check_replies(context, history, "sampling/createMessage", (_result_role, _tool_choice))


def _tool_choice(reply: Reply, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a stop reason or tool uses that do not fit the request or each other (SAMP-005)."""
    used = [block for block in _blocks(reply.result) if block.get("type") == "tool_use"]
    reason = reply.result.get("stopReason")
    if reason == "toolUse" and not used:
        problem = "client sent a sampling result with stopReason toolUse, but without a tool use"
        yield Violation("SAMP-005", "R-178", problem, pointer=reply.at + "/stopReason")
    elif reason in FINISHED and used:
        problem = f"client sent a sampling result with a tool use, but the stopReason {reason}"
        yield Violation("SAMP-005", "R-178", problem, pointer=reply.at + "/stopReason")
    if reply.ask is not None:
        yield from _disobeyed(reply, reply.ask, used, reason)


def _disobeyed(reply: Reply, ask: Ask, used: list[JSONObject], reason: JSON) -> Iterator[Violation]:
    """Report tool uses that the request did not allow, or none although it required one."""
    mode = member(ask.params, "toolChoice", "mode")
    offered = [member(tool, "name") for tool in _list(member(ask.params, "tools"))]
    unknown = [name for name in (block.get("name") for block in used) if name not in offered]
    if used and mode == "none":
        problem = "client sent a tool use, although the server's toolChoice was none"
    elif unknown:
        hint = "" if offered else ": it offered none"
        problem = f"client sent a use of tool {shown(unknown[0])}, which the server did not offer{hint}"
    elif mode == "required" and not used and reason in (*FINISHED, None):
        problem = (
            "client sent a sampling result without a tool use, although the server's toolChoice was required"
        )
    else:
        return
    yield Violation("SAMP-005", "R-178", problem, pointer=reply.at + "/content", related=(ask.seq,))


def _result_role(reply: Reply, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a result whose role does not fit its tool blocks (SAMP-004)."""
    yield from _wrong_role("client", reply.result, reply.at)


# Messages and their blocks


def _messages(ask: Ask) -> Iterator[tuple[str, JSONObject]]:
    for index, message in enumerate(_list(member(ask.params, "messages"))):
        if (found := as_object(message)) is not None:
            yield f"{ask.at}/params/messages/{index}", found


def _blocks(message: JSONObject) -> list[JSONObject]:
    """The content of a message, which is one block or several."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]


def _ids(message: JSONObject, type: str, name: str) -> list[str]:
    found = [block.get(name) for block in _blocks(message) if block.get("type") == type]
    return [id for id in found if isinstance(id, str)]


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


_REQUEST_RULES: Final = ("SAMP-001", "SAMP-002", "SAMP-003", "SAMP-004")
_RESULT_RULES: Final = ("SAMP-004", "SAMP-005")

FAMILY: Final = RuleFamily(
    checks=(
        *rows_for_both_eras(SAMPLING, (_REQUEST_RULES, faulty_request), (_RESULT_RULES, faulty_result)),
        Check(("SAMP-006",), unprompted, (Request,), (*SAMPLING, "elicitation/create")),
    ),
)
