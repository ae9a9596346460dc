"""The messages that breakpoints hold in running sessions, and their release by the page.

Each session has a socket beside its recording (``intercept.control``). This module asks it every ``POLL_S``
which messages it holds, once for all open pages; while nothing changes, the answer is a few bytes long. A
message is released only if the user has allowed that.
"""

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import anyio
import anyio.to_thread

from mcpproxy.errors import McpProxyError, UsageError
from mcpproxy.gate.intercept.asking.control_client import NoAnswerError, NotHeldError, ask
from mcpproxy.gate.intercept.control import Command
from mcpproxy.judge.session.frame import Frame
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.read.view.call_members import milliseconds
from mcpproxy.read.view.calls import Role
from mcpproxy.read.view.view import View
from mcpproxy.show.ui import held_text
from mcpproxy.show.ui.library import Library, id_of

POLL_S: Final = 0.25
"""How often the sessions are asked for their held messages."""
_ANSWER_S: Final = 2.0
"""How long a session may take to say which messages it holds."""
_AGAIN_S: Final = 5.0
"""A session that did not answer is asked again after this time, so it does not slow down the others."""
_MOST_SHOWN: Final = 200_000
"""The longest text of a message that the page shows and edits, in characters."""
_LAST_ROWS: Final = 400
"""How many rows at the end of a recording are searched for the calls of held messages."""
_LAST_CANCELLED: Final = 20
"""How many of the last cancelled calls are searched for a time limit of the peer."""

OFF: Final = "This page only shows. Start it with --allow-send to answer here."
"""The answer to a page that may not release messages."""

SDK_LIMIT_S: Final = 60.0
"""How long the TypeScript SDK waits for an answer by default; most clients use it."""
_PYTHON_SDK: Final = ("mcp", "0.1.0")
"""The client name and version that the Python SDK sends by default. It waits without a limit."""


class NotReleasedError(McpProxyError):
    """The page cannot release a message. The text is a sentence that the page shows."""


@dataclass(slots=True)
class _SessionState:
    """The last answer of a session, when it came, and why there is none (``problem``).

    ``held`` are its messages. ``state`` stands for them: a session that gets it back answers ``same`` while
    nothing has changed. After a problem, the session is not asked again before ``again_at_s``. Times are of
    the monotonic clock.
    """

    path: str
    state: JSON = None
    held: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answered_at_s: float = 0.0
    problem: str = ""
    again_at_s: float = 0.0


