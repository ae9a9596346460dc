"""The tasks of a session of revision 2025-11-25, as the messages of both peers show them.

Client and server may both run tasks, and each chooses the ids of its own tasks. A report is a message with
the state of a task. Reports of one task may overtake each other on the way. So one report is certainly newer
than another only if it was requested after the other one came, or if its timestamp is later.
"""

from datetime import datetime
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import Sender, other
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.task_lifecycle import TaskState

CAN_BE_TASKS: Final = ("tools/call", "sampling/createMessage", "elicitation/create")
"""Requests that can become tasks."""

MAX_REMEMBERED: Final = 4_096
"""The number of tasks, of tools and of listed ids of a session that are remembered."""


@slotted(eq=False)
class Task:
    """One task, and the state that its runner (the peer that runs it) reported.

    ``made_by`` is the request that became the task; ``None`` if it was not recorded. The latest ``state`` was
    reported in frame ``seq``, with the timestamp ``updated``. ``created`` is the first creation time that was
    reported. ``expires_ns`` is the time from which on the runner may delete the task; ``None`` if it is never
    or unknown. ``poll`` is the latest tasks/get; ``None`` if the next may come at once. ``poll_ms`` is the
    time, in milliseconds, that the other peer must wait before the next poll. ``first_got_seq`` is the frame
    of the first answer to tasks/get. ``deleted`` is set if the task may have been deleted: the runner has
    answered a request about it with an error, and has not reported it since.
    """

    id: str
    made_by: SentRequest | None = None
    state: TaskState = TaskState.UNSEEN
    seq: int = 0
    updated: datetime | None = None
    created: datetime | None = None
    expires_ns: int | None = None
    poll: SentRequest | None = None
    poll_ms: float | None = None
    first_got_seq: int = 0
    hurry_reported: bool = False  # a poll that came too early was reported
    unmarked_reported: bool = False  # progress that did not name this task in its _meta was reported
    deleted: bool = False


def declares_tasks(requestor: Sender, method: str, history: History) -> bool:
    """Whether the receiver declared that it runs requests of this method as tasks."""
    capabilities = history.capabilities(other(requestor))
    return capabilities is not None and declares(capabilities, f"tasks.requests.{method.replace('/', '.')}")


def is_later(
    request: SentRequest | None, timestamp: datetime | None, seq: int, updated: datetime | None
) -> bool:
    """Whether a report was certainly made after the report in frame ``seq`` with the timestamp ``updated``.

    ``request`` is the request that the report answers (``None`` for a notification), and ``timestamp`` is the
    time that the report names.
    """
    if request is not None and request.seq > seq:
        return True
    return timestamp is not None and updated is not None and timestamp > updated


@slotted(eq=False)
class TaskListing:
    """One listing of all tasks with tasks/list, which may take several pages.

    ``start_seq`` is the frame of the first request. ``end_seq`` is the frame of the last page, and ``end_ns``
    its time. ``next_cursor`` is the cursor of the next page; ``None`` if there is none.
    """

    start_seq: int
    ids: set[str] = field(default_factory=set[str])
    next_cursor: str | None = None
    end_seq: int = 0
    end_ns: int = 0


@slotted()
class Tasks:
    """The tasks of a session, by their runner (the peer that runs them) and their id.

    ``support`` is the taskSupport of each tool, ``None`` if the tool was listed with different values.
    ``listing`` is the unfinished listing of each runner's tasks, ``listed`` the latest finished one.
    ``tokens`` has each task by its runner and the progress token of the request that became it. The type of
    the token is in the key, because in Python ``True`` equals ``1``.
    """

    by_id: dict[tuple[Sender, str], Task] = field(default_factory=dict[tuple[Sender, str], Task])
    support: dict[str, str | None] = field(default_factory=dict[str, str | None])
    listing: dict[Sender, TaskListing] = field(default_factory=dict[Sender, TaskListing])
    listed: dict[Sender, TaskListing] = field(default_factory=dict[Sender, TaskListing])
    tokens: dict[tuple[Sender, type, object], Task] = field(
        default_factory=dict[tuple[Sender, type, object], Task]
    )

    def get(self, runner: Sender, id: object) -> Task | None:
        """Return the task of ``runner`` with this id; ``None`` if it is unknown."""
        return self.by_id.get((runner, id)) if isinstance(id, str) else None

    def add(self, runner: Sender, task: Task) -> None:
        """Remember ``task``, and forget the oldest one if there are too many."""
        self.by_id.pop((runner, task.id), None)
        self.by_id[runner, task.id] = task
        if len(self.by_id) > MAX_REMEMBERED:
            del self.by_id[next(iter(self.by_id))]

    def unlisted(self, runner: Sender) -> list[Task]:
        """Return the tasks that the latest complete listing lacks, though tasks/get returned them earlier."""
        listing = self.listed.get(runner)
        if listing is None:
            return []
        unlisted = [task for (by, id), task in self.by_id.items() if by == runner and id not in listing.ids]
        return [task for task in unlisted if 0 < task.first_got_seq < listing.start_seq]

    def open(self, runner: Sender) -> list[Task]:
        """Return the tasks of ``runner`` whose latest state is not final."""
        return [task for (by, _), task in self.by_id.items() if by == runner and not task.state.final]
