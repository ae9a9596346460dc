"""Waits for a client that a person runs, until it has come to a URL and finished with the server there."""

import asyncio
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from mcpproxy.peers.client_tests.client_process import Stay
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.peers.client_tests.seen import SeenClient
from mcpproxy.peers.client_tests.watch import Watch

_POLL_S: Final = 0.1
_CHUNK_BYTES: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class Invitation:
    """Asks a person to connect the client to ``url``.

    ``number`` is the place of the scenario among all that are played, from 1 to ``total``. ``limit_s`` is how
    long to wait for the client, in seconds.
    """

    url: str
    scenario: Scenario
    number: int
    total: int
    limit_s: float

    @property
    def wanted(self) -> str:
        """The method of the message that the client must send."""
        return "tools/call" if self.number == 1 else self.scenario.needs


Invite = Callable[[Invitation], None]


@contextmanager
def lines_of_stdin() -> Generator[asyncio.Event]:
    """Yield an event that is set whenever a line comes on stdin: a person has pressed Enter.

    It is never set if the event loop cannot wait for stdin, or if we run in the background of a terminal.
    """
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = b""
        with suppress(OSError):
            data = os.read(fd, _CHUNK_BYTES)
        if not data:
            loop.remove_reader(fd)
        elif b"\n" in data:
            pressed.set()

    fd = -1
    with suppress(OSError, ValueError, AttributeError, NotImplementedError):
        fd = sys.stdin.fileno()
        if os.isatty(fd) and os.tcgetpgrp(fd) != os.getpgrp():
            fd = -1
        else:
            loop.add_reader(fd, read)
    try:
        yield pressed
    finally:
        if fd >= 0:
            with suppress(OSError, ValueError, NotImplementedError):
                loop.remove_reader(fd)


async def wait_for_visit(
    invitation: Invitation, watch: Watch, quiet_s: float, pressed: asyncio.Event
) -> Stay:
    """Wait until the client has finished with a server, at most ``invitation.limit_s`` seconds.

    It has finished if it has sent ``invitation.wanted``, and then ends its sessions or sends nothing for
    ``quiet_s`` seconds (0 switches this off). A client that has sent no ``initialize`` has no session to end,
    and may send one yet, so only that silence counts.
    If the server never answers, that silence counts only after the client gave up its call. The wait also
    ends when ``pressed`` is set; that is cleared first.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    pressed.clear()
    while loop.time() - started < invitation.limit_s:
        if _has_finished(watch.look(), invitation, watch.rested_s, quiet_s):
            break
        with suppress(TimeoutError):
            await asyncio.wait_for(pressed.wait(), _POLL_S)
            break
    return Stay(None, loop.time() - started, "", is_visit=True)


def _has_finished(seen: SeenClient, invitation: Invitation, rested_s: float, quiet_s: float) -> bool:
    if not seen.has_sent(invitation.wanted):
        return False
    if 0 < seen.requests["initialize"] <= seen.sessions_ended:
        return True
    waits = invitation.scenario.is_silent and not seen.gave_up_ns
    return 0 < quiet_s < rested_s and not waits
