"""Reports of a peer about its tasks: in the answer that creates a task, in later answers, in notifications.

A report is a task object in a message. Answers and notifications contain the same task object, so the same
checks and the same table of states apply to all of them. ``tasks.FAMILY`` has the rows.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#behavior-requirements
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import TASKS
from mcpproxy.judge.session.history import History
from mcpproxy.judge.session.task_table import CAN_BE_TASKS, MAX_REMEMBERED, Task, Tasks, is_later
from mcpproxy.protocol.jsonrpc import JSONObject, Notification, Response
from mcpproxy.protocol.message_parts import as_object, member, number_of
from mcpproxy.protocol.task_lifecycle import TRANSITIONS, TaskState, parse_time, state_of_status
from mcpproxy.protocol.wording import shown

REVISION: Final = "2025-11-25"
"""The only revision that has these tasks."""

STATUS: Final = "notifications/tasks/status"

DRIFT_S: Final = 1.0
"""Two reports of one creation time may differ by less than this, in seconds: their precision may differ."""


@slotted(frozen=True)
class TaskReport:
    """One task object in a message, its JSON Pointer, and what earlier reports said about the task.

    ``value`` is the task object, and ``earlier`` is ``None`` if the task was unknown. ``state`` is ``None``
    if the status is invalid. ``creates`` is set in the answer that creates the task.
    """

    value: JSONObject
    id: str
    state: TaskState | None
    pointer: str
    earlier: Task | None
    creates: bool = False


def has_task_revision(context: MessageContext) -> bool:
    """Whether a message is certainly of the revision that has these tasks."""
    return context.candidates == (REVISION,)


def reports(context: MessageContext, history: History) -> list[TaskReport]:
    """Return the reports in a message that is certainly of ``REVISION``; for any other message, none.

    Task objects whose id is not a string are left out, and those of tasks/list beyond ``MAX_REMEMBERED``.
    """
    message, request = context.message, context.answers
    values: list[tuple[str, object]] = []
    if isinstance(message, Notification):
        values = [("/params", message.params)]
    elif isinstance(message, Response) and request is not None and isinstance(message.result, dict):
        if request.method in CAN_BE_TASKS:
            values = [("/result/task", message.result.get("task"))]
        elif request.method == "tasks/list":
            task_list = message.result.get("tasks")
            items = task_list if isinstance(task_list, list) else []
            values = [(f"/result/tasks/{index}", item) for index, item in enumerate(items[:MAX_REMEMBERED])]
        else:
            values = [("/result", message.result)]
    if not values or not has_task_revision(context):
        return []
    tasks, creates = history.of(Tasks), request is not None and request.method in CAN_BE_TASKS
    task_reports: list[TaskReport] = []
    for pointer, value in values:
        task = as_object(value)
        id = task.get("taskId") if task else None
        if task is not None and isinstance(id, str):
            earlier = tasks.get(context.sender, id)
            state = state_of_status(task.get("status"))
            task_reports.append(TaskReport(task, id, state, context.at + pointer, earlier, creates))
    return task_reports


def _is_newer(context: MessageContext, report: TaskReport, task: Task) -> bool:
    """Whether a report was certainly made after the earlier report that ``task.state`` comes from."""
    updated = parse_time(report.value.get("lastUpdatedAt"))
    return is_later(context.answers, updated, task.seq, task.updated)


def status_step(context: MessageContext, report: TaskReport) -> Iterator[Violation]:
    """Report a status that must not follow the earlier one."""
    task = report.earlier
    if task is None or report.state is None or not _is_newer(context, report, task):
        return
    if task.state.final and context.answers is not None and context.answers.method == "tasks/cancel":
        return  # ``cancelled`` in ``tasks.py`` reports this cancellation.
    breaks = TRANSITIONS[task.state][report.state].breaks
    if breaks is not None:
        earlier_state = (
            "over, because it had a result" if task.state is TaskState.SETTLED else task.state.value
        )
        report_text = f"reported task {quoted(report.id)} as {report.state.value}"
        problem = f"{context.sender} {report_text}; it was {earlier_state}"
        yield Violation(*breaks, problem, pointer=report.pointer + "/status", related=(task.seq,))


def times(context: MessageContext, report: TaskReport) -> Iterator[Violation]:
    """Report invalid timestamps, and a creation time that changes."""
    for name in ("createdAt", "lastUpdatedAt"):
        text = report.value.get(name)
        if isinstance(text, str) and parse_time(text) is None:
            problem = (
                f"{context.sender} reported {name} of a task as {shown(text)}, which is not an ISO 8601 time"
            )
            yield Violation("TASK-007", "R-196", problem, pointer=f"{report.pointer}/{name}")
    created = parse_time(report.value.get("createdAt"))
    earlier_created = report.earlier.created if report.earlier and not report.creates else None
    if (
        created is not None
        and earlier_created is not None
        and abs((created - earlier_created).total_seconds()) >= DRIFT_S
    ):
        problem = f"{context.sender} changed the createdAt of task {quoted(report.id)}"
        yield Violation("TASK-007", "R-196", problem, pointer=report.pointer + "/createdAt")


def reused_id(context: MessageContext, report: TaskReport) -> Iterator[Violation]:
    """Report a task id that a second task gets while the first task may still exist."""
    task = report.earlier
    if task is None or task.made_by in (None, context.answers) or task.deleted:
        return
    if task.expires_ns is not None and context.frame.observed_at_ns >= task.expires_ns:
        return
    if task.state is not TaskState.CANCELLED:  # A cancelled task may be deleted at once.
        problem = f"{context.sender} gave out task id {quoted(report.id)} a second time"
        related = (task.made_by.seq,) if task.made_by else ()
        yield Violation("TASK-005", "R-194", problem, pointer=report.pointer + "/taskId", related=related)


def first_status(context: MessageContext, report: TaskReport) -> Iterator[Violation]:
    """Report a new task that does not begin as working (TASK-004).

    The answer shows the status at the time when it was written. A task that was updated after it was created
    may have begun as working, and times that are equal may hide an update within the same millisecond.
    """
    state, value = report.state, report.value
    is_updated = value.get("lastUpdatedAt") != value.get("createdAt")
    if state is not None and state is not TaskState.WORKING and not is_updated:
        problem = f"{context.sender} announced new task {quoted(report.id)} as {state.value}, not working"
        pointer = report.pointer + "/status"
        yield Violation("TASK-004", "R-193", problem, pointer=pointer, at_most="info")


def task_created(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report faults in the answer that creates a task (TASK-004, TASK-005, TASK-007)."""
    return _task_created(context, history) if has_task_revision(context) and has_task_member(context) else ()


