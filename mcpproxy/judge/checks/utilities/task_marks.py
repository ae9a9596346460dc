"""Marks: the member of ``_meta`` that says which task a message belongs to.

A message needs no mark if it has the task's id in another member, or is about all tasks. ``tasks.FAMILY``
says for which messages each check runs.

Source:
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.utilities.task_reports import has_task_member, has_task_revision, quoted
from mcpproxy.judge.session.frame import other
from mcpproxy.judge.session.history import History
from mcpproxy.judge.session.task_table import MAX_REMEMBERED, Tasks
from mcpproxy.protocol.jsonrpc import Notification, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import RELATED_TASK_KEY
from mcpproxy.protocol.task_lifecycle import TaskState

INPUT_REQUESTS: Final = ("sampling/createMessage", "elicitation/create")
"""Requests with which the peer that runs a task asks for the input that the task needs."""


def needless_mark(
    context: MessageContext[Request | Notification | Response], history: History
) -> Iterator[Violation]:
    """Report a mark on a message that needs none (TASK-010)."""
    message, part = context.message, "params"
    if isinstance(message, Request | Notification):
        contents, described = message.params, message.method
    else:
        assert context.answers is not None
        contents, described, part = message.result, f"the answer to {context.answers.method}", "result"
    if member(contents, "_meta", RELATED_TASK_KEY) is not None and has_task_revision(context):
        problem = f"{context.sender} marked {described} as belonging to a task, which it already names"
        yield Violation("TASK-010", "R-199", problem, pointer=f"{context.at}/{part}/_meta", at_most="warning")


def unmarked_request(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a request that probably belongs to a task, but has no mark (TASK-010).

    It does if its sender runs only one task, that task waits for input, and the sender has
    no request to answer except tasks/result.
    """
    message, tasks = context.message, history.of(Tasks)
    if not tasks.by_id or history.has_gap or not has_task_revision(context):
        return
    open_tasks = tasks.open(context.sender)
    # If the table is full, another open task may have been forgotten.
    if (
        len(open_tasks) != 1
        or open_tasks[0].state is not TaskState.INPUT_REQUIRED
        or len(tasks.by_id) == MAX_REMEMBERED
    ):
        return
    other_requests = [
        request
        for request in history.side(other(context.sender)).pending.values()
        if request.method != "tasks/result"
    ]
    if not other_requests and member(message.params, "_meta", RELATED_TASK_KEY, "taskId") is None:
        problem = (
            f"{context.sender} sent {message.method}, probably for task {quoted(open_tasks[0].id)}, "
            "without naming it in _meta"
        )
        yield Violation(
            "TASK-010",
            "R-199",
            problem,
            pointer=context.at + "/params",
            related=(open_tasks[0].seq,),
            at_most="warning",
        )


def unmarked_answer(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report the answer to a marked request if it does not repeat the mark (TASK-010)."""
    request, message = context.answers, context.message
    task_id = member(request.params, "_meta", RELATED_TASK_KEY, "taskId") if request else None
    if (
        request is None
        or task_id is None
        or not isinstance(message, Response)
        or not has_task_revision(context)
    ):
        return ()
    if has_task_member(context) or member(message.result, "_meta", RELATED_TASK_KEY, "taskId") == task_id:
        return ()
    answer = f"answered {request.method} for task {quoted(str(task_id))}"
    problem = f"{context.sender} {answer} without naming the task in _meta"
    return (Violation("TASK-010", "R-199", problem, pointer=context.at + "/result", related=(request.seq,)),)


def unmarked_progress(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report progress of a request that became a task, if it has no mark (TASK-010).

    This is judged on stdio only, and reported once for each task.
    """
    tokens = history.of(Tasks).tokens
    if not tokens or history.over_http or not has_task_revision(context):
        return ()
    message = context.message
    token = member(message.params, "progressToken")
    task = tokens.get((context.sender, type(token), token)) if isinstance(token, int | str) else None
    if (
        task is None
        or task.unmarked_reported
        or member(message.params, "_meta", RELATED_TASK_KEY, "taskId") is not None
    ):
        return ()
    problem = f"{context.sender} reported progress of task {quoted(task.id)} without naming the task in _meta"
    related = (task.made_by.seq,) if task.made_by else ()
    return (
        Violation(
            "TASK-010", "R-199", problem, pointer=context.at + "/params", related=related, at_most="warning"
        ),
    )


def remember_progress(context: MessageContext[Notification], history: History) -> None:
    """Record that ``unmarked_progress`` has reported a task, so that the task is reported only once."""
    for _ in unmarked_progress(context, history):
        token = member(context.message.params, "progressToken")
        history.of(Tasks).tokens[context.sender, type(token), token].unmarked_reported = True
