"""Decide when a recording continues in a new file.

The decision depends on the size of the file and the times of its records, not on a clock. So recovery begins
new files after the same records as the recorder."""

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.record.recorder.payloads import count, object_of
from mcpproxy.record.relay.journal import DEFAULT_RESERVE
from mcpproxy.record.trace.members import NotARecordError


@slotted(frozen=True)
class Rotation:
    """The limits of a file in bytes and in nanoseconds of recorded time; 0 means no limit."""

    file_bytes: int = 0
    file_ns: int = 0

    def is_due(self, size: int, since_ns: int, now_ns: int) -> bool:
        """Whether a file of ``size`` bytes that began at ``since_ns`` has reached a limit at ``now_ns``."""
        return 0 < self.file_bytes <= size or 0 < self.file_ns <= now_ns - since_ns


def limits_of(start: bytes) -> tuple[int, int]:
    """Return the two limits, in bytes, in a START record, the first record of the relay's journal.

    These are ``"max_bytes"``, how large the recording may become (0: no limit), and ``"reserve"``, how much
    of the disk must stay free (0: nothing; ``DEFAULT_RESERVE``: see ``Journal``).

    Raises:
        NotARecordError: a member has another form.
    """
    members: JSONObject = {"max_bytes": 0, "reserve": 0, **object_of(start)}
    if members["reserve"] == DEFAULT_RESERVE:
        return count(members, "max_bytes"), DEFAULT_RESERVE
    return count(members, "max_bytes"), count(members, "reserve")


def rotation_of(start: bytes) -> Rotation | None:
    """Return the rotation in a START record (``"rotate":{"bytes":n}`` or ``{"ns":n}``); ``None`` if the
    record has none.

    Raises:
        NotARecordError: the member has another form.
    """
    limits = object_of(start).get("rotate")
    if not limits:
        return None
    if not isinstance(limits, dict):
        raise NotARecordError("a record with a bad rotate")
    return Rotation(*(count({name: 0, **limits}, name) for name in ("bytes", "ns")))
