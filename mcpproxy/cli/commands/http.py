"""``mcpproxy http --upstream URL [OPTION...]``: stand before an HTTP server.

Reads the options, binds the port, begins the recording, and hands over to the relay.
"""

import argparse
import errno
import os
import re
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, cast
from urllib.parse import urlsplit

from mcpproxy.base import paths
from mcpproxy.cli import new_recording
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.rotate_option import rotation_member
from mcpproxy.relay.http import proxy
from mcpproxy.relay.http.guard import Guard, Targets, is_loopback
from mcpproxy.relay.http.rewrite import Rewriting
from mcpproxy.relay.http.route import Forward, Reverse, Upstream
from mcpproxy.relay.journal import quoted

if TYPE_CHECKING:
    import mmap

    from mcpproxy.recorder.stderr_notes import Mode
    from mcpproxy.relay.http.tls import TlsClient, TlsServer
    from mcpproxy.ruleset.rule_options import RuleOptions

DESCRIPTION: Final = """\
Stands before an MCP server that speaks HTTP: every byte passes as it comes, is recorded, and is judged
while it passes. Point the client at the address that is printed instead of the server's."""

EPILOG: Final = """\
A URL with a path names the MCP endpoint: requests for --endpoint go there, all other paths pass unchanged.
Stop it with Ctrl-C or SIGTERM; the exit code is then 0. It is 2 if the arguments are wrong, if the port is
taken, or if nothing can be recorded there."""

_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PLAIN: Final = re.compile(r"[\x21-\x7e]*")


@dataclass(frozen=True)
class Options:
    """What the arguments say."""

    upstream: Upstream | None
    """``None`` in forward mode."""
    host: str
    port: int
    endpoint: str
    trace: str
    trace_dir: str
    label: str
    live: "Mode"
    is_quiet: bool
    allow_origins: Sequence[str]
    allow_hosts: Sequence[str]
    is_insecure: bool
    cert: str
    key: str
    rewrites_origin: bool
    keeps_credentials: bool
    admin: str
    rotate: str = ""
    enforce: Sequence[str] = ()
    terms: "RuleOptions | None" = None
    """By which rules to judge, if not by the usual ones."""


def run(argv: list[str]) -> int:
    """Serve until told to stop.

    Raises:
        McpProxyError: the arguments cannot be followed, the port is taken, or nothing can be written
            where the recording should go.
    """
    options = parse(argv)
    if sys.platform == "win32":
        _refuse("this needs fork, which Windows does not have", "run it in WSL or in a container")
    make = None
    if options.enforce:
        from mcpproxy.cli.enforce_options import gated_http

        make = gated_http("http", options.enforce, options.endpoint, options.terms)
    settings, listener, here = prepare(options)
    settings.make = make
    journal, trace = None, ""
    try:
        members = start_members(options, here)
        trace, journal = new_recording.begin(options.trace, options.trace_dir, options.label, members)
        settings.greetings.append(f"recording to {trace}")
    except OSError as error:
        if error.errno not in _DISK_FULL:
            _refuse_place(options, error)
        settings.greetings.append(f"not recording ({error.strerror}); the traffic goes on")

    def record(wake_fd: int, asleep: "mmap.mmap") -> None:
        from mcpproxy.recorder.process import run as follow

        follow(trace, wake_fd, asleep, options.live, options.is_quiet, options.admin)

    return proxy.run(settings, listener, journal, record if journal else None)


def prepare(options: Options) -> tuple[proxy.Settings, socket.socket, str]:
    """What the relay needs: its settings, the listening socket, and its address as ``host:port``.

    Raises:
        UsageError: the port is taken, or a certificate cannot be read.
    """
    tls_up, tls_down = _tls(options)
    listener = _listen(options)
    host, port = cast("tuple[str, int]", listener.getsockname()[:2])
    here = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    settings = proxy.Settings(_router(options, host), options.upstream.address if options.upstream else "")
    settings.tls_up, settings.tls_down = tls_up, tls_down
    settings.is_quiet = options.is_quiet
    if options.upstream is not None:
        scheme = "https" if options.cert else "http"
        settings.rewriting = Rewriting(
            options.upstream, options.endpoint, scheme, is_full=options.rewrites_origin
        )
    settings.greetings = [_address(options, here), *_warnings(options, host)]
    return settings, listener, here


