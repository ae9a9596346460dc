"""Whether a descriptor can be read or written without waiting.

``select.select`` fails for descriptors from 1024 on, which a process gets if it inherits many open files. So
it is used only on Windows, which has no ``poll`` and no such limit.
"""

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


def is_readable(fd: "FileDescriptorLike", wait_s: float = 0) -> bool:
    """Whether ``fd`` can be read or has ended. Waits for that at most ``wait_s`` seconds."""
    if not hasattr(select, "poll"):
        return bool(select.select([fd], [], [], max(0, wait_s))[0])
    return _is_ready(fd, select.POLLIN, wait_s)


def is_writable(fd: "FileDescriptorLike", wait_s: float = 0) -> bool:
    """Whether ``fd`` has room or has lost its reader. Waits for that at most ``wait_s`` seconds."""
    if not hasattr(select, "poll"):
        return bool(select.select([], [fd], [], max(0, wait_s))[1])
    return _is_ready(fd, select.POLLOUT, wait_s)


def _is_ready(fd: "FileDescriptorLike", events: int, wait_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, events)
    return bool(poll.poll(max(0, wait_s) * 1000))