class Breakpoints:
    """The messages that the sessions of ``library`` hold.

    ``may_release`` is whether the user allows the page to release them.
    """

    def __init__(self, library: Library, *, may_release: bool) -> None:
        self.may_release: Final = may_release
        self._library: Final = library
        self._sessions: dict[str, _SessionState] = {}
        self._lock: Final = anyio.Lock()
        self._asked_at_s = 0.0
        self._version = 0

    async def held(self) -> tuple[int, JSONObject]:
        """Return a number that changes whenever the held messages do, and these messages."""
        async with self._lock:
            if time.monotonic() - self._asked_at_s >= POLL_S:
                await self._ask_all()
                self._asked_at_s = time.monotonic()
        sessions = sorted(self._sessions.values(), key=lambda session: session.path)
        rows: list[JSON] = [_session_row(session) for session in sessions]
        return self._version, {"may_release": self.may_release, "sessions": rows}

    async def _ask_all(self) -> None:
        """Ask all sessions for their held messages, and increase ``_version`` if anything has changed."""
        paths = await anyio.to_thread.run_sync(self._library.controlled_paths)
        before = self._states()
        self._sessions = {path: self._sessions.get(path) or _SessionState(path) for path in paths}
        async with anyio.create_task_group() as tasks:
            for session in list(self._sessions.values()):
                tasks.start_soon(self._ask_session, session)
        if before != self._states():
            self._version += 1

    def _states(self) -> dict[str, tuple[JSON, str]]:
        """Return the last answer and the problem of each session, to see whether they have changed."""
        return {path: (session.state, session.problem) for path, session in self._sessions.items()}

    async def _ask_session(self, session: _SessionState) -> None:
        """Ask one session for its held messages; forget it if it has ended or may not be asked."""
        if session.problem and time.monotonic() < session.again_at_s:
            return
        command: Command = {"do": "list", "starts": True, "state": session.state}
        try:
            answer = await anyio.to_thread.run_sync(ask, session.path, command, _ANSWER_S)
        except NoAnswerError as error:
            session.problem, session.again_at_s = error.fact, time.monotonic() + _AGAIN_S
        except UsageError:  # it has ended, or its socket may not be used
            self._sessions.pop(session.path, None)
        else:
            session.problem = ""
            if "same" not in answer:
                session.state = cast("JSON", answer["state"])
                session.held = cast("list[dict[str, Any]]", answer["held"])
                session.answered_at_s = time.monotonic()

    async def text(self, id: str, number: int) -> JSONObject:
        """Return the beginning of a held message as ``text`` to read and to edit, and its whole ``length``.

        Raises:
            NotReleasedError: it is not held any more, or its session does not answer.
            NoRecordingError: no recording has this id.
        """
        raw = await self._held_bytes((await self._library.entry(id)).path, number)
        text = held_text.shown(raw)
        return {"text": text[:_MOST_SHOWN], "length": len(text)}

    async def release(self, id: str, body: JSON) -> JSONObject:
        """Release one message or several, as the page asks in ``body``.

        Returns:
            How many were ``released``, and how many not (``missing``): ``edit`` releases only the first.

        Raises:
            NotReleasedError: none was released.
            NoRecordingError: no recording has this id.
        """
        if not self.may_release:
            raise NotReleasedError(OFF)
        request = body if isinstance(body, dict) else {}
        do, numbers = request.get("do"), request.get("numbers")
        if do not in ("resume", "drop", "edit", "error") or not isinstance(numbers, list) or not numbers:
            raise NotReleasedError("do and numbers are expected.")
        path = (await self._library.entry(id)).path
        command: Command = {
            "do": do,
            **{name: request[name] for name in ("code", "message") if name in request},
        }
        if do == "edit":
            command = await self._edit_command(path, numbers[0], request)
        released, problem = 0, ""
        for number in numbers[:1] if do == "edit" else numbers:
            try:
                await self._send_command(path, {**command, "number": number})
                released += 1
            except NotReleasedError as error:
                problem = str(error)
        if not released:
            raise NotReleasedError(problem)
        self._asked_at_s = 0.0  # so that the next list has this change
        return {"released": released, "missing": len(numbers) - released}

    async def _edit_command(self, path: str, number: JSON, request: Mapping[str, JSON]) -> Command:
        """Return the command for an edited message; a message with the same bytes is only resumed.

        Raises:
            NotReleasedError: the text cannot be used or needs a confirmation, or the message is not held any
                more.
        """
        text = request.get("text")
        if not isinstance(text, str):
            raise NotReleasedError("text: a string is expected.")
        if not held_text.is_json(text) and request.get("anyway") is not True:
            raise NotReleasedError("This is not JSON. Confirm that it may be given all the same.")
        raw = await self._held_bytes(path, number)
        try:
            edited = held_text.edited(raw, text)
        except ValueError:
            raise NotReleasedError("The text has characters that cannot be written in UTF-8.") from None
        if edited == raw:
            return {"do": "resume"}
        return {"do": "edit", "base64": base64.b64encode(edited).decode()}

    async def _held_bytes(self, path: str, number: JSON) -> bytes:
        """Return the bytes of a held message.

        Raises:
            NotReleasedError: as ``_send_command``.
        """
        answer = await self._send_command(path, {"do": "show", "number": number})
        (held,) = cast("list[dict[str, Any]]", answer["held"])
        return base64.b64decode(held["base64"])

    async def _send_command(self, path: str, command: Command) -> Command:
        """Send a command to the session of the recording at ``path``, and return the answer.

        Raises:
            NotReleasedError: the message is not held any more, or the session does not answer or has ended.
        """
        try:
            return await anyio.to_thread.run_sync(ask, path, command)
        except NotHeldError as error:
            what = f"{error.fact[:1].upper()}{error.fact[1:]}."
            if "already" not in what:
                what = "It is not held any more: its time was over, or its connection has ended."
            raise NotReleasedError(what) from None
        except NoAnswerError:
            what = "The session does not answer; its process may be stopped. It may do this when it goes on."
            raise NotReleasedError(what) from None
        except UsageError:
            what = "The session has ended. Its recording says what became of the message."
            raise NotReleasedError(what) from None

    def context_reader(self, id: str) -> "partial[JSONObject]":
        """Return a function that finds the held messages of the recording ``id`` in a view of it."""
        sessions = [session for session in self._sessions.values() if id_of(session.path) == id]
        held = [message["number"] for session in sessions for message in session.held]
        return partial(_held_context, numbers=frozenset(held))


