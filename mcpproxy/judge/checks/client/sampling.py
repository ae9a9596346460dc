"""Sampling: requests of a server to the client's model, and the model's answers.

``checks.basic.shapes`` checks the members of requests and results. This module checks that they fit together:
the model's tool uses, the results of the tools, and the tools that the model was offered.
``checks.basic.embedded`` defines ``Ask``, a request of the server, and ``Reply``, its result.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.judge.checks.basic.embedded import Ask, Reply, check_asks, check_replies, rows_for_both_eras
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import RELATED_TASK_KEY
from mcpproxy.protocol.methods import defined
from mcpproxy.protocol.wording import shown

SAMPLING: Final = ("sampling/createMessage",)


ROLE_OF: Final = {"tool_use": "assistant", "tool_result": "user"}
"""The role of the messages that may contain a content block, by its type."""

FINISHED: Final = ("endTurn", "stopSequence")
"""Stop reasons with which a result must not contain a tool use. With other reasons it may contain one."""


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
        # schema.ts says number. schema.json, in all revisions, says integer, and number only where schema.ts
        # adds that a fraction is meant (@TJS-type), as for temperature.
        yield Violation("SAMP-001", "R-174", problem, pointer=ask.at + "/params/maxTokens", at_most="warning")


def _mixed_results(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a user message that mixes tool results with other content (SAMP-002)."""
    for pointer, message in _messages(ask):
        types = {str(block.get("type")) for block in _blocks(message)}
        if message.get("role") == "user" and "tool_result" in types and len(types) > 1:
            others = shortened(", ".join(sorted(types - {"tool_result"})))
            problem = f"server sent a user message for sampling with tool results and other content: {others}"
            yield Violation("SAMP-002", "R-175", problem, pointer=pointer + "/content")


def _unbalanced_use(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a tool use without its result in the next message, and the reverse (SAMP-003)."""
    open_ids: list[str] = []
    last_pointer = ""
    for pointer, message in _messages(ask):
        result_ids = _ids(message, "tool_result", "toolUseId") if message.get("role") == "user" else []
        if missing_ids := [tool_use_id for tool_use_id in open_ids if tool_use_id not in result_ids]:
            tool_use = f"tool use {shown(missing_ids[0])}"
            problem = f"server asked for sampling with {tool_use}, whose result does not follow"
            yield Violation("SAMP-003", "R-176", problem, pointer=last_pointer + "/content")
        elif stray_ids := [tool_use_id for tool_use_id in result_ids if tool_use_id not in open_ids]:
            problem = (
                f"server asked for sampling with a result of tool use {shown(stray_ids[0])}, which is not in"
            )
            yield Violation(
                "SAMP-003", "R-176", f"{problem} the message before it", pointer=pointer + "/content"
            )
        open_ids = _ids(message, "tool_use", "id") if message.get("role") == "assistant" else []
        last_pointer = pointer
    if open_ids:
        problem = (
            f"server asked for sampling that ends with tool use {shown(open_ids[0])}, without its result"
        )
        yield Violation("SAMP-003", "R-176", problem, pointer=last_pointer + "/content")


def _wrong_roles(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report tool uses and results in messages of the wrong role (SAMP-004)."""
    for pointer, message in _messages(ask):
        yield from _wrong_role("server", message, pointer)


def _wrong_role(sender: str, message: JSONObject, pointer: str) -> Iterator[Violation]:
    """Report the first tool block of a message whose role may not contain it (SAMP-004)."""
    for block in _blocks(message):
        type, role = block.get("type"), message.get("role")
        proper_role = ROLE_OF.get(type) if isinstance(type, str) else None
        if proper_role and isinstance(role, str) and role in ROLE_OF.values() and role != proper_role:
            problem = f"{sender} sent a {type} with the role {role}; it belongs to the {proper_role}"
            yield Violation("SAMP-004", "R-177", problem, pointer=pointer + "/role")
            return


def unprompted(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report sampling or elicitation while no request of the client but initialize is pending (SAMP-006)."""
    message, client = context.message, history.client
    has_pending_request = any(request is not history.initialize for request in client.pending.values())
    if (
        has_pending_request
        or context.sender != SERVER
        or history.has_gap
        or history.may_lack_messages
        or not client.fully_read
    ):
        return ()
    if not all(defined(message.method, revision) for revision in context.candidates):
        return ()  # Other rules report a request that the revision does not define.
    if member(message.params, "_meta", RELATED_TASK_KEY) is not None:
        return ()  # It is part of a task: the client's request was already answered with that task.
    if history.over_http and history.initialize and client.last_answered_seq > history.initialize.seq:
        return ()  # The answer to the client's request may have overtaken this request on another stream.
    problem = f"server sent {message.method} while no request of the client was being processed"
    return (Violation("SAMP-006", "R-179", problem, pointer=context.at + "/method"),)


# The result


def faulty_result(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report faults in the result of sampling (SAMP-004, SAMP-005)."""
    return check_replies(context, history, "sampling/createMessage", (_result_role, _unfit_tool_uses))


def _unfit_tool_uses(reply: Reply, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a stop reason or tool uses that do not fit the request or each other (SAMP-005)."""
    tool_uses = [block for block in _blocks(reply.result) if block.get("type") == "tool_use"]
    reason = reply.result.get("stopReason")
    if reason == "toolUse" and not tool_uses:
        problem = "client sent a sampling result with stopReason toolUse, but without a tool use"
        yield Violation("SAMP-005", "R-178", problem, pointer=reply.at + "/stopReason")
    elif reason in FINISHED and tool_uses:
        problem = f"client sent a sampling result with a tool use, but the stopReason {reason}"
        yield Violation("SAMP-005", "R-178", problem, pointer=reply.at + "/stopReason")
    if reply.ask is not None:
        yield from _unallowed_tool_uses(reply, reply.ask, tool_uses, reason)


def _unallowed_tool_uses(
    reply: Reply, ask: Ask, tool_uses: list[JSONObject], reason: JSON
) -> Iterator[Violation]:
    """Report tool uses that the request did not allow, and a required tool use that is missing (SAMP-005)."""
    mode = member(ask.params, "toolChoice", "mode")
    offered_names = [member(tool, "name") for tool in _list(member(ask.params, "tools"))]
    unknown_names = [name for name in (block.get("name") for block in tool_uses) if name not in offered_names]
    if tool_uses and mode == "none":
        problem = "client sent a tool use, although the server's toolChoice was none"
    elif unknown_names:
        hint = "" if offered_names else ": it offered none"
        problem = f"client sent a use of tool {shown(unknown_names[0])}, which the server did not offer{hint}"
    elif mode == "required" and not tool_uses and reason in (*FINISHED, None):
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
    """Yield the messages for the model, each with its JSON Pointer."""
    for index, message in enumerate(_list(member(ask.params, "messages"))):
        if (message_object := as_object(message)) is not None:
            yield f"{ask.at}/params/messages/{index}", message_object


def _blocks(message: JSONObject) -> list[JSONObject]:
    """Return the content blocks of a message, whose content is one block or a list of blocks."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]


def _ids(message: JSONObject, type: str, name: str) -> list[str]:
    """Return the member ``name`` of each content block of this type, where it is a text."""
    values = [block.get(name) for block in _blocks(message) if block.get("type") == type]
    return [id for id in values if isinstance(id, str)]


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
