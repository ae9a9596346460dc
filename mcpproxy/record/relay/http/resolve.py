"""Look up the addresses of a server (upstream) without making the loop wait.

A literal address needs no look-up. Each name is looked up in a separate thread. Callers that ask for the same
name and port meanwhile get the same answer. Addresses that were found are cached for a few seconds. Every
caller gets an answer, even if the look-up fails unexpectedly.
"""

from __future__ import annotations

import _thread
import errno
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.base.upstream.http_proxy import HttpProxy
    from mcpproxy.record.relay.http.loop import OnFault

    Address = tuple[int, "tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]"]  # family, address
    Answer = list[Address] | OSError
    OnAnswer = Callable[[Answer], None]

CACHED_S: Final = 10.0
"""How long the addresses of a name are cached."""

_CACHED_NAMES: Final = 1024
"""How many names are cached; then the cache is cleared."""


class Upstream:
    """A server: its address, the path and query of its endpoint (where it serves MCP), and how it is
    reached."""

    __slots__ = ("authority", "by_connect", "host", "is_tls", "path", "port", "proxy", "query")

    def __init__(self, host: str, port: int, is_tls: bool = False, path: str = "", query: str = "") -> None:
        self.host = host  # without brackets
        self.port = port
        self.is_tls = is_tls
        literal = f"[{host}]" if ":" in host else host
        self.authority = literal if port == (443 if is_tls else 80) else f"{literal}:{port}"  # for ``Host``
        self.path = path  # of the endpoint; empty if it is that of mcpproxy's own endpoint
        self.query = query  # added to every request to the endpoint
        self.proxy: HttpProxy | None = None  # the HTTP proxy through which the server is reached
        self.by_connect = is_tls  # whether the HTTP proxy is asked for a tunnel

    @property
    def origin(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"

    @property
    def address(self) -> str:
        """``host:port``, always with the port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Resolver:
    """Looks names up. ``wake`` is called from another thread when the loop should call ``deliver``.

    ``on_fault`` is called with a callback that raises, and with the exception.
    """

    def __init__(self, wake: Callable[[], None], on_fault: OnFault) -> None:
        self._wake = wake
        self._on_fault = on_fault
        self._waiting: dict[tuple[str, int], list[OnAnswer]] = {}
        self._cached: dict[tuple[str, int], tuple[float, list[Address]]] = {}
        self._finished: list[tuple[tuple[str, int], Answer]] = []

    def ask(self, host: str, port: int, on_answer: OnAnswer) -> None:
        """Call ``on_answer`` with the addresses or with the error, immediately or later."""
        key = host, port
        cached = self._cached.get(key)
        if cached is not None and cached[0] > time.monotonic():
            on_answer(cached[1])
            return
        try:
            addresses = _look_up(host, port, socket.AI_NUMERICHOST)
        except OSError:  # ``host`` is not an address but a name
            if key in self._waiting:
                self._waiting[key].append(on_answer)
                return
            try:
                _thread.start_new_thread(self._look_up_in_thread, (key,))
            except RuntimeError:
                on_answer(OSError(errno.EAGAIN, "no thread can be started for the look-up"))
            else:
                self._waiting[key] = [on_answer]
            return
        self._cache(key, addresses)
        on_answer(addresses)

    def prefer(self, host: str, port: int, address: Address) -> None:
        """While the addresses of the host are cached, try ``address`` first: it has accepted a connection."""
        cached = self._cached.get((host, port))
        if cached is not None and cached[1][0] != address and address in cached[1]:
            cached[1].remove(address)
            cached[1].insert(0, address)

    def deliver(self) -> None:
        """Pass the answers of finished look-ups to the callers that wait for them."""
        while self._finished:
            key, answer = self._finished.pop(0)
            if isinstance(answer, list):
                self._cache(key, answer)
            for on_answer in self._waiting.pop(key):
                try:
                    on_answer(answer)
                except Exception as fault:
                    self._on_fault(on_answer, fault)

    def _cache(self, key: tuple[str, int], addresses: list[Address]) -> None:
        if len(self._cached) >= _CACHED_NAMES:
            self._cached.clear()
        self._cached[key] = time.monotonic() + CACHED_S, addresses

    def _look_up_in_thread(self, key: tuple[str, int]) -> None:
        try:
            answer: Answer = _look_up(*key, 0)
        except OSError as error:
            answer = error
        except UnicodeError:
            answer = OSError(0, "the name is not a host name")
        except Exception as fault:
            answer = OSError(0, f"a fault of mcpproxy: {fault!r}")
        self._finished.append((key, answer))
        self._wake()


def _look_up(host: str, port: int, flags: int) -> list[Address]:
    name = host.encode() if host.isascii() else host  # a str makes Python import a codec: 2 ms
    address_infos = socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP, flags)
    return [(int(family), address) for family, _, _, _, address in address_infos]
