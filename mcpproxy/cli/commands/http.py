"""``mcpproxy http URL [OPTION...]``: run a proxy in front of an HTTP server.

The process becomes the relay, which copies the traffic to the journal; a second process, the recorder, makes
the trace from the journal. A client may wait until the proxy listens. So slow modules are imported only after
that: clients that connect meanwhile wait in the backlog of the listener.
"""

from __future__ import annotations

import errno
import sys

from mcpproxy.base import paths
from mcpproxy.base.json_string import quoted
from mcpproxy.cli import new_recording, upstream_options
from mcpproxy.cli.address_arguments import endpoint, split_listen, split_url
from mcpproxy.cli.option_table import OptionTable, refuse, split_command
from mcpproxy.record.relay.http.listener import listen

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    import socket
    from typing import Final, NoReturn

    from mcpproxy.cli.option_table import Given
    from mcpproxy.record.relay.http.proxy import Settings
    from mcpproxy.record.relay.http.resolve import Upstream
    from mcpproxy.record.relay.http.route import Forward, ProxyOf, Reverse
    from mcpproxy.record.relay.http.tls import TlsClient, TlsServer

_LISTEN: Final = "127.0.0.1:8765"
_ENDPOINT: Final = "/mcp"

OPTIONS: Final = OptionTable(
    "http",
    "http [OPTION...] (URL | --forward)",
    """\
Run a proxy before an MCP server that speaks HTTP: every byte passes as it comes, is recorded, and is judged
while it passes. Point the client at the printed address instead of the server's.""",
    """\
  mcpproxy http http://127.0.0.1:3000/mcp

A URL with a path names the MCP endpoint: requests for --endpoint go there, all other paths pass unchanged.
On a terminal each call is printed as a line, unless --quiet or --live says otherwise.
Stop it with Ctrl-C or SIGTERM; the exit code is then 0. It is 2 if the arguments are wrong, if the port is
taken, or if the file or folder that they name cannot be written.""",
    {
        "": (
            ("URL", "", "the server: http(s)://HOST[:PORT][/PATH]"),
            ("--listen", "HOST:PORT", f"where to listen; port 0 picks one (default: {_LISTEN})"),
            ("--endpoint", "PATH", f"path of the MCP endpoint on the proxy (default: {_ENDPOINT})"),
            ("--admin", "HOST:PORT", "serve health and metrics there"),
            ("--keep-credentials", "", "record credentials as they are instead of masking them"),
        ),
        "upstream": (
            *upstream_options.ROWS,
            ("--rewrite-origin", "", "replace upstream's address by ours in OAuth metadata and challenges"),
        ),
        "clients": (
            ("--allow-origin", "ORIGIN", "a site whose pages may use the proxy; * for all"),
            ("--cert", "FILE", "speak TLS to clients with this certificate chain (PEM)"),
            ("--key", "FILE", "its private key, if it is not in the same file"),
        ),
        "forward mode": (
            ("--forward", "", "be an HTTP proxy (HTTP_PROXY): clients name the server of each request"),
            ("--allow-host", "HOST", "allow requests to HOST or HOST:PORT, not only to this machine"),
        ),
        **new_recording.OPTIONS,
    },
    "its host",
)


