"""Progress: the tokens that requests define, and the notifications that use them.

A token belongs to the latest request that has it. Client and server have separate tokens. A token is valid
until its request is answered. If the request became a task, the token is valid until the end of the task. The
order of messages is certain only within one pipe or one stream. So over HTTP, a notification that comes soon
after the answer on another stream is not reported.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened, spelled
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import CLIENT, Sender, other
from mcpproxy.judge.session.history import History, SentRequest, UsedIds, keep_latest
from mcpproxy.judge.session.task_table import CAN_BE_TASKS
from mcpproxy.protocol.jsonrpc import (
    Notification,
    Request,
    RequestId,
    Response,
    request_id,
    with_other_type,
)
from mcpproxy.protocol.message_parts import member, number_of
from mcpproxy.protocol.meta_keys import RELATED_TASK_KEY
from mcpproxy.protocol.revisions import is_stateless
from mcpproxy.protocol.wording import kind, shown

RACE_NS: Final = 1_000_000_000
"""Over HTTP, a notification this soon after an answer on another stream may have been sent before it."""

MAX_TOKENS: Final = 1024
"""The number of tokens whose progress is tracked. Older tokens are only remembered as used."""

POLLS: Final = ("tasks/get", "tasks/cancel", "tasks/result")
"""Requests whose answer shows whether a task has ended."""

TERMINAL: Final = ("completed", "failed", "cancelled")
"""The statuses of a task that has ended."""


UNKNOWN: Final = ("PROG-003", "R-118")
GROWTH: Final = ("PROG-004", "R-119")
COMPLETE: Final = ("PROG-005", "R-120")
TASK: Final = ("PROG-007", "R-122")
"""The rule and the requirement for each kind of fault in a notification."""


@slotted()
class Tracked:
    """A recently used progress token: its request, and the latest progress reported with the token.

    ``exchange`` is the HTTP exchange of the request. ``shared`` is set if another request in flight has the
    same token, so that progress may belong to either. ``is_task`` is set once the request was answered with a
    task. ``task_ended_seq`` is the frame that showed that the task had ended, 0 while the task runs.
    """

    token: RequestId
    request: SentRequest
    exchange: int
    shared: bool
    latest: float | None = None
    latest_seq: int = 0
    latest_exchange: int = 0
    is_task: bool = False
    task_ended_seq: int = 0
    task_ended_ns: int = 0

    @property
    def in_flight(self) -> bool:
        """Whether the request was neither answered nor cancelled nor refused."""
        request = self.request
        return not (request.answered_seq or request.cancelled or request.refused_by_http)


@slotted()
class ProgressTokens:
    """Every token that each side has used in a request, and the state of the recent ones.

    ``used`` and ``tracked`` are keyed by the sender of the request, ``tracked`` then by token. ``by_task``
    is keyed by the sender of the request and the id of the task that the request became.
    """

    used: dict[Sender, UsedIds] = field(default_factory=lambda: {"client": UsedIds(), "server": UsedIds()})
    tracked: dict[Sender, dict[RequestId, Tracked]] = field(
        default_factory=lambda: {"client": {}, "server": {}}
    )
    by_task: dict[tuple[Sender, str], Tracked] = field(default_factory=dict[tuple[Sender, str], Tracked])

    def forget_finished(self) -> None:
        """Forget the tokens whose request can no longer be answered and did not become a task.

        Late progress with such a token is then not reported.
        """
        for sender, tracked in self.tracked.items():
            self.tracked[sender] = {
                token: entry for token, entry in tracked.items() if entry.in_flight or entry.is_task
            }


# Tokens of requests


def token_of_request(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a token of the wrong type, or one that another request in flight has (PROG-001, PROG-002)."""
    message = context.message
    params = message.params
    if not isinstance(params, dict):
        return ()
    meta = params.get("_meta")
    if not isinstance(meta, dict) or "progressToken" not in meta:
        return ()
    return _check_token(context, history, message.method, request_id(meta["progressToken"]))


def _check_token(
    context: MessageContext, history: History, method: str, token: RequestId | None
) -> Iterator[Violation]:
    """Check the token of a request; ``token`` is ``None`` if it has the wrong type."""
    pointer = context.at + "/params/_meta/progressToken"
    if token is None:
        type_name = kind(member(context.message.value, "params", "_meta", "progressToken"))
        type_name = "a fraction" if type_name == "a number" else type_name
        problem = f"{context.sender} gave {shortened(method)} a progress token that is {type_name}"
        yield Violation("PROG-001", "R-116", f"{problem}, not a string or an integer", pointer=pointer)
        return
    earlier = history.of(ProgressTokens).tracked[context.sender].get(token)
    if earlier is None or not earlier.in_flight or history.has_gap:
        return
    if history.side(other(context.sender)).fully_read:
        earlier_request = f"{shortened(earlier.request.method)} in frame {earlier.request.seq}"
        fault = f"{context.sender} gave two requests in flight one progress token ({spelled(token)})"
        yield Violation(
            "PROG-002",
            "R-117",
            f"{fault}: {earlier_request} and this {shortened(method)}",
            pointer=pointer,
            related=(earlier.request.seq,),
            # Over HTTP the first request may have been answered on a stream that broke.
            at_most="warning" if history.over_http else None,
        )


