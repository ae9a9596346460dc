"""``python -m mcpproxy.intercept.addons.addon_host FD TRANSPORT NAME...``: the process in which addons run.

It reads messages from a socket and answers what becomes of each. Whatever an addon does, it does it here: the
relay waits for an answer no longer than the addon's budget, and then ends this process and starts another.
"""

import asyncio
import inspect
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Final, Literal, cast

from mcpproxy.addons import DROP, Addon, Answer, Message, Result, Sender, Session
from mcpproxy.intercept.addons.addon_findings import FindingReader
from mcpproxy.intercept.addons.addon_frames import AddonFrame, FrameReader, frame
from mcpproxy.intercept.addons.addon_loading import AddonError, load

HOOKS: Final = ("request", "response", "notification", "opened", "closed", "finding")
LIMIT_BYTES: Final = 16 << 20
"""The longest message that an addon may return."""

_CHUNK_BYTES: Final = 64 << 10
_MOST_OPEN: Final = 10_000
"""How many requests of a session are remembered for ``response``; the oldest is forgotten first."""
_LOOK_S: Final = 0.2
"""How often the recording is read for findings, if an addon wants them."""
_GRACE_S: Final = 2.0
"""How long hooks may run on when the relay has gone."""


class _Open:
    """A session, and its requests that wait for an answer."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.requests: dict[tuple[Sender, str], Message] = {}


class AddonHost:
    """Calls the hooks of ``addons``, one after the other, and tells what becomes of each message to ``send``,
    in frames."""

    def __init__(
        self, addons: list[Addon], transport: Literal["stdio", "http"], send: Callable[[bytes], object]
    ) -> None:
        self._transport: Literal["stdio", "http"] = transport
        self._send = send
        self._sessions: dict[str, _Open] = {}
        self._hooks = {
            name: [
                (addon, cast("Callable[..., object]", hook))
                for addon in addons
                if (hook := getattr(addon, name, None))
            ]
            for name in HOOKS
        }
        self.are_functions = not any(
            inspect.iscoroutinefunction(hook) for hooks in self._hooks.values() for _, hook in hooks
        )
        """Whether no hook is a coroutine function, so that nothing here ever waits."""

    @property
    def hooks(self) -> list[str]:
        """The hooks that one of the addons has."""
        return [name for name, hooks in self._hooks.items() if hooks]

    async def take(self, question: AddonFrame) -> None:
        """Do what a frame of the relay asks for."""
        hook, sender, session = question.words
        if hook == "closed":
            await self.close(session)
            return
        opened = self._sessions.get(session) or await self._open(session)
        message = Message(question.content, cast("Sender", sender))
        if hook == "remember":
            self._remember(opened, message)
            return
        how, addon, content = await self._call(hook, opened, message)
        self._send(frame(question.number, how, addon, content=content))

    async def _call(self, hook: str, opened: _Open, message: Message) -> tuple[str, str, bytes]:
        """Call the hooks for a message; return how it goes on, because of which addon, and its new bytes."""
        how = by = ""
        told: tuple[Message | None, ...] = ()
        if hook == "response":
            told = (opened.requests.pop(_key(_other(message.sender), message), None),)
        for addon, function in self._hooks[hook]:
            try:
                given = _checked(await _returned(addon, function, opened.session, *told, message), hook)
            except Exception as error:  # whatever an addon raises concerns this message only
                self._tell_failure(addon, hook, error)
                if addon.fail_open:
                    continue
                return "error", _name(addon), b""
            if given is None:
                continue
            if given is DROP:
                return "drop", _name(addon), b""
            if isinstance(given, Answer):
                return "answer", _name(addon), given.raw
            if given.raw != message.raw:
                message, how, by = given, "new", _name(addon)
        if hook == "request" and self._hooks["response"]:
            self._remember(opened, message)
        return (how, by, message.raw) if how else ("same", "", b"")

    async def close(self, id: str | None = None) -> None:
        """Call ``closed`` of a session, or of all."""
        for name in [id] if id is not None else list(self._sessions):
            if opened := self._sessions.pop(name, None):
                await self._tell("closed", opened.session)

    async def tell_findings(self, reader: FindingReader) -> None:
        """Call ``finding`` for what was found since the last call."""
        for finding in reader.read():
            opened = self._sessions.get("") or await self._open("")
            await self._tell("finding", opened.session, finding)

    async def _open(self, id: str) -> _Open:
        opened = self._sessions[id] = _Open(Session(id, self._transport))
        await self._tell("opened", opened.session)
        return opened

    async def _tell(self, hook: str, session: Session, *told: object) -> None:
        for addon, function in self._hooks[hook]:
            try:
                await _returned(addon, function, session, *told)
            except Exception as error:  # as in ``_call``
                self._tell_failure(addon, hook, error)

    def _tell_failure(self, addon: Addon, hook: str, error: Exception) -> None:
        is_late = isinstance(error, TimeoutError)
        why = f"took longer than {addon.budget_s:g} s" if is_late else f"{type(error).__name__}: {error}"
        note = f"{_name(addon)}.{hook}: {' '.join(why.split())}"[:300]
        self._send(frame(0, "note", content=note.encode("utf-8", "replace")))

    def _remember(self, opened: _Open, message: Message) -> None:
        if len(opened.requests) >= _MOST_OPEN:
            del opened.requests[next(iter(opened.requests))]
        opened.requests[_key(message.sender, message)] = message


def _name(addon: Addon) -> str:
    return type(addon).__name__


async def _returned(addon: Addon, function: Callable[..., object], *told: object) -> object:
    """Call a hook, and wait for its result within its budget."""
    result = function(*told)
    if result is None or not inspect.isawaitable(result):
        return result
    return await asyncio.wait_for(cast("Awaitable[object]", result), addon.budget_s)


def _checked(result: object, hook: str) -> Result:
    """Return what a hook returned, if it may return that."""
    if result is None or result is DROP:
        return result
    if not isinstance(result, Message | Answer):
        raise TypeError(f"it returned a {type(result).__name__}, not a Message, an Answer, DROP or None")
    if isinstance(result, Answer) and hook != "request":
        raise TypeError("only a request can be answered")
    if len(result.raw) > LIMIT_BYTES:
        raise ValueError(f"its message is longer than {LIMIT_BYTES >> 20} MiB")
    return result


def _key(sender: Sender, message: Message) -> tuple[Sender, str]:
    """Return by what a request of ``sender`` is remembered; ``message`` is the request or its response."""
    try:
        return sender, repr(message.id)
    except (ValueError, AttributeError):  # an addon has made something else of it
        return sender, ""


def _other(sender: Sender) -> Sender:
    return "server" if sender == "client" else "client"


class HostLoop:
    """Gives the frames of the relay to a host. Only with ``is_concurrent`` is one begun before the one before
    it is done."""

    def __init__(self, sock: socket.socket, host: AddonHost, *, is_concurrent: bool) -> None:
        self._sock = sock
        self._host = host
        self._is_concurrent = is_concurrent
        self._frames = FrameReader()
        self._backlog: deque[AddonFrame] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._findings: FindingReader | None = None
        self._following: asyncio.Task[None] | None = None
        self._relay_left = asyncio.Event()

    async def run(self) -> None:
        """Do what the relay asks for, until it has gone."""
        asyncio.get_running_loop().add_reader(self._sock, self._on_readable)
        await self._relay_left.wait()
        for task in (*self._tasks, *filter(None, (self._following,))):
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
        self._take_next()

    def _take_next(self) -> None:
        while self._backlog and (self._is_concurrent or not self._tasks):
            question = self._backlog.popleft()
            if question.words[0] == "recording":
                self._findings = FindingReader(question.content.decode())
                self._following = asyncio.create_task(self._follow(self._findings))
            elif self._host.are_functions:
                _finish(self._host.take(question))
            else:
                task = asyncio.create_task(self._host.take(question))
                self._tasks.add(task)
                task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._relay_left.is_set():
            self._take_next()

    async def _follow(self, findings: FindingReader) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            await self._host.tell_findings(findings)


def _finish(coroutine: Coroutine[None, None, None]) -> None:
    """Run a coroutine that never waits; a task for it would take longer than the hook."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()