def parse(argv: list[str]) -> Options:
    """Read the arguments.

    Raises:
        UsageError: they cannot be followed.
    """
    args = _parser().parse_args(argv)
    if args.forward == bool(args.upstream):
        _refuse(
            "one of --upstream and --forward is needed", "mcpproxy http --upstream http://127.0.0.1:3001/mcp"
        )
    if args.trace and args.trace_dir:
        _refuse("--trace and --trace-dir both say where to record", "leave one of them out")
    if args.key and not args.cert:
        _refuse("--key needs --cert", "give the certificate as well")
    if args.allow_host and not args.forward:
        _refuse("--allow-host is for --forward", "leave it out")
    if args.enforce and args.forward:
        _refuse("--enforce is not for --forward", "stand before one server, with --upstream")
    if args.rewrite_origin and args.forward:
        _refuse("--rewrite-origin is not for --forward", "leave it out: there servers keep their own names")
    host, port = split_listen(args.listen)
    rotation_member(args.rotate, "http")
    if args.admin:
        _check_admin(*split_listen(args.admin, "--admin"))
    upstream = _upstream(args.upstream) if args.upstream else None
    label = paths.safe(args.label) or paths.safe(upstream.host if upstream else "forward")
    return Options(
        upstream=upstream,
        host=host,
        port=port,
        endpoint=_endpoint(args.endpoint),
        trace=args.trace,
        trace_dir=args.trace_dir,
        label=label or "server",
        live=args.live,
        is_quiet=args.quiet,
        allow_origins=args.allow_origin,
        allow_hosts=args.allow_host,
        is_insecure=args.insecure,
        cert=args.cert,
        key=args.key,
        rewrites_origin=args.rewrite_origin,
        keeps_credentials=args.keep_credentials,
        admin=args.admin,
        rotate=args.rotate,
        enforce=args.enforce,
        terms=_terms(args),
    )


def _terms(args: argparse.Namespace) -> "RuleOptions | None":
    lists = args.rules, args.select, args.extend_select, args.ignore
    if not (args.app_errors or any(lists)):
        return None
    from mcpproxy.cli import rule_options

    return rule_options.terms("http", *lists, app_errors=args.app_errors)


def split_listen(text: str, option: str = "--listen") -> tuple[str, int]:
    """Host without brackets and port of ``HOST:PORT``.

    Raises:
        UsageError: it is something else.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and port.isdecimal() and port.isascii() and int(port) < 65536):
        _refuse(f"{option} {text} is not HOST:PORT", "for example 127.0.0.1:8765 or [::1]:8765")
    return host, int(port)


def _check_admin(host: str, port: int) -> None:
    """Refuse now what the recorder could only complain about later."""
    try:
        proxy.listen(host, port).close()
    except OSError as error:
        _refuse_at(f"{host}:{port}", f"cannot listen there ({error.strerror})", "see --admin")


def _parser() -> argparse.ArgumentParser:
    parser = Parser("http", DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("--upstream", metavar="URL", default="", help="the server: http(s)://HOST[:PORT][/PATH]")
    add(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8765",
        help="default: %(default)s; port 0 picks one",
    )
    add(
        "--endpoint",
        metavar="PATH",
        default="/mcp",
        help="path of the MCP endpoint here; default: %(default)s",
    )
    add("--trace", metavar="FILE", default="", help="record into FILE; if it exists, into FILE-2 and so on")
    add(
        "--trace-dir",
        metavar="DIR",
        default="",
        help=f"record into a new file in DIR; default: {paths.state_dir()}",
    )
    add("--label", metavar="NAME", default="", help="what to call the server; default: its host")
    add(
        "--rotate",
        metavar="SIZE|DURATION",
        default="",
        help="go on in a new file after so much (100M) or so long (12h)",
    )
    add(
        "--enforce",
        metavar="RULE,...",
        action="append",
        default=[],
        help="refuse requests of clients that break one of these rules, instead of only flagging them",
    )
    add("--rules", metavar="DIR", action="append", default=[], help="judge by the rules in this folder too")
    add("--select", metavar="RULE,...", action="append", default=[], help="judge by these rules only")
    add(
        "--extend-select",
        metavar="RULE,...",
        action="append",
        default=[],
        help="judge by these too, off by default",
    )
    add("--ignore", metavar="RULE,...", action="append", default=[], help="leave these rules out")
    add("--app-errors", action="store_true", help="judge error envelopes in tool results too (APP)")
    add("--live", choices=("text", "json", "off"), default="text", help="how findings are told on stderr")
    add("--quiet", action="store_true", help="say nothing on stderr")
    add(
        "--keep-credentials",
        action="store_true",
        help="record credentials as they are instead of masking them",
    )
    add("--admin", metavar="HOST:PORT", default="", help="serve health and metrics there")
    upstream = parser.add_argument_group("upstream")
    add = upstream.add_argument
    add("--insecure", action="store_true", help="do not look at upstream's certificate")
    add(
        "--rewrite-origin",
        action="store_true",
        help="put our address where metadata and challenges name upstream's",
    )
    clients = parser.add_argument_group("clients")
    add = clients.add_argument
    add(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="a site whose pages may use us; * for all",
    )
    add("--cert", metavar="FILE", default="", help="speak TLS to clients with this certificate chain (PEM)")
    add("--key", metavar="FILE", default="", help="its private key, if it is not in the same file")
    forward = parser.add_argument_group("forward mode")
    add = forward.add_argument
    add("--forward", action="store_true", help="be an HTTP_PROXY: clients say where each request goes")
    add(
        "--allow-host",
        metavar="HOST",
        action="append",
        default=[],
        help="reach HOST or HOST:PORT too, not only this machine",
    )
    return parser


def _upstream(url: str) -> Upstream:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        _refuse(f"--upstream {url} is no URL ({error})", "for example http://127.0.0.1:3001/mcp")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        _refuse(f"--upstream {url} is no http:// or https:// URL", f"perhaps http://{url.lstrip('/')}")
    if parts.username is not None or parts.fragment:
        _refuse("--upstream holds a user or a fragment", "leave it out: clients send their own credentials")
    if not _PLAIN.fullmatch(parts.path + parts.query + parts.netloc):
        _refuse(f"--upstream {url} holds characters that no URL has", "write them as %XX")
    is_tls = parts.scheme == "https"
    path = "" if parts.path == "/" and not parts.query else parts.path
    return Upstream(parts.hostname, port or (443 if is_tls else 80), is_tls, path, parts.query)


def _endpoint(path: str) -> str:
    if not path.startswith("/") or "?" in path or "#" in path or not _PLAIN.fullmatch(path):
        _refuse(f"--endpoint {path} is no path", "for example /mcp")
    return path


def _tls(options: Options) -> "tuple[TlsClient | None, TlsServer | None]":
    up = down = None
    if options.cert or (options.upstream and options.upstream.is_tls):
        from mcpproxy.relay.http import tls

        if options.upstream and options.upstream.is_tls:
            up = tls.TlsClient(is_insecure=options.is_insecure)
        if options.cert:
            try:
                down = tls.TlsServer(options.cert, options.key)
            except OSError as error:
                reason = error.strerror or "no PEM certificate with its key"
                _refuse_at(options.cert, f"cannot be used as certificate ({reason})", "see --cert and --key")
    return up, down


def _listen(options: Options) -> socket.socket:
    try:
        return proxy.listen(options.host, options.port)
    except OSError as error:
        where = f"{options.host}:{options.port}"
        if error.errno == errno.EADDRINUSE:
            _refuse_at(where, "the port is taken", "stop who has it, or choose another with --listen")
        _refuse_at(where, f"cannot listen there ({error.strerror})", "see --listen")


def _router(options: Options, bound: str) -> Forward | Reverse:
    guard = Guard(is_loopback(bound), [options.host], options.allow_origins)
    if options.upstream is None:
        return Forward(Targets(options.allow_hosts), guard)
    return Reverse(options.upstream, options.endpoint, guard)


def _address(options: Options, here: str) -> str:
    scheme = "https" if options.cert else "http"
    if options.upstream is None:
        return f"listening on {scheme}://{here} as a forward proxy; set HTTP_PROXY to it"
    return f"listening on {scheme}://{here}{options.endpoint} -> {_shown(options.upstream, options.endpoint)}"


def _shown(upstream: Upstream, endpoint: str) -> str:
    """Upstream's endpoint as a URL; a query may hold a secret and is left out."""
    return upstream.origin + (upstream.path or endpoint)


