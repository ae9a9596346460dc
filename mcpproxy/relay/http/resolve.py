"""Find the addresses of a host without making the loop wait for a name server.

A literal address needs no look-up. Each name is looked up in a separate thread. Callers that ask for the same
name meanwhile share its answer, which is cached for a few seconds. Every caller gets an answer, even after a
fault.
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

    from mcpproxy.relay.http.loop import OnFault

    Address = tuple[int, "tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]"]  # family, address
    Answer = list[Address] | OSError
    OnAnswer = Callable[[Answer], None]

CACHED_S: Final = 10.0
"""How long the addresses of a name are cached."""

_CACHED_NAMES: Final = 1024


class Resolver:
    """Looks names up. ``wake`` is called from another thread when ``deliver`` has something to do.

    ``on_fault`` is called if an ``on_answer`` raises.
    """

    def __init__(self, wake: Callable[[], None], on_fault: OnFault) -> None:
        self._wake = wake
        self._on_fault = on_fault
        self._waiting: dict[tuple[str, int], list[OnAnswer]] = {}
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}
        self._finished: list[tuple[tuple[str, int], Answer]] = []

    def ask(self, host: str, port: int, on_answer: OnAnswer) -> None:
        """Call ``on_answer`` with the addresses or with the error, now or later."""
        key = host, port
        known = self._known.get(key)
        if known is not None and known[0] > time.monotonic():
            on_answer(known[1])
            return
        try:
            addresses = _look_up(host, port, socket.AI_NUMERICHOST)
        except OSError:  # not an address but a name
            if key in self._waiting:
                self._waiting[key].append(on_answer)
                return
            try:
                _thread.start_new_thread(self._work, (key,))
            except RuntimeError:
                on_answer(OSError(errno.EAGAIN, "no thread can be started for the look-up"))
            else:
                self._waiting[key] = [on_answer]
            return
        self._cache(key, addresses)
        on_answer(addresses)

    def prefer(self, host: str, port: int, address: Address) -> None:
        """Try this address of the host first from now on, because it has answered."""
        known = self._known.get((host, port))
        if known is not None and known[1][0] != address and address in known[1]:
            known[1].remove(address)
            known[1].insert(0, address)

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
        if len(self._known) >= _CACHED_NAMES:
            self._known.clear()
        self._known[key] = time.monotonic() + CACHED_S, addresses

    def _work(self, key: tuple[str, int]) -> None:
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
    found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP, flags)
    return [(int(family), address) for family, _, _, _, address in found]
