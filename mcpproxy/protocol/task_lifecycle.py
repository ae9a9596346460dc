"""The life of a task, as a table.

A task is run by one peer and watched by the other, who sees its status in whatever answers and
notifications happen to name it. Watching skips states: between two looks a task may pass through several.
So anything may follow while a task is open, and the only thing that can be wrong is that something
follows what is final. As in the handshake the table is total, and a forbidden step leads on to where the
task now claims to be, so that one mistake is told once.

``SETTLED`` is the state of a task whose tasks/result was answered before its next status was seen: it is
over, but the outcome is unknown.

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
    """The known state of a task. All but the first and last are statuses that its peer reports."""

    UNSEEN = ""
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SETTLED = "settled"

    @property
    def final(self) -> bool:
        """Whether no other state may follow."""
        return self not in (TaskState.UNSEEN, TaskState.WORKING, TaskState.INPUT_REQUIRED)


Breaks: TypeAlias = tuple[str, str]


class TaskStep(NamedTuple):
    """Where a report leads and which (rule, requirement) it breaks, if any."""

    to: TaskState
    breaks: Breaks | None = None


RISEN: Final[Breaks] = ("TASK-006", "R-195")  # completed and failed are final
HASTY: Final[Breaks] = ("TASK-008", "R-197")  # tasks/result waits until the task is over
REVIVED: Final[Breaks] = ("TASK-011", "R-200")  # cancelled is for good

_S = TaskState

TRANSITIONS: Final[Mapping[TaskState, Mapping[TaskState, TaskStep]]] = MappingProxyType(
    {
        _S.UNSEEN: {
            _S.WORKING: TaskStep(_S.WORKING),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED),
            _S.COMPLETED: TaskStep(_S.COMPLETED),
            _S.FAILED: TaskStep(_S.FAILED),
            _S.CANCELLED: TaskStep(_S.CANCELLED),
            _S.SETTLED: TaskStep(_S.SETTLED),
        },
        _S.WORKING: {
            _S.WORKING: TaskStep(_S.WORKING),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED),
            _S.COMPLETED: TaskStep(_S.COMPLETED),
            _S.FAILED: TaskStep(_S.FAILED),
            _S.CANCELLED: TaskStep(_S.CANCELLED),
            _S.SETTLED: TaskStep(_S.SETTLED),
        },
        _S.INPUT_REQUIRED: {
            _S.WORKING: TaskStep(_S.WORKING),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED),
            _S.COMPLETED: TaskStep(_S.COMPLETED),
            _S.FAILED: TaskStep(_S.FAILED),
            _S.CANCELLED: TaskStep(_S.CANCELLED),
            _S.SETTLED: TaskStep(_S.SETTLED),
        },
        _S.COMPLETED: {
            _S.WORKING: TaskStep(_S.WORKING, RISEN),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED, RISEN),
            _S.COMPLETED: TaskStep(_S.COMPLETED),
            _S.FAILED: TaskStep(_S.FAILED, RISEN),
            _S.CANCELLED: TaskStep(_S.CANCELLED, RISEN),
            _S.SETTLED: TaskStep(_S.COMPLETED),
        },
        _S.FAILED: {
            _S.WORKING: TaskStep(_S.WORKING, RISEN),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED, RISEN),
            _S.COMPLETED: TaskStep(_S.COMPLETED, RISEN),
            _S.FAILED: TaskStep(_S.FAILED),
            _S.CANCELLED: TaskStep(_S.CANCELLED, RISEN),
            _S.SETTLED: TaskStep(_S.FAILED),
        },
        _S.CANCELLED: {
            _S.WORKING: TaskStep(_S.WORKING, REVIVED),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED, REVIVED),
            _S.COMPLETED: TaskStep(_S.COMPLETED, REVIVED),
            _S.FAILED: TaskStep(_S.FAILED, REVIVED),
            _S.CANCELLED: TaskStep(_S.CANCELLED),
            _S.SETTLED: TaskStep(_S.CANCELLED),
        },
        _S.SETTLED: {
            _S.WORKING: TaskStep(_S.WORKING, HASTY),
            _S.INPUT_REQUIRED: TaskStep(_S.INPUT_REQUIRED, HASTY),
            _S.COMPLETED: TaskStep(_S.COMPLETED),
            _S.FAILED: TaskStep(_S.FAILED),
            _S.CANCELLED: TaskStep(_S.CANCELLED),
            _S.SETTLED: TaskStep(_S.SETTLED),
        },
    }
)

_REPORTED: Final = {
    state.value: state for state in TaskState if state not in (TaskState.UNSEEN, TaskState.SETTLED)
}

_LEAP_SECOND: Final = pattern(r":60(?=[Z.,+-]|$)")


def reported(status: JSON) -> TaskState | None:
    """The state that a ``status`` member names, if it names one."""
    return _REPORTED.get(status) if isinstance(status, str) else None


def instant(value: JSON) -> datetime | None:
    """The time that an ISO 8601 timestamp names; of one without an offset, as if in UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(_LEAP_SECOND.sub(":59", value.upper()))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
