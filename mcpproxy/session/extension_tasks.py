"""The tasks that a server of a stateless revision runs, across requests.

Over HTTP every stateless request is a session of its own, so tasks are remembered across sessions, by caller
(server and credentials) and task id.
"""

from datetime import datetime
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.task_lifecycle import TaskState
from mcpproxy.session.history import SentRequest, get_or_make

MAX_REMEMBERED: Final = 4_096
"""How many tasks are remembered."""

MAX_QUESTIONS: Final = 256
"""How many keys of each task's inputRequests are remembered."""


@slotted(eq=False)
class Question:
    """The request under one key of a task's inputRequests, first reported in frame ``seq``.

    ``answered`` is set once the client has answered it. ``gone_seq`` is the frame of the later report that no
    longer contained it, 0 while there is none.
    """

    value: JSON
    seq: int
    answered: bool = False
    gone_seq: int = 0


@slotted(eq=False)
class ExtensionTask:
    """One task: the frame that created it (0 if that was not seen), and its latest reports.

    ``state`` was reported in frame ``seq``, with the time ``updated``. ``fetched`` is set once tasks/get has
    found the task, ``dropped`` once the client asked to cancel it. ``poll`` is the latest tasks/get,
    ``poll_ms`` how long to wait after it.
    """

    id: str
    made_seq: int = 0
    made_ns: int = 0
    ttl_ms: float | None = None
    state: TaskState = TaskState.UNSEEN
    seq: int = 0
    updated: datetime | None = None
    fetched: bool = False
    dropped: bool = False
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    poll: SentRequest | None = None
    poll_ms: float | None = None
    hurried: bool = False  # polling it too often was reported already


@slotted()
class ExtensionTasks:
    """The remembered tasks, by caller and id."""

    by_id: dict[tuple[str, str], ExtensionTask] = field(default_factory=dict[tuple[str, str], ExtensionTask])

    def get(self, caller: str, id: object) -> ExtensionTask | None:
        """Return the task with this id, ``None`` if it is unknown."""
        return self.by_id.get((caller, id)) if isinstance(id, str) else None

    def known(self, caller: str, id: str) -> ExtensionTask:
        """Return the task with this id; a new entry if it is unknown."""
        return get_or_make(self.by_id, (caller, id), lambda: ExtensionTask(id), MAX_REMEMBERED)
