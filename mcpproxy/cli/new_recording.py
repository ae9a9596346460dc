"""The beginning of a recording: its name, which nobody else has, and the first record of its journal.

A wrapped server waits for this, so nothing is imported here that takes time.
"""

from __future__ import annotations

import os
import time

from mcpproxy import __version__
from mcpproxy.base import paths
from mcpproxy.relay.journal import Journal, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def begin(trace: str, trace_dir: str, label: str, members: Mapping[str, str]) -> tuple[str, Journal]:
    """Take a name that no recording has yet; the journal's folder is what reserves it.

    Args:
        trace: the file to record into, with a number behind it if it exists; empty if any will do.
        trace_dir: the folder of a new file; empty for the usual one.
        label: what the recording is called.
        members: as for ``start_payload``.

    Returns:
        The path of the trace, and the journal beside it.

    Raises:
        OSError: nothing can be written there.
    """
    wanted = os.path.abspath(trace or os.path.join(trace_dir or paths.state_dir(), paths.trace_name(label)))
    paths.make_private(os.path.dirname(wanted))
    now_ns = time.monotonic_ns()
    start = start_payload(label, now_ns, members)
    attempt = 1
    while True:
        path = paths.numbered(wanted, attempt)
        try:
            journal = Journal(path, start, now_ns)
            if not os.path.lexists(path):
                return path, journal
            journal.discard()
        except FileExistsError:
            pass
        attempt += 1


def start_payload(label: str, now_ns: int, members: Mapping[str, str]) -> bytes:
    """The payload of the START record: what the header of the trace and the recorder need.

    ``members`` are those of the transport, ``transport`` and ``command`` among them, each written as JSON.
    """
    wall_ns = time.time_ns()
    started_at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall_ns // 1_000_000_000))
    written = {
        **members,
        "label": quoted(label),
        "cwd": quoted(os.getcwd()),
        "pid": str(os.getpid()),
        "boot": quoted(_boot_id()),
        "started_at": quoted(f"{started_at}.{wall_ns // 1000 % 1_000_000:06d}Z"),
        "started_ns": str(now_ns),
        "mcpproxy": quoted(__version__),
    }
    text = "{" + ",".join(f'"{name}":{value}' for name, value in written.items()) + "}"
    return text.encode("utf-8", "replace")


def _boot_id() -> str:
    """As in ``mcpproxy.recorder.liveness``, which takes too long to import here."""
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, 64).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