def _session_row(session: _SessionState) -> JSONObject:
    """Return the held messages of a session, with the times as they are now."""
    age_s = time.monotonic() - session.answered_at_s
    held: list[JSON] = []
    for message in session.held:
        start = base64.b64decode(message["start"])
        held.append(
            {
                **{
                    name: message[name]
                    for name in ("number", "kind", "method", "target", "id", "bytes", "rule", "then")
                },
                "sender": message["from"],
                "findings": message["findings"],
                "preview": start.decode("utf-8", "replace").rstrip("\ufffd"),
                "held_ms": (message["held_s"] + age_s) * 1000,
                "left_ms": max(0.0, message["left_s"] - age_s) * 1000,
            }
        )
    return {"recording": id_of(session.path), "problem": session.problem, "held": held}


def _held_context(view: View, numbers: frozenset[int]) -> JSONObject:
    """Return facts from the recording of a session about the held messages ``numbers``.

    ``calls`` maps the number of a message to its call, with the time when the call began and a preview.
    ``limits`` says how long each peer probably waits for an answer, and why.
    """
    calls: dict[str, JSON] = {}
    first = max(0, view.count() - _LAST_ROWS)
    for call in reversed(view.calls(None, first, _LAST_ROWS)):
        if len(calls) == len(numbers):
            break
        for part in view.parts(call.number, 100).parts:
            fault = part.record.fault if isinstance(part.record, Frame) else None
            if fault and fault.number in numbers and str(fault.number) not in calls:
                calls[str(fault.number)] = {
                    "call": call.number,
                    "started_ms": milliseconds(call.started_ns),
                    "preview": call.result if part.role is Role.ANSWER else call.arguments,
                }
    return {
        "calls": calls,
        "limits": {"client": probable_limit(view, "client"), "server": probable_limit(view, "server")},
    }


def probable_limit(view: View, sender: str) -> JSONObject:
    """Return how many ``seconds`` a peer probably waits for an answer (``None``: forever), and ``why``.

    It is the time after which the peer last gave up; else the default of the Python SDK, if that is the
    client, and that of the TypeScript SDK for any other peer.
    """
    filter = f"status:cancelled from:{sender}"
    cancelled = view.calls(filter, max(0, view.count(filter) - _LAST_CANCELLED), _LAST_CANCELLED)
    for call in reversed(cancelled):
        for part in view.parts(call.number, 100).parts:
            if part.role is Role.CANCEL and "timed out" in part.summary.lower():
                waited_s = (part.at_ns - call.started_ns) / 1e9
                return {
                    "seconds": round(waited_s, 1),
                    "why": f"it gave up call {call.number} after that time",
                }
    clients = {(session.client, session.client_version) for session in view.sessions}
    if sender == "client" and clients == {_PYTHON_SDK}:
        return {"seconds": None, "why": "the Python SDK has no limit"}
    return {"seconds": SDK_LIMIT_S, "why": "the limit of the TypeScript SDK"}
