"""``mcpproxy ui``: recordings in a browser."""

import argparse
import os
import shlex
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Final

from mcpproxy.base import paths
from mcpproxy.base.json_string import quoted
from mcpproxy.base.system_words import os_reason
from mcpproxy.cli import find_traces, upstream_options
from mcpproxy.cli.address_arguments import address
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.terminal import tell
from mcpproxy.record.relay.stderr_line import StderrEvent, use_json

if TYPE_CHECKING:
    from mcpproxy.base.upstream.settings import UpstreamSettings
    from mcpproxy.judge.checks.opt_in.pins import Pins
    from mcpproxy.show.ui.bearer import PageKeys
    from mcpproxy.show.ui.page_server import PageServer
    from mcpproxy.show.ui.redirect_file import RedirectFile

_LISTEN: Final = "127.0.0.1:0"
PINS: Final = "pins.json"
"""The file of pins, the approved definitions of tools, in a folder of recordings."""

EPILOG: Final = """\
The page shows the recordings of a folder, and new ones as they are made. Its address has a token, which
every visitor needs, and works once; then the next one is printed. The page reads files; it is never
part of a session, and it changes nothing unless --allow-send is given.

  mcpproxy ui                       the folder of all recordings
  mcpproxy ui --open                and open the browser; if such a page runs already, on that one
  mcpproxy ui session.jsonl         one recording
  mcpproxy ui --pins pins.json      and what has changed in the tools since they were pinned
  mcpproxy ui --allow-send          calls may be sent again, edited, to the server of the recording, and what
                                    breakpoints hold may be answered"""