def _leave_with_the_relay(sock: socket.socket) -> None:
    """End this process soon after the relay has gone, even if a hook never returns."""
    poll = select.poll()
    poll.register(sock, 0)  # a hang-up is reported all the same
    poll.poll()
    time.sleep(_GRACE_S)  # what is still running may end by itself
    os._exit(1)


def main(argv: list[str]) -> int:
    """Run the host; its first frame says which hooks there are, or why the addons cannot be used."""
    fd, transport, *names = argv
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the relay as well
    os.dup2(2, 1)  # stdout belongs to the protocol
    sock = socket.socket(fileno=int(fd))

    def send(data: bytes) -> None:
        with suppress(OSError):  # the relay has gone, which reading shows
            sock.sendall(data)

    try:
        addons = load(names)
    except AddonError as error:
        send(frame(0, "refused", content=str(error).encode("utf-8", "replace")))
        return 2
    host = AddonHost(addons, "http" if transport == "http" else "stdio", send)
    is_concurrent = all(addon.concurrent for addon in addons)
    about = {
        "hooks": host.hooks,
        "concurrent": is_concurrent,
        "budget_s": sum(addon.budget_s for addon in addons),
        "fail_open": all(addon.fail_open for addon in addons),
        "addons": [_name(addon) for addon in addons],
    }
    send(frame(0, "ready", content=json.dumps(about).encode()))
    threading.Thread(target=_leave_with_the_relay, args=(sock.dup(),), daemon=True).start()
    asyncio.run(HostLoop(sock, host, is_concurrent=is_concurrent).run())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
