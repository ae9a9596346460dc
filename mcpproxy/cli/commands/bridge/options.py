"""The arguments of ``mcpproxy bridge``."""

import argparse
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar
from urllib.parse import urlsplit

from mcpproxy.base import paths
from mcpproxy.base.authority import is_loopback
from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.cli import upstream_options
from mcpproxy.cli.address_arguments import endpoint, split_listen, split_url
from mcpproxy.cli.arguments import SPAN_FORMS, header, positive, seconds, seconds_or_none
from mcpproxy.cli.new_recording import OPTIONS as COMMON
from mcpproxy.cli.new_recording import RecordingOptions
from mcpproxy.cli.option_table import Given, OptionTable, refuse, split_command
from mcpproxy.record.relay.exit_status import GRACE_S

T = TypeVar("T")
U = TypeVar("U")

_LEFT_OUT_OPTIONS: Final = (
    "--faults", "--fault", "--fault-seed", "--break", "--break-timeout", "--break-then", "--addon",
)  # fmt: skip
"""Options of ``run`` that a bridge lacks, because ``mcpproxy run`` before or behind the bridge has them."""

_HELP: Final = {
    "--trace": "record into FILE, with the name of the leg before its suffix",
    "--enforce": "refuse requests of the client on stdio that break one of these rules; may be given again",
}
"""The help of options that have another meaning here than in ``run`` and ``http``."""

_POLL_RETRY_S: Final = 0.1
"""How long a client waits by default before it comes back. It is short, because messages wait until then."""

_LISTEN: Final = "127.0.0.1:8765"
_ENDPOINT: Final = "/mcp"
_MAX_SESSIONS: Final = 4096
_SESSION_TIMEOUT_S: Final = 3600.0

OPTIONS: Final = OptionTable(
    "bridge",
    "bridge [OPTION...] (URL | --stdio -- COMMAND [ARG...])",
    """\
Stand between a client and a server that speak different transports. Messages pass byte for byte; each side is
recorded, and judged while they pass.

  mcpproxy bridge URL             stdio outside, HTTP inside: for a host that knows only stdio
  mcpproxy bridge --stdio -- CMD  HTTP outside, stdio inside: one process of CMD for each session""",
    """\
A header may name environment variables: --header 'Authorization: Bearer ${TOKEN}'. Values of --header are
masked in recordings. OAuth is the client's: a bridge obtains no tokens.
The exit code is 0, 1 if the server ended the session, 2 if the arguments are wrong.""",
    {
        "": (
            ("URL", "", "the remote server: http(s)://HOST[:PORT]/PATH"),
            ("--stdio", "", "start the server after -- and speak stdio with it"),
            ("--inside", "", ""),
        ),
        "a remote server": (
            ("--header", "'NAME: VALUE'", "send this with every request; may be given again"),
            *upstream_options.ROWS,
        ),
        "a server on stdio": (
            ("--listen", "HOST:PORT", f"where to listen; port 0 picks one (default: {_LISTEN})"),
            ("--endpoint", "PATH", f"path of the MCP endpoint (default: {_ENDPOINT})"),
            (
                "--token",
                "'${NAME}'",
                "the bearer token that clients have to send; needed to listen on more than this machine",
            ),
            ("--allow-origin", "ORIGIN", "a site whose pages may use the endpoint; * for all"),
            (
                "--event-streams",
                "",
                "answer every request of a session with an event stream, which can be resumed; "
                "otherwise only those whose answer takes a second or comes after other messages",
            ),
            (
                "--poll-after",
                "SECONDS",
                "close the connection of an event stream after this time, and have the client come back for "
                "the rest (from 2025-11-25 on), for proxies with a time limit; 0 closes each response at "
                "once",
            ),
            (
                "--poll-retry",
                "SECONDS",
                f"how long such a client waits before it comes back (default: {_POLL_RETRY_S:g})",
            ),
            ("--max-sessions", "N", f"how many may run (default: {_MAX_SESSIONS})"),
            (
                "--session-timeout",
                "SECONDS",
                f"how long a session is kept that no client uses (default: {_SESSION_TIMEOUT_S:g})",
            ),
            (
                "--grace",
                "TIME",
                f"how long a server may take to exit at the end of its session: {SPAN_FORMS} "
                f"(default: {GRACE_S:g}s)",
            ),
        ),
        **{
            title: [
                (name, metavar, _HELP.get(name, text))
                for name, metavar, text in rows
                if name not in _LEFT_OUT_OPTIONS
            ]
            for title, rows in COMMON.items()
        },
    },
    "the server's name",
)

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""The name of a header field: a token of RFC 9110, section 5.6.2."""
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
    upstream: UpstreamSettings
    host: str
    port: int
    endpoint: str
    origins: Sequence[str]
    token: str
    """The bearer token that clients have to send; empty if they need none."""
    streams: bool
    """Whether every request of a session is answered with an event stream."""
    poll_after_s: float | None
    """After how long the connection of an event stream is closed; ``None`` for never."""
    poll_retry_s: float
    limit: int
    """How many sessions may run at once."""
    idle_s: float
    """How long a session that no client uses is kept."""
    grace_s: float
    """How long a server may take to exit at the end of its session."""
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
        SystemExit: the help was printed.
    """
    arguments, command = split_command(argv)
    given = OPTIONS.read(arguments)
    urls, is_stdio = given[""], "--stdio" in given
    if len(urls) > 1:
        _refuse("more than one URL is given", "leave the others out")
    url = given.text("")
    if is_stdio and url:
        _refuse("--stdio and URL say what is inside", "leave one of them out")
    if is_stdio and not command:
        _refuse("--stdio needs a command", "name the server: mcpproxy bridge --stdio -- COMMAND [ARG...]")
    if command and not is_stdio:
        _refuse("a command needs --stdio", "mcpproxy bridge --stdio -- COMMAND [ARG...]")
    if not is_stdio and not url:
        _refuse("one of URL and --stdio is needed", "mcpproxy bridge https://example.com/mcp")
    poll_after_s = _last_value(given, "--poll-after", seconds_or_none, None)
    if "--poll-retry" in given and poll_after_s is None:
        _refuse("--poll-retry needs --poll-after", "say after how long a connection is closed")
    if url:
        split_url("bridge", url, "https://example.com/mcp", "; give credentials with --header")
    host, port = split_listen("bridge", given.text("--listen", _LISTEN))
    token = given.text("--token")
    if not is_loopback(host) and not token:
        why = f"--listen {host} is more than this machine, and whoever reaches it could start the server"
        _refuse(why, "give --token '${NAME}', which clients then have to send")
    recording = _recording_options(given)
    default = urlsplit(url).hostname or "" if url else paths.label_for(command)
    return BridgeOptions(
        recording=recording,
        label=paths.safe(recording.label) or paths.safe(default) or "server",
        url=url,
        command=command,
        headers=[_header_field(name, value) for name, value in _values(given, "--header", header)],
        upstream=upstream_options.from_given(given, url),
        host=host,
        port=port,
        endpoint=endpoint("bridge", given.text("--endpoint", _ENDPOINT)),
        origins=given["--allow-origin"],
        token=_with_variables("--token", token),
        streams="--event-streams" in given,
        poll_after_s=poll_after_s,
        poll_retry_s=_last_value(given, "--poll-retry", seconds, _POLL_RETRY_S),
        limit=_last_value(given, "--max-sessions", positive, _MAX_SESSIONS),
        idle_s=_last_value(given, "--session-timeout", seconds, _SESSION_TIMEOUT_S),
        grace_s=_last_value(given, "--grace", seconds, GRACE_S),
        is_inside="--inside" in given,
    )


