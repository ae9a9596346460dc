"""When a recording continues in a new file.

This is decided by the size of the file and the times in it, never by a clock. So recovery begins new files at
the same places."""

from dataclasses import dataclass

from mcpproxy.recorder.payloads import count, object_of
from mcpproxy.trace.members import NotARecordError


@dataclass(frozen=True, slots=True)
class Rotation:
    """A new file is begun when one has this many bytes or covers this much time; 0 means no limit."""

    file_bytes: int = 0
    file_ns: int = 0

    def is_due(self, size: int, since_ns: int, now_ns: int) -> bool:
        """Whether a new file is due after one of ``size`` bytes that began at ``since_ns``."""
        if self.file_bytes and size >= self.file_bytes:
            return True
        return bool(self.file_ns) and now_ns - since_ns >= self.file_ns


def rotation_of(start: bytes) -> Rotation | None:
    """The rotation in the START record: ``"rotate":{"bytes":n}`` or ``{"ns":n}``; ``None`` without one.

    Raises:
        NotARecordError: the member holds something else.
    """
    asked = object_of(start).get("rotate")
    if not asked:
        return None
    if not isinstance(asked, dict):
        raise NotARecordError("a record with a bad rotate")
    return Rotation(*(count({name: 0, **asked}, name) for name in ("bytes", "ns")))
