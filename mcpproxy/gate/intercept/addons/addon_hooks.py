"""Call the hooks of addons for the messages of all sessions.

Every question of the relay is answered: a failure here, even outside a hook, counts as a failed hook.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Literal, cast

from mcpproxy.addons import DROP, Addon, Answer, Message, Result, Sender, Session
from mcpproxy.gate.intercept.addons.addon_findings import FindingReader
from mcpproxy.gate.intercept.addons.addon_frames import AddonFrame, encode_frame
from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES
from mcpproxy.judge.session.frame import other
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.protocol.jsonrpc import RequestId, request_id

HOOKS: Final = ("request", "response", "notification", "opened", "closed", "finding")

_MOST_OPEN: Final = 10_000
"""How many requests of a session are remembered for ``response``; the oldest is forgotten first."""
_MOST_SESSIONS: Final = 10_000
"""How many sessions are remembered; the oldest is closed first. Clients choose their ids."""
_NOTE_CHARACTERS: Final = 300
"""The longest line that the relay is given to write to stderr."""


class _OpenSession:
    """A session and its unanswered requests."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.requests: UnansweredRequests[Message] = UnansweredRequests(_MOST_OPEN)


class AddonHost:
    """Calls the hooks of ``addons``, one after the other.

    ``send`` gets the frames for the relay: answers that say what becomes of each message, and notes.
    """

    def __init__(
        self, addons: list[Addon], transport: Literal["stdio", "http"], send: Callable[[bytes], object]
    ) -> None:
        self._addons = addons
        self._transport: Literal["stdio", "http"] = transport
        self._send = send
        self._sessions: dict[str, _OpenSession] = {}
        self._hooks = {
            name: [
                (addon, cast("Callable[..., object]", hook))
                for addon in addons
                if (hook := getattr(addon, name, None))
            ]
            for name in HOOKS
        }
        self.has_only_functions = not any(
            inspect.iscoroutinefunction(hook) for hooks in self._hooks.values() for _, hook in hooks
        )
        """Whether no hook is a coroutine function or has returned an awaitable: no call here ever waits."""

    @property
    def hooks(self) -> list[str]:
        """The names of the hooks that at least one addon has."""
        return [name for name, hooks in self._hooks.items() if hooks]

    @property
    def fail_closed(self) -> list[str]:
        """The names of the addons that fail closed and see messages."""
        hooks = ("request", "response", "notification")
        return [
            addon_name(addon)
            for addon in self._addons
            if not addon.fail_open
            and any(addon is having for hook in hooks for having, _ in self._hooks[hook])
        ]

    async def take_frame(self, question: AddonFrame) -> None:
        """Handle a frame of the relay, and answer it if it is a question."""
        try:
            how, addon, content = await self._outcome(question)
        except Exception as error:  # every question gets an answer
            self.note(f"{question.words[0]}: {_error_text(error)}")
            how, addon, content = ("error" if self.fail_closed else "same"), ", ".join(self.fail_closed), b""
        if question.number:
            self._send(encode_frame(question.number, how, addon, content=content))

    async def _outcome(self, question: AddonFrame) -> tuple[str, str, bytes]:
        """Return what becomes of a message, because of which addon, and with which bytes.

        There are five outcomes: ``same``, ``new`` (with the new bytes), ``drop``, ``answer`` (with the bytes
        of the answer), and ``error``: a hook of an addon that fails closed has failed.
        """
        hook, sender, session = question.words
        if hook == "closed":
            await self.close(session)
            return "same", "", b""
        opened = self._sessions.get(session) or await self._open_session(session)
        message = Message(question.content, cast("Sender", sender))
        if hook == "remember":
            self._remember_request(opened, message)
            return "same", "", b""
        return await self._call_hooks(hook, opened, message)

    async def _call_hooks(self, hook: str, opened: _OpenSession, message: Message) -> tuple[str, str, bytes]:
        """Call the hooks for a message, and return the same as ``_outcome``."""
        how = by = ""
        request: tuple[Message | None, ...] = ()
        if hook == "response":
            request = (opened.requests.take(other(message.sender), _message_id(message)),)
        for addon, function in self._hooks[hook]:
            try:
                result = await self._call_hook(addon, function, opened.session, *request, message)
                given = _checked_result(result, hook)
            except (Exception, asyncio.CancelledError) as error:  # it concerns this message only
                if _is_cancelled():
                    raise
                self._note_failure(addon, hook, error)
                if addon.fail_open:
                    continue
                return "error", addon_name(addon), b""
            if given is None:
                continue
            if given is DROP:
                return "drop", addon_name(addon), b""
            if isinstance(given, Answer):
                return "answer", addon_name(addon), given.raw
            if given.raw != message.raw:
                message, how, by = given, "new", addon_name(addon)
        if hook == "request" and self._hooks["response"]:
            self._remember_request(opened, message)
        return (how, by, message.raw) if how else ("same", "", b"")

    async def close(self, id: str | None = None) -> None:
        """Call the ``closed`` hooks for the open session ``id``, or for all open sessions if ``None``."""
        for name in [id] if id is not None else list(self._sessions):
            if opened := self._sessions.pop(name, None):
                await self._notify("closed", opened.session)

    async def tell_findings(self, reader: FindingReader) -> None:
        """Call the ``finding`` hooks for the findings since the last call."""
        for finding in reader.read():
            opened = self._sessions.get("") or await self._open_session("")
            await self._notify("finding", opened.session, finding)

    async def _open_session(self, id: str) -> _OpenSession:
        if len(self._sessions) >= _MOST_SESSIONS:
            await self.close(next(iter(self._sessions)))
        opened = self._sessions[id] = _OpenSession(Session(id, self._transport))
        await self._notify("opened", opened.session)
        return opened

    async def _notify(self, hook: str, session: Session, *arguments: object) -> None:
        """Call hooks whose results are ignored."""
        for addon, function in self._hooks[hook]:
            try:
                await self._call_hook(addon, function, session, *arguments)
            except (Exception, asyncio.CancelledError) as error:  # as in ``_call_hooks``
                if _is_cancelled():
                    raise
                self._note_failure(addon, hook, error)

    async def _call_hook(self, addon: Addon, function: Callable[..., object], *arguments: object) -> object:
        """Call a hook, and wait for its result as long as the budget of its addon allows."""
        result = function(*arguments)
        if result is None or not inspect.isawaitable(result):
            return result
        if self.has_only_functions:  # no task runs that could wait; from the next message on, one does
            self.has_only_functions = False
            if isinstance(result, Coroutine):
                cast("Coroutine[object, object, object]", result).close()
            raise TypeError("a function returned what has to be awaited; write it as async def")
        return await asyncio.wait_for(cast("Awaitable[object]", result), addon.budget_s)

    def _note_failure(self, addon: Addon, hook: str, error: BaseException) -> None:
        is_late = isinstance(error, TimeoutError)
        why = f"took longer than {addon.budget_s:g} s" if is_late else _error_text(error)
        self.note(f"{addon_name(addon)}.{hook}: {why}")

    def note(self, text: str) -> None:
        """Let the relay write a line to stderr."""
        line = " ".join(text.split())[:_NOTE_CHARACTERS]
        self._send(encode_frame(0, "note", content=line.encode("utf-8", "replace")))

    def note_asyncio(self, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        """Let the relay write one line to stderr where asyncio would write a traceback."""
        del loop
        error = about.get("exception")
        why = f": {_error_text(error)}" if isinstance(error, BaseException) else ""
        self.note(f"{', '.join(map(addon_name, self._addons))}: {about.get('message', '')}{why}")

    def _remember_request(self, opened: _OpenSession, message: Message) -> None:
        opened.requests.add(message.sender, _message_id(message), message)


def addon_name(addon: Addon) -> str:
    return type(addon).__name__


def _error_text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own ``__str__`` fails
        return type(error).__name__


def _is_cancelled() -> bool:
    """Whether this task itself was cancelled, not only a task that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _checked_result(result: object, hook: str) -> Result:
    """Return the result of a hook, if it is valid.

    Raises:
        TypeError, ValueError: the hook may not return that.
    """
    if result is None or result is DROP:
        return result
    if not isinstance(result, Message | Answer):
        raise TypeError(f"it returned a {type(result).__name__}, not a Message, an Answer, DROP or None")
    if isinstance(result, Answer) and hook != "request":
        raise TypeError("only a request can be answered")
    if len(result.raw) > LIMIT_BYTES:
        raise ValueError(f"its message is longer than {LIMIT_BYTES >> 20} MiB")
    return result


def _message_id(message: Message) -> RequestId | None:
    """Return the id of a request or response; ``None`` if there is no valid id."""
    try:
        return request_id(message.id)
    except ValueError:  # an addon has replaced the message by one with an invalid id
        return None
