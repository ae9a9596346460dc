"""The arguments of ``mcpproxy bridge``."""

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn
from urllib.parse import urlsplit

from mcpproxy.base import paths
from mcpproxy.cli.arguments import (
    Parser,
    UsageError,
    endpoint,
    header,
    positive,
    seconds,
    seconds_or_none,
    split_command,
    split_listen,
    split_url,
)
from mcpproxy.cli.new_recording import OPTIONS, RecordingOptions, add_options
from mcpproxy.relay.exit_status import GRACE_S
from mcpproxy.relay.http.guard import is_loopback

DESCRIPTION: Final = """\
Stands between a client and a server that speak different transports. Messages pass byte for byte; each side
is recorded, and judged while they pass.

  mcpproxy bridge URL             stdio outside, HTTP inside: for a host that knows only stdio
  mcpproxy bridge --stdio -- CMD  HTTP outside, stdio inside: one process of CMD for each session"""

EPILOG: Final = """\
A header may name environment variables: --header 'Authorization: Bearer ${TOKEN}'. Values of --header are
masked in recordings. OAuth is the client's: a bridge obtains no tokens.
The exit code is 0, 1 if the server ended the session, 2 if the arguments are wrong."""

_LEFT_OUT: Final = (
    "--faults", "--fault", "--fault-seed", "--break", "--break-timeout", "--break-then", "--addon",
)  # fmt: skip
"""Options that a bridge does not have: ``mcpproxy run`` before or behind it does the same."""

_HELP: Final = {
    "--trace": "record into FILE, with the name of the leg before its suffix",
    "--enforce": "refuse requests of the client on stdio that break one of these rules; may be given again",
}
"""The help of options that mean something else here than in ``run`` and ``http``."""

_OPTIONS: Final = tuple(
    (name, metavar, _HELP.get(name, text)) for name, metavar, text in OPTIONS if name not in _LEFT_OUT
)

_POLL_RETRY_S: Final = 0.1
"""Messages that come in the meantime are that much later."""

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OWN_FIELDS: Final = (
    "host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "mcp-session-id",
    "last-event-id",
)  # fmt: skip
"""Header fields that the bridge sends itself."""


@dataclass(frozen=True)
class BridgeOptions:
    """The values of the arguments. ``url`` is empty with ``--stdio``, ``command`` without it."""

    recording: RecordingOptions
    label: str
    url: str
    command: Sequence[str]
    headers: Sequence[tuple[str, str]]
    is_insecure: bool
    host: str
    port: int
    endpoint: str
    origins: Sequence[str]
    token: str
    streams: bool
    poll_after_s: float | None
    """After how long the connection of an event stream is closed; ``None`` for never."""
    poll_retry_s: float
    limit: int
    idle_s: float
    grace_s: float
    is_inside: bool
    """Whether this process is the inner half of ``bridge URL``, which speaks HTTP."""

    @property
    def shown_url(self) -> str:
        """The URL without its query, which may contain a secret."""
        return urlsplit(self.url)._replace(query="").geturl()


def parse(argv: list[str]) -> BridgeOptions:
    """Read the arguments.

    Raises:
        UsageError: the arguments are not valid.
    """
    given, command = split_command(argv)
    args = _parser().parse_args(given)
    if args.stdio and args.url:
        _refuse("--stdio and URL say what is inside", "leave one of them out")
    if args.stdio and not command:
        _refuse("--stdio needs a command", "name the server: mcpproxy bridge --stdio -- COMMAND [ARG...]")
    if command and not args.stdio:
        _refuse("a command needs --stdio", "mcpproxy bridge --stdio -- COMMAND [ARG...]")
    if not args.stdio and not args.url:
        _refuse("one of URL and --stdio is needed", "mcpproxy bridge https://example.com/mcp")
    if args.poll_retry is not None and args.poll_after is None:
        _refuse("--poll-retry needs --poll-after", "say after how long a connection is closed")
    if args.url:
        split_url("bridge", args.url, "https://example.com/mcp", "; give credentials with --header")
    host, port = split_listen("bridge", args.listen)
    if not is_loopback(host) and not args.token:
        why = f"--listen {host} is more than this machine, and whoever reaches it could start the server"
        _refuse(why, "give --token '${NAME}', which clients then have to send")
    recording = _recording(args)
    url: str = args.url
    default = urlsplit(url).hostname or "" if url else paths.label_for(command)
    return BridgeOptions(
        recording=recording,
        label=paths.safe(recording.label) or paths.safe(default) or "server",
        url=url,
        command=command,
        headers=[_expanded(name, value) for name, value in args.header],
        is_insecure=args.insecure,
        host=host,
        port=port,
        endpoint=endpoint("bridge", args.endpoint),
        origins=args.allow_origin,
        token=_with_variables("--token", args.token),
        streams=args.event_streams,
        poll_after_s=args.poll_after,
        poll_retry_s=args.poll_retry or _POLL_RETRY_S,
        limit=args.max_sessions,
        idle_s=args.session_timeout,
        grace_s=args.grace,
        is_inside=args.inside,
    )


