"""The control socket beside a recording: ``mcpproxy breakpoints`` and the page release messages through it.

Each command is a JSON object on one line, and so is each answer. Only the user who runs the session may
connect. The socket never blocks the relay.
"""

import base64
import json
import select
import socket
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from mcpproxy.base import own_sockets
from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES
from mcpproxy.gate.intercept.fault_actions import FaultAction
from mcpproxy.gate.intercept.held_messages import HeldMessage, NotDoneError, NothingHeldError, Release
from mcpproxy.protocol.error_message import INTERNAL_ERROR
from mcpproxy.protocol.jsonrpc import Batch, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import target_of

Command: TypeAlias = dict[str, object]
"""A command, or the answer to one."""

CONTROL_SUFFIX: Final = ".control"
"""The suffix that makes the path of the socket from the path of the recording."""

_COMMAND_BYTES: Final = 2 * LIMIT_BYTES
"""The longest command: twice the longest message that is held."""
_MOST_CLIENTS: Final = 16
"""How many clients may be connected; the client that has been silent longest is disconnected first."""
_PAST: Final = {"resume": "resumed", "drop": "dropped", "edit": "edited", "error": "answered with an error"}
"""Name of a command -> its past tense, to tell a later client what became of a message."""
_MOST_REMEMBERED: Final = 1000
"""How many released messages are remembered, so that a second command is told what the first did."""
_WAYS: Final = {"resume": "pass", "drop": "drop", "edit": "edit", "error": "error"}
"""Name of a command -> ``how`` of its ``Release``."""
_START_BYTES: Final = 200
"""How many bytes of each message a list of beginnings has."""


def control_path(trace: str) -> str:
    """Return the path of the socket of the session recorded into ``trace``; empty if it is not recorded."""
    return trace + CONTROL_SUFFIX if trace else ""


class Control:
    """The relay's side of the socket.

    ``register`` and ``unregister`` are functions of the relay's loop: the first takes a file descriptor, a
    handler and the events to poll for. ``on_command`` returns the answer to a command, and raises a
    ``NotDoneError`` if it is not a command or cannot be carried out.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(
        self,
        path: str,
        register: Callable[[int, Callable[[int], None], int], None],
        unregister: Callable[[int], None],
        on_command: Callable[[Command], Command],
    ) -> None:
        self._register, self._unregister, self._on_command = register, unregister, on_command
        self._clients: dict[_Client, None] = {}
        self._released: dict[object, str] = {}
        self._socket: Final = own_sockets.OwnListener(path)
        self._listener: Final = self._socket.socket
        self._listener.setblocking(False)
        register(self._listener.fileno(), self._on_listener, select.POLLIN)

    def close(self) -> None:
        """Disconnect all clients, and remove the socket."""
        for client in list(self._clients):
            self._disconnect(client)
        self._unregister(self._listener.fileno())
        self._socket.close()

    def _on_listener(self, events: int) -> None:
        del events
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the client has gone already
            return
        sock.setblocking(False)
        if len(self._clients) >= _MOST_CLIENTS:
            self._disconnect(next(iter(self._clients)))
        client = _Client(sock)
        self._clients[client] = None
        self._register(sock.fileno(), lambda _: self._on_client(client), select.POLLIN)

    def _on_client(self, client: "_Client") -> None:
        try:
            if not client.unsent:
                client.read()
                del self._clients[client]
                self._clients[client] = None
            # One answer at a time, so that answers do not pile up for a client that does not read.
            client.send()
            while not client.unsent and (line := client.take_line()) is not None:
                client.unsent = json.dumps(self._answer_to(line)).encode() + b"\n"
                client.send()
        except OSError:  # the connection has ended
            self._disconnect(client)
            return
        self._unregister(client.sock.fileno())
        events = select.POLLOUT if client.unsent else select.POLLIN
        self._register(client.sock.fileno(), lambda _: self._on_client(client), events)

    def _answer_to(self, line: bytes) -> Command:
        try:
            command: Any = json.loads(line)
            if not isinstance(command, dict):
                return {"refused": "not a command"}
            answer = self._on_command(cast("Command", command))
        except NothingHeldError as error:
            if how := self._released.get(error.number):
                return {"refused": f"message {error.number} was {how} already", "gone": True}
            return {"refused": f"nothing is held by the number {error.number}", "gone": True}
        except NotDoneError as error:
            return {"refused": str(error)}
        except Exception:  # no command may end the session
            return {"refused": "not a command"}
        if "done" in answer:
            self._released[answer["number"]] = _PAST[str(answer["done"])]
            if len(self._released) > _MOST_REMEMBERED:
                del self._released[next(iter(self._released))]
        return answer

    def _disconnect(self, client: "_Client") -> None:
        self._clients.pop(client, None)
        self._unregister(client.sock.fileno())
        client.sock.close()


def listen(
    path: str,
    register: Callable[[int, Callable[[int], None], int], None],
    unregister: Callable[[int], None],
    on_command: Callable[[Command], Command],
    say: Callable[[str], None],
) -> Control | None:
    """Return the control of a session, with the arguments of ``Control``.

    If there can be none, ``say`` gets the reason as a line for stderr, and the result is ``None``.
    """
    try:
        if not path:
            raise OSError("nothing is recorded")
        return Control(path, register, unregister, on_command)
    except OSError as error:
        why = error.strerror or str(error)
        say(f"no breakpoint can be answered ({why}); what is held goes on when its time is over")
        return None


class _Client:
    """A connection to the relay."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.unsent = b""
        self._unread = bytearray()
        self._searched = 0
        """How many of the unread bytes are known to contain no line feed."""

    def read(self) -> None:
        """Read the bytes that have arrived.

        Raises:
            OSError: the client has closed the connection, or its command is too long.
        """
        try:
            data = self.sock.recv(1 << 16)
        except BlockingIOError:
            return
        if not data or len(self._unread) > _COMMAND_BYTES:
            raise ConnectionAbortedError
        self._unread += data

    def take_line(self) -> bytes | None:
        """Remove the next complete line from the unread bytes and return it; ``None`` if there is none."""
        end = self._unread.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._unread)
            return None
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        self._searched = 0
        return line

    def send(self) -> None:
        """Send as many of the unsent bytes as the socket takes.

        Raises:
            OSError: the client has closed the connection.
        """
        if not self.unsent:
            return
        try:
            self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            pass