class HttpOptions:
    """The values of the arguments. ``host``, ``port`` and ``endpoint`` are those of the proxy itself.

    ``url``, that of the server, is empty in forward mode. ``reaching`` says how to connect to servers.

    Raises:
        UsageError: a value is not valid.
    """

    command = "http"
    example = "http://127.0.0.1:3001/mcp"
    """The URL that an error about the user's URL suggests."""

    def __init__(self, given: Given, url: str, listen: str = _LISTEN) -> None:
        self.recording = new_recording.RecordingOptions(self.command, given)
        self.url = url
        self._upstream: Upstream | None = None
        self.host, self.port = split_listen(self.command, given.text("--listen", listen))
        self.endpoint = self._endpoint(given)
        self.allow_origins = given["--allow-origin"]
        self.allow_hosts = given["--allow-host"]
        self.reaching = upstream_options.from_given(given, url)
        self.cert, self.key = given.text("--cert"), given.text("--key")
        self.rewrites_origin = "--rewrite-origin" in given
        self.keeps_credentials = "--keep-credentials" in given
        self.admin = given.text("--admin")

    def _endpoint(self, given: Given) -> str:
        return endpoint(self.command, given.text("--endpoint", _ENDPOINT))

    @property
    def has_own_paths(self) -> bool:
        """Whether the proxy replaces the path of the server's endpoint by its own."""
        return True

    def members(self) -> dict[str, str]:
        """Return further members of the START record, the first of a journal; each value is JSON text."""
        return {}

    @property
    def upstream(self) -> Upstream | None:
        """The server that the URL names; ``None`` in forward mode.

        The URL is read on first use, because that imports modules that load slowly.

        Raises:
            UsageError: the URL cannot be used.
        """
        if self.url and self._upstream is None:
            self._upstream = _upstream(self)
        return self._upstream

    @property
    def label(self) -> str:
        """What the recording calls the server: ``--label``, or its host, or ``forward`` in forward mode."""
        host = self.upstream.host if self.upstream else "forward"
        return paths.safe(self.recording.label) or paths.safe(host) or "server"


def run(argv: list[str]) -> int:
    """Serve until terminated, and return the exit code.

    Raises:
        McpProxyError: the arguments are not valid, the port is taken, or the recording cannot be written.
    """
    return serve(parse(argv))


def serve(options: HttpOptions) -> int:
    """Serve until terminated, and return the exit code.

    Raises:
        McpProxyError: the port is taken, or the recording cannot be written.
    """
    recording = options.recording
    settings, listener, proxy_address = prepare(options)
    trace, journal, greeting = recording.begin(options.label, start_members(options, proxy_address))
    settings.greetings.append(greeting)
    settings.make_gate = recording.http_gate(options.endpoint, trace)

    # The relay writes to the pipe ``wake_fd`` when ``asleep``, a shared byte, says that the recorder sleeps.
    def record(wake_fd: int, asleep: mmap.mmap) -> None:
        from mcpproxy.record.recorder.process import run as run_recorder

        recording.run_with_companions(
            trace,
            lambda: run_recorder(trace, wake_fd, asleep, recording.live, recording.is_quiet, options.admin),
        )

    def relay() -> int:
        if sys.platform != "win32":
            from mcpproxy.record.relay.http import proxy

            return proxy.run(settings, listener, journal, record if journal else None)
        from mcpproxy.record.relay.http import portable
        from mcpproxy.record.relay.spawned_recorder import recorder_command

        command = recorder_command(trace, recording.live, recording.is_quiet, options.admin)
        return portable.run(settings, listener, journal, command if journal else None)

    if not journal or not sys.stdout.isatty() or recording.live != "text" or recording.is_quiet:
        return relay()
    from mcpproxy.cli.calls import http_lines

    lines = http_lines.start(trace)
    code = relay()
    http_lines.finish(lines)
    return code


def prepare(options: HttpOptions) -> tuple[Settings, socket.socket, str]:
    """Return the settings of the proxy, its listening socket, and its address as ``host:port``.

    Raises:
        UsageError: the port is taken, or the URL or a certificate cannot be used.
    """
    listener = open_listener(options.host, options.port)
    try:
        host, port = listener.getsockname()[:2]
        proxy_address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return _settings(options, host, proxy_address), listener, proxy_address
    except Exception:
        listener.close()
        raise


def _settings(options: HttpOptions, host: str, proxy_address: str) -> Settings:
    """Return the settings of the relay, with the lines that it prints first."""
    from mcpproxy.record.relay.http.proxy import Settings
    from mcpproxy.record.relay.http.rewrite import Rewriting

    upstream = options.upstream
    choose_proxy = proxy_of(options, proxy_address)
    if upstream is not None:
        upstream.proxy = choose_proxy(upstream.host, upstream.port, upstream.is_tls)
    settings = Settings(_router(options, host, choose_proxy), upstream.address if upstream else "")
    settings.tls_up, settings.tls_down = _tls(options)
    settings.is_quiet = options.recording.is_quiet
    scheme = "https" if options.cert else "http"
    if upstream is not None and options.has_own_paths:
        settings.rewriting = Rewriting(upstream, options.endpoint, scheme, is_full=options.rewrites_origin)
    at = f"{scheme}://{proxy_address}{_own_path(options)}"
    listening = options.recording.note(_listening_line(options, proxy_address), "listening", url=quoted(at))
    settings.greetings = [listening, *_warnings(options, host)]
    return settings