def _parser() -> argparse.ArgumentParser:
    parser = Parser("bridge", DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("url", metavar="URL", nargs="?", default="", help="the remote server: http(s)://HOST[:PORT]/PATH")
    add("--stdio", action="store_true", help="start the server after -- and speak stdio with it")
    add("--inside", action="store_true", help=argparse.SUPPRESS)
    add_options(parser, _OPTIONS, "the server's name")
    remote = parser.add_argument_group("a remote server")
    remote.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        type=header,
        help="send this with every request; may be given again",
    )
    remote.add_argument("--insecure", action="store_true", help="do not check the server's certificate")
    add = parser.add_argument_group("a server on stdio").add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8765",
        help="default: %(default)s; port 0 picks one",
    )
    add("--endpoint", metavar="PATH", default="/mcp", help="path of the MCP endpoint; default: %(default)s")
    add(
        "--token",
        metavar="'${NAME}'",
        default="",
        help="the bearer token that clients have to send; needed to listen on more than this machine",
    )
    add(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="a site whose pages may use the endpoint; * for all",
    )
    add(
        "--event-streams",
        action="store_true",
        help="answer every request of a session with an event stream, which can be resumed; "
        "otherwise only those whose answer takes a second or comes after other messages",
    )
    add(
        "--poll-after",
        metavar="SECONDS",
        type=seconds_or_none,
        help="close the connection of an event stream after this time, and have the client come back for the "
        "rest (from 2025-11-25 on), for proxies with a time limit; 0 closes each response at once",
    )
    add(
        "--poll-retry",
        metavar="SECONDS",
        type=seconds,
        help=f"how long such a client waits before it comes back; default: {_POLL_RETRY_S:g}",
    )
    add(
        "--max-sessions",
        metavar="N",
        type=positive,
        default=4096,
        help="how many may run; default: %(default)s",
    )
    add(
        "--session-timeout",
        metavar="SECONDS",
        type=seconds,
        default=3600.0,
        help="how long a session is kept that no client uses; default: %(default)g",
    )
    add(
        "--grace",
        metavar="SECONDS",
        type=seconds,
        default=GRACE_S,
        help="how long a server may take to exit at the end of its session; default: %(default)g",
    )
    return parser


def _recording(args: argparse.Namespace) -> RecordingOptions:
    recording = RecordingOptions("bridge")
    recording.take(args, _OPTIONS)
    if args.stdio and recording.lists["--enforce"]:
        _refuse("--enforce is not for --stdio", "put mcpproxy http --enforce RULE,... URL before the bridge")
    recording.resolve_rules()
    if not args.inside:  # the page and the spans are the outer process's
        recording.check_companions()
    return recording


def _expanded(name: str, value: str) -> tuple[str, str]:
    """Return a header with the environment variables in its value replaced. No error shows the value."""
    if not _NAME.fullmatch(name) or name.lower() in _OWN_FIELDS:
        _refuse(f"--header {name} cannot be set", "the bridge sends this field itself, or it is not a name")

    return name, _with_variables(f"--header {name}", value)


def _with_variables(option: str, value: str) -> str:
    """Return the value of an option with the environment variables in it replaced."""

    def of(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if not found:
            _refuse(f"{option} names {match[1]}, which is not set", "export the variable first")
        return found

    expanded = _VARIABLE.sub(of, value)
    if not _HEADER_VALUE.fullmatch(expanded):
        _refuse(f"{option} has a value that no header can have", "leave out line ends")
    return expanded


def _refuse(fact: str, next_step: str) -> NoReturn:
    raise UsageError("bridge", fact, next_step) from None