def do_command(
    command: Command, messages: list[HeldMessage], now_ns: int, release: Callable[[Release], None]
) -> Command:
    """Carry out a command about the held ``messages``, and return the answer.

    ``list`` returns all messages. ``list`` with ``starts`` returns only their beginnings, so that long
    messages cost little, and a ``state``. If the client sends that ``state`` with its next such command and
    the same messages are held, the answer is ``{"same": true}``. ``show`` returns one message. ``resume``,
    ``drop``, ``edit`` and ``error`` release one.

    Raises:
        NothingHeldError: nothing is held under this number.
        NotDoneError: it is not a command, or cannot be carried out; then the message is still held.
    """
    do, number = command.get("do"), command.get("number")
    if do == "list" and command.get("starts") is True:
        state = hash(tuple(held.mark.number for held in messages))
        if command.get("state") == state:
            return {"same": True}
        return {"state": state, "held": [_facts_and_start(held, now_ns) for held in messages]}
    if do == "list":
        return {"held": [_facts_and_message(held, now_ns) for held in messages]}
    if do == "show" and type(number) is int:
        shown = [_facts_and_message(held, now_ns) for held in messages if held.mark.number == number]
        if not shown:
            raise NothingHeldError(number)
        return {"held": shown}
    wanted = _read_release(command)
    release(wanted)
    return {"done": do, "number": wanted.number}


def _facts(held: HeldMessage, now_ns: int) -> Command:
    return {
        "number": held.mark.number,
        "from": held.sender,
        "rule": held.mark.rule,
        "held_s": round((now_ns - held.since_ns) / 1e9, 3),
        "left_s": round(max(0, held.until_ns - now_ns) / 1e9, 3),
        "then": held.then,
        "findings": [{"rule": finding.rule, "message": finding.message} for finding in held.findings],
    }


def _facts_and_message(held: HeldMessage, now_ns: int) -> Command:
    raw = held.raw.removesuffix(b"\n")
    return {**_facts(held, now_ns), "base64": base64.b64encode(raw).decode()}


def _facts_and_start(held: HeldMessage, now_ns: int) -> Command:
    raw, method, target, id = held.raw.removesuffix(b"\n"), "", None, None
    match held.message:
        case Request() as message:
            kind, method, id = "request", message.method, message.id
            target = target_of(method, message.params)
        case Notification() as message:
            kind, method = "notification", message.method
        case Response() | ErrorResponse() as message:
            kind, id = "answer", message.id if isinstance(message.id, int | str) else None
        case Batch():
            kind = "batch"
        case _:
            kind = "not-a-message"
    return {
        **_facts(held, now_ns),
        "kind": kind,
        "method": method,
        "target": target,
        "id": None if id is None else json.dumps(id, ensure_ascii=False),
        "bytes": len(raw),
        "start": base64.b64encode(raw[:_START_BYTES]).decode(),
    }


def _read_release(command: Command) -> Release:
    """Return the release that a command asks for.

    Raises:
        NotDoneError: it is not a command, or its new message or error cannot be used.
    """
    number, how = command.get("number"), _WAYS.get(str(command.get("do")))
    if how is None or type(number) is not int:
        raise NotDoneError("not a command")
    return Release(number, how, _new_message(command) if how == "edit" else b"", _error_action(command))


def _new_message(command: Command) -> bytes:
    try:
        data = base64.b64decode(str(command.get("base64", "")), validate=True)
    except ValueError:
        raise NotDoneError("the new message is not base64") from None
    if not data.strip():
        raise NotDoneError("the new message is empty; drop it to give nothing")
    if len(data) > LIMIT_BYTES:
        raise NotDoneError(f"the new message is longer than {LIMIT_BYTES >> 20} MiB")
    return data


def _error_action(command: Command) -> FaultAction:
    code, text = command.get("code", INTERNAL_ERROR), command.get("message", "Internal error")
    if type(code) is not int or not isinstance(text, str):
        raise NotDoneError("an error has a whole number as its code, and a text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotDoneError("the text of the error is not UTF-8") from None
    return FaultAction("error", text=text, code=code)