def parse(argv: list[str]) -> HttpOptions:
    """Read the arguments. The URL is read when ``upstream`` is first used.

    Raises:
        McpProxyError: the arguments are not valid.
        SystemExit: the help was printed.
    """
    arguments, others = split_command(argv)
    given = OPTIONS.read(arguments)
    urls = list(filter(None, [*given[""], *others]))
    is_forward = "--forward" in given
    if len(urls) + is_forward != 1:
        _refuse("one of URL and --forward is needed", "mcpproxy http http://127.0.0.1:3001/mcp")
    options = HttpOptions(given, "".join(urls))
    recording = options.recording
    recording.resolve_rules()
    recording.resolve_gate()
    recording.check_companions()
    if options.allow_hosts and not is_forward:
        _refuse("--allow-host is for --forward", "leave it out")
    if recording.given["--enforce"] and is_forward:
        _refuse("--enforce is not for --forward", "stand before one server: mcpproxy http URL")
    if recording.fault_rules is not None and is_forward:
        _refuse("--fault is not for --forward", "stand before one server: mcpproxy http URL")
    if options.rewrites_origin and is_forward:
        _refuse("--rewrite-origin is not for --forward", "leave it out: there servers keep their own names")
    check_listening(options)
    return options


def check_listening(options: HttpOptions) -> None:
    """Check that a key has its certificate, and that the admin port is free.

    When the recorder opens the admin port, it is too late for a usage error.

    Raises:
        UsageError: the certificate is missing, or nothing can listen at the admin address.
    """
    if options.key and not options.cert:
        refuse(options.command, "--key needs --cert", "give the certificate as well")
    if not options.admin:
        return
    host, port = split_listen(options.command, options.admin, "--admin")
    try:
        listen(host, port).close()
    except OSError as error:
        refuse(f"{host}:{port}", f"cannot listen there ({error.strerror})", "see --admin")


def _upstream(options: HttpOptions) -> Upstream:
    """Return the server that the URL of the arguments names."""
    from mcpproxy.record.relay.http.resolve import Upstream

    credentials = ": clients send their own credentials"
    parts = split_url(options.command, options.url, options.example, credentials)
    assert parts.hostname is not None
    is_tls = parts.scheme == "https"
    path = parts.path or "/"
    if path == "/" and not parts.query:
        path = ""  # the same path as that of the proxy's endpoint
    return Upstream(parts.hostname, parts.port or (443 if is_tls else 80), is_tls, path, parts.query)


