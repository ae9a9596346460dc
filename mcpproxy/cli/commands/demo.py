"""``mcpproxy demo``: record and show a small session.

A bundled server is started as any host would start it, and a bundled client talks to it. ``demo`` reads the
trace while it is written and prints it, like ``mcpproxy show --follow``.
"""

import os
import subprocess
import threading
import time
from typing import Final

from mcpproxy.base import paths
from mcpproxy.base.own_process import own_command
from mcpproxy.base.style import Style
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.calls.following import follow_one
from mcpproxy.cli.calls.screen import Screen
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.demo.client import converse
from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.record.relay import journal

DEADLINE_S: Final = 120.0
"""The demo is ended after this time, in case anything hangs."""
SERVER: Final = own_command("mcpproxy.demo.server")
FAILED_CALL: Final = 6
"""The row of the call to ``forecast`` that the server answers with an error."""


def run(argv: list[str]) -> int:
    """Record a session, print it while it runs, and suggest next steps. Return 1 if it failed.

    Raises:
        McpProxyError: nothing can be recorded, or the recording cannot be read.
    """
    Parser("demo", "Watch mcpproxy record and judge a small server with three faults.").parse_args(argv)
    folder = paths.state_dir()
    try:
        paths.make_private(folder)
    except OSError as error:
        reason = (error.strerror or "cannot be created").lower()
        raise UsageError(folder, reason, "name a writable folder in XDG_STATE_HOME") from None
    trace = os.path.join(folder, paths.trace_name("demo"))
    style = terminal_style()
    emit(_opening_lines(style), flush=True)
    with _wrapped_server(trace) as server:
        watchdog = threading.Timer(DEADLINE_S, server.kill)
        watchdog.daemon = True
        watchdog.start()
        failures: list[str] = []
        client = threading.Thread(target=_converse, args=(server, failures), daemon=True)
        client.start()
        try:
            _await_trace(trace, server)
            follow_one(trace, parse_filter(""), Screen(rewrites=False), poll_s=0.02)
            client.join()
        finally:
            watchdog.cancel()
    emit(_closing_lines(trace, style))
    if failures:
        tell(f"the demo failed: {failures[0]}; the recording shows how far it came")
    return 1 if failures else 0


def _wrapped_server(trace: str) -> subprocess.Popen[bytes]:
    """Start the bundled server as a host would: ``mcpproxy --``, then the server's command."""
    proxy = own_command("mcpproxy", "--trace", trace, "--label", "demo", "--quiet", "--")
    return subprocess.Popen(
        [*proxy, *SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _converse(server: subprocess.Popen[bytes], failures: list[str]) -> None:
    try:
        converse(server)
    except (EOFError, OSError) as error:
        failures.append(str(error))
        server.terminate()  # an orderly end, so that the recording is completed


def _await_trace(trace: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the recorder has opened the trace, or the proxy has ended and left its journal.

    Raises:
        UsageError: the proxy ended and left neither.
    """
    while not os.path.exists(trace):
        if server.poll() is not None:
            if any(map(os.path.exists, (trace, journal.folder(trace)))):
                return  # a recorder that runs, or the command that opens the trace, completes it
            printed = server.stderr.read().decode(errors="replace") if server.stderr else ""
            reason = printed.strip().rpartition("\n")[2].removeprefix("mcpproxy: ")
            raise UsageError(
                "demo", reason or f"the proxy ended with {server.returncode}", "nothing was recorded"
            )
        time.sleep(0.005)


def _opening_lines(style: Style) -> list[str]:
    return [
        "A client starts a small weather server that has three faults, and mcpproxy before it:",
        "",
        style.paint("  mcpproxy -- python -P -m mcpproxy.demo.server", "bold"),
        style.paint("  (typed in a terminal, it waits for what a client would send)", "dim"),
        "",
    ]


def _closing_lines(trace: str, style: Style) -> list[str]:
    """Return the lines after the demo: what to try next."""
    # A part of the name, because the user may record other sessions at the same time.
    handle = find_traces.handle_of(trace) or trace
    steps = (
        ("the session in a browser", "mcpproxy ui --open"),
        ("why a call failed", f"mcpproxy show --call {FAILED_CALL} {handle}"),
        ("the findings and their sources", f"mcpproxy check {handle}"),
        ("every message", f"mcpproxy show --frames {handle}"),
        ("what a rule means", "mcpproxy explain PROTO-007"),
    )
    lines = ["", "Try next:"]
    lines += [
        f"  {style.paint(f'{description:<32}', 'dim')}{style.paint(command, 'bold')}"
        for description, command in steps
    ]
    return [
        *lines,
        "",
        "For your own servers: mcpproxy wrap --all puts mcpproxy before each server of your hosts.",
    ]
