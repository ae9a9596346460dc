"""The states of a task, as a table.

One peer runs a task. The other peer learns the task's status from answers and notifications. A task may pass
through several states between two reports of its status. So any state may follow while the task is not over,
and only a change after the end of the task is a mistake. As in the table of the handshake (``lifecycle``),
every report has a step in every state. After a forbidden step the state is the reported one, so that one
mistake is reported once.

A task is ``SETTLED`` if tasks/result was answered and no final status was reported: the task is over, but
whether it completed, failed or was cancelled is unknown. If it is then reported as running, the answer to
tasks/result came too early.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#task-status-lifecycle
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import JSON


class TaskState(Enum):
    """The known state of a task. All but ``UNSEEN`` and ``SETTLED`` are statuses in the protocol."""

    UNSEEN = ""
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SETTLED = "settled"

    @property
    def final(self) -> bool:
        """Whether the task is over."""
        return self not in (TaskState.UNSEEN, TaskState.WORKING, TaskState.INPUT_REQUIRED)


Breaks: TypeAlias = tuple[str, str]
"""The rule and the requirement that a step breaks."""


class TaskStep(NamedTuple):
    """The state after a report, and the requirement that the report breaks, if any."""

    to: TaskState
    breaks: Breaks | None = None


CHANGE_AFTER_END: Final[Breaks] = ("TASK-006", "R-195")  # a change after completed or failed
EARLY_RESULT: Final[Breaks] = ("TASK-008", "R-197")  # tasks/result was answered before the task was over
CHANGE_AFTER_CANCEL: Final[Breaks] = ("TASK-011", "R-200")  # a change after cancelled

_S = TaskState

_STEPS_TO_ANY: Final = {state: TaskStep(state) for state in TaskState if state is not TaskState.UNSEEN}
"""The steps of a task that is not over: each state may follow."""

TRANSITIONS: Final[Mapping[TaskState, Mapping[TaskState, TaskStep]]] = MappingProxyType(
    {
        _S.UNSEEN: _STEPS_TO_ANY,
        _S.WORKING: _STEPS_TO_ANY,
        _S.INPUT_REQUIRED: _STEPS_TO_ANY,
        _S.COMPLETED: {
            _S.WORKING: TaskStep(_S.WORKING, CHANGE_AFTER_END),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED, CHANGE_AFTER_END),
            _S.COMPLETED: TaskStep(_S.COMPLETED),
            _S.FAILED: TaskStep(_S.FAILED, CHANGE_AFTER_END),
            _S.CANCELLED: TaskStep(_S.CANCELLED, CHANGE_AFTER_END),
            _S.SETTLED: TaskStep(_S.COMPLETED),
        },
        _S.FAILED: {
            _S.WORKING: TaskStep(_S.WORKING, CHANGE_AFTER_END),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED, CHANGE_AFTER_END),
            _S.COMPLETED: TaskStep(_S.COMPLETED, CHANGE_AFTER_END),
            _S.FAILED: TaskStep(_S.FAILED),
            _S.CANCELLED: TaskStep(_S.CANCELLED, CHANGE_AFTER_END),
            _S.SETTLED: TaskStep(_S.FAILED),
        },
        _S.CANCELLED: {
            _S.WORKING: TaskStep(_S.WORKING, CHANGE_AFTER_CANCEL),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED, CHANGE_AFTER_CANCEL),
            _S.COMPLETED: TaskStep(_S.COMPLETED, CHANGE_AFTER_CANCEL),
            _S.FAILED: TaskStep(_S.FAILED, CHANGE_AFTER_CANCEL),
            _S.CANCELLED: TaskStep(_S.CANCELLED),
            _S.SETTLED: TaskStep(_S.CANCELLED),
        },
        _S.SETTLED: {
            _S.WORKING: TaskStep(_S.WORKING, EARLY_RESULT),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED, EARLY_RESULT),
            _S.COMPLETED: TaskStep(_S.COMPLETED),
            _S.FAILED: TaskStep(_S.FAILED),
            _S.CANCELLED: TaskStep(_S.CANCELLED),
            _S.SETTLED: TaskStep(_S.SETTLED),
        },
    }
)
"""The steps: by the state before a report, then by the reported state."""

_STATE_OF_STATUS: Final = {
    state.value: state for state in TaskState if state not in (TaskState.UNSEEN, TaskState.SETTLED)
}

_LEAP_SECOND: Final = pattern(r":60(?=[Z.,+-]|$)")
"""A second that ISO 8601 allows and ``datetime`` refuses."""


def state_of_status(status: JSON) -> TaskState | None:
    """Return the state that a ``status`` member names; ``None`` if it names none."""
    return _STATE_OF_STATUS.get(status) if isinstance(status, str) else None


def parse_time(value: JSON) -> datetime | None:
    """Return the time of an ISO 8601 timestamp, read as UTC if it has no offset; ``None`` if invalid.

    A leap second is read as the second before it.
    """
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(_LEAP_SECOND.sub(":59", value.upper()))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
