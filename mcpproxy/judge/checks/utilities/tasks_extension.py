"""The tasks extension of the stateless revisions: a tool call that is answered with a task.

The server decides which calls become tasks. The client polls a task with tasks/get, whose result also
contains the server's input requests (*questions*). It answers the questions with tasks/update.

Source: https://github.com/modelcontextprotocol/modelcontextprotocol/blob/main/seps/2663-tasks-extension.md
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.stateless.subscriptions import subscription_of
from mcpproxy.judge.checks.utilities.extension_task_shape import MEMBERS, task_of, task_shape
from mcpproxy.judge.checks.utilities.task_polls import hasty_poll
from mcpproxy.judge.checks.utilities.task_reports import quoted
from mcpproxy.judge.session.extension_tasks import MAX_QUESTIONS, ExtensionTask, ExtensionTasks, Question
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.judge.session.task_table import is_later
from mcpproxy.protocol.error_message import INVALID_PARAMS
from mcpproxy.protocol.jsonrpc import ErrorResponse, JSONObject, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, number_of
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, SUBSCRIPTION_ID_KEY
from mcpproxy.protocol.methods import ACKNOWLEDGED, kind_of, method_names
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.task_lifecycle import TaskState, parse_time, state_of_status
from mcpproxy.protocol.wording import shown

EXTENSION: Final = "io.modelcontextprotocol/tasks"

STATUS: Final = "notifications/tasks"
"""The notification about a task, which is sent on a subscription."""
TASK_REQUESTS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
"""Requests of the client about one task."""

REQUESTS: Final = tuple(name for name in method_names(*STATELESS) if kind_of(name) == "request")
"""All requests of the stateless revisions."""

FRESH_MS: Final = 60_000
"""The server must know a new task for at least this long, or for its time to live if that is shorter."""


def _declares_extension(params: object) -> bool:
    """Whether a request declares the extension."""
    return member(as_object(params), "_meta", CAPABILITIES_KEY, "extensions", EXTENSION) is not None


# Who may receive a task


def task_handed_out(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an answer that is a task although its request must not become one (TASKX-001)."""
    request, message = context.answers, context.message
    if not context.stateless or request is None or not isinstance(message, Response):
        return ()
    if not isinstance(message.result, dict) or message.result.get("resultType") != "task":
        return ()
    if request.method != "tools/call":
        problem = f"server answered {request.method} with a task; only tools/call may become one"
    elif not _declares_extension(request.params):
        problem = f"server answered tools/call with a task, but the request did not declare {EXTENSION}"
    else:
        return ()
    return (
        Violation(
            "TASKX-001", "R-267", problem, pointer=context.at + "/result/resultType", related=(request.seq,)
        ),
    )


