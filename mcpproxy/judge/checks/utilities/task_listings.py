"""Lists of tasks: whether a peer lists every task that it runs. ``tasks.FAMILY`` has the rows.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#task-listing
"""

from collections.abc import Iterator

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.utilities.task_reports import has_task_revision, quoted
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.judge.session.task_table import MAX_REMEMBERED, TaskListing, Tasks
from mcpproxy.protocol.jsonrpc import Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.task_lifecycle import TaskState


def unlisted(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a task that tasks/get returned both before and after a full tasks/list without it (TASK-013)."""
    request, tasks = context.answers, history.of(Tasks)
    listing = tasks.listed.get(context.sender)
    id = member(request.params, "taskId") if request else None
    task = tasks.get(context.sender, id)
    if (
        request is None
        or listing is None
        or task is None
        or task.id in listing.ids
        or not has_task_revision(context)
    ):
        return
    if 0 < task.first_got_seq < listing.start_seq and listing.end_seq < request.seq:
        problem = f"{context.sender} has task {quoted(task.id)}, but did not list it with the others"
        related = (task.first_got_seq, listing.end_seq)
        yield Violation("TASK-013", "R-202", problem, pointer=context.at + "/result", related=related)


def never_listed(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a task that tasks/get returned before a full tasks/list without it (TASK-013).

    If a later tasks/get returns the task again, ``unlisted`` reports the task instead.
    """
    if not isinstance(event, Close) or history.has_gap:
        return
    for receiver in (CLIENT, SERVER):
        for task in history.of(Tasks).unlisted(receiver):
            listing = history.of(Tasks).listed[receiver]
            expired = task.expires_ns is not None and task.expires_ns <= listing.end_ns
            if expired or task.deleted or task.state is TaskState.CANCELLED:
                continue  # The task may have been deleted before the list.
            problem = f"{receiver} found task {quoted(task.id)}, but did not list it with the others later"
            yield Violation(
                "TASK-013",
                "R-202",
                problem,
                pointer="/result/tasks",
                related=(task.first_got_seq,),
                blame=receiver,
                at_most="warning",
                frame=listing.end_seq,
            )


def remember_listing(context: MessageContext, history: History) -> None:
    """Record a page of tasks/list, which is the first page or continues the unfinished listing."""
    request, message, tasks = context.answers, context.message, history.of(Tasks)
    if request is None or not isinstance(message, Response) or not has_task_revision(context):
        return
    receiver, cursor = context.sender, member(request.params, "cursor")
    listing = TaskListing(request.seq) if cursor is None else tasks.listing.pop(receiver, None)
    tasks_on_page, next_cursor = member(message.result, "tasks"), member(message.result, "nextCursor")
    if listing is None or listing.next_cursor != cursor or not isinstance(tasks_on_page, list):
        return
    listing.ids.update(id for task in tasks_on_page if isinstance(id := member(task, "taskId"), str))
    listing.next_cursor = next_cursor if isinstance(next_cursor, str) else None
    if len(listing.ids) > MAX_REMEMBERED:
        return
    if next_cursor is not None:
        tasks.listing[receiver] = listing
    else:
        listing.end_seq, listing.end_ns = context.seq, context.frame.observed_at_ns
        tasks.listed[receiver] = listing


def remember_missing(context: MessageContext, history: History) -> None:
    """Record that ``unlisted`` has reported a task, so that the task is reported only once."""
    for _ in unlisted(context, history):
        id = member(context.answers.params, "taskId") if context.answers else None
        history.of(Tasks).listed[context.sender].ids.add(str(id))
