"""``mcpproxy mcp``: recordings for agents, by an MCP server that only reads without ``--allow-validate``."""

import asyncio
import os
import secrets
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

from mcpproxy.base import extras, paths
from mcpproxy.base.system_words import os_reason
from mcpproxy.cli.address_arguments import address
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.terminal import tell, tell_on_a_terminal

if TYPE_CHECKING:
    from mcpproxy.show.agents.recording_server import RecordingServer

EPILOG: Final = """\
The server speaks on stdin and stdout, so a host starts it:

  {"mcpServers": {"recordings": {"command": "mcpproxy", "args": ["mcp"]}}}

It reads recordings and writes nothing. What looks like a secret is masked. Over HTTP each request needs the
token that is printed, as Authorization: Bearer TOKEN; MCPPROXY_MCP_TOKEN sets it."""

TOKEN: Final = "MCPPROXY_MCP_TOKEN"
"""The environment variable with the user's own token."""

_SHORTEST_TOKEN: Final = 16
"""How many characters that token has at least."""


def check_installed() -> None:
    """Check that the MCP SDK is installed.

    Raises:
        UsageError: it is missing, or an old version is installed.
    """
    extras.check("mcp", "mcp", "mcp", "mcp_types")  # ``mcp_types`` came with version 2 of ``mcp``


def run(argv: list[str]) -> int:
    """Serve agents until the client leaves, or until interrupted.

    Raises:
        UsageError: the arguments are not valid, the MCP SDK is missing, or the port is taken.
    """
    parser = Parser("mcp", "Give recordings to agents: an MCP server that lists, finds and explains.", EPILOG)
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="DIR",
        help="the folder with the recordings (default: the state directory)",
    )
    parser.add_argument(
        "--http", metavar="HOST:PORT", help="Streamable HTTP at this address instead of stdio; port 0: any"
    )
    parser.add_argument(
        "--allow-validate",
        action="store_true",
        help="also a tool that tests servers: it starts commands that the agent names",
    )
    options = parser.parse_args(argv)
    folder: str = options.folder or paths.state_dir()
    if options.folder and not os.path.isdir(folder):
        fact = "not a folder" if os.path.exists(folder) else "no such folder"
        raise UsageError(folder, fact, "name a folder of recordings")
    host, port = address("--http", options.http) if options.http else ("", 0)
    token = os.environ.get(TOKEN, "")
    if options.http and token and len(token) < _SHORTEST_TOKEN:
        raise UsageError(TOKEN, "is easy to guess", f"set {_SHORTEST_TOKEN} characters or more")
    check_installed()

    from mcpproxy.show.agents.recording_library import RecordingLibrary

    with RecordingLibrary(folder) as library:
        # The ends of all recordings are read in advance, while the SDK is imported.
        threading.Thread(target=library.recordings, daemon=True).start()
        from mcpproxy.show.agents.recording_server import RecordingServer

        server = RecordingServer(library, allows_validate=options.allow_validate)
        if options.http:
            _serve_http(server, options.http, host, port, token)
        else:
            # A thread waits for stdin. Only the end of the process ends it, and there is nothing to clean up.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            tell_on_a_terminal(
                "waiting for a client on stdin; mcpproxy hosts --add-mcp HOST lets a host start this; "
                "Ctrl-C ends"
            )
            asyncio.run(server.serve_stdio())
    return 0


def _serve_http(server: "RecordingServer", where: str, host: str, port: int, token: str) -> None:
    """Serve over HTTP until interrupted, and print the URL and, if none was given, a new token.

    Raises:
        UsageError: the port is not available.
    """
    from mcpproxy.show.agents import http
    from mcpproxy.show.ui.bearer import one_secret
    from mcpproxy.show.ui.page_server import PageServer

    try:
        page = PageServer(host, port)
    except OSError as error:
        raise UsageError(where, os_reason(error), "choose another address with --http") from None
    if not page.is_local:
        tell("other machines can reach this server; who has its token can read every recording in the folder")
    sys.stdout.write(f"{page.url_of(http.PATH)}\n")
    if not token:
        token = secrets.token_urlsafe(24)
        sys.stdout.write(f"Authorization: Bearer {token}\n")
    sys.stdout.flush()
    page.run(one_secret(http.app(server), token, http.STATUS_WITHOUT_TOKEN))