def _task_created(context: MessageContext, history: History) -> Iterator[Violation]:
    for report in reports(context, history):
        yield from first_status(context, report)
        yield from reused_id(context, report)
        yield from times(context, report)


def task_reported(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report faults in later reports about a task (TASK-006, TASK-007, TASK-008, TASK-011)."""
    for report in reports(context, history):
        yield from status_step(context, report)
        yield from times(context, report)


def has_task_member(context: MessageContext) -> bool:
    """Whether a result has the member ``task``. Most results have none, and this test is quick."""
    message = context.message
    return isinstance(message, Response) and isinstance(message.result, dict) and "task" in message.result


def quoted(id: str) -> str:
    """Return the id of a task in quotes, for the text of a finding."""
    return f'"{shortened(id)}"'


# The state


def remember_created(context: MessageContext, history: History) -> None:
    """Record the task that an answer creates."""
    if has_task_revision(context) and has_task_member(context):
        remember_reports(context, history)


def remember_reports(context: MessageContext, history: History) -> None:
    """Record the reports about tasks in a message."""
    tasks = history.of(Tasks)
    for report in reports(context, history):
        history.facts |= TASKS
        task = report.earlier
        if task is None or (report.creates and task.made_by is not None):
            task = Task(report.id)
            tasks.add(context.sender, task)
        if report.creates:
            _remember_creation(context, tasks, task, report)
        if report.state is not None:
            # A report that may be newer or older counts as newer if its step is allowed.
            is_newer = _is_newer(context, report, task)
            step = TRANSITIONS[task.state][report.state]
            if is_newer or (step.breaks is None and not report.creates) or task.state is TaskState.UNSEEN:
                task.state, task.seq = step.to, context.seq
                task.updated = parse_time(report.value.get("lastUpdatedAt"))
        if task.created is None:
            task.created = parse_time(report.value.get("createdAt"))
        task.deleted = False
        if (poll_ms := number_of(report.value.get("pollInterval"))) is not None:
            task.poll_ms = poll_ms
        if context.answers is not None and context.answers.method == "tasks/get":
            task.first_got_seq = task.first_got_seq or context.seq
        else:
            task.poll = None  # The requestor did not poll for this report, so it may poll at once.


def _remember_creation(context: MessageContext, tasks: Tasks, task: Task, report: TaskReport) -> None:
    """Record the request that became the task, the end of its time to live, and its progress token."""
    request = task.made_by = context.answers
    ttl_ms = number_of(report.value.get("ttl"))
    if ttl_ms is not None and ttl_ms < 1e15:
        task.expires_ns = context.frame.observed_at_ns + int(ttl_ms * 1_000_000)
    token = member(request.params, "_meta", "progressToken") if request else None
    if isinstance(token, int | str) and len(tasks.tokens) < MAX_REMEMBERED:
        tasks.tokens[context.sender, type(token), token] = task


def remember_answer(context: MessageContext, history: History) -> None:
    """Record that a task has ended: the receiver has answered tasks/result."""
    request = context.answers
    task = history.of(Tasks).get(context.sender, member(request.params, "taskId")) if request else None
    if task is not None and has_task_revision(context):
        step = TRANSITIONS[task.state][TaskState.SETTLED]
        task.state, task.seq, task.poll = step.to, context.seq, None


def remember_refusal(context: MessageContext, history: History) -> None:
    """Record after an error that the task may have been deleted, so that its id is free again."""
    request = context.answers
    task = history.of(Tasks).get(context.sender, member(request.params, "taskId")) if request else None
    if task is not None:
        task.deleted = True
        task.poll = None
