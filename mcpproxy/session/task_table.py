"""The tasks of a session, as far as the messages of both peers show them.

Client and server may both run tasks, and each chooses its own task ids. Reports of one task may overtake each
other: a report is later than another only if it was requested after the other had come, or if its own
timestamp is later.
"""

from datetime import datetime
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.task_lifecycle import TaskState
from mcpproxy.session.frame import Sender
from mcpproxy.session.history import SentRequest

MAX_REMEMBERED: Final = 4_096
"""How many tasks, tools and listed ids of a session are remembered."""


@slotted(eq=False)
class Task:
    """One task, and its latest reports.

    ``made_by`` is the request that was answered with the task, ``None`` if that was not seen. ``state`` was
    reported in frame ``seq``, with the timestamp ``updated``; ``created`` is the creation time that was
    reported first. ``expires_ns`` is when it may be deleted, ``None`` for never or not known. ``poll`` is the
    latest tasks/get with no other report since, ``poll_ms`` how long to wait after it. ``first_got_seq`` is
    the first answer to tasks/get. ``deleted`` is set when the task was not found any more.
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
    hurried: bool = False  # polling it too often was reported already
    unmarked: bool = False  # its unmarked progress was reported already
    deleted: bool = False


def is_later(asked: SentRequest | None, at: datetime | None, seq: int, updated: datetime | None) -> bool:
    """Whether a report was certainly made after the one in frame ``seq`` with the timestamp ``updated``.

    It was if it answers ``asked``, which was sent after that frame, or if its own timestamp ``at`` is later.
    """
    if asked is not None and asked.seq > seq:
        return True
    return at is not None and updated is not None and at > updated


@slotted(eq=False)
class TaskListing:
    """One traversal of tasks/list, from its first request to the last page, in frame ``end_seq``."""

    start_seq: int
    ids: set[str] = field(default_factory=set[str])
    next: str | None = None
    end_seq: int = 0
    end_ns: int = 0


@slotted()
class Tasks:
    """The tasks of a session, by the peer that runs them and their id.

    ``support`` is the task support that each tool was last listed with, ``None`` if its listings disagree.
    ``listing`` is the unfinished traversal of tasks/list, by the peer that lists, ``listed`` the last
    finished one. ``tokens`` are the progress tokens of requests that became tasks, with their JSON type, by
    the peer that reports progress.
    """

    by_id: dict[tuple[Sender, str], Task] = field(default_factory=dict[tuple[Sender, str], Task])
    support: dict[str, str | None] = field(default_factory=dict[str, str | None])
    listing: dict[Sender, TaskListing] = field(default_factory=dict[Sender, TaskListing])
    listed: dict[Sender, TaskListing] = field(default_factory=dict[Sender, TaskListing])
    tokens: dict[tuple[Sender, type, object], Task] = field(
        default_factory=dict[tuple[Sender, type, object], Task]
    )

    def get(self, runner: Sender, id: object) -> Task | None:
        """Return the task of ``runner`` with this id, ``None`` if it is unknown."""
        return self.by_id.get((runner, id)) if isinstance(id, str) else None

    def add(self, runner: Sender, task: Task) -> None:
        """Remember ``task``, and forget the oldest one if there are too many."""
        self.by_id.pop((runner, task.id), None)
        self.by_id[runner, task.id] = task
        if len(self.by_id) > MAX_REMEMBERED:
            del self.by_id[next(iter(self.by_id))]

    def unlisted(self, runner: Sender) -> list[Task]:
        """Return the tasks that tasks/get had found before all were listed, and that were left out."""
        listing = self.listed.get(runner)
        if listing is None:
            return []
        known = [task for (by, id), task in self.by_id.items() if by == runner and id not in listing.ids]
        return [task for task in known if 0 < task.first_got_seq < listing.start_seq]

    def open(self, runner: Sender) -> list[Task]:
        """Return the tasks of ``runner`` that are not known to be over."""
        return [task for (by, _), task in self.by_id.items() if by == runner and not task.state.final]
