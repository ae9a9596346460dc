"""Faults of ours, for a relay that drive_http.py starts: each breaks a function, once or for good."""

import _thread
import errno
import resource
import socket
from collections.abc import Callable
from typing import Any

from mcpproxy.record.relay.http import portable, proxy, resolve, tls, tunnel
from mcpproxy.record.relay.http.dial import Dial
from mcpproxy.record.relay.http.socket import TunnelSocket
from mcpproxy.record.relay.http.tunnel import Tunnel
from mcpproxy.record.relay.journal import Journal

FAULT = ValueError("out of order")


def break_down(owner: object, name: str, times: int = 1, fault: Exception = FAULT) -> None:
    """Have a function raise so many times before it does its work again."""
    work: Callable[..., Any] = getattr(owner, name)
    left = [fault] * times

    def broken(*args: Any) -> Any:
        if left:
            raise left.pop()
        return work(*args)

    setattr(owner, name, broken)


def while_looking_up() -> None:
    """Break the look-up, which runs in a thread."""
    look_up: Callable[..., Any] = vars(resolve)["_look_up"]
    left = [FAULT]

    def broken(host: str, port: int, flags: int) -> Any:
        if left and flags != socket.AI_NUMERICHOST:
            raise left.pop()
        return look_up(host, port, flags)

    setattr(resolve, "_look_up", broken)  # noqa: B010 # it is private


def while_lingering() -> None:
    setattr(tunnel, "LINGER_S", 0.01)  # noqa: B010 # it is Final
    break_down(Tunnel, "close")


def with_few_sockets() -> None:
    setattr(portable, "MOST_SOCKETS", 8)  # noqa: B010 # it is Final
    resource.setrlimit(resource.RLIMIT_NOFILE, (28, 28))


def with_short_sends() -> None:
    """Have each socket of a tunnel take 1,000 bytes at most."""
    begin: Callable[..., None] = vars(TunnelSocket)["__init__"]

    def short(self: TunnelSocket, loop: object, sock: socket.socket, handler: object) -> None:
        begin(self, loop, sock, handler)

        def send(out: bytes | memoryview) -> int:
            return sock.send(out[:1000])

        setattr(self, "_send", send)  # noqa: B010 # it is private

    setattr(TunnelSocket, "__init__", short)  # noqa: B010 # pyright knows no other type for it


def while_abandoning() -> None:
    """A fault, and then another one when the connection is released."""
    break_down(Dial, "_on_addresses")
    break_down(TunnelSocket, "unwatch", 3, ValueError("out of order as well"))


FAULTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "few sockets": with_few_sockets,
    "short sends": with_short_sends,
    "connect timer": lambda: break_down(Dial, "_on_timeout"),
    "lingering timer": while_lingering,
    "handshake": lambda: break_down(vars(tls)["_Handshake"], "continue_handshake"),
    "look-up": lambda: break_down(Dial, "_on_addresses"),
    "every look-up": lambda: break_down(Dial, "_on_addresses", 100),
    "look-up thread": while_looking_up,
    "no look-up thread": lambda: break_down(
        _thread, "start_new_thread", fault=RuntimeError("can't start new thread")
    ),
    "connecting": lambda: break_down(Dial, "_on_connecting"),
    "connected": lambda: break_down(Tunnel, "_use_upstream"),
    "no more descriptors to watch": lambda: break_down(
        Tunnel, "start", fault=OSError(errno.ENOSPC, "no space")
    ),
    "accepting": lambda: break_down(proxy.Proxy, "_begin_tunnel"),
    "abandoning": while_abandoning,
    "stopping": lambda: break_down(Tunnel, "stop"),
    "journaling": lambda: break_down(Journal, "append_all"),
}
