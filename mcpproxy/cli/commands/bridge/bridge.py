"""``mcpproxy bridge URL`` and ``mcpproxy bridge --stdio -- COMMAND``.

``bridge URL`` is two processes. The outer one is the relay of ``mcpproxy run``; its stdio server is the inner
one, which speaks HTTP. A *leg* is one side of the bridge, stdio or HTTP. Each leg has its own recording,
the stdio leg of ``--stdio`` one for each session.
"""

import shutil
import sys
from typing import TYPE_CHECKING

from mcpproxy.base.json_string import quoted
from mcpproxy.base.own_process import own_command
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.commands.bridge.options import BridgeOptions, parse
from mcpproxy.cli.commands.http import open_listener
from mcpproxy.record.relay.exit_status import GRACE_S
from mcpproxy.record.relay.open_files import raise_limit

if TYPE_CHECKING:
    import mmap

    from mcpproxy.record.relay.journal import Journal


def run(argv: list[str]) -> int:
    """Carry messages until the client or the server ends the session; with ``--stdio``, until a signal.

    Return the exit code.

    Raises:
        McpProxyError: the arguments are not valid, there is no such command, the port is taken, a recording
            cannot be written, or the system is Windows.
    """
    options = parse(argv)
    if sys.platform == "win32":
        raise UsageError("bridge", "not available on Windows", "use it in WSL")
    if options.command:
        return _run_before_stdio(options)
    if options.is_inside:
        return _run_inside(options)
    return _run_outside(options, argv)


def _run_outside(options: BridgeOptions, argv: list[str]) -> int:
    """Relay between the client and the inner process, and record what they say on stdio."""
    from mcpproxy.record.relay.stdio import session_start

    recording = options.recording
    shown = ["mcpproxy", "bridge", options.shown_url]
    members = {
        "transport": quoted("stdio"),
        "command": "[" + ",".join(map(quoted, shown)) + "]",
        **recording.members(),
    }
    recording.resolve_gate()
    trace, journal, greeting = recording.for_part("stdio").begin(f"{options.label}-stdio", members)

    def record(wake_fd: int, asleep: "mmap.mmap") -> None:
        from mcpproxy.record.recorder.process import run as run_recorder

        recording.run_with_companions(
            trace,
            lambda: run_recorder(trace, wake_fd, asleep, recording.live, recording.is_quiet, leg="stdio leg"),
        )

    inner = own_command("mcpproxy", "bridge", "--inside", *argv)
    return session_start.run(
        inner,
        journal,
        record if journal else None,
        grace_s=GRACE_S,
        quiet=recording.is_quiet,
        greeting=_leg_line("stdio leg", greeting),
        make_gate=recording.stdio_gate(trace),
    )


def _leg_line(leg: str, greeting: str) -> str:
    """Return ``greeting``, a line for stderr, with the name of its leg before it."""
    if type(greeting) is str:
        return f"{leg}: {greeting}"
    from mcpproxy.record.relay.stderr_line import StderrEvent

    assert isinstance(greeting, StderrEvent)
    return greeting.after(f"{leg}: ")


def _run_inside(options: BridgeOptions) -> int:
    """Speak HTTP with the server, and stdio with the outer process."""
    from urllib.parse import urlsplit

    from mcpproxy.peers.bridge.leg import Leg, StderrLines
    from mcpproxy.record.relay.exit_status import recorder_s

    recording = options.recording
    names = [name for name, _ in options.headers]
    members = {
        "transport": quoted("http"),
        "mode": quoted("reverse"),
        "endpoint": quoted(urlsplit(options.url).path or "/"),
        "upstream": quoted(options.shown_url),
        "secret_fields": "[" + ",".join(map(quoted, names)) + "]",
        "command": "[]",
        **recording.members(),
    }
    trace, journal, greeting = recording.for_part("http").begin(f"{options.label}-http", members)

    def record(wake_fd: int, asleep: "mmap.mmap") -> None:
        from mcpproxy.record.recorder.process import run as run_recorder

        run_recorder(trace, wake_fd, asleep, recording.live, recording.is_quiet, leg="HTTP leg")

    stderr = StderrLines(is_quiet=recording.is_quiet)
    wait_s = recorder_s(is_awaited=recording.is_awaited)  # the host has to wait that long for us
    leg = Leg(journal, record if journal else None, stderr, wait_s=wait_s)
    stderr.say(_leg_line("HTTP leg", greeting))
    if options.upstream.is_insecure:
        stderr.say(
            "WARNING: --insecure: the server's certificate is not checked; anybody could be in between"
        )
    from mcpproxy.peers.bridge import remote_process  # after the fork: the recorder does not need it

    return remote_process.run(options.url, options.headers, leg, stderr, options.upstream)


def _run_before_stdio(options: BridgeOptions) -> int:
    """Serve HTTP until a signal comes, with a process of the command for each session; return the exit code.

    Raises:
        McpProxyError: there is no such command, the port is taken, or the recording cannot be written.
    """
    from mcpproxy.peers.bridge.leg import Leg, StderrLines

    if shutil.which(options.command[0]) is None:
        from mcpproxy.base.system_words import start_failure
        from mcpproxy.errors import McpProxyError

        raise McpProxyError(start_failure(options.command[0], FileNotFoundError()))
    recording = options.recording
    raise_limit()
    listener = open_listener(options.host, options.port)
    host, port = listener.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    command = "[" + ",".join(map(quoted, options.command)) + "]"
    members = {
        "transport": quoted("http"),
        "mode": quoted("reverse"),
        "listen": quoted(f"http://{address}"),
        "endpoint": quoted(options.endpoint),
        "upstream": quoted(""),
        "command": command,
        **recording.members(),
    }
    trace, journal, greeting = recording.for_part("http").begin(f"{options.label}-http", members)

    def record(wake_fd: int, asleep: "mmap.mmap") -> None:
        from mcpproxy.record.recorder.process import run as run_recorder

        recording.run_with_companions(
            trace,
            lambda: run_recorder(trace, wake_fd, asleep, recording.live, recording.is_quiet, leg="HTTP leg"),
        )

    def begin(number: int) -> "tuple[str, Journal | None, str]":
        session_members = {"transport": quoted("stdio"), "command": command, **recording.members()}
        return recording.for_part(f"stdio-{number}").begin(f"{options.label}-stdio", session_members)

    stderr = StderrLines(is_quiet=recording.is_quiet)
    leg = Leg(journal, record if journal else None, stderr)
    stderr.say(_leg_line("HTTP leg", greeting))
    url = f"http://{address}{options.endpoint}"
    text = f"listening on {url} -> {options.command[0]}, one process a session"
    listening = recording.note(text, "listening", url=quoted(url))
    import asyncio  # after the fork, like the next two: the recorder does not need them

    from mcpproxy.peers.bridge import http_process
    from mcpproxy.peers.session_server.resumable_streams import Polling

    settings = http_process.BridgeSettings(
        command=options.command,
        host=options.host,
        endpoint=options.endpoint,
        origins=options.origins,
        token=options.token,
        limit=options.limit,
        streams=options.streams,
        polling=None if options.poll_after_s is None else Polling(options.poll_after_s, options.poll_retry_s),
        idle_s=options.idle_s,
        grace_s=options.grace_s,
    )
    recorder_options = ["--live", recording.live, *(["--quiet"] if recording.is_quiet else [])]
    return asyncio.run(
        http_process.serve(settings, listener, leg, begin, recorder_options, stderr, listening)
    )
