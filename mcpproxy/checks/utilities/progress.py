"""Progress: the tokens that requests define, and the notifications that use them.

A token belongs to the request that used it last; client and server have separate tokens. It is valid until
the answer, or for a task-augmented request until the task ends. The order of messages is certain only within
one pipe or one stream, so over HTTP a notification on another stream soon after the answer is not reported.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, member, shortened, spelled
from mcpproxy.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.protocol.jsonrpc import JSON, Notification, Request, RequestId, Response, request_id
from mcpproxy.protocol.revisions import is_stateless
from mcpproxy.protocol.wording import kind, shown
from mcpproxy.session.frame import CLIENT, Sender, other
from mcpproxy.session.history import History, SentRequest, UsedIds, keep_latest

RACE_NS: Final = 1_000_000_000
"""Over HTTP, a notification this soon after an answer on another stream may have been sent before it."""

MAX_TOKENS: Final = 1024
"""The number of tokens whose progress is tracked; of older tokens only their use is remembered."""

AUGMENTED: Final = ("tools/call", "sampling/createMessage", "elicitation/create")
"""Requests that can be task-augmented in 2025-11-25."""

POLLS: Final = ("tasks/get", "tasks/cancel", "tasks/result")
"""Requests whose answer shows whether a task has ended."""

TERMINAL: Final = ("completed", "failed", "cancelled")

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"

UNKNOWN: Final = ("PROG-003", "R-118")
GROWTH: Final = ("PROG-004", "R-119")
COMPLETE: Final = ("PROG-005", "R-120")
TASK: Final = ("PROG-007", "R-122")


@slotted()
class Tracked:
    """A recently used progress token: its request, and the latest progress reported under it.

    ``exchange`` is the HTTP exchange of the request. ``shared`` says that another request in flight uses the
    same token, which makes it ambiguous. ``task`` says that the answer was a task. ``over_seq`` is the frame
    that showed that this task ended, 0 while it runs.
    """

    token: RequestId
    asked: SentRequest
    exchange: int
    shared: bool
    latest: float | None = None
    latest_seq: int = 0
    latest_exchange: int = 0
    task: bool = False
    over_seq: int = 0
    over_ns: int = 0

    @property
    def in_flight(self) -> bool:
        asked = self.asked
        return not (asked.answered_seq or asked.cancelled or asked.refused_by_http)


@slotted()
class ProgressTokens:
    """Every token that each side has used, and the state of the recent ones.

    ``given`` and ``tracked`` are keyed by the sender of the request, ``tracked`` then by token. ``tasks`` is
    keyed by that sender and the task id.
    """

    given: dict[Sender, UsedIds] = field(default_factory=lambda: {"client": UsedIds(), "server": UsedIds()})
    tracked: dict[Sender, dict[RequestId, Tracked]] = field(
        default_factory=lambda: {"client": {}, "server": {}}
    )
    tasks: dict[tuple[Sender, str], Tracked] = field(default_factory=dict[tuple[Sender, str], Tracked])

    def forget_finished(self) -> None:
        """Forget the tokens of answered requests: their late progress is not reported then."""
        for sender, tracked in self.tracked.items():
            self.tracked[sender] = {token: one for token, one in tracked.items() if one.in_flight or one.task}


# Tokens of requests


def given_token(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a token of the wrong type, or one that another request in flight uses (PROG-001, PROG-002)."""
    message = context.message
    params = message.params
    if not isinstance(params, dict):
        return ()
    meta = params.get("_meta")
    if not isinstance(meta, dict) or "progressToken" not in meta:
        return ()
    return _given_token(context, history, message.method, request_id(meta["progressToken"]))


