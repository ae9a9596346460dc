"""When a recording goes on in another file.

It is decided by what is filed and by the times of that, never by a clock: a journal that is folded in
later is cut at the same places.
"""

from dataclasses import dataclass

from mcpproxy.recorder.payloads import count, object_of
from mcpproxy.trace.members import NotARecordError


@dataclass(frozen=True, slots=True)
class Rotation:
    """A file is left when it holds this much, or this long; 0 is never."""

    file_bytes: int = 0
    file_ns: int = 0

    def is_due(self, size: int, since_ns: int, now_ns: int) -> bool:
        """Whether a file of ``size`` bytes whose recording began at ``since_ns`` is to be left."""
        if self.file_bytes and size >= self.file_bytes:
            return True
        return bool(self.file_ns) and now_ns - since_ns >= self.file_ns


def rotation_of(start: bytes) -> Rotation | None:
    """What the START record asks for: ``"rotate":{"bytes":n}`` or ``{"ns":n}``, or nothing.

    Raises:
        NotARecordError: it asks for something else.
    """
    asked = object_of(start).get("rotate")
    if not asked:
        return None
    if not isinstance(asked, dict):
        raise NotARecordError("a record with a bad rotate")
    return Rotation(*(count({name: 0, **asked}, name) for name in ("bytes", "ns")))
