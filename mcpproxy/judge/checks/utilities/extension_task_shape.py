"""The shape of a task of the tasks extension: its members, and its status. ``tasks_extension`` has the rows.

Source: https://github.com/modelcontextprotocol/modelcontextprotocol/blob/main/seps/2663-tasks-extension.md
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.utilities.task_reports import quoted
from mcpproxy.judge.session.extension_tasks import ExtensionTasks
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.judge.session.task_table import is_later
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Notification, Response
from mcpproxy.protocol.message_parts import as_object, member, number_of
from mcpproxy.protocol.revisions import is_stateless
from mcpproxy.protocol.task_lifecycle import TaskState, parse_time, state_of_status
from mcpproxy.protocol.wording import kind, shown

Test = Callable[[JSON], bool]
"""Returns whether a member has the right type."""


def _is_time(value: JSON) -> bool:
    """Whether ``value`` is an ISO 8601 time."""
    return parse_time(value) is not None


def _is_error(value: JSON) -> bool:
    """Whether ``value`` is a JSON-RPC error object."""
    code = member(value, "code")
    is_integer = isinstance(code, int) and not isinstance(code, bool)
    return is_integer and isinstance(member(value, "message"), str)


MEMBERS: Final[Mapping[str, tuple[str, Test]]] = {
    "taskId": ("a string", lambda value: isinstance(value, str)),
    "status": ("one of the five statuses", lambda value: state_of_status(value) is not None),
    "createdAt": ("an ISO 8601 time", _is_time),
    "lastUpdatedAt": ("an ISO 8601 time", _is_time),
    "ttlMs": ("a number or null", lambda value: value is None or number_of(value) is not None),
}
"""By name, each member that every task must have: a description of its type, and the test of a value."""

MEMBERS_BY_STATUS: Final[Mapping[TaskState, tuple[str, str, Test]]] = {
    TaskState.INPUT_REQUIRED: ("inputRequests", "an object", lambda value: isinstance(value, dict)),
    TaskState.COMPLETED: ("result", "an object", lambda value: isinstance(value, dict)),
    TaskState.FAILED: ("error", "a JSON-RPC error", _is_error),
}
"""By status, the member that a task must have, except in the answer to tools/call: name, type and test."""


def task_shape(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a member of a task that is missing or has the wrong type, and a final status that changes
    (TASKX-002).
    """
    if context.answers is not None and not context.stateless:
        return ()
    task, pointer = task_of(context)
    return _misshapen(context, history, task, pointer) if task is not None else ()


def task_of(context: MessageContext) -> tuple[JSONObject | None, str]:
    """Return the task in a message of the server, and its JSON Pointer; ``None`` if there is no task."""
    message, request = context.message, context.answers
    if isinstance(message, Notification):
        from_server = context.sender == SERVER and is_stateless(context.candidates)
        return (as_object(message.params) if from_server else None), context.at + "/params"
    if not context.stateless or request is None or not isinstance(message, Response):
        return None, ""
    result = as_object(message.result)
    if request.method == "tools/call" and (result is None or result.get("resultType") != "task"):
        return None, ""
    return result, context.at + "/result"


def _misshapen(
    context: MessageContext, history: History, task: JSONObject, pointer: str
) -> Iterator[Violation]:
    """Compare a task with ``MEMBERS`` and ``MEMBERS_BY_STATUS``, and its status with the earlier one."""
    required = [(name, expected, test) for name, (expected, test) in MEMBERS.items()]
    state = state_of_status(task.get("status"))
    if state in MEMBERS_BY_STATUS and (context.answers is None or context.answers.method == "tasks/get"):
        required.append(MEMBERS_BY_STATUS[state])
    for name, expected, test in required:
        if name not in task:
            problem = f"server sent a task without {name}"
            problem += f", which its status {state.value} requires" if state and name not in MEMBERS else ""
        elif not test(task[name]):
            described = kind(task[name]) if isinstance(task[name], dict | list) else shown(task[name])
            problem = f"server sent a task with {described} for {name}, which must be {expected}"
        else:
            continue
        yield Violation("TASKX-002", "R-268", problem, pointer=f"{pointer}/{name}")
    earlier = history.across_requests(ExtensionTasks).get(history.caller, task.get("taskId"))
    if earlier is None or state is None or not earlier.state.final or state is earlier.state:
        return
    if is_later(context.answers, parse_time(task.get("lastUpdatedAt")), earlier.seq, earlier.updated):
        problem = f"server reported task {quoted(earlier.id)} as {state.value}; it was {earlier.state.value}"
        yield Violation("TASKX-002", "R-268", problem, pointer=f"{pointer}/status", related=(earlier.seq,))
