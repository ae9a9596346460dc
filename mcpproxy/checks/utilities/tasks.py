"""Tasks of 2025-11-25: requests that are answered immediately with a task, whose result is fetched later.

Either peer may run tasks for the other. The requestor sent the request that became a task, and the receiver
runs it. ``task_reports`` checks what receivers report about their tasks. ``task_marks`` checks whether
messages say which task they belong to.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened
from mcpproxy.checks.engine.rows import ASKS, AUGMENTED, TASKS, Check, EventCheck, RuleFamily, StateUpdate
from mcpproxy.checks.utilities.task_marks import (
    QUESTIONS,
    RELATED,
    needless_mark,
    remember_progress,
    unmarked_answer,
    unmarked_progress,
    unmarked_request,
)
from mcpproxy.checks.utilities.task_reports import (
    MAKERS,
    REVISION,
    STATUS,
    carries_task,
    in_force,
    named,
    remember_answer,
    remember_made,
    remember_refusal,
    remember_reports,
    task_made,
    task_reported,
)
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.shapes.lookup import violations
from mcpproxy.protocol.task_lifecycle import TaskState
from mcpproxy.session.frame import CLIENT, SERVER, Close, Signal, other
from mcpproxy.session.history import History, SentRequest
from mcpproxy.session.task_table import MAX_REMEMBERED, TaskListing, Tasks

ABOUT_ONE: Final = ("tasks/get", "tasks/result", "tasks/cancel")
"""Requests about one task, which they name by its id."""

DECLARED_BY: Final = {
    "tools/call": "tasks.requests.tools.call",
    "sampling/createMessage": "tasks.requests.sampling.createMessage",
    "elicitation/create": "tasks.requests.elicitation.create",
}

LOST: Final = pattern(
    r"task.*\b(not found|not exist|doesn't exist|unknown|expired|invalid)"
    r"|(no such|unknown|invalid|expired) task",
    re.IGNORECASE | re.DOTALL,
)
"""Error messages that say that a task is not known."""

EARLY_NS: Final = 50_000_000
"""A poll may seem early by this much, because of the clocks and the network."""


# Requests that become tasks


def task_support(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a call that is a task, or is not, against the taskSupport of its tool (TASK-002)."""
    message = context.message
    support = _support(history, message.params)
    if support not in ("required", "forbidden") or not in_force(context):
        return ()
    asks, tool = "task" in (as_object(message.params) or {}), _tool(message.params)
    if asks == (support == "required") or not _declared(context.sender, message.method, history):
        return ()
    fault = f"called {tool} as a task" if asks else f"called {tool}, but not as a task"
    problem = f"{context.sender} {fault}; its taskSupport is {support}"
    return (Violation("TASK-002", "R-191", problem, pointer=context.at + "/params"),)