def _warnings(options: Options, host: str) -> list[str]:
    said: list[str] = []
    if not is_loopback(host):
        said.append(
            f"warning: {host} is more than this machine: whoever reaches it reaches the server through us, "
            "and Host and Origin are not checked"
        )
    elif "*" in options.allow_origins:
        said.append("warning: --allow-origin *: any page in a browser here may use the server through us")
    if options.admin and not is_loopback(admin := split_listen(options.admin, "--admin")[0]):
        said.append(
            f"warning: --admin {admin}: whoever reaches it reads the metrics; Host is not checked there"
        )
    if options.is_insecure:
        said.append("WARNING: --insecure: upstream's certificate is not checked; anybody could be in between")
    if "*" in options.allow_hosts:
        said.append("WARNING: --allow-host *: whoever reaches this port reaches every host that we reach")
    return said


def start_members(options: Options, here: str) -> dict[str, str]:
    """What the START record says of a proxy."""
    scheme = "https" if options.cert else "http"
    upstream = _shown(options.upstream, options.endpoint) if options.upstream else ""
    judged_by = "null"
    if options.terms is not None:
        from mcpproxy.cli import rule_options

        judged_by = rule_options.member(options.terms)
    return {
        "transport": quoted("http"),
        "mode": quoted("reverse" if options.upstream else "forward"),
        "listen": quoted(f"{scheme}://{here}"),
        "endpoint": quoted(options.endpoint),
        "upstream": quoted(upstream),
        "keep_credentials": "true" if options.keeps_credentials else "false",
        "salt": quoted(os.urandom(32).hex()),  # of the masks; it goes with the journal
        "rotate": rotation_member(options.rotate, "http"),
        "judged_by": judged_by,
        "admin": quoted(options.admin) if options.admin else "null",
        "command": "[]",
    }


def _refuse(fact: str, next_step: str) -> NoReturn:
    raise UsageError("http", fact, next_step)


def _refuse_at(where: str, fact: str, next_step: str) -> NoReturn:
    raise UsageError(where, fact, next_step) from None


def _refuse_place(options: Options, error: OSError) -> NoReturn:
    where = options.trace or options.trace_dir or paths.state_dir()
    _refuse_at(where, f"cannot be recorded to ({error.strerror})", "name another place with --trace-dir")
