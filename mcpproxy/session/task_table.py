"""The tasks of a session, as far as the two peers have spoken of them.

Client and server may both run tasks, and each gives out ids of its own. What a peer reports of one task
may overtake itself on the way: a report is later than another only if it was asked for after that had
come, or if it says so by its time.
"""

from datetime import datetime
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.task_lifecycle import TaskState
from mcpproxy.session.frame import Sender
from mcpproxy.session.history import SentRequest

MAX_REMEMBERED: Final = 4_096
"""So many tasks, tools and listed ids of a session are remembered."""


@slotted(eq=False)
class Task:
    """One task and what was heard of it.

    ``made_by`` is the request that was answered with it, ``None`` if that was not seen. ``state`` was
    heard in frame ``seq``, and with it the time ``updated`` that the task said for itself; ``created`` is the
    time that it named first. ``expires_ns`` is when it may be deleted, ``None`` for never or not known.
    ``poll`` is the latest tasks/get since when nothing else was heard, ``poll_ms`` how long to wait after it.
    ``got_seq`` is the latest answer to tasks/get. ``deleted`` is set when it was not found any more.
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
    got_seq: int = 0
    hurried: bool = False  # it was asked for too often, and that was told
    unmarked: bool = False  # its progress was not marked as its, and that was told
    deleted: bool = False


def is_later(asked: SentRequest | None, at: datetime | None, seq: int, updated: datetime | None) -> bool:
    """Whether a report certainly was made after the one that came in frame ``seq`` and named ``updated``.

    It was if it answers ``asked``, which came after that frame, or if it says so by its own time.
    """
    if asked is not None and asked.seq > seq:
        return True
    return at is not None and updated is not None and at > updated


@slotted(eq=False)
class TaskListing:
    """One walk through tasks/list: from its first request to the page without a next, in ``end_seq``."""

    start_seq: int
    ids: set[str] = field(default_factory=set[str])
    next: str | None = None
    end_seq: int = 0


@slotted()
class Tasks:
    """All of them, by the peer that runs them and their id.

    ``support`` is what each tool was last listed with, ``None`` if its listings disagree. ``listing`` is the
    walk under way, by the peer that lists, ``listed`` the last one that was finished. ``tokens`` are the
    progress tokens of requests that became tasks, with their JSON type, by the peer that reports progress.
    """

    by_id: dict[tuple[Sender, str], Task] = field(default_factory=dict[tuple[Sender, str], Task])
    support: dict[str, str | None] = field(default_factory=dict[str, str | None])
    listing: dict[Sender, TaskListing] = field(default_factory=dict[Sender, TaskListing])
    listed: dict[Sender, TaskListing] = field(default_factory=dict[Sender, TaskListing])
    tokens: dict[tuple[Sender, type, object], Task] = field(
        default_factory=dict[tuple[Sender, type, object], Task]
    )

    def get(self, runner: Sender, id: object) -> Task | None:
        return self.by_id.get((runner, id)) if isinstance(id, str) else None

    def add(self, runner: Sender, task: Task) -> None:
        self.by_id.pop((runner, task.id), None)
        self.by_id[runner, task.id] = task
        if len(self.by_id) > MAX_REMEMBERED:
            del self.by_id[next(iter(self.by_id))]

    def open(self, runner: Sender) -> list[Task]:
        """Those of ``runner`` that are not known to be over."""
        return [task for (by, _), task in self.by_id.items() if by == runner and not task.state.final]
