"""The tasks that a server of a stateless revision runs, across requests.

Over HTTP every request is a session of its own, so these are kept beyond sessions, by whom was asked with
which credentials, and by id.
"""

from datetime import datetime
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.task_lifecycle import TaskState
from mcpproxy.session.history import SentRequest, keep

MAX_REMEMBERED: Final = 4_096
"""So many tasks are remembered."""

MAX_QUESTIONS: Final = 256
"""So many keys of each."""


@slotted(eq=False)
class Question:
    """What stands under one key of a task's inputRequests.

    ``answered`` is set once the client has answered it; ``gone_seq`` is the report that then left it out.
    """

    value: JSON
    seq: int
    answered: bool = False
    gone_seq: int = 0


@slotted(eq=False)
class ExtensionTask:
    """One task: the frame that handed it out (0 if that was not seen), and what was heard of it since.

    ``state`` was heard in frame ``seq``, with the time ``updated``. ``fetched`` is set once tasks/get has
    found it, ``dropped`` once the client wanted it cancelled. ``poll`` is the latest tasks/get, ``poll_ms``
    how long to wait after it.
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
    hurried: bool = False


@slotted()
class ExtensionTasks:
    """All of them, by caller and id."""

    by_id: dict[tuple[str, str], ExtensionTask] = field(default_factory=dict[tuple[str, str], ExtensionTask])

    def get(self, caller: str, id: object) -> ExtensionTask | None:
        return self.by_id.get((caller, id)) if isinstance(id, str) else None

    def known(self, caller: str, id: str) -> ExtensionTask:
        """The one with this id, made up if nobody has heard of it."""
        found = self.by_id.get((caller, id))
        if found is None:
            found = ExtensionTask(id)
            keep(self.by_id, (caller, id), found, MAX_REMEMBERED)
        return found