def _given_token(
    context: MessageContext, history: History, method: str, token: RequestId | None
) -> Iterator[Violation]:
    pointer = context.at + "/params/_meta/progressToken"
    if token is None:
        found = kind(member(context.message.value, "params", "_meta", "progressToken"))
        found = "a fraction" if found == "a number" else found
        problem = f"{context.sender} gave {shortened(method)} a progress token that is {found}"
        yield Violation("PROG-001", "R-116", f"{problem}, not a string or an integer", pointer=pointer)
        return
    known = history.of(ProgressTokens).tracked[context.sender].get(token)
    if known is None or not known.in_flight or history.has_gap:
        return
    if history.side(other(context.sender)).fully_read:
        first = f"{shortened(known.asked.method)} in frame {known.asked.seq}"
        problem = (
            f"{context.sender} gave two requests in flight one progress token ({spelled(token)}): {first}"
        )
        yield Violation(
            "PROG-002",
            "R-117",
            f"{problem} and this {shortened(method)}",
            pointer=pointer,
            related=(known.asked.seq,),
            at_most="warning" if history.over_http else None,  # The answer may be lost with its stream.
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
    token, progress = request_id(meta["progressToken"]), history.of(ProgressTokens)
    if token is None:
        return
    progress.given[context.sender].add(token, context.seq)
    tracked = progress.tracked[context.sender]
    before = tracked.pop(token, None)
    if context.asked is not None:
        shared = before is not None and before.in_flight
        keep_latest(tracked, token, Tracked(token, context.asked, context.frame.exchange, shared), MAX_TOKENS)


# Progress notifications


def reported_progress(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report progress under an unknown token, after the end, or that does not grow (PROG-003, PROG-004,
    PROG-005, PROG-007).
    """
    params = context.contents
    token = request_id(params.get("progressToken")) if isinstance(params, dict) else None
    if token is None:
        return ()
    known = history.of(ProgressTokens).tracked[other(context.sender)].get(token)
    if known is None or known.task or not known.in_flight:
        return _without_open_request(context, history, token, known)
    return () if known.shared else _no_advance(context, known)


def _without_open_request(
    context: MessageContext, history: History, token: RequestId, known: Tracked | None
) -> Iterator[Violation]:
    """Check progress under a token that belongs to a task, or to no request in flight."""
    of_task = _of_task(context, history.of(ProgressTokens))
    is_open = known is not None and known.in_flight
    if of_task is not None and of_task is not known and not is_open:  # not the token of that task
        problem = (
            f"{context.sender} reported the progress of a task under {spelled(token)}; "
            f"the request for it gave {spelled(of_task.token)}"
        )
        yield _violation(context, TASK, problem, of_task.asked.seq)
    elif known is None:
        yield from _unknown(context, history, token)
    elif not known.shared and not known.asked.refused_by_http:
        yield from _too_late(context, history, known) or _no_advance(context, known)


def _unknown(context: MessageContext, history: History, token: RequestId) -> Iterator[Violation]:
    """Report a token that was never given.

    Nothing is reported if the request with the token may not have been seen or read, or where only a stream
    identifies the request (a stateless request over HTTP).
    """
    asker = other(context.sender)
    given = history.of(ProgressTokens).given[asker]
    if (
        given.first_use(token) is not None
        or history.has_gap
        or history.may_lack_messages
        or history.stateless_memories is not None
    ):
        return
    if not history.side(asker).fully_read or (context.sender == CLIENT and is_stateless(context.candidates)):
        return
    problem = f"{context.sender} reported progress under {spelled(token)}, which the {asker} never gave"
    twin = twin_of(token)
    if twin is not None and given.first_use(twin) is not None:
        problem = f"{problem}: it gave {spelled(twin)}"
    yield _violation(context, UNKNOWN, problem)


def twin_of(token: RequestId) -> RequestId | None:
    """Return the same token or id as the other JSON type, ``None`` if it has none."""
    if isinstance(token, int):
        return str(token) if token.bit_length() < 64 else None
    return int(token) if token.isascii() and token.isdecimal() and len(token) < 20 else None


def _too_late(context: MessageContext, history: History, known: Tracked) -> list[Violation]:
    """Report progress after the end: of a request after its answer, of a task after its last status."""
    asked = known.asked
    over_seq, over_ns = (
        (known.over_seq, known.over_ns) if known.task else (asked.answered_seq, asked.answered_ns)
    )
    if not over_seq or asked.answers_due > 0:  # id used twice: another answer is to come
        return []
    if history.over_http and (
        context.frame.exchange == known.exchange  # HTTP-014 reports what follows an answer on its own stream.
        or context.frame.observed_at_ns - over_ns < RACE_NS
    ):
        return []
    what = f"{shortened(asked.method)} ({spelled(asked.id)})"
    problem = f"{context.sender} reported progress of {what} after "
    problem += (
        f"frame {over_seq} showed its task to be over" if known.task else f"answering it in frame {over_seq}"
    )
    violation = _violation(
        context, TASK if known.task else COMPLETE, problem, over_seq, uncertain=history.over_http
    )
    return [violation]


def _no_advance(context: MessageContext, known: Tracked) -> tuple[Violation, ...]:
    """Report progress that is not above the latest on the same stream."""
    params, latest = context.contents, known.latest
    if latest is None or not isinstance(params, dict):
        return ()
    value = _number(params.get("progress"))
    if value is None or value > latest or context.frame.exchange != known.latest_exchange:
        return ()
    what = f"{shortened(known.asked.method)} ({spelled(known.asked.id)})"
    problem = f"{context.sender} reported progress {shown(value)} of {what} after {shown(latest)}"
    return (_violation(context, GROWTH, problem, known.latest_seq, part="progress"),)


def _violation(
    context: MessageContext,
    broken: tuple[str, str],
    problem: str,
    *related: int,
    part: str = "progressToken",
    uncertain: bool = False,
) -> Violation:
    pointer = f"{context.at}/params/{part}"
    return Violation(
        *broken, problem, pointer=pointer, related=related, at_most="warning" if uncertain else None
    )


def _of_task(context: MessageContext, progress: ProgressTokens) -> Tracked | None:
    """The request whose task a notification names."""
    task = member(context.message.value, "params", "_meta", RELATED_TASK, "taskId")
    return progress.tasks.get((other(context.sender), task)) if isinstance(task, str) else None


def remember_progress(context: MessageContext, history: History) -> None:
    """Record the latest progress of a request."""
    params = context.contents
    if not isinstance(params, dict):
        return
    token, value = request_id(params.get("progressToken")), _number(params.get("progress"))
    if token is None or value is None:
        return
    known = history.of(ProgressTokens).tracked[other(context.sender)].get(token)
    if known is not None:
        known.latest, known.latest_seq = value, context.seq
        known.latest_exchange = context.frame.exchange


def remember_task(context: MessageContext, history: History) -> None:
    """Record the task that a request became."""
    asked, message = context.answers, context.message
    if asked is None or not isinstance(asked.params, dict) or "task" not in asked.params:
        return
    if asked.stateless or not isinstance(message, Response):
        return
    if not isinstance(member(message.result, "task"), dict):
        return
    token = request_id(member(asked.params, "_meta", "progressToken"))
    known = None if token is None else history.of(ProgressTokens).tracked[asked.sender].get(token)
    if known is not None and known.asked is asked:
        known.task = True
        task = member(message.result, "task", "taskId")
        if isinstance(task, str):
            keep_latest(history.of(ProgressTokens).tasks, (asked.sender, task), known, MAX_TOKENS)


def remember_status(context: MessageContext, history: History) -> None:
    """Record that a task has ended, as its last status or its result shows."""
    asked, value = context.answers, context.message.value
    if asked is None:
        asker, params = other(context.sender), member(value, "params")
        task, status = member(params, "taskId"), member(params, "status")
    else:
        asker, task = asked.sender, member(asked.params, "taskId")
        status = "completed" if asked.method == "tasks/result" else member(value, "result", "status")
    known = history.of(ProgressTokens).tasks.get((asker, task)) if isinstance(task, str) else None
    if known is not None and status in TERMINAL and not known.over_seq:
        known.over_seq, known.over_ns = context.seq, context.frame.observed_at_ns


def _number(value: JSON) -> float | None:
    return value if type(value) is int or type(value) is float else None


META: Final = ("_meta",)
TOKEN: Final = (b'"progressToken"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(("PROG-001", "PROG-002"), given_token, (Request,), members=META, mentions=TOKEN),
        Check(
            ("PROG-003", "PROG-004", "PROG-005", "PROG-007"),
            reported_progress,
            (Notification,),
            ("notifications/progress",),
        ),
    ),
    updates=(
        StateUpdate(remember_token, (Request,), members=META, mentions=TOKEN),
        StateUpdate(remember_progress, (Notification,), ("notifications/progress",)),
        StateUpdate(remember_task, (Response,), AUGMENTED, members=("task",)),
        StateUpdate(remember_status, (Notification,), ("notifications/tasks/status",)),
        StateUpdate(remember_status, (Response,), POLLS),
    ),
)
