"""Ships repeatedly, until it is stopped and the last recording has ended."""

import time
from collections.abc import Callable
from threading import Event
from typing import Final

from mcpproxy.base.style import count, size
from mcpproxy.base.visible import visible
from mcpproxy.send.fleet.ship import NotShippedError, Shipped, Shipper
from mcpproxy.send.fleet.store import NoSuchBucketError, StoreError, is_temporary

_LONGEST_PAUSE_S: Final = 60.0
"""The longest pause after a try that did not reach the store."""
_LAST_PAUSE_S: Final = 0.25
"""The pause between two passes after the stop."""
NOT_OURS: Final = "not shipped, it is not a recording of mcpproxy"
"""What ``report`` says of a file that mcpproxy did not record."""


def watch(
    open_shipper: Callable[[], Shipper],
    stop: Event,
    report: Callable[[str], object],
    *,
    pause_s: float,
    grace_s: float,
) -> int:
    """Ship until ``stop`` is set, and then until the recordings end, for at most ``grace_s`` seconds.

    ``open_shipper`` is called until it succeeds. ``pause_s`` is the time between two passes, in seconds. A
    store or folder that cannot be reached is tried again, after pauses of at most a minute, and so is a
    missing bucket: a sidecar may start before somebody creates it. A store that has worked is tried again
    after any error, because credentials are renewed. ``report`` gets a line for each pass that shipped or
    deleted files, and one for each new fault or file that mcpproxy did not record.

    Returns:
        0 if the last pass left nothing, otherwise 2.

    Raises:
        McpProxyError: the store cannot be used as it is configured, and never could.
    """
    shipper: Shipper | None = None
    reported: dict[str, str] = {}
    pause, deadline, has_worked = pause_s, 0.0, False
    while True:
        if stop.is_set() and not deadline:
            deadline = time.monotonic() + grace_s
        is_done = False
        try:
            shipper = shipper or open_shipper()
            done = shipper.ship()
        except (StoreError, NotShippedError, OSError) as fault:
            is_store = isinstance(fault, StoreError) and not is_temporary(fault)
            if is_store and not has_worked and not isinstance(fault, NoSuchBucketError):
                raise
            _report_new({"": f"{fault}; it is tried again" if is_store else str(fault)}, reported, report)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        else:
            reported.pop("", None)
            has_worked = True
            pause = pause_s
            if done.files or done.deleted:
                report(summary(done, shipper))
            _report_new(done.faults, reported, report)
            _report_new(dict.fromkeys(done.strangers, NOT_OURS), reported, report)
            is_done = not done.running and not done.faults
        if deadline and (is_done or time.monotonic() >= deadline):
            return 0 if is_done else 2
        if deadline:
            time.sleep(_LAST_PAUSE_S)  # a recorder does not announce its end
        else:
            stop.wait(pause)


def summary(done: Shipped, shipper: Shipper) -> str:
    """Return one line about a pass: how many files were shipped, found there and deleted here."""
    shipped = [entry.packed_bytes for entry in done.files if entry.key not in done.adopted]
    parts = [f"{count(len(shipped), 'file')} shipped to {shipper.store.url} ({size(sum(shipped))})"]
    if done.adopted:
        parts.append(f"{count(len(done.adopted), 'file')} there already")
    if done.deleted:
        parts.append(f"{count(done.deleted, 'file')} deleted here")
    return ", ".join(parts)


def _report_new(faults: dict[str, str], reported: dict[str, str], report: Callable[[str], object]) -> None:
    """Report each fault that is new for its name."""
    for name, fault in faults.items():
        if reported.get(name) != fault:
            reported[name] = fault
            report(f"{visible(name)}: {visible(fault)}" if name else visible(fault))
