"""The start of a wrapped session: first the server, then the imports that it need not wait for.

The server starts as if the host had started it: with its environment, descriptors and signal dispositions.
"""

from __future__ import annotations

import os

from mcpproxy.relay.stdio.descriptors import occupy_standard, open_descriptors
from mcpproxy.relay.stdio.signals import IGNORED, Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpproxy.relay.journal import Journal
    from mcpproxy.relay.stdio.forked_recorder import RecorderMain
    from mcpproxy.relay.stdio.relay import Relay


class WrappedServer:
    """The process id of the server, and the relay's ends of the pipes to its three standard streams."""

    __slots__ = ("pid", "stderr", "stdin", "stdout")

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr


def start_server(command: list[str], signals: Signals) -> WrappedServer:
    """Start ``command``, whose program is searched in PATH, with pipes for its standard streams.

    ``signals`` has the signal dispositions and the signal mask for the server.

    Raises:
        OSError: the program does not exist or cannot be run.
    """
    if not command[0]:
        import errno

        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    # The server inherits these too. Our copies are closed: the host must notice when the server closes them.
    inherited = [fd for fd in open_descriptors() if _inheritable(fd)]
    pipes = [os.pipe(), os.pipe(), os.pipe()]
    (stdin, to_server), (from_server, stdout), (errors, stderr) = pipes
    streams = (stdin, stdout, stderr)
    entries = environment()
    parts = [entry.partition(b"=") for entry in entries]
    mapping = {name: value for name, equals, value in parts if name and equals}
    try:
        # posix_spawn takes a mapping, and cannot start a server with SIGCHLD ignored, as a host may demand.
        if len(mapping) != len(entries) or signals.is_child_ignored:
            from mcpproxy.relay.stdio.forked_server import fork_server

            pid = fork_server(command, streams, entries, signals)
        else:
            pid = os.posix_spawnp(
                command[0],
                command,
                mapping,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(streams)],
                setsigmask=signals.blocked,
                setsigdef=IGNORED,
            )
    except OSError:
        for fd in (to_server, from_server, errors):
            os.close(fd)
        raise
    finally:
        for fd in streams:
            os.close(fd)
    for fd in inherited:
        os.close(fd)
    return WrappedServer(pid, to_server, from_server, errors)


def environment() -> list[bytes]:
    """Return the entries of the environment that the host gave us; most are ``name=value``.

    ``os.environ`` may differ: in the C locale Python sets LC_CTYPE for itself and its children (PEP 538), and
    ``os.environ`` lacks entries without ``=`` and repeated names.
    """
    try:
        with open("/proc/self/environ", "rb", buffering=0) as file:
            return file.readall().split(b"\0")[:-1]
    except OSError:
        return [name + b"=" + value for name, value in os.environb.items()]


def run(
    command: list[str],
    journal: Journal | None,
    recorder_main: RecorderMain | None,
    *,
    grace_s: float,
    quiet: bool = False,
    greeting: str = "",
    make_relay: Callable[[Journal | None, Signals, float, bool], Relay] | None = None,
) -> int:
    """Start ``command``, relay until it has exited, and return its exit code as a shell would.

    Args:
        command: program and arguments.
        journal: the journal to record in, or ``None`` to relay only.
        recorder_main: the function that the forked recorder runs (see ``fork_recorder``).
        grace_s: how long the server may take to exit, once it has to exit.
        quiet: write no lines of mcpproxy to stderr.
        greeting: the line to write to stderr when the server has started.
        make_relay: makes the `Relay`, if a subclass is to be used.

    Returns:
        The server's exit code, 128 + N when signal N ended it, 127 when there is no such command and
        126 when it cannot be run.
    """
    occupy_standard()
    signals = Signals()
    server = error = None
    try:
        server = start_server(command, signals)
    except OSError as caught:
        error = caught

    from mcpproxy.relay.exit_status import shell_code
    from mcpproxy.relay.stdio.forked_recorder import fork_recorder
    from mcpproxy.relay.stdio.relay import Relay

    relay = (make_relay or Relay)(journal, signals, grace_s, quiet)
    if server is not None:
        try:
            relay.attach_server(server)
        except OSError as caught:
            error = caught

    def start_recorder() -> None:
        if recorder_main is not None:
            relay.attach_recorder(fork_recorder(recorder_main, server, grace_s))

    return shell_code(relay.run(command, error, start_recorder, greeting))


def _inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:  # the descriptor with which the others were listed
        return False