def run(argv: list[str]) -> int:
    """Serve the page until it is interrupted; with ``--open``, open one that runs already instead.

    Raises:
        McpProxyError: the arguments are not valid, or the port is taken.
    """
    parser = Parser("ui", "Show recordings in a browser: calls, timing, findings, live.", EPILOG)
    parser.add_argument(
        "path",
        nargs="?",
        metavar="TRACE|DIR",
        help=f"{find_traces.HELP}; or a folder; without it the folder of all recordings",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=_LISTEN,
        help="where to serve the page (default: a free port of 127.0.0.1)",
    )
    parser.add_argument(
        "--allow-send",
        action="store_true",
        help="calls may be sent again to their server, and messages that breakpoints hold answered",
    )
    parser.add_argument(
        "--pins",
        metavar="FILE",
        help="show which tools differ from these pins (default: pins.json beside the recordings)",
    )
    upstream_options.add_options(parser, has_header=False)
    # See mcpproxy/show/ui/beside.py.
    parser.add_argument("--beside", choices=("text", "json"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.beside == "json":
        use_json()
    upstream = upstream_options.from_namespace(options)
    path: str = options.path or _state_folder()
    if not options.beside:  # beside a session that has just begun, the file may not exist yet
        path = find_traces.place(options.path) if options.path else path
    host, port = address("--listen", options.listen)
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    page_socket = _socket_path(path, options, upstream)
    if options.open and page_socket and _open_running_page(page_socket):
        return 0
    pins = _pins(options.pins or "", folder)

    from mcpproxy.show.ui.bearer import PageKeys
    from mcpproxy.show.ui.library import Library
    from mcpproxy.show.ui.page_app import PageApp
    from mcpproxy.show.ui.page_server import PageServer
    from mcpproxy.show.ui.redirect_file import LIFETIME_S
    from mcpproxy.show.ui.running_page import announced
    from mcpproxy.show.ui.send import CallSender

    try:
        server = PageServer(host, port)
    except OSError as error:
        raise UsageError(options.listen, os_reason(error), "choose another address with --listen") from None
    if options.path and os.path.isdir(path) and not find_traces.recent(path):
        find_traces.tell_of_folders_below(path, lambda below: ["mcpproxy", "ui", below])
    page = PageApp(Library(path), CallSender(folder, upstream) if options.allow_send else None, pins)
    if not server.is_local:
        tell("other machines can reach this page; who has its address can read every recording in the folder")
    keys = PageKeys()
    home = server.url_of("/")

    def new_address(when_used: Callable[[], None]) -> str:
        return f"{home}?token={keys.new_ticket(when_used, LIFETIME_S)}"

    with ExitStack() as around:
        if page_socket:
            around.enter_context(announced(page_socket, new_address))
        if options.beside:
            ticket = keys.new_ticket(_print_no_address)
            later = f"mcpproxy ui {shlex.quote(path)}"
            text = f"page: {home}?token={ticket} (it ends with the session; later: {later})"
            tell(StderrEvent(text, "page", url=quoted(f"{home}?token={ticket}")))
            _end_with_stdin(server)
        else:
            _print_address(keys, home)
        if options.open:
            files: list[RedirectFile] = []
            address_to_open = new_address(lambda: files[0].remove())
            around.enter_context(_opening_browser(address_to_open, files))
        server.run(keys.lock(page.app()))
    return 0


def _socket_path(path: str, options: argparse.Namespace, upstream: "UpstreamSettings") -> str:
    """Return the path of the socket that announces the page to later commands; empty to announce nothing."""
    if options.beside or options.listen != _LISTEN:
        return ""
    from mcpproxy.show.ui.running_page import socket_path

    reaching = " ".join(upstream_options.arguments(upstream))
    return socket_path(path, f"{options.allow_send} {options.pins or ''} {reaching}")


def _open_running_page(page_socket: str) -> bool:
    """Open the browser on a page that runs already; return ``False`` if none runs.

    Wait until its address was used, for at most a minute.
    """
    from mcpproxy.show.ui.running_page import RunningPage

    try:
        page = RunningPage(page_socket)
    except OSError:
        return False
    with closing(page):
        files: list[RedirectFile] = []
        with _opening_browser(page.url, files):
            tell("this page runs already; its address works once, within a minute")
            sys.stdout.write(f"{page.url}\n")
            sys.stdout.flush()
            page.wait_until_used()
    return True


def _print_no_address() -> None:
    """Print nothing: the page beside a session no longer has a stderr to print to."""


def _print_address(keys: "PageKeys", home: str) -> None:
    """Print an address with a ticket, a token that works once; print the next one when it was used."""
    ticket = keys.new_ticket(lambda: _print_address(keys, home))
    try:
        sys.stdout.write(f"{home}?token={ticket}\n")
        sys.stdout.flush()
    except OSError:
        pass  # nobody reads the addresses any more; open pages stay usable


@contextmanager
def _opening_browser(url: str, files: "list[RedirectFile]") -> Generator[None]:
    """Open the browser on ``url`` within this context, through a redirect file that is added to ``files``."""
    import signal
    import webbrowser

    from mcpproxy.show.ui.redirect_file import RedirectFile

    def end(number: int, frame: object) -> None:
        del frame
        for file in files:
            file.remove()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    for name in ("SIGTERM", "SIGHUP"):  # these end a process without running ``finally``
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    try:
        files.append(RedirectFile(url))
    except OSError as error:
        tell(f"the browser is not opened: {error.filename}: {error.strerror}; open the printed address")
        yield
        return
    try:
        if not webbrowser.open(files[0].url):
            tell("there is no browser to open; open the printed address in one")
        yield
    finally:
        files[0].remove()


def _pins(named: str, folder: str) -> "Pins | None":
    """Return the pins, approved definitions of tools, in ``named`` or else in the folder's file of pins.

    Return ``None`` without ``named`` if the folder has no such file, or one that cannot be read.

    Raises:
        UsageError: the file ``named`` cannot be read.
    """
    path = named or os.path.join(folder, PINS)
    if not named and not os.path.exists(path):
        return None
    from mcpproxy.read.reports import pin_file

    try:
        return pin_file.read(path)
    except UsageError as fault:
        if named:
            raise
        tell(f"{fault}; the page does not show what has changed")  # the recordings can still be shown
        return None


def _end_with_stdin(server: "PageServer") -> None:
    """Stop the server at the end of stdin.

    stdout and stderr lead to the null device from now on: a host may wait until no process has its pipe open.
    """
    devnull = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(devnull, fd)

    def wait() -> None:
        os.read(0, 1)
        server.stop()

    threading.Thread(target=wait, daemon=True).start()


def _state_folder() -> str:
    """Create and return the folder of all recordings; the first may be made while the page is open.

    Raises:
        UsageError: it cannot be created.
    """
    folder = paths.state_dir()
    try:
        paths.make_private(folder)
    except OSError as error:
        reason = (error.strerror or "cannot be created").lower()
        raise UsageError(folder, reason, "name a folder of recordings") from None
    return folder