def remember_token(context: MessageContext[Request], history: History) -> None:
    """Record the token of a request."""
    message = context.message
    params = message.params
    if not isinstance(params, dict):
        return
    meta = params.get("_meta")
    if not isinstance(meta, dict) or "progressToken" not in meta:
        return
    token, tokens = request_id(meta["progressToken"]), history.of(ProgressTokens)
    if token is None:
        return
    tokens.used[context.sender].add(token, context.seq)
    tracked = tokens.tracked[context.sender]
    earlier = tracked.pop(token, None)
    if context.asked is not None:
        shared = earlier is not None and earlier.in_flight
        keep_latest(tracked, token, Tracked(token, context.asked, context.frame.exchange, shared), MAX_TOKENS)


# Progress notifications


def reported_progress(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report progress with an unknown token, after the end of its request or task, or that does not grow
    (PROG-003, PROG-004, PROG-005, PROG-007).
    """
    params = context.contents
    token = request_id(params.get("progressToken")) if isinstance(params, dict) else None
    if token is None:
        return ()
    tracked = history.of(ProgressTokens).tracked[other(context.sender)].get(token)
    if tracked is None or tracked.is_task or not tracked.in_flight:
        return _without_open_request(context, history, token, tracked)
    return () if tracked.shared else _not_above_latest(context, tracked)


def _without_open_request(
    context: MessageContext, history: History, token: RequestId, tracked: Tracked | None
) -> Iterator[Violation]:
    """Check progress with a token that belongs to a task, or to no request in flight.

    Progress of a task must have the token of the request that became the task.
    """
    token_of_task = _token_of_task(context, history.of(ProgressTokens))
    is_open = tracked is not None and tracked.in_flight
    if token_of_task is not None and token_of_task is not tracked and not is_open:
        problem = (
            f"{context.sender} reported the progress of a task under {spelled(token)}; "
            f"the request for it gave {spelled(token_of_task.token)}"
        )
        yield _violation(context, TASK, problem, token_of_task.request.seq)
    elif tracked is None:
        yield from _unknown_token(context, history, token)
    elif not tracked.shared and not tracked.request.refused_by_http:
        yield from _too_late(context, history, tracked) or _not_above_latest(context, tracked)


def _unknown_token(context: MessageContext, history: History, token: RequestId) -> Iterator[Violation]:
    """Report a token that no request had.

    Nothing is reported if the request with the token may not have been seen or could not be read. Two more
    cases are left out: a stateless session over HTTP, where the stream shows which request the progress is
    of, and progress that a client reports in a stateless revision, where servers send no requests.
    """
    requestor = other(context.sender)
    used = history.of(ProgressTokens).used[requestor]
    if (
        used.first_use(token) is not None
        or history.has_gap
        or history.may_lack_messages
        or history.stateless_memories is not None
    ):
        return
    if not history.side(requestor).fully_read or (
        context.sender == CLIENT and is_stateless(context.candidates)
    ):
        return
    problem = f"{context.sender} reported progress under {spelled(token)}, which the {requestor} never gave"
    retyped_token = with_other_type(token)
    if retyped_token is not None and used.first_use(retyped_token) is not None:
        problem = f"{problem}: it gave {spelled(retyped_token)}"
    yield _violation(context, UNKNOWN, problem)


def _too_late(context: MessageContext, history: History, tracked: Tracked) -> list[Violation]:
    """Report progress of a request after its answer, or of a task after its final status."""
    request = tracked.request
    ended_seq, ended_ns = (
        (tracked.task_ended_seq, tracked.task_ended_ns)
        if tracked.is_task
        else (request.answered_seq, request.answered_ns)
    )
    # If two requests have the same id, the second answer is still due.
    if not ended_seq or request.answers_due > 0:
        return []
    if history.over_http:
        if context.frame.exchange == tracked.exchange:
            return []  # HTTP-014 reports messages that follow the answer on the same stream.
        if context.frame.observed_at_ns - ended_ns < RACE_NS:
            return []
    request_name = f"{shortened(request.method)} ({spelled(request.id)})"
    problem = f"{context.sender} reported progress of {request_name} after "
    problem += (
        f"frame {ended_seq} showed its task to be over"
        if tracked.is_task
        else f"answering it in frame {ended_seq}"
    )
    violation = _violation(
        context, TASK if tracked.is_task else COMPLETE, problem, ended_seq, is_uncertain=history.over_http
    )
    return [violation]


def _not_above_latest(context: MessageContext, tracked: Tracked) -> tuple[Violation, ...]:
    """Report progress that is not above the latest progress on the same stream."""
    params, latest = context.contents, tracked.latest
    if latest is None or not isinstance(params, dict):
        return ()
    value = number_of(params.get("progress"))
    if value is None or value > latest or context.frame.exchange != tracked.latest_exchange:
        return ()
    request_name = f"{shortened(tracked.request.method)} ({spelled(tracked.request.id)})"
    problem = f"{context.sender} reported progress {shown(value)} of {request_name} after {shown(latest)}"
    return (_violation(context, GROWTH, problem, tracked.latest_seq, member_name="progress"),)


def _violation(
    context: MessageContext,
    requirement: tuple[str, str],
    problem: str,
    *related: int,
    member_name: str = "progressToken",
    is_uncertain: bool = False,
) -> Violation:
    pointer = f"{context.at}/params/{member_name}"
    return Violation(
        *requirement, problem, pointer=pointer, related=related, at_most="warning" if is_uncertain else None
    )


def _token_of_task(context: MessageContext, tokens: ProgressTokens) -> Tracked | None:
    """Return the token of the task that a notification names; ``None`` if it names no known one."""
    task_id = member(context.message.value, "params", "_meta", RELATED_TASK_KEY, "taskId")
    return tokens.by_task.get((other(context.sender), task_id)) if isinstance(task_id, str) else None


def remember_progress(context: MessageContext, history: History) -> None:
    """Record the latest progress of a request."""
    params = context.contents
    if not isinstance(params, dict):
        return
    token, value = request_id(params.get("progressToken")), number_of(params.get("progress"))
    if token is None or value is None:
        return
    tracked = history.of(ProgressTokens).tracked[other(context.sender)].get(token)
    if tracked is not None:
        tracked.latest, tracked.latest_seq = value, context.seq
        tracked.latest_exchange = context.frame.exchange


def remember_task(context: MessageContext, history: History) -> None:
    """Record that a request with a token became a task."""
    request, message = context.answers, context.message
    if request is None or not isinstance(request.params, dict) or "task" not in request.params:
        return
    if request.stateless or not isinstance(message, Response):
        return
    if not isinstance(member(message.result, "task"), dict):
        return
    token = request_id(member(request.params, "_meta", "progressToken"))
    tracked = None if token is None else history.of(ProgressTokens).tracked[request.sender].get(token)
    if tracked is not None and tracked.request is request:
        tracked.is_task = True
        task_id = member(message.result, "task", "taskId")
        if isinstance(task_id, str):
            keep_latest(history.of(ProgressTokens).by_task, (request.sender, task_id), tracked, MAX_TOKENS)


def remember_status(context: MessageContext, history: History) -> None:
    """Record the end of a task, which a final status or the result of the task shows."""
    request, value = context.answers, context.message.value
    if request is None:
        requestor, params = other(context.sender), member(value, "params")
        task_id, status = member(params, "taskId"), member(params, "status")
    else:
        requestor, task_id = request.sender, member(request.params, "taskId")
        status = "completed" if request.method == "tasks/result" else member(value, "result", "status")
    tracked = (
        history.of(ProgressTokens).by_task.get((requestor, task_id)) if isinstance(task_id, str) else None
    )
    if tracked is not None and status in TERMINAL and not tracked.task_ended_seq:
        tracked.task_ended_seq, tracked.task_ended_ns = context.seq, context.frame.observed_at_ns


META_MEMBER: Final = ("_meta",)
TOKEN_TEXT: Final = (b'"progressToken"',)
"""Only a request with this member and this text can have a token. The checks of tokens skip all others."""

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("PROG-001", "PROG-002"), token_of_request, (Request,), members=META_MEMBER, mentions=TOKEN_TEXT
        ),
        Check(
            ("PROG-003", "PROG-004", "PROG-005", "PROG-007"),
            reported_progress,
            (Notification,),
            ("notifications/progress",),
        ),
    ),
    updates=(
        StateUpdate(remember_token, (Request,), members=META_MEMBER, mentions=TOKEN_TEXT),
        StateUpdate(remember_progress, (Notification,), ("notifications/progress",)),
        StateUpdate(remember_task, (Response,), CAN_BE_TASKS, members=("task",)),
        StateUpdate(remember_status, (Notification,), ("notifications/tasks/status",)),
        StateUpdate(remember_status, (Response,), POLLS),
    ),
)