def task_served(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a result for a request of ``TASK_REQUESTS`` that did not declare the extension (TASKX-001)."""
    request = context.answers
    if not context.stateless or request is None or _declares_extension(request.params):
        return ()
    if member(request.params, "_meta", CAPABILITIES_KEY, "tasks") is not None:
        # The client uses the experimental tasks of 2025-11-25, which a server may continue to support.
        return ()
    problem = f"server served {request.method}, but the request did not declare {EXTENSION}"
    return (Violation("TASKX-001", "R-267", problem, pointer=context.at + "/result", related=(request.seq,)),)


# Polling


def lost_at_once(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report a server that does not know a task which it has just created (TASKX-003)."""
    request, message = context.answers, context.message
    if not context.stateless or request is None or member(as_object(message.error), "code") != INVALID_PARAMS:
        return
    task = history.across_requests(ExtensionTasks).get(history.caller, member(request.params, "taskId"))
    if task is None or task.fetched or task.dropped or not 0 < task.created_seq < request.seq:
        return
    min_lifetime_ms = FRESH_MS if task.ttl_ms is None else min(task.ttl_ms, FRESH_MS)
    if context.frame.observed_at_ns - task.created_ns < min_lifetime_ms * 1_000_000:
        problem = f"server does not know task {quoted(task.id)}, which it has just made"
        yield Violation(
            "TASKX-003",
            "R-269",
            problem,
            pointer=context.at + "/error",
            related=(task.created_seq, request.seq),
        )


def plain_answer(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a result of tasks/get, tasks/update or tasks/cancel that looks like a new task (TASKX-004).

    The result of tasks/get contains a task too, but its resultType is ``complete``.
    """
    request, message = context.answers, context.message
    result = as_object(message.result)
    if not context.stateless or request is None or result is None:
        return
    if result.get("resultType") == "task":
        problem = f'server answered {request.method} with resultType "task" instead of "complete"'
        # The examples of the specification proposal have resultType "task" in answers to tasks/get.
        at_most = "warning" if request.method == "tasks/get" else None
        yield Violation(
            "TASKX-004",
            "R-270",
            problem,
            pointer=context.at + "/result/resultType",
            related=(request.seq,),
            at_most=at_most,
        )
    if request.method != "tasks/get" and (task_members := [name for name in MEMBERS if name in result]):
        problem = (
            f"server answered {request.method} with a task ({task_members[0]}) instead of an empty result"
        )
        yield Violation(
            "TASKX-004",
            "R-270",
            problem,
            pointer=f"{context.at}/result/{task_members[0]}",
            related=(request.seq,),
        )


def early_poll(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a client that polls a task sooner than its pollIntervalMs allows (TASK-014)."""
    id = member(context.message.params, "taskId")
    task = history.across_requests(ExtensionTasks).get(history.caller, id)
    if task is not None and context.stateless:
        yield from hasty_poll(context, task, "pollIntervalMs")


# Input requests of a task


def reused_key(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a key of inputRequests that is used again: for another request or after the answer
    (TASKX-005).
    """
    task, pointer = task_of(context)
    earlier_task = (
        history.across_requests(ExtensionTasks).get(history.caller, member(task, "taskId")) if task else None
    )
    questions = as_object(member(task, "inputRequests"))
    if earlier_task is None or questions is None:
        return
    for key, value in questions.items():
        question = earlier_task.questions.get(key)
        if question is None:
            continue
        requests_pointer = f"{pointer}/inputRequests"
        if question.value != value:
            problem = (
                f"server used the key {shown(key)} of task {quoted(earlier_task.id)} for another request"
            )
            yield Violation("TASKX-005", "R-271", problem, pointer=requests_pointer, related=(question.seq,))
        elif context.answers is not None and 0 < question.gone_seq < context.answers.seq:
            # An equal request may come from a report that the server made before the answer. So it counts
            # only after a report without it (``gone_seq``), and even then it is only a warning.
            place = f"under the key {shown(key)} of task {quoted(earlier_task.id)}"
            problem = f"server asks {place} again after the client answered"
            yield Violation(
                "TASKX-005",
                "R-271",
                problem,
                pointer=requests_pointer,
                related=(question.gone_seq,),
                at_most="warning",
            )


# Notifications


def off_subscription(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a notification about a task that no subscription asked for (TASKX-006)."""
    message = context.message
    if context.sender != SERVER or history.has_gap:
        return
    subscription, id = subscription_of(context, history), member(message.params, "taskId")
    if subscription is None:
        if member(message.params, "_meta", SUBSCRIPTION_ID_KEY) is None or history.over_http:
            problem = "server sent notifications/tasks outside of any subscription"
            yield Violation("TASKX-006", "R-272", problem, pointer=context.at + "/method", at_most="warning")
        return
    task_ids = subscription.wanted.get("taskIds") if subscription.wanted is not None else None
    if (
        subscription.wanted is None
        or (isinstance(task_ids, list) and id in task_ids)
        or not isinstance(id, str)
    ):
        return
    problem = f"server sent notifications/tasks of task {quoted(id)}, which the subscription did not ask for"
    yield Violation(
        "TASKX-006",
        "R-272",
        problem,
        pointer=context.at + "/params/taskId",
        related=(subscription.asked.seq,),
        at_most="warning",
        candidates=subscription.asked.candidates,
    )


def acknowledged_undeclared(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a server that accepts a subscription to tasks from a client that did not declare the extension
    (TASKX-006).
    """
    subscription = subscription_of(context, history)
    if (
        subscription is None
        or subscription.wanted is None
        or subscription.begun
        or _declares_extension(subscription.asked.params)
    ):
        return
    if subscription.wanted.get("taskIds"):
        problem = (
            f"server accepted a subscription to tasks without {EXTENSION}, instead of refusing with -32021"
        )
        related, candidates = (subscription.asked.seq,), subscription.asked.candidates
        yield Violation(
            "TASKX-006",
            "R-272",
            problem,
            pointer=context.at + "/method",
            related=related,
            candidates=candidates,
        )


def experimental_capability(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a server that declares the tasks capability of 2025-11-25 (TASKX-007)."""
    message = context.message
    capabilities = as_object(member(message.result, "capabilities"))
    if capabilities is None or "tasks" not in capabilities or not context.stateless:
        return
    problem = f"server declares the capability tasks of 2025-11-25; now it is the extension {EXTENSION}"
    # A server that does not declare the extension may use the name for an experiment of its own.
    at_most = None if member(capabilities, "extensions", EXTENSION) is not None else "warning"
    yield Violation(
        "TASKX-007", "R-273", problem, pointer=context.at + "/result/capabilities/tasks", at_most=at_most
    )


# The state


def remember_task(context: MessageContext, history: History) -> None:
    """Record the task object in a message of the server."""
    if context.answers is not None and not context.stateless:
        return
    task_object, _ = task_of(context)
    id = member(task_object, "taskId") if task_object is not None else None
    if task_object is None or not isinstance(id, str):
        return
    task, request = history.across_requests(ExtensionTasks).get_or_add(history.caller, id), context.answers
    state, updated = state_of_status(task_object.get("status")), parse_time(task_object.get("lastUpdatedAt"))
    is_newer = task.state is TaskState.UNSEEN or is_later(request, updated, task.seq, task.updated)
    if request is not None and request.method == "tools/call":
        task.created_seq, task.created_ns = context.seq, context.frame.observed_at_ns
    elif request is not None:
        task.fetched = True
    else:
        task.poll = None  # After a notification about the task, the client may poll at once.
    # A final state is only replaced by a report that is certainly newer.
    if state is not None and (is_newer or not task.state.final):
        task.state, task.seq, task.updated = state, context.seq, updated
    task.ttl_ms, task.poll_ms = (
        number_of(task_object.get("ttlMs")),
        number_of(task_object.get("pollIntervalMs")),
    )
    _remember_questions(task, as_object(task_object.get("inputRequests")) or {}, request, context.seq)


def _remember_questions(
    task: ExtensionTask, questions: JSONObject, request: SentRequest | None, seq: int
) -> None:
    """Record the input requests in a task object, and the first frame that lacks an answered request."""
    for key, value in questions.items():
        if key not in task.questions and len(task.questions) < MAX_QUESTIONS:
            task.questions[key] = Question(value, seq)
    for key, question in task.questions.items():
        if key in questions:
            question.gone_seq = 0
        elif question.answered and request is not None and request.seq > question.seq:
            question.gone_seq = question.gone_seq or seq


def remember_task_request(context: MessageContext[Request], history: History) -> None:
    """Record that the client polls a task, answers its input requests, or cancels it."""
    message = context.message
    task = history.across_requests(ExtensionTasks).get(history.caller, member(message.params, "taskId"))
    if task is None or not context.stateless:
        return
    match message.method:
        case "tasks/get":
            task.hurry_reported = task.hurry_reported or any(True for _ in early_poll(context, history))
            task.poll = context.asked
        case "tasks/update":
            for key in as_object(member(message.params, "inputResponses")) or {}:
                if key in task.questions:
                    task.questions[key].answered = True
            task.poll = None
        case _:
            task.dropped, task.poll = True, None


RESULT_TYPE: Final = ("resultType",)
TASK_TEXT: Final = (b'"task"',)
"""Only a result with this member and this text can create a task. The checks of new tasks skip all others."""

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("TASKX-001",),
            task_handed_out,
            (Response,),
            REQUESTS,
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=TASK_TEXT,
        ),
        Check(("TASKX-001",), task_served, (Response,), TASK_REQUESTS),
        Check(
            ("TASKX-002",),
            task_shape,
            (Response,),
            ("tools/call",),
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=TASK_TEXT,
        ),
        Check(("TASKX-002",), task_shape, (Response,), ("tasks/get",)),
        Check(("TASKX-002",), task_shape, (Notification,), (STATUS,)),
        Check(("TASKX-003",), lost_at_once, (ErrorResponse,), ("tasks/get",)),
        Check(("TASKX-004",), plain_answer, (Response,), TASK_REQUESTS),
        Check(("TASKX-005",), reused_key, (Response,), ("tasks/get",)),
        Check(("TASKX-005",), reused_key, (Notification,), (STATUS,)),
        Check(("TASKX-006",), off_subscription, (Notification,), (STATUS,)),
        Check(("TASKX-006",), acknowledged_undeclared, (Notification,), (ACKNOWLEDGED,)),
        Check(("TASKX-007",), experimental_capability, (Response,), ("server/discover",)),
        Check(("TASK-014",), early_poll, (Request,), ("tasks/get",)),
    ),
    updates=(
        StateUpdate(
            remember_task,
            (Response,),
            ("tools/call",),
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=TASK_TEXT,
        ),
        StateUpdate(remember_task, (Response,), ("tasks/get",)),
        StateUpdate(remember_task, (Notification,), (STATUS,)),
        StateUpdate(remember_task_request, (Request,), TASK_REQUESTS),
    ),
)