def answered_call(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report an answer that is a task, or is not, although it should be the other (TASK-002, TASK-003)."""
    asked = context.answers
    if asked is None or not in_force(context):
        return ()
    asks = isinstance(asked.params, dict) and "task" in asked.params
    if not asks and not carries_task(context) and _support(history, asked.params) != "required":
        return ()
    return _answered_call(context, asked, asks, history)


def _answered_call(
    context: MessageContext[Response], asked: SentRequest, asks: bool, history: History
) -> Iterator[Violation]:
    message = context.message
    made = member(message.result, "task", "taskId") is not None and not _is_plain(message.result)
    declared = _declared(asked.sender, asked.method, history)
    support = _support(history, asked.params) if asked.method == "tools/call" else "optional"
    related, pointer = (asked.seq,), context.at + "/result"
    who, tool = context.sender, _tool(asked.params)
    if made and not asks:
        problem = f"{who} answered {asked.method} with a task, but the request did not ask for one"
        yield Violation("TASK-003", "R-192", problem, pointer=pointer + "/task", related=related)
    elif made and not declared:
        problem = f"{who} answered {asked.method} with a task, although it never declared tasks for that"
        yield Violation("TASK-003", "R-192", problem, pointer=pointer + "/task", related=related)
    elif made and support == "forbidden":
        problem = f"{who} ran {tool} as a task instead of refusing with -32601; its taskSupport is forbidden"
        yield Violation("TASK-002", "R-191", problem, pointer=pointer, related=related, at_most="warning")
    elif asks and not made and declared and support in ("optional", "required"):
        problem = f"{who} was asked for a task and answered {asked.method} with a plain result"
        yield Violation("TASK-003", "R-192", problem, pointer=pointer, related=related)
    elif not asks and not made and declared and support == "required":
        problem = (
            f"{who} served {tool} without a task instead of refusing with -32601; its taskSupport is required"
        )
        yield Violation("TASK-002", "R-191", problem, pointer=pointer, related=related)


def _is_plain(result: JSON) -> bool:
    """Whether a result is a result of its method itself and not a task."""
    return isinstance(result, dict) and not result.keys().isdisjoint(("content", "action", "role"))


def _declared(requestor: str, method: str, history: History) -> bool:
    """Whether the receiver declared that it runs requests of this method as tasks."""
    capabilities = history.capabilities(SERVER if requestor == CLIENT else CLIENT)
    return capabilities is not None and declares(capabilities, DECLARED_BY[method])


def _support(history: History, params: object) -> str | None:
    """Return the listed task support of a call's tool; ``None`` if that is not known."""
    support = history.of(Tasks).support
    name = member(as_object(params), "name") if support else None
    return support.get(name) if isinstance(name, str) else None


def _tool(params: object) -> str:
    return f"tool {shortened(str(member(as_object(params), 'name')))}"


# Polling, results and cancellation


def hasty_poll(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a requestor that polls more often than pollInterval allows (TASK-014)."""
    task = history.of(Tasks).get(other(context.sender), _task_id(context))
    if task is None or task.hurried or not in_force(context):
        return
    before, wait_ms = task.poll, task.poll_ms
    if before is None or wait_ms is None or not before.answered_seq or before.refused_by_http:
        return
    waited_ns = context.frame.observed_at_ns - before.sent_ns
    if waited_ns < wait_ms * 900_000 - EARLY_NS:
        problem = (
            f"{context.sender} polled task {named(task.id)} again after {waited_ns // 1_000_000} ms;"
            f" its pollInterval is {wait_ms:g}"
        )
        yield Violation("TASK-014", "R-203", problem, pointer=context.at + "/method", related=(before.seq,))


def result_of_task(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a task result without the task's id, or of another kind than its request's (TASK-009)."""
    asked, message = context.answers, context.message
    id = member(asked.params, "taskId") if asked else None
    if (
        asked is None
        or not isinstance(id, str)
        or not isinstance(message.result, dict)
        or not in_force(context)
    ):
        return
    who, related, pointer = context.sender, (asked.seq,), context.at + "/result"
    if (marked := member(message.result, "_meta", RELATED, "taskId")) != id:
        fault = "without naming it in _meta" if marked is None else "with the id of another in _meta"
        problem = f"{who} gave the result of task {named(id)} {fault}"
        yield Violation("TASK-009", "R-198", problem, pointer=pointer + "/_meta", related=related)
    task = history.of(Tasks).get(who, id)
    if task is None or task.made_by is None:
        return
    method = task.made_by.method
    if "task" in message.result and not _is_plain(message.result):
        problem = f"{who} gave another task for the result of task {named(id)}"
        yield Violation("TASK-009", "R-198", problem, pointer=pointer + "/task", related=related)
        return
    for wrong in violations(message.result, (method, "result"), REVISION):
        fault = f"{wrong.pointer[1:]} {wrong.clause}"
        problem = f"{who} gave a result of task {named(id)} that is not a result of {method}: {fault}"
        yield Violation("TASK-009", "R-198", problem, pointer=context.at + wrong.pointer, related=related)
        return
    if method == "tools/call" and message.result.get("isError") is True and task.state is TaskState.COMPLETED:
        problem = f"{who} called task {named(id)} completed, but its result is an error"
        yield Violation(
            "TASK-009", "R-198", problem, pointer=pointer + "/isError", related=(task.seq,), at_most="warning"
        )


def cancelled(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a cancellation of a finished task that was accepted, or one without effect (TASK-011)."""
    asked, message = context.answers, context.message
    task = history.of(Tasks).get(context.sender, member(asked.params, "taskId")) if asked else None
    if asked is None or not isinstance(message, Response) or not in_force(context):
        return
    status = member(message.result, "status")
    if task is not None and task.state.final and task.seq < asked.seq:
        was = "over" if task.state is TaskState.SETTLED else task.state.value
        problem = (
            f"{context.sender} accepted the cancellation of task {named(task.id)}, which was already {was}"
        )
        yield Violation(
            "TASK-011", "R-200", problem, pointer=context.at + "/result", related=(task.seq, asked.seq)
        )
    elif isinstance(status, str) and status != "cancelled":
        problem = f"{context.sender} accepted a cancellation and reported the task as {shortened(status)}"
        yield Violation(
            "TASK-011", "R-200", problem, pointer=context.at + "/result/status", related=(asked.seq,)
        )


def refusal_code(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report a refusal that should have the code -32602 and has another (TASK-011, TASK-012)."""
    asked, message = context.answers, context.message
    error = as_object(message.error)
    code, text = member(error, "code"), member(error, "message")
    if asked is None or code in (-32602, -32601) or not isinstance(code, int) or not in_force(context):
        return
    pointer, related = context.at + "/error/code", (asked.seq,)
    text = text if isinstance(text, str) else ""
    task = history.of(Tasks).get(context.sender, member(asked.params, "taskId"))
    if asked.method == "tasks/list":
        if member(asked.params, "cursor") is not None and "cursor" in text.lower():
            problem = f"{context.sender} refused a cursor with {code} instead of -32602"
            yield Violation("TASK-012", "R-201", problem, pointer=pointer, related=related)
    elif asked.method == "tasks/cancel" and task is not None and task.state.final and task.seq < asked.seq:
        if code != -32603:  # An internal error may have another cause.
            problem = f"{context.sender} refused to cancel a task that is over with {code} instead of -32602"
            yield Violation("TASK-011", "R-200", problem, pointer=pointer, related=(task.seq, asked.seq))
    elif LOST.search(text) and (task is None or asked.method != "tasks/result"):
        problem = f"{context.sender} refused an unknown task with {code} instead of -32602"
        yield Violation("TASK-012", "R-201", problem, pointer=pointer, related=related)


def unlisted(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a task that tasks/get returns but tasks/list does not (TASK-013)."""
    asked, tasks = context.answers, history.of(Tasks)
    listing = tasks.listed.get(context.sender)
    id = member(asked.params, "taskId") if asked else None
    task = tasks.get(context.sender, id)
    if asked is None or listing is None or task is None or task.id in listing.ids or not in_force(context):
        return
    if 0 < task.first_got_seq < listing.start_seq and listing.end_seq < asked.seq:
        problem = f"{context.sender} has task {named(task.id)}, but did not list it with the others"
        related = (task.first_got_seq, listing.end_seq)
        yield Violation("TASK-013", "R-202", problem, pointer=context.at + "/result", related=related)


def never_listed(event: Signal | Close, history: History) -> Iterator[Violation]:
    """TASK-013: a task that tasks/get found before all were listed, and that nobody asked for again"""
    if not isinstance(event, Close) or history.has_gap:
        return
    for runner in (CLIENT, SERVER):
        for task in history.of(Tasks).unlisted(runner):
            listing = history.of(Tasks).listed[runner]
            expired = task.expires_ns is not None and task.expires_ns <= listing.end_ns
            if expired or task.deleted or task.state is TaskState.CANCELLED:
                continue  # It may have been gone.
            problem = f"{runner} found task {named(task.id)}, but did not list it with the others later"
            yield Violation(
                "TASK-013",
                "R-202",
                problem,
                pointer="/result/tasks",
                related=(task.first_got_seq,),
                blame=runner,
                at_most="warning",
                frame=listing.end_seq,
            )


# What is recorded


def remember_tools(context: MessageContext, history: History) -> None:
    """Record the task support of each tool; ``None`` for tools whose listings disagree."""
    message = context.message
    listed = member(message.result, "tools") if isinstance(message, Response) and in_force(context) else None
    support = history.of(Tasks).support
    for tool in listed if isinstance(listed, list) else []:
        name, execution = member(tool, "name"), member(tool, "execution", "taskSupport")
        listed_support = "forbidden" if execution is None else execution
        if isinstance(name, str) and isinstance(listed_support, str) and len(support) < MAX_REMEMBERED:
            agrees = support.get(name, listed_support) == listed_support
            support[name] = listed_support if agrees else None
            if listed_support == "required":
                history.facts |= TASKS


def forget_tools(context: MessageContext, history: History) -> None:
    """Forget the task support of all tools, because their list has changed."""
    history.of(Tasks).support.clear()


def remember_poll(context: MessageContext, history: History) -> None:
    """Record the latest poll of a task, and whether one came too early."""
    task = history.of(Tasks).get(other(context.sender), _task_id(context))
    if task is not None:
        task.hurried = task.hurried or any(True for _ in hasty_poll(context, history))
        task.poll = context.asked


def remember_listing(context: MessageContext, history: History) -> None:
    """Record a page of tasks/list, which continues the current walk or starts another."""
    asked, message, tasks = context.answers, context.message, history.of(Tasks)
    if asked is None or not isinstance(message, Response) or not in_force(context):
        return
    who, cursor = context.sender, member(asked.params, "cursor")
    listing = TaskListing(asked.seq) if cursor is None else tasks.listing.pop(who, None)
    listed, follows = member(message.result, "tasks"), member(message.result, "nextCursor")
    if listing is None or listing.next != cursor or not isinstance(listed, list):
        return
    listing.ids.update(id for task in listed if isinstance(id := member(task, "taskId"), str))
    listing.next = follows if isinstance(follows, str) else None
    if len(listing.ids) > MAX_REMEMBERED:
        return
    if follows is not None:
        tasks.listing[who] = listing
    else:
        listing.end_seq, listing.end_ns = context.seq, context.frame.observed_at_ns
        tasks.listed[who] = listing


def remember_missing(context: MessageContext, history: History) -> None:
    """Record that a missing task was reported, because each is reported once."""
    for _ in unlisted(context, history):
        id = member(context.answers.params, "taskId") if context.answers else None
        history.of(Tasks).listed[context.sender].ids.add(str(id))


def _task_id(context: MessageContext) -> JSON:
    message = context.message
    return member(message.params, "taskId") if isinstance(message, Request) else None


REPORTING: Final = ("tasks/get", "tasks/cancel", "tasks/list")
"""Requests that are answered with tasks in their current state."""

NEEDING_NO_MARK: Final = (*ABOUT_ONE, "tasks/list", STATUS)
"""Messages that need no mark in ``_meta``."""

WITHIN: Final = ("2025-11-25",)
TASK: Final = ("task",)

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
            MAKERS,
            within=WITHIN,
            given=AUGMENTED | TASKS,
        ),
        Check(
            ("TASK-004", "TASK-005", "TASK-007"),
            task_made,
            (Response,),
            MAKERS,
            within=WITHIN,
            members=TASK,
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
        Check(("TASK-010",), unmarked_request, (Request,), QUESTIONS),
        Check(("TASK-010",), unmarked_answer, (Response,), QUESTIONS),
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
        Check(("TASK-014",), hasty_poll, (Request,), ("tasks/get",)),
    ),
    events=(EventCheck(("TASK-013",), never_listed),),
    updates=(
        StateUpdate(remember_tools, (Response,), ("tools/list",)),
        StateUpdate(forget_tools, (Notification,), ("notifications/tools/list_changed",)),
        StateUpdate(remember_missing, (Response,), ("tasks/get",)),
        StateUpdate(remember_reports, (Notification,), (STATUS,)),
        StateUpdate(remember_made, (Response,), MAKERS, within=WITHIN, members=TASK),
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
