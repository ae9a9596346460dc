"""The hooks of addons, called for the messages of all sessions.

Every question of the relay is answered: whatever fails here, in a hook or around it, counts as a failed hook.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Literal, cast

from mcpproxy.addons import DROP, Addon, Answer, Message, Result, Sender, Session
from mcpproxy.gate.intercept.addons.addon_findings import FindingReader
from mcpproxy.gate.intercept.addons.addon_frames import AddonFrame, encode_frame
from mcpproxy.judge.session.frame import other
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.protocol.jsonrpc import RequestId, request_id

HOOKS: Final = ("request", "response", "notification", "opened", "closed", "finding")
LIMIT_BYTES: Final = 16 << 20
"""The longest message that an addon may return."""

_MOST_OPEN: Final = 10_000
"""How many requests of a session are remembered for ``response``; the oldest is forgotten first."""
_MOST_SESSIONS: Final = 10_000
"""How many sessions are remembered; the oldest is closed first. Clients choose their ids."""
_NOTE_CHARACTERS: Final = 300


class _OpenSession:
    """A session, and its requests that wait for an answer."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.requests: UnansweredRequests[Message] = UnansweredRequests(_MOST_OPEN)


class AddonHost:
    """Calls the hooks of ``addons``, one after the other.

    It calls ``send`` with frames for the relay, which say how each message goes on.
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
        """Whether no hook is a coroutine function, so that nothing here ever waits."""

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
            if not addon.fail_open and any(addon is each for hook in hooks for each, _ in self._hooks[hook])
        ]

    async def take_frame(self, question: AddonFrame) -> None:
        """Do what a frame of the relay asks for, and answer if it is a question."""
        try:
            how, addon, content = await self._result(question)
        except Exception as error:  # none may leave a question unanswered
            self.note(f"{question.words[0]}: {_error_text(error)}")
            how, addon, content = ("error" if self.fail_closed else "same"), ", ".join(self.fail_closed), b""
        if question.number:
            self._send(encode_frame(question.number, how, addon, content=content))

    async def _result(self, question: AddonFrame) -> tuple[str, str, bytes]:
        """Return how a message goes on, because of which addon, and its new bytes.

        It goes on in one of five ways: ``same``, ``new`` (with the new bytes), ``drop``, ``answer`` (with the
        bytes of the answer), or ``error``, because a hook of an addon that fails closed has failed.
        """
        hook, sender, session = question.words
        if hook == "closed":
            await self.close(session)
            return "same", "", b""
        opened = self._sessions.get(session) or await self._open(session)
        message = Message(question.content, cast("Sender", sender))
        if hook == "remember":
            self._remember(opened, message)
            return "same", "", b""
        return await self._call(hook, opened, message)

    async def _call(self, hook: str, opened: _OpenSession, message: Message) -> tuple[str, str, bytes]:
        """Call the hooks for a message, and return the same as ``_result``."""
        how = by = ""
        told: tuple[Message | None, ...] = ()
        if hook == "response":
            told = (opened.requests.take(other(message.sender), _id(message)),)
        for addon, function in self._hooks[hook]:
            try:
                given = _checked(await self._returned(addon, function, opened.session, *told, message), hook)
            except (Exception, asyncio.CancelledError) as error:  # it concerns this message only
                if _is_cancelled():
                    raise
                self._tell_failure(addon, hook, error)
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
            self._remember(opened, message)
        return (how, by, message.raw) if how else ("same", "", b"")

    async def close(self, id: str | None = None) -> None:
        """Call the hooks ``closed`` for one open session; for all of them if ``id`` is ``None``."""
        for name in [id] if id is not None else list(self._sessions):
            if opened := self._sessions.pop(name, None):
                await self._tell("closed", opened.session)

    async def tell_findings(self, reader: FindingReader) -> None:
        """Call the hooks ``finding`` for the findings since the last call."""
        for finding in reader.read():
            opened = self._sessions.get("") or await self._open("")
            await self._tell("finding", opened.session, finding)

    async def _open(self, id: str) -> _OpenSession:
        if len(self._sessions) >= _MOST_SESSIONS:
            await self.close(next(iter(self._sessions)))
        opened = self._sessions[id] = _OpenSession(Session(id, self._transport))
        await self._tell("opened", opened.session)
        return opened

    async def _tell(self, hook: str, session: Session, *told: object) -> None:
        """Call the hooks whose result does not count."""
        for addon, function in self._hooks[hook]:
            try:
                await self._returned(addon, function, session, *told)
            except (Exception, asyncio.CancelledError) as error:  # as in ``_call``
                if _is_cancelled():
                    raise
                self._tell_failure(addon, hook, error)

    async def _returned(self, addon: Addon, function: Callable[..., object], *told: object) -> object:
        """Call a hook, and wait for its result as long as the budget of its addon allows."""
        result = function(*told)
        if result is None or not inspect.isawaitable(result):
            return result
        if self.has_only_functions:  # there is no task that could wait; there is one from the next message on
            self.has_only_functions = False
            if isinstance(result, Coroutine):
                cast("Coroutine[object, object, object]", result).close()
            raise TypeError("a function returned what has to be awaited; write it as async def")
        return await asyncio.wait_for(cast("Awaitable[object]", result), addon.budget_s)

    def _tell_failure(self, addon: Addon, hook: str, error: BaseException) -> None:
        is_late = isinstance(error, TimeoutError)
        why = f"took longer than {addon.budget_s:g} s" if is_late else _error_text(error)
        self.note(f"{addon_name(addon)}.{hook}: {why}")

    def note(self, text: str) -> None:
        """Let the relay write a line to stderr."""
        line = " ".join(text.split())[:_NOTE_CHARACTERS]
        self._send(encode_frame(0, "note", content=line.encode("utf-8", "replace")))

    def note_asyncio(self, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        """Let the relay write one line for what asyncio would write a traceback for."""
        del loop
        error = about.get("exception")
        why = f": {_error_text(error)}" if isinstance(error, BaseException) else ""
        self.note(f"{', '.join(map(addon_name, self._addons))}: {about.get('message', '')}{why}")

    def _remember(self, opened: _OpenSession, message: Message) -> None:
        opened.requests.add(message.sender, _id(message), message)


def addon_name(addon: Addon) -> str:
    return type(addon).__name__


def _error_text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own text fails
        return type(error).__name__


def _is_cancelled() -> bool:
    """Whether this task was cancelled, and not only a task for which it waits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _checked(result: object, hook: str) -> Result:
    """Return what a hook returned.

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


def _id(message: Message) -> RequestId | None:
    """Return the id of a request or response; ``None`` if there is none, or none that can be used."""
    try:
        return request_id(message.id)
    except ValueError:  # an addon has replaced the message by one whose id cannot be used
        return None
