"""Tasks of 2025-11-25: requests that are answered immediately with a task, whose result is fetched later.

Either peer may run tasks for the other. The requestor sent the request that became a task, and the receiver
runs it. ``task_reports`` checks what receivers report about their tasks. ``task_marks`` checks whether
messages say which task they belong to, and ``task_listings`` whether every task is listed.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import (
    ASKS,
    AUGMENTED,
    TASKS,
    Check,
    EventCheck,
    RuleFamily,
    StateUpdate,
)
from mcpproxy.judge.checks.utilities.task_listings import (
    never_listed,
    remember_listing,
    remember_missing,
    unlisted,
)
from mcpproxy.judge.checks.utilities.task_marks import (
    INPUT_REQUESTS,
    needless_mark,
    remember_progress,
    unmarked_answer,
    unmarked_progress,
    unmarked_request,
)
from mcpproxy.judge.checks.utilities.task_polls import hasty_poll
from mcpproxy.judge.checks.utilities.task_reports import (
    REVISION,
    STATUS,
    has_task_member,
    has_task_revision,
    quoted,
    remember_answer,
    remember_created,
    remember_refusal,
    remember_reports,
    task_created,
    task_reported,
)
from mcpproxy.judge.session.frame import other
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.judge.session.task_table import CAN_BE_TASKS, MAX_REMEMBERED, Tasks, declares_tasks
from mcpproxy.protocol.error_message import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of
from mcpproxy.protocol.meta_keys import RELATED_TASK_KEY
from mcpproxy.protocol.shapes.lookup import violations
from mcpproxy.protocol.task_lifecycle import TaskState

ABOUT_ONE: Final = ("tasks/get", "tasks/result", "tasks/cancel")
"""Requests about one task, which have the task's id in their params."""

UNKNOWN_TASK: Final = pattern(
    r"task.*\b(not found|not exist|doesn't exist|unknown|expired|invalid)"
    r"|(no such|unknown|invalid|expired) task",
    re.IGNORECASE | re.DOTALL,
)
"""Finds an error message that says that a task is unknown."""

# Requests that become tasks


