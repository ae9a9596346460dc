"""The checkpoint of a journal: the position from which recording continues after the recorder was killed.

All journal records before that position are in the first ``trace_bytes`` bytes of the trace. The only
exceptions are what a limit of the size leaves out, and the beginnings of lines and, over HTTP, of messages
that had not ended yet; the checkpoint itself holds these. So a segment (a file of the journal, which is the
relay's copy of the traffic) can be deleted as soon as its records are in the trace, even if a peer does not
end a line for hours.

The file begins with one line of JSON. Long runs of bytes follow it unchanged: beginnings of lines and, over
HTTP, of bodies.
"""

import errno
import json
import os
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from mcpproxy.base.files import Folder
from mcpproxy.base.slotted import slotted
from mcpproxy.errors import TraceError
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.record.recorder.payloads import rule_options_of
from mcpproxy.record.recorder.rotation import Rotation

if TYPE_CHECKING:
    from mcpproxy.judge.ruleset.rule_options import RuleOptions

NAME: Final = "checkpoint"
DRAFT_NAME: Final = "checkpoint.new"
"""The next checkpoint is written to this file, which then replaces the previous checkpoint."""

_STATE_BYTES: Final = 16 << 20
"""The longest line of JSON in a checkpoint."""
_LONG_BYTES: Final = 4 << 10
"""A run of bytes that is longer than this is stored after the line of JSON."""


@slotted(frozen=True)
class PartialLine:
    """The beginning of a line that had not ended at a checkpoint, and its time (see ``LineFramer``).

    The time is as in the trace: nanoseconds since the recording started.
    """

    raw: bytes
    at_ns: int


NO_PARTIAL_LINES: Final = (PartialLine(b"", 0), PartialLine(b"", 0), PartialLine(b"", 0))


@slotted(frozen=True)
class Checkpoint:
    """Where recording continues: at ``offset`` of ``segment``, after the trace is cut to ``trace_bytes``."""

    segment: int = 1
    offset: int = 0
    trace_bytes: int = 0
    held: tuple[PartialLine, PartialLine, PartialLine] = NO_PARTIAL_LINES
    """The incomplete lines of the client's stream, the server's stream, and the server's stderr."""
    assembly: JSON = None
    """Over HTTP, the state of all connections; see ``mcpproxy.record.recorder.checkpoint_state``."""
    long: Sequence[bytes | memoryview] = ()
    """The long runs of bytes of that state, which refers to them by index."""
    file: str = ""
    """The name of the file that is being written; empty without rotation."""
    rotation: Rotation | None = None
    """When the recording continues in a new file; ``None`` without rotation."""
    max_bytes: int = 0
    """How large the recording may become; 0 for no limit."""
    rule_options: "RuleOptions | None" = None
    """The rules by which the session is judged; ``None`` for the built-in rules."""


def read_checkpoint(folder: str) -> Checkpoint | None:
    """Read the checkpoint of the journal in ``folder``; ``None`` if the journal has no checkpoint.

    Raises:
        TraceError: the checkpoint is damaged.
        OSError: the checkpoint cannot be read.
    """
    try:
        with open(Folder(folder).open(NAME), "rb") as file:
            line = file.readline(_STATE_BYTES)
            members = cast("dict[str, Any]", json.loads(line if line.endswith(b"\n") else b""))
            left_bytes = os.fstat(file.fileno()).st_size - len(line)
            long = [_read_exactly(file, size, left_bytes) for size in members.get("long", ())]
        client, server, stderr = (
            PartialLine(decode_run(raw, long), _count(at_ns)) for raw, at_ns in members["held"]
        )
        return Checkpoint(
            segment=_count(members["segment"]),
            offset=_count(members["offset"]),
            trace_bytes=_count(members["trace_bytes"]),
            held=(client, server, stderr),
            assembly=members.get("assembly"),
            long=tuple(long),
            file=str(members.get("file", "")),
            rotation=Rotation(*map(_count, members["rotation"])) if members.get("rotation") else None,
            max_bytes=_count(members.get("max_bytes", 0)),
            rule_options=rule_options_of(members),
        )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise damaged(os.path.join(folder, NAME)) from None


def damaged(path: str) -> TraceError:
    """Return the error to raise for a checkpoint that cannot be read or does not fit its trace."""
    return TraceError(path, None, "the checkpoint is damaged", "the trace is whole up to its last line")


def _count(value: object) -> int:
    """Return ``value`` if it can be a number of bytes, segments or nanoseconds; else raise ValueError."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(value)
    return value


def _read_exactly(file: BinaryIO, size: object, left_bytes: int) -> bytes:
    size = _count(size)
    if size > left_bytes or len(data := file.read(size)) != size:
        raise ValueError(size)
    return data


def encode_run(raw: bytes | memoryview, long: list[bytes | memoryview]) -> str | int:
    """Return a run of bytes as JSON: a short run in base64, a long run, added to ``long``, as its index."""
    if len(raw) <= _LONG_BYTES:
        return b2a_base64(raw, newline=False).decode("ascii")
    long.append(raw)
    return len(long) - 1


def decode_run(written: object, long: Sequence[bytes]) -> bytes:
    """Return the run of bytes that ``encode_run`` has encoded as ``written``; ``long`` has the long runs.

    Raises:
        ValueError, TypeError, LookupError: ``written`` does not come from ``encode_run``.
    """
    if type(written) is int:
        return long[_count(written)]
    return a2b_base64(cast("str", written), strict_mode=True)


def write_checkpoint(folder: str, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of a journal atomically.

    Raises:
        OSError: the checkpoint could not be written; the previous checkpoint remains.
    """
    long = [*checkpoint.long]
    held_lines: list[JSON] = [[encode_run(line.raw, long), line.at_ns] for line in checkpoint.held]
    members: dict[str, JSON] = {
        "segment": checkpoint.segment,
        "offset": checkpoint.offset,
        "trace_bytes": checkpoint.trace_bytes,
        "held": held_lines,
        "long": [len(run) for run in long],
    }
    if checkpoint.assembly is not None:
        members["assembly"] = checkpoint.assembly
    if checkpoint.rotation is not None:
        members["file"] = checkpoint.file
        members["rotation"] = [checkpoint.rotation.file_bytes, checkpoint.rotation.file_ns]
    if checkpoint.max_bytes:
        members["max_bytes"] = checkpoint.max_bytes
    if checkpoint.rule_options is not None:
        members["judged_by"] = checkpoint.rule_options.to_json()
    json_line = json.dumps(members).encode("ascii") + b"\n"
    if len(json_line) > _STATE_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    opened_folder = Folder(folder)
    with suppress(FileNotFoundError):
        opened_folder.unlink(DRAFT_NAME)  # left by a recorder that was killed
    with open(opened_folder.create(DRAFT_NAME), "wb") as file:
        file.write(json_line)
        file.writelines(long)
    opened_folder.replace(DRAFT_NAME, NAME)
