"""The tasks that a server of a stateless revision runs (the tasks extension).

Over HTTP every stateless request is a session of its own. So tasks are remembered across sessions, by caller
(``History.caller``: server and credentials) and task id.
"""

from datetime import datetime
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.history import SentRequest, get_or_make
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.task_lifecycle import TaskState

MAX_REMEMBERED: Final = 4_096
"""The number of tasks that are remembered."""

MAX_QUESTIONS: Final = 256
"""The number of keys of each task's inputRequests that are remembered."""


@slotted(eq=False)
class Question:
    """The request under one key of a task's inputRequests. Frame ``seq`` was the first to contain it.

    ``answered`` is set once the client has answered the request. ``gone_seq`` is the first frame, of the
    answers to later requests, whose inputRequests lack the answered request; 0 if there is none, or if the
    request is there again.
    """

    value: JSON
    seq: int
    answered: bool = False
    gone_seq: int = 0


@slotted(eq=False)
class ExtensionTask:
    """One task, and the state that the server reported for it.

    ``created_seq`` and ``created_ns`` are the frame that created the task, and its time; 0 if it was not
    recorded. The latest ``state`` was reported in frame ``seq``, with the timestamp ``updated``. ``ttl_ms``
    is the lifetime, in milliseconds, that the server named for it. ``fetched`` is set once tasks/get has
    returned the task, ``dropped`` once the client has asked to cancel it. ``questions`` has the requests for
    input by their keys. ``poll`` is the latest tasks/get, ``None`` if the client may poll again at once, and
    ``poll_ms`` is the time, in milliseconds, that the client must wait before the next.
    """

    id: str
    created_seq: int = 0
    created_ns: int = 0
    ttl_ms: float | None = None
    state: TaskState = TaskState.UNSEEN
    seq: int = 0
    updated: datetime | None = None
    fetched: bool = False
    dropped: bool = False
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    poll: SentRequest | None = None
    poll_ms: float | None = None
    hurry_reported: bool = False  # a poll that came too early was reported


@slotted()
class ExtensionTasks:
    """The tasks that are remembered, by caller and id."""

    by_id: dict[tuple[str, str], ExtensionTask] = field(default_factory=dict[tuple[str, str], ExtensionTask])

    def get(self, caller: str, id: object) -> ExtensionTask | None:
        """Return the task with this id; ``None`` if it is unknown."""
        return self.by_id.get((caller, id)) if isinstance(id, str) else None

    def get_or_add(self, caller: str, id: str) -> ExtensionTask:
        """Return the task with this id; add a new entry if it is unknown."""
        return get_or_make(self.by_id, (caller, id), lambda: ExtensionTask(id), MAX_REMEMBERED)
