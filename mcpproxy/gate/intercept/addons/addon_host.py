"""The addon host: ``python -m mcpproxy.gate.intercept.addons.addon_host FD TRANSPORT NAME...``.

This process runs the addons. It reads messages from a socket, and answers with what becomes of each. A bad
addon harms only this process: if no answer comes within the budget of the addons, the relay kills the process
and starts another.
"""

import asyncio
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

from mcpproxy.gate.intercept.addons.addon_findings import FindingReader
from mcpproxy.gate.intercept.addons.addon_frames import AddonFrame, FrameReader, encode_frame
from mcpproxy.gate.intercept.addons.addon_hooks import AddonHost, addon_name
from mcpproxy.gate.intercept.addons.addon_loading import AddonError, load_addons

_CHUNK_BYTES: Final = 64 << 10
_READ_INTERVAL_S: Final = 0.2
"""The interval at which the recording is read for findings, if an addon has a ``finding`` hook."""
_GRACE_S: Final = 2.0
"""For how long this process may outlive the relay, while the last hooks run."""


class HostLoop:
    """Passes the relay's frames to an ``AddonHost``: in turn, or concurrently if ``is_concurrent``."""

    def __init__(self, sock: socket.socket, host: AddonHost, *, is_concurrent: bool) -> None:
        self._sock = sock
        self._host = host
        self._is_concurrent = is_concurrent
        self._frames = FrameReader()
        self._backlog: deque[AddonFrame] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._findings: FindingReader | None = None
        self._follow_task: asyncio.Task[None] | None = None
        self._relay_left = asyncio.Event()

    async def run(self) -> None:
        """Handle the frames of the relay until it has gone.

        Then cancel the hooks that still run, and call the ``finding`` hooks for the last findings and the
        ``closed`` hooks for all open sessions.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._host.note_asyncio)
        loop.add_reader(self._sock, self._on_readable)
        await self._relay_left.wait()
        for task in (*self._tasks, *filter(None, (self._follow_task,))):
            task.cancel()
        if self._findings is not None:
            await self._host.tell_findings(self._findings)
        await self._host.close()

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(_CHUNK_BYTES)
        except ConnectionError:  # the relay was killed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._sock)
            self._relay_left.set()
        self._backlog += self._frames.feed(data)
        self._take_frames()

    def _take_frames(self) -> None:
        while self._backlog and (self._is_concurrent or not self._tasks):
            question = self._backlog.popleft()
            if question.words[0] == "recording":
                self._findings = FindingReader(os.fsdecode(question.content))
                self._follow_task = asyncio.create_task(self._follow_findings(self._findings))
            elif self._host.has_only_functions:
                _run_at_once(self._host.take_frame(question))
            else:
                task = asyncio.create_task(self._host.take_frame(question))
                self._tasks.add(task)
                task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._relay_left.is_set():
            self._take_frames()

    async def _follow_findings(self, findings: FindingReader) -> None:
        while True:
            await asyncio.sleep(_READ_INTERVAL_S)
            await self._host.tell_findings(findings)


def _run_at_once(coroutine: Coroutine[None, None, None]) -> None:
    """Run a coroutine that never waits; a task for it would take longer than the hook."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()


def _leave_with_the_relay(sock: socket.socket) -> None:
    """End this process soon after the relay has gone, even if a hook never returns."""
    poll = select.poll()
    poll.register(sock, 0)  # a hang-up is always reported
    poll.poll()
    time.sleep(_GRACE_S)  # for the last hooks, see ``HostLoop.run``
    os._exit(1)


def main(argv: list[str]) -> int:
    """Run the host. Its first frame describes the addons, or says why they cannot be used.

    Return the exit status: 2 if an addon cannot be used.
    """
    fd, transport, *names = argv
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the relay gets it from the terminal, too, and ends this process
    os.dup2(2, 1)  # stdout is for protocol messages only
    sock = socket.socket(fileno=int(fd))

    def send(data: bytes) -> None:
        with suppress(OSError):  # the relay has gone; reading shows that, too
            sock.sendall(data)

    try:
        addons = load_addons(names)
    except AddonError as error:
        send(encode_frame(0, "refused", content=str(error).encode("utf-8", "replace")))
        return 2
    host = AddonHost(addons, "http" if transport == "http" else "stdio", send)
    is_concurrent = all(addon.concurrent for addon in addons)
    about = {
        "hooks": host.hooks,
        "concurrent": is_concurrent,
        "budget_s": sum(addon.budget_s for addon in addons),
        "fail_closed": host.fail_closed,
        "addons": [addon_name(addon) for addon in addons],
    }
    send(encode_frame(0, "ready", content=json.dumps(about).encode()))
    threading.Thread(target=_leave_with_the_relay, args=(sock.dup(),), daemon=True).start()
    asyncio.run(HostLoop(sock, host, is_concurrent=is_concurrent).run())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