def _tls(options: HttpOptions) -> tuple[TlsClient | None, TlsServer | None]:
    """Return TLS to upstream and TLS to clients; ``None`` for one that the options do not ask for.

    Raises:
        UsageError: the certificate cannot be used.
    """
    up = down = None
    if options.cert or (options.upstream and options.upstream.is_tls):
        from mcpproxy.record.relay.http import tls

        if options.upstream and options.upstream.is_tls:  # its files are already checked
            up = tls.TlsClient(options.reaching)
        if options.cert:
            try:
                down = tls.TlsServer(options.cert, options.key)
            except OSError as error:
                reason = error.strerror or "no PEM certificate with its key"
                refuse(options.cert, f"cannot be used as certificate ({reason})", "see --cert and --key")
    return up, down


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        UsageError: the port is taken, or this machine does not have the address.
    """
    try:
        return listen(host, port)
    except OSError as error:
        where = f"{host}:{port}"
        if error.errno == errno.EADDRINUSE:
            refuse(
                where, "the port is taken", "stop the program that uses it, or choose another with --listen"
            )
        refuse(where, f"cannot listen there ({error.strerror})", "see --listen")


def proxy_of(options: HttpOptions, proxy_address: str) -> ProxyOf:
    """Return a function that chooses the proxy on the way to a server: that of an option or the environment.

    It never chooses our own proxy, which the environment may name for the clients.
    """
    from mcpproxy.base.authority import is_loopback
    from mcpproxy.base.upstream.http_proxy import HttpProxy, proxy_for

    own_port = int(proxy_address.rpartition(":")[2])

    def choose(host: str, port: int, is_tls: bool) -> HttpProxy | None:
        proxy = proxy_for(options.reaching, host, port, is_tls=is_tls)
        is_own = proxy is not None and proxy.port == own_port and is_loopback(proxy.host)
        return None if is_own else proxy

    return choose


def _router(options: HttpOptions, host: str, proxy_of: ProxyOf) -> Forward | Reverse:
    from mcpproxy.base.authority import is_loopback
    from mcpproxy.record.relay.http.guard import Guard, Targets
    from mcpproxy.record.relay.http.route import Forward, Reverse

    guard = Guard(is_loopback(host), [options.host], options.allow_origins)
    if options.upstream is None:
        return Forward(Targets(options.allow_hosts), guard, proxy_of)
    return Reverse(options.upstream, options.endpoint, guard)


def _listening_line(options: HttpOptions, proxy_address: str) -> str:
    """Return the line for stderr that names the address of the proxy."""
    scheme = "https" if options.cert else "http"
    if options.upstream is None:
        return f"listening on {scheme}://{proxy_address} as a forward proxy; set HTTP_PROXY to it"
    target = _shown_url(options.upstream, options.endpoint)
    proxy = options.upstream.proxy
    through = f" through {proxy.name}" if proxy else ""
    return f"listening on {scheme}://{proxy_address}{_own_path(options)} -> {target}{through}"


def _own_path(options: HttpOptions) -> str:
    """Return the path at the proxy that stands for the URL of the server; empty in forward mode."""
    if options.upstream is None:
        return ""
    return options.endpoint if options.has_own_paths else options.upstream.path


def _shown_url(upstream: Upstream, endpoint: str) -> str:
    """Return the URL of upstream's endpoint, without the query, which may contain a secret."""
    return upstream.origin + (upstream.path or endpoint)


def _warnings(options: HttpOptions, host: str) -> list[str]:
    """Return the lines for stderr about options that make the proxy less safe."""
    from mcpproxy.base.authority import is_loopback

    warnings: list[str] = []
    if not is_loopback(host):
        warnings.append(
            f"warning: {host} is more than this machine: whoever reaches it reaches the server through us, "
            "and Host and Origin are not checked"
        )
    elif "*" in options.allow_origins:
        warnings.append("warning: --allow-origin *: any page in a browser here may use the server through us")
    if options.admin and not is_loopback(admin := split_listen("http", options.admin, "--admin")[0]):
        warnings.append(
            f"warning: --admin {admin}: whoever reaches it reads the metrics; Host is not checked there"
        )
    if options.reaching.is_insecure:
        warnings.append(
            "WARNING: --insecure: upstream's certificate is not checked; anybody could be in between"
        )
    if "*" in options.allow_hosts:
        warnings.append("WARNING: --allow-host *: whoever reaches this port reaches every host that we reach")
    return warnings


def start_members(options: HttpOptions, proxy_address: str) -> dict[str, str]:
    """Return the members of the journal's START record for a proxy; each value is JSON text."""
    scheme = "https" if options.cert else "http"
    upstream = _shown_url(options.upstream, options.endpoint) if options.upstream else ""
    return {
        "transport": quoted("http"),
        "mode": quoted("reverse" if options.upstream else "forward"),
        "listen": quoted(f"{scheme}://{proxy_address}"),
        "endpoint": quoted(options.endpoint),
        "upstream": quoted(upstream),
        "keep_credentials": "true" if options.keeps_credentials else "false",
        **options.recording.members(),
        **options.members(),
        "admin": quoted(options.admin) if options.admin else "null",
        "command": "[]",
    }


def _refuse(fact: str, next_step: str) -> NoReturn:
    refuse("http", fact, next_step)
