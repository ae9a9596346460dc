"""Marks in ``_meta`` that say which task a message belongs to.

A message needs no mark if it names the task in another member.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.engine.context import MessageContext, Violation, member
from mcpproxy.checks.utilities.task_reports import carries_task, in_force, named
from mcpproxy.protocol.jsonrpc import Notification, Request, Response
from mcpproxy.protocol.task_lifecycle import TaskState
from mcpproxy.session.frame import other
from mcpproxy.session.history import History
from mcpproxy.session.task_table import MAX_REMEMBERED, Tasks

RELATED: Final = "io.modelcontextprotocol/related-task"

QUESTIONS: Final = ("sampling/createMessage", "elicitation/create")
"""Requests that the receiver of a task may send because the task needs input."""


def needless_mark(
    context: MessageContext[Request | Notification | Response], history: History
) -> Iterator[Violation]:
    """Report a mark on a message that names its task in another member (TASK-010)."""
    message, where = context.message, "params"
    if isinstance(message, Request | Notification):
        value, what = message.params, message.method
    else:
        assert context.answers is not None
        value, what, where = message.result, f"the answer to {context.answers.method}", "result"
    if member(value, "_meta", RELATED) is not None and in_force(context):
        problem = f"{context.sender} marked {what} as belonging to a task, which it already names"
        yield Violation(
            "TASK-010", "R-199", problem, pointer=f"{context.at}/{where}/_meta", at_most="warning"
        )


def unmarked_request(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a request without a mark that can only be for the one waiting task (TASK-010)."""
    message, tasks = context.message, history.of(Tasks)
    if not tasks.by_id or history.has_gap or not in_force(context):
        return
    waiting = tasks.open(context.sender)
    if (
        len(waiting) != 1
        or waiting[0].state is not TaskState.INPUT_REQUIRED
        or len(tasks.by_id) == MAX_REMEMBERED
    ):
        return
    busy = [a for a in history.side(other(context.sender)).pending.values() if a.method != "tasks/result"]
    if not busy and member(message.params, "_meta", RELATED, "taskId") is None:
        problem = (
            f"{context.sender} sent {message.method}, probably for task {named(waiting[0].id)}, "
            "without naming it in _meta"
        )
        yield Violation(
            "TASK-010",
            "R-199",
            problem,
            pointer=context.at + "/params",
            related=(waiting[0].seq,),
            at_most="warning",
        )


def unmarked_answer(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report the answer to a marked request if it does not repeat the mark (TASK-010)."""
    asked, message = context.answers, context.message
    id = member(asked.params, "_meta", RELATED, "taskId") if asked else None
    if asked is None or id is None or not isinstance(message, Response) or not in_force(context):
        return ()
    if carries_task(context) or member(message.result, "_meta", RELATED, "taskId") == id:
        return ()
    problem = (
        f"{context.sender} answered {asked.method} for task {named(str(id))} without naming the task in _meta"
    )
    return (Violation("TASK-010", "R-199", problem, pointer=context.at + "/result", related=(asked.seq,)),)


def unmarked_progress(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report progress without a mark for a request that became a task (TASK-010)."""
    tokens = history.of(Tasks).tokens
    if not tokens or history.over_http or not in_force(context):
        return ()
    message = context.message
    token = member(message.params, "progressToken")
    task = tokens.get((context.sender, type(token), token)) if isinstance(token, int | str) else None
    if task is None or task.unmarked or member(message.params, "_meta", RELATED, "taskId") is not None:
        return ()
    problem = f"{context.sender} reported progress of task {named(task.id)} without naming the task in _meta"
    made = (task.made_by.seq,) if task.made_by else ()
    return (
        Violation(
            "TASK-010", "R-199", problem, pointer=context.at + "/params", related=made, at_most="warning"
        ),
    )


def remember_progress(context: MessageContext[Notification], history: History) -> None:
    """Record that progress without a mark was reported, because it is reported once per task."""
    for _ in unmarked_progress(context, history):
        token = member(context.message.params, "progressToken")
        history.of(Tasks).tokens[context.sender, type(token), token].unmarked = True