def _last_value(given: Given, name: str, read: Callable[[str], T], default: U) -> T | U:
    """Return the last value of the option ``name``, converted by ``read``; ``default`` without it."""
    return (_values(given, name, read) or [default])[-1]


def _values(given: Given, name: str, read: Callable[[str], T]) -> list[T]:
    """Return all values of the option ``name``, converted by ``read``, an argparse type.

    Raises:
        UsageError: ``read`` refuses a value.
    """
    try:
        return [read(value) for value in given[name]]
    except argparse.ArgumentTypeError as error:
        _refuse(f"argument {name}: {error}", "see mcpproxy bridge --help")


def _recording_options(given: Given) -> RecordingOptions:
    recording = RecordingOptions("bridge", given)
    if "--stdio" in given and given["--enforce"]:
        _refuse("--enforce is not for --stdio", "put mcpproxy http --enforce RULE,... URL before the bridge")
    recording.resolve_rules()
    if "--inside" not in given:  # the outer process has the page and sends the spans
        recording.check_companions()
    return recording


def _header_field(name: str, value: str) -> tuple[str, str]:
    """Return name and value of a header, with the values of environment variables. No error shows them.

    Raises:
        UsageError: the bridge sends this field itself, or the name, the value or a variable cannot be used.
    """
    if not _NAME.fullmatch(name) or name.lower() in _OWN_FIELDS:
        _refuse(f"--header {name} cannot be set", "the bridge sends this field itself, or it is not a name")
    return name, _with_variables(f"--header {name}", value)


def _with_variables(option: str, value: str) -> str:
    """Return the value of an option with the values of the environment variables that it names.

    Raises:
        UsageError: a variable is not set or is empty, or no header can have the value.
    """

    def variable(match: re.Match[str]) -> str:
        content = os.environ.get(match[1])
        if not content:
            _refuse(f"{option} names {match[1]}, which is not set", "export the variable first")
        return content

    expanded = _VARIABLE.sub(variable, value)
    if not _HEADER_VALUE.fullmatch(expanded):
        _refuse(f"{option} has a value that no header can have", "leave out line ends")
    return expanded


def _refuse(fact: str, next_step: str) -> NoReturn:
    refuse("bridge", fact, next_step)