def task_support(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a tool call that asks for a task although its tool forbids that, or the reverse (TASK-002)."""
    message = context.message
    support = _task_support(history, message)
    if support not in ("required", "forbidden") or not has_task_revision(context):
        return ()
    asks_for_task, tool = "task" in (as_object(message.params) or {}), _tool_phrase(message)
    if asks_for_task == (support == "required") or not declares_tasks(
        context.sender, message.method, history
    ):
        return ()
    fault = f"called {tool} as a task" if asks_for_task else f"called {tool}, but not as a task"
    problem = f"{context.sender} {fault}; its taskSupport is {support}"
    return (Violation("TASK-002", "R-191", problem, pointer=context.at + "/params"),)


def answered_call(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report an answer that is a task although none was expected, or the reverse (TASK-002, TASK-003)."""
    request = context.answers
    if request is None or not has_task_revision(context):
        return ()
    asks_for_task = isinstance(request.params, dict) and "task" in request.params
    if not asks_for_task and not has_task_member(context) and _task_support(history, request) != "required":
        return ()
    return _answered_call(context, request, asks_for_task, history)


def _answered_call(
    context: MessageContext[Response], request: SentRequest, asks_for_task: bool, history: History
) -> Iterator[Violation]:
    """Compare the answer with the request, the receiver's capabilities and the tool's taskSupport."""
    message = context.message
    is_task = member(message.result, "task", "taskId") is not None and not _is_plain(message.result)
    is_declared = declares_tasks(request.sender, request.method, history)
    support = _task_support(history, request) if request.method == "tools/call" else "optional"
    related, pointer = (request.seq,), context.at + "/result"
    receiver, tool = context.sender, _tool_phrase(request)
    if is_task and not asks_for_task:
        problem = f"{receiver} answered {request.method} with a task, but the request did not ask for one"
        yield Violation("TASK-003", "R-192", problem, pointer=pointer + "/task", related=related)
    elif is_task and not is_declared:
        problem = (
            f"{receiver} answered {request.method} with a task, although it never declared tasks for that"
        )
        yield Violation("TASK-003", "R-192", problem, pointer=pointer + "/task", related=related)
    elif is_task and support == "forbidden":
        problem = (
            f"{receiver} ran {tool} as a task instead of refusing with -32601; its taskSupport is forbidden"
        )
        yield Violation("TASK-002", "R-191", problem, pointer=pointer, related=related, at_most="warning")
    elif asks_for_task and not is_task and is_declared and support in ("optional", "required"):
        problem = f"{receiver} was asked for a task and answered {request.method} with a plain result"
        yield Violation("TASK-003", "R-192", problem, pointer=pointer, related=related)
    elif not asks_for_task and not is_task and is_declared and support == "required":
        fault = f"served {tool} without a task instead of refusing with -32601"
        problem = f"{receiver} {fault}; its taskSupport is required"
        yield Violation("TASK-002", "R-191", problem, pointer=pointer, related=related)


def _is_plain(result: JSON) -> bool:
    """Whether a result is the result of a call, sampling or elicitation itself and not a task."""
    return isinstance(result, dict) and not result.keys().isdisjoint(("content", "action", "role"))


def _task_support(history: History, request: Request | SentRequest) -> str | None:
    """Return the taskSupport with which the called tool was listed; ``None`` if it is unknown or differed."""
    support = history.of(Tasks).support
    name = target_of(request.method, request.params) if support else None
    return None if name is None else support.get(name)


def _tool_phrase(request: Request | SentRequest) -> str:
    """Return the called tool, for the text of a finding."""
    return f"tool {shortened(str(target_of(request.method, request.params)))}"


# Polling, results and cancellation


def early_poll(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a requestor that polls a task sooner than its pollInterval allows (TASK-014)."""
    task = history.of(Tasks).get(other(context.sender), _task_id(context))
    if task is not None and has_task_revision(context):
        yield from hasty_poll(context, task, "pollInterval")


def result_of_task(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a task result that lacks the task's id, that does not fit the request that became the task, or
    that is an error although the task was reported as completed (TASK-009).
    """
    request, message = context.answers, context.message
    id = member(request.params, "taskId") if request else None
    if (
        request is None
        or not isinstance(id, str)
        or not isinstance(message.result, dict)
        or not has_task_revision(context)
    ):
        return
    receiver, related, pointer = context.sender, (request.seq,), context.at + "/result"
    if (marked_id := member(message.result, "_meta", RELATED_TASK_KEY, "taskId")) != id:
        fault = "without naming it in _meta" if marked_id is None else "with the id of another in _meta"
        problem = f"{receiver} gave the result of task {quoted(id)} {fault}"
        yield Violation("TASK-009", "R-198", problem, pointer=pointer + "/_meta", related=related)
    task = history.of(Tasks).get(receiver, id)
    if task is None or task.made_by is None:
        return
    method = task.made_by.method
    if "task" in message.result and not _is_plain(message.result):
        problem = f"{receiver} gave another task for the result of task {quoted(id)}"
        yield Violation("TASK-009", "R-198", problem, pointer=pointer + "/task", related=related)
        return
    for mismatch in violations(message.result, (method, "result"), REVISION):
        fault = f"{mismatch.pointer[1:]} {mismatch.clause}"
        problem = f"{receiver} gave a result of task {quoted(id)} that is not a result of {method}: {fault}"
        yield Violation("TASK-009", "R-198", problem, pointer=context.at + mismatch.pointer, related=related)
        return
    if method == "tools/call" and message.result.get("isError") is True and task.state is TaskState.COMPLETED:
        problem = f"{receiver} called task {quoted(id)} completed, but its result is an error"
        yield Violation(
            "TASK-009", "R-198", problem, pointer=pointer + "/isError", related=(task.seq,), at_most="warning"
        )


def cancelled(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a receiver that accepts tasks/cancel for a finished task, or without effect (TASK-011)."""
    request, message = context.answers, context.message
    task = history.of(Tasks).get(context.sender, member(request.params, "taskId")) if request else None
    if request is None or not isinstance(message, Response) or not has_task_revision(context):
        return
    status = member(message.result, "status")
    if task is not None and task.state.final and task.seq < request.seq:
        earlier_state = "over" if task.state is TaskState.SETTLED else task.state.value
        fault = f"accepted the cancellation of task {quoted(task.id)}"
        problem = f"{context.sender} {fault}, which was already {earlier_state}"
        yield Violation(
            "TASK-011", "R-200", problem, pointer=context.at + "/result", related=(task.seq, request.seq)
        )
    elif isinstance(status, str) and status != "cancelled":
        problem = f"{context.sender} accepted a cancellation and reported the task as {shortened(status)}"
        yield Violation(
            "TASK-011", "R-200", problem, pointer=context.at + "/result/status", related=(request.seq,)
        )


def refusal_code(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report an error about a task or a cursor whose code should be -32602 (TASK-011, TASK-012).

    -32601 is not reported, because it is about the method.
    """
    request, message = context.answers, context.message
    error = as_object(message.error)
    code, text = member(error, "code"), member(error, "message")
    if (
        request is None
        or code in (INVALID_PARAMS, METHOD_NOT_FOUND)
        or not isinstance(code, int)
        or not has_task_revision(context)
    ):
        return
    pointer, related = context.at + "/error/code", (request.seq,)
    text = text if isinstance(text, str) else ""
    task = history.of(Tasks).get(context.sender, member(request.params, "taskId"))
    if request.method == "tasks/list":
        if member(request.params, "cursor") is not None and "cursor" in text.lower():
            problem = f"{context.sender} refused a cursor with {code} instead of -32602"
            yield Violation("TASK-012", "R-201", problem, pointer=pointer, related=related)
    elif (
        request.method == "tasks/cancel" and task is not None and task.state.final and task.seq < request.seq
    ):
        if code != INTERNAL_ERROR:  # An internal error may have another cause.
            problem = f"{context.sender} refused to cancel a finished task with {code} instead of -32602"
            yield Violation("TASK-011", "R-200", problem, pointer=pointer, related=(task.seq, request.seq))
    elif UNKNOWN_TASK.search(text[:1_000]) and (task is None or request.method != "tasks/result"):
        # A known task may have ended with this error, which tasks/result then repeats.
        problem = f"{context.sender} refused an unknown task with {code} instead of -32602"
        yield Violation("TASK-012", "R-201", problem, pointer=pointer, related=related)


# The state


def remember_tools(context: MessageContext, history: History) -> None:
    """Record the taskSupport of each tool; ``None`` if the tool was listed with different values.

    A tool without taskSupport counts as ``forbidden``.
    """
    message = context.message
    tools = (
        member(message.result, "tools")
        if isinstance(message, Response) and has_task_revision(context)
        else None
    )
    support = history.of(Tasks).support
    for tool in tools if isinstance(tools, list) else []:
        name, task_support = member(tool, "name"), member(tool, "execution", "taskSupport")
        listed_support = "forbidden" if task_support is None else task_support
        if isinstance(name, str) and isinstance(listed_support, str) and len(support) < MAX_REMEMBERED:
            agrees = support.get(name, listed_support) == listed_support
            support[name] = listed_support if agrees else None
            if listed_support == "required":
                history.facts |= TASKS


def forget_tools(context: MessageContext, history: History) -> None:
    """Forget the taskSupport of all tools, because their list has changed."""
    history.of(Tasks).support.clear()


def remember_poll(context: MessageContext, history: History) -> None:
    """Record the latest poll of a task, and whether a poll that came too early was reported."""
    task = history.of(Tasks).get(other(context.sender), _task_id(context))
    if task is not None:
        task.hurry_reported = task.hurry_reported or any(True for _ in early_poll(context, history))
        task.poll = context.asked


def _task_id(context: MessageContext) -> JSON:
    """Return the task id in the params of a request."""
    message = context.message
    return member(message.params, "taskId") if isinstance(message, Request) else None


REPORTING: Final = ("tasks/get", "tasks/cancel", "tasks/list")
"""Requests whose results contain task objects."""

NEEDING_NO_MARK: Final = (*ABOUT_ONE, "tasks/list", STATUS)
"""Messages that have the task's id in a member other than ``_meta``, or are about all tasks."""

WITHIN: Final = (REVISION,)
TASK_MEMBER: Final = ("task",)

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("TASK-002",),
            task_support,
            (Request,),
            ("tools/call",),
            within=WITHIN,
            given=AUGMENTED | TASKS,
        ),
        Check(
            ("TASK-002", "TASK-003"),
            answered_call,
            (Response,),
            CAN_BE_TASKS,
            within=WITHIN,
            given=AUGMENTED | TASKS,
        ),
        Check(
            ("TASK-004", "TASK-005", "TASK-007"),
            task_created,
            (Response,),
            CAN_BE_TASKS,
            within=WITHIN,
            members=TASK_MEMBER,
        ),
        Check(("TASK-006", "TASK-007", "TASK-008", "TASK-011"), task_reported, (Notification,), (STATUS,)),
        Check(
            ("TASK-006", "TASK-007", "TASK-008", "TASK-011"),
            task_reported,
            (Response,),
            REPORTING,
        ),
        Check(("TASK-009",), result_of_task, (Response,), ("tasks/result",)),
        Check(("TASK-010",), needless_mark, ASKS, NEEDING_NO_MARK),
        Check(("TASK-010",), needless_mark, (Response,), REPORTING),
        Check(("TASK-010",), unmarked_request, (Request,), INPUT_REQUESTS),
        Check(("TASK-010",), unmarked_answer, (Response,), INPUT_REQUESTS),
        Check(
            ("TASK-010",),
            unmarked_progress,
            (Notification,),
            ("notifications/progress",),
            within=WITHIN,
            given=TASKS,
        ),
        Check(("TASK-011",), cancelled, (Response,), ("tasks/cancel",)),
        Check(("TASK-011", "TASK-012"), refusal_code, (ErrorResponse,), (*ABOUT_ONE, "tasks/list")),
        Check(("TASK-013",), unlisted, (Response,), ("tasks/get",)),
        Check(("TASK-014",), early_poll, (Request,), ("tasks/get",)),
    ),
    events=(EventCheck(("TASK-013",), never_listed),),
    updates=(
        StateUpdate(remember_tools, (Response,), ("tools/list",)),
        StateUpdate(forget_tools, (Notification,), ("notifications/tools/list_changed",)),
        StateUpdate(remember_missing, (Response,), ("tasks/get",)),
        StateUpdate(remember_reports, (Notification,), (STATUS,)),
        StateUpdate(remember_created, (Response,), CAN_BE_TASKS, within=WITHIN, members=TASK_MEMBER),
        StateUpdate(remember_reports, (Response,), REPORTING),
        StateUpdate(remember_answer, (Response,), ("tasks/result",)),
        StateUpdate(remember_refusal, (ErrorResponse,), ABOUT_ONE),
        StateUpdate(remember_poll, (Request,), ("tasks/get",)),
        StateUpdate(remember_listing, (Response,), ("tasks/list",)),
        StateUpdate(
            remember_progress, (Notification,), ("notifications/progress",), within=WITHIN, given=TASKS
        ),
    ),
)
