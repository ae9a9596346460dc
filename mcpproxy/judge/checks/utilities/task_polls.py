"""Polls of a task: how soon its requestor, whose request became the task, may ask for it again.

Both kinds of tasks have this rule: those of 2025-11-25, and those of the tasks extension.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#getting-tasks
"""

from collections.abc import Iterator
from typing import Final, Protocol

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.utilities.task_reports import quoted
from mcpproxy.judge.session.history import SentRequest

NS_PER_MS_NEEDED: Final = 900_000
"""For each millisecond of the poll interval, the requestor must wait this many nanoseconds.

That is nine tenths of the interval: requestors round it, and clocks differ.
"""

EARLY_NS: Final = 50_000_000
"""A poll may come early by this much in addition, because the network delays messages unequally."""


class PolledTask(Protocol):
    """A task, the latest poll of it, and how many milliseconds the requestor must wait before the next.

    ``hurry_reported`` is set once a poll that came too early was reported.
    """

    id: str
    poll: SentRequest | None
    poll_ms: float | None
    hurry_reported: bool


def hasty_poll(context: MessageContext, task: PolledTask, interval: str) -> Iterator[Violation]:
    """Report a poll that comes sooner than the task's member ``interval`` allows, once (TASK-014)."""
    poll, wait_ms = task.poll, task.poll_ms
    if task.hurry_reported or poll is None or wait_ms is None:
        return
    if not poll.answered_seq or poll.refused_by_http:
        return
    waited_ns = context.frame.observed_at_ns - poll.sent_ns
    if waited_ns < wait_ms * NS_PER_MS_NEEDED - EARLY_NS:
        waited = f"{waited_ns // 1_000_000} ms; its {interval} is {wait_ms:g}"
        problem = f"{context.sender} polled task {quoted(task.id)} again after {waited}"
        yield Violation("TASK-014", "R-203", problem, pointer=context.at + "/method", related=(poll.seq,))
