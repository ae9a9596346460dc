"""Let the next ``mcpproxy ui --open`` on the same folder find a page that already runs, and open it again.

The page listens at a socket in the state folder, to which only its own user can connect. A program that
connects gets two lines: an address with a ticket (a token that works once), and, when the ticket has been
used, a line that says so. So no secret is in a file, and a page that has ended is never mistaken for a
running one.
"""

import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Final

from mcpproxy.base import own_sockets, paths
from mcpproxy.show.ui.redirect_file import LIFETIME_S

_ANSWER_S: Final = 5.0
"""How long a running page may take to answer."""
_USED: Final = b"used\n"
"""The second line of an answer: the ticket was used."""


def socket_path(folder: str, options: str) -> str:
    """Return the path of the socket of a page that shows ``folder`` with these ``options``."""
    shown = f"{os.path.realpath(folder)}\n{options}"
    return os.path.join(
        paths.state_dir(), f"page-{sha256(shown.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}.sock"
    )


@contextmanager
def announced(path: str, new_address: Callable[[Callable[[], None]], str]) -> Generator[None]:
    """Answer at the socket ``path`` within this context.

    ``new_address`` returns an address that works once, within ``LIFETIME_S``. Its argument is called when the
    address is used. If the socket cannot be made, for example because another page of this folder has it,
    nothing is answered.
    """
    try:
        if not hasattr(socket, "AF_UNIX"):
            raise OSError("this system has no such sockets")
        listener = own_sockets.OwnListener(path)
    except OSError:
        yield
        return

    def answer(connection: socket.socket) -> None:
        used = threading.Event()
        with connection, suppress(OSError):
            connection.sendall(f"{new_address(used.set)}\n".encode())
            if used.wait(LIFETIME_S):
                connection.sendall(_USED)

    def accept() -> None:
        with suppress(OSError):  # the listener is closed at the end
            while True:
                connection, _ = listener.socket.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        listener.close()


class RunningPage:
    """A connection to a page that runs. ``url`` is an address of the page that works once.

    Raises:
        OSError: no page runs, or it does not answer.
    """

    def __init__(self, path: str) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise OSError("this system has no such sockets")
        self._socket: Final = own_sockets.connect(path, _ANSWER_S)
        self._lines: Final = self._socket.makefile("rb")
        try:
            self.url: Final = self._lines.readline().decode().strip()
            if not self.url:
                raise ConnectionError("the page has ended")
        except BaseException:
            self.close()
            raise

    def wait_until_used(self) -> None:
        """Wait until the address has been used, for at most ``LIFETIME_S``."""
        self._socket.settimeout(LIFETIME_S)
        with suppress(OSError):
            self._lines.readline()

    def close(self) -> None:
        """Close the connection."""
        self._lines.close()
        self._socket.close()
