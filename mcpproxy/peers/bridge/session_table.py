"""The sessions of the bridge's HTTP server: begin sessions, find them, and end those that nobody uses."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final
from uuid import uuid4

from mcpproxy.peers.bridge.leg import Say
from mcpproxy.peers.bridge.server_process import ServerProcess
from mcpproxy.peers.bridge.stdio_session import StdioSession
from mcpproxy.peers.session_server.refused_request import TRY_LATER, RefusedRequestError
from mcpproxy.protocol.message_parts import Key
from mcpproxy.protocol.mirrors import Mirrors, listed_mirrors

_SWEEP_S: Final = 5.0
"""How many seconds pass between two searches for unused sessions."""
_STATELESS_IDLE_S: Final = 60.0
"""How many seconds a process for stateless requests is kept without requests."""

TOTAL_BYTES: Final = 256 << 20
"""How many bytes of events all sessions together keep for clients that resume streams."""

MakeProcess = Callable[[Callable[[bytes], None], Callable[[int], None]], ServerProcess]
"""Starts a server, with a function for each line of its stdout and one for its exit code."""


class HttpSessions:
    """All sessions.

    ``limit`` is how many servers may run, and ``idle_s`` how many seconds a session with an id, without an
    open request and without a reader of its GET stream, is kept.
    """

    def __init__(self, make_process: MakeProcess, say: Say, limit: int, idle_s: float) -> None:
        self._make_process: Final = make_process
        self.say: Final = say
        self._limit: Final = limit
        self._idle_s: Final = idle_s
        self._by_id: Final[dict[str, StdioSession]] = {}
        self._stateless: Final[list[StdioSession]] = []
        self._running: Final[set[StdioSession]] = set()
        self._kept_bytes = 0
        self.mirrors: Final[dict[str, Mirrors]] = {}
        """Name of a tool -> the arguments that a stateless call of it repeats in headers."""

    def begin(self) -> StdioSession:
        """Begin a session with an id.

        Raises:
            RefusedRequestError: there are too many sessions, or the server cannot be started.
        """
        session = self._start_session(uuid4().hex)
        self._by_id[session.id] = session
        return session

    def get(self, id: str) -> StdioSession | None:
        """Return the session with this id; ``None`` if there is none, or it has ended."""
        return self._by_id.get(id)

    def for_stateless(
        self, requests: Iterable[Key], tokens: Iterable[Key], *, wants_logs: bool
    ) -> StdioSession:
        """Return a session in whose process no open request can be confused with stateless ``requests``.

        ``requests`` are their ids, and ``tokens`` their progress tokens. ``wants_logs`` says whether they ask
        for log messages. Ids and tokens stay as the clients wrote them, so two requests with the same id need
        two processes.

        Raises:
            RefusedRequestError: there are too many sessions, or the server cannot be started.
        """
        for session in self._stateless:
            if session.is_free_for(requests, tokens, wants_logs=wants_logs):
                return session
        session = self._start_session("")
        session.on_server_message = lambda raw, _: self.mirrors.update(listed_mirrors(raw))
        self._stateless.append(session)
        return session

    def end(self, session: StdioSession) -> None:
        """End a session; its id is unknown from now on."""
        self._by_id.pop(session.id, None)
        session.stop()

    async def sweep(self) -> None:
        """End unused sessions every few seconds, until this task is cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now = time.monotonic()
            for session in list(self._running):
                limit_s = self._idle_s if session.id else _STATELESS_IDLE_S
                if session.is_idle and now - session.last_used > limit_s:
                    if session.id in self._by_id:
                        self.say(f"a session was not used for {limit_s:g} s and is ended")
                    if session in self._stateless:
                        self._stateless.remove(session)
                    self.end(session)

    def stop_streams(self) -> None:
        """End the GET streams of all sessions, so that the GET requests end."""
        for session in self._running:
            session.get_stream.end()

    async def close(self) -> None:
        """End all sessions, and wait until their processes have ended."""
        for session in list(self._running):
            self.end(session)
        await asyncio.gather(*(session.process.wait() for session in list(self._running)))

    def _start_session(self, id: str) -> StdioSession:
        if len(self._running) >= self._limit:
            why = f"there are {self._limit} sessions already; see --max-sessions"
            raise RefusedRequestError(503, why, fields=TRY_LATER)
        try:
            session = StdioSession(id, self._make_process, self.say, self._on_gone, self._on_kept)
        except OSError as fault:
            self.say(f"the server cannot be started: {fault}")
            why = f"the server cannot be started: {fault.strerror or fault}"
            raise RefusedRequestError(500, why) from None
        self._running.add(session)
        return session

    def _on_kept(self, session: StdioSession, change: int) -> None:
        """Count a change; beyond ``TOTAL_BYTES`` drop events of the sessions that keep the most."""
        del session
        self._kept_bytes += change
        if change <= 0 or self._kept_bytes <= TOTAL_BYTES:
            return
        enough = (
            TOTAL_BYTES - TOTAL_BYTES // 16
        )  # less than the limit, so that not every event triggers a sort
        for largest in sorted(self._running, key=lambda session: session.kept_bytes, reverse=True):
            if self._kept_bytes <= enough:
                return
            largest.drop_events(min(largest.kept_bytes, self._kept_bytes - enough))

    def _on_gone(self, session: StdioSession) -> None:
        self._running.discard(session)
        self._by_id.pop(session.id, None)
        if session in self._stateless:
            self._stateless.remove(session)
