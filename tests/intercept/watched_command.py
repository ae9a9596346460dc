"""``mcpproxy``, in which ``poll`` refuses closed descriptors: a relay that watched one never slept."""

import os
import select


class Watched:
    """Like ``select.poll()``."""

    def __init__(self) -> None:
        self._poll = _POLL()
        self.unregister = self._poll.unregister
        self.poll = self._poll.poll

    def register(self, fd: int, events: int = select.POLLIN) -> None:
        os.fstat(fd)
        self._poll.register(fd, events)


_POLL = select.poll

if __name__ == "__main__":
    setattr(select, "poll", Watched)  # noqa: B010 # the type of a module has no such attribute to set
    from mcpproxy.cli.main import main

    raise SystemExit(main())
